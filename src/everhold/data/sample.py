"""The private side: rows that nothing leaves except one exact total a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.data.table import Table, as_table
from everhold.queries.expression import columns_of

if TYPE_CHECKING:
    from everhold.queries.expression.tree import Kind
    from everhold.queries.grid import Scale
    from everhold.queries.query import Query

__all__ = ["Sample"]


class Sample:
    """Private rows in memory.

    Its size is public; its repr shows nothing else.
    """

    def __init__(self, source: object) -> None:
        self._table = as_table(source, what="the private table")
        self.size = self._table.size

    def total(self, query: Query, scale: Scale) -> int:
        """Σ of a question's values over the private rows, exact, in multiples of 1/VALUE_ONE."""
        return query.on_sample(self._table, self.size, scale)

    def columns(self) -> dict[str, Kind]:
        """Names and kinds of the columns that text questions may use. Part of the schema, which is public."""
        return columns_of(self._table)

    def differs_from(self, public: Table) -> str | None:
        """How a public table's columns differ from the private one's, as a sentence; names and kinds only."""
        return public.check_like(self._table)

    def __repr__(self) -> str:
        return f"Sample({self.size:,} private rows)"
