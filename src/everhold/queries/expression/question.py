"""Text questions as `Query` objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from everhold.queries.expression.program import Columns, CompiledQuestion
from everhold.queries.expression.tree import size_of
from everhold.queries.grid import STEPS, VALUE_ONE, GridValues

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.expression.tree import Node
    from everhold.queries.grid import Scale, Sums
    from everhold.queries.query import Query, Rows

__all__ = ["BoundedMean", "Evaluated", "Expression", "RowsOfUnits", "TextQuestion", "size_of_query", "without_values"]


class RowsOfUnits(Protocol):
    """Rows grouped by the unit they belong to; each unit is one draw."""

    def __len__(self) -> int:
        """The number of units."""

    def average(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean of the steps within each unit, rounded to whole steps."""


class TextQuestion(Protocol):
    """The form that engines evaluate: a typed tree, and how its value maps to steps from 0 to STEPS."""

    @property
    def tree(self) -> Node:
        """The expression to evaluate on each row."""

    @property
    def yes_no(self) -> bool:
        """Whether the tree is yes/no: STEPS where it is true, 0 elsewhere."""

    @property
    def given(self) -> Node | None:
        """A condition; rows on which it is not true have 0 steps."""

    @property
    def low(self) -> float:
        """The value with 0 steps; smaller values have 0 steps too."""

    @property
    def high(self) -> float:
        """The value with STEPS steps; larger values have STEPS too."""

    @property
    def reverse(self) -> bool:
        """Whether to count from the high end."""


def _values(question: TextQuestion, rows: Rows, size: int) -> GridValues:
    """A question's values on the rows of a table, or on its units."""
    units: RowsOfUnits | None = getattr(rows, "units", None)
    program = CompiledQuestion(question, Columns(rows))
    count = size if units is None else rows.row_count  # type: ignore[attr-defined]
    return as_grid(program.values(count), units)


def as_grid(values: NDArray[Any], units: RowsOfUnits | None) -> GridValues:
    """Booleans or steps of every row as values on the grid, averaged within units if there are any."""
    if units is not None:
        steps = values.astype(np.float64)
        return GridValues("mean", units.average(steps * STEPS if values.dtype == np.bool_ else steps) - VALUE_ONE)
    return GridValues("share", values) if values.dtype == np.bool_ else GridValues("mean", values - VALUE_ONE)


@dataclass(frozen=True, slots=True)
class Expression:
    """A yes/no question as text. Its name is its canonical text, so asking it again returns the recorded answer."""

    tree: Node
    name: str
    repeatable: bool = field(default=True, init=False)
    text: bool = field(default=True, init=False)
    yes_no: bool = field(default=True, init=False)
    given: Node | None = field(default=None, init=False)
    low: float = field(default=0.0, init=False)
    high: float = field(default=1.0, init=False)
    reverse: bool = field(default=False, init=False)

    def on_reference(self, rows: Rows, size: int, *, verify: bool = False) -> GridValues:
        """The rows on which it is true."""
        return _values(self, rows, size)

    def on_sample(self, rows: Rows, size: int, scale: Scale) -> Sums:
        """The exact sums on private rows; never raises, whatever they hold."""
        return _values(self, rows, size).sums


@dataclass(frozen=True, slots=True)
class BoundedMean:
    """A number as text, clipped to a range: 0 steps at `low`, STEPS at `high`, 0 steps if missing.

    Attributes:
        given: only rows on which this is true count; the others have 0 steps.
        reverse: count from the high end; the two directions add up to the share of rows that count.
    """

    tree: Node
    low: float
    high: float
    name: str
    given: Node | None = None
    reverse: bool = False
    repeatable: bool = field(default=True, init=False)
    text: bool = field(default=True, init=False)
    yes_no: bool = field(default=False, init=False)

    def on_reference(self, rows: Rows, size: int, *, verify: bool = False) -> GridValues:
        """Its position between the ends, on every row."""
        return _values(self, rows, size)

    def on_sample(self, rows: Rows, size: int, scale: Scale) -> Sums:
        """The exact sums on private rows; never raises, whatever they hold."""
        return _values(self, rows, size).sums


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """A question whose values on the fixed public rows are there already: it is prepared once, however it is asked.

    Attributes:
        question: the question itself.
        grid: makes its public values from what was kept of them.
    """

    question: Query
    grid: Callable[[], GridValues]

    @classmethod
    def from_scan(
        cls, question: Expression | BoundedMean, column: NDArray[Any], rows: int, units: RowsOfUnits | None
    ) -> Evaluated:
        """A text question after a scan of the public rows: bits where it is yes/no, steps where it is a number."""

        def grid() -> GridValues:
            values = np.unpackbits(column, count=rows).view(np.bool_) if question.yes_no else column
            return as_grid(values, units)

        return cls(question, grid)

    @property
    def name(self) -> str | None:
        """The question's own name."""
        return self.question.name

    @property
    def repeatable(self) -> bool:
        """As the question itself."""
        return self.question.repeatable

    @property
    def text(self) -> bool:
        """As the question itself."""
        return self.question.text

    @property
    def yes_no(self) -> bool:
        """As the question itself."""
        return self.question.yes_no

    def on_reference(self, rows: Rows, size: int, *, verify: bool = False) -> GridValues:
        """The values that were kept."""
        return self.grid()

    def on_sample(self, rows: Rows, size: int, scale: Scale) -> Sums:
        """The exact sums on private rows, from the wrapped question."""
        return self.question.on_sample(rows, size, scale)


def without_values(query: Query) -> Query:
    """A question without the values that were kept of it."""
    return query.question if isinstance(query, Evaluated) else query


def size_of_query(query: object) -> int:
    """The number of parts of a text question, including its condition; 1 for any other question."""
    question = query.question if isinstance(query, Evaluated) else query
    if not isinstance(question, Expression | BoundedMean):
        return 1
    return size_of(question.tree) + (0 if question.given is None else size_of(question.given))
