"""Whether private rows stand in the public reference too, more often than chance explains.

A reference that holds private rows is not independent of them, and the guarantee is void. So the two are compared when a
session begins, by digests of whole rows. Rows of few columns coincide by chance; what chance cannot explain is found
by a test that supposes nothing about the two populations (docs/theory/overlap.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import e, exp, lgamma, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import PriorError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.sample import Sample
    from everhold.data.table import Table

__all__ = ["Overlap", "compare", "require_independent"]

FALSE_ALARM = 1e-9
"""How probable it is at most that independent tables are refused."""
MOST_ROWS = 4_000_000
"""Larger tables are compared on the rows whose digests are multiples of some number: the same rows on both sides."""
_BETS = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class Overlap:
    """What a comparison of rows found.

    Attributes:
        rows: private rows that stand in the reference too, of those compared.
        compared: private rows that were compared.
        evidence: ln of an e-value: its expectation is at most 1 where the tables are independent.
        limit: evidence beyond which chance explains nothing.
    """

    rows: int
    compared: int
    evidence: float
    limit: float

    @property
    def beyond_chance(self) -> bool:
        """Whether the tables cannot be independent."""
        return self.evidence > self.limit


def compare(private: NDArray[np.uint64], public: NDArray[np.uint64]) -> Overlap:
    """Compare two tables by the digests of their rows.

    A row's value that occurs k times in both tables together is, if they are independent, divided equally among them with
    probability at most c_k, whatever the two populations; occurs once on one side with probability at most (1 - 1/k)^(k-1);
    and occurs on both with probability at most 1 - 2^(1-k). Bets at these odds are products of factors with mean at most 1;
    a table that was copied, once or several times, wins them.

    >>> rng = np.random.default_rng(0)
    >>> rows, other = rng.integers(0, 2**63, 500, dtype=np.uint64), rng.integers(0, 2**63, 500, dtype=np.uint64)
    >>> compare(rows, other).beyond_chance, compare(rows, np.concatenate([other, rows[:60]])).beyond_chance
    (False, True)
    """
    values, places = np.unique(np.concatenate([private, public]), return_inverse=True)
    mine = np.bincount(places[: len(private)], minlength=len(values))
    theirs = np.bincount(places[len(private) :], minlength=len(values))
    both = mine + theirs
    several = both > 1
    evidence = [
        _evidence(both[several], won[several], chance, bet)
        for won, chance in (
            (mine == theirs, _equal),
            ((mine == 1) & (theirs > 0), _single),
            ((theirs == 1) & (mine > 0), _single),
            ((mine > 0) & (theirs > 0), _present),
        )
        for bet in _BETS
    ]
    best = max(evidence)
    mixed = best + log(sum(np.exp(one - best) for one in evidence) / len(evidence))
    # The bets are fair for Poisson numbers of rows; given the true numbers they are by at most this factor less so.
    sizes = log(e * e * sqrt(max(len(private), 1)) * sqrt(max(len(public), 1)))
    rows = int(mine[theirs > 0].sum())
    return Overlap(rows, len(private), mixed, log(1.0 / FALSE_ALARM) + sizes)


def _evidence(both: NDArray[np.int64], won: NDArray[np.bool_], chance: Callable[[int], float], bet: float) -> float:
    """ln of the product of bets on an event, over values that occur so often in both tables together."""
    total = 0.0
    for k in np.unique(both).tolist():
        probability = chance(k)
        if probability < 1.0:
            wins = int(np.count_nonzero(won & (both == k)))
            losses = int(np.count_nonzero(both == k)) - wins
            if probability > 0.0:
                total += wins * log(1.0 - bet + bet / probability) + losses * log(1.0 - bet)
    return total


def _equal(k: int) -> float:
    """The largest probability that a value which occurs k times is divided equally; 0 where it cannot be."""
    return 0.0 if k % 2 else exp(lgamma(k + 1.0) - 2.0 * lgamma(0.5 * k + 1.0) - k * log(2.0))


def _single(k: int) -> float:
    """That it occurs exactly once on one side: k·θ·(1 - θ)^(k-1) is largest at θ = 1/k."""
    return (1.0 - 1.0 / k) ** (k - 1)


def _present(k: int) -> float:
    """That it occurs on both sides: 1 - θ^k - (1 - θ)^k is largest at θ = ½."""
    return 1.0 - 2.0 ** (1 - k)


def require_independent(sample: Sample, public: Table) -> None:
    """Refuse a reference that holds private rows. The error shows how many, and nothing else, to the owner of both tables.

    Numbered rows coincide where all else does: a column that numbers the rows of both tables is no evidence.
    """
    names = [name for name in sample.names if name in public and name != sample.unit]
    keys = {name for name in names if public.is_key(name)}
    keys &= sample.keys(sorted(keys))
    found = compare(*sample.digests(public, [name for name in names if name not in keys] or names, MOST_ROWS))
    if found.beyond_chance:
        raise PriorError(
            f"{found.rows:,} of {found.compared:,} private rows stand in the public reference too, more than chance "
            "explains. The reference must be independent of the private rows, or the intervals mean nothing. With one "
            "table only, write prior=eh.Split(0.5), or --split 0.5 in the shell: it makes a random half of the rows public "
            "and keeps the other half private. If you know why these rows are equal, and that they are independent all the "
            "same, pass overlap='allow', or --overlap allow."
        )
