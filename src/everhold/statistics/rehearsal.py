"""The same questions on the public side alone: nothing is spent, no private row is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from everhold.errors import QuestionError
from everhold.queries.answer import Answer
from everhold.statistics.groups import By
from everhold.statistics.means import Compare, Difference, Mean, Ratio, Share
from everhold.statistics.quantiles import Median, Quantile
from everhold.statistics.shortcuts import shortcut
from everhold.statistics.spread import Correlation, Variance
from everhold.statistics.tables import Histogram, Table

if TYPE_CHECKING:
    from everhold.data.schema import Schema
    from everhold.queries.answer import Preview
    from everhold.statistics.statistic import Statistic

__all__ = ["Rehearsal", "as_answer"]

R = TypeVar("R")


def as_answer(preview: Preview) -> Answer:
    """The answer that would be returned if nothing surprised."""
    return Answer(preview.sketch, preview.low, preview.high, False, 0, preview.price, preview.scale)


class Rehearsal:
    """Answers as they would be if no part were a surprise: the sketch's value, with the interval it would carry.

    Args:
        ask: a statistic on the public side.
        try_out: a yes/no question on the public side.
        schema: the declared columns, for groups.
    """

    def __init__(
        self,
        ask: Callable[[Statistic[Any]], Any],
        try_out: Callable[[str], Preview],
        schema: Callable[[], Schema] | None = None,
    ) -> None:
        self._ask, self._try_out, self._schema = ask, try_out, schema

    @overload
    def ask(self, question: str) -> Answer: ...

    @overload
    def ask(self, question: Statistic[R]) -> R: ...

    def ask(self, question: str | Statistic[R]) -> Answer | R:
        """What `holdout.ask` would return if nothing surprised: a yes/no question as text, or a statistic."""
        result: Answer | R = self._ask(Share(question) if isinstance(question, str) else question)
        return result

    def try_out(self, question: str) -> Preview:
        """What the public side says of a yes/no question, and what a surprise would cost."""
        return self._try_out(question)

    def by(self, *columns: str) -> By:
        """Statistics by groups, as `holdout.by` would return them if nothing surprised."""
        if self._schema is None:
            raise QuestionError("this rehearsal has no schema, so there are no groups to name.")
        return By(lambda statistics: [self._ask(statistic) for statistic in statistics], self._schema(), columns)

    share = shortcut(Share)
    mean = shortcut(Mean)
    difference = shortcut(Difference)
    compare = shortcut(Compare)
    ratio = shortcut(Ratio)
    median = shortcut(Median)
    quantile = shortcut(Quantile)
    variance = shortcut(Variance)
    correlation = shortcut(Correlation)
    histogram = shortcut(Histogram)
    table = shortcut(Table)

    def __repr__(self) -> str:
        return "Rehearsal(ask on the public side: nothing is spent)"
