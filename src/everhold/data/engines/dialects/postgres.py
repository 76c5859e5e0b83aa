"""PostgreSQL's SQL.

What differs from plain SQL: `1e0` is a decimal number; texts are ordered by the database's collation; text cannot hold the
character NUL; a division by zero, a cast out of range and a subtraction of infinite dates raise, and the message shows the
row; subqueries are merged, so that the text of what is needed twice would double at every level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from everhold.data.engines.dialect import Dialect
from everhold.queries.expression.values import LARGEST, LAST_MICROS

if TYPE_CHECKING:
    from everhold.queries.expression.tree import Kind

__all__ = ["POSTGRES", "PostgresDialect"]

_WHOLE = ("int2", "int4", "int8")
_FLOATS = ("float4", "float8")
_TEXTS = ("text", "varchar", "bpchar", "enum", "uuid", "name", "citext")
_DATES = ("date", "timestamp", "timestamptz")
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_NUL = "\x00"


class PostgresDialect(Dialect):
    """How PostgreSQL writes it.

    >>> POSTGRES.number(2), POSTGRES.literal("it's")
    ("'2.0'::float8", "'it''s'")
    """

    name = "PostgreSQL"
    types: ClassVar[dict[Kind, str]] = {"number": "float8", "date": "float8", "boolean": "boolean", "text": "text"}
    whole = "bigint"
    fence = " OFFSET 0"
    most_columns = 1_600  # of 1,664

    def number(self, value: float) -> str:
        return f"'{float(value)!r}'::float8"

    # columns ---------------------------------------------------------------------------------------------------------

    def kind_of(self, found: str) -> Kind | None:
        if found == "bool":
            return "boolean"
        if found in (*_WHOLE, *_FLOATS, "numeric"):
            return "number"
        if found in _DATES:
            return "date"
        return "text" if found in _TEXTS else None

    def is_float(self, found: str) -> bool:
        return found in _FLOATS

    def unit(self, name: str, found: str) -> str:
        column = self.identifier(name)
        if found in _FLOATS or found == "numeric":
            return f"nullif({column}, 'NaN')"
        return self._text(column) if found in _TEXTS else column

    def canonical(self, name: str, found: str, kind: Kind, what: str) -> str:
        column = self.identifier(name)
        if kind == "text" and found in _TEXTS:
            return self._text(column)
        if kind == "boolean" and found == "bool":
            return column
        if kind == "boolean" and self.kind_of(found) == "number":
            return f"(CASE WHEN {column} = 1 THEN TRUE WHEN {column} = 0 THEN FALSE END)"
        if kind == "date" and found in _DATES:
            return self._micros(column, found)
        if kind == "number" and (found == "bool" or self.kind_of(found) == "number"):
            return self._double(column, found)
        raise self.unreadable(name, found, kind, what)

    @staticmethod
    def _text(column: str) -> str:
        return f'({column}::text COLLATE "C")'

    def _double(self, column: str, found: str) -> str:
        """A canonical number. Whole and decimal numbers are compared as such first: a cast out of range would raise."""
        large = f"{LARGEST:.0f}"
        if found == "bool":
            return f"{column}::int::float8"
        if found in ("int2", "int4"):
            return f"{column}::float8"
        ends = f"CASE WHEN {column} > 0 THEN {self.number(LARGEST)} WHEN {column} < 0 THEN {self.number(-LARGEST)} END"
        if found == "int8":
            return f"(CASE WHEN {column} BETWEEN -{large} AND {large} THEN {column}::float8 ELSE {ends} END)"
        if found == "numeric":
            return (
                f"(CASE WHEN {column} = 'NaN' THEN NULL WHEN abs({column}) > {large}0 THEN {ends} "
                f"WHEN abs({column}) < 1e-31 THEN {self.number(0)} ELSE {self.clamped(f'{column}::float8')} END)"
            )
        return self.clamped(column if found == "float8" else f"{column}::float8")

    def _micros(self, column: str, found: str) -> str:
        """Microseconds since 1970, from whole days and the time of day: exact, and years that have no date are missing."""
        if found == "date":
            days = f"({column} - DATE '1970-01-01')::bigint * {_DAY}"
            return f"(CASE WHEN {column} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN ({days})::float8 END)"
        moment = column if found == "timestamp" else f"({column} AT TIME ZONE 'UTC')"
        first, last = "TIMESTAMP '0001-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"
        days = f"({moment}::date - DATE '1970-01-01')::bigint * {_DAY}"
        time = f"round(date_part('epoch', {moment}::time) * '1000000'::float8)::bigint"
        micros = f"least(({days} + {time})::float8, {self.number(LAST_MICROS)})"
        return f"(CASE WHEN {moment} BETWEEN {first} AND {last} THEN {micros} END)"

    # operations ------------------------------------------------------------------------------------------------------

    def is_nan(self, x: str) -> str:
        return f"({x} = 'NaN')"

    def rint(self, x: str) -> str:
        return f"round({x})"

    def item(self, values: Sequence[float], place: str) -> str:
        return f"('{{{','.join(repr(one) for one in values)}}}'::float8[])[({place})::int + 1]"

    def single(self, x: str) -> str:
        return f"({x})::float4::float8"

    def date_part(self, part: str, micros: str, once: Callable[[str], str]) -> str:
        """By whole numbers: `to_timestamp` and intervals are inexact, and raise at the end of the year 9999."""
        whole = once(f"({micros})::bigint")
        within = f"((({whole} % {_DAY}) + {_DAY}) % {_DAY})"
        if part == "hour":
            return f"({within} / {_HOUR})::float8"
        day = f"(({whole} - {within}) / {_DAY})::int"
        if part == "weekday":
            return f"(((({day} + 3) % 7) + 7) % 7)::float8"
        return f"date_part('{part}', DATE '1970-01-01' + {day})"

    def stored_part(self, part: str, column: str, found: str, canonical: str) -> str | None:
        """From the timestamp itself, in the years in which every microsecond is a double."""
        if found not in ("timestamp", "timestamptz"):
            return None
        moment = column if found == "timestamp" else f"({column} AT TIME ZONE 'UTC')"
        quick = f"date_part('isodow', {moment}) - 1" if part == "weekday" else f"date_part('{part}', {moment})"
        inside = f"{moment} BETWEEN TIMESTAMP '1690-01-01' AND TIMESTAMP '2250-01-01'"
        return f"(CASE WHEN {inside} THEN {quick} ELSE {self.date_part(part, canonical, lambda sql: sql)} END)"

    # texts: none of PostgreSQL's holds NUL ---------------------------------------------------------------------------

    def compare_word(self, x: str, op: str, word: str) -> str:
        if _NUL not in word:
            return super().compare_word(x, op, word)
        if op == "=":
            return self._never(x)
        return super().compare_word(x, "<=" if op in ("<", "<=") else ">", word.partition(_NUL)[0])

    def member(self, x: str, words: Sequence[str]) -> str:
        possible = [word for word in words if _NUL not in word]
        return super().member(x, possible) if possible else self._never(x)

    def contains(self, x: str, body: str) -> str:
        return self._never(x) if _NUL in body else f"(strpos({x}, {self.literal(body)}) > 0)"

    def starts(self, x: str, body: str) -> str:
        return self._never(x) if _NUL in body else super().starts(x, body)

    def ends(self, x: str, body: str) -> str:
        return self._never(x) if _NUL in body else f"(right({x}, {len(body)}) = {self.literal(body)})"

    @staticmethod
    def _never(x: str) -> str:
        """FALSE where there is a text, NULL where it is missing."""
        return f"(CASE WHEN {x} IS NOT NULL THEN FALSE END)"


POSTGRES = PostgresDialect()
