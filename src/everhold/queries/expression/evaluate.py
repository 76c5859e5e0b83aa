"""A typed tree on rows, with numpy: total, so it neither raises nor warns, whatever the rows.

Missing numbers are NaN, missing texts have code -1. A yes/no node is never evaluated to three values; it is asked for the
rows on which it is *true*, or for those on which it is *false*, and a row with something missing is in neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.queries.expression.tree import Call, Case, Column, Kind, Logic, Node, Number, Test, Text, Truth

__all__ = ["Encoded", "encode", "kind_of", "yes"]

_CHUNK = 32_768
_LARGEST, _SMALLEST = 1e15, 1e-30
_KINDS: dict[str, Kind] = {"b": "boolean", "i": "number", "u": "number", "f": "number", "M": "date"}

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A column as expressions see it: floats with NaN, booleans, or codes into a dictionary of texts (-1 is missing)."""

    kind: Kind
    values: NDArray[Any]
    words: tuple[str, ...] = ()

    def part(self, start: int, stop: int) -> Encoded:
        """Some of its rows."""
        return Encoded(self.kind, self.values[start:stop], self.words)


def kind_of(column: NDArray[Any]) -> Kind | None:
    """The kind of a raw column; None for matrices and types that expressions do not know."""
    if column.ndim != 1:
        return None
    return "text" if column.dtype.kind in "UO" else _KINDS.get(column.dtype.kind)


def encode(column: NDArray[Any]) -> Encoded:
    """A raw column, canonical: clamped to ±1e15, tiny numbers 0, dates as microseconds, texts as sorted codes."""
    kind = kind_of(column)
    if kind == "boolean":
        return Encoded(kind, column)
    if kind == "number":
        values = np.clip(column.astype(np.float64), -_LARGEST, _LARGEST)
        values[np.abs(values) < _SMALLEST] = 0.0
        return Encoded(kind, values)
    if kind == "date":
        moments = column.astype("datetime64[us]")
        micros = moments.astype(np.int64).astype(np.float64)
        micros[np.isnat(moments)] = np.nan
        return Encoded(kind, micros)
    if kind == "text":
        known = np.array([isinstance(value, str) for value in column.tolist()], dtype=bool)
        codes = np.full(len(column), -1, dtype=np.int32)
        words, inverse = np.unique(column[known].astype(str), return_inverse=True)
        codes[known] = inverse
        return Encoded(kind, codes, tuple(words.tolist()))
    return Encoded("number", np.full(len(column), np.nan))


def yes(tree: Node, rows: Mapping[str, NDArray[Any]], size: int) -> Bools:
    """The rows on which a yes/no tree is true."""
    cache: dict[str, Encoded] | None = getattr(rows, "encoded", None)
    columns: dict[str, Encoded] = {}
    for name in _columns(tree):
        if cache is not None:
            if name not in cache:
                cache[name] = encode(rows[name])
            columns[name] = cache[name]
        else:
            columns[name] = encode(rows[name])
    result = np.empty(size, dtype=np.bool_)
    with np.errstate(all="ignore"):
        for start in range(0, size, _CHUNK):
            stop = min(start + _CHUNK, size)
            part = {name: column.part(start, stop) for name, column in columns.items()}
            result[start:stop] = _Rows(part, stop - start).truth(tree, True)
    return result


def _columns(node: Node) -> set[str]:
    if isinstance(node, Column):
        return {node.name}
    if isinstance(node, Case):
        parts = [part for branch in node.branches for part in branch] + [node.otherwise]
    elif isinstance(node, Call | Test | Logic):
        parts = list(node.args)
    else:
        return set()
    return set().union(*(_columns(part) for part in parts)) if parts else set()


