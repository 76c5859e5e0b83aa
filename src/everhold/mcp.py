"""A study or a gate as tools for agents (Model Context Protocol): ask, try_out, the acts, schema, status; gate, gate_status.

The study is on this machine (`Holdout`) or behind a server (`RemoteStudy`): both have the same methods.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter as Argument, Signature
from typing import Annotated, Any, Literal

from everhold.acts import ACTS, AnyAct, Read, act_from, as_sent, do, questions_of
from everhold.client.sync import RemoteGate, RemoteStudy
from everhold.errors import EverholdError, MissingExtra, QuestionError
from everhold.gate.gate import Gate
from everhold.queries.disclosed import Choice, Decision, Verdict
from everhold.queries.interval import Interval
from everhold.report.facts import budget_facts
from everhold.session.holdout import Holdout
from everhold.statistics import STATISTICS, statistic
from everhold.statistics.finding import Comparison, Finding, Result, Shares
from everhold.statistics.means import Share
from everhold.statistics.parameters import Parameter, parameters
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

__all__ = ["AnyStudy", "gate_tools", "tools"]

_ABOUT = """A private table that you may ask any number of questions, each chosen after seeing earlier answers. Every
answer carries an interval for the population; all intervals are valid at the same time, with the study's confidence,
however you search. So you cannot overfit this data: trust the interval, not the point. Call `schema` first. `try_out`
asks the public side alone and costs nothing: use it to check a question, and to see what `ask` and `read` would show
and cost. `ask` is a forecast that the private rows agree with: almost free, so explore with it. A surprise is charged
and widens later intervals a little. `read` gives the private rows' own value with a narrow interval, and widens every
later interval: use it for the few numbers that you need before you can go on, and `read_many` when you know all of
them. `best_of` chooses among many candidates for little. `compare` certifies which of two is larger; `is_better` is
cheaper and certifies nothing. Asking the same question again returns the recorded answer. Two intervals that do not
overlap also show a difference."""

_ABOUT_GATE = """A gate for a system that you improve: is your candidate better than the incumbent, on sealed cases? `gate`
takes the candidate's outcome on every case and says promote or keep, nothing else. Every promotion is certified, and all of
them at the same time, so luck does not pass: submit a candidate because you have a reason to think that it is better. One
that is kept out costs little and a promotion more; `gate_status` says what is left."""

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ASKS = ToolAnnotations(read_only_hint=False, idempotent_hint=True, open_world_hint=False)

AnyStudy = Holdout | RemoteStudy
"""A study that tools can ask: both kinds have the same methods."""


def gate_tools(gate: Gate | RemoteGate) -> MCPServer[Any]:
    """The server of a gate."""
    return _server(_gate_tools(gate), _ABOUT_GATE)


def _server(tool_list: list[Tool], about: str) -> MCPServer[Any]:
    return MCPServer("everhold", instructions=about, version=VERSION, tools=tool_list, log_level="WARNING")


def tools(study: AnyStudy, name: str, *, closing: bool = False, gate: Gate | RemoteGate | None = None) -> MCPServer[Any]:
    """The server with its tools.

    Args:
        study: a `Holdout`, or a study behind a server.
        name: of the study.
        closing: whether there is a tool for the last act, which cannot be undone.
        gate: a gate that is offered as well.
    """

    def ask(question: str, what: str = "share", expect: float | None = None, **given: Any) -> dict[str, Any]:
        if expect is None:
            return _in_words(lambda: study.ask(_statistic(question, what, given)))
        if what != "share" or given:
            raise ToolError("expect is for single yes/no questions. Ask a statistic without it. Nothing was charged.")
        return _in_words(lambda: study.ask(question, expect=expect))

    def try_out(question: str, what: str = "share", **given: Any) -> dict[str, Any]:
        return _guarded(lambda: _tried(study, question, _statistic(question, what, given)))

    ask.__doc__ = f"""Ask the private rows. The answer has an interval for the population. It is recorded first. Almost free:
explore with it.

{_arguments_text()}"""
    try_out.__doc__ = f"""Try a question on the public side alone: what ask and what read would show, and what each costs
later answers. Costs nothing.

