"""Keyed digests by which a table is recognised, whatever its columns are called and however its rows are ordered.

Two samples of one population share categories, and may share a row or a count by chance. They do not share a whole table, or
a whole column of many values: how unlikely that is, is computed from the counts themselves (docs/theory/overlap.md).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, lgamma, log, log2, sqrt
from typing import TYPE_CHECKING

import numpy as np

from everhold.data.fingerprint import cell_hashes, scrambled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.table import RowTable

__all__ = ["ROW_DIGEST", "Likeness", "Placed", "likeness"]

ROW_DIGEST = "row digest"
"""The column of a test set that stands for features without columns. It looks like a row's number, and is its content."""

_TABLE = log(1e-3)
"""A whole table counts if an independent one equals it with at most this probability (its logarithm)."""
_COLUMN = log(1e-9)
"""A column alone: there are many of them."""
_AGREE = log(1e-12)
"""Columns that agree row by row, for every pair of them."""
_MANY = 100  # values of a column that counts alone: quotas of categories have fewer
_CELLS = 4096  # counts are taken of values that share a part of their hash: equal columns have equal such counts
_PLACES = 2048  # places that are compared row by row
_PLACED = 16  # columns that are compared row by row
_OFTEN = 4  # rows of a value: with fewer, neighbours do not show whether the order is random
_STEADY = 0.995  # a column with one value on more rows says too little
_LEAST = 32  # places that both have
_NATS = 48.0  # what a run of values in random order has to say, to be found in one table alone
_LONGEST = 1024  # rows of such a run
_RUNS = 64  # runs of a column
_RUN_COLUMNS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Columns of few values whose rows are in random order: which value some places have.

    Attributes:
        places: numbers of rows, the same in every table of as many rows.
        values: digests of the values there, a line for each column.
        chances: for each column, the largest share of places on which another one agrees with it by chance.
    """

    places: NDArray[np.uint32]
    values: NDArray[np.uint32]
    chances: tuple[float, ...] = ()

    def agrees(self, other: Placed) -> bool:
        """Whether a column of the other table has the same values at the same places, more often than chance explains."""
        _, mine, theirs = np.intersect1d(self.places, other.places, assume_unique=True, return_indices=True)
        if len(mine) < _LEAST:
            return False
        there = other.values[:, theirs]
        for column, chance in zip(self.values[:, mine], self.chances, strict=True):
            share = float((there == column).mean(axis=1).max(initial=0.0))
            if share > chance and -len(mine) * _divergence(share, chance) <= _AGREE:
                return True
        return False


@dataclass(frozen=True, slots=True)
class Likeness:
    """What tells a table from every other.

    Attributes:
        digests: of the whole table and of each column that is enough alone, whatever the order of rows and columns; and of
            runs of rows in columns of few values.
        placed: columns of few values, row by row.
    """

    digests: tuple[str, ...] = ()
    placed: Placed | None = None


def likeness(names: Sequence[str], column_of: Callable[[str], RowTable], key: bytes) -> Likeness:
    """The likeness of a table whose columns are read one at a time.

    Args:
        names: of its columns.
        column_of: a table that holds the column.
        key: of the digests.

    >>> from everhold.data.table import RowTable
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=500), rng.random(500) < 0.3
    >>> one = RowTable({"x": x, "y": y})
    >>> other = RowTable({"a": x[::-1], "z": rng.random(500)})
    >>> first, second = (likeness(list(table), lambda _, table=table: table, b"k") for table in (one, other))
    >>> len({*first.digests} & {*second.digests})
    1
    """
    digests: list[str] = []
    placed: list[tuple[float, NDArray[np.uint32], tuple[str, ...]]] = []
    every = bare = None
    size = 0
    for name in names:
        table = column_of(name)
        cells = cell_hashes(table, name, key)
        size = len(cells)
        row = scrambled(cells + np.uint64(1))
        every = row if every is None else every + row
        if name != ROW_DIGEST and table.is_key(name):
            continue
        bare = row if bare is None else bare + row
        counts = _counts(cells)
        if _equal_by_chance(counts) <= _COLUMN and np.count_nonzero(counts) >= _MANY:
            if not _designed(table, name, cells):
                digests.append(_digest(key, "column", cells))
        elif (one := _placed(cells, counts, key)) is not None:
            placed.append((*one, _runs(cells, counts, key)))
    if every is None or size < _LEAST:
        return Likeness()
    counts = np.array([size]) if bare is None else _counts(bare)
    if bare is None or -_entropy(counts) <= _TABLE:  # the numbers of rows may be the same in both
        digests.append(_digest(key, "table", every))
    if bare is not None and _equal_by_chance(counts) <= _TABLE:
        digests.append(_digest(key, "table", bare))
    kept = sorted(placed, key=lambda one: one[0])[:_PLACED]
    digests += [run for _, _, runs in kept[:_RUN_COLUMNS] for run in runs]
    by_place = (
        Placed(_places(size, key), np.stack([one for _, one, _ in kept]), tuple(one for one, _, _ in kept)) if kept else None
    )
    return Likeness(tuple(dict.fromkeys(digests)), by_place)


def _counts(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    return np.bincount((scrambled(hashes) % np.uint64(_CELLS)).astype(np.int64), minlength=_CELLS)


def _equal_by_chance(counts: NDArray[np.int64]) -> float:
    """ln of the largest probability, over all populations, that an independent sample has exactly these counts."""
    found = counts[counts > 0].tolist()
    size = sum(found)
    return min(0.0, lgamma(size + 1.0) - sum(lgamma(count + 1.0) for count in found) - _entropy(counts))


def _entropy(counts: NDArray[np.int64]) -> float:
    """-ln of the largest probability that rows have these values in this order."""
    found = counts[counts > 0]
    return -float(np.sum(found * np.log(found / found.sum())))


def _divergence(share: float, chance: float) -> float:
    rest = 0.0 if share >= 1.0 else (1.0 - share) * log((1.0 - share) / (1.0 - chance))
    return share * log(share / chance) + rest


def _designed(table: RowTable, name: str, cells: NDArray[np.uint64]) -> bool:
    """Whether a column lists its values by a plan: each equally often, or evenly spaced."""
    _, counts = np.unique(cells, return_counts=True)
    if counts.min() < counts.max():
        return False
    if counts[0] > 1:
        return True
    if name == ROW_DIGEST or table.kind(name) != "number":
        return False
    steps = np.diff(np.sort(table.column(name).values))
    return bool(np.ptp(steps) <= 1e-6 * abs(float(steps.mean()))) if len(steps) else True


def _placed(cells: NDArray[np.uint64], counts: NDArray[np.int64], key: bytes) -> tuple[float, NDArray[np.uint32]] | None:
    """A column by its places; None where it hardly varies, or where its order follows from something."""
    size = len(cells)
    if size < _LEAST or size < _OFTEN * np.count_nonzero(counts):
        return None
    shares = counts / size
    largest, same, expected = float(shares.max()), float(np.mean(cells[1:] == cells[:-1])), float(np.sum(shares**2))
    if largest > _STEADY or abs(same - expected) > 5.0 * sqrt(max(expected * (1.0 - expected), 0.01) / size):
        return None
    values = scrambled(cells[_places(size, key)] ^ _number(key, "values")) >> np.uint64(32)
    return max(largest, same), values.astype(np.uint32)


def _runs(cells: NDArray[np.uint64], counts: NDArray[np.int64], key: bytes) -> tuple[str, ...]:
    """Digests of runs of rows in random order, drawn by the key: rows that were left out or put in between move the others.

    Two lengths, so that of two tables with almost the same shares of values one length is the same.
    """
    shares, digests = counts / len(cells), []
    length = 2 ** ceil(log2(max(_NATS / -log(float(np.sum(shares**2))), 1.0)))
    for one in (length, 2 * length):
        if one > min(_LONGEST, len(cells)):
            break
        base = _number(key, "run") | np.uint64(1)
        powers = np.multiply.accumulate(np.full(len(cells) + 1, base))
        inverse = np.multiply.accumulate(np.full(len(cells) + 1, np.uint64(pow(int(base), -1, 2**64))))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells * powers[:-1], dtype=np.uint64)])
        runs = np.unique(scrambled((sums[one:] - sums[:-one]) * inverse[: len(cells) - one + 1]))[:_RUNS]
        digests += [_keyed(key, f"run {one} {run}") for run in runs.tolist()]
    return tuple(digests)


def _places(size: int, key: bytes) -> NDArray[np.uint32]:
    """Numbers of rows, drawn by a key: of two tables of almost as many rows almost the same."""
    order = scrambled(np.arange(size, dtype=np.uint64) ^ _number(key, "places"))
    return (np.argsort(order)[:_PLACES] if size > _PLACES else np.arange(size)).astype(np.uint32)


def _number(key: bytes, what: str) -> np.uint64:
    return np.uint64(int.from_bytes(hmac.new(key, f"likeness {what}".encode(), hashlib.sha256).digest()[:8], "big"))


def _digest(key: bytes, what: str, hashes: NDArray[np.uint64]) -> str:
    """A digest of hashes in any order."""
    lanes = [int(scrambled(hashes ^ np.uint64(lane)).sum(dtype=np.uint64)) for lane in (0, 0x9E3779B97F4A7C15)]
    return _keyed(key, f"{what} {len(hashes)} {lanes}")


def _keyed(key: bytes, what: str) -> str:
    return hmac.new(key, what.encode(), hashlib.sha256).hexdigest()[:24]
