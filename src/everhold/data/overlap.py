"""Whether private rows stand in the public reference too, more often than chance explains.

A reference that holds private rows is not independent of them, and the guarantee is void. So the two are compared when a
session begins, by digests of whole rows. Rows of few columns coincide by chance; what chance cannot explain is told apart
by a test that supposes nothing about the two populations (docs/theory/overlap.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, lgamma, log, sqrt
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

    A row's value that occurs k times in both tables together occurs, if they are independent, equally often in each with
    probability at most c_k = C(k, k/2)/2^k, whatever the two populations. A bet on that at even odds or worse is a product
    of factors with mean at most 1; a copied table wins every bet.

    >>> rng = np.random.default_rng(0)
    >>> rows, other = rng.integers(0, 2**63, 500, dtype=np.uint64), rng.integers(0, 2**63, 500, dtype=np.uint64)
    >>> compare(rows, other).beyond_chance, compare(rows, np.concatenate([other, rows[:60]])).beyond_chance
    (False, True)
    """
    values, places = np.unique(np.concatenate([private, public]), return_inverse=True)
    mine = np.bincount(places[: len(private)], minlength=len(values))
    theirs = np.bincount(places[len(private) :], minlength=len(values))
    both = mine + theirs
    evidence = []
    for bet in _BETS:
        total = 0.0
        for k in np.unique(both[(both % 2 == 0) & (both > 0)]).tolist():
            chance = lgamma(k + 1.0) - 2.0 * lgamma(0.5 * k + 1.0) - k * log(2.0)  # ln c_k
            equal = int(np.count_nonzero((both == k) & (mine == theirs)))
            other = int(np.count_nonzero(both == k)) - equal
            total += equal * log(1.0 - bet + bet * np.exp(-chance)) + other * log(1.0 - bet)
        evidence.append(total)
    best = max(evidence)
    mixed = best + log(sum(np.exp(one - best) for one in evidence) / len(_BETS))
    # The bets are fair for Poisson numbers of rows; given the true numbers they are by at most this factor less so.
    sizes = log(e * e * sqrt(max(len(private), 1)) * sqrt(max(len(public), 1)))
    rows = int(mine[theirs > 0].sum())
    return Overlap(rows, len(private), mixed, log(1.0 / FALSE_ALARM) + sizes)


def require_independent(sample: Sample, public: Table) -> None:
    """Refuse a reference that holds private rows. Nothing but how many is told, and only to whoever brought both.

    Numbered rows coincide where all else does: a column that numbers the rows of both tables is no evidence.
    """
    names = [name for name in sample.names if name in public and name != sample.unit]
    found = compare(*sample.digests(public, names, MOST_ROWS))
    if found.beyond_chance:
        keys = {name for name in names if public.is_key(name)} & sample.keys(names)
        rest = [name for name in names if name not in keys]
        if keys and rest:
            found = compare(*sample.digests(public, rest, MOST_ROWS))
    if found.beyond_chance:
        raise PriorError(
            f"{found.rows:,} of {found.compared:,} private rows stand in the public reference too, more than chance "
            "explains. The reference must be independent of the private rows, or the intervals mean nothing. With one "
            "table only, write prior=eh.Split(0.5): it makes a random half of the rows public and keeps the other half "
            "private. If you know why these rows are equal, and that they are independent all the same, pass "
            "overlap='allow'."
        )
