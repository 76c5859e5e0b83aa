"""Evaluate typed trees on rows with numpy. Evaluation never raises and never warns, whatever the rows contain.

A question is first compiled for the columns of one table: text operations become look-ups into the dictionary, once, and
the rest are numpy calls on chunks of rows. A yes/no node is never evaluated to three values. It returns the rows on which
it is *true*, or those on which it is *false*; a row with a missing value is in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.queries.expression import elementary
from everhold.queries.expression.case import lower_case, upper_case
from everhold.queries.expression.columns import EncodedColumn
from everhold.queries.expression.tree import Call, Case, Column, Logic, Node, Number, Test, Text, Truth
from everhold.queries.expression.values import FIRST_MICROS, SMALLEST

__all__ = ["LEAST_EXPONENT", "MOST_EXPONENT", "Chunk", "Compiler"]

MOST_EXPONENT, LEAST_EXPONENT = 80.0, -87.0
"""exp is missing above this range and 0 below it; within, it is a normal number in single precision."""

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Chunk:
    """Some rows of a table, with the results of shared parts of questions on them."""

    __slots__ = ("memo", "size", "start", "stop")

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self.size = stop - start
        self.memo: dict[int, Any] = {}

    def all(self, value: bool) -> Bools:
        """The same boolean for every row."""
        return np.full(self.size, value, dtype=np.bool_)


Truths = Callable[[Chunk], Bools]
Numbers = Callable[[Chunk], Any]
Codes = Callable[[Chunk], NDArray[np.int32]]


class _Part:
    """A compiled part of a question. It caches its result on a chunk if several other parts need it."""

    __slots__ = ("run", "uses")

    def __init__(self, run: Callable[[Chunk], Any]) -> None:
        self.run, self.uses = run, 0

    def __call__(self, chunk: Chunk) -> Any:
        if self.uses < 2:
            return self.run(chunk)
        key = id(self)
        if key not in chunk.memo:
            chunk.memo[key] = self.run(chunk)
        return chunk.memo[key]


class Compiler:
    """Compiles trees for the columns of one table.

    Every part is compiled once, and computed once per chunk if several others need it. Otherwise a part whose true and
    false rows are both needed would double the work of everything below it.

    Args:
        columns: the canonical columns, looked up by name when first used.
        share: treat equal parts of different questions as one. Pays off in batches only.
    """

    def __init__(self, columns: Mapping[str, EncodedColumn], *, share: bool = False) -> None:
        self._columns = columns
        self._share = share
        self._parts: dict[object, _Part] = {}

    def _once(self, node: Node, want: bool | None, make: Callable[[], Callable[[Chunk], Any]]) -> Callable[[Chunk], Any]:
        """The part for a node, compiled at its first use. Nodes live as long as their question, so identity is enough."""
        key = (node if self._share else id(node), want)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = _Part(make())
        part.uses += 1
        return part

    # yes/no ------------------------------------------------------------------------------------------------------

    def truth(self, node: Node, want: bool = True) -> Truths:
        """The rows on which the node is known to be `want`."""
        return self._once(node, want, lambda: self._truth(node, want))

    def _truth(self, node: Node, want: bool) -> Truths:
        if isinstance(node, Test):
            return self._test(node, want)
        if isinstance(node, Logic):
            if node.op == "not":
                return self.truth(node.args[0], not want)
            join = np.logical_and if (node.op == "and") == want else np.logical_or
            return _joined(join, [self.truth(part, want) for part in node.args])
        if isinstance(node, Column):
            return self._boolean(node.name, want)
        if isinstance(node, Truth):
            value = node.value == want
            return lambda chunk: chunk.all(value)
        if isinstance(node, Case):
            return self._choice(node, want)
        return lambda chunk: chunk.all(False)  # a missing value is neither true nor false

    def _boolean(self, name: str, want: bool) -> Truths:
        column = self._columns[name]
        values, present = column.values, column.present
        if present is not None:
            values = values & present if want else ~values & present
        elif not want:
            return lambda chunk: ~values[chunk.start : chunk.stop]
        return lambda chunk: values[chunk.start : chunk.stop]

    def _choice(self, node: Case, want: bool) -> Truths:
        branches = [(self.truth(condition), self.truth(value, want)) for condition, value in node.branches]
        otherwise = self.truth(node.otherwise, want)

        def chosen(chunk: Chunk) -> Bools:
            open_rows, result = chunk.all(True), chunk.all(False)
            for condition, value in branches:
                here = open_rows & condition(chunk)
                result |= here & value(chunk)
                open_rows &= ~here
            return result | (open_rows & otherwise(chunk))

        return chosen

    def _test(self, node: Test, want: bool) -> Truths:
        first = node.args[0]
        if node.op == "null":
            missing = self.missing(first)
            return missing if want else lambda chunk: ~missing(chunk)
        if first.kind == "boolean":
            return self._same_truth(node, want)
        if first.kind == "text":
            return self._text_test(node, want)
        left = self.number(first)
        if node.op == "in":
            items = [np.float64(item.value) for item in node.args[1:] if isinstance(item, Number)]

            def member(chunk: Chunk) -> Bools:
                # Item by item: the time of sorting or searching would depend on the rows.
                x = left(chunk)
                equal = reduce(np.logical_or, [x == item for item in items])
                return _wide(equal if want else ~(equal | np.isnan(x)), chunk)

            return member
        right = self.number(node.args[1])
        compare = _COMPARE[node.op, want]
        return lambda chunk: _wide(compare(left(chunk), right(chunk)), chunk)

    def _same_truth(self, node: Test, want: bool) -> Truths:
        first = node.args[0]
        items = [(self.truth(item), self.truth(item, False)) for item in node.args[1:]]
        yes, no = self.truth(first), self.truth(first, False)
        if want:
            return lambda chunk: reduce(
                np.logical_or, [(yes(chunk) & true(chunk)) | (no(chunk) & false(chunk)) for true, false in items]
            )
        # Different from every item, and no value is missing.
        return lambda chunk: reduce(
            np.logical_and, [(yes(chunk) & false(chunk)) | (no(chunk) & true(chunk)) for true, false in items]
        )

    def _text_test(self, node: Test, want: bool) -> Truths:
        words, codes = self.text(node.args[0])
        others = node.args[1:]
        if node.op == "like" or node.op == "in" or isinstance(others[0], Text):
            test = _word_test(node.op, [str(getattr(item, "value", "")) for item in others])
            table = np.array([False, *(test(word) == want for word in words)], dtype=np.bool_)
            return lambda chunk: _looked_up(table, codes(chunk))
        other_words, other_codes = self.text(others[0])
        ranks = {word: float(rank) for rank, word in enumerate(sorted({*words, *other_words}))}
        left = np.array([np.nan, *(ranks[word] for word in words)])
        right = np.array([np.nan, *(ranks[word] for word in other_words)])
        compare = _COMPARE[node.op, want]
        return lambda chunk: compare(_looked_up(left, codes(chunk)), _looked_up(right, other_codes(chunk)))

    def missing(self, node: Node) -> Truths:
        """The rows on which the node has no value."""
        if node.kind == "boolean":
            yes, no = self.truth(node), self.truth(node, False)
            return lambda chunk: ~(yes(chunk) | no(chunk))
        if node.kind == "text":
            _, codes = self.text(node)
            return lambda chunk: codes(chunk) < 0
        number = self.number(node)
        return lambda chunk: _wide(np.isnan(number(chunk)), chunk)

    # numbers and dates -------------------------------------------------------------------------------------------

    def number(self, node: Node) -> Numbers:
        """The node's numbers, NaN if missing; a single number if it is the same for all rows."""
        return self._once(node, None, lambda: self._number(node))

    def _number(self, node: Node) -> Numbers:
        if isinstance(node, Number):
            value = np.float64(node.value)
            return lambda _: value
        if isinstance(node, Column):
            column = self._columns[node.name].values
            return lambda chunk: column[chunk.start : chunk.stop]
        if isinstance(node, Case):
            branches = [(self.truth(condition), self.number(value)) for condition, value in node.branches]
            otherwise = self.number(node.otherwise)

            def chosen(chunk: Chunk) -> Floats:
                open_rows, result = chunk.all(True), np.full(chunk.size, np.nan)
                for condition, value in branches:
                    here = open_rows & condition(chunk)
                    np.fmax(result, _only(value(chunk), here), out=result)  # one of the two is missing
                    open_rows &= ~here
                np.fmax(result, _only(otherwise(chunk), open_rows), out=result)
                return result

            return chosen
        if isinstance(node, Call):
            return self._call(node)
        return lambda _: np.float64(np.nan)

    def _call(self, node: Call) -> Numbers:
        first = node.args[0]
        if node.name == "length":
            words, codes = self.text(first)
            lengths = np.array([np.nan, *(float(len(word)) for word in words)])
            return lambda chunk: _looked_up(lengths, codes(chunk))
        args = [self.number(arg) for arg in node.args]
        if first.kind == "date":
            part = _DATE_PARTS[node.name]
            return lambda chunk: _date_part(part, args[0](chunk))
        function = _NUMERIC[node.name]
        if node.name == "/" and isinstance(divisor := node.args[1], Number) and abs(divisor.value) >= SMALLEST:
            function = np.divide
        if len(args) == 1:
            return lambda chunk: function(args[0](chunk))
        if len(args) == 2:
            left, right = args
            return lambda chunk: function(left(chunk), right(chunk))
        return lambda chunk: function(*(arg(chunk) for arg in args))

    # text --------------------------------------------------------------------------------------------------------

    def text(self, node: Node) -> tuple[list[str], Codes]:
        """The node's texts as a dictionary, and codes into it, -1 if missing."""
        if isinstance(node, Text):
            return [node.value], lambda chunk: np.zeros(chunk.size, dtype=np.int32)
        if isinstance(node, Column):
            column = self._columns[node.name]
            return list(column.words), lambda chunk: column.values[chunk.start : chunk.stop]
        if isinstance(node, Call):
            words, codes = self.text(node.args[0])
            change = lower_case if node.name == "lower" else upper_case
            return [change(word) for word in words], codes
        return [], lambda chunk: np.full(chunk.size, -1, dtype=np.int32)


