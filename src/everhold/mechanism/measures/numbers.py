"""Means of numbers over all rows or units: Fan's bound with a public λ, or Chernoff's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

from everhold.bounds.concentration import kl_interval
from everhold.bounds.elementary import ln
from everhold.bounds.fan import fan_interval, fan_radius, fan_rate, fan_reach
from everhold.mechanism.measures.cells import LadderedCells, LadderedMeasure, PrivateEstimate, down, up
from everhold.mechanism.measures.measure import (
    Lesson,
    MeasureInputs,
    cell_and_step,
    in_steps,
    lesson_within,
    one_row,
    position_of,
    spread_of,
)
from everhold.queries.grid import STEPS
from everhold.queries.protocol import NOTHING, QUIET

if TYPE_CHECKING:
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = ["MeanCells", "Rates"]

_LITTLE_SPREAD = STEPS * STEPS / 400.0  # a standard deviation of 1/20 of the range
_FAN_NATS = ln(20.0) - ln(19.0) + 2.0**-40
_OTHER_NATS = ln(20.0) + 2.0**-40
"""Of the failure probability of an end, 19/20 is Fan's and 1/20 Chernoff's."""


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Fan's bound, or Chernoff's, with everything that is chosen in public.

    Attributes:
        centre: in steps.
        rates, reaches: λ and b below and above; no rates: Chernoff's bound is foreseen to be narrower.
        radii: the foreseen distances from the mean to the ends, as positions.
        hedged: whether Chernoff's bound is kept at hand, for 1/20 of the failure probability: where hardly any spread is
            foreseen, Fan's λ says almost nothing if the rows turn out to be spread widely after all.
    """

    centre: int
    rates: tuple[int, int] | None
    reaches: tuple[int, int]
    radii: tuple[float, float]
    price: float
    hedged: bool = False

    @classmethod
    def foreseen(cls, position: float, second: float, rows: float, price: float) -> Rates:
        """The narrower bound for a mean of about `rows` rows at this position with this second moment (in steps²)."""
        centre = min(max(round(position * STEPS), 0), STEPS)
        second, rows = max(second, 1.0), max(rows, 1.0)
        below, above = (fan_reach(second, room, price, rows) for room in (centre, STEPS - centre))
        rates = fan_rate(second, below, price, rows), fan_rate(second, above, price, rows)
        fan = (
            fan_radius(second, below, rates[0], price, rows) / STEPS,
            fan_radius(second, above, rates[1], price, rows) / STEPS,
        )
        x = centre / STEPS
        low, high = kl_interval(x, x, price / rows)
        kl = x - low, high - x
        if min(fan[0], x) + min(fan[1], 1.0 - x) < kl[0] + kl[1]:
            return cls(centre, rates, (below, above), fan, price, second < _LITTLE_SPREAD)
        return cls(centre, None, (below, above), kl, price)

    def interval(self, first: int, squares: int, rows: int, known_rows: int) -> tuple[Fraction, Fraction]:
        """The ends, as positions, from Σx and Σx² over `rows` rows, of which the analyst may know some."""
        if self.rates is None:
            return self._chernoff(first, rows, known_rows, self.price)
        low, high = fan_interval(
            first,
            squares,
            rows,
            centre=self.centre,
            rates=self.rates,
            nats=self.price + (_FAN_NATS if self.hedged else 0.0),
            reaches=self.reaches,
            known_rows=known_rows,
        )
        ends = low / STEPS, high / STEPS
        if not self.hedged:
            return ends
        other = self._chernoff(first, rows, known_rows, self.price + _OTHER_NATS)
        return max(ends[0], other[0]), min(ends[1], other[1])

    @staticmethod
    def _chernoff(first: int, rows: int, known_rows: int, price: float) -> tuple[Fraction, Fraction]:
        others = rows - known_rows
        if others < 1:
            return Fraction(0), Fraction(1)
        least, most = Fraction(first - known_rows * STEPS, others * STEPS), Fraction(first, others * STEPS)
        ends = kl_interval(down(max(least, Fraction(0))), up(min(most, Fraction(1))), price / others)
        return Fraction(ends[0]), Fraction(ends[1])


@dataclass(frozen=True, slots=True, eq=False)
class MeanCells(LadderedMeasure):
    """The mean of a number over all rows (or units), asked or read: Fan's bound with a public λ, or Chernoff's."""

    query: Query
    forecast: SketchValue
    inputs: MeasureInputs
    rates: Rates = field(init=False)
    laddered: LadderedCells = field(init=False)

    def __post_init__(self) -> None:
        u = position_of(self.forecast)
        n, draws = self.inputs.others, self.forecast.draws
        least = 0.0 if self.inputs.deviations is None else STEPS * STEPS / max(min(n, draws), 1.0)
        rates = Rates.foreseen(float(u), max(self.forecast.second, least), n, self.inputs.price)
        spread, alone = spread_of(self.forecast.second, n, draws), spread_of(self.forecast.second, n, inf)
        object.__setattr__(self, "rates", rates)
        laddered = LadderedCells.around(u, spread, alone, rates.radii, min(n, draws), self.inputs, least=one_row(n, draws))
        object.__setattr__(self, "laddered", laddered)

    @property
    def needs(self) -> tuple[Query, ...]:
        """The question."""
        return (self.query,)

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the mean and the mean square of the rows."""
        n = self.inputs.rows
        first, squares = in_steps(sums[0], n)
        return self.laddered.decide(
            PrivateEstimate(Fraction(first, n * STEPS), *self.rates.interval(first, squares, n, self.inputs.known_rows))
        )

    def value(self, sums: Sequence[Sums]) -> Fraction:
        """The private mean."""
        return Fraction(in_steps(sums[0], self.inputs.rows)[0], self.inputs.rows * STEPS)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """A cell off the forecast teaches."""
        if outcome is QUIET or outcome == NOTHING or cell_and_step(outcome)[0] == 0:
            return None
        low, high = self.laddered.cells.edges(cell_and_step(outcome)[0])
        return lesson_within(2 * low - 1, 2 * high - 1, self.forecast)
