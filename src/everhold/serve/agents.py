"""A study as tools for agents (Model Context Protocol): ask, try_out, schema, status.

The study is on this machine (`Holdout`) or behind a server (`RemoteStudy`): both have the same methods.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from everhold.errors import EverholdError, MissingExtra
from everhold.queries.interval import Interval
from everhold.questions.finding import Comparison, Finding, Shares
from everhold.serve.wire import Result, column_out, found_out, preview_out

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
except ImportError:
    raise MissingExtra("the MCP server", "mcp") from None

__all__ = ["Askable", "tools"]

What = Literal["share", "mean", "median", "quantile", "variance", "histogram", "table"]

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
    server: MCPServer[Any] = MCPServer("everhold", instructions=_ABOUT, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    @server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True, open_world_hint=False))
    def ask(
        question: str,
        what: What = "share",
        given: str | None = None,
        low: float | None = None,
        high: float | None = None,
        level: float | None = None,
        second: str | None = None,
    ) -> dict[str, Any]:
        """Ask the private rows. The answer is recorded before it is told, with an interval for the population.

        Args:
            question: for a share a yes/no expression such as "age > 40 AND smoker"; for a mean, median, quantile or
                variance a number such as "bmi"; for a histogram or table a column.
            what: share, mean, median, quantile, variance, histogram or table.
            given: only rows for which this yes/no expression is true.
            low, high: the range of a mean, median, quantile or variance, where the column has no declared one.
            level: of a quantile, strictly between 0 and 1.
            second: the second column of a table.
        """
        return _told(lambda: _find(study, question, what, given, low, high, level, second))

    @server.tool(annotations=reads)
    def try_out(question: str) -> dict[str, Any]:
        """Try a yes/no question on the public side alone: checks it and shows the interval that a quiet answer would carry.
        Costs nothing and touches no private row."""
        return _guarded(lambda: preview_out(study.try_out(question)))

    @server.tool(annotations=reads)
    def schema() -> dict[str, Any]:
        """The columns that can be asked about, with kinds, ranges and categories, and the words of questions."""

        def find() -> dict[str, Any]:
            declared = study.schema
            columns = [column_out(declared[one]) for one in declared]
            words = "AND OR NOT = <> < <= > >= BETWEEN IN LIKE 'IS NULL' CASE + - * / abs ln exp sqrt year month"
            return {"study": name, "columns": columns, "words": words}

        return _guarded(find)

    @server.tool(annotations=reads)
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

    return server


def _find(
    study: Any, question: str, what: What, given: str | None, low: float | None, high: float | None,
    level: float | None, second: str | None,
) -> Result:  # fmt: skip
    arguments: dict[str, Any] = {"given": given}
    if what in ("mean", "median", "quantile", "variance"):
        arguments |= {"low": low, "high": high}
    positional: list[Any] = [question]
    if what == "quantile":
        positional.append(0.5 if level is None else level)
    if what == "table":
        positional.append(second)
    found: Result = getattr(study, what)(*positional, **arguments)
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
