"""Questions of a private study: a noisy test, a noisy release, and ends that hold whatever the noise was.

`decide` is the only step that sees private sums, and the only one that draws noise. Ends and prices are functions of the
outcome, by tail bounds of the noise or of rows and noise together, never by what it was (`docs/theory/privacy.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

from everhold.bounds.code import ANSWERED_NATS, NOTHING_NATS
from everhold.bounds.concentration import kl_interval, known_rows_range
from everhold.bounds.elementary import ln
from everhold.bounds.noisy_tail import noisy_interval
from everhold.bounds.privacy import ROW_PARTS
from everhold.mechanism.measures.cells import Cells, down, up
from everhold.mechanism.measures.counts import count_interval
from everhold.mechanism.measures.measure import (
    POSITION_ONE,
    Lesson,
    MeasureInputs,
    cell_in,
    lesson_within,
    position_of,
    share_spread,
)
from everhold.mechanism.noise import ROW, lattice_of
from everhold.mechanism.tolerance import TOLERANCE_ONE
from everhold.queries.grid import STEPS, VALUE_ONE
from everhold.queries.protocol import NOTHING, QUIET

if TYPE_CHECKING:
    from everhold.bounds.privacy import PrivacyTerms
    from everhold.mechanism.noise import Noise
    from everhold.mechanism.tolerance import Tolerance
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = ["PrivateCells", "PrivateInputs", "PrivateTolerance"]


class PrivateInputs(NamedTuple):
    """Public facts about the noise of one round.

    Attributes:
        terms: the scales of the noise.
        noise: where it is drawn from.
        hidden: how far beyond the tolerance a quiet answer may be, in 1/64 of a row.
        shaken: how far noise may have moved a release, in 1/64 of a row.
    """

    terms: PrivacyTerms
    noise: Noise
    hidden: int
    shaken: int

    def noisy(self, total: int) -> int:
        """A total with noise, in steps of a row."""
        lattice = lattice_of(self.terms.release_parts)
        return (total // lattice + self.noise.step()) * lattice

    def moved(self, rows: int) -> Fraction:
        """How far noise and the lattice may have moved a position."""
        return (Fraction(self.shaken, ROW_PARTS) + self.lattice) / rows

    def deviation(self, rows: int) -> float:
        """σ as a position."""
        return self.terms.release_parts / ROW_PARTS / rows

    @property
    def variance(self) -> float:
        """σ² in rows squared."""
        return (self.terms.release_parts / ROW_PARTS) ** 2

    @property
    def lattice(self) -> Fraction:
        """How far rounding to the lattice moves a total down, in rows."""
        return Fraction(lattice_of(self.terms.release_parts), ROW)


class _PrivateMeasure:
    """What asks and readings share: from the range of the private mean to the ends that are printed."""

    __slots__ = ()
    query: Query
    forecast: SketchValue
    inputs: MeasureInputs
    private: PrivateInputs

    @property
    def needs(self) -> tuple[Query, ...]:
        """The question."""
        return (self.query,)

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """None: no private value leaves without noise."""
        return None

    def reach(self, outcome: Outcome) -> tuple[Fraction, Fraction]:
        """Positions between which the private mean lies, but for the failure probability of the noise."""
        raise NotImplementedError

    def cell(self, j: int) -> tuple[Fraction, Fraction]:
        """The ends of a cell, as positions."""
        raise NotImplementedError

    def centre(self, outcome: Outcome) -> float:
        """The printed value, as a position."""
        raise NotImplementedError

    def counts(self, outcome: Outcome) -> tuple[int, int] | None:
        """Of a yes/no question, the least and the largest count that this outcome allows."""
        if self.forecast.scale != "share":
            return None
        n, (low, high) = self.inputs.rows, self.reach(outcome)
        return max(ceil(n * low), 0), min(floor(n * high), n)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """With the noise integrated, where that is foreseen to be narrower; else by what it may have done at most."""
        if outcome == NOTHING:
            return inf, 0.0, 1.0
        value = min(max(self.centre(outcome), 0.0), 1.0)
        if outcome is not QUIET and self._integrates:
            return value, *self._by_one_tail(cell_in(outcome))
        return value, *self._by_reach(outcome)

    @property
    def _integrates(self) -> bool:
        """Whether one tail for rows and noise is narrower at the forecast: a public fact, before the outcome."""
        (low, high), (least, most) = self._by_one_tail(0), self._by_reach(0)
        return high - low < most - least

    def _by_one_tail(self, j: int) -> tuple[float, float]:
        """By `bounds.noisy_tail`; an end of the scale, to which totals beyond it are cut, says nothing."""
        low, high = self.cell(j)
        rows, others, known = self.inputs.rows, self.inputs.others, self.inputs.known_rows
        least = down(rows * low) - known if low > 0 else 0.0
        most = up(rows * high + self.private.lattice) if high < 1 else float(others)
        ends = noisy_interval(least, most, others, self.private.variance, self.inputs.price)
        quantum = 0.0 if self.forecast.scale == "share" else self.inputs.quantum
        return max(ends[0] - quantum, 0.0), min(ends[1] + quantum, 1.0)

    def _by_reach(self, outcome: Outcome) -> tuple[float, float]:
        """By the exact tail for counts, by Chernoff's bound for numbers."""
        if (counts := self.counts(outcome)) is not None:
            return count_interval(*counts, self.inputs)
        low, high = self.reach(outcome)
        inside = min(max(down(low), 0.0), 1.0), min(max(up(high), 0.0), 1.0)
        least, most, left = known_rows_range(*inside, self.inputs.rows, self.inputs.known_rows)
        ends = kl_interval(least, most, self.inputs.price / left)
        return max(ends[0] - self.inputs.quantum, 0.0), min(ends[1] + self.inputs.quantum, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class PrivateTolerance(_PrivateMeasure):
    """A question asked: quiet with a probability that falls with the distance beyond τ, else the cell of a noisy total.

    Cells of width Δ lie around the forecast; cell 0 is possible, because a surprise does not prove a large distance.
    """

    query: Query
    forecast: SketchValue
    limits: Tolerance
    inputs: MeasureInputs
    private: PrivateInputs

    def decide(self, sums: Sequence[Sums]) -> int | None:
        """Quiet, or the cell. Both noises are drawn whatever comes out."""
        total, n = sums[0].first, self.inputs.rows
        released = self.private.noisy(total)
        u = Fraction(self.forecast.numerator, self.forecast.denominator) * VALUE_ONE * n
        tau = Fraction(self.limits.tau * VALUE_ONE * n, TOLERANCE_ONE)
        per = Fraction(self.private.terms.test_parts * ROW, ROW_PARTS)
        if self.private.noise.quiet((abs(total - u) - tau) / per):
            return QUIET
        width = Fraction(self.limits.cell * VALUE_ONE * n, TOLERANCE_ONE)
        above, below = self.room
        return min(max(floor((released - u) / width + Fraction(1, 2)), -below), above)

    @property
    def room(self) -> tuple[int, int]:
        """How many cells there are above and below cell 0; the last reaches the end of the scale. Public."""
        u = Fraction(self.forecast.numerator, self.forecast.denominator)
        width = Fraction(self.limits.cell, TOLERANCE_ONE)
        above, below = (max(ceil(room / width - Fraction(1, 2)), 0) for room in (1 - u, 1 + u))
        return above, below

    def charge(self, outcome: Outcome) -> float:
        """`q(j) = ½/cells + ½·½/(d(d+1))`, d = |j| - j₀ ≥ 1 counted from the tolerance on; without d the first part alone.

        The first part sums to ½ over all cells, the second to at most ½.
        """
        if outcome == NOTHING:
            return NOTHING_NATS
        above, below = self.room
        even = 0.5 / (above + below + 1)
        d = abs(cell_in(outcome)) - max(self.limits.tau // self.limits.cell - 1, 0)
        return ANSWERED_NATS - ln(even + (0.25 / (float(d) * (d + 1.0)) if d >= 1 else 0.0))

    def deviation(self, outcome: Outcome) -> float | None:
        """Not known to that precision."""
        return None

    def reach(self, outcome: Outcome) -> tuple[Fraction, Fraction]:
        """LadderedCells τ and the hidden slack of the forecast; or the cell and what noise may have done."""
        u = Fraction(self.forecast.numerator + self.forecast.denominator, 2 * self.forecast.denominator)
        if outcome == NOTHING:
            return Fraction(0), Fraction(1)
        if outcome is QUIET:
            hidden = Fraction(self.private.hidden, ROW_PARTS * self.inputs.rows)
            slack = Fraction(self.limits.tau, 2 * TOLERANCE_ONE) + hidden
            return u - slack, u + slack
        low, high = self.cell(cell_in(outcome))
        moved = self.private.moved(self.inputs.rows)
        return low - moved, high + moved

    def cell(self, j: int) -> tuple[Fraction, Fraction]:
        """The ends of a cell, as positions."""
        u = Fraction(self.forecast.numerator + self.forecast.denominator, 2 * self.forecast.denominator)
        width = Fraction(self.limits.cell, 2 * TOLERANCE_ONE)
        return u + (j - Fraction(1, 2)) * width, u + (j + Fraction(1, 2)) * width

    def centre(self, outcome: Outcome) -> float:
        """The forecast, or the middle of the cell."""
        if outcome is QUIET:
            return 0.5 * (1.0 + self.forecast.value)
        low, high = self.cell(cell_in(outcome))
        return float((low + high) / 2)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """A surprise gives the cell, with half a deviation of the noise on either side."""
        if outcome is QUIET or outcome == NOTHING:
            return None
        low, high = self.cell(cell_in(outcome))
        return _blurred(low, high, self.private, self.inputs.rows, self.forecast)


@dataclass(frozen=True, slots=True, eq=False)
class PrivateCells(_PrivateMeasure):
    """A question read: the cell of a noisy total, cut to the scale."""

    query: Query
    forecast: SketchValue
    inputs: MeasureInputs
    private: PrivateInputs
    cells: Cells = field(init=False)

    def __post_init__(self) -> None:
        u, n = position_of(self.forecast), self.inputs.rows
        noise = self.private.deviation(n)
        spread, alone = (share_spread(float(u), n, draws) for draws in (self.forecast.draws, inf))
        cells = Cells.around(u, sqrt(spread * spread + noise * noise), sqrt(alone * alone + noise * noise), self.inputs)
        object.__setattr__(self, "cells", cells)

    def decide(self, sums: Sequence[Sums]) -> int:
        """The cell."""
        n = self.inputs.rows
        position = Fraction(self.private.noisy(sums[0].first) + n * VALUE_ONE, n * STEPS)
        return self.cells.of(min(max(position, Fraction(0)), Fraction(1)))

    def charge(self, outcome: Outcome) -> float:
        """The reading's code."""
        return NOTHING_NATS if outcome == NOTHING else ANSWERED_NATS + self.cells.charge(cell_in(outcome))

    def deviation(self, outcome: Outcome) -> float | None:
        """By the cell."""
        return None if outcome == NOTHING else self.cells.deviation(cell_in(outcome))

    def cell(self, j: int) -> tuple[Fraction, Fraction]:
        """The ends of a cell, as positions."""
        return self.cells.edges(j)

    def reach(self, outcome: Outcome) -> tuple[Fraction, Fraction]:
        """The cell and what noise may have done."""
        if outcome == NOTHING:
            return Fraction(0), Fraction(1)
        low, high = self.cell(cell_in(outcome))
        moved = self.private.moved(self.inputs.rows)
        # a total beyond the scale was cut to its end: the cell of that end says nothing about how far beyond
        return low - moved, Fraction(1) if high * POSITION_ONE > POSITION_ONE else high + moved

    def centre(self, outcome: Outcome) -> float:
        """The middle of the cell."""
        low, high = self.cell(cell_in(outcome))
        return float((low + high) / 2)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """A cell off the forecast teaches."""
        if outcome == NOTHING or outcome == 0:
            return None
        low, high = self.cell(cell_in(outcome))
        return _blurred(low, high, self.private, self.inputs.rows, self.forecast)


def _blurred(low: Fraction, high: Fraction, private: PrivateInputs, rows: int, forecast: SketchValue) -> Lesson:
    half = Fraction(private.terms.release_parts, 2 * ROW_PARTS * rows)
    return lesson_within(2 * (low - half) - 1, 2 * (high + half) - 1, forecast)
