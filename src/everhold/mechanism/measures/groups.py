"""Shares and means within a group, given how many rows it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from everhold.bounds.binomial import binomial_interval
from everhold.mechanism.measures.cells import LadderedCells, LadderedMeasure, PrivateEstimate
from everhold.mechanism.measures.measure import (
    Lesson,
    MeasureInputs,
    cell_and_step,
    count_of,
    in_steps,
    one_row,
    position_of,
    share_spread,
    spread_of,
)
from everhold.mechanism.measures.numbers import Rates
from everhold.queries.grid import STEPS, VALUE_ONE, GridValues
from everhold.queries.protocol import NOTHING, QUIET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.expression.composites import GroupMean, GroupShare
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = ["GroupMeanCells", "GroupShareCells"]


@dataclass(frozen=True, slots=True, eq=False)
class GroupShareCells(LadderedMeasure):
    """A share within a group: the exact tail, given how many rows are in the group."""

    query: GroupShare
    forecast: SketchValue
    values: tuple[GridValues, GridValues] | None
    inputs: MeasureInputs
    laddered: LadderedCells = field(init=False)

    def __post_init__(self) -> None:
        u = position_of(self.forecast)
        rows = max(self.inputs.others * self.forecast.group, 1.0)
        m = max(round(rows), 1)
        k = min(max(round(float(u) * m), 0), m)
        low, high = binomial_interval(k, k, m, self.inputs.price)
        radii = max(k / m - low, 0.0), max(high - k / m, 0.0)
        spread = share_spread(float(u), rows, self.forecast.draws)
        alone = share_spread(float(u), rows, inf)
        laddered = LadderedCells.around(u, spread, alone, radii, min(rows, self.forecast.draws), self.inputs)
        object.__setattr__(self, "laddered", laddered)

    @property
    def needs(self) -> tuple[Query, ...]:
        """Yes and in the group, no and in the group."""
        return self.query.parts

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the two counts."""
        yes, no = (count_of(total, self.inputs.rows) for total in sums)
        if yes + no == 0:
            return NOTHING
        others = yes + no - self.inputs.known_rows
        ends = 0.0, 1.0
        if others > 0:
            ends = binomial_interval(max(yes - self.inputs.known_rows, 0), min(yes, others), others, self.inputs.price)
        return self.laddered.decide(PrivateEstimate(Fraction(yes, yes + no), Fraction(ends[0]), Fraction(ends[1])))

    def rows_of(self, sums: Sequence[Sums]) -> int:
        """Yes and no."""
        return sum(count_of(total, self.inputs.rows) for total in sums)

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private share of the group."""
        yes, no = (count_of(total, self.inputs.rows) for total in sums)
        return Fraction(yes, yes + no) if yes + no else None

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """E[(yes - θ) · in the group] = 0 at the cell's centre."""
        if self.values is None:
            return None
        yes, no = (value.array for value in self.values)
        return _group_lesson(self.laddered, outcome, yes.astype(np.float64) * STEPS, yes | no, self.forecast)


@dataclass(frozen=True, slots=True, eq=False)
class GroupMeanCells(LadderedMeasure):
    """A mean within a group: Fan's bound over the rows of the group, given how many there are."""

    query: GroupMean
    forecast: SketchValue
    values: tuple[GridValues, GridValues] | None
    inputs: MeasureInputs
    rates: Rates = field(init=False)
    laddered: LadderedCells = field(init=False)

    def __post_init__(self) -> None:
        u = position_of(self.forecast)
        rows, draws = max(self.inputs.others * self.forecast.group, 1.0), self.forecast.draws
        rates = Rates.foreseen(float(u), self.forecast.second, rows, self.inputs.price)
        spread, alone = spread_of(self.forecast.second, rows, draws), spread_of(self.forecast.second, rows, inf)
        object.__setattr__(self, "rates", rates)
        laddered = LadderedCells.around(
            u, spread, alone, rates.radii, min(rows, draws), self.inputs, least=one_row(rows, draws)
        )
        object.__setattr__(self, "laddered", laddered)

    @property
    def needs(self) -> tuple[Query, ...]:
        """From below and from above."""
        return self.query.parts

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the rows of the group, their mean and mean square."""
        (first, squares), (rest, _) = (in_steps(total, self.inputs.rows) for total in sums)
        m = (first + rest) // STEPS
        if m == 0:
            return NOTHING
        known = min(self.inputs.known_rows, m)
        return self.laddered.decide(
            PrivateEstimate(Fraction(first, m * STEPS), *self.rates.interval(first, squares, m, known))
        )

    def rows_of(self, sums: Sequence[Sums]) -> int:
        """From below and from above, together one for each row."""
        return sum(in_steps(total, self.inputs.rows)[0] for total in sums) // STEPS

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private mean of the group."""
        up, down = (in_steps(total, self.inputs.rows)[0] for total in sums)
        return Fraction(up, up + down) if up + down else None

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """E[(x - θ) · in the group] = 0 at the cell's centre."""
        if self.values is None:
            return None
        up, down = (value.array + VALUE_ONE for value in self.values)
        return _group_lesson(self.laddered, outcome, up, up + down == STEPS, self.forecast)


def _group_lesson(
    laddered: LadderedCells, outcome: Outcome, steps: NDArray[np.float64], member: NDArray[np.bool_], forecast: SketchValue
) -> Lesson | None:
    if outcome is QUIET or outcome == NOTHING or cell_and_step(outcome)[0] == 0:
        return None
    edges = laddered.cells.edges(cell_and_step(outcome)[0])
    low, high = max(edges[0], Fraction(0)), min(edges[1], Fraction(1))
    centre = round((low + high) / 2 * STEPS)
    values = GridValues("mean", np.rint((steps - centre) / 2.0) * member)
    off = (0.5 * (1.0 + forecast.value) - centre / STEPS) * forecast.group
    return Lesson(values, 0.0, max(float(high - low) / 2 * forecast.group, 2.0**-14), off)