class _Rows:
    """One chunk of rows."""

    def __init__(self, columns: dict[str, Encoded], size: int) -> None:
        self._columns = columns
        self._size = size

    def _all(self, value: bool) -> Bools:
        return np.full(self._size, value, dtype=np.bool_)

    # yes/no ------------------------------------------------------------------------------------------------------

    def truth(self, node: Node, want: bool) -> Bools:
        """The rows on which the node is certainly `want`."""
        if isinstance(node, Truth):
            return self._all(node.value == want)
        if isinstance(node, Column):
            values: Bools = self._columns[node.name].values
            return values if want else ~values
        if isinstance(node, Logic):
            if node.op == "not":
                return self.truth(node.args[0], not want)
            join = np.logical_and if (node.op == "and") == want else np.logical_or
            result = self.truth(node.args[0], want).copy()
            for part in node.args[1:]:
                join(result, self.truth(part, want), out=result)
            return result
        if isinstance(node, Case):
            open_rows, result = self._all(True), self._all(False)
            for condition, value in node.branches:
                here = open_rows & self.truth(condition, True)
                result |= here & self.truth(value, want)
                open_rows &= ~here
            return result | (open_rows & self.truth(node.otherwise, want))
        if isinstance(node, Test):
            return self._test(node, want)
        return self._all(False)  # a missing value is neither

    def _test(self, node: Test, want: bool) -> Bools:
        first = node.args[0]
        if node.op == "null":
            missing = self._missing(first)
            return missing if want else ~missing
        if first.kind == "boolean":
            return self._same_truth(node, want)
        if first.kind == "text":
            return self._text_test(node, want)
        left = self.number(first)
        if node.op == "in":
            found: Bools = np.isin(left, np.array([_constant(item) for item in node.args[1:]]))
            return self._wide(found if want else ~(found | np.isnan(left)))
        return self._wide(_compare(node.op, left, self.number(node.args[1]), want))

    def _same_truth(self, node: Test, want: bool) -> Bools:
        result = self._all(False)
        for item in node.args[1:]:
            for value in (True, False):
                result |= self.truth(node.args[0], value) & self.truth(item, value if want else not value)
        if node.op == "in" and not want:
            result = ~self._missing(node.args[0])
            for item in node.args[1:]:
                result &= ~(self.truth(node.args[0], True) & self.truth(item, True))
                result &= ~(self.truth(node.args[0], False) & self.truth(item, False))
        return result

    def _text_test(self, node: Test, want: bool) -> Bools:
        words, codes = self.text(node.args[0])
        if node.op == "like":
            pattern = str(getattr(node.args[1], "value", ""))
            return _look_up([_like(word, pattern) == want for word in words], codes)
        others = node.args[1:]
        if node.op == "in" or isinstance(others[0], Text):
            wanted = {str(getattr(item, "value", "")) for item in others}
            if node.op in ("in", "="):
                return _look_up([(word in wanted) == want for word in words], codes)
            other = next(iter(wanted))
            less = [(word < other or (node.op == "<=" and word == other)) == want for word in words]
            return _look_up(less, codes)
        other_words, other_codes = self.text(others[0])
        union = {word: rank for rank, word in enumerate(sorted(set(words) | set(other_words)))}
        left = np.append(np.array([union[word] for word in words], dtype=np.float64), np.nan)[codes]
        right = np.append(np.array([union[word] for word in other_words], dtype=np.float64), np.nan)[other_codes]
        return _compare(node.op, left, right, want)

    def _missing(self, node: Node) -> Bools:
        if node.kind == "boolean":
            return ~(self.truth(node, True) | self.truth(node, False))
        if node.kind == "text":
            return self.text(node)[1] < 0
        return self._wide(np.isnan(self.number(node)))

    def _wide(self, found: Bools) -> Bools:
        """A truth for every row, where both sides were constants too."""
        return found if found.ndim else self._all(bool(found))

    # numbers and dates -------------------------------------------------------------------------------------------

    def number(self, node: Node) -> Floats:
        """The node's numbers, NaN where there is none."""
        if isinstance(node, Number):
            return np.array(node.value)  # one number for all rows
        if isinstance(node, Column):
            column: Floats = self._columns[node.name].values
            return column
        if isinstance(node, Case):
            open_rows, result = self._all(True), np.full(self._size, np.nan)
            for condition, value in node.branches:
                here = open_rows & self.truth(condition, True)
                np.copyto(result, self.number(value), where=here)
                open_rows &= ~here
            np.copyto(result, self.number(node.otherwise), where=open_rows)
            return result
        if isinstance(node, Call):
            return self._call(node)
        return np.full(self._size, np.nan)

    def _call(self, node: Call) -> Floats:
        if node.name == "length":
            words, codes = self.text(node.args[0])
            return np.append(np.array([float(len(word)) for word in words]), np.nan)[codes]
        args = [self.number(arg) for arg in node.args]
        if node.args[0].kind == "date":
            return _date_part(node.name, args[0])
        result: Floats = np.asarray(_NUMERIC[node.name](*args))
        if node.name in _EXACT:
            return result
        # What is too small to tell from nothing is nothing. Nothing overflows: the parser has bounded every result.
        return np.where(np.abs(result) < _SMALLEST, 0.0, result)

    # text --------------------------------------------------------------------------------------------------------

    def text(self, node: Node) -> tuple[list[str], NDArray[np.int32]]:
        """The node's texts as a dictionary and codes into it, -1 where there is none."""
        if isinstance(node, Text):
            return [node.value], np.zeros(self._size, dtype=np.int32)
        if isinstance(node, Column):
            column = self._columns[node.name]
            return list(column.words), column.values
        if isinstance(node, Call):
            words, codes = self.text(node.args[0])
            return [word.lower() if node.name == "lower" else word.upper() for word in words], codes
        return [], np.full(self._size, -1, dtype=np.int32)