def _joined(join: Callable[..., Bools], parts: list[Truths]) -> Truths:
    first, second, *rest = parts

    def joined(chunk: Chunk) -> Bools:
        result = join(first(chunk), second(chunk))
        for part in rest:
            join(result, part(chunk), out=result)
        return result

    return joined


def _wide(truths: Any, chunk: Chunk) -> Bools:
    """A boolean for every row, also if both sides are constants."""
    result: Bools = truths if truths.ndim else chunk.all(bool(truths))
    return result


# The true and the false rows of a comparison; NaN is in neither.
_COMPARE: dict[tuple[str, bool], Callable[[Any, Any], Any]] = {
    ("<", True): np.less,
    ("<", False): np.greater_equal,
    ("<=", True): np.less_equal,
    ("<=", False): np.greater,
    ("=", True): np.equal,
    ("=", False): lambda x, y: (x < y) | (x > y),
}


def _word_test(op: str, literals: list[str]) -> Callable[[str], bool]:
    """A test of one word against literals."""
    if op in ("in", "="):
        words = set(literals)
        return lambda word: word in words
    literal = literals[0]
    if op == "<":
        return lambda word: word < literal
    if op == "<=":
        return lambda word: word <= literal
    body = literal.strip("%")
    if literal.startswith("%") and literal.endswith("%"):
        return lambda word: body in word
    if literal.endswith("%"):
        return lambda word: word.startswith(body)
    return (lambda word: word.endswith(body)) if literal.startswith("%") else (lambda word: word == body)


