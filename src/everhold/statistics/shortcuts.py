"""A method for each statistic, for whatever can answer a batch of linear questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from everhold.errors import QuestionError
from everhold.statistics.base import Statistic, run
from everhold.statistics.declared import Declared
from everhold.statistics.means import Compare, Difference, Mean, Share
from everhold.statistics.quantiles import Quantile
from everhold.statistics.spread import Correlation, Variance
from everhold.statistics.tables import Histogram, Table

if TYPE_CHECKING:
    from everhold.data.schema import Schema
    from everhold.queries.answer import Answer
    from everhold.queries.expression import BoundedMean, Expression
    from everhold.statistics.finding import Comparison, Finding, Shares

__all__ = ["Asker"]


class Asker:
    """The statistics as methods, on top of `_ask_parts`."""

    _most_cells = 10_000  # of one table

    def _ask_parts(self, queries: Sequence[Expression | BoundedMean]) -> list[Answer]:
        """Answers to linear questions, in order; yes/no as shares, bounded_mean ones on the [-1, 1] scale."""
        raise NotImplementedError

    def _declared(self) -> Schema:
        """The public columns."""
        raise NotImplementedError

    def _found(self, statistic: Statistic) -> Any:
        return run(statistic.steps(Declared(self._declared(), self._most_cells)), self._ask_parts)

    def _yes_no(self, text: str) -> Expression:
        if not isinstance(text, str):
            raise QuestionError(f'a question here is text, such as "age > 40", not {type(text).__name__}.')
        return Declared(self._declared()).yes_no(text)

    def share(self, question: str, *, given: str | None = None) -> Answer | Finding:
        """`eh.Share`."""
        found: Answer | Finding = self._found(Share(question, given))
        return found

    def mean(
        self, question: str, *, low: float | None = None, high: float | None = None, given: str | None = None
    ) -> Finding:
        """`eh.Mean`."""
        found: Finding = self._found(Mean(question, low, high, given))
        return found

    def difference(
        self, question: str, first: str, second: str, *, low: float | None = None, high: float | None = None
    ) -> Comparison:
        """`eh.Difference`.

        >>> # holdout.difference("smoker", "city = 'York'", "city = 'Leeds'")
        """
        found: Comparison = self._found(Difference(question, first, second, low, high))
        return found

    def compare(
        self, first: str, second: str, *, low: float | None = None, high: float | None = None, given: str | None = None
    ) -> Comparison:
        """`eh.Compare`."""
        found: Comparison = self._found(Compare(first, second, low, high, given))
        return found

    def variance(
        self, question: str, *, low: float | None = None, high: float | None = None, given: str | None = None
    ) -> Finding:
        """`eh.Variance`."""
        found: Finding = self._found(Variance(question, low, high, given))
        return found

    def correlation(
        self,
        first: str,
        second: str,
        *,
        first_range: tuple[float, float] | None = None,
        second_range: tuple[float, float] | None = None,
        given: str | None = None,
    ) -> Finding:
        """`eh.Correlation`."""
        found: Finding = self._found(Correlation(first, second, first_range, second_range, given))
        return found

    def quantile(
        self,
        question: str,
        level: float,
        *,
        low: float | str | None = None,
        high: float | str | None = None,
        given: str | None = None,
    ) -> Finding:
        """`eh.Quantile`."""
        found: Finding = self._found(Quantile(question, level, low, high, given))
        return found

    def median(
        self,
        question: str,
        *,
        low: float | str | None = None,
        high: float | str | None = None,
        given: str | None = None,
    ) -> Finding:
        """The middle: `eh.Quantile` at one half."""
        return self.quantile(question, 0.5, low=low, high=high, given=given)

    def histogram(
        self, question: str, *, bins: int = 10, edges: Sequence[float | str] | None = None, given: str | None = None
    ) -> Shares:
        """`eh.Histogram`."""
        found: Shares = self._found(Histogram(question, bins, edges, given))
        return found

    def table(self, first: str, second: str | None = None, *, bins: int = 5, given: str | None = None) -> Shares:
        """`eh.Table`."""
        found: Shares = self._found(Table(first, second, bins, given))
        return found
