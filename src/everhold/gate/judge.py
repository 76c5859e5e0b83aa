"""Which candidate is promoted, if any: a function of the private outcomes, at a price that was fixed before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from everhold.bounds.binomial import mcnemar_refutes
from everhold.bounds.gain import SCORE_ONE, gain_end, gain_refutes
from everhold.bounds.private_gain import MOST_NATS, NoisyBet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.bounds.privacy import PrivacyTerms
    from everhold.ledger.gate_check import CheckPlan, GateMethod
    from everhold.mechanism.noise import Noise

__all__ = ["most_nats", "noisily_promoted_index", "promoted_index", "total_gain"]

_FINAL_NATS = 3.0
"""With privacy and `certify='final'` a candidate that is as good as the incumbent is promoted once in 20 times at most."""


def promoted_index(
    plan: CheckPlan, incumbent: NDArray[np.int64], candidates: Sequence[NDArray[np.int64]], price: float
) -> int | None:
    """The best candidate, if it is better than the incumbent as the contract asks. Ties go to the one that came first.

    With `certify='each'` the cases must refute "the gain is at most `by`" at the price. With 'final' a promotion is only a
    choice: the mean gain must exceed `by` by one standard error.
    """
    totals = [int((candidate - incumbent).sum()) for candidate in candidates]
    best = max(range(len(totals)), key=lambda index: (totals[index], -index))
    differences = candidates[best] - incumbent
    if plan.certify == "final":
        lead = totals[best] - len(differences) * plan.by
        better = lead > 0 and lead * lead > int((differences * differences).sum())
    elif plan.method == "mcnemar":
        better = mcnemar_refutes(int((differences > 0).sum()), int((differences < 0).sum()), price)
    else:
        better = gain_refutes(Counter(differences.tolist()), plan.by, price)
    return best if better else None


def noisily_promoted_index(
    plan: CheckPlan,
    incumbent: NDArray[np.int64],
    candidate: NDArray[np.int64],
    price: float,
    terms: PrivacyTerms,
    noise: Noise,
) -> int | None:
    """The same of a private gate: 0 or None, by a noisy test whose claim is as valid as any. One draw, whatever it finds."""
    nats = price if plan.certify == "each" else _FINAL_NATS
    bet = NoisyBet.of(cases=len(incumbent), by=plan.by, test_parts=terms.test_parts, nats=nats)
    kept = noise.quiet(bet.beyond(Counter((candidate - incumbent).tolist())))
    return None if kept else 0


def total_gain(first: NDArray[np.int64], last: NDArray[np.int64], price: float) -> tuple[int, int]:
    """The sum of all differences in steps, and the lower end of their mean in the population, in steps."""
    differences = last - first
    return int(differences.sum()), gain_end(Counter(differences.tolist()), price)


@lru_cache(maxsize=16)
def most_nats(method: GateMethod, by: int, cases: int, test_parts: int = 0) -> float:
    """The highest price at which a promotion is possible at all: every case gets better by as much as it can.

    With noise it counts as possible where a candidate that does so is promoted more often than not.
    """
    low, high = 0.0, float(cases) + 1.0
    if method == "noisy bets":
        high = min(high, MOST_NATS)
    while high - low > 0.01:
        middle = 0.5 * (low + high)
        if method == "noisy bets":
            bet = NoisyBet.of(cases=cases, by=by, test_parts=test_parts, nats=middle)
            possible = bet.beyond({SCORE_ONE: cases}) >= 0
        elif method == "mcnemar":
            possible = mcnemar_refutes(cases, 0, middle)
        else:
            possible = gain_refutes({SCORE_ONE: cases}, by, middle)
        low, high = (middle, high) if possible else (low, middle)
    return low