# The time of an operation must not depend on the rows: no branch on a value, no masked copy, no numpy calendar functions.


def _looked_up(table: NDArray[Any], codes: NDArray[Any]) -> Any:
    """The table's entry for each code; entry 0 is for missing ones. Negative codes would take longer, so all move by 1."""
    return np.take(table, codes + 1, mode="clip")


_DAY, _HOUR = 86_400_000_000, 3_600_000_000


def _date_part(part: Callable[[Any, Any], Any], micros: Any) -> Any:
    whole = np.fmax(micros, FIRST_MICROS).astype(np.int64)  # any valid day in place of a missing one
    days = whole // _DAY
    return part(days.astype(np.float64), whole - days * _DAY) + 0.0 * micros


def _civil(days: Any) -> tuple[Any, Any, Any]:
    """Year, month and day of days since 1970, for the years 1 to 9999 (Hinnant, chrono-compatible date algorithms, 2013)."""
    z = days + 719_468.0
    era = np.floor(z / 146_097.0)
    of_era = z - era * 146_097.0
    year = np.floor(
        (of_era - np.floor(of_era / 1_460.0) + np.floor(of_era / 36_524.0) - np.floor(of_era / 146_096.0)) / 365.0
    )
    of_year = of_era - (365.0 * year + np.floor(year / 4.0) - np.floor(year / 100.0))
    from_march = np.floor((5.0 * of_year + 2.0) / 153.0)
    month = from_march + 3.0 - 12.0 * (from_march >= 10.0)
    return (
        year + era * 400.0 + (month <= 2.0),
        month,
        of_year - np.floor((153.0 * from_march + 2.0) / 5.0) + 1.0,
    )


