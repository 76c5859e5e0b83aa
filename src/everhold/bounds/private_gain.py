"""Is a candidate better than the incumbent, by a noisy test: a promotion is private and certified at the same time.

A case counts `y = ln(1 + L(φ - by))`, L a public bet. One case moves `Y = Σ y` by at most Δ = y(1) - y(-1), so that
`x = (Y - C)/(bΔ)` moves by at most 1/b, as the account of a bit wants it. A candidate that is not better has `E e^Y ≤ 1`,
and is promoted with probability `1 - exp(-e^x)`, which is at most e^(Y - C) as long as bΔ ≤ 1: at most e^-C in all. The
noise is integrated, so that nothing is added for it. `docs/theory/privacy.md#gates` has the proofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, sqrt

import numpy as np

from everhold.bounds.changes import POWER, Changes
from everhold.bounds.elementary import ln
from everhold.bounds.gain import SCORE_ONE
from everhold.bounds.privacy import ROW_PARTS
from everhold.errors import SettingError

__all__ = ["MOST_NATS", "NoisyBet", "least_step", "noisy_gain_end", "noisy_power"]

MOST_NATS = 80.0
"""Beyond this price the noise's own floor e^-100 would count, and nothing is promoted."""

_BET_STEPS = 2**20
_UNIT = 2**40  # of Y
_CHANGED = 0.1  # the share of the cases that a candidate is foreseen to change; a wrong one costs power, not validity
_FLOOR_NATS = 2.0**-16  # what the floor and the rounding of the noise cost
_POINTS = np.linspace(-6.0, 6.0, 241)


@dataclass(frozen=True, slots=True)
class NoisyBet:
    """One noisy test, fixed by public facts.

    Attributes:
        by: the margin, in steps of 1/SCORE_ONE.
        test_parts: b, in 1/64.
        bet: L, in 1/2^20.
        nats: C.
    """

    by: int
    test_parts: int
    bet: int
    nats: float

    @classmethod
    def of(cls, *, cases: int, by: int, test_parts: int, nats: float) -> NoisyBet:
        """The bet for so many cases: the best one where a tenth of them change, but no larger than the noise allows.

        Args:
            cases: n.
            by, test_parts, nats: as above; nats from 0 to `MOST_NATS`.

        >>> round(NoisyBet.of(cases=2_000, by=0, test_parts=40 * 64, nats=7.0).bet / 2**20, 4)
        0.0125
        """
        if not 0.0 <= nats <= MOST_NATS:
            raise SettingError(f"a noisy promotion has a price from 0 to {MOST_NATS:g} nats, not {nats!r}")
        low, high = 1, 9 * _BET_STEPS * SCORE_ONE // (10 * (SCORE_ONE + by))  # L(1 + by) is at most 0.9
        while high - low > 1:
            middle = (low + high) // 2
            fits = cls(by, test_parts, middle, nats).span * test_parts <= _UNIT * ROW_PARTS  # bΔ ≤ 1
            low, high = (middle, high) if fits else (low, middle)
        best = ceil(sqrt(2.0 * max(nats, 1.0) / max(cases * _CHANGED, 1.0)) * _BET_STEPS)
        return cls(by, test_parts, max(min(low, best), 1), nats)

    def worth(self, difference: int) -> int:
        """y of one case, in units of 2^-40, rounded down: e^y has at most the expectation of 1 + L(φ - by)."""
        most = _BET_STEPS * SCORE_ONE
        moved = self.bet * (difference - self.by)
        return 0 if moved == 0 else floor(ln((most + moved) / most) * _UNIT) - 1

    @property
    def span(self) -> int:
        """Δ: how far one case can move Y."""
        return self.worth(SCORE_ONE) - self.worth(-SCORE_ONE)

    def beyond(self, differences: Mapping[int, int]) -> Fraction:
        """x, exactly: how far the differences exceed what promotes, in units in which one case moves it by 1/b at most.

        Args:
            differences: how many cases have each difference, candidate less incumbent, in steps.

        >>> bet = NoisyBet.of(cases=2_000, by=0, test_parts=40 * 64, nats=7.0)
        >>> [round(float(bet.beyond({SCORE_ONE: more, 0: 2_000 - more})), 2) for more in (500, 560, 620)]
        [-0.79, -0.04, 0.7]
        """
        if not all(-SCORE_ONE <= one <= SCORE_ONE for one in differences):
            raise SettingError(f"differences of scores lie between -1 and 1, in steps of 1/{SCORE_ONE}")
        found = sum(count * self.worth(difference) for difference, count in differences.items())
        wanted = ceil((self.nats + _FLOOR_NATS) * _UNIT)
        return Fraction((found - wanted) * ROW_PARTS, self.span * self.test_parts)


def noisy_gain_end(total: int, *, cases: int, release_parts: int, nats: float) -> int:
    """A lower end for the mean difference, in steps, from a noisy sum: `T/n - sqrt(2C(n + 4σ²))/n`, rounded down.

    Args:
        total: the sum of all differences with Gaussian noise of 2σ cases, in steps.
        cases: n.
        release_parts: σ, in 1/64.
        nats: C.

    >>> noisy_gain_end(400 * SCORE_ONE, cases=2_000, release_parts=20 * 64, nats=7.0) / SCORE_ONE > 0.08
    True
    """
    deviation = 2.0 * release_parts / ROW_PARTS
    slack = ceil(sqrt(2.0 * nats * (cases + deviation * deviation)) * (1.0 + 1e-12) * SCORE_ONE) + 1
    return min(max((total - slack) // cases, -SCORE_ONE), SCORE_ONE)


def noisy_power(cases: int, changes: Changes, nats: float, *, test_parts: int, by: int = 0) -> float:
    """About how probable it is that such a candidate is promoted: a forecast, by the normal law.

    >>> [round(noisy_power(10_000, Changes.of(step=step, changed=0.1), 7.0, test_parts=40 * 64), 2) for step in (0.03, 0.06)]
    [0.04, 0.77]
    """
    if nats > MOST_NATS:
        return 0.0
    bet = NoisyBet.of(cases=cases, by=by, test_parts=test_parts, nats=nats)
    worths = np.array([bet.worth(one) for one in (SCORE_ONE, 0, -SCORE_ONE)], dtype=np.float64)
    shares = np.array([changes.gained, 1.0 - changes.changed, changes.lost])
    mean = float(shares @ worths)
    spread = sqrt(max(float(shares @ worths**2) - mean * mean, 0.0) * cases)
    total = cases * mean + spread * _POINTS
    x = (total - (nats + _FLOOR_NATS) * _UNIT) * ROW_PARTS / (bet.span * test_parts)
    weights = np.exp(-0.5 * _POINTS**2)
    return float((weights @ -np.expm1(-np.exp(np.clip(x, -100.0, 4.0)))) / weights.sum())


def least_step(cases: int, nats: float, *, test_parts: int, power: float = POWER) -> float | None:
    """About the smallest step that is promoted with this power, where candidates change a tenth of the cases; None if none.

    >>> round(100 * least_step(5_000, 5.1, test_parts=622), 1)  # ε = 3, five promotions
    2.6
    """

    def reached(step: float) -> bool:
        changes = Changes.of(step=step, changed=max(_CHANGED, step))
        return noisy_power(cases, changes, nats, test_parts=test_parts) >= power

    if not reached(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