def _compare(op: str, left: Floats, right: Floats, want: bool) -> Bools:
    """A comparison's true or its false rows; NaN is in neither."""
    result: Bools
    if op == "<":
        result = left < right if want else left >= right
    elif op == "<=":
        result = left <= right if want else left > right
    elif want:
        result = left == right
    else:
        result = ~((left == right) | np.isnan(left) | np.isnan(right))
    return result


def _constant(item: Node) -> float:
    return item.value if isinstance(item, Number) else float("nan")


def _look_up(table: list[bool], codes: NDArray[np.int32]) -> Bools:
    """table[code], False for a missing text."""
    found: Bools = np.append(np.array(table, dtype=np.bool_), False)[codes]
    return found


def _like(word: str, pattern: str) -> bool:
    body = pattern.strip("%")
    if pattern.startswith("%") and pattern.endswith("%"):
        return body in word
    if pattern.endswith("%"):
        return word.startswith(body)
    return word.endswith(body) if pattern.startswith("%") else word == body


def _date_part(name: str, micros: Floats) -> Floats:
    known = np.isfinite(micros)
    moments = np.where(known, micros, 0.0).astype(np.int64).astype("datetime64[us]")
    days = moments.astype("datetime64[D]")
    if name == "year":
        part = days.astype("datetime64[Y]").astype(np.int64) + 1970.0
    elif name == "month":
        part = days.astype("datetime64[M]").astype(np.int64) % 12 + 1.0
    elif name == "day":
        part = (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) + 1.0
    elif name == "weekday":
        part = (days.astype(np.int64) + 3) % 7 + 0.0
    else:
        part = np.floor((moments - days.astype("datetime64[us]")).astype(np.int64) / 3_600_000_000.0)
    return np.where(known, part, np.nan)


_EXACT = frozenset(["neg", "abs", "floor", "ceil", "round", "least", "greatest", "coalesce"])
"""Functions whose results are as large as their operands, or whole numbers: never tiny."""


def _first_known(*args: Floats) -> Floats:
    result = args[0]
    for other in args[1:]:
        result = np.where(np.isnan(result), other, result)
    return result


_NUMERIC: dict[str, Any] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda x, y: x / np.where(y == 0.0, np.nan, y),
    "%": lambda x, y: np.fmod(x, np.where(y == 0.0, np.nan, y)),
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "ln": lambda x: np.log(np.where(x > 0.0, x, np.nan)),
    "exp": lambda x: np.exp(np.where(x > 690.0, np.nan, x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "least": lambda *xs: reduce(np.minimum, xs),
    "greatest": lambda *xs: reduce(np.maximum, xs),
    "coalesce": _first_known,
}
