"""Measures of differences: between two groups without a row in common, and between two questions on the same rows.

A difference d in [-1, 1] has the position (1 + d)/2, so that cells and ladders are those of `measure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from everhold.bounds.binomial import bet_rate, paired_interval
from everhold.bounds.elementary import ln
from everhold.bounds.fan import fan_group_difference
from everhold.mechanism.measures.cells import LadderedCells, LadderedMeasure, PrivateEstimate
from everhold.mechanism.measures.measure import (
    Lesson,
    MeasureInputs,
    count_of,
    in_steps,
    one_row,
    position_of,
    spread_of,
)
from everhold.mechanism.measures.numbers import Rates
from everhold.queries.grid import STEPS, VALUE_ONE, GridValues
from everhold.queries.protocol import NOTHING, QUIET

if TYPE_CHECKING:
    from everhold.queries.expression.composites import GroupDifference, PairedShares
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = ["DifferenceCells", "PairedCells"]

_LN2 = ln(2.0)


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceCells(LadderedMeasure):
    """The difference of two groups: one bound for both, given how many rows each has (docs/theory/fan.md).

    Attributes:
        forecast: of the difference.
        groups: what the sketch foresees of each group.
        values: on the public rows, two for each group.
    """

    query: GroupDifference
    forecast: SketchValue
    groups: tuple[SketchValue, SketchValue]
    values: tuple[GridValues, ...]
    inputs: MeasureInputs
    centres: tuple[int, int] = field(init=False)
    seconds: tuple[float, float] = field(init=False)
    laddered: LadderedCells = field(init=False)

    def __post_init__(self) -> None:
        positions = [float(position_of(group)) for group in self.groups]
        centres = tuple(min(max(round(position * STEPS), 0), STEPS) for position in positions)
        seconds = tuple(
            float(max(group.second, 1))
            if self.query.low is not None
            else max(position * (1.0 - position) * STEPS * STEPS, 1.0)
            for group, position in zip(self.groups, positions, strict=True)
        )
        object.__setattr__(self, "centres", centres)
        object.__setattr__(self, "seconds", seconds)
        rows = [max(self.inputs.others * group.group, 1.0) for group in self.groups]
        sides = list(zip(seconds, rows, self.groups, strict=True))
        spread = sqrt(sum(spread_of(second, m, group.draws) ** 2 for second, m, group in sides))
        alone = sqrt(sum(spread_of(second, m, inf) ** 2 for second, m, _ in sides))
        counts = [max(round(m), 1) for m in rows]
        firsts = [centre * m for centre, m in zip(centres, counts, strict=True)]
        squares = [
            min(m * round(second) + centre * centre * m, STEPS * first)
            for second, centre, first, m in zip(seconds, centres, firsts, counts, strict=True)
        ]
        low, high = self._bound(firsts, squares, counts)
        middle = Fraction(centres[0] - centres[1])
        radii = float((middle - low) / (2 * STEPS)), float((high - middle) / (2 * STEPS))
        fewest = min(*rows, *(group.draws for group in self.groups))
        laddered = LadderedCells.around(
            position_of(self.forecast),
            spread / 2.0,
            alone / 2.0,
            radii,
            fewest,
            self.inputs,
            least=one_row(fewest, inf) / 2.0,
        )
        object.__setattr__(self, "laddered", laddered)

    def _bound(self, firsts: Sequence[int], squares: Sequence[int], counts: Sequence[int]) -> tuple[Fraction, Fraction]:
        return fan_group_difference(
            (firsts[0], firsts[1]),
            (squares[0], squares[1]),
            (counts[0], counts[1]),
            centres=self.centres,
            seconds=self.seconds,
            nats=self.inputs.price,
        )

    @property
    def needs(self) -> tuple[Query, ...]:
        """Two questions for each group."""
        return self.query.parts

    def _sides(self, sums: Sequence[Sums]) -> list[tuple[int, int, int]]:
        """Σx, Σx² and the number of rows of each group."""
        sides = []
        for up, down in ((sums[0], sums[1]), (sums[2], sums[3])):
            if self.query.low is None:
                yes, no = count_of(up, self.inputs.rows), count_of(down, self.inputs.rows)
                sides.append((yes * STEPS, yes * STEPS * STEPS, yes + no))
            else:
                first, square = in_steps(up, self.inputs.rows)
                sides.append((first, square, (first + in_steps(down, self.inputs.rows)[0]) // STEPS))
        return sides

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the rows of both groups, their means and mean squares."""
        sides = self._sides(sums)
        if any(m == 0 for _, _, m in sides):
            return NOTHING
        if self.inputs.known_rows == 0:
            firsts, squares, counts = zip(*sides, strict=True)
            ends = self._bound(firsts, squares, counts)
            low, high = (end / STEPS for end in ends)
        else:  # side by side, each at its part of the price
            first_ends, second_ends = (
                Rates.foreseen(
                    float(position_of(group)), second, max(self.inputs.others * group.group, 1.0), self.inputs.price + _LN2
                ).interval(first, square, m, min(self.inputs.known_rows, m))
                for (first, square, m), group, second in zip(sides, self.groups, self.seconds, strict=True)
            )
            low, high = first_ends[0] - second_ends[1], first_ends[1] - second_ends[0]
        value = Fraction(sides[0][0], sides[0][2] * STEPS) - Fraction(sides[1][0], sides[1][2] * STEPS)
        return self.laddered.decide(PrivateEstimate((1 + value) / 2, (1 + low) / 2, (1 + high) / 2))

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private difference."""
        sides = self._sides(sums)
        if any(m == 0 for _, _, m in sides):
            return None
        first_mean, second_mean = (Fraction(first, m * STEPS) for first, _, m in sides)
        return (1 + first_mean - second_mean) / 2

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """To first order: the means of both groups, each around its forecast, differ by what was found."""
        if not isinstance(outcome, tuple) or outcome[0] == 0:
            return None
        low, high = self.laddered.cells.edges(outcome[0])
        least = min(group.group for group in self.groups)
        total = np.zeros(len(self.values[0]))
        for sign, index in ((1.0, 0), (-1.0, 1)):
            up, down = self.values[2 * index], self.values[2 * index + 1]
            steps, member = _steps_and_members(up, down)
            total += sign * (least / self.groups[index].group) * (steps - self.centres[index]) * member
        values = GridValues("mean", np.clip(np.rint(total / 2.0), -VALUE_ONE, VALUE_ONE))
        off = float(low + high) - 1.0 - self.forecast.value
        slack = max(float(high - low) * least, 2.0**-14)
        return Lesson(values, off * least, slack, 0.0)


def _steps_and_members(up: GridValues, down: GridValues) -> tuple[np.ndarray, np.ndarray]:
    if up.scale == "share":
        return up.array.astype(np.float64) * STEPS, up.array | down.array
    steps = up.array + VALUE_ONE
    return steps, steps + down.array + VALUE_ONE == STEPS


@dataclass(frozen=True, slots=True, eq=False)
class PairedCells(LadderedMeasure):
    """The difference of two shares on the same rows: a public bet on the rows that differ (docs/theory/verdicts.md).

    Attributes:
        shares: how many rows the sketch foresees to say yes to the first alone, and to the second alone.
    """

    query: PairedShares
    forecast: SketchValue
    shares: tuple[float, float]
    values: tuple[GridValues, ...]
    inputs: MeasureInputs
    rates: tuple[int, int] = field(init=False)
    laddered: LadderedCells = field(init=False)

    def __post_init__(self) -> None:
        n, draws = self.inputs.others, max(self.forecast.draws, 1.0)
        a, b = (max(share, 0.25 / draws) for share in self.shares)
        rates = bet_rate(a, b, n, self.inputs.price), bet_rate(b, a, n, self.inputs.price)
        object.__setattr__(self, "rates", rates)
        first, second = round(a * n), round(b * n)
        low, high = paired_interval(first, second, max(n, first + second), rates, self.inputs.price)
        value = (first - second) / n
        radii = max(value - low, 0.0) / 2.0, max(high - value, 0.0) / 2.0
        variance = max(a + b - (a - b) * (a - b), 1.0 / (16.0 * draws))
        spread, alone = sqrt(variance * (1.0 / n + 1.0 / draws)) / 2.0, sqrt(variance / n) / 2.0
        laddered = LadderedCells.around(position_of(self.forecast), spread, alone, radii, min(n, draws), self.inputs)
        object.__setattr__(self, "laddered", laddered)

    @property
    def needs(self) -> tuple[Query, ...]:
        """Rows that say yes to one alone."""
        return self.query.parts

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the rows that differ."""
        a, b = (count_of(total, self.inputs.rows) for total in sums)
        known, n = self.inputs.known_rows, self.inputs.others
        # Rows that the analyst knows may all speak for one side: each end takes the worse case.
        lower = paired_interval(max(a - known, 0), min(b, n - max(a - known, 0)), n, self.rates, self.inputs.price)[0]
        upper = paired_interval(min(a, n - max(b - known, 0)), max(b - known, 0), n, self.rates, self.inputs.price)[1]
        value = Fraction(a - b, self.inputs.rows)
        return self.laddered.decide(PrivateEstimate((1 + value) / 2, (1 + Fraction(lower)) / 2, (1 + Fraction(upper)) / 2))

    def value(self, sums: Sequence[Sums]) -> Fraction:
        """The private difference."""
        a, b = (count_of(total, self.inputs.rows) for total in sums)
        return (1 + Fraction(a - b, self.inputs.rows)) / 2

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """The mean of yes to the first alone minus yes to the second alone."""
        if outcome is QUIET or not isinstance(outcome, tuple) or outcome[0] == 0:
            return None
        low, high = self.laddered.cells.edges(outcome[0])
        first, second = (value.array.astype(np.float64) for value in self.values)
        values = GridValues("mean", (first - second) * VALUE_ONE)
        return Lesson(values, float(low + high) - 1.0, max(float(high - low), 2.0**-14), self.forecast.value)
