"""Yes/no questions that are read: cells of the private share, ends by the exact tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, inf
from typing import TYPE_CHECKING

from everhold.bounds.binomial import binomial_interval
from everhold.bounds.code import ANSWERED_NATS, NOTHING_NATS
from everhold.mechanism.measures.cells import Cells
from everhold.mechanism.measures.measure import (
    Lesson,
    MeasureInputs,
    cell_in,
    count_of,
    in_steps,
    lesson_within,
    position_of,
    share_spread,
)
from everhold.queries.grid import STEPS
from everhold.queries.protocol import NOTHING

if TYPE_CHECKING:
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = ["CountCells", "count_interval"]


@dataclass(frozen=True, slots=True, eq=False)
class CountCells:
    """A yes/no question read: the cell of the private share."""

    query: Query
    forecast: SketchValue
    inputs: MeasureInputs
    cells: Cells = field(init=False)

    def __post_init__(self) -> None:
        u = position_of(self.forecast)
        spread = share_spread(float(u), self.inputs.rows, self.forecast.draws)
        alone = share_spread(float(u), self.inputs.rows, inf)
        object.__setattr__(self, "cells", Cells.around(u, spread, alone, self.inputs))

    @property
    def needs(self) -> tuple[Query, ...]:
        """The question."""
        return (self.query,)

    def decide(self, sums: Sequence[Sums]) -> int:
        """The cell."""
        return self.cells.of(Fraction(count_of(sums[0], self.inputs.rows), self.inputs.rows))

    def value(self, sums: Sequence[Sums]) -> Fraction:
        """The private mean."""
        return Fraction(in_steps(sums[0], self.inputs.rows)[0], self.inputs.rows * STEPS)

    def deviation(self, outcome: Outcome) -> float | None:
        """By the cell."""
        return None if outcome == NOTHING else self.cells.deviation(cell_in(outcome))

    def charge(self, outcome: Outcome) -> float:
        """The reading's code."""
        return NOTHING_NATS if outcome == NOTHING else ANSWERED_NATS + self.cells.charge(cell_in(outcome))

    def counts(self, outcome: Outcome) -> tuple[int, int]:
        """The least and the largest count with this outcome."""
        if outcome == NOTHING:
            return 0, self.inputs.rows
        low, high = self.cells.edges(cell_in(outcome))
        n = self.inputs.rows
        return max(ceil(n * low), 0), min(ceil(n * high) - 1, n)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """By the exact tail."""
        least, most = self.counts(outcome)
        value = float(Fraction(least + most, 2 * self.inputs.rows))
        return min(max(value, 0.0), 1.0), *count_interval(least, most, self.inputs)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """A cell off the forecast teaches."""
        if outcome == NOTHING or outcome == 0:
            return None
        low, high = self.cells.edges(cell_in(outcome))
        return lesson_within(2 * low - 1, 2 * high - 1, self.forecast)


def count_interval(least: int, most: int, inputs: MeasureInputs) -> tuple[float, float]:
    """All population shares if the count is in [least, most]; of these rows the analyst may know some."""
    if most < least:  # no count has this outcome
        return 0.0, 1.0
    return binomial_interval(max(least - inputs.known_rows, 0), min(most, inputs.others), inputs.others, inputs.price)
