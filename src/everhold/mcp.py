"""A study as tools for agents (Model Context Protocol): ask, try_out, schema, status.

The study is on this machine (`Holdout`) or behind a server (`RemoteStudy`): both have the same methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from everhold.client.json_codec import Result, column_out, found_out, preview_out
from everhold.errors import EverholdError, MissingExtra, QuestionError
from everhold.queries.interval import Interval
from everhold.statistics.finding import Comparison, Finding, Shares
from everhold.version import VERSION

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.tools import Tool
    from mcp.types import ToolAnnotations
except ImportError:
    raise MissingExtra("the MCP server", "mcp") from None

__all__ = ["Askable", "tools"]

What = Literal[
    "share", "mean", "median", "quantile", "variance", "histogram", "table", "difference", "compare", "correlation"
]
_TAKES: dict[str, tuple[str, ...]] = {
    "share": ("given",),
    "mean": ("given", "low", "high"),
    "median": ("given", "low", "high"),
    "quantile": ("given", "low", "high", "level"),
    "variance": ("given", "low", "high"),
    "histogram": ("given", "bins"),
    "table": ("given", "bins", "second"),
    "difference": ("low", "high", "first_group", "second_group"),
    "compare": ("given", "low", "high", "second"),
    "correlation": ("given", "second"),
}
_NEEDS = {"difference": ("first_group", "second_group"), "compare": ("second",), "correlation": ("second",)}

_ABOUT = """A private table that you may ask any number of questions, each chosen after seeing earlier answers. Every answer
carries an interval for the population; all intervals hold together with the study's confidence, however you search, so
you cannot overfit this data: trust the interval, not the point. Call `schema` first. `try_out` asks the public side alone
and costs nothing: use it to check a question. A surprise is charged and widens later intervals a little; a quiet answer
costs next to nothing. Asking the same question again returns the recorded answer. Two things differ beyond doubt only when
their intervals do not overlap."""


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

    @property
    def rehearsal(self) -> Any:
        """The same questions on the public side."""

    def try_out(self, question: str) -> Any:
        """What the public side says."""


def tools(study: Askable, name: str) -> MCPServer[Any]:
    """The server with its tools."""

    def ask(
        question: str,
        what: What = "share",
        given: str | None = None,
        low: float | None = None,
        high: float | None = None,
        level: float | None = None,
        second: str | None = None,
        first_group: str | None = None,
        second_group: str | None = None,
        bins: int | None = None,
    ) -> dict[str, Any]:
        """Ask the private rows. The answer is recorded before it is returned, with an interval for the population.

        Args:
            question: for a share a yes/no expression such as "age > 40 AND smoker"; for a mean, median, quantile or
                variance a number such as "bmi"; for a histogram or table a column; the first of two for compare and
                correlation.
            what: share, mean, median, quantile, variance, histogram, table, difference (between two groups), compare (is it
                larger than the second) or correlation (with the second).
            given: only rows for which this yes/no expression is true.
            low, high: the range of a mean, median, quantile, variance, difference or comparison, where the column has no
                declared one.
            level: of a quantile, strictly between 0 and 1.
            second: the second column of a table, or what is compared or correlated with.
            first_group, second_group: yes/no expressions of the two groups of a difference.
            bins: of a histogram or table.
        """
        more = {"given": given, "low": low, "high": high, "level": level, "second": second, "bins": bins}
        more |= {"first_group": first_group, "second_group": second_group}
        given_ones = {key: value for key, value in more.items() if value is not None}
        return _told(lambda: _find(study, question, what, given_ones))

    def try_out(question: str) -> dict[str, Any]:
        """Try a yes/no question on the public side alone: checks it and shows the interval that a quiet answer would carry.
        Costs nothing and touches no private row."""
        return _guarded(lambda: preview_out(study.try_out(question)))

    def schema() -> dict[str, Any]:
        """The columns that can be asked about, with kinds, ranges and categories, and the words of questions."""

        def find() -> dict[str, Any]:
            declared = study.schema
            columns = [column_out(declared[one]) for one in declared]
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
    made = [_strict(ask, asks), *(_strict(one, reads) for one in (try_out, schema, status))]
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


def _find(study: Any, question: str, what: What, given: dict[str, Any]) -> Result:
    """Ask it; what does not belong to this kind of question is refused before anything is charged."""
    for name in given:
        if name not in _TAKES[what]:
            takes = ", ".join(_TAKES[what])
            raise QuestionError(f"a {what} takes no {name!r}. Expected none but {takes}. Nothing was charged.")
    for name in _NEEDS.get(what, ()):
        if name not in given:
            raise QuestionError(f"a {what} needs {name!r}. Nothing was charged.")
    first: list[Any] = [question]
    if what == "quantile":
        first.append(given.pop("level", 0.5))
    elif what == "difference":
        first += [given.pop("first_group"), given.pop("second_group")]
    elif "second" in _TAKES[what]:
        first.append(given.pop("second", None))
    found: Result = getattr(study, what)(*first, **given)
    return found


def _told(find: Any) -> dict[str, Any]:
    def told() -> dict[str, Any]:
        found = find()
        shown = {key: value for key, value in found_out(found).items() if key != "parts"}
        if isinstance(found, Shares):
            return {**shown, "cells": [{k: v for k, v in cell.items() if k != "parts"} for cell in shown["cells"]]}
        if isinstance(found, Finding):
            said = f"{found.value_text}, for the population in {found.interval_text}"
        else:
            said = f"{found.value:.4g}, for the population in {Interval(found.low, found.high)}"
        if isinstance(found, Comparison):
            said = f"{found.verdict}: {said}"
        return {**shown, "in_words": said + ("; a surprise, charged once" if found.surprise else "")}

    return _guarded(told)


def _guarded(work: Any) -> dict[str, Any]:
    """everhold's own errors are told to the agent: they say what was expected and what to do."""
    try:
        found: dict[str, Any] = work()
        return found
    except (EverholdError, TypeError, ValueError) as error:
        raise ToolError(str(error)) from None
