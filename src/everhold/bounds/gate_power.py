"""How likely a gate promotes a candidate that is better, and how many more promotions its budget allows.

Cases pass or fail. A candidate changes a share of the cases: it gets p10 of them right that the incumbent gets wrong, and
p01 of them wrong that the incumbent gets right; p10 - p01 is its step. The number D of changed cases is Bin(n, p10 + p01),
and of these Bin(D, p10/(p10 + p01)) are gains. A test promotes from some number of gains on, given D, so that its power is a
sum of binomial tails. `docs/theory/gate_plan.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import ceil, floor, inf, isqrt, sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import bdtrc, gammaln

from everhold.bounds.binomial import mcnemar_refutes
from everhold.bounds.changes import POWER, Changes
from everhold.bounds.gain import SCORE_ONE, gain_refutes
from everhold.errors import SettingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.bounds.budget import Budget

__all__ = [
    "EVERY",
    "GateTest",
    "bets_power",
    "leads",
    "leads_power",
    "mcnemar_power",
    "most_price",
    "promotions_left",
]

EVERY = 5
"""Without a record, one check in so many is assumed to promote."""

_DEVIATIONS = 7.0  # beyond so many of them a number of changed cases is left out, and counts as not promoted
_MOST = 10_000  # promotions to count
_PRICE_STEP = 1 / 64

GateTest = Literal["mcnemar", "bets"]


def leads(total: int, squares: int) -> bool:
    """Whether a sum of differences exceeds 0 by one standard error, Σφ > sqrt(Σφ²): the rule of `certify='final'`.

    >>> leads(11, 100), leads(10, 100), leads(-11, 100)
    (True, False, False)
    """
    return total > 0 and total * total > squares


def mcnemar_power(cases: int, changes: Changes, nats: float) -> float:
    """The probability that `mcnemar_refutes` at this price.

    >>> round(mcnemar_power(1_000, Changes(0.06, 0.03), 6.0), 3)
    0.61
    """
    return _power(cases, changes, lambda gained, lost: mcnemar_refutes(gained, lost, nats))


def bets_power(cases: int, changes: Changes, nats: float, by: int = 0) -> float:
    """The probability that `gain_refutes` at this price; `by` in steps of 1/SCORE_ONE."""

    def refutes(gained: int, lost: int) -> bool:
        return gain_refutes({SCORE_ONE: gained, 0: cases - gained - lost, -SCORE_ONE: lost}, by, nats)

    return _power(cases, changes, refutes)


def leads_power(cases: int, changes: Changes) -> float:
    """The probability that a candidate leads by one standard error."""
    sizes, mass = _sizes(cases, changes.changed)
    least = np.array([(size + isqrt(size)) // 2 + 1 for size in sizes.tolist()])  # 2k - D > sqrt(D)
    return _tails(sizes, mass, least, changes)


def most_price(cases: int, changes: Changes, method: GateTest, by: int = 0, power: float = POWER) -> float:
    """The highest price, to 1/64 nat, at which such a candidate is still promoted with this power; -1 if none is low enough.

    >>> price = most_price(2_000, Changes.of(step=0.06, changed=0.1), "mcnemar")
    >>> 34 < price < 35, mcnemar_power(2_000, Changes.of(step=0.06, changed=0.1), price) >= 0.8
    (True, True)
    """
    if method not in ("mcnemar", "bets"):
        raise SettingError(f"method is {method!r}. Expected 'mcnemar' or 'bets'.")
    if method == "mcnemar" and by:
        raise SettingError("McNemar's test cannot judge a margin. Expected method='bets' with by.")
    _check_cases(cases)
    return _most_price(cases, changes, method, by, power)


@lru_cache(maxsize=256)
def _most_price(cases: int, changes: Changes, method: GateTest, by: int, power: float) -> float:
    def reached(nats: float) -> bool:
        reached_power = mcnemar_power(cases, changes, nats) if method == "mcnemar" else bets_power(cases, changes, nats, by)
        return reached_power >= power

    return _most_nats(reached)


def _most_nats(reached: Callable[[float], bool]) -> float:
    if not reached(0.0):
        return -1.0
    low, high = 0, 64
    while reached(high * _PRICE_STEP):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reached(middle * _PRICE_STEP) else (low, middle)
    return low * _PRICE_STEP


def promotions_left(
    budget: Budget,
    cases: int,
    step: float,
    changed: float = 0.1,
    method: GateTest = "mcnemar",
    *,
    by: float = 0.0,
    candidates: int = 1,
    every: int | None = None,
    power: float = POWER,
    test: Callable[..., float] | None = None,
) -> int:
    """How many more certified promotions of candidates that are better by `step` are possible, each with this power.

    A forecast, not a promise: the next promotions are assumed to come at one in `every` checks. If left out, that is what
    the record says, with one promotion in EVERY checks before it began: (checks + EVERY) / (promotions + 1), rounded.

    Args:
        budget: what was disclosed and spent so far.
        cases: how many there are.
        step: how much better the candidates are, on the scale of the score.
        changed: on which share of the cases their outcome differs from the incumbent's.
        method: 'mcnemar' for outcomes that pass or fail and by = 0, else 'bets'.
        by: the margin that a promotion certifies.
        candidates: how many are compared in one check.
        every: how many checks there are for each promotion.
        power: see above.
        test: the power of another test, `test(cases, changes, nats, by=steps)`.

    >>> from everhold.bounds.budget import Budget
    >>> promotions_left(Budget(0.05), 2_000, 0.06), promotions_left(Budget(0.05), 500, 0.03)
    (9, 0)
    """
    changes = Changes.of(step=step, changed=changed)
    if test is None:
        affordable = most_price(cases, changes, method, ceil(by * SCORE_ONE), power)
    else:
        _check_cases(cases)
        affordable = _most_nats(lambda nats: test(cases, changes, nats, by=ceil(by * SCORE_ONE)) >= power)
    checks, promoted, _ = budget.code.check_counts
    spacing = max(round((checks + EVERY) / (promoted + 1)), 1) if every is None else every
    if spacing < 1 or candidates < 1:
        raise SettingError(f"every is {every!r} and candidates {candidates!r}. Expected at least 1 of each.")
    for promotions in range(_MOST):
        budget = _kept(budget, spacing - 1)
        if budget.promotion_price(candidates) > affordable:
            return promotions
        budget = budget.checked("promoted", candidates)
    return _MOST


def _kept(budget: Budget, times: int) -> Budget:
    """The budget after so many checks that promote nothing."""
    checks, promoted, interrupted = budget.code.check_counts
    return replace(budget, code=replace(budget.code, check_counts=(checks + times, promoted, interrupted)))


def _power(cases: int, changes: Changes, refutes: Callable[[int, int], bool]) -> float:
    """The probability of a test that, given the number of changed cases, refutes from some number of gains on.

    With one changed case more, that number stays or grows by one: a gain never hurts, a loss never helps.
    """
    sizes, mass = _sizes(cases, changes.changed)
    least = np.empty(len(sizes), dtype=np.int64)
    gains = _least_gains(int(sizes[0]), refutes)
    least[0] = gains
    for place, size in enumerate(sizes[1:].tolist(), start=1):
        if not refutes(min(gains, size), size - min(gains, size)) or gains > size:
            gains += 1
        least[place] = gains
    return _tails(sizes, mass, least, changes)


def _least_gains(size: int, refutes: Callable[[int, int], bool]) -> int:
    low, high = -1, size + 1  # low does not refute, high counts as if it did
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(middle, size - middle) else (middle, high)
    return high


def _sizes(cases: int, changed: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The numbers of changed cases that matter, and their probabilities."""
    _check_cases(cases)
    mean, spread = cases * changed, sqrt(cases * changed * (1.0 - changed))
    reach = _DEVIATIONS * spread + 12.0
    sizes = np.arange(max(floor(mean - reach), 0), min(ceil(mean + reach), cases) + 1)
    if changed >= 1.0:
        return sizes, (sizes == cases).astype(np.float64)
    ln_mass = gammaln(cases + 1.0) - gammaln(sizes + 1.0) - gammaln(cases - sizes + 1.0)
    ln_mass += sizes * np.log(changed) + (cases - sizes) * np.log1p(-changed)
    return sizes, np.exp(ln_mass)


def _tails(sizes: NDArray[np.int64], mass: NDArray[np.float64], least: NDArray[np.int64], changes: Changes) -> float:
    """Σ Pr[D] · Pr[Bin(D, p10/(p10+p01)) ≥ least]."""
    share = min(changes.gained / changes.changed, 1.0)
    tails = np.where(least <= 0, 1.0, bdtrc(np.maximum(least - 1.0, 0.0), sizes, share))
    return min(float(np.sum(mass * np.where(least > sizes, 0.0, tails))), 1.0)


def _check_cases(cases: int) -> None:
    if not 1 <= cases < inf or cases != int(cases):
        raise SettingError(f"cases is {cases!r}. Expected a whole number of at least 1.")
