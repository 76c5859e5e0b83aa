"""DuckDB's SQL, which also reads the texts of CSV files as numbers, booleans and dates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from everhold.data.engines.dialect import Dialect
from everhold.queries.expression.values import LAST_MICROS, MOMENT, NO, NUMBER, OFFSET, YES

if TYPE_CHECKING:
    from everhold.queries.expression.tree import Kind

__all__ = ["DUCKDB", "DuckDBDialect"]

_LONG = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT")  # may exceed the range of everhold's numbers


class DuckDBDialect(Dialect):
    """How DuckDB writes it.

    >>> DUCKDB.literal("it's"), DUCKDB.number(2)
    ("'it''s'", '2.0e0')
    """

    name = "DuckDB"
    types: ClassVar[dict[Kind, str]] = {"number": "DOUBLE", "date": "DOUBLE", "boolean": "BOOLEAN", "text": "VARCHAR"}

    def number(self, value: float) -> str:
        text = repr(float(value))
        return text if "e" in text else f"{text}e0"

    # columns ---------------------------------------------------------------------------------------------------------

    def kind_of(self, found: str) -> Kind | None:
        base = _base(found)
        if base == "BOOLEAN":
            return "boolean"
        if _is_number(base):
            return "number"
        if base in {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"}:
            return "date"
        return "text" if base in {"VARCHAR", "ENUM", "UUID"} else None

    def is_float(self, found: str) -> bool:
        return found in ("DOUBLE", "FLOAT")

    def unit(self, name: str, found: str) -> str:
        """The value as text, so that different values differ."""
        column = self.identifier(name)
        if self.is_float(found):  # 0 and -0 are equal, NaN is missing
            return f"(CASE WHEN NOT isnan({column}) THEN CAST({column} + 0 AS VARCHAR) END)"
        return f"CAST({column} AS VARCHAR)"

    def from_text(self, column: str, kind: str) -> str:
        """A text converted to this kind, NULL if it cannot be."""
        if kind == "number":
            return f"(CASE WHEN regexp_full_match({column}, '{NUMBER}') THEN TRY_CAST(trim({column}) AS DOUBLE) END)"
        if kind == "boolean":
            yes, no = (", ".join(self.literal(word) for word in words) for words in (YES, NO))
            word = f"lower(trim({column}))"
            return f"(CASE WHEN {word} IN ({yes}) THEN TRUE WHEN {word} IN ({no}) THEN FALSE END)"
        if kind == "date":
            # The offset from UTC is subtracted explicitly: whether a cast applies it depends on DuckDB's version.
            local = f"TRY_CAST(regexp_extract({column}, '[0-9-]{{10}}([ T][0-9:.]+)?') AS TIMESTAMP)"
            offset = f"regexp_extract({column}, ':[0-9:.]+({OFFSET}) *$', 1)"
            minutes = (
                f"CAST(substr({offset}, 1, 3) AS INTEGER) * 60 + "
                f"CAST(substr({offset}, 1, 1) || coalesce(nullif(right(substr({offset}, 4), 2), ''), '0') AS INTEGER)"
            )
            moved = f"(CASE WHEN {offset} = '' THEN {local} ELSE {local} - to_minutes({minutes}) END)"
            return f"(CASE WHEN regexp_full_match({column}, '{MOMENT}') THEN {moved} END)"
        return column

    def raw_number(self, name: str, found: str, what: str) -> str:
        """A column's number before it is made canonical: any double, NULL if missing."""
        column, base = self.identifier(name), _base(found)
        if base == "VARCHAR":
            return self.from_text(column, "number")
        if base == "BOOLEAN":
            return f"CAST(CAST({column} AS INTEGER) AS DOUBLE)"
        if _is_number(base):
            return column if base == "DOUBLE" else f"CAST({column} AS DOUBLE)"
        raise self.unreadable(name, found, "number", what)

    def canonical(self, name: str, found: str, kind: Kind, what: str) -> str:
        column, base = self.identifier(name), _base(found)
        if kind == "number":
            value = self.raw_number(name, found, what)
            small = base == "BOOLEAN" or (base.endswith(("INT", "INTEGER")) and base not in _LONG)
            return value if small else self.clamped(value)
        if base == "VARCHAR" and kind != "text":
            column, base = self.from_text(column, kind), {"boolean": "BOOLEAN", "date": "TIMESTAMP"}[kind]
        if kind == "text" and base in ("VARCHAR", "ENUM", "UUID"):
            return column if base == "VARCHAR" else f"CAST({column} AS VARCHAR)"
        if kind == "boolean":
            if base == "BOOLEAN":
                return column
            if _is_number(base):
                return f"(CASE WHEN {column} = 1 THEN TRUE WHEN {column} = 0 THEN FALSE END)"
        if kind == "date" and (base == "DATE" or base.startswith("TIMESTAMP")):
            if base == "TIMESTAMP_NS":  # rounded down to microseconds, also before 1970, as numpy does
                nanos = f"epoch_ns({column})"
                micros = f"(({nanos} - ((({nanos} % 1000) + 1000) % 1000)) // 1000)"
                return f"least(CAST({micros} AS DOUBLE), {self.number(LAST_MICROS)})"
            moment = f"TRY_CAST({column} AS TIMESTAMP)"
            first, last = "TIMESTAMP '0001-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"
            micros = f"least(CAST(epoch_us({moment}) AS DOUBLE), {self.number(LAST_MICROS)})"
            return f"(CASE WHEN {moment} BETWEEN {first} AND {last} THEN {micros} END)"
        raise self.unreadable(name, found, kind, what)

    # operations ------------------------------------------------------------------------------------------------------

    def rint(self, x: str) -> str:
        return f"round_even({x}, 0)"

    def log2(self, x: str) -> str:
        return f"log2({x})"

    def item(self, values: Sequence[float], place: str) -> str:
        return f"[{', '.join(self.number(one) for one in values)}][{place} + 1]"

    def single(self, x: str) -> str:
        return f"CAST(CAST({x} AS FLOAT) AS DOUBLE)"

    def date_part(self, part: str, micros: str, once: Callable[[str], str]) -> str:
        moment = f"make_timestamp(CAST({micros} AS BIGINT))"
        found = f"isodow({moment}) - 1" if part == "weekday" else f"{part}({moment})"
        return f"CAST({found} AS DOUBLE)"

    def byte_length(self, x: str) -> str:
        return f"strlen({x})"

    def ends(self, x: str, body: str) -> str:
        return f"suffix({x}, {self.literal(body)})"

    def sum_whole(self, x: str) -> str:
        """DuckDB sums BIGINT in HUGEINT, which is exact."""
        return f"CAST(coalesce(sum({x}), 0) AS HUGEINT)"


DUCKDB = DuckDBDialect()


def _base(found: str) -> str:
    return "LIST" if found.endswith("]") else found.split("(")[0].upper()


def _is_number(base: str) -> bool:
    return base.endswith(("INT", "INTEGER")) or base in ("DOUBLE", "FLOAT", "DECIMAL")
