"""Quantiles: ranks by the exact tail, ends on public thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from everhold.bounds.binomial import tail_refutes
from everhold.bounds.code import ANSWERED_NATS, NOTHING_NATS, reading_nats, step_nats
from everhold.mechanism.measures.cells import _MARGIN
from everhold.mechanism.measures.measure import POSITION_ONE, Lesson, MeasureInputs, cell_and_step, count_of, share_spread
from everhold.mechanism.tolerance import share_radius
from everhold.queries.grid import STEPS, VALUE_ONE, GridValues
from everhold.queries.protocol import NOTHING, QUIET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.expression.composites import QuantileOf
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = ["QuantileCells"]

_PARTS = 64
"""No two neighbouring thresholds are farther apart than this part of the range."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantileCells:
    """A quantile: ranks by the exact tail, ends on public thresholds.

    Attributes:
        thresholds: rising, the first at the low end of the range and the last at the high end.
        forecast_index: the index in this list of the sketch's own quantile.
        reach: how many thresholds below and above the quantile its interval is foreseen to reach.
        public: for an ask, the indices in the list of the ends that are printed if it is quiet.
    """

    query: QuantileOf
    forecast: SketchValue
    values: tuple[GridValues, GridValues] | None
    inputs: MeasureInputs
    thresholds: tuple[float, ...]
    forecast_index: int
    reach: tuple[int, int]
    public: tuple[int, int] | None
    scale: int

    @classmethod
    def foreseen(
        cls,
        query: QuantileOf,
        forecast: SketchValue,
        values: tuple[GridValues, GridValues],
        masses: NDArray[np.float64],
        inputs: MeasureInputs,
    ) -> QuantileCells:
        """Thresholds where the sketch's distribution function passes levels around the wanted one."""
        q = query.level
        rows, draws = max(inputs.others * forecast.group, 1.0), max(forecast.draws, 1.0)
        sampling = share_radius(q, inputs.price / rows)
        spread = max(share_spread(q, rows, draws), 1e-9)
        widest = float(inputs.precision.widest) * sqrt(inputs.misfit) * share_radius(q, 0.5 / rows)
        fine = min(float(inputs.precision.fine) * spread, widest)
        deviations = inputs.deviations or 0.0
        most = (6.0 + 6.0 * inputs.misfit + deviations) * spread + 1.5 * sampling
        levels, z, width = [q], 0.0, fine
        while z < 1.0:
            z += width
            levels += [q - z, q + z]
            if z > most:
                width *= 1.3
        steps, total = _distribution(values, masses)
        positions = {_at_level(steps, total, level) for level in levels if 0.0 < level < 1.0}
        low, high = query.low, query.high
        heavy = _heavy(steps, total, fine) if query.step is None else set()
        if query.step is None:  # a value is within half a step of its position: above it, and below where many have it
            positions = {2 * position + 1 for position in positions} | {2 * position - 1 for position in heavy}
        else:
            positions = {2 * position for position in positions}
        inside = {_rounded(low + (high - low) * (position / (2 * STEPS)), query.step) for position in positions}
        thresholds = _without_gaps((low, *sorted(t for t in inside if low < t < high), high), query.step)

        def value_at(level: float, *, below: bool = False) -> float:
            position = 0 if level <= 0.0 else STEPS if level >= 1.0 else _at_level(steps, total, level)
            more = 0 if query.step is not None or position in (0, STEPS) else -1 if below and position in heavy else 1
            return _rounded(low + (high - low) * ((2 * position + more) / (2 * STEPS)), query.step)

        def ends(off: float) -> tuple[int, int]:
            """The last threshold that surely lies below the quantile if levels are off by so much, and the first above."""
            value = value_at(q - off, below=True)
            least = _first_at_least(thresholds, value)
            least -= thresholds[least] != value
            return max(least, 0), _first_at_least(thresholds, value_at(q + off))

        forecast_index = _first_at_least(thresholds, value_at(q))
        foreseen = ends(sampling * float(inputs.precision.start))
        reach = max(forecast_index - foreseen[0], 0), max(foreseen[1] - forecast_index, 0)
        public = None
        if inputs.deviations is not None:
            public = ends(inputs.deviations * spread + sampling * (_MARGIN + 2.0 / sqrt(min(rows, draws))))
        scale = max(round(1382.4 * inputs.misfit * spread / fine), 1)
        return cls(query, forecast, values, inputs, thresholds, forecast_index, reach, public, scale)

    @property
    def needs(self) -> tuple[Query, ...]:
        """Counts below and up to each threshold; and of the group, where there is one."""
        return self.query.counts(self.thresholds[:-1])

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """By the ranks of the thresholds."""
        counts = [count_of(total, self.inputs.rows) for total in sums]
        last = len(self.thresholds) - 1
        below, upto = counts[:last], counts[last : 2 * last]
        m = self.inputs.rows if self.query.given is None else counts[-1]
        if m == 0:
            return NOTHING
        q, known = self.query.level, min(self.inputs.known_rows, m)
        others = m - known
        # P(x < t) ≥ q is refuted by few rows below; P(x ≤ t) ≤ q by many at or below. Nothing lies below the range.
        low = max(
            (i for i in range(1, last) if tail_refutes(others - below[i], others, 1.0 - q, self.inputs.price)), default=0
        )
        high = min((i for i in range(last) if tail_refutes(upto[i] - known, others, q, self.inputs.price)), default=last)
        if self.public is not None and self.public[0] <= low and high <= self.public[1]:
            return QUIET
        index = next((i for i in range(last) if upto[i] >= q * m), last)
        beyond = (index - low - self.reach[0], high - index - self.reach[1])
        step = max(-(-max(more, 0) // each) for more, each in zip(beyond, self._rungs, strict=True))
        return index - self.forecast_index, step

    @property
    def _rungs(self) -> tuple[int, int]:
        """How many thresholds one step adds, below and above."""
        below, above = (max(-(-reach // self.inputs.precision.ladder), 1) for reach in self.reach)
        return below, above

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private quantile, rounded up to a threshold."""
        outcome = replace(self, public=None).decide(sums)
        return None if outcome == NOTHING else Fraction(self.ends(outcome)[0])

    def deviation(self, outcome: Outcome) -> float | None:
        """By the thresholds in between."""
        return abs(outcome[0]) * 1382.4 * self.inputs.misfit / self.scale if isinstance(outcome, tuple) else None

    def charge(self, outcome: Outcome) -> float:
        """The reading's code and the step's."""
        if outcome == NOTHING:
            return NOTHING_NATS
        j, step = cell_and_step(outcome)
        return ANSWERED_NATS + reading_nats(j, self.scale, len(self.thresholds) + 2) + step_nats(step)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """The thresholds that the outcome allows."""
        if outcome == NOTHING:
            return inf, 0.0, 1.0
        last = len(self.thresholds) - 1
        if outcome is QUIET and self.public is not None:
            index, (low, high) = self.forecast_index, self.public
        else:
            j, step = cell_and_step(outcome)
            index = min(max(self.forecast_index + j, 0), last)
            below, above = (reach + step * rung for reach, rung in zip(self.reach, self._rungs, strict=True))
            low, high = max(index - below, 0), min(index + above, last)
        positions = tuple(self._position(i) for i in (index, low, high))
        return positions[0], positions[1], positions[2]

    def _position(self, i: int) -> float:
        low, high = self.query.low, self.query.high
        if i == 0 or i == len(self.thresholds) - 1:
            return float(i > 0)
        near = min(max((self.thresholds[i] - low) / (high - low), 0.0), 1.0)
        exact = round(near * POSITION_ONE * 2) / (
            POSITION_ONE * 2
        )  # as it was made: the way back finds the threshold itself
        return exact if low + (high - low) * exact == self.thresholds[i] else near

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """E[(1[x ≤ t] - q) · in the group] = 0 at the threshold found."""
        if self.values is None or outcome is QUIET or outcome == NOTHING or cell_and_step(outcome)[0] == 0:
            return None
        position = self.ends(outcome)[0]
        up, down = (value.array + VALUE_ONE for value in self.values)
        member = up + down == STEPS
        q = self.query.level
        steps = np.where(up <= position * STEPS + 0.5, 1.0 - q, -q) * member
        values = GridValues("mean", np.rint(steps * VALUE_ONE))
        return Lesson(values, 0.0, 2.0**-7 * self.forecast.group, 0.05 * self.forecast.group)


def _without_gaps(thresholds: tuple[float, ...], step: float | None) -> tuple[float, ...]:
    """With thresholds in every wide gap: where the sketch has no rows, the private ones may have their quantile.

    >>> _without_gaps((0.0, 0.5, 1.0, 64.0), 16.0)
    (0.0, 0.5, 1.0, 16.0, 32.0, 48.0, 64.0)
    """
    low, length = thresholds[0], thresholds[-1] - thresholds[0]
    filled = set(thresholds)
    for below, above in pairwise(thresholds):
        pieces = ceil(_PARTS * ((above - below) / length))
        first, last = ((t - low) / length * POSITION_ONE for t in (below, above))
        positions = (round(first + (last - first) * (i / pieces)) / POSITION_ONE for i in range(1, pieces))
        between = (_rounded(low + length * position, step) for position in positions)
        filled.update(t for t in between if below < t < above)
    return tuple(sorted(filled))


def _distribution(values: tuple[GridValues, GridValues], masses: NDArray[np.float64]) -> tuple[list[tuple[int, int]], int]:
    """Rising positions of the group's public rows with their cumulative masses, in whole numbers."""
    up, down = (value.array + VALUE_ONE for value in values)
    member = up + down == STEPS
    mass = np.maximum(masses[member], 0.0)
    mass_at = np.bincount(up[member].astype(np.intp), weights=mass, minlength=1)
    positions = np.flatnonzero(mass_at)
    total = np.cumsum(mass_at[positions])
    steps = [(int(position), int(so_far)) for position, so_far in zip(positions, total, strict=True)]
    return steps or [(STEPS // 2, 1)], steps[-1][1] if steps else 1


def _at_level(steps: list[tuple[int, int]], total: int, level: float) -> int:
    """The least position with so much mass at or below it."""
    needed = Fraction(level) * total
    low, high = 0, len(steps) - 1
    while low < high:
        middle = (low + high) // 2
        if steps[middle][1] >= needed:
            high = middle
        else:
            low = middle + 1
    return steps[low][0]


def _heavy(steps: list[tuple[int, int]], total: int, share: float) -> set[int]:
    """Places that at least this share of the mass has."""
    so_far, places = 0, set()
    for position, mass in steps:
        if mass - so_far >= share * total:
            places.add(position)
        so_far = mass
    return places


def _first_at_least(thresholds: Sequence[float], value: float) -> int:
    return next((i for i, t in enumerate(thresholds) if t >= value), len(thresholds) - 1)


def _rounded(t: float, step: float | None) -> float:
    return t if step is None else round(t / step) * step
