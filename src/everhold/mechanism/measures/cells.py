"""Cells around a forecast, and the ladder of distances beyond them.

Cells have a public width. Where the private interval is not a function of the cell, a step says how far beyond the cell it
reaches, on a public ladder of distances (`docs/theory/code.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf, isqrt, sqrt
from typing import TYPE_CHECKING, NamedTuple

from everhold.bounds.code import ANSWERED_NATS, NOTHING_NATS, reading_nats, step_nats
from everhold.mechanism.measures.measure import POSITION_ONE, MeasureInputs, Precision, cell_and_step
from everhold.queries.protocol import NOTHING, QUIET

if TYPE_CHECKING:
    from everhold.queries.protocol import Outcome

__all__ = ["Cells", "LadderedCells", "LadderedMeasure", "PrivateEstimate", "down", "up"]

_MARGIN = 1.05  # of the foreseen distance, before the first step
_FAR = 4  # times the larger foreseen distance
_UNEQUAL = 16


class Cells(NamedTuple):
    """Cells of one width around a forecast, in multiples of 1/POSITION_ONE; the width is even."""

    centre: int
    width: int
    scale: int
    spread: float

    @classmethod
    def around(cls, position: Fraction, spread: float, alone: float, inputs: MeasureInputs) -> Cells:
        """Cells of `fine` times what the forecast may be off by, but not much wider than the private rows' own noise.

        Where forecasts have been off by more than that, the code expects it.
        """
        spread = max(spread, 2.0**-31)
        widest = float(inputs.precision.widest) * sqrt(inputs.misfit) * alone
        half = max(round(min(spread * float(inputs.precision.fine), widest) * POSITION_ONE / 2), 1)
        scale = max(round(1.35 * inputs.misfit * spread * POSITION_ONE / (2 * half) * 1024), 1)
        return cls(round(position * POSITION_ONE), 2 * half, min(scale, 2**40), spread)

    def deviation(self, j: int) -> float:
        """How far a cell is from the forecast, in foreseen standard deviations."""
        return abs(j) * self.width / POSITION_ONE / self.spread

    def of(self, value: Fraction) -> int:
        """The cell of a position; a cell contains its lower end."""
        return floor((value * POSITION_ONE - self.centre) / self.width + Fraction(1, 2))

    def edges(self, j: int) -> tuple[Fraction, Fraction]:
        """The ends of a cell, as positions."""
        low = self.centre + j * self.width - self.width // 2
        return Fraction(low, POSITION_ONE), Fraction(low + self.width, POSITION_ONE)

    def charge(self, j: int) -> float:
        """The code of a cell; all positions lie in [0, 1]."""
        return reading_nats(j, self.scale, -(-POSITION_ONE // self.width) + 2)


class PrivateEstimate(NamedTuple):
    """A private value with its private interval, as positions."""

    value: Fraction
    low: Fraction
    high: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class LadderedCells:
    """Cells and ladder of a measure whose private interval is not a function of the cell.

    Attributes:
        cells: around the forecast.
        radii: foreseen distances below and above.
        public: for an ask, the interval that is printed if the private one lies within it; None of a reading.
        precision: of the ladder.
        quantum: how far rounding to the grid can move a mean, as a position.
        allowed: how far the forecast may be off before an ask is a surprise, as a position.
    """

    cells: Cells
    radii: tuple[int, int]
    public: tuple[int, int] | None
    precision: Precision
    quantum: float
    allowed: float = 0.0

    @classmethod
    def around(
        cls,
        position: Fraction,
        spread: float,
        alone: float,
        radii: tuple[float, float],
        rows: float,
        inputs: MeasureInputs,
        *,
        least: float = 0.0,
    ) -> LadderedCells:
        """For a forecast that may be off by `spread`, `alone` because of the private rows, of which there are `rows`.

        `least`: the spread that an ask allows at least.
        """
        cells = Cells.around(position, spread, alone, inputs)
        below, above = (max(ceil(min(radius, 1.0) * POSITION_ONE * inputs.precision.start), 1) for radius in radii)
        public = None
        if inputs.deviations is not None:
            more = _MARGIN + 2.0 / sqrt(max(rows, 1.0))
            spread = max(spread, least)
            allowed = inputs.deviations * spread * POSITION_ONE
            low = cells.centre - ceil(allowed + min(radii[0], 1.0) * POSITION_ONE * more)
            high = cells.centre + ceil(allowed + min(radii[1], 1.0) * POSITION_ONE * more)
            public = max(low, 0), min(high, POSITION_ONE)
        return cls(cells, (below, above), public, inputs.precision, inputs.quantum, (inputs.deviations or 0.0) * spread)

    def decide(self, estimate: PrivateEstimate | None) -> Outcome:
        """Quiet if the private interval lies within the public one; else the cell and the least step."""
        if estimate is None:
            return NOTHING
        if self.public is not None:
            low, high = self.public
            if (low == 0 or estimate.low * POSITION_ONE >= low) and (
                high == POSITION_ONE or estimate.high * POSITION_ONE <= high
            ):
                return QUIET
        j = self.cells.of(estimate.value)
        edges = self.cells.edges(j)
        below, above = self._radii(j)
        step = max(
            self._step((edges[0] - estimate.low) * POSITION_ONE, below),
            self._step((estimate.high - edges[1]) * POSITION_ONE, above),
        )
        return j, step

    def _radii(self, j: int) -> tuple[int, int]:
        """The foreseen distances at a cell: alike on both sides where it is far from the forecast, or these differ much.

        At a forecast near 0 or 1 one of them may be next to nothing, and what that side needs would be wasted on the other.
        """
        least, most = min(self.radii), max(self.radii)
        far = abs(j) * self.cells.width > _FAR * most or (j and most > _UNEQUAL * least)
        return (most, most) if far else self.radii

    def deviation(self, outcome: Outcome) -> float | None:
        """How far the cell is from the forecast, in foreseen standard deviations; None where no cell was disclosed."""
        return self.cells.deviation(outcome[0]) if isinstance(outcome, tuple) else None

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
        doublings = max((2 * POSITION_ONE // radius).bit_length() + 1, 1)
        return doublings * self.precision.ladder

    def charge(self, outcome: Outcome) -> float:
        """The reading's code and the step's."""
        if outcome == NOTHING:
            return NOTHING_NATS
        j, step = cell_and_step(outcome)
        return ANSWERED_NATS + self.cells.charge(j) + step_nats(step)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """The public interval, or the cell with the step's distances."""
        if outcome is QUIET and self.public is not None:
            low, high = self.public
            value = min(max(self.cells.centre, 0), POSITION_ONE)
            return (
                value / POSITION_ONE,
                max(low / POSITION_ONE - self.quantum, 0.0),
                min(high / POSITION_ONE + self.quantum, 1.0),
            )
        if outcome == NOTHING:
            return inf, 0.0, 1.0
        j, step = cell_and_step(outcome)
        edges = self.cells.edges(j)
        ladder = self.precision.ladder
        below, above = self._radii(j)
        lower = edges[0] - Fraction(_ladder(below, step, ladder), POSITION_ONE)
        upper = edges[1] + Fraction(_ladder(above, step, ladder), POSITION_ONE)
        centre = min(max((edges[0] + edges[1]) / 2, Fraction(0)), Fraction(1))
        return float(centre), max(down(lower) - self.quantum, 0.0), min(up(upper) + self.quantum, 1.0)


class LadderedMeasure:
    """What measures with cells and a ladder share: everything that follows from the outcome."""

    __slots__ = ()
    laddered: LadderedCells

    def deviation(self, outcome: Outcome) -> float | None:
        """By the cell."""
        return self.laddered.deviation(outcome)

    def charge(self, outcome: Outcome) -> float:
        """The reading's code and the step's."""
        return self.laddered.charge(outcome)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """A function of the outcome."""
        return self.laddered.ends(outcome)


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


def down(x: Fraction) -> float:
    """The largest multiple of 1/POSITION_ONE at or below x."""
    return floor(x * POSITION_ONE) / POSITION_ONE


def up(x: Fraction) -> float:
    """The smallest multiple of 1/POSITION_ONE at or above x."""
    return ceil(x * POSITION_ONE) / POSITION_ONE
