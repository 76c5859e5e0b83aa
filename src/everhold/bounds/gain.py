"""Is a candidate better than the incumbent by more than `by`? A test of paired differences of scores, by mixed public bets.

Scores lie in [0, 1] and are multiples of 1/SCORE_ONE. For a fixed bet L, the wealth `W_L = Π(1 + L(φ_i - by))` of
independent differences φ_i whose means average to at most `by` has expectation at most 1, and so has the average of several
W_L. By Markov's inequality it reaches e^nats with probability at most e^-nats. The bets are constants, so that nothing has
to be foreseen; averaging over them costs at most ln 12 nats. See `docs/theory/gate.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, inf

from everhold.bounds.elementary import exp, ln
from everhold.errors import SettingError

__all__ = ["SCORE_ONE", "gain_end", "gain_refutes"]

SCORE_ONE = 2**15
"""Scores and differences are whole multiples of 1/SCORE_ONE."""

_BET_STEPS = 2**10
_BETS = tuple(max(round(0.9 * 0.7**j * _BET_STEPS), 1) for j in range(12))  # L from 0.9 to 0.018, in steps of 1/1024
_ROUNDING = 4e-15  # relative error of a term count·ln x, with room to spare
_NEGLIGIBLE = -40.0  # wealth smaller than e^-40 of the largest is left out: the safe side


def gain_refutes(differences: Mapping[int, int], by: int, nats: float) -> bool:
    """Whether paired differences refute "the mean difference is at most `by`", at e^-nats.

    Valid for independent cases, identically distributed or not (then it is about their average), and for cases drawn
    without replacement: `E exp(Σ ln(1 + L(φ - by)))` is largest with replacement (Hoeffding 1963,
    doi:10.1080/01621459.1963.10500830, theorem 4).

    Args:
        differences: how many cases have each difference, candidate less incumbent, in steps.
        by: in steps, between -SCORE_ONE and SCORE_ONE.
        nats: the price; at least 0.

    >>> gain_refutes({SCORE_ONE: 160, 0: 1_800, -SCORE_ONE: 40}, 0, 30.0)
    True
    >>> gain_refutes({SCORE_ONE: 105, 0: 1_800, -SCORE_ONE: 95}, 0, 3.0)
    False
    """
    if not nats >= 0.0:
        raise SettingError(f"a price in nats is at least 0, not {nats!r}")
    if not -SCORE_ONE <= by <= SCORE_ONE or not all(-SCORE_ONE <= difference <= SCORE_ONE for difference in differences):
        raise SettingError(f"differences of scores lie between -1 and 1, in steps of 1/{SCORE_ONE}")
    return nats < inf and _ln_wealth(differences, by) >= nats


def gain_end(differences: Mapping[int, int], nats: float) -> int:
    """The largest `by` on the grid that is refuted: the mean difference is larger, except with probability e^-nats.

    Every bet's wealth falls as `by` grows, so that all smaller ones are refuted too. -SCORE_ONE if nothing is refuted: a
    difference is never smaller.

    >>> round(gain_end({SCORE_ONE: 160, 0: 1_800, -SCORE_ONE: 40}, 6.0) / SCORE_ONE, 3)  # the mean is 0.06
    0.033
    """
    low, high = -SCORE_ONE, SCORE_ONE  # low counts as refuted, high is not
    while high - low > 1:
        middle = (low + high) // 2
        if gain_refutes(differences, middle, nats):
            low = middle
        else:
            high = middle
    return low


def _ln_wealth(differences: Mapping[int, int], by: int) -> float:
    """ln of the average wealth of all bets, rounded down. A bet that could lose everything wins nothing."""
    most = _BET_STEPS * SCORE_ONE
    ln_wealths = [_ln_of_bet(differences, by, bet) for bet in _BETS if bet * (SCORE_ONE + by) < most]
    if not ln_wealths:
        return -inf
    top = max(ln_wealths)
    total = sum(exp(value - top) for value in ln_wealths if value - top > _NEGLIGIBLE)
    wealth = top + ln(total / len(_BETS))
    return wealth - 1e-13 * (1.0 + abs(top))


def _ln_of_bet(differences: Mapping[int, int], by: int, bet: int) -> float:
    most = _BET_STEPS * SCORE_ONE
    terms = [count * ln((most + bet * (difference - by)) / most) for difference, count in sorted(differences.items())]
    return fsum(terms) - _ROUNDING * fsum(
        map(abs, terms)
    )  # the fractions are exact, and so are these sums but for one rounding
