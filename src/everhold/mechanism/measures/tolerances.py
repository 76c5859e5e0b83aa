"""Questions asked with a tolerance: quiet within τ of the forecast, else the cell beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from everhold.bounds.code import beyond_nats
from everhold.bounds.concentration import kl_interval, known_rows_range
from everhold.mechanism.measures.cells import down, up
from everhold.mechanism.measures.counts import count_interval
from everhold.mechanism.measures.measure import Lesson, MeasureInputs, cell_in, in_steps, lesson_within
from everhold.mechanism.tolerance import TOLERANCE_ONE
from everhold.queries.grid import STEPS, VALUE_ONE
from everhold.queries.protocol import QUIET

if TYPE_CHECKING:
    from everhold.mechanism.tolerance import Tolerance
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = ["CountTolerance", "MeanTolerance", "cell_beyond", "cell_beyond_nats", "edges_beyond", "room_beyond"]


@dataclass(frozen=True, slots=True, eq=False)
class _ToleranceMeasure:
    """A linear question with a tolerance: what its two kinds share."""

    query: Query
    forecast: SketchValue
    limits: Tolerance
    inputs: MeasureInputs

    @property
    def needs(self) -> tuple[Query, ...]:
        """The question."""
        return (self.query,)

    def decide(self, sums: Sequence[Sums]) -> int | None:
        """Quiet if |u - v| ≤ τ; otherwise ±j, if the private mean is in the j-th cell beyond τ. In whole numbers."""
        return cell_beyond(self.forecast, self.limits, sums[0].first, self.inputs.rows)

    def value(self, sums: Sequence[Sums]) -> Fraction:
        """The private mean."""
        return Fraction(in_steps(sums[0], self.inputs.rows)[0], self.inputs.rows * STEPS)

    def deviation(self, outcome: Outcome) -> float | None:
        """None: such an ask does not disclose it precisely enough."""
        return None

    def charge(self, outcome: Outcome) -> float:
        """The cell's code; how many cells there are is public."""
        return cell_beyond_nats(self.forecast, self.limits, outcome)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """A surprise gives the cell."""
        if outcome is QUIET:
            return None
        return lesson_within(*edges_beyond(self.forecast, self.limits, outcome), self.forecast)


@dataclass(frozen=True, slots=True, eq=False)
class CountTolerance(_ToleranceMeasure):
    """A yes/no question asked: quiet if the share is within τ of the forecast, else the cell beyond τ."""

    def counts(self, outcome: Outcome) -> tuple[int, int]:
        """The least and the largest count with this outcome."""
        n, per, tau, cell = self.inputs.rows, self.forecast.denominator, self.limits.tau, self.limits.cell
        # (1 + v)/2 = count/n, all over 2 · per · TOLERANCE_ONE
        middle, whole = (per + self.forecast.numerator) * TOLERANCE_ONE, 2 * per * TOLERANCE_ONE
        if outcome is QUIET:
            least, most = -(-n * (middle - tau * per) // whole), n * (middle + tau * per) // whole
        else:  # a cell beyond τ is open on the side of the forecast
            j = cell_in(outcome)
            near, far = (tau + (abs(j) - 1) * cell) * per, (tau + abs(j) * cell) * per
            if j > 0:
                least, most = n * (middle + near) // whole + 1, n * (middle + far) // whole
            else:
                least, most = -(-n * (middle - far) // whole), -(-n * (middle - near) // whole) - 1
        return max(least, 0), min(most, n)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """By the exact tail."""
        value = self.forecast.value
        if outcome is not QUIET:
            low, high = edges_beyond(self.forecast, self.limits, outcome)
            value = float((low + high) / 2)
        return 0.5 * (1.0 + min(max(value, -1.0), 1.0)), *count_interval(*self.counts(outcome), self.inputs)


@dataclass(frozen=True, slots=True, eq=False)
class MeanTolerance(_ToleranceMeasure):
    """A number asked under a promised half-width: quiet within τ of the forecast, ends by Chernoff's bound."""

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """By Chernoff's bound, and the rounding error of the grid."""
        low, high = edges_beyond(self.forecast, self.limits, outcome)
        value = self.forecast.value if outcome is QUIET else float((low + high) / 2)
        positions = (min(max(down((1 + low) / 2), 0.0), 1.0), min(max(up((1 + high) / 2), 0.0), 1.0))
        least, most, left = known_rows_range(*positions, self.inputs.rows, self.inputs.known_rows)
        ends = kl_interval(least, most, self.inputs.price / left)
        return (
            0.5 * (1.0 + min(max(value, -1.0), 1.0)),
            max(ends[0] - self.inputs.quantum, 0.0),
            min(ends[1] + self.inputs.quantum, 1.0),
        )


def cell_beyond(forecast: SketchValue, limits: Tolerance, total: int, rows: int) -> int | None:
    """Quiet if |u - v| ≤ τ; otherwise ±j, if the private mean is in the j-th cell beyond τ. In whole numbers."""
    u, per = forecast.numerator, forecast.denominator
    # v - u = difference / whole, exactly
    difference = total * per - u * VALUE_ONE * rows
    whole = VALUE_ONE * rows * per
    over = abs(difference) * TOLERANCE_ONE - limits.tau * whole
    if over <= 0:
        return QUIET
    j = -(-over // (limits.cell * whole))
    return j if difference > 0 else -j


def edges_beyond(forecast: SketchValue, limits: Tolerance, outcome: Outcome) -> tuple[Fraction, Fraction]:
    """The private means with this outcome of `beyond`, on the [-1, 1] scale."""
    u = Fraction(forecast.numerator, forecast.denominator)
    tau, width = Fraction(limits.tau, TOLERANCE_ONE), Fraction(limits.cell, TOLERANCE_ONE)
    if outcome is QUIET:
        return u - tau, u + tau
    j = cell_in(outcome)
    near, far = tau + (abs(j) - 1) * width, tau + abs(j) * width
    return (u + near, u + far) if j > 0 else (u - far, u - near)


def cell_beyond_nats(forecast: SketchValue, limits: Tolerance, outcome: Outcome) -> float:
    """The code of a cell beyond τ."""
    return beyond_nats(cell_in(outcome), *room_beyond(forecast, limits))


def room_beyond(forecast: SketchValue, limits: Tolerance) -> tuple[int, int]:
    """How many cells beyond τ fit above and below, the last one perhaps in part. Public."""
    u, per = forecast.numerator, forecast.denominator
    room = limits.cell * per
    up = max(-(-((per - u) * TOLERANCE_ONE - limits.tau * per) // room), 0)
    down = max(-(-((per + u) * TOLERANCE_ONE - limits.tau * per) // room), 0)
    return up, down
