"""Columns in canonical form, so that every operation is defined on every row.

Numbers are float64, NaN if missing, clamped to ±1e15, and 0 if smaller than 1e-30 in size. Dates are such numbers:
microseconds since 1970. Texts are codes into a sorted dictionary, -1 if missing, cut to `LONGEST_TEXT` characters.
Booleans may be missing too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.queries.expression.values import (
    FIRST_MICROS,
    LARGEST,
    LAST_MICROS,
    LONGEST_TEXT,
    READ,
    SMALLEST,
    is_nothing,
    text_of_number,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.expression.tree import Kind

__all__ = ["EncodedColumn", "converted", "encode", "encode_words", "kind_by_type", "kind_of", "tamed"]

_KINDS: dict[str, Kind] = {"b": "boolean", "i": "number", "u": "number", "f": "number", "M": "date", "U": "text"}


@dataclass(frozen=True, slots=True, eq=False)
class EncodedColumn:
    """A canonical column.

    Attributes:
        kind: number, boolean, text or date.
        values: floats, booleans, or codes into `words`.
        words: the sorted dictionary of a text column.
        present: for booleans, which rows have a value; None if all do.
    """

    kind: Kind
    values: NDArray[Any]
    words: tuple[str, ...] = ()
    present: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: NDArray[Any]) -> EncodedColumn:
        """The column restricted to the rows in `index`."""
        present = None if self.present is None else self.present[index]
        return EncodedColumn(self.kind, self.values[index], self.words, present)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """The rows without a value."""
        missing: NDArray[np.bool_]
        if self.kind == "text":
            missing = self.values < 0
        elif self.kind == "boolean":
            missing = np.zeros(len(self.values), np.bool_) if self.present is None else ~self.present
        else:
            missing = np.isnan(self.values)
        return missing

    def decode(self) -> NDArray[Any]:
        """The column as callables see it: floats, datetime64, booleans or texts; missing values as NaN, NaT or None."""
        if self.kind == "text":
            words: NDArray[Any] = np.array([*self.words, None], dtype=object)
            return np.asarray(words[self.values])
        if self.kind == "date":
            micros = np.where(np.isnan(self.values), 0.0, self.values).astype(np.int64).astype("datetime64[us]")
            return np.where(np.isnan(self.values), np.datetime64("NaT", "us"), micros)
        if self.kind == "boolean" and self.present is not None:
            truths: NDArray[Any] = self.values.astype(object)
            truths[~self.present] = None
            return truths
        return self.values


def kind_by_type(column: NDArray[Any]) -> Kind | None:
    """The kind of a raw column by its type alone; None if that depends on its values.

    >>> kind_by_type(np.array([1, 2])), kind_by_type(np.array([1, None]))
    ('number', None)
    """
    return _KINDS.get(column.dtype.kind) if column.ndim == 1 else None


def kind_of(column: NDArray[Any]) -> Kind | None:
    """The kind of a raw column; None for matrices and for types that expressions do not support.

    >>> kind_of(np.array([1, 2])), kind_of(np.array(["a", None], dtype=object)), kind_of(np.zeros((2, 2)))
    ('number', 'text', None)
    """
    if column.ndim != 1:
        return None
    if column.dtype.kind != "O":
        return _KINDS.get(column.dtype.kind)
    types = {type(value) for value in column.tolist()} - {type(None), float}
    # pandas' missing values say nothing about the kind
    types = {value_type for value_type in types if value_type.__name__ not in ("NAType", "NaTType")}
    if not types and not all(is_nothing(value) for value in column.tolist()):
        return "number"
    if types and all(issubclass(value_type, list | dict | tuple | set | np.ndarray) for value_type in types):
        numbers = any(isinstance(value, float) and value == value for value in column.tolist())
        return "number" if numbers else None
    if types and types <= {bool, np.bool_}:
        return "boolean"
    if types and all(issubclass(value_type, int | Decimal | np.number) and value_type is not bool for value_type in types):
        return "number"
    if types and all(issubclass(value_type, date | np.datetime64) for value_type in types):
        return "date"
    return "text"


def encode(column: NDArray[Any], kind: Kind | None = None) -> EncodedColumn:
    """The canonical form of a raw column, as the given kind or its own. Values that cannot be read as it are missing.

    >>> encode(np.array([50, "unknown", "7"], dtype=object), "number").values.tolist()
    [50.0, nan, 7.0]
    """
    kind = kind or kind_of(column)
    if kind is None or column.ndim != 1:
        return EncodedColumn("number", np.full(len(column), np.nan))
    if column.dtype.kind == "O":
        return _encoded([READ[kind](item) for item in column.tolist()], kind)
    own = kind_of(column)
    if own == "boolean":
        plain = EncodedColumn(own, column)
    elif own == "number":
        plain = EncodedColumn(own, tamed(column.astype(np.float64)))
    elif own == "date":
        moments = column.astype("datetime64[us]")
        whole = moments.astype(np.int64)
        micros = np.minimum(whole.astype(np.float64), LAST_MICROS)
        micros[np.isnat(moments) | (whole < int(FIRST_MICROS)) | (whole >= 253_402_300_800_000_000)] = np.nan
        plain = EncodedColumn(own, micros)
    elif own == "text" and kind != "text":
        words, codes = np.unique(column, return_inverse=True)
        return _encoded([READ[kind](word) for word in words.tolist()], kind).take(codes)
    elif own == "text":
        words, codes = np.unique(column, return_inverse=True)
        plain = encode_words(words.tolist(), codes)
    else:
        return _encoded([READ[kind](item) for item in column.tolist()], kind)
    return plain if own == kind else converted(plain, kind)


def converted(column: EncodedColumn, kind: Kind) -> EncodedColumn:
    """A canonical column converted to another kind, value by value; values that do not fit are missing."""
    if column.kind == kind:
        return column
    if column.kind == "text":
        read = _encoded([READ[kind](word) for word in column.words] + [None], kind)
        return read.take(column.values)
    if column.kind == "number" and kind == "boolean":
        return EncodedColumn("boolean", column.values == 1.0, (), (column.values == 1.0) | (column.values == 0.0))
    if column.kind == "boolean" and kind == "number":
        return EncodedColumn("number", np.where(column.missing, np.nan, column.values.astype(np.float64)))
    if kind == "text" and column.kind == "number":
        values, codes = np.unique(column.values, return_inverse=True, equal_nan=True)
        words = [text_of_number(value) for value in values[~np.isnan(values)].tolist()]
        return encode_words(words, np.where(np.isnan(column.values), -1, codes))
    if kind == "text":
        return _encoded([READ["text"](item) for item in column.decode().tolist()], "text")
    return _encoded([None] * len(column), kind)  # a date cannot be a number or a boolean


def _encoded(items: list[Any], kind: Kind) -> EncodedColumn:
    """The canonical column of values that were converted one by one."""
    if kind == "boolean":
        present = np.array([item is not None for item in items], dtype=np.bool_)
        values = np.array([item is True for item in items], dtype=np.bool_)
        return EncodedColumn(kind, values, (), None if present.all() else present)
    if kind == "text":
        final = sorted({item for item in items if item is not None})
        rank: dict[str | None, int] = {word: index for index, word in enumerate(final)}
        rank[None] = -1
        return EncodedColumn(kind, np.fromiter((rank[item] for item in items), np.int32, len(items)), tuple(final))
    return EncodedColumn(kind, np.array([np.nan if item is None else item for item in items], dtype=np.float64))


def encode_words(words: list[str], codes: NDArray[Any]) -> EncodedColumn:
    """A text column from a dictionary and codes (-1: missing); its words become sorted, cut to size and unique.

    >>> encode_words(["b", "a"], np.array([0, 1, -1])).values.tolist()
    [1, 0, -1]
    """
    cut = [word[:LONGEST_TEXT] for word in words]
    final = sorted(set(cut))
    if cut == final:
        return EncodedColumn("text", codes.astype(np.int32), tuple(final))
    rank = {word: index for index, word in enumerate(final)}
    positions = np.array([*(rank[word] for word in cut), -1], dtype=np.int32)
    return EncodedColumn("text", positions[codes], tuple(final))


def tamed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make numbers canonical, in place: clamp them to ±LARGEST and set those below SMALLEST in size to 0."""
    np.clip(values, -LARGEST, LARGEST, out=values)
    values[np.abs(values) < SMALLEST] = 0.0
    return values
