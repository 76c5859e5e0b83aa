"""Ranks from certified comparisons: sets of possible ranks that are simultaneously valid, and Holm's step-down procedure.

A relation is a square boolean table: `better[i, j]` says that i is certified to be better than j. If all its entries are
true statements, so is everything here. See `docs/theory/ranks.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from everhold.bounds.elementary import ln

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["closure", "rank_sets", "step_down"]


def closure(better: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """With everything that follows: if i is better than j, and j than k, then i is better than k (Warshall 1962).

    >>> int(closure(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)).sum())
    3
    """
    closed = better.copy()
    for middle in range(len(closed)):
        closed |= closed[:, middle, None] & closed[middle]
    return closed


def rank_sets(better: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The ranks that are possible for each of N: `[1 + how many are better, N - how many are worse]`.

    The true rank of i is one more than the number of truly better ones, and with ties any rank up to N less the number of
    truly worse ones. Guarantee: if all of `better` is true, every true rank lies in its set (theorem 1).

    >>> rank_sets(np.array([[0, 1, 1], [0, 0, 0], [0, 0, 0]], dtype=bool))
    [(1, 1), (2, 3), (2, 3)]
    """
    count = len(better)
    ahead, behind = better.sum(axis=0), better.sum(axis=1)
    return [(1 + int(up), count - int(down)) for up, down in zip(ahead, behind, strict=True)]


def step_down(refutes: Callable[[int, float], bool], count: int, nats: float) -> list[bool]:
    """Which of `count` hypotheses are refuted, so that any true one is among them with probability at most `e^{-nats}`.

    Holm's procedure: all are tested at `nats + ln(count)`, then those that are left at `nats + ln(how many are left)`, until
    nothing more is refuted. It is never weaker than Bonferroni's correction, and needs no independence.

    Args:
        refutes: whether hypothesis i is refuted at so many nats. If i is true, this happens with probability at most
            `e^{-nats}`; with fewer nats it refutes at least as much.
        count: how many hypotheses there are.
        nats: the price of all of them together.

    >>> step_down(lambda i, nats: nats <= (5.0, 4.2, 3.2)[i], 3, 3.3)   # ln 3 = 1.1, ln 2 = 0.7
    [True, True, False]
    """
    refuted = [False] * count
    while not all(refuted):
        price = nats + ln(float(refuted.count(False)))
        more = [done or refutes(index, price) for index, done in enumerate(refuted)]
        if more == refuted:
            break
        refuted = more
    return refuted
