"""How a question is measured: everything that is fixed before the private sums are read, and what they then say.

A measure is built from public facts: the question, what the sketch foresees, the price. It has three parts.

* `needs`: the linear questions whose exact sums it wants.
* `decide`: from these sums to an outcome, the only step that sees them. QUIET, a cell, a cell with a step, or NOTHING.
* `ends`, `nats`: the printed interval and the cost of an outcome. Both are functions of the outcome alone.

Values are *places* in [0, 1]: a share, or where a mean or quantile lies within its range. Cells have a public width and are
centred on the forecast. Where the private interval is not a function of the cell, a step says how far beyond the cell it
reaches, on a public ladder of distances (`docs/theory/code.md`). Prices and theorems: docs/theory/validity.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, inf, isqrt, sqrt
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from everhold.bounds.binomial import binomial_interval, tail_refutes
from everhold.bounds.code import ANSWERED_NATS, NOTHING_NATS, beyond_nats, reading_nats, step_nats
from everhold.bounds.concentration import kl_interval, known_rows_range
from everhold.bounds.fan import fan_exact_radius, fan_radius, fan_rate, fan_reach
from everhold.mechanism.tolerance import TOLERANCE_ONE, share_radius
from everhold.queries.grid import VALUE_ONE, GridValues
from everhold.queries.protocol import NOTHING, QUIET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanism.tolerance import Tolerance
    from everhold.queries.expression.groups import GroupMean, GroupShare, QuantileOf
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = [
    "PLACE_ONE",
    "STEPS",
    "CountCells",
    "CountTolerance",
    "Foreseen",
    "Found",
    "GroupMeanCells",
    "GroupShareCells",
    "Lesson",
    "MeanCells",
    "MeanTolerance",
    "Measure",
    "Precision",
    "QuantileCells",
    "Rates",
    "Within",
    "count_interval",
    "count_of",
    "in_steps",
    "place_of",
    "room_beyond",
    "spread_of",
]

PLACE_ONE = 2**32
"""Cells and their centres are whole multiples of 1/PLACE_ONE."""

STEPS = 2 * VALUE_ONE
"""A row's place within its range, in steps."""

_QUANTUM = 2.0**-16
"""How far rounding to the grid can move a mean, as a place: 2⁻¹⁷ for each row, and as much for the mean of a unit's rows."""

_WIDEST = 3.0  # standard deviations of the private rows' own mean
_MARGIN = 1.05  # of the foreseen distance, before the first step


class Precision(NamedTuple):
    """How finely an act discloses.

    Attributes:
        fine: the width of a cell in standard deviations of what the forecast may be off by.
        ladder: steps from one distance of the ladder to its double.
        start: the first distance, as a multiple of the foreseen one.
    """

    fine: Fraction
    ladder: int = 8
    start: Fraction = Fraction(21, 20)


class Foreseen(NamedTuple):
    """Public facts behind a measure.

    Attributes:
        nats: the price of the interval.
        rows: n, the private draws.
        known: how many of them the analyst may know.
        noise: for an ask, how many standard deviations the forecast may be off before it is a surprise; None of a reading.
        precision: of what is disclosed.
        misfit: how far off forecasts have been so far, in the standard deviations that were foreseen; at least 1.
        quantum: how far rounding to the grid can move a mean, as a place.
    """

    nats: float
    rows: int
    known: int
    noise: float | None
    precision: Precision
    misfit: float = 1.0
    quantum: float = _QUANTUM

    @property
    def others(self) -> int:
        """Rows that the analyst does not know."""
        return self.rows - self.known


class Lesson(NamedTuple):
    """What an outcome teaches the sketch: the mean of `values` under the private rows is within `slack` of `target`.

    On the [-1, 1] scale. `values` None: the question's own.
    """

    values: GridValues | None
    target: float
    slack: float
    sketch: float


