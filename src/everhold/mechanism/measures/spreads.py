"""Variances and correlations in one round: the private interval of every mean, combined, and only the result disclosed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING

from everhold.bounds.derived import Position, correlation_from, variance_from
from everhold.bounds.elementary import ln
from everhold.mechanism.measures.cells import LadderedCells, LadderedMeasure, PrivateEstimate
from everhold.mechanism.measures.measure import POSITION_ONE, MeasureInputs, in_steps, position_of
from everhold.mechanism.measures.numbers import Rates
from everhold.queries.grid import STEPS
from everhold.queries.protocol import NOTHING

if TYPE_CHECKING:
    from everhold.mechanism.measures.measure import Lesson
    from everhold.queries.expression.composites import SpreadOf
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = ["SpreadCells", "combined"]


def combined(query: SpreadOf, positions: Sequence[Position]) -> tuple[float, float, float]:
    """The result from the positions of its means, itself as a position in its range: of a variance, or from -1 to 1."""
    if query.sign is None:
        most = query.ranges[1][1]
        value, low, high = (end / most for end in variance_from(positions, query.ranges))
    else:
        value, low, high = (0.5 * (1.0 + end) for end in correlation_from(positions, query.ranges, query.sign))
    return min(max(value, 0.0), 1.0), min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class SpreadCells(LadderedMeasure):
    """A variance or a correlation.

    Attributes:
        forecast: of the result.
        means: what the sketch foresees of every mean.
    """

    query: SpreadOf
    forecast: SketchValue
    means: tuple[SketchValue, ...]
    inputs: MeasureInputs
    rates: tuple[Rates, ...] = field(init=False)
    laddered: LadderedCells = field(init=False)

    def __post_init__(self) -> None:
        price = self.inputs.price + ln(float(len(self.means)))
        rows, draws = max(self.inputs.others * self.forecast.group, 1.0), max(self.forecast.draws, 1.0)
        rates = tuple(Rates.foreseen(float(position_of(mean)), mean.second, rows, price) for mean in self.means)
        object.__setattr__(self, "rates", rates)
        positions = [
            (
                float(position_of(mean)),
                max(float(position_of(mean)) - rate.radii[0] - self.inputs.quantum, 0.0),
                min(float(position_of(mean)) + rate.radii[1] + self.inputs.quantum, 1.0),
            )
            for mean, rate in zip(self.means, rates, strict=True)
        ]
        value, low, high = combined(self.query, positions)
        radii = value - low, high - value
        # The ends of all means at once are farther apart than those of the result: about so much of it is noise.
        noise = 0.35 if self.query.sign is None else 0.25
        alone = max(noise * (high - low) / sqrt(2.0 * price), 2.0**-30)
        spread = alone * sqrt(1.0 + rows / draws)
        laddered = LadderedCells.around(position_of(self.forecast), spread, alone, radii, min(rows, draws), self.inputs)
        object.__setattr__(self, "laddered", laddered)

    @property
    def needs(self) -> tuple[Query, ...]:
        """The first mean from above, then every mean from below."""
        return self.query.parts

    def _positions(self, sums: Sequence[Sums]) -> list[Position] | None:
        """Every mean of the group with its private interval, rounded outwards."""
        down, *ups = (in_steps(total, self.inputs.rows) for total in sums)
        m = (down[0] + ups[0][0]) // STEPS
        if m == 0:
            return None
        known, positions = min(self.inputs.known_rows, m), []
        for (first, squares), rate in zip(ups, self.rates, strict=True):
            low, high = rate.interval(first, squares, m, known)
            positions.append((first / (m * STEPS), float(low) - self.inputs.quantum, float(high) + self.inputs.quantum))
        return [(value, max(low, 0.0), min(high, 1.0)) for value, low, high in positions]

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the sums and squares of every mean."""
        if (positions := self._positions(sums)) is None:
            return NOTHING
        value, low, high = (Fraction(position) for position in combined(self.query, positions))
        slack = Fraction(1, POSITION_ONE)
        return self.laddered.decide(PrivateEstimate(value, max(low - slack, Fraction(0)), min(high + slack, Fraction(1))))

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private value."""
        positions = self._positions(sums)
        return None if positions is None else Fraction(combined(self.query, positions)[0])

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """None: it is not linear in the sketch."""
        return None