{_arguments_text()}"""

    def schema() -> dict[str, Any]:
        """The columns that can be asked about, with kinds, ranges and categories, and the words of questions."""

        def find() -> dict[str, Any]:
            declared = study.schema
            columns = [declared[column].to_dict() for column in declared]
            words = "AND OR NOT = <> < <= > >= BETWEEN IN LIKE 'IS NULL' CASE + - * / abs ln exp sqrt year month"
            return {"study": name, "columns": columns, "words": words}

        return _guarded(find)

    def status() -> dict[str, Any]:
        """How many questions were asked and surprised, the price of the next ask in nats, how wide readings are now."""
        return _guarded(lambda: {"study": name, **_status_facts(study)})

    ends = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
    tool_list = [_strict(_described(ask, {"expect": _EXPECT}), _ASKS), _strict(_described(try_out), _READS)]
    tool_list += [
        _strict(_act_tool(study, kind), ends if kind.permission == "manage" else _ASKS)
        for kind in ACTS.values()
        if closing or kind.permission != "manage"
    ]
    tool_list += [_strict(work, _READS) for work in (schema, status)]
    if gate is None:
        return _server(tool_list, _ABOUT)
    return _server([*tool_list, *_gate_tools(gate)], f"{_ABOUT}\n\n{_ABOUT_GATE}")


def _gate_tools(at: Gate | RemoteGate) -> list[Tool]:
    """One bit a candidate, and where the gate stands."""

    def gate(
        outcomes: Annotated[
            dict[str, Any],
            Field(
                description="The candidate's outcome on every case: true, false, a score between 0 and 1, or a list of runs."
            ),
        ],
        name: Annotated[str | None, Field(description="What the candidate is called in the record.")] = None,
        request_id: Annotated[
            str | None,
            Field(description="An id of this candidate alone: the same id again gets its recorded verdict, uncharged."),
        ] = None,
    ) -> dict[str, Any]:
        """Is a candidate better than the incumbent? Says promote or keep; if it is promoted, it is the new incumbent. A case
        without an outcome counts as a failure. Costs: one bit, little if it is kept out, more if it is promoted."""

        def check() -> dict[str, Any]:
            who: dict[str, Any] = {"who": "agent"} if isinstance(at, Gate) else {}  # a server knows by the token
            result = at.check(outcomes, name=name, request_id=request_id, **who)
            return {**result.to_dict(), "in_words": str(result)}

        return _guarded(check)

    def gate_status() -> dict[str, Any]:
        """Where the gate stands: checks and promotions so far, the incumbent's name, what can still be certified. Free."""

        def find() -> dict[str, Any]:
            result = at.status()
            return {**result.to_dict(), "in_words": str(result)}

        return _guarded(find)

    checks = ToolAnnotations(read_only_hint=False, idempotent_hint=False, open_world_hint=False)
    return [_strict(gate, checks), _strict(gate_status, _READS)]


def _strict(work: Callable[..., dict[str, Any]], annotations: ToolAnnotations) -> Tool:
    """A tool that refuses arguments it does not know: one that was misspelled would be left out, and charged for."""
    tool = Tool.from_function(work, annotations=annotations)
    shape = tool.fn_metadata.arg_model
    shape.model_config["extra"] = "forbid"
    shape.model_config["strict"] = True
    shape.model_rebuild(force=True)
    tool.parameters = shape.model_json_schema(by_alias=True)
    return tool


def _act_tool(study: AnyStudy, kind: type[AnyAct]) -> Callable[..., dict[str, Any]]:
    """The tool of an act, from its own description. `read` takes its question as `ask` does."""

    def work(**given: Any) -> dict[str, Any]:
        return _guarded(lambda: _returned(act_from(kind.name, given), study))

    def read(question: str, what: str = "share", **given: Any) -> dict[str, Any]:
        options = {name: given.pop(name) for name in ("spend", "expect") if name in given}
        plain = what == "share" and not given
        return _guarded(lambda: _returned(Read(question if plain else _statistic(question, what, given), **options), study))

    about = f"{(kind.__doc__ or '').strip()}\n\n{kind.when} Costs: {kind.costs}"
    named = parameters(kind)
    if kind is Read:
        read.__doc__ = f"{about}\n\n{_arguments_text()}"
        return _described(read, {parameter.name: _hint(parameter) for parameter in named if not parameter.required})
    work.__name__, work.__doc__ = kind.name, about
    return _with_parameters(
        work,
        {parameter.name: _hint(parameter) for parameter in named},
        {parameter.name for parameter in named if parameter.required},
    )


_AS_STATISTIC = ' A statistic is {"statistic": "mean", "arguments": {"question": "bmi", "given": "smoker"}}.'
_EXPECT = Annotated[
    float | None,
    Field(description="What you foresee for a single yes/no question, from public facts and earlier answers alone."),
]


def _hint(parameter: Parameter) -> Any:
    about = parameter.about + (_AS_STATISTIC if parameter.form in ("question", "questions") else "")
    return Annotated[parameter.type if parameter.required else parameter.type | None, Field(description=about)]


def _returned(act: AnyAct, study: AnyStudy) -> dict[str, Any]:
    """What an act returned, with a sentence for each result."""
    result = do(act, study)
    if isinstance(result, list):
        asked = [as_sent(question) for question in questions_of(act)]
        return {"results": [{"question": question, **_shown(each)} for question, each in zip(asked, result, strict=True)]}
    if isinstance(result, Choice):
        return {**result.to_dict(), "best": as_sent(questions_of(act)[result.index]), "in_words": str(result)}
    if isinstance(result, Decision | Verdict):
        return {**result.to_dict(), "in_words": str(result)}
    return _shown(result)


