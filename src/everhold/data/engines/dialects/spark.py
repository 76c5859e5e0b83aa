"""Spark's SQL, the same for classic sessions and Spark Connect, with ANSI mode on or off, in any time zone.

What differs from plain SQL: `${name}` is replaced within literals, by settings and environment variables of the server;
backslashes escape; `floor` gives whole numbers and raises beyond their range; division by zero raises, even where a CASE
excludes it; `round` rounds halves up; date functions use the session's time zone, so none of them is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from everhold.data.engines.dialect import Dialect
from everhold.errors import DataError
from everhold.queries.expression.values import FIRST_MICROS, LARGEST, LAST_MICROS

if TYPE_CHECKING:
    from everhold.queries.expression.tree import Kind

__all__ = ["SPARK", "SparkDialect"]

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")
_TEXTS = ("string", "varchar", "char")
_DATES = ("date", "timestamp", "timestamp_ntz")
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:;")


class SparkDialect(Dialect):
    """How Spark writes it.

    >>> SPARK.number(2), SPARK.literal("${env:HOME}")
    ('2.0D', "'\\\\u0024\\\\u007Benv:HOME\\\\u007D'")
    """

    name = "Spark"
    types: ClassVar[dict[Kind, str]] = {"number": "DOUBLE", "date": "DOUBLE", "boolean": "BOOLEAN", "text": "STRING"}
    lateral = True

    def identifier(self, name: str) -> str:
        if "${" in name:
            raise DataError(f"the name {name!r} contains ${{, which Spark would replace by a setting. Rename the column.")
        return "`" + name.replace("`", "``") + "`"

    def literal(self, text: str) -> str:
        """Every character that Spark could take for more than itself, by its number."""
        return "'" + "".join(one if one in _PLAIN else _escaped(one) for one in text) + "'"

    def number(self, value: float) -> str:
        return f"{float(value)!r}D".replace("e+", "e")

    # columns ---------------------------------------------------------------------------------------------------------

    def kind_of(self, found: str) -> Kind | None:
        base = _base(found)
        if base == "boolean":
            return "boolean"
        if base in (*_WHOLE, *_FLOATS, "decimal"):
            return "number"
        if base in _DATES:
            return "date"
        return "text" if base in _TEXTS else None

    def is_float(self, found: str) -> bool:
        return found in _FLOATS

    def unit(self, name: str, found: str) -> str:
        column = self.identifier(name)
        if found in _FLOATS:
            return f"(CASE WHEN NOT isnan({column}) THEN {column} END)"
        return self._text(column, found) if _base(found) in _TEXTS else column

    def canonical(self, name: str, found: str, kind: Kind, what: str) -> str:
        column, base = self.identifier(name), _base(found)
        if kind == "text" and base in _TEXTS:
            return self._text(column, found)
        if kind == "boolean" and base == "boolean":
            return column
        if kind == "boolean" and self.kind_of(found) == "number":
            return f"(CASE WHEN {column} = 1 THEN TRUE WHEN {column} = 0 THEN FALSE END)"
        if kind == "date" and base in _DATES:
            return self._micros(column, base)
        if kind == "number" and (base == "boolean" or self.kind_of(found) == "number"):
            return self._double(column, base)
        raise self.unreadable(name, found, kind, what)

    @staticmethod
    def _text(column: str, found: str) -> str:
        """By code points, whatever the collation of the column."""
        return f"collate({column}, 'UTF8_BINARY')" if "collate" in found.lower() else column

    def _double(self, column: str, base: str) -> str:
        """A canonical number."""
        if base == "bigint":
            large, most, least = f"{LARGEST:.0f}L", self.number(LARGEST), self.number(-LARGEST)
            ends = f"CASE WHEN {column} > 0 THEN {most} WHEN {column} < 0 THEN {least} END"
            return f"(CASE WHEN {column} BETWEEN -{large} AND {large} THEN CAST({column} AS DOUBLE) ELSE {ends} END)"
        value = column if base == "double" else f"CAST({column} AS DOUBLE)"
        return self.clamped(value) if base in (*_FLOATS, "decimal") else value

    def _micros(self, column: str, base: str) -> str:
        """Microseconds since 1970 by functions that know no time zone; years that have no date are missing."""
        if base == "date":
            micros = f"CAST(datediff({column}, DATE'1970-01-01') AS BIGINT) * {_DAY}L"
        elif base == "timestamp":
            micros = f"unix_micros({column})"
        else:
            micros = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {column})"
        inside = f"{micros} BETWEEN {FIRST_MICROS:.0f}L AND 253402300799999999L"
        return f"(CASE WHEN {inside} THEN least(CAST({micros} AS DOUBLE), {self.number(LAST_MICROS)}) END)"

    # operations ------------------------------------------------------------------------------------------------------

    def rint(self, x: str) -> str:
        return f"rint({x})"

    def floor(self, x: str, once: Callable[[str], str]) -> str:
        x = once(x)
        return f"(CASE WHEN rint({x}) > {x} THEN rint({x}) - 1D ELSE rint({x}) END)"

    def ceil(self, x: str, once: Callable[[str], str]) -> str:
        x = once(x)
        return f"(CASE WHEN rint({x}) < {x} THEN rint({x}) + 1D ELSE rint({x}) END)"

    def trunc(self, x: str, once: Callable[[str], str]) -> str:
        x = once(x)
        return f"(CASE WHEN abs(rint({x})) > abs({x}) THEN rint({x}) - signum({x}) ELSE rint({x}) END)"

    def divide(self, x: str, y: str) -> str:
        return f"try_divide({x}, {y})"

    def item(self, values: Sequence[float], place: str) -> str:
        return f"get(array({', '.join(self.number(one) for one in values)}), CAST({place} AS INT))"

    def single(self, x: str) -> str:
        return f"CAST(CAST({x} AS FLOAT) AS DOUBLE)"

    def date_part(self, part: str, micros: str, once: Callable[[str], str]) -> str:
        whole = once(f"CAST({micros} AS BIGINT)")
        if part == "hour":
            return f"CAST(pmod({whole}, {_DAY}L) div {_HOUR}L AS DOUBLE)"
        day = f"CAST(({whole} - pmod({whole}, {_DAY}L)) div {_DAY}L AS INT)"
        if part == "weekday":
            return f"CAST(pmod({day} + 3, 7) AS DOUBLE)"
        return f"CAST({part}(date_add(DATE'1970-01-01', {day})) AS DOUBLE)"

    def stored_part(self, part: str, column: str, found: str, canonical: str) -> str | None:
        """From a date or a timestamp without a zone; the latter in the years in which every microsecond is a double."""
        if found not in ("date", "timestamp_ntz") or (found == "date" and part == "hour"):
            return None
        quick = f"CAST({part}({column}) AS DOUBLE)"
        if found == "date":
            return f"(CASE WHEN {column} BETWEEN DATE'0001-01-01' AND DATE'9999-12-31' THEN {quick} END)"
        inside = f"{column} BETWEEN TIMESTAMP_NTZ'1690-01-01 00:00:00' AND TIMESTAMP_NTZ'2250-01-01 00:00:00'"
        return f"(CASE WHEN {inside} THEN {quick} ELSE {self.date_part(part, canonical, lambda sql: sql)} END)"

    def starts(self, x: str, body: str) -> str:
        return f"startswith({x}, {self.literal(body)})"

    def ends(self, x: str, body: str) -> str:
        return f"endswith({x}, {self.literal(body)})"

    # sums ------------------------------------------------------------------------------------------------------------

    def count_where(self, condition: str) -> str:
        return f"count_if({condition})"

    def sum_of_hashes(self, x: str) -> str:
        return f"coalesce(sum(CAST({x} AS DECIMAL(38, 0))), 0)"

    def square_parts(self, x: str) -> tuple[tuple[str, int], ...]:
        """In two halves: Spark sums in 64 bits, which squares of two billion rows would exceed."""
        return ((f"shiftright({x} * {x}, 16)", 65_536), (f"(({x} * {x}) & 65535)", 1))


SPARK = SparkDialect()


def _base(found: str) -> str:
    return found.split("(")[0].split(" ")[0].lower()


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
