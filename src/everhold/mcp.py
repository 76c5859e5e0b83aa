"""A study as tools for agents (Model Context Protocol): ask, try_out, schema, status.

The study is on this machine (`Holdout`) or behind a server (`RemoteStudy`): both have the same methods.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal, Protocol

from everhold.errors import EverholdError, MissingExtra, QuestionError
from everhold.queries.answer import Preview
from everhold.queries.interval import Interval
from everhold.statistics import STATISTICS, statistic
from everhold.statistics.finding import Comparison, Finding, Result, Shares
from everhold.statistics.parameters import parameters
from everhold.statistics.statistic import Statistic
from everhold.version import VERSION

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.tools import Tool
    from mcp.types import ToolAnnotations
    from pydantic import Field
except ImportError:
    raise MissingExtra("the MCP server", "mcp") from None

__all__ = ["Askable", "tools"]

_ABOUT = """A private table that you may ask any number of questions, each chosen after seeing earlier answers. Every answer
carries an interval for the population; all intervals are valid at the same time, with the study's confidence, however you
search. So you cannot overfit this data: trust the interval, not the point. Call `schema` first. `try_out` asks the public
side alone and costs nothing: use it to check a question. A surprise is charged and widens later intervals a little; a
quiet answer costs next to nothing. Asking the same question again returns the recorded answer. Two things differ beyond
doubt only when their intervals do not overlap."""


class Askable(Protocol):
    """What tools need of a study; `Holdout` and `RemoteStudy` have it."""

    @property
    def rounds(self) -> int:
        """Questions so far."""

    @property
    def surprises(self) -> int:
        """Surprises among them."""

    @property
    def spent(self) -> float:
        """The price so far."""

    @property
    def size(self) -> int:
        """Private rows."""

    @property
    def schema(self) -> Any:
        """The declared columns."""

    def ask(self, question: Any) -> Any:
        """Ask for a statistic."""

    def try_out(self, question: Any) -> Any:
        """What the public side says of a question or a statistic."""


def tools(study: Askable, name: str) -> MCPServer[Any]:
    """The server with its tools."""

    def ask(question: str, what: str = "share", **given: Any) -> dict[str, Any]:
        return _in_words(lambda: study.ask(_statistic(question, what, given)))

    def try_out(question: str, what: str = "share", **given: Any) -> dict[str, Any]:
        if what == "share" and not given:  # a single question: also what a surprise would cost
            return _guarded(lambda: _preview(study.try_out(question)))
        return _in_words(lambda: study.try_out(_statistic(question, what, given)))

    ask.__doc__ = f"""Ask the private rows. The answer has an interval for the population. It is recorded first.

{_arguments_text()}"""
    try_out.__doc__ = f"""Try a question on the public side alone: the answer if nothing surprised. Costs nothing.

