"""Secret noise in whole numbers, from the operating system, in a fixed number of operations.

Floating-point noise leaks what it should hide (Mironov 2012), and a sampler that loops until it accepts leaks by its
running time. So every probability here is a whole number over a power of two, and every draw takes one uniform whole number
and the same operations, whatever comes out. Nothing is stored: two draws never use the same coins, also after a fork.

How near these distributions are to the ideal ones, and what that costs: `docs/theory/privacy.md`, "Samplers".
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import ceil, isqrt
from typing import Protocol

from everhold.bounds.privacy import ROW_PARTS, PrivacyTerms
from everhold.queries.grid import STEPS

__all__ = ["ROW", "Noise", "SecretNoise", "choice_weights", "exp_minus", "gaussian_weights", "lattice_of", "quiet_weight"]

ROW = STEPS
"""How far one row (or unit) moves a total at most: from one end of its range to the other, in steps."""

_BITS = 384
_ONE = 1 << _BITS
_GUARD = 128
_LOWEST, _HIGHEST = -100, 4  # x is cut to this range: cutting moves no two values apart
_REACH = 14  # deviations up to which released noise has weights
_CHOICE_BITS = 1024


class Noise(Protocol):
    """What a private mechanism draws."""

    def quiet(self, x: Fraction) -> bool:
        """True with probability `exp(-e^x)`."""

    def step(self) -> int:
        """A discrete Gaussian number of lattice steps."""

    def choose(self, totals: Sequence[int], weights: Sequence[Fraction]) -> int:
        """An index, by the exponential mechanism."""


class SecretNoise:
    """Noise for the promise of a study, from the operating system's secret coins.

    Args:
        terms: the scales.
        bits: makes a uniform whole number of so many bits. Only tests and games pass another one.
    """

    def __init__(self, terms: PrivacyTerms, bits: Callable[[int], int] = secrets.randbits) -> None:
        self._terms = terms
        self._bits = bits

    def quiet(self, x: Fraction) -> bool:
        """True with probability `exp(-e^x)`: the same operations whatever x is, on numbers of about the same size."""
        coins = self._bits(_BITS)
        return coins < quiet_weight(x)

    def step(self) -> int:
        """Discrete Gaussian noise of deviation σ, in steps of the lattice."""
        reach, sums = _gaussian_table(self._terms.release_parts)
        return bisect_right(sums, self._below(sums[-1])) - reach

    def choose(self, totals: Sequence[int], weights: Sequence[Fraction]) -> int:
        """An index i with probability proportional to `weight_i · exp(total_i / σ)`, totals in steps."""
        sums = list(accumulate(choice_weights(totals, weights, self._terms.release_parts)))
        coin = self._below(sums[-1])
        return sum(coin >= cumulative for cumulative in sums)

    def _below(self, count: int) -> int:
        """A whole number below `count`, each with the same probability up to one part in 2^512."""
        bits = count.bit_length() + _CHOICE_BITS - _BITS
        return (self._bits(bits) * count) >> bits


def exp_minus(y: int) -> int:
    """`e^(-y)` for 0 ≤ y < 2^10, both in multiples of 2^-384; off by less than 2^-382. A fixed number of operations.

    >>> exp_minus(0) == 1 << 384, round(exp_minus(1 << 384) / 2.0**384, 12)
    (True, 0.367879441171)
    """
    shift = _BITS + _GUARD
    z = (y << _GUARD) >> 16  # y / 2^16 < 2^-6
    term = total = 1 << shift
    for k in range(1, 64):
        term = -(term * z >> shift) // k
        total += term
    for _ in range(16):
        total = total * total >> shift
    return total >> _GUARD


def quiet_weight(x: Fraction) -> int:
    """`exp(-e^x)` in multiples of 2^-384, x cut to [-100, 4]. The hazard e^x is right to one part in 2^200.

    >>> round(quiet_weight(Fraction(0)) / 2.0**384, 12)
    0.367879441171
    """
    cut = min(max(x, Fraction(_LOWEST)), Fraction(_HIGHEST))
    size = (abs(cut.numerator) << _BITS) // cut.denominator
    falling = exp_minus(size)
    hazard = falling if cut <= 0 else _ONE * _ONE // falling
    return exp_minus(hazard)


def lattice_of(release_parts: int) -> int:
    """The lattice that noise is drawn on, in steps of a total: an eighth of a row, or more for large noise.

    It divides a row, so rounding a total down to it moves no two totals further apart than a row.
    """
    rows = release_parts // ROW_PARTS
    parts = 8 if rows < 256 else 2 if rows < 1024 else 1
    return ROW // parts


def gaussian_weights(release_parts: int) -> list[int]:
    """Weights of 0, 1, 2, … lattice steps, proportional to `exp(-z²/(2σ²))`, up to 14 deviations."""
    lattice = lattice_of(release_parts)
    # σ² in squared lattice steps, as a fraction
    variance = Fraction(release_parts * ROW, ROW_PARTS * lattice) ** 2
    shift = _BITS + _GUARD

    def power(number: Fraction) -> int:
        return exp_minus((number.numerator << _BITS) // number.denominator) << _GUARD

    weight, ratio, shrink = 1 << shift, power(1 / (2 * variance)), power(1 / variance)
    weights = []
    for _ in range(_REACH * (isqrt(ceil(variance)) + 1) + 1):
        weights.append(weight >> _GUARD)
        weight, ratio = weight * ratio >> shift, ratio * shrink >> shift
    return weights


@lru_cache(maxsize=4)
def _gaussian_table(release_parts: int) -> tuple[int, list[int]]:
    """The largest step, and running sums of the weights of all steps from its negative on."""
    weights = gaussian_weights(release_parts)
    return len(weights) - 1, list(accumulate([*weights[:0:-1], *weights]))


def choice_weights(totals: Sequence[int], weights: Sequence[Fraction], release_parts: int) -> list[int]:
    """Whole-number weights proportional to `weight · exp(total/σ)`; totals are cut to 100 σ below the largest."""
    most, per = max(totals), Fraction(release_parts * ROW, ROW_PARTS)
    common = 1
    for weight in weights:
        common = common * weight.denominator
    whole_weights = []
    for total, weight in zip(totals, weights, strict=True):
        behind = min((most - total) / per, Fraction(-_LOWEST))
        size = (behind.numerator << _BITS) // behind.denominator
        whole_weights.append(int(weight * common) * exp_minus(size))
    return whole_weights
