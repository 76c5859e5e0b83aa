"""How a question is measured: everything that is fixed before the private sums are read, and what they then say.

A measure is built from public facts: the question, what the sketch foresees, the price. It has three parts.

* `needs`: the linear questions whose exact sums it wants.
* `decide`: from these sums to an outcome, the only step that sees them. QUIET, a cell, a cell with a step, or NOTHING.
* `ends`, `charge`: the printed interval and the cost of an outcome. Both are functions of the outcome alone.

Values are *positions* in [0, 1]: a share, or where a mean or quantile lies within its range. Prices and theorems:
docs/theory/validity.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple, Protocol

from everhold.mechanism.tolerance import share_radius
from everhold.queries.grid import STEPS, VALUE_ONE, GridValues

if TYPE_CHECKING:
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = [
    "POSITION_ONE",
    "QUANTUM",
    "Lesson",
    "Measure",
    "MeasureInputs",
    "Precision",
    "cell_and_step",
    "cell_in",
    "count_of",
    "in_steps",
    "lesson_within",
    "one_row",
    "position_of",
    "share_spread",
    "spread_of",
]

POSITION_ONE = 2**32
"""Cells and their centres are whole multiples of 1/POSITION_ONE."""


QUANTUM = 2.0**-16
"""How far rounding to the grid can move a mean, as a position: 2⁻¹⁷ for each row, the same again for the mean of a unit."""


class Precision(NamedTuple):
    """How finely an act discloses.

    Attributes:
        fine: the width of a cell in standard deviations of what the forecast may be off by.
        ladder: steps from one distance of the ladder to its double.
        start: the first distance, as a multiple of the foreseen one.
        widest: the largest width of a cell in standard deviations of the private rows' own mean.
    """

    fine: Fraction
    ladder: int = 8
    start: Fraction = Fraction(21, 20)
    widest: Fraction = Fraction(5, 2)


class MeasureInputs(NamedTuple):
    """Public facts behind a measure.

    Attributes:
        price: the price of the interval.
        rows: n, the private draws.
        known_rows: how many of them the analyst may know.
        deviations: for an ask, how many standard deviations the forecast may be off before it is a surprise; None of a
            reading.
        precision: of what is disclosed.
        misfit: how far off forecasts have been so far, in the standard deviations that were foreseen; at least 1.
        quantum: how far rounding to the grid can move a mean, as a position.
    """

    price: float
    rows: int
    known_rows: int
    deviations: float | None
    precision: Precision
    misfit: float = 1.0
    quantum: float = QUANTUM

    @property
    def others(self) -> int:
        """Rows that the analyst does not know."""
        return self.rows - self.known_rows


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
        """The private value itself, as a position, for acts that disclose something else. None: there is none."""

    def deviation(self, outcome: Outcome) -> float | None:
        """How far the private value was from the forecast, in foreseen standard deviations, as far as that was disclosed."""

    def charge(self, outcome: Outcome) -> float:
        """The cost of that outcome to all later claims."""

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """Value, low and high, as positions."""

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """What it teaches the sketch, if anything."""


def count_of(sums: Sums, rows: int) -> int:
    """The number of yes."""
    return (sums.first // VALUE_ONE + rows) // 2


def in_steps(sums: Sums, rows: int) -> tuple[int, int]:
    """Σx and Σx² of positions in steps, from sums on the [-1, 1] scale."""
    first = sums.first + rows * VALUE_ONE
    return first, sums.second + 2 * VALUE_ONE * sums.first + rows * VALUE_ONE * VALUE_ONE


def position_of(forecast: SketchValue) -> Fraction:
    """The forecast as a position, on the grid of cells."""
    u = Fraction(forecast.numerator + forecast.denominator, 2 * forecast.denominator)
    return Fraction(round(min(max(u, Fraction(0)), Fraction(1)) * POSITION_ONE), POSITION_ONE)


def spread_of(second: float, rows: float, draws: float) -> float:
    """What a mean's forecast may be off by, as a position, from the second moment in steps²."""
    variance = max(second / (STEPS * STEPS), 1.0 / (16.0 * max(draws, 1.0)), 2.0**-30)
    return sqrt(variance * (1.0 / rows + 1.0 / max(draws, 1.0)))


def one_row(rows: float, draws: float) -> float:
    """The least spread that an ask of a mean allows, as a position: so one private row at the other end is no surprise."""
    return sqrt(2.0) / max(min(rows, draws), 1.0)


def share_spread(position: float, rows: float, draws: float) -> float:
    """The same for a share: a kl radius, so that it is right near 0 and 1 and never 0."""
    return share_radius(position, 0.5 * (1.0 / rows + 1.0 / max(draws, 1.0)))


def lesson_within(low: Fraction, high: Fraction, forecast: SketchValue) -> Lesson:
    """The part of a cell inside [-1, 1], which contains the private mean."""
    inside = max(low, Fraction(-1)), min(high, Fraction(1))
    slack = max(0.5 * float(inside[1] - inside[0]), 0.0625 * float(high - low))
    return Lesson(None, 0.5 * float(inside[0] + inside[1]), slack, forecast.value)


def cell_in(outcome: Outcome) -> int:
    """The cell of an outcome that is one."""
    if not isinstance(outcome, int):
        raise TypeError(f"a cell is a whole number, not {outcome!r}")
    return outcome


def cell_and_step(outcome: Outcome) -> tuple[int, int]:
    """The cell and the step of an outcome that has both."""
    if not isinstance(outcome, tuple):
        raise TypeError(f"a cell with a step is a pair, not {outcome!r}")
    return outcome