{_arguments_text()}"""

    def schema() -> dict[str, Any]:
        """The columns that can be asked about, with kinds, ranges and categories, and the words of questions."""

        def find() -> dict[str, Any]:
            declared = study.schema
            columns = [declared[one].to_dict() for one in declared]
            words = "AND OR NOT = <> < <= > >= BETWEEN IN LIKE 'IS NULL' CASE + - * / abs ln exp sqrt year month"
            return {"study": name, "columns": columns, "words": words}

        return _guarded(find)

    def status() -> dict[str, Any]:
        """How many questions were asked, how many surprised, and the price so far in nats."""
        return _guarded(
            lambda: {
                "study": name,
                "questions": study.rounds,
                "surprises": study.surprises,
                "spent": study.spent,
                "private_rows": study.size,
            }
        )

    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    asks = ToolAnnotations(read_only_hint=False, idempotent_hint=True, open_world_hint=False)
    made = [_strict(_described(ask), asks), _strict(_described(try_out), reads)]
    made += [_strict(one, reads) for one in (schema, status)]
    return MCPServer("everhold", instructions=_ABOUT, version=VERSION, tools=made, log_level="WARNING")


def _strict(work: Callable[..., dict[str, Any]], annotations: ToolAnnotations) -> Tool:
    """A tool that refuses arguments it does not know: one that was misspelled would be left out, and charged for."""
    tool = Tool.from_function(work, annotations=annotations)
    shape = tool.fn_metadata.arg_model
    shape.model_config["extra"] = "forbid"
    shape.model_config["strict"] = True
    shape.model_rebuild(force=True)
    tool.parameters = shape.model_json_schema(by_alias=True)
    return tool


def _described(work: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """The same with a parameter for each parameter of any statistic, in place of `**given`."""
    named = [one for kind in STATISTICS.values() for one in parameters(kind)[1:]]
    more = {one.name: Annotated[one.type | None, Field(description=_whose(one.name))] for one in named}
    kinds: Any = Literal[tuple(STATISTICS)]
    hints: dict[str, Any] = {"question": str, "what": kinds, **more}
    defaults = {"question": Parameter.empty, "what": "share"}
    signature = Signature(
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=hint, default=defaults.get(name))
            for name, hint in hints.items()
        ],
        return_annotation=dict[str, Any],
    )

    def described(**given: Any) -> dict[str, Any]:
        return work(**{name: value for name, value in given.items() if value is not None})

    described.__name__, described.__doc__ = work.__name__, work.__doc__
    described.__signature__ = signature  # type: ignore[attr-defined]
    described.__annotations__ = {**hints, "return": dict[str, Any]}
    return described


def _whose(name: str) -> str:
    """What a parameter is for, statistic by statistic where that differs."""
    found: dict[str, list[str]] = {}
    for kind in STATISTICS.values():
        for one in parameters(kind)[1:]:
            if one.name == name:
                found.setdefault(one.role.about, []).append(kind.name)
    return " ".join(f"{about} ({', '.join(kinds)})" for about, kinds in found.items())


def _arguments_text() -> str:
    lines = ["Args:", "    question: the first thing that the statistic is about:"]
    for kind in STATISTICS.values():
        lead, *others = parameters(kind)
        needs = [one.name for one in others if one.required]
        needed = f" Needs {' and '.join(needs)}." if needs else ""
        about = (kind.__doc__ or "").partition("\n")[0]
        lines.append(f"        {kind.name}: {about} {lead.role.about}{needed}")
    return "\n".join([*lines, "    what: the statistic."])


def _statistic(question: str, what: str, given: dict[str, Any]) -> Statistic[Any]:
    """The statistic; whatever does not belong to it is refused before anything is charged."""
    lead = parameters(STATISTICS[what])[0].name
    if lead in given:
        raise QuestionError(f"{lead!r} of a {what} is given twice: it is the question itself. Nothing was charged.")
    return statistic(what, {lead: question, **given})


def _preview(found: Preview) -> dict[str, Any]:
    said = f"{found.sketch:.4g}, for the population in {found.interval}, if nothing surprises"
    return {
        **found.to_dict(),
        "in_words": f"{said}; a surprise would cost at least {found.surprise_costs:.1f} nats more than a quiet answer",
    }


def _in_words(find: Callable[[], Result]) -> dict[str, Any]:
    def found_in_words() -> dict[str, Any]:
        found = find()
        shown = {key: value for key, value in found.to_dict().items() if key != "parts"}
        if isinstance(found, Shares):
            return {**shown, "cells": [{k: v for k, v in cell.items() if k != "parts"} for cell in shown["cells"]]}
        if isinstance(found, Finding):
            said = f"{found.value_text}, for the population in {found.interval_text}"
        else:
            said = f"{found.value:.4g}, for the population in {Interval(found.low, found.high)}"
        if isinstance(found, Comparison):
            said = f"{found.verdict}: {said}"
        return {**shown, "in_words": said + ("; a surprise, charged once" if found.surprise else "")}

    return _guarded(found_in_words)


def _guarded(work: Any) -> dict[str, Any]:
    """everhold's own errors go to the agent: they say what was expected and what to do."""
    try:
        found: dict[str, Any] = work()
        return found
    except (EverholdError, TypeError, ValueError) as error:
        raise ToolError(str(error)) from None
