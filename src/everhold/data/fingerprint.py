"""A fingerprint of private rows under a secret key: the same for the same rows in any order, and useless without the key.

A keyed hash function maps each row to numbers; their sums go through HMAC-SHA256. With the fingerprint but without the
key, nobody can test a guess about the rows. Opening a study with different rows is detected, except with probability
below 2⁻¹⁰⁰.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.progress import progress_bar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.table import RowTable

__all__ = ["cell_hashes", "fingerprint_files", "fingerprint_rows", "row_hashes", "scrambled"]

_LANES = 4
_CHUNK = 65_536
_LONG = 40  # chunks that may take seconds
_MB = 1 << 20


def fingerprint_rows(table: RowTable, key: bytes) -> str:
    """The fingerprint of a table in memory, independent of the order of its rows.

    >>> from everhold.data.table import RowTable
    >>> one, other = RowTable({"x": [1.0, 2.0]}), RowTable({"x": [2.0, 1.0]})
    >>> fingerprint_rows(one, b"k") == fingerprint_rows(other, b"k")
    True
    >>> fingerprint_rows(one, b"k") == fingerprint_rows(one, b"l")
    False
    """
    with progress_bar("Fingerprint of the rows", _LANES * -(-table.row_count // _CHUNK), least=_LONG) as bar:
        totals = np.array(
            [
                sum(int(part.sum(dtype=np.uint64)) for part in bar.over(_hashes(table, tuple(table), key, lane)))
                & 0xFFFF_FFFF_FFFF_FFFF
                for lane in range(_LANES)
            ],
            dtype=np.uint64,
        )
    names = "\n".join(f"{name} {table.kind(name)}" for name in table)
    message = f"everhold rows 1\n{table.row_count}\n{names}\n".encode() + totals.astype(">u8").tobytes()
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def row_hashes(table: RowTable, names: Sequence[str], key: bytes) -> NDArray[np.uint64]:
    """A 64-bit keyed hash of each row, from these columns.

    >>> from everhold.data.table import RowTable
    >>> one, other, again = row_hashes(RowTable({"x": [1.0, 2.0, 1.0]}), ["x"], b"k")
    >>> bool(one == again), bool(one == other)
    (True, False)
    """
    return np.concatenate(list(_hashes(table, names, key, 0)))


def cell_hashes(table: RowTable, name: str, key: bytes) -> NDArray[np.uint64]:
    """A 64-bit keyed hash of each value of a column, whatever the column is called; truths are the numbers 0 and 1.

    >>> from everhold.data.table import RowTable
    >>> table = RowTable({"x": [1.0, 2.0], "y": [True, False]})
    >>> bool(cell_hashes(table, "x", b"k")[0] == cell_hashes(table, "y", b"k")[0])
    True
    """
    parts = _parts(table, name, key)
    if table.kind(name) == "boolean":
        column = table.column(name)
        parts = [np.where(column.missing, np.nan, column.values.astype(np.float64)).view(np.uint64)]
    result = np.zeros(table.row_count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for index, part in enumerate(parts):
            multiply, add = _keys(key, f"cell {index}")
            result += scrambled(part * multiply + add)
    return result


def _hashes(table: RowTable, names: Sequence[str], key: bytes, lane: int) -> Iterator[NDArray[np.uint64]]:
    """Hashes of the rows, one chunk at a time."""
    columns = [(name, part) for name in names for part in _parts(table, name, key)]
    keys = [_keys(key, f"{lane} {index} {name}") for index, (name, _) in enumerate(columns)]
    for start in range(0, table.row_count, _CHUNK):
        row = np.zeros(min(_CHUNK, table.row_count - start), dtype=np.uint64)
        with np.errstate(over="ignore"):
            for (multiply, add), (_, values) in zip(keys, columns, strict=True):
                row += scrambled(values[start : start + _CHUNK] * multiply + add)
            yield scrambled(row)


def fingerprint_files(paths: Sequence[str], key: bytes) -> str:
    """The fingerprint of files that are read in place, from their bytes in order."""
    digest = hmac.new(key, b"everhold files 1\n", hashlib.sha256)
    with progress_bar("Fingerprint of the files, in MB", sum(-(-os.path.getsize(path) // _MB) for path in paths)) as bar:
        for path in paths:
            inner = hashlib.blake2b(key=key[:64])
            with open(path, "rb") as file:
                while chunk := file.read(_MB):
                    inner.update(chunk)
                    bar.advance()
            digest.update(inner.digest())
    return digest.hexdigest()


def _keys(key: bytes, purpose: str) -> tuple[np.uint64, np.uint64]:
    found = hmac.new(key, f"lane {purpose}".encode(), hashlib.sha256).digest()
    return np.uint64(int.from_bytes(found[:8], "big") | 1), np.uint64(int.from_bytes(found[8:16], "big"))


def scrambled(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A fixed bijection in which every bit affects every other (Steele, Lea and Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _parts(table: RowTable, name: str, key: bytes) -> list[NDArray[np.uint64]]:
    """A column as 64-bit numbers; a matrix as several."""
    kind = table.kind(name)
    if kind is None:
        raw = table[name]
        if raw.dtype.kind not in "biuf":
            raw = np.array([hash_text(repr(item), key) for item in raw.tolist()], dtype=np.uint64)
            return [raw]
        wide = raw.reshape(len(raw), -1).astype(np.float64) + 0.0
        return [np.ascontiguousarray(wide[:, index]).view(np.uint64) for index in range(wide.shape[1])]
    column = table.column(name)
    if kind == "text":
        hashes = np.array([*(hash_text(word, key) for word in column.words), 0], dtype=np.uint64)
        return [hashes[column.values]]
    if kind == "boolean":
        return [np.where(column.missing, 2, column.values.astype(np.int64)).astype(np.uint64)]
    values: NDArray[Any] = np.where(np.isnan(column.values), np.nan, column.values + 0.0)
    return [values.view(np.uint64)]


def hash_text(text: str, key: bytes) -> int:
    """A 64-bit keyed hash of a text."""
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key[:64], digest_size=8).digest(), "big"
    )
