"""Test whether private rows also occur in the public reference, more often than chance explains.

A reference that contains private rows is not independent of them, and the guarantee is void. So the two are compared when
a session begins, by digests of whole rows. Rows of few columns coincide by chance; the test finds overlaps beyond chance
without assumptions about the two populations (docs/theory/overlap.md).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import e, exp, lgamma, log, sqrt
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from everhold.data.likeness import ROW_DIGEST
from everhold.errors import PriorError, ReferenceWarning, outside

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.sample import Sample
    from everhold.data.table import RowTable

__all__ = ["Overlap", "compare", "compare_counts", "require_independent"]

FALSE_ALARM = 1e-9
"""The largest probability of rejecting independent tables."""
MOST_ROWS = 4_000_000
"""Larger tables are compared on the rows whose digests are multiples of a fixed number: the same rows on both sides."""
_NUMBERED = re.compile(r"(\D*)(\d{1,18})(\D*)")
_DENSE = 2  # numbers of rows: at least every second one occurs
_BETS = (0.1, 0.5, 0.9)


Counted: TypeAlias = "tuple[NDArray[np.uint64], NDArray[np.int64]]"
"""Different digests in their order, and how often each occurs."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The result of comparing private and public rows.

    Attributes:
        rows: compared private rows that also occur in the reference.
        compared: private rows that were compared.
        evidence: ln of an e-value, whose expectation is at most 1 if the tables are independent.
        limit: evidence above this cannot be explained by chance.
    """

    rows: int
    compared: int
    evidence: float
    limit: float

    @property
    def beyond_chance(self) -> bool:
        """Whether the evidence against independence exceeds the limit."""
        return self.evidence > self.limit


def compare(private: NDArray[np.uint64], public: NDArray[np.uint64]) -> Overlap:
    """Compare two tables by the digests of their rows.

    If the tables are independent, for any two populations, a row value that occurs k times in both tables together is
    divided equally among them with probability at most c_k; occurs once on one side with probability at most
    (1 - 1/k)^(k-1); and occurs on both with probability at most 1 - 2^(1-k). Bets at these odds are products of factors with
    mean at most 1; a table that was copied, once or several times, wins them.

    >>> rng = np.random.default_rng(0)
    >>> rows, other = rng.integers(0, 2**63, 500, dtype=np.uint64), rng.integers(0, 2**63, 500, dtype=np.uint64)
    >>> compare(rows, other).beyond_chance, compare(rows, np.concatenate([other, rows[:60]])).beyond_chance
    (False, True)
    """
    return compare_counts(
        np.unique(private, return_counts=True), np.unique(public, return_counts=True), (len(private), len(public))
    )


def compare_counts(private: Counted, public: Counted, sizes: tuple[int, int]) -> Overlap:
    """The same of different digests in their order, with how often each occurs, and the numbers of rows of both tables.

    They may also be the smallest digests, up to one at which either side has as many as it was to have: it can be decided in
    their order where to stop, and the bets' mean is at most 1 there too.
    """
    values = np.union1d(private[0], public[0])
    mine, theirs = (np.zeros(len(values), np.int64) for _ in range(2))
    mine[np.searchsorted(values, private[0])] = private[1]
    theirs[np.searchsorted(values, public[0])] = public[1]
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
    # The bets are fair for Poisson numbers of rows; conditioning on the true numbers costs at most this factor.
    numbers = log(e * e * sqrt(max(sizes[0], 1)) * sqrt(max(sizes[1], 1)))
    rows = int(mine[theirs > 0].sum())
    return Overlap(rows, int(mine.sum()), mixed, log(1.0 / FALSE_ALARM) + numbers)


def _evidence(both: NDArray[np.int64], won: NDArray[np.bool_], chance: Callable[[int], float], bet: float) -> float:
    """ln of the product of bets on an event, over values that occur `both` times in the two tables together."""
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
    """The largest probability that a value with k occurrences is divided equally; 0 for odd k."""
    return 0.0 if k % 2 else exp(lgamma(k + 1.0) - 2.0 * lgamma(0.5 * k + 1.0) - k * log(2.0))


def _single(k: int) -> float:
    """The largest probability that it occurs exactly once on one side: k·θ·(1 - θ)^(k-1) is largest at θ = 1/k."""
    return (1.0 - 1.0 / k) ** (k - 1)


def _present(k: int) -> float:
    """The largest probability that it occurs on both sides: 1 - θ^k - (1 - θ)^k is largest at θ = ½."""
    return 1.0 - 2.0 ** (1 - k)


def require_independent(sample: Sample, public: RowTable) -> None:
    """Reject a reference that contains private rows. The error shows only how many, to the owner of both tables.

    Columns that number the rows of both tables are ignored, unless there are no others: a row's number does not show
    whether two rows are the same. Texts that are all different, such as addresses, take part in a second test. A warning
    says where too few different rows are there to find even a reference that is the private table.
    """
    names = [name for name in sample.names if name in public and name != sample.unit]
    keys = {name for name in names if public.is_key(name) and name != ROW_DIGEST}
    keys &= sample.keys(sorted(keys))
    telling = [name for name in names if name not in keys] or names
    named = [name for name in names if name not in keys or (public.kind(name) == "text" and not _numbering(public, name))]
    tests = [telling, named] if 0 < len(telling) < len(named) else [telling]
    shared, powerful = log(len(tests)), False
    for columns in tests:
        mine, theirs = sample.digests(public, columns, MOST_ROWS)
        found = compare(mine, theirs)
        if found.evidence > found.limit + shared:
            raise PriorError(
                f"{found.rows:,} of {found.compared:,} private rows also occur in the public reference, more than chance "
                "explains. The reference must be independent of the private rows, or the intervals are not valid. With "
                "only one table, use prior=eh.Split(0.5), or --split 0.5 in the shell: it makes a random half of the rows "
                "public and keeps the other half private. If you know why these rows are equal and that they are still "
                "independent, pass overlap='allow', or --overlap allow."
            )
        if not powerful:
            copied = compare(theirs, theirs)
            powerful = copied.evidence > copied.limit + shared
    if names and not powerful:
        said = (
            "whether the reference contains private rows cannot be tested: its rows have too few different values, so that "
            "even a copy of the private table would not be noticed. Make sure yourself that it is independent of the "
            "private rows."
        )
        warnings.warn(ReferenceWarning(said), stacklevel=outside())


def _numbering(table: RowTable, name: str) -> bool:
    """Whether texts are numbers of rows in words, such as p1, p2 …: then equal ones do not show equal rows.

    >>> from everhold.data.table import RowTable
    >>> table = RowTable({"id": ["p7", "p8", "p9"], "mail": ["ann@x.org", "bob7@x.org", "eve@y.org"]})
    >>> _numbering(table, "id"), _numbering(table, "mail")
    (True, False)
    """
    found = [_NUMBERED.fullmatch(word) for word in table.column(name).words]
    parts = {(one[1], one[3]) if one else None for one in found}
    if None in parts or len(parts) != 1:
        return False
    numbers = [int(one[2]) for one in found if one]
    return max(numbers) - min(numbers) < _DENSE * len(numbers)