_DATE_PARTS: dict[str, Callable[[Any, Any], Any]] = {
    "year": lambda days, _: _civil(days)[0],
    "month": lambda days, _: _civil(days)[1],
    "day": lambda days, _: _civil(days)[2],
    "weekday": lambda days, _: (days + 719_162.0) - 7.0 * np.floor((days + 719_162.0) / 7.0),
    "hour": lambda _, rest: np.floor(rest / float(_HOUR)),
}


def _only(x: Any, kept: Any) -> Any:
    """x where `kept`, NaN elsewhere: 0/0 is NaN."""
    ones = np.asarray(kept).astype(np.float64)
    if not ones.ndim:
        return x * (ones / ones)
    np.divide(ones, ones, out=ones)
    return np.multiply(ones, x, out=ones)


def _divisor(y: Any) -> Any:
    """A divisor: anything smaller than SMALLEST counts as 0, and dividing by it gives a missing value."""
    return _only(y, np.abs(y) >= SMALLEST)


def _single(x: Any) -> Any:
    """Round to single precision, which gives the same number on every processor and in every engine."""
    return x.astype(np.float32).astype(np.float64)


def _ln(x: Any) -> Any:
    return _only(_single(elementary.ln(np.fmax(x, SMALLEST))), x >= SMALLEST)


def _exp(x: Any) -> Any:
    inside = np.fmax(np.fmin(x, MOST_EXPONENT), LEAST_EXPONENT)
    return _only(_single(elementary.exp(inside)) * (x >= LEAST_EXPONENT), x <= MOST_EXPONENT)


def _first_known(*args: Any) -> Any:
    result = args[0]
    for arg in args[1:]:
        result = np.fmax(result, _only(arg, np.isnan(result)))
    return result


def _remainder(x: Any, y: Any) -> Any:
    y = _divisor(y)
    return x - y * np.trunc(x / y)


_NUMERIC: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda x, y: x / _divisor(y),
    "%": _remainder,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "ln": _ln,
    "exp": _exp,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "least": lambda *xs: reduce(np.minimum, xs),
    "greatest": lambda *xs: reduce(np.maximum, xs),
    "coalesce": _first_known,
}
