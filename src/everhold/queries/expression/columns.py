"""Columns as expressions see them: canonical, so that every operation is defined on every row.

Numbers are float64 with NaN where one is missing, clamped to ±1e15, below 1e-30 in size 0. Dates are microseconds since
1970, as such numbers. Texts are codes into a sorted dictionary, -1 where one is missing, cut to `LONGEST_TEXT` letters.
Booleans may be missing too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.expression.tree import Kind

__all__ = [
    "FIRST_MICROS",
    "LARGEST",
    "LAST_MICROS",
    "LONGEST_TEXT",
    "SMALLEST",
    "Encoded",
    "encode",
    "encode_words",
    "kind_of",
]

LARGEST, SMALLEST = 1e15, 1e-30
FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000.0, 253_402_300_799_999_999.0
"""Dates of the years 1 to 9999; others are missing, on both sides alike."""
LONGEST_TEXT = 1_000
"""Letters of a text that count; the rest is cut off, on both sides alike."""

_KINDS: dict[str, Kind] = {"b": "boolean", "i": "number", "u": "number", "f": "number", "M": "date", "U": "text"}


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A canonical column.

    Attributes:
        kind: number, boolean, text or date.
        values: floats, booleans, or codes into `words`.
        words: the sorted dictionary of a text column.
        known: for booleans, where there is one; None when all are known.
    """

    kind: Kind
    values: NDArray[Any]
    words: tuple[str, ...] = ()
    known: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: NDArray[Any]) -> Encoded:
        """Some of its rows."""
        known = None if self.known is None else self.known[index]
        return Encoded(self.kind, self.values[index], self.words, known)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """The rows without a value."""
        missing: NDArray[np.bool_]
        if self.kind == "text":
            missing = self.values < 0
        elif self.kind == "boolean":
            missing = np.zeros(len(self.values), np.bool_) if self.known is None else ~self.known
        else:
            missing = np.isnan(self.values)
        return missing

    def decode(self) -> NDArray[Any]:
        """The column as callables see it: floats, datetime64, booleans, texts; missing ones as NaN, NaT or None."""
        if self.kind == "text":
            words: NDArray[Any] = np.array([*self.words, None], dtype=object)
            return np.asarray(words[self.values])
        if self.kind == "date":
            micros = np.where(np.isnan(self.values), 0.0, self.values).astype(np.int64).astype("datetime64[us]")
            return np.where(np.isnan(self.values), np.datetime64("NaT", "us"), micros)
        if self.kind == "boolean" and self.known is not None:
            truths: NDArray[Any] = self.values.astype(object)
            truths[~self.known] = None
            return truths
        return self.values


def kind_of(column: NDArray[Any]) -> Kind | None:
    """The kind of a raw column; None for matrices and for what expressions do not know.

    >>> kind_of(np.array([1, 2])), kind_of(np.array(["a", None], dtype=object)), kind_of(np.zeros((2, 2)))
    ('number', 'text', None)
    """
    if column.ndim != 1:
        return None
    if column.dtype.kind != "O":
        return _KINDS.get(column.dtype.kind)
    found = {type(value) for value in column.tolist()} - {type(None), float}
    found = {one for one in found if one.__name__ not in ("NAType", "NaTType")}  # pandas' own ways to say nothing
    if not found and any(value == value for value in column.tolist() if value is not None):
        return "number"
    if found and found <= {bool, np.bool_}:
        return "boolean"
    if found and all(issubclass(one, int | Decimal | np.number) and one is not bool for one in found):
        return "number"
    if found and all(issubclass(one, date | np.datetime64) for one in found):
        return "date"
    return "text"


def encode(column: NDArray[Any], kind: Kind | None = None) -> Encoded:
    """A raw column, canonical. Objects that do not fit the column's kind are missing."""
    kind = kind or kind_of(column)
    if column.dtype.kind == "O" and kind != "text":
        return _from_objects(column, kind)
    if kind == "boolean":
        return Encoded(kind, column)
    if kind == "number":
        return Encoded(kind, _tamed(column.astype(np.float64)))
    if kind == "date":
        moments = column.astype("datetime64[us]")
        micros = moments.astype(np.int64).astype(np.float64)
        micros[np.isnat(moments) | (micros < FIRST_MICROS) | (micros > LAST_MICROS)] = np.nan
        return Encoded(kind, micros)
    if kind == "text":
        if column.dtype.kind == "U":
            words, codes = np.unique(column, return_inverse=True)
            return encode_words(words.tolist(), codes)
        cut = [value[:LONGEST_TEXT] if isinstance(value, str) else None for value in column.tolist()]
        final = sorted({value for value in cut if value is not None})
        rank: dict[str | None, int] = {word: place for place, word in enumerate(final)}
        rank[None] = -1
        return Encoded("text", np.fromiter((rank[value] for value in cut), np.int32, len(cut)), tuple(final))
    return Encoded("number", np.full(len(column), np.nan))


def encode_words(words: list[str], codes: NDArray[Any]) -> Encoded:
    """A text column from a dictionary and codes into it (-1: missing): sorted, cut to size, without repeats.

    >>> encode_words(["b", "a"], np.array([0, 1, -1])).values.tolist()
    [1, 0, -1]
    """
    cut = [word[:LONGEST_TEXT] for word in words]
    final = sorted(set(cut))
    if cut == final:
        return Encoded("text", codes.astype(np.int32), tuple(final))
    rank = {word: place for place, word in enumerate(final)}
    places = np.array([*(rank[word] for word in cut), -1], dtype=np.int32)
    return Encoded("text", places[codes], tuple(final))


def _tamed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    np.clip(values, -LARGEST, LARGEST, out=values)
    values[np.abs(values) < SMALLEST] = 0.0
    return values


def _from_objects(column: NDArray[Any], kind: Kind | None) -> Encoded:
    items = column.tolist()
    if kind == "boolean":
        known = np.array([isinstance(item, bool | np.bool_) for item in items], dtype=bool)
        return Encoded("boolean", np.array([item is True or item is np.True_ for item in items], dtype=bool), (), known)
    if kind == "date":
        micros = np.array([_micros(item) for item in items], dtype=np.float64)
        return Encoded("date", micros)
    numbers = np.array([_number(item) for item in items], dtype=np.float64)
    return Encoded("number", _tamed(numbers))


def _number(item: object) -> float:
    if isinstance(item, bool | np.bool_) or not isinstance(item, int | float | Decimal | np.number):
        return float("nan")
    try:
        return float(item)
    except OverflowError:
        return LARGEST if item > 0 else -LARGEST
    except (TypeError, ValueError):
        return float("nan")


def _micros(item: object) -> float:
    if not isinstance(item, datetime | date | np.datetime64) or item != item:
        return float("nan")
    try:
        if isinstance(item, datetime) and item.tzinfo is not None:
            item = item.astimezone(UTC).replace(tzinfo=None)
        moment: Any = np.array(item, dtype="datetime64[us]")
    except (TypeError, ValueError, OverflowError):
        return float("nan")
    micros = float("nan") if np.isnat(moment) else float(moment.astype(np.int64))
    return micros if FIRST_MICROS <= micros <= LAST_MICROS else float("nan")
