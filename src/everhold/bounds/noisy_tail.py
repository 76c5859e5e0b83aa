"""The interval of a mean from a noisy sum, with the noise integrated: one tail for rows and noise together.

A sum of n independent values in [0, 1] with mean p, plus Gaussian noise of deviation σ, is at least k with probability at
most `exp(-λk + n·ln(1 - p + p·e^λ) + λ²σ²/2)` for every λ ≥ 0. So p is refuted where some λ makes that at most e^(-C).
A fixed bound on the noise adds σ·sqrt(2 ln(…)) rows to the interval; this adds σ² to the variance, which is less unless
C is very large. `docs/theory/privacy.md#intervals` has the proof.
"""

from __future__ import annotations

from everhold.bounds.elementary import exp, ln
from everhold.errors import SettingError

__all__ = ["noisy_interval", "noisy_low"]

_HALVINGS, _STEPS = 44, 24
_STEEPEST = 600.0  # of λ: beyond, e^λ would overflow, and smaller ones do as well


def _evidence(k: float, rows: int, variance: float, p: float) -> float:
    """The exponent at a λ that is nearly the best one, rounded down. Any λ is valid; a bad one costs width."""
    low, high = 0.0, _STEEPEST
    rate = min((k - rows * p) / (rows * p * (1.0 - p) + variance), _STEEPEST)
    for _ in range(_STEPS):
        weight = p * exp(rate)
        share = weight / (1.0 - p + weight)
        slope = k - rows * share - rate * variance
        low, high = (rate, high) if slope > 0.0 else (low, rate)
        step = slope / (rows * share * (1.0 - share) + variance)
        nearer = rate + step
        rate = nearer if low < nearer < high else (low + high) / 2.0
        if abs(step) <= 1e-7 * rate:
            break
    grown, noise = rows * ln(1.0 - p + p * exp(rate)), rate * rate * variance / 2.0
    return rate * k - grown - noise - 1e-12 * (rate * k + abs(grown) + noise) - 1e-9


def noisy_low(k: float, rows: int, variance: float, nats: float) -> float:
    """The smallest p that "the noisy sum is at least k" does not refute.

    Args:
        k: where the sum lies at least, in rows.
        rows: n.
        variance: σ² of the noise, in rows squared.
        nats: C.

    >>> round(noisy_low(5_000.0, 10_000, 1.0, 6.0), 4), round(noisy_low(5_000.0, 10_000, 80.0**2, 6.0), 4)
    (0.4827, 0.4673)
    """
    if rows < 1 or variance <= 0.0 or nats < 0.0:
        raise SettingError(f"rows are at least 1, variance is above 0, nats at least 0; not {rows}, {variance} and {nats}")
    low, high = 0.0, min(k / rows, 1.0)
    if high <= 0.0:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if middle <= low or middle >= high:
            break
        refuted = middle * rows < k and _evidence(k, rows, variance, middle) >= nats
        low, high = (middle, high) if refuted else (low, middle)
    return low


def noisy_interval(least: float, most: float, rows: int, variance: float, nats: float) -> tuple[float, float]:
    """All p that neither end of the range of a noisy sum refutes. At or beyond the scale an end says nothing.

    Args:
        least, most: between which the noisy sum lies, in rows.
        rows, variance, nats: as for `noisy_low`; each side has the whole price.

    >>> low, high = noisy_interval(4_990.0, 5_010.0, 10_000, 80.0**2, 6.0)
    >>> round(low, 4), round(high, 4)
    (0.4663, 0.5337)
    """
    low = noisy_low(least, rows, variance, nats) if least > 0.0 else 0.0
    high = 1.0 - noisy_low(rows - most, rows, variance, nats) if most < rows else 1.0
    return low, high
