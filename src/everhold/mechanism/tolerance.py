"""The tolerance: how far the private rows may be from the sketch before it counts as a surprise.

It is a function of public facts and the transcript. Two contracts: *anytime* never refuses and lets intervals widen as
nats are spent; *fixed precision* keeps a promised half-width and refuses when it cannot. Why the numbers are what they
are: `docs/theory/tolerance.md`, measured by `benchmarks/tolerance.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Protocol

from everhold.bounds.concentration import kl_lower, kl_upper
from everhold.errors import PrecisionExhausted, SettingError

__all__ = ["TOLERANCE_ONE", "Anytime", "Contract", "FixedPrecision", "Tolerance", "ToleranceInputs"]

TOLERANCE_ONE = 2**30
"""Tolerances and cells are whole multiples of 1/TOLERANCE_ONE."""

_MARGIN = 2.0**-15 + 2.0**-28
"""What the grids of values and of interval ends may add to a half-width."""


@dataclass(frozen=True, slots=True)
class ToleranceInputs:
    """What a tolerance may depend on; all of it public.

    Attributes:
        sketch: u, the sketch's answer on the [-1, 1] scale.
        nats: C, the price so far.
        rows: private rows, those the analyst knows taken off.
        draws: independent draws that the sketch's answer rests on.
        known: by how much rows that the analyst knows can move the mean, on the [-1, 1] scale.
    """

    sketch: float
    nats: float
    rows: int
    draws: float
    known: float = 0.0


@dataclass(frozen=True, slots=True)
class Tolerance:
    """τ and the width Δ of a cell beyond it, in multiples of 1/TOLERANCE_ONE on the [-1, 1] scale."""

    tau: int
    cell: int


class Contract(Protocol):
    """A promise about precision."""

    def tolerance(self, at: ToleranceInputs) -> Tolerance:
        """τ and Δ for the next round, or PrecisionExhausted."""

    def describe(self) -> str:
        """One line for people."""


@dataclass(frozen=True, slots=True)
class Anytime:
    """Answer for ever: τ follows the width, and stays above the noise.

    τ is the kl radius around u for `max(share² · C/n, noise²/2 · (1/n + 1/draws))` nats a row: a share of the interval's
    own half-width, but at least `noise` standard deviations of the difference between a mean of n private rows and one
    of the reference's draws. Near shares of 0 and 1 the kl radius is far smaller than in the middle.

    Args:
        share: of the interval's sampling half-width w.
        noise: standard deviations below which chance alone would surprise.
        cells: Δ as a multiple of τ.
    """

    share: float = 0.6
    noise: float = 4.0
    cells: float = 0.25

    def __post_init__(self) -> None:
        if not (0.0 < self.share <= 4.0 and 0.0 < self.noise <= 16.0 and 0.0 < self.cells <= 2.0):
            raise SettingError(
                "expected share in (0, 4], noise in (0, 16] and cells in (0, 2], not "
                f"{self.share!r}, {self.noise!r} and {self.cells!r}"
            )

    def tolerance(self, at: ToleranceInputs) -> Tolerance:
        """τ and Δ; never refuses."""
        width = self.share * self.share * at.nats / at.rows
        floor = 0.5 * self.noise * self.noise * (1.0 / at.rows + 1.0 / at.draws)
        x = 0.5 * (1.0 + at.sketch)
        radius = max(width, floor)
        tau = _grid(kl_upper(x, radius) - kl_lower(x, radius))
        return Tolerance(tau, max(1, int(tau * self.cells)))

    def describe(self) -> str:
        """One line for people."""
        return "anytime: never refuses, intervals widen with surprises"


@dataclass(frozen=True, slots=True)
class FixedPrecision:
    """Keep a promised half-width, and refuse when it cannot be kept.

    Sampling error takes w = sqrt(2C/n) of the promised ε; the rest is the tolerance. When the rest falls below the
    noise, no more questions are answered: never from an unchecked sketch.

    Args:
        half_width: ε, on the [-1, 1] scale.
        noise: standard deviations below which chance alone would surprise.
    """

    half_width: float
    noise: float = 4.0

    def __post_init__(self) -> None:
        if not 0.0 < self.half_width <= 2.0:
            raise SettingError(f"the half-width lies in (0, 2] on the [-1, 1] scale, not at {self.half_width!r}")

    def tolerance(self, at: ToleranceInputs) -> Tolerance:
        """What ε leaves for τ, rounded down; Δ = τ/2, wide enough for `bounds.sample_size`'s worst case to hold."""
        left = self.half_width - sqrt(2.0 * at.nats / at.rows) - at.known - _MARGIN
        needed = self.noise * sqrt(1.0 / at.rows + 1.0 / at.draws)
        if left < needed:
            enough = _rows_to_go_on(self.half_width - _MARGIN, at, self.noise)
            more = None if enough is None else enough - at.rows
            way_out = (
                "No number of rows would do: a larger reference is needed."
                if more is None
                else (f"With {more:,} more rows the session would go on.")
            )
            raise PrecisionExhausted(
                f"the promised half-width of ±{self.half_width / 2:.4g} (share scale) cannot be kept for another "
                f"question: sampling error takes ±{sqrt(2.0 * at.nats / at.rows) / 2:.4g} of it at {at.nats:.1f} nats, "
                f"±{max(left, 0.0) / 2:.4g} is left, and noise needs ±{needed / 2:.4g}, short by "
                f"±{(needed - max(left, 0.0)) / 2:.4g}. {way_out} Answers given so far stay valid.",
                asked=self.half_width,
                left=max(left, 0.0),
                needed=needed,
                more_rows=more,
            )
        tau = int(min(left, 2.0) * TOLERANCE_ONE)
        return Tolerance(tau, max(1, tau // 2))

    def lasts(self, *, rows: int, draws: float, known: float = 0.0) -> float:
        """The price in nats at which it will refuse: where what sampling error leaves of ε meets the noise.

        >>> contract = FixedPrecision(0.1)
        >>> end = contract.lasts(rows=100_000, draws=50_000)
        >>> contract.tolerance(ToleranceInputs(0.0, 0.999 * end, 100_000, 50_000)).tau > 0
        True
        """
        room = self.half_width - known - _MARGIN - self.noise * sqrt(1.0 / rows + 1.0 / draws)
        return 0.5 * rows * max(room, 0.0) ** 2

    def describe(self) -> str:
        """One line for people."""
        return f"fixed precision: ±{self.half_width / 2:g} on the share scale, refuses when it cannot be kept"


def _grid(tau: float) -> int:
    return max(1, min(ceil(tau * TOLERANCE_ONE), 2 * TOLERANCE_ONE))


def _rows_to_go_on(half_width: float, at: ToleranceInputs, noise: float) -> int | None:
    """The fewest rows, from above, for which what is left would exceed the noise, draws staying as they are."""

    def enough(rows: float) -> bool:
        left = half_width - sqrt(2.0 * at.nats / rows) - at.known * at.rows / rows
        return left >= noise * sqrt(1.0 / rows + 1.0 / at.draws)

    low, high = float(at.rows), 2.0 * at.rows
    while not enough(high):
        low, high = high, 2.0 * high
        if high > 1e15:
            return None
    while high - low > 0.5:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return ceil(high)
