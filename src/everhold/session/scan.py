"""Questions evaluated on both sides: many texts in one scan, each value once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from everhold.errors import QuestionError
from everhold.queries.expression import BoundedMean, Expression
from everhold.queries.expression.composites import COMPOSITES, QuantileOf
from everhold.queries.expression.program import Columns, CompiledBatch, TooSlow
from everhold.queries.expression.question import Evaluated, size_of_query

if TYPE_CHECKING:
    from everhold.data.sample import Sample
    from everhold.data.table import RowTable
    from everhold.queries.grid import Scale, Sums
    from everhold.queries.query import Query

__all__ = ["Scanner", "SumsByName"]

SumsByName = dict[str | None, "Sums"]
"""Private sums by the name of their question."""

_LIGHT = 5_000_000  # parts times public rows: what takes less is not worth preparing


class Scanner:
    """The private rows, and fixed public rows where there are some.

    Args:
        sample: the private rows.
        public_rows: fixed public rows that the mechanism works on; None where they are drawn anew.
    """

    def __init__(self, sample: Sample, public_rows: RowTable | None) -> None:
        self.sample, self.public_rows = sample, public_rows

    def scan(self, new: Mapping[str | None, Query]) -> tuple[dict[str | None, Query], SumsByName]:
        """Text questions of a batch, evaluated on both sides at once; by name. Less than two need no scan."""
        linear = {part.name: part for query in new.values() for part in _linear(query)}
        if len(linear) < 2:
            return {}, {}
        sums: SumsByName = dict(zip(linear, self.sample.sums(list(linear.values())), strict=True))
        ready: dict[str | None, Query] = {name: query for name, query in new.items() if isinstance(query, Evaluated)}
        texts = [query for query in new.values() if isinstance(query, Expression | BoundedMean)]
        if self.public_rows is not None and texts:
            ready |= {query.name: query for query in self.evaluate(texts, None)}
        return ready, sums

    def sums(
        self, needs: Sequence[Query], scale: Scale, rows_read: Any = None, scanned: SumsByName | None = None
    ) -> list[Sums]:
        """The private sums of linear questions: texts in one scan, unless they are among the `scanned`."""
        if rows_read is not None or not scanned or not all(need.text and need.name in scanned for need in needs):
            return self.sample.sums(needs, scale, rows_read)
        return [scanned[need.name] for need in needs]

    def evaluate(self, texts: Sequence[Expression | BoundedMean], until: float | None) -> list[Evaluated]:
        """Text questions on the fixed public rows, in one scan."""
        rows = self.public_rows
        if rows is None:
            raise QuestionError("there are no fixed public rows.")
        values = CompiledBatch(texts, Columns(rows)).values(rows.row_count, until=until)
        return [
            Evaluated.from_scan(query, column, rows.row_count, rows.units)
            for query, column in zip(texts, values, strict=True)
        ]

    def prepare(self, queries: Sequence[Query], *, seconds: float) -> list[Query]:
        """Text questions with their values on the public rows, so that asking them is quick. Any thread may call it.

        Small questions are returned as they are. No private row is read.

        Raises:
            QuestionError: it takes longer than so many seconds.
        """
        if self.is_light(queries):
            return list(queries)
        return [self._prepare(query, seconds) for query in queries]

    def _prepare(self, query: Query, seconds: float) -> Query:
        if not isinstance(query, Expression | BoundedMean) or self.public_rows is None:
            return query
        try:
            return self.evaluate([query], monotonic() + seconds)[0]
        except TooSlow:
            raise QuestionError(
                f"the question takes longer than {seconds:g} s on the public rows. Expected a smaller one."
            ) from None

    def is_light(self, queries: Sequence[Query]) -> bool:
        """Whether questions are so small together that they need not be prepared: by sizes and the number of public rows."""
        rows = 0 if self.public_rows is None else self.public_rows.row_count
        return sum(size_of_query(query) for query in queries if not isinstance(query, Evaluated)) * rows <= _LIGHT


def _linear(query: Query) -> Sequence[Query]:
    """The linear questions that a text question is made of, where they are fixed by the question."""
    if isinstance(query, QuantileOf):
        return ()
    return query.parts if isinstance(query, COMPOSITES) else (query,)
