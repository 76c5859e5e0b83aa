"""Keyed digests by which a table is recognised, whatever its columns are called and however its rows are ordered.

Two samples of one population share categories, and may share a row or a count by chance. They do not share a whole table, or
a whole column of many values: how unlikely that is, is computed from the counts themselves (docs/theory/overlap.md).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, lgamma, log, log2, sqrt
from typing import TYPE_CHECKING

import numpy as np

from everhold.data.fingerprint import cell_hashes, scrambled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.table import RowTable

__all__ = ["ROW_DIGEST", "Cells", "Likeness", "Placed", "likeness", "named_if_enough"]

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
_CELL_COLUMNS = 8  # columns of many values that are compared value by value
_SPACED = 100_000  # of the smallest values the steps are looked at
_FAR = 25.0  # so many times the smallest steps are numbers far between, which are not drawn from a grid
_MOSTLY = 0.9  # of a column's values that follow a plan


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Columns of few values whose rows are in random order: which value some places have.

    Attributes:
        places: numbers of rows, the same in every table of as many rows.
        values: digests of the values there, a line for each column.
        chances: for each column, the largest share of places on which another one agrees with it by chance.
        names: what the columns are called, for their owner.
        groups: a number for each column, the same for columns of which one follows from the other.
    """

    places: NDArray[np.uint32]
    values: NDArray[np.uint32]
    chances: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()

    def agreeing(self, other: Placed) -> tuple[str, ...]:
        """Columns that have the same values at the same places as one of the other table, more often than chance explains.

        One column may follow a plan, such as folds drawn with the same seed. Where both tables have several, two must agree
        of which none follows from the other; with fewer there are none.
        """
        _, mine, theirs = np.intersect1d(self.places, other.places, assume_unique=True, return_indices=True)
        if len(mine) < _LEAST:
            return ()
        there, found = other.values[:, theirs], set[tuple[int, int]]()
        for number, (column, chance) in enumerate(zip(self.values[:, mine], self.chances, strict=True)):
            for place, share in enumerate((there == column).mean(axis=1).tolist()):
                if share > chance and -len(mine) * _divergence(share, chance) <= _AGREE:
                    found.add((number, place))
        return named_if_enough(found, self.names, self.groups, len(other.values))


