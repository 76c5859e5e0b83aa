"""The tolerance: how far the private mean may be from the sketch before it counts as a surprise.

It is a function of public facts and the transcript. There are two policies: *anytime* never refuses, and intervals widen
as nats are spent; *fixed precision* keeps a promised half-width and refuses when it cannot. `docs/theory/tolerance.md`
explains the numbers, and `benchmarks/tolerance.py` measures them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Protocol

from everhold.bounds.elementary import ln
from everhold.errors import PrecisionExhausted, SettingError

__all__ = ["TOLERANCE_ONE", "Anytime", "FixedPrecision", "Tolerance", "ToleranceInputs", "TolerancePolicy", "share_radius"]

TOLERANCE_ONE = 2**30
"""Tolerances and cells are whole multiples of 1/TOLERANCE_ONE."""

_MARGIN = 2.0**-15 + 2.0**-28
"""How much the grids of values and of interval ends can add to a half-width."""


@dataclass(frozen=True, slots=True)
class ToleranceInputs:
    """What a tolerance may depend on. All of it is public.

    Attributes:
        sketch: u, the sketch's answer on the [-1, 1] scale.
        price: C, the price so far.
        rows: private rows, without those that the analyst knows.
        draws: the number of independent draws behind the sketch's answer.
        known_shift: how far rows that the analyst knows can move the mean, on the [-1, 1] scale.
        ask: the number of this ask.
        horizon: how many asks are planned, where that is declared.
    """

    sketch: float
    price: float
    rows: int
    draws: float
    known_shift: float = 0.0
    ask: int = 1
    horizon: int | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """τ and the width Δ of a cell beyond it, in multiples of 1/TOLERANCE_ONE on the [-1, 1] scale."""

    tau: int
    cell: int

    @property
    def width(self) -> float:
        """τ on the [-1, 1] scale."""
        return self.tau / TOLERANCE_ONE


class TolerancePolicy(Protocol):
    """A promise about precision, which sets the tolerance."""

    def tolerance(self, inputs: ToleranceInputs) -> Tolerance:
        """τ and Δ for the next round, or raise PrecisionExhausted."""

    def describe(self) -> str:
        """A one-line description."""


@dataclass(frozen=True, slots=True)
class Anytime:
    """Never refuse: τ is proportional to the interval's width, and stays above the noise.

    τ is about the kl radius around u for `max(share² · C/n, deviations²/2 · (1/n + 1/draws))` nats per row: a share of
    the interval's half-width, but at least `deviations` standard deviations of the difference between a mean of n private
    rows and one of the reference's draws. Near shares of 0 and 1 the kl radius is far smaller than in the middle.

    Args:
        share: τ as a share of the interval's sampling half-width w.
        deviations: τ is at least this many standard deviations, so that chance alone rarely causes a surprise. Default
            None: as many as the number of asks so far makes sensible, or the declared number of asks; from 2.4 to 4.
        cells: Δ as a multiple of τ.
    """

    share: float = 0.6
    deviations: float | None = None
    cells: float = 0.25

    def __post_init__(self) -> None:
        deviations = 4.0 if self.deviations is None else self.deviations
        if not (0.0 < self.share <= 4.0 and 0.0 < deviations <= 16.0 and 0.0 < self.cells <= 2.0):
            raise SettingError(
                "expected share in (0, 4], deviations in (0, 16] and cells in (0, 2], not "
                f"{self.share!r}, {self.deviations!r} and {self.cells!r}"
            )

    def deviations_at(self, ask: int, horizon: int | None) -> float:
        """How many standard deviations the forecast of an ask may be off.

        sqrt(2 ln(2t + 20)), at most 4: the expected number of surprises by chance then grows like the logarithm of the asks.
        With a declared number of asks T it is what is best for the last of them.

        >>> [round(Anytime().deviations_at(t, None), 2) for t in (1, 30, 1000, 100_000)]
        [2.49, 2.96, 3.9, 4.0]
        >>> round(Anytime().deviations_at(1, 40), 2)
        2.58
        """
        if self.deviations is not None:
            return self.deviations
        if horizon is not None and ask <= horizon:
            return min(max(sqrt(1.8 * ln(float(horizon))), 1.5), 4.0)
        return min(sqrt(2.0 * ln(2.0 * ask + 20.0)), 4.0)

    def tolerance(self, inputs: ToleranceInputs) -> Tolerance:
        """τ and Δ; never refuses."""
        width = self.share * self.share * inputs.price / inputs.rows
        deviations = self.deviations_at(inputs.ask, inputs.horizon)
        floor = 0.5 * deviations * deviations * (1.0 / inputs.rows + 1.0 / inputs.draws)
        tau = _grid(2.0 * share_radius(0.5 * (1.0 + inputs.sketch), max(width, floor)))
        return Tolerance(tau, max(1, int(tau * self.cells)))

    def describe(self) -> str:
        """A one-line description."""
        return "anytime: never refuses, intervals widen with surprises"


@dataclass(frozen=True, slots=True)
class FixedPrecision:
    """Keep a promised half-width, and refuse when that is no longer possible.

    Sampling error takes w = sqrt(2C/n) of the promised ε; the rest is the tolerance. When the rest falls below the noise,
    it answers no more questions: it never answers from an unchecked sketch.

    Args:
        half_width: ε, on the [-1, 1] scale.
        deviations: the tolerance must be at least this many standard deviations.
    """

    half_width: float
    deviations: float = 4.0

    def __post_init__(self) -> None:
        if not 0.0 < self.half_width <= 2.0:
            raise SettingError(f"the half-width is {self.half_width!r}. Expected a number in (0, 2], on the [-1, 1] scale.")

    def tolerance(self, inputs: ToleranceInputs) -> Tolerance:
        """τ is what remains of ε, rounded down; Δ = τ/2, wide enough for the worst case of `bounds.sample_size`."""
        left = self.half_width - sqrt(2.0 * inputs.price / inputs.rows) - inputs.known_shift - _MARGIN
        needed = self.deviations * sqrt(1.0 / inputs.rows + 1.0 / inputs.draws)
        if left < needed:
            enough = _rows_to_go_on(self.half_width - _MARGIN, inputs, self.deviations)
            more = None if enough is None else enough - inputs.rows
            way_out = (
                "No number of rows would be enough: use a larger reference."
                if more is None
                else (f"With {more:,} more rows the session could continue.")
            )
            raise PrecisionExhausted(
                f"the promised half-width of ±{self.half_width / 2:.4g} (share scale) cannot be kept for another "
                f"question: sampling error takes ±{sqrt(2.0 * inputs.price / inputs.rows) / 2:.4g} of it at "
                f"{inputs.price:.1f} nats, ±{max(left, 0.0) / 2:.4g} is left, and noise needs ±{needed / 2:.4g}, short by "
                f"±{(needed - max(left, 0.0)) / 2:.4g}. {way_out} Answers returned so far stay valid.",
                asked=self.half_width / 2,
                left=max(left, 0.0) / 2,
                needed=needed / 2,
                more_rows=more,
            )
        tau = int(min(left, 2.0) * TOLERANCE_ONE)
        return Tolerance(tau, max(1, tau // 2))

    def lasts(self, *, rows: int, draws: float, known_shift: float = 0.0) -> float:
        """The price in nats at which it will refuse: there the remaining part of ε equals the noise.

        >>> policy = FixedPrecision(0.1)
        >>> end = policy.lasts(rows=100_000, draws=50_000)
        >>> policy.tolerance(ToleranceInputs(0.0, 0.999 * end, 100_000, 50_000)).tau > 0
        True
        """
        room = self.half_width - known_shift - _MARGIN - self.deviations * sqrt(1.0 / rows + 1.0 / draws)
        return 0.5 * rows * max(room, 0.0) ** 2

    def describe(self) -> str:
        """A one-line description."""
        return f"fixed precision: ±{self.half_width / 2:g} on the share scale, refuses when it cannot be kept"


def share_radius(share: float, nats_per_row: float) -> float:
    """About the kl radius around a share: sqrt(2r x(1-x) + r²/4), at most 1. Public, the same on every machine, never 0.

    >>> round(share_radius(0.5, 0.0002), 4), share_radius(0.0, 0.0002)
    (0.01, 0.0001)
    """
    x, r = min(max(share, 0.0), 1.0), nats_per_row
    return min(sqrt(2.0 * r * x * (1.0 - x) + 0.25 * r * r), 1.0)


def _grid(tau: float) -> int:
    return max(1, min(ceil(tau * TOLERANCE_ONE), 2 * TOLERANCE_ONE))


def _rows_to_go_on(half_width: float, inputs: ToleranceInputs, deviations: float) -> int | None:
    """The smallest number of rows, rounded up, for which the remaining part exceeds the noise, with the same draws."""

    def enough(rows: float) -> bool:
        left = half_width - sqrt(2.0 * inputs.price / rows) - inputs.known_shift * inputs.rows / rows
        return left >= deviations * sqrt(1.0 / rows + 1.0 / inputs.draws)

    low, high = float(inputs.rows), 2.0 * inputs.rows
    while not enough(high):
        low, high = high, 2.0 * high
        if high > 1e15:
            return None
    while high - low > 0.5:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return ceil(high)