def _status_facts(study: AnyStudy) -> dict[str, Any]:
    """Where a study stands, here or behind a server."""
    if isinstance(study, Holdout):
        acts, closed = len(study.journal.recorded_acts), study.closed
        more = budget_facts(study.budget, study.size, acts=acts, closed=closed)
    else:
        status = study.status()
        shown = ("acts", "closed", "disclosed", "claim_price", "width", "width_text", "privacy")
        more = {name: status[name] for name in shown}
    return {
        "rounds": study.rounds,
        "surprises": study.surprises,
        "price": study.price,
        "private_rows": study.size,
        **more,
    }


def _described(work: Callable[..., dict[str, Any]], more: dict[str, Any] | None = None) -> Callable[..., dict[str, Any]]:
    """The same with a parameter for each parameter of any statistic, in place of `**given`, and some more."""
    named = [parameter for kind in STATISTICS.values() for parameter in parameters(kind)[1:]]
    others = {
        parameter.name: Annotated[parameter.type | None, Field(description=_whose(parameter.name))] for parameter in named
    }
    kinds: Any = Literal[tuple(STATISTICS)]
    hints: dict[str, Any] = {"question": str, "what": kinds, **others, **(more or {})}
    return _with_parameters(work, hints, {"question"}, {"what": "share"})


def _with_parameters(
    work: Callable[..., dict[str, Any]],
    hints: dict[str, Any],
    required: set[str],
    defaults: dict[str, Any] | None = None,
) -> Callable[..., dict[str, Any]]:
    """The same with a signature that a tool's schema is made from. What is left out is not passed on."""
    defaults_of = {name: Argument.empty if name in required else (defaults or {}).get(name) for name in hints}
    signature = Signature(
        [Argument(name, Argument.KEYWORD_ONLY, annotation=hint, default=defaults_of[name]) for name, hint in hints.items()],
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
    meanings: dict[str, list[str]] = {}
    for kind in STATISTICS.values():
        for parameter in parameters(kind)[1:]:
            if parameter.name == name:
                meanings.setdefault(parameter.about, []).append(kind.name)
    return " ".join(f"{about} ({', '.join(kinds)})" for about, kinds in meanings.items())


def _arguments_text() -> str:
    lines = ["Args:", "    question: what the statistic is about first:"]
    for kind in STATISTICS.values():
        lead, *others = parameters(kind)
        needs = [parameter.name for parameter in others if parameter.required]
        needed = f" Needs {' and '.join(needs)}." if needs else ""
        about = (kind.__doc__ or "").partition("\n")[0]
        lines.append(f"        {kind.name}: {about} {lead.about}{needed}")
    return "\n".join([*lines, "    what: the statistic."])


def _statistic(question: str, what: str, given: dict[str, Any]) -> Statistic[Any]:
    """The statistic; whatever does not belong to it is refused before anything is charged."""
    lead = parameters(STATISTICS[what])[0].name
    if lead in given:
        raise QuestionError(f"{lead!r} of a {what} is given twice: it is the question itself. Nothing was charged.")
    return statistic(what, {lead: question, **given})


def _tried(study: AnyStudy, question: str, statistic: Statistic[Any]) -> dict[str, Any]:
    """What ask and read would show. A single question also has its preview, with the tolerance."""
    trial = study.try_both(statistic)
    plain = study.try_out(question).to_dict() if statistic == Share(question) else _shown(trial.ask)
    both = {"ask": _shown(trial.ask), "read": _shown(trial.read), "read_costs": trial.read_costs}
    return {**plain, **both, "surprise_costs": trial.surprise_costs, "in_words": str(trial)}


def _in_words(find: Callable[[], Result]) -> dict[str, Any]:
    return _guarded(lambda: _shown(find()))


def _shown(result: Result) -> dict[str, Any]:
    """A result without its parts, with a sentence."""
    shown = {key: value for key, value in result.to_dict().items() if key != "parts"}
    if isinstance(result, Shares):
        return {**shown, "cells": [{k: v for k, v in cell.items() if k != "parts"} for cell in shown["cells"]]}
    if isinstance(result, Finding):
        sentence = f"{result.value_text}, for the population in {result.interval_text}"
        kind = result.parts[-1].kind_text if result.parts else ""
    else:
        sentence = f"{result.value:.4g}, for the population in {Interval(result.low, result.high)}"
        kind = result.kind_text
    if isinstance(result, Comparison):
        sentence = f"{result.verdict_text}: {sentence}"
    kind = "a surprise, charged once" if result.surprise else kind
    return {**shown, "in_words": f"{sentence}; {kind}" if kind else sentence}


def _guarded(work: Any) -> dict[str, Any]:
    """everhold's own errors go to the agent: they say what was expected and what to do."""
    try:
        result: dict[str, Any] = work()
        return result
    except (EverholdError, TypeError, ValueError) as error:
        raise ToolError(str(error)) from None