def named_if_enough(
    pairs: set[tuple[int, int]], names: Sequence[str], groups: Sequence[int], others: int
) -> tuple[str, ...]:
    """The names of columns that agree with another table's: none if it is one, and both have several.

    >>> named_if_enough({(0, 1)}, ["fold", "sex"], [0, 1], 2), named_if_enough({(0, 0)}, ["y"], [0], 2)
    ((), ('y',))
    """
    needed = min(2, len(set(groups)), others)
    enough = len({groups[mine] for mine, _ in pairs}) >= needed and len({other for _, other in pairs}) >= needed
    return tuple(names[mine] for mine in sorted({mine for mine, _ in pairs})) if enough else ()


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """How often a column has each of its values, of the values with the smallest digests.

    Attributes:
        values, counts: different digests in their order, and on how many rows each is.
        highest: the largest digest up to which none is left out.
        rows: of the column.
        alone: whether half of the values say which rows these are: numbers far between, of which hardly any occurs twice.
    """

    values: NDArray[np.uint64]
    counts: NDArray[np.int64]
    highest: int
    rows: int
    alone: bool = False

    @classmethod
    def of(cls, values: NDArray[np.uint64], counts: NDArray[np.int64]) -> Cells:
        """Of all the values of a column."""
        highest = int(values[_CELLS - 1]) if len(values) > _CELLS else 2**64 - 1
        return cls(values[:_CELLS], counts[:_CELLS], highest, int(counts.sum()))

    def up_to(self, highest: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Values and counts up to a digest."""
        those = self.values <= np.uint64(highest)
        return self.values[those], self.counts[those]


@dataclass(frozen=True, slots=True)
class Likeness:
    """What tells a table from every other.

    Attributes:
        digests: of the whole table and of each column that is enough alone, whatever the order of rows and columns.
        runs: digests of runs of rows in columns of few values, for each such column.
        run_names, run_groups: as those of `placed`, for the columns of `runs`.
        placed: columns of few values, row by row.
        cells: the most telling columns' values, by the columns' names: they are recognised though some rows are others.
    """

    digests: tuple[str, ...] = ()
    runs: tuple[tuple[str, ...], ...] = ()
    run_names: tuple[str, ...] = ()
    run_groups: tuple[int, ...] = ()
    placed: Placed | None = None
    cells: Mapping[str, Cells] = field(default_factory=dict)


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
    placed: list[tuple[float, NDArray[np.uint32], tuple[str, ...], str]] = []
    telling: list[tuple[tuple[int, int], str, Cells]] = []
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
            different, often = np.unique(scrambled(cells), return_counts=True)
            if not _designed(table, name, often):
                digests.append(_digest(key, "column", cells))
            if name != ROW_DIGEST and (some := _unplanned(table, name, Cells.of(different, often))) is not None:
                share = int(log2(size / len(different)))
                telling.append(((share, int(some.values[0])), name, some))
        elif (one := _placed(cells, counts, key)) is not None:
            placed.append((*one, _runs(cells, counts, key), name))
    if every is None or size < _LEAST:
        return Likeness()
    counts = np.array([size]) if bare is None else _counts(bare)
    if bare is None or -_entropy(counts) <= _TABLE:  # the numbers of rows may be the same in both
        digests.append(_digest(key, "table", every))
    if bare is not None and _equal_by_chance(counts) <= _TABLE:
        digests.append(_digest(key, "table", bare))
    kept = sorted(placed, key=lambda one: one[0])[:_PLACED]
    cells_of = {name: some for _, name, some in sorted(telling, key=lambda one: one[0])[:_CELL_COLUMNS]}
    if not kept:
        return Likeness(tuple(dict.fromkeys(digests)), cells=cells_of)
    values = np.stack([one for _, one, _, _ in kept])
    names_of, groups = tuple(name for *_, name in kept), _groups(values)
    by_place = Placed(_places(size, key), values, tuple(one for one, *_ in kept), names_of, groups)
    run = [number for number, (_, _, runs, _) in enumerate(kept[:_RUN_COLUMNS]) if runs]
    return Likeness(
        tuple(dict.fromkeys(digests)),
        tuple(kept[number][2] for number in run),
        tuple(names_of[number] for number in run),
        tuple(groups[number] for number in run),
        by_place,
        cells_of,
    )


def _groups(values: NDArray[np.uint32]) -> tuple[int, ...]:
    """A number for each column, the same where one follows from the other, as a test set does from a fold's number."""
    codes = [np.unique(column, return_inverse=True)[1].astype(np.int64) for column in values]
    sizes, groups = [int(code.max()) + 1 for code in codes], list(range(len(codes)))
    for one in range(len(codes)):
        for other in range(one):
            pairs = len(np.unique(codes[one] * sizes[other] + codes[other]))
            if pairs <= max(sizes[one], sizes[other]):
                old, new = groups[one], groups[other]
                groups = [new if group == old else group for group in groups]
    return tuple(groups)


def _unplanned(table: RowTable, name: str, some: Cells) -> Cells | None:
    """None where most of a column's values may follow a plan: equally often, or once each and evenly spaced."""
    often, times = np.unique(some.counts, return_counts=True)
    if times.max() < _MOSTLY * len(some.counts):
        return some
    if often[times.argmax()] > 1:
        return None
    if table.kind(name) != "number":
        return some
    values = table.column(name).values
    values = values[np.isfinite(values)]
    if len(values) > _SPACED:
        values = np.partition(values, _SPACED)[:_SPACED]
    steps = np.diff(np.unique(values))
    if not len(steps):
        return None
    middle = float(np.median(steps))
    if float(np.mean(np.abs(steps - middle) <= 1e-6 * middle)) >= _MOSTLY:
        return None
    return replace(some, alone=float(steps.sum()) >= _FAR * len(steps) * float(np.quantile(steps, 0.01)))


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


def _designed(table: RowTable, name: str, counts: NDArray[np.int64]) -> bool:
    """Whether a column lists its values by a plan: each equally often, or evenly spaced."""
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
