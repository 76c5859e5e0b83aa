"""How one engine spells what the generator (`data.engines.sql`) needs.

The generator decides what a question means; a dialect only says how this engine writes it. The defaults below are plain
SQL. A method that gives another result on a single row of a single table is a fault: `tests/engines` compares every
dialect with numpy, and shows that each of these spellings matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from everhold.errors import DataError
from everhold.queries.expression.case import CAPITAL, SMALL
from everhold.queries.expression.elementary import LOG2E
from everhold.queries.expression.values import LARGEST, SMALLEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.queries.expression.tree import Kind

__all__ = ["Dialect"]


class Dialect:
    """The spelling of one engine.

    Methods take and return SQL. `once` makes an inner column of an expression that is needed more than once.

    Attributes:
        name: of the engine, for messages.
        types: the type of each kind of value.
        whole: the type of whole numbers of 64 bits.
        fence: ends an inner SELECT that the engine must not merge into the outer one.
        most_columns: how many columns a SELECT may have; None: as many as wanted.
        lateral: whether a column of a SELECT may use those before it, by their names. Then inner columns need no SELECTs
            within SELECTs, which take a parser's stack.
    """

    name: ClassVar[str]
    types: ClassVar[dict[Kind, str]]
    whole: ClassVar[str] = "BIGINT"
    fence: ClassVar[str] = ""
    most_columns: ClassVar[int | None] = None
    lateral: ClassVar[bool] = False

    # names and literals ----------------------------------------------------------------------------------------------

    def identifier(self, name: str) -> str:
        """A column name as a quoted identifier."""
        return '"' + name.replace('"', '""') + '"'

    def literal(self, text: str) -> str:
        """A text as a quoted literal; control characters by their code."""
        parts = re.split(r"([\x00-\x1f])", text)
        quoted = [
            f"chr({ord(part)})" if len(part) == 1 and ord(part) < 32 else "'" + part.replace("'", "''") + "'"
            for part in parts
            if part
        ]
        return "(" + " || ".join(quoted) + ")" if len(quoted) > 1 else (quoted[0] if quoted else "''")

    def number(self, value: float) -> str:
        """A number as a literal that is always read as a double."""
        raise NotImplementedError

    # columns ---------------------------------------------------------------------------------------------------------

    def kind_of(self, found: str) -> Kind | None:
        """The kind that a type has in questions; None if they cannot use it."""
        raise NotImplementedError

    def canonical(self, name: str, found: str, kind: Kind, what: str) -> str:
        """The canonical value of a column (queries/expression/columns.py), from its type; NULL if it is missing.

        Raises:
            DataError: this type cannot be read as this kind.
        """
        raise NotImplementedError

    def is_float(self, found: str) -> bool:
        """Whether a type holds binary floating-point numbers, which may be NaN, infinite or tiny."""
        raise NotImplementedError

    def unit(self, name: str, found: str) -> str:
        """What names a row's unit: equal for the rows of a unit, and NULL if the row has none."""
        raise NotImplementedError

    def unreadable(self, name: str, found: str, kind: Kind, what: str) -> DataError:
        """The error for a column of the wrong type."""
        return DataError(f"column {name!r} of {what} is of type {found}, which cannot be read as {kind}.")

    def clamped(self, value: str) -> str:
        """A double as a canonical number: within ±LARGEST, 0 below SMALLEST in size, NULL if it is NaN."""
        number = self.number
        return (
            f"(CASE WHEN abs({value}) BETWEEN {number(SMALLEST)} AND {number(LARGEST)} THEN {value} "
            f"WHEN abs({value}) < {number(SMALLEST)} THEN {number(0)} WHEN {self.is_nan(value)} THEN NULL "
            f"WHEN {value} > {number(0)} THEN {number(LARGEST)} WHEN {value} < {number(0)} THEN {number(-LARGEST)} END)"
        )

    def listed(self, column: str, words: Iterable[str]) -> str:
        """A text column in which every word but these is missing."""
        return f"(CASE WHEN {self.member(column, sorted(words))} THEN {column} END)"

    # numbers ---------------------------------------------------------------------------------------------------------

    def is_nan(self, x: str) -> str:
        """Whether a double is NaN. In every engine here, NaN is larger than all numbers in comparisons."""
        return f"isnan({x})"

    def rint(self, x: str) -> str:
        """The nearest whole number, an even one at ties, as a double."""
        raise NotImplementedError

    def floor(self, x: str, once: Callable[[str], str]) -> str:
        """The largest whole number up to x, as a double, for every double."""
        return f"floor({x})"

    def ceil(self, x: str, once: Callable[[str], str]) -> str:
        """The smallest whole number from x on, as a double, for every double."""
        return f"ceil({x})"

    def trunc(self, x: str, once: Callable[[str], str]) -> str:
        """x without its fraction, as a double, for every double."""
        return f"trunc({x})"

    def divide(self, x: str, y: str) -> str:
        """x / y; the generator sees to it that y is not 0 where the result is used."""
        return f"({x} / {y})"

    def log2(self, x: str) -> str:
        """The logarithm to base 2, which may be off by a little: it is only used to guess an exponent."""
        return f"(ln({x}) * {self.number(LOG2E)})"

    def power_of_two(self, k: str) -> str:
        """2^k for whole k from -1,022 to 1,023, exact: from two lists of powers."""
        high = f"CAST(floor({k} / {self.number(32)}) AS {self.whole})"
        large = self.item([2.0 ** (32 * power) for power in range(-32, 32)], f"{high} + 32")
        return f"({large} * {self.item([2.0**power for power in range(32)], f'CAST({k} AS {self.whole}) - 32 * {high}')})"

    def item(self, values: Sequence[float], place: str) -> str:
        """The item at a whole place, from 0, of a list of constants."""
        raise NotImplementedError

    def single(self, x: str) -> str:
        """A double rounded to single precision."""
        raise NotImplementedError

    # dates -----------------------------------------------------------------------------------------------------------

    def date_part(self, part: str, micros: str, once: Callable[[str], str]) -> str:
        """year, month, day, hour or weekday (Monday is 0) of microseconds since 1970, as a double."""
        raise NotImplementedError

    def stored_part(self, part: str, column: str, found: str, canonical: str) -> str | None:
        """The same of a stored column, where its type gives a shorter way; None where it gives none."""
        return None

    # texts -----------------------------------------------------------------------------------------------------------

    def left(self, x: str, count: int) -> str:
        """The first characters."""
        return f"left({x}, {count})"

    def length(self, x: str) -> str:
        """The number of characters, as a double."""
        return f"CAST(length({x}) AS {self.types['number']})"

    def byte_length(self, x: str) -> str:
        """The number of bytes in UTF-8."""
        return f"octet_length({x})"

    def compare_word(self, x: str, op: str, word: str) -> str:
        """x compared with a constant, by code points; `op` is <, <=, =, >= or >."""
        return f"({x} {op} {self.literal(word)})"

    def member(self, x: str, words: Sequence[str]) -> str:
        """Whether x is one of these texts."""
        return f"({x} IN ({', '.join(self.literal(word) for word in words)}))"

    def contains(self, x: str, body: str) -> str:
        """Whether x contains a text."""
        return f"contains({x}, {self.literal(body)})"

    def starts(self, x: str, body: str) -> str:
        """Whether x begins with a text."""
        return f"starts_with({x}, {self.literal(body)})"

    def ends(self, x: str, body: str) -> str:
        """Whether x ends with a text."""
        raise NotImplementedError

    def change_case(self, name: str, x: str, once: Callable[[str], str]) -> str:
        """lower(x) or upper(x), by the language's own table of letters.

        ASCII texts, with as many bytes as characters, take the faster way to the same result.
        """
        before, after = (CAPITAL, SMALL) if name == "lower" else (SMALL, CAPITAL)
        x = once(x)
        return (
            f"(CASE WHEN {self.byte_length(x)} = length({x}) THEN {name}({x}) "
            f"ELSE translate({x}, {self.literal(before)}, {self.literal(after)}) END)"
        )

    # sums ------------------------------------------------------------------------------------------------------------

    def count_where(self, condition: str) -> str:
        """The number of rows on which a condition is TRUE."""
        return f"count(*) FILTER (WHERE {condition})"

    def sum_whole(self, x: str) -> str:
        """The exact sum of whole numbers of 64 bits; 0 over no rows."""
        return f"coalesce(sum({x}), 0)"

    def sum_of_hashes(self, x: str) -> str:
        """The exact sum of whole numbers anywhere in 64 bits."""
        return self.sum_whole(x)

    def square_parts(self, x: str) -> tuple[tuple[str, int], ...]:
        """The square of a whole number up to 2¹⁶ as parts whose sums cannot overflow, each with its weight."""
        return ((f"{x} * {x}", 1),)