class Measure(Protocol):
    """One question, ready to be measured."""

    @property
    def needs(self) -> tuple[Query, ...]:
        """Linear questions whose sums over the private rows `decide` wants."""

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """What is disclosed. The only function of the private rows."""

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private value itself, as a place, for acts that disclose something else. None: there is none."""

    def off(self, outcome: Outcome) -> float | None:
        """How far the private value was from the forecast, in foreseen standard deviations, as far as that was disclosed."""

    def nats(self, outcome: Outcome) -> float:
        """The cost of that outcome to all later claims."""

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """Value, low and high, as places."""

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """What it teaches the sketch, if anything."""


# yes/no questions -------------------------------------------------------------------------------------------------------


def count_of(sums: Sums, rows: int) -> int:
    """The number of yes."""
    return (sums.first // VALUE_ONE + rows) // 2


@dataclass(frozen=True, slots=True, eq=False)
class CountTolerance:
    """A yes/no question asked: quiet if the share is within τ of the forecast, else the cell beyond τ."""

    query: Query
    reading: SketchValue
    limits: Tolerance
    at: Foreseen

    @property
    def needs(self) -> tuple[Query, ...]:
        """The question."""
        return (self.query,)

    def decide(self, sums: Sequence[Sums]) -> int | None:
        """Quiet if |u - v| ≤ τ; otherwise ±j, if the private mean is in the j-th cell beyond τ. In whole numbers."""
        return beyond(self.reading, self.limits, sums[0].first, self.at.rows)

    def value(self, sums: Sequence[Sums]) -> Fraction:
        """The private mean."""
        return Fraction(in_steps(sums[0], self.at.rows)[0], self.at.rows * STEPS)

    def off(self, outcome: Outcome) -> float | None:
        """Not known to that precision."""
        return None

    def nats(self, outcome: Outcome) -> float:
        """The cell's code; how many cells there are is public."""
        return cell_beyond_nats(self.reading, self.limits, outcome)

    def counts(self, outcome: Outcome) -> tuple[int, int]:
        """The least and the largest count with this outcome."""
        n, per, tau, cell = self.at.rows, self.reading.denominator, self.limits.tau, self.limits.cell
        # (1 + v)/2 = count/n, all over 2 · per · TOLERANCE_ONE
        middle, whole = (per + self.reading.numerator) * TOLERANCE_ONE, 2 * per * TOLERANCE_ONE
        if outcome is QUIET:
            least, most = -(-n * (middle - tau * per) // whole), n * (middle + tau * per) // whole
        else:  # a cell beyond τ is open on the side of the forecast
            j = _cell(outcome)
            near, far = (tau + (abs(j) - 1) * cell) * per, (tau + abs(j) * cell) * per
            if j > 0:
                least, most = n * (middle + near) // whole + 1, n * (middle + far) // whole
            else:
                least, most = -(-n * (middle - far) // whole), -(-n * (middle - near) // whole) - 1
        return max(least, 0), min(most, n)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """By the exact tail."""
        value = self.reading.value
        if outcome is not QUIET:
            low, high = edges_beyond(self.reading, self.limits, outcome)
            value = float((low + high) / 2)
        return 0.5 * (1.0 + min(max(value, -1.0), 1.0)), *count_interval(*self.counts(outcome), self.at)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """A surprise gives the cell."""
        if outcome is QUIET:
            return None
        low, high = edges_beyond(self.reading, self.limits, outcome)
        return lesson_within(low, high, self.reading)


@dataclass(frozen=True, slots=True, eq=False)
class MeanTolerance:
    """A number asked under a promised half-width: quiet within τ of the forecast, ends by Chernoff's bound."""

    query: Query
    reading: SketchValue
    limits: Tolerance
    at: Foreseen

    @property
    def needs(self) -> tuple[Query, ...]:
        """The question."""
        return (self.query,)

    def decide(self, sums: Sequence[Sums]) -> int | None:
        """Quiet if |u - v| ≤ τ; otherwise the cell beyond."""
        return beyond(self.reading, self.limits, sums[0].first, self.at.rows)

    def value(self, sums: Sequence[Sums]) -> Fraction:
        """The private mean."""
        return Fraction(in_steps(sums[0], self.at.rows)[0], self.at.rows * STEPS)

    def off(self, outcome: Outcome) -> float | None:
        """Not known to that precision."""
        return None

    def nats(self, outcome: Outcome) -> float:
        """The cell's code; how many cells there are is public."""
        return cell_beyond_nats(self.reading, self.limits, outcome)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """By Chernoff's bound, and the rounding error of the grid."""
        low, high = edges_beyond(self.reading, self.limits, outcome)
        value = self.reading.value if outcome is QUIET else float((low + high) / 2)
        places = (min(max(_down((1 + low) / 2), 0.0), 1.0), min(max(_up((1 + high) / 2), 0.0), 1.0))
        least, most, left = known_rows_range(*places, self.at.rows, self.at.known)
        ends = kl_interval(least, most, self.at.nats / left)
        return (
            0.5 * (1.0 + min(max(value, -1.0), 1.0)),
            max(ends[0] - self.at.quantum, 0.0),
            min(ends[1] + self.at.quantum, 1.0),
        )

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """A surprise gives the cell."""
        if outcome is QUIET:
            return None
        return lesson_within(*edges_beyond(self.reading, self.limits, outcome), self.reading)


@dataclass(frozen=True, slots=True, eq=False)
class CountCells:
    """A yes/no question read: the cell of the private share."""

    query: Query
    reading: SketchValue
    at: Foreseen
    cells: Cells = field(init=False)

    def __post_init__(self) -> None:
        u = place_of(self.reading)
        spread = _share_spread(float(u), self.at.rows, self.reading.draws)
        alone = _share_spread(float(u), self.at.rows, inf)
        object.__setattr__(self, "cells", Cells.around(u, spread, alone, self.at))

    @property
    def needs(self) -> tuple[Query, ...]:
        """The question."""
        return (self.query,)

    def decide(self, sums: Sequence[Sums]) -> int:
        """The cell."""
        return self.cells.of(Fraction(count_of(sums[0], self.at.rows), self.at.rows))

    def value(self, sums: Sequence[Sums]) -> Fraction:
        """The private mean."""
        return Fraction(in_steps(sums[0], self.at.rows)[0], self.at.rows * STEPS)

    def off(self, outcome: Outcome) -> float | None:
        """By the cell."""
        return None if outcome == NOTHING else self.cells.off(_cell(outcome))

    def nats(self, outcome: Outcome) -> float:
        """The reading's code."""
        return NOTHING_NATS if outcome == NOTHING else ANSWERED_NATS + self.cells.nats(_cell(outcome))

    def counts(self, outcome: Outcome) -> tuple[int, int]:
        """The least and the largest count with this outcome."""
        if outcome == NOTHING:
            return 0, self.at.rows
        low, high = self.cells.edges(_cell(outcome))
        n = self.at.rows
        return max(ceil(n * low), 0), min(ceil(n * high) - 1, n)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """By the exact tail."""
        least, most = self.counts(outcome)
        value = float(Fraction(least + most, 2 * self.at.rows))
        return min(max(value, 0.0), 1.0), *count_interval(least, most, self.at)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """A cell off the forecast teaches."""
        if outcome == NOTHING or outcome == 0:
            return None
        low, high = self.cells.edges(_cell(outcome))
        return lesson_within(2 * low - 1, 2 * high - 1, self.reading)


def count_interval(least: int, most: int, at: Foreseen) -> tuple[float, float]:
    """All population shares if the count is in [least, most]; of these rows the analyst may know some."""
    if most < least:  # no count has this outcome
        return 0.0, 1.0
    return binomial_interval(max(least - at.known, 0), min(most, at.others), at.others, at.nats)


# numbers ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Fan's bound, or Chernoff's, with everything that is chosen in public.

    Attributes:
        centre: in steps.
        rates, reaches: λ and b below and above; no rates: Chernoff's bound is foreseen to be narrower.
        radii: the foreseen distances from the mean to the ends, as places.
    """

    centre: int
    rates: tuple[int, int] | None
    reaches: tuple[int, int]
    radii: tuple[float, float]
    nats: float

    @classmethod
    def foreseen(cls, place: float, second: float, rows: float, nats: float) -> Rates:
        """The narrower bound for a mean of about `rows` rows at this place with this second moment (in steps²)."""
        centre = min(max(round(place * STEPS), 0), STEPS)
        second, rows = max(second, 1.0), max(rows, 1.0)
        below, above = (fan_reach(second, room, nats, rows) for room in (centre, STEPS - centre))
        rates = fan_rate(second, below, nats, rows), fan_rate(second, above, nats, rows)
        fan = (
            fan_radius(second, below, rates[0], nats, rows) / STEPS,
            fan_radius(second, above, rates[1], nats, rows) / STEPS,
        )
        x = centre / STEPS
        low, high = kl_interval(x, x, nats / rows)
        kl = x - low, high - x
        if min(fan[0], x) + min(fan[1], 1.0 - x) < kl[0] + kl[1]:
            return cls(centre, rates, (below, above), fan, nats)
        return cls(centre, None, (below, above), kl, nats)

    def interval(self, first: int, squares: int, rows: int, known: int) -> tuple[Fraction, Fraction]:
        """The ends, as places, from Σx and Σx² over `rows` rows, of which the analyst may know some."""
        others = rows - known
        if others < 1:
            return Fraction(0), Fraction(1)
        least, most = Fraction(first - known * STEPS, others), Fraction(first, others)
        if self.rates is None:
            low, high = max(least / STEPS, Fraction(0)), min(most / STEPS, Fraction(1))
            ends = kl_interval(_down(low), _up(high), self.nats / others)
            return Fraction(ends[0]), Fraction(ends[1])
        around = squares - 2 * self.centre * first + rows * self.centre * self.centre
        below, above = (
            fan_exact_radius(around, others, reach, rate, self.nats) or STEPS
            for reach, rate in zip(self.reaches, self.rates, strict=True)
        )
        return max((least - below) / STEPS, Fraction(0)), min((most + above) / STEPS, Fraction(1))


class Found(NamedTuple):
    """A private value with its private interval, as places."""

    value: Fraction
    low: Fraction
    high: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """Cells and ladder of a measure whose private interval is not a function of the cell.

    Attributes:
        cells: around the forecast.
        radii: foreseen distances below and above.
        public: for an ask, the interval that is printed if the private one lies within it; None of a reading.
        precision: of the ladder.
        quantum: how far rounding to the grid can move a mean, as a place.
        off: how far the forecast may be off before an ask is a surprise, as a place.
    """

    cells: Cells
    radii: tuple[int, int]
    public: tuple[int, int] | None
    precision: Precision
    quantum: float
    off: float = 0.0

    @classmethod
    def around(
        cls, place: Fraction, spread: float, alone: float, radii: tuple[float, float], rows: float, at: Foreseen
    ) -> Within:
        """For a forecast that may be off by `spread`, `alone` because of the private rows, of which there are `rows`."""
        cells = Cells.around(place, spread, alone, at)
        below, above = (max(ceil(min(one, 1.0) * PLACE_ONE * at.precision.start), 1) for one in radii)
        public = None
        if at.noise is not None:
            more = _MARGIN + 2.0 / sqrt(max(rows, 1.0))
            off = at.noise * spread * PLACE_ONE
            low = cells.centre - ceil(off + min(radii[0], 1.0) * PLACE_ONE * more)
            high = cells.centre + ceil(off + min(radii[1], 1.0) * PLACE_ONE * more)
            public = max(low, 0), min(high, PLACE_ONE)
        return cls(cells, (below, above), public, at.precision, at.quantum, (at.noise or 0.0) * spread)

    def decide(self, found: Found | None) -> Outcome:
        """Quiet if the private interval lies within the public one; else the cell and the least step."""
        if found is None:
            return NOTHING
        if self.public is not None:
            low, high = self.public
            if (low == 0 or found.low * PLACE_ONE >= low) and (high == PLACE_ONE or found.high * PLACE_ONE <= high):
                return QUIET
        j = self.cells.of(found.value)
        edges = self.cells.edges(j)
        wanted = max(
            self._step((edges[0] - found.low) * PLACE_ONE, self.radii[0]),
            self._step((found.high - edges[1]) * PLACE_ONE, self.radii[1]),
        )
        return j, wanted

    def missed(self, outcome: Outcome) -> float | None:
        """How far the cell is from the forecast, in foreseen standard deviations; None where no cell was disclosed."""
        return self.cells.off(outcome[0]) if isinstance(outcome, tuple) else None

    def _step(self, distance: Fraction, radius: int) -> int:
        """The least step whose distance is at least this one."""
        if distance <= radius:
            return 0
        last = self._last(radius)
        low, high = 0, last  # the last step covers the whole range
        while high - low > 1:
            middle = (low + high) // 2
            if _ladder(radius, middle, self.precision.ladder) >= distance:
                high = middle
            else:
                low = middle
        return high

    def _last(self, radius: int) -> int:
        """A step that reaches beyond every interval, whatever the cell."""
        doublings = max((2 * PLACE_ONE // radius).bit_length() + 1, 1)
        return doublings * self.precision.ladder

    def nats(self, outcome: Outcome) -> float:
        """The reading's code and the step's."""
        if outcome == NOTHING:
            return NOTHING_NATS
        j, step = _cell_and_step(outcome)
        return ANSWERED_NATS + self.cells.nats(j) + step_nats(step)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """The public interval, or the cell with the step's distances."""
        if outcome is QUIET and self.public is not None:
            low, high = self.public
            value = min(max(self.cells.centre, 0), PLACE_ONE)
            return (
                value / PLACE_ONE,
                max(low / PLACE_ONE - self.quantum, 0.0),
                min(high / PLACE_ONE + self.quantum, 1.0),
            )
        if outcome == NOTHING:
            return inf, 0.0, 1.0
        j, step = _cell_and_step(outcome)
        edges = self.cells.edges(j)
        ladder = self.precision.ladder
        lower = edges[0] - Fraction(_ladder(self.radii[0], step, ladder), PLACE_ONE)
        upper = edges[1] + Fraction(_ladder(self.radii[1], step, ladder), PLACE_ONE)
        centre = min(max((edges[0] + edges[1]) / 2, Fraction(0)), Fraction(1))
        return float(centre), max(_down(lower) - self.quantum, 0.0), min(_up(upper) + self.quantum, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class MeanCells:
    """The mean of a number over all rows (or units), asked or read: Fan's bound with a public λ, or Chernoff's."""

    query: Query
    reading: SketchValue
    at: Foreseen
    rates: Rates = field(init=False)
    within: Within = field(init=False)

    def __post_init__(self) -> None:
        u = place_of(self.reading)
        n, draws = self.at.others, self.reading.draws
        rates = Rates.foreseen(float(u), self.reading.second, n, self.at.nats)
        spread, alone = spread_of(self.reading.second, n, draws), spread_of(self.reading.second, n, inf)
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "within", Within.around(u, spread, alone, rates.radii, min(n, draws), self.at))

    @property
    def needs(self) -> tuple[Query, ...]:
        """The question."""
        return (self.query,)

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the mean and the mean square of the rows."""
        n = self.at.rows
        first, squares = in_steps(sums[0], n)
        return self.within.decide(
            Found(Fraction(first, n * STEPS), *self.rates.interval(first, squares, n, self.at.known))
        )

    def value(self, sums: Sequence[Sums]) -> Fraction:
        """The private mean."""
        return Fraction(in_steps(sums[0], self.at.rows)[0], self.at.rows * STEPS)

    def off(self, outcome: Outcome) -> float | None:
        """By the cell."""
        return self.within.missed(outcome)

    def nats(self, outcome: Outcome) -> float:
        """The reading's code and the step's."""
        return self.within.nats(outcome)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """A function of the outcome."""
        return self.within.ends(outcome)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """A cell off the forecast teaches."""
        if outcome is QUIET or outcome == NOTHING or _cell_and_step(outcome)[0] == 0:
            return None
        low, high = self.within.cells.edges(_cell_and_step(outcome)[0])
        return lesson_within(2 * low - 1, 2 * high - 1, self.reading)


# groups -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class GroupShareCells:
    """A share within a group: the exact tail, given how many rows are in the group."""

    query: GroupShare
    reading: SketchValue
    values: tuple[GridValues, GridValues] | None
    at: Foreseen
    within: Within = field(init=False)

    def __post_init__(self) -> None:
        u = place_of(self.reading)
        rows = max(self.at.others * self.reading.group, 1.0)
        m = max(round(rows), 1)
        k = min(max(round(float(u) * m), 0), m)
        low, high = binomial_interval(k, k, m, self.at.nats)
        radii = max(k / m - low, 0.0), max(high - k / m, 0.0)
        spread = _share_spread(float(u), rows, self.reading.draws)
        alone = _share_spread(float(u), rows, inf)
        within = Within.around(u, spread, alone, radii, min(rows, self.reading.draws), self.at)
        object.__setattr__(self, "within", within)

    @property
    def needs(self) -> tuple[Query, ...]:
        """Yes and in the group, no and in the group."""
        return self.query.parts

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the two counts."""
        yes, no = (count_of(one, self.at.rows) for one in sums)
        if yes + no == 0:
            return NOTHING
        others = yes + no - self.at.known
        ends = 0.0, 1.0
        if others > 0:
            ends = binomial_interval(max(yes - self.at.known, 0), min(yes, others), others, self.at.nats)
        return self.within.decide(Found(Fraction(yes, yes + no), Fraction(ends[0]), Fraction(ends[1])))

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private share of the group."""
        yes, no = (count_of(one, self.at.rows) for one in sums)
        return Fraction(yes, yes + no) if yes + no else None

    def off(self, outcome: Outcome) -> float | None:
        """By the cell."""
        return self.within.missed(outcome)

    def nats(self, outcome: Outcome) -> float:
        """The reading's code and the step's."""
        return self.within.nats(outcome)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """A function of the outcome."""
        return self.within.ends(outcome)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """E[(yes - θ) · in the group] = 0 at the cell's centre."""
        if self.values is None:
            return None
        yes, no = (one.array for one in self.values)
        return _group_lesson(self.within, outcome, yes.astype(np.float64) * STEPS, yes | no, self.reading)


@dataclass(frozen=True, slots=True, eq=False)
class GroupMeanCells:
    """A mean within a group: Fan's bound over the rows of the group, given how many there are."""

    query: GroupMean
    reading: SketchValue
    values: tuple[GridValues, GridValues] | None
    at: Foreseen
    rates: Rates = field(init=False)
    within: Within = field(init=False)

    def __post_init__(self) -> None:
        u = place_of(self.reading)
        rows, draws = max(self.at.others * self.reading.group, 1.0), self.reading.draws
        rates = Rates.foreseen(float(u), self.reading.second, rows, self.at.nats)
        spread, alone = spread_of(self.reading.second, rows, draws), spread_of(self.reading.second, rows, inf)
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "within", Within.around(u, spread, alone, rates.radii, min(rows, draws), self.at))

    @property
    def needs(self) -> tuple[Query, ...]:
        """From below and from above."""
        return self.query.parts

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the rows of the group, their mean and mean square."""
        (first, squares), (rest, _) = (in_steps(one, self.at.rows) for one in sums)
        m = (first + rest) // STEPS
        if m == 0:
            return NOTHING
        known = min(self.at.known, m)
        return self.within.decide(Found(Fraction(first, m * STEPS), *self.rates.interval(first, squares, m, known)))

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private mean of the group."""
        up, down = (in_steps(one, self.at.rows)[0] for one in sums)
        return Fraction(up, up + down) if up + down else None

    def off(self, outcome: Outcome) -> float | None:
        """By the cell."""
        return self.within.missed(outcome)

    def nats(self, outcome: Outcome) -> float:
        """The reading's code and the step's."""
        return self.within.nats(outcome)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """A function of the outcome."""
        return self.within.ends(outcome)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """E[(x - θ) · in the group] = 0 at the cell's centre."""
        if self.values is None:
            return None
        up, down = (one.array + VALUE_ONE for one in self.values)
        return _group_lesson(self.within, outcome, up, up + down == STEPS, self.reading)


def _group_lesson(
    within: Within, outcome: Outcome, steps: NDArray[np.float64], member: NDArray[np.bool_], reading: SketchValue
) -> Lesson | None:
    if outcome is QUIET or outcome == NOTHING or _cell_and_step(outcome)[0] == 0:
        return None
    edges = within.cells.edges(_cell_and_step(outcome)[0])
    low, high = max(edges[0], Fraction(0)), min(edges[1], Fraction(1))
    centre = round((low + high) / 2 * STEPS)
    values = GridValues("mean", np.rint((steps - centre) / 2.0) * member)
    off = (0.5 * (1.0 + reading.value) - centre / STEPS) * reading.group
    return Lesson(values, 0.0, max(float(high - low) / 2 * reading.group, 2.0**-14), off)


# quantiles --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class QuantileCells:
    """A quantile: ranks by the exact tail, ends on public thresholds.

    Attributes:
        thresholds: rising, the first at the low end of the range and the last at the high end.
        forecast: the place in this list of the sketch's own quantile.
        reach: how many thresholds below and above the quantile its interval is foreseen to reach.
        public: for an ask, the places in the list of the ends that are printed if it is quiet.
    """

    query: QuantileOf
    reading: SketchValue
    values: tuple[GridValues, GridValues] | None
    at: Foreseen
    thresholds: tuple[float, ...]
    forecast: int
    reach: tuple[int, int]
    public: tuple[int, int] | None
    scale: int

    @classmethod
    def foreseen(
        cls,
        query: QuantileOf,
        reading: SketchValue,
        values: tuple[GridValues, GridValues],
        masses: NDArray[np.float64],
        at: Foreseen,
    ) -> QuantileCells:
        """Thresholds where the sketch's distribution function passes levels around the wanted one."""
        q = query.level
        rows, draws = max(at.others * reading.group, 1.0), max(reading.draws, 1.0)
        sampling = share_radius(q, at.nats / rows)
        spread = max(_share_spread(q, rows, draws), 1e-9)
        fine = min(float(at.precision.fine) * spread, _WIDEST * sqrt(at.misfit) * share_radius(q, 0.5 / rows))
        noise = at.noise or 0.0
        most = (6.0 + 6.0 * at.misfit + noise) * spread + 1.5 * sampling
        levels, z, width = [q], 0.0, fine
        while z < 1.0:
            z += width
            levels += [q - z, q + z]
            if z > most:
                width *= 1.3
        steps, total = _distribution(values, masses)
        places = {_at_level(steps, total, level) for level in levels if 0.0 < level < 1.0}
        low, high = query.low, query.high
        heavy = _heavy(steps, total, fine) if query.step is None else set()
        if query.step is None:  # a value is within half a step of its place: above it, and below where many have it
            places = {2 * place + 1 for place in places} | {2 * place - 1 for place in heavy}
        else:
            places = {2 * place for place in places}
        inside = {_rounded(low + (high - low) * (place / (2 * STEPS)), query.step) for place in places}
        thresholds = (low, *sorted(t for t in inside if low < t < high), high)

        def value_at(level: float, *, below: bool = False) -> float:
            place = 0 if level <= 0.0 else STEPS if level >= 1.0 else _at_level(steps, total, level)
            more = 0 if query.step is not None or place in (0, STEPS) else -1 if below and place in heavy else 1
            return _rounded(low + (high - low) * ((2 * place + more) / (2 * STEPS)), query.step)

        def ends(off: float) -> tuple[int, int]:
            """The last threshold that surely lies below the quantile if levels are off by so much, and the first above."""
            value = value_at(q - off, below=True)
            least = _first_at_least(thresholds, value)
            least -= thresholds[least] != value
            return max(least, 0), _first_at_least(thresholds, value_at(q + off))

        forecast = _first_at_least(thresholds, value_at(q))
        foreseen = ends(sampling * float(at.precision.start))
        reach = max(forecast - foreseen[0], 0), max(foreseen[1] - forecast, 0)
        public = None
        if at.noise is not None:
            public = ends(at.noise * spread + sampling * (_MARGIN + 2.0 / sqrt(min(rows, draws))))
        scale = max(round(1382.4 * at.misfit * spread / fine), 1)
        return cls(query, reading, values, at, thresholds, forecast, reach, public, scale)

    @property
    def needs(self) -> tuple[Query, ...]:
        """Counts below and up to each threshold; and of the group, where there is one."""
        return self.query.counts(self.thresholds[:-1])

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the ranks of the thresholds."""
        counts = [count_of(one, self.at.rows) for one in sums]
        last = len(self.thresholds) - 1
        below, upto = counts[:last], counts[last : 2 * last]
        m = self.at.rows if self.query.given is None else counts[-1]
        if m == 0:
            return NOTHING
        q, known = self.query.level, min(self.at.known, m)
        others = m - known
        # P(x < t) ≥ q is refuted by few rows below; P(x ≤ t) ≤ q by many at or below. Nothing lies below the range.
        low = max(
            (i for i in range(1, last) if tail_refutes(others - below[i], others, 1.0 - q, self.at.nats)), default=0
        )
        high = min((i for i in range(last) if tail_refutes(upto[i] - known, others, q, self.at.nats)), default=last)
        if self.public is not None and self.public[0] <= low and high <= self.public[1]:
            return QUIET
        place = next((i for i in range(last) if upto[i] >= q * m), last)
        wanted = (place - low - self.reach[0], high - place - self.reach[1])
        step = max(-(-max(more, 0) // each) for more, each in zip(wanted, self._rungs, strict=True))
        return place - self.forecast, step

    @property
    def _rungs(self) -> tuple[int, int]:
        """How many thresholds one step adds, below and above."""
        below, above = (max(-(-one // self.at.precision.ladder), 1) for one in self.reach)
        return below, above

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private quantile, rounded up to a threshold."""
        outcome = replace(self, public=None).decide(sums)
        return None if outcome == NOTHING else Fraction(self.ends(outcome)[0])

    def off(self, outcome: Outcome) -> float | None:
        """By the thresholds in between."""
        return abs(outcome[0]) * 1382.4 * self.at.misfit / self.scale if isinstance(outcome, tuple) else None

    def nats(self, outcome: Outcome) -> float:
        """The reading's code and the step's."""
        if outcome == NOTHING:
            return NOTHING_NATS
        j, step = _cell_and_step(outcome)
        return ANSWERED_NATS + reading_nats(j, self.scale, len(self.thresholds) + 2) + step_nats(step)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """The thresholds that the outcome allows."""
        if outcome == NOTHING:
            return inf, 0.0, 1.0
        last = len(self.thresholds) - 1
        if outcome is QUIET and self.public is not None:
            place, (low, high) = self.forecast, self.public
        else:
            j, step = _cell_and_step(outcome)
            place = min(max(self.forecast + j, 0), last)
            below, above = (one + step * each for one, each in zip(self.reach, self._rungs, strict=True))
            low, high = max(place - below, 0), min(place + above, last)
        found = tuple(self._place(i) for i in (place, low, high))
        return found[0], found[1], found[2]

    def _place(self, i: int) -> float:
        low, high = self.query.low, self.query.high
        if i == 0 or i == len(self.thresholds) - 1:
            return float(i > 0)
        return min(max((self.thresholds[i] - low) / (high - low), 0.0), 1.0)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """E[(1[x ≤ t] - q) · in the group] = 0 at the threshold found."""
        if self.values is None or outcome is QUIET or outcome == NOTHING or _cell_and_step(outcome)[0] == 0:
            return None
        place = self.ends(outcome)[0]
        up, down = (one.array + VALUE_ONE for one in self.values)
        member = up + down == STEPS
        q = self.query.level
        steps = np.where(up <= place * STEPS + 0.5, 1.0 - q, -q) * member
        values = GridValues("mean", np.rint(steps * VALUE_ONE))
        return Lesson(values, 0.0, 2.0**-7 * self.reading.group, 0.05 * self.reading.group)


def _distribution(
    values: tuple[GridValues, GridValues], masses: NDArray[np.float64]
) -> tuple[list[tuple[int, int]], int]:
    """Rising places of the group's public rows with their cumulative masses, in whole numbers."""
    up, down = (one.array + VALUE_ONE for one in values)
    member = up + down == STEPS
    mass = np.maximum(masses[member], 0.0)
    found = np.bincount(up[member].astype(np.int64), weights=mass, minlength=1)
    places = np.flatnonzero(found)
    total = np.cumsum(found[places])
    steps = [(int(place), int(so_far)) for place, so_far in zip(places, total, strict=True)]
    return steps or [(STEPS // 2, 1)], steps[-1][1] if steps else 1


def _at_level(steps: list[tuple[int, int]], total: int, level: float) -> int:
    """The least place with so much mass at or below it."""
    wanted = Fraction(level) * total
    low, high = 0, len(steps) - 1
    while low < high:
        middle = (low + high) // 2
        if steps[middle][1] >= wanted:
            high = middle
        else:
            low = middle + 1
    return steps[low][0]


def _heavy(steps: list[tuple[int, int]], total: int, share: float) -> set[int]:
    """Places that at least this share of the mass has."""
    so_far, found = 0, set()
    for place, mass in steps:
        if mass - so_far >= share * total:
            found.add(place)
        so_far = mass
    return found


def _first_at_least(thresholds: Sequence[float], value: float) -> int:
    return next((i for i, t in enumerate(thresholds) if t >= value), len(thresholds) - 1)


def _rounded(t: float, step: float | None) -> float:
    return t if step is None else round(t / step) * step


# geometry ---------------------------------------------------------------------------------------------------------------


class Cells(NamedTuple):
    """Cells of one width around a forecast, in multiples of 1/PLACE_ONE; the width is even."""

    centre: int
    width: int
    scale: int
    spread: float

    @classmethod
    def around(cls, place: Fraction, spread: float, alone: float, at: Foreseen) -> Cells:
        """Cells of `fine` times what the forecast may be off by, but not much wider than the private rows' own noise.

        Where forecasts have been off by more than that, the code expects it.
        """
        spread = max(spread, 2.0**-31)
        half = max(round(min(spread * float(at.precision.fine), _WIDEST * sqrt(at.misfit) * alone) * PLACE_ONE / 2), 1)
        scale = max(round(1.35 * at.misfit * spread * PLACE_ONE / (2 * half) * 1024), 1)
        return cls(round(place * PLACE_ONE), 2 * half, min(scale, 2**40), spread)

    def off(self, j: int) -> float:
        """How far a cell is from the forecast, in foreseen standard deviations."""
        return abs(j) * self.width / PLACE_ONE / self.spread

    def of(self, value: Fraction) -> int:
        """The cell of a place; a cell contains its lower end."""
        return floor((value * PLACE_ONE - self.centre) / self.width + Fraction(1, 2))

    def edges(self, j: int) -> tuple[Fraction, Fraction]:
        """The ends of a cell, as places."""
        low = self.centre + j * self.width - self.width // 2
        return Fraction(low, PLACE_ONE), Fraction(low + self.width, PLACE_ONE)

    def nats(self, j: int) -> float:
        """The code of a cell; all places lie in [0, 1]."""
        return reading_nats(j, self.scale, -(-PLACE_ONE // self.width) + 2)


def beyond(reading: SketchValue, limits: Tolerance, total: int, rows: int) -> int | None:
    """Quiet if |u - v| ≤ τ; otherwise ±j, if the private mean is in the j-th cell beyond τ. In whole numbers."""
    u, per = reading.numerator, reading.denominator
    # v - u = difference / whole, exactly
    difference = total * per - u * VALUE_ONE * rows
    whole = VALUE_ONE * rows * per
    over = abs(difference) * TOLERANCE_ONE - limits.tau * whole
    if over <= 0:
        return QUIET
    j = -(-over // (limits.cell * whole))
    return j if difference > 0 else -j


def edges_beyond(reading: SketchValue, limits: Tolerance, outcome: Outcome) -> tuple[Fraction, Fraction]:
    """The private means with this outcome of `beyond`, on the [-1, 1] scale."""
    u = Fraction(reading.numerator, reading.denominator)
    tau, width = Fraction(limits.tau, TOLERANCE_ONE), Fraction(limits.cell, TOLERANCE_ONE)
    if outcome is QUIET:
        return u - tau, u + tau
    j = _cell(outcome)
    near, far = tau + (abs(j) - 1) * width, tau + abs(j) * width
    return (u + near, u + far) if j > 0 else (u - far, u - near)


def cell_beyond_nats(reading: SketchValue, limits: Tolerance, outcome: Outcome) -> float:
    """The code of a cell beyond τ."""
    return beyond_nats(_cell(outcome), *room_beyond(reading, limits))


def room_beyond(reading: SketchValue, limits: Tolerance) -> tuple[int, int]:
    """How many cells beyond τ fit above and below, the last one perhaps in part. Public."""
    u, per = reading.numerator, reading.denominator
    room = limits.cell * per
    up = max(-(-((per - u) * TOLERANCE_ONE - limits.tau * per) // room), 0)
    down = max(-(-((per + u) * TOLERANCE_ONE - limits.tau * per) // room), 0)
    return up, down


def lesson_within(low: Fraction, high: Fraction, reading: SketchValue) -> Lesson:
    """The part of a cell inside [-1, 1], which contains the private mean."""
    inside = max(low, Fraction(-1)), min(high, Fraction(1))
    slack = max(0.5 * float(inside[1] - inside[0]), 0.0625 * float(high - low))
    return Lesson(None, 0.5 * float(inside[0] + inside[1]), slack, reading.value)


def in_steps(sums: Sums, rows: int) -> tuple[int, int]:
    """Σx and Σx² of places in steps, from sums on the [-1, 1] scale."""
    first = sums.first + rows * VALUE_ONE
    return first, sums.second + 2 * VALUE_ONE * sums.first + rows * VALUE_ONE * VALUE_ONE


def spread_of(second: float, rows: float, draws: float) -> float:
    """What a mean's forecast may be off by, as a place, from the second moment in steps²."""
    variance = max(second / (STEPS * STEPS), 1.0 / (16.0 * max(draws, 1.0)), 2.0**-30)
    return sqrt(variance * (1.0 / rows + 1.0 / max(draws, 1.0)))


def _share_spread(place: float, rows: float, draws: float) -> float:
    """The same for a share: a kl radius, so that it is right near 0 and 1 and never 0."""
    return share_radius(place, 0.5 * (1.0 / rows + 1.0 / max(draws, 1.0)))


def place_of(reading: SketchValue) -> Fraction:
    """The forecast as a place, on the grid of cells."""
    u = Fraction(reading.numerator + reading.denominator, 2 * reading.denominator)
    return Fraction(round(min(max(u, Fraction(0)), Fraction(1)) * PLACE_ONE), PLACE_ONE)


_ROOTS: dict[int, tuple[int, ...]] = {}


def _ladder(radius: int, step: int, per_double: int) -> int:
    """radius · 2^(step / per_double), rounded up, in whole numbers."""
    if per_double not in _ROOTS:
        _ROOTS[per_double] = tuple(_root(2 ** (i + 32 * per_double), per_double) for i in range(per_double))
    whole, part = divmod(step, per_double)
    return -(-radius * (_ROOTS[per_double][part] << whole) // 2**32)


def _root(number: int, degree: int) -> int:
    """The degree-th root, rounded up; the degree is a power of 2."""
    exact = True
    while degree > 1:
        following = isqrt(number)
        exact = exact and following * following == number
        number, degree = following, degree // 2
    return number if exact else number + 1


def _down(x: Fraction) -> float:
    """The largest multiple of 1/PLACE_ONE at or below x."""
    return floor(x * PLACE_ONE) / PLACE_ONE


def _up(x: Fraction) -> float:
    return ceil(x * PLACE_ONE) / PLACE_ONE


def _cell(outcome: Outcome) -> int:
    if not isinstance(outcome, int):
        raise TypeError(f"a cell is a whole number, not {outcome!r}")
    return outcome


def _cell_and_step(outcome: Outcome) -> tuple[int, int]:
    if not isinstance(outcome, tuple):
        raise TypeError(f"a cell with a step is a pair, not {outcome!r}")
    return outcome
