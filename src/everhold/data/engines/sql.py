"""Typed trees as SQL. An analyst's text never gets here, only trees that the parser has checked.

The language has the same three truth values as SQL, so AND, OR, NOT and comparisons translate directly. Everything else
has guards, so that no row can make it fail. A guard needs its operand twice; the operand then becomes a column of an inner
SELECT, so that the text does not double.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from everhold.errors import DataError
from everhold.queries.expression.case import CAPITAL, SMALL
from everhold.queries.expression.elementary import EXP, LN, LN2_HIGH, LN2_LOW, LOG2E, ROOT_HALF
from everhold.queries.expression.evaluate import LEAST_EXPONENT, MOST_EXPONENT
from everhold.queries.expression.tree import Call, Case, Column, Kind, Logic, Node, Null, Number, Test, Text, Truth
from everhold.queries.expression.values import (
    LARGEST,
    LAST_MICROS,
    LONGEST_TEXT,
    MOMENT,
    NO,
    NUMBER,
    OFFSET,
    SMALLEST,
    YES,
)
from everhold.queries.grid import STEPS, Sums

if TYPE_CHECKING:
    from everhold.queries.expression.question import TextQuestion

__all__ = [
    "Select",
    "canonical_column",
    "from_text",
    "identifier",
    "literal",
    "raw_number",
    "unit_name",
]

_LONG = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT")  # may exceed the range of everhold's numbers
_SQL_TYPES: dict[Kind, str] = {"number": "DOUBLE", "date": "DOUBLE", "boolean": "BOOLEAN", "text": "VARCHAR"}


def identifier(name: str) -> str:
    """A column name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as a quoted SQL literal; control characters by their code.

    >>> literal("it's")
    "'it''s'"
    """
    parts = re.split(r"([\x00-\x1f])", text)
    quoted = [
        f"chr({ord(part)})" if len(part) == 1 and ord(part) < 32 else "'" + part.replace("'", "''") + "'"
        for part in parts
        if part
    ]
    return "(" + " || ".join(quoted) + ")" if len(quoted) > 1 else (quoted[0] if quoted else "''")


def number(value: float) -> str:
    """A number as an SQL literal that is always read as a double."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def from_text(column: str, kind: str) -> str:
    """SQL that converts a text to this kind, NULL if it cannot."""
    if kind == "number":
        return f"(CASE WHEN regexp_full_match({column}, '{NUMBER}') THEN TRY_CAST(trim({column}) AS DOUBLE) END)"
    if kind == "boolean":
        yes, no = (", ".join(literal(word) for word in words) for words in (YES, NO))
        return f"(CASE WHEN lower(trim({column})) IN ({yes}) THEN TRUE WHEN lower(trim({column})) IN ({no}) THEN FALSE END)"
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


def unit_name(name: str, found: str) -> str:
    """SQL of the name of a row's unit: the value as text, so that different values differ; NULL if missing."""
    column = identifier(name)
    if found in ("DOUBLE", "FLOAT"):  # 0 and -0 are equal, NaN is missing
        return f"(CASE WHEN NOT isnan({column}) THEN CAST({column} + 0 AS VARCHAR) END)"
    return f"CAST({column} AS VARCHAR)"


def raw_number(name: str, found: str, what: str) -> str:
    """SQL of a column's number before it is made canonical: any double, NULL if missing."""
    column, base = identifier(name), _base(found)
    if base == "VARCHAR":
        return from_text(column, "number")
    if base == "BOOLEAN":
        return f"CAST(CAST({column} AS INTEGER) AS DOUBLE)"
    if base.endswith(("INT", "INTEGER")) or base in ("DOUBLE", "FLOAT", "DECIMAL"):
        return column if base == "DOUBLE" else f"CAST({column} AS DOUBLE)"
    raise DataError(f"column {name!r} of {what} is of type {found}, which cannot be read as number.")


def _base(found: str) -> str:
    return "LIST" if found.endswith("]") else found.split("(")[0].upper()


def canonical_column(name: str, found: str, kind: Kind, what: str) -> str:
    """SQL of a column's canonical value (queries/expression/columns.py), from its type in the file."""
    column, base = identifier(name), _base(found)
    if kind == "number":
        value = raw_number(name, found, what)
        if base == "BOOLEAN" or (base.endswith(("INT", "INTEGER")) and base not in _LONG):
            return value
        return (
            f"(CASE WHEN abs({value}) BETWEEN {number(SMALLEST)} AND {number(LARGEST)} THEN {value} "
            f"WHEN abs({value}) < {number(SMALLEST)} THEN 0e0 WHEN isnan({value}) THEN NULL "
            f"WHEN {value} > 0e0 THEN {number(LARGEST)} WHEN {value} < 0e0 THEN {number(-LARGEST)} END)"
        )
    if base == "VARCHAR" and kind != "text":
        column, base = from_text(column, kind), {"boolean": "BOOLEAN", "date": "TIMESTAMP"}[kind]
    if kind == "text" and base in ("VARCHAR", "ENUM", "UUID"):
        return column if base == "VARCHAR" else f"CAST({column} AS VARCHAR)"
    if kind == "boolean":
        if base == "BOOLEAN":
            return column
        if base.endswith(("INT", "INTEGER")) or base in ("DOUBLE", "FLOAT", "DECIMAL"):
            return f"(CASE WHEN {column} = 1 THEN TRUE WHEN {column} = 0 THEN FALSE END)"
    if kind == "date" and (base == "DATE" or base.startswith("TIMESTAMP")):
        if base == "TIMESTAMP_NS":  # rounded down to microseconds, also before 1970, as numpy does
            nanos = f"epoch_ns({column})"
            micros = f"(({nanos} - ((({nanos} % 1000) + 1000) % 1000)) // 1000)"
            return f"least(CAST({micros} AS DOUBLE), {number(LAST_MICROS)})"
        moment = f"TRY_CAST({column} AS TIMESTAMP)"
        first, last = "TIMESTAMP '0001-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"
        micros = f"least(CAST(epoch_us({moment}) AS DOUBLE), {number(LAST_MICROS)})"
        return f"(CASE WHEN {moment} BETWEEN {first} AND {last} THEN {micros} END)"
    raise DataError(f"column {name!r} of {what} is of type {found}, which cannot be read as {kind}.")


class Select:
    """Questions about one table as SQL.

    Args:
        columns: the SQL of the canonical value of each column.
        relation: the relation to select from.
        floats: columns stored as floating-point numbers; comparing them with a constant needs no canonical value.
        unit: SQL of the name of a row's unit, if rows belong together.
        place: SQL of a row's number.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        relation: str,
        *,
        floats: frozenset[str] = frozenset(),
        unit: str | None = None,
        place: str = "0",
    ) -> None:
        self._place = place
        self._columns = columns
        self._floats = floats
        self._relation = relation
        self._unit = unit
        self._inner: dict[str, tuple[str, int]] = {}  # SQL of an inner column: its name and depth
        self._used: dict[tuple[str, str], tuple[str, str]] = {}  # columns in use: their SQL and short names

    def sums(self, questions: Sequence[TextQuestion]) -> str:
        """One SELECT with the sums of each question's steps and of their squares, over rows or over units."""
        if self._unit is None:
            sums = [self._sums(question) for question in questions]
            return f"SELECT {', '.join(sums)} FROM {self._from()}"
        steps = [f"{self._steps(question)} AS s{place}" for place, question in enumerate(questions)]
        means = [f"CAST(round_even(sum(s{place}) / count(*), 0) AS BIGINT) AS m{place}" for place in range(len(questions))]
        sums = [_both(f"m{place}") for place in range(len(questions))]
        unit = self._used.setdefault(("unit", ""), (self._unit, f"c{len(self._used)}"))[1]
        # A row without a unit is its own unit; its row number keeps it separate.
        rows = (
            f"SELECT {', '.join(steps)}, {unit} AS u, "
            f"CASE WHEN {unit} IS NULL THEN row_number() OVER () ELSE 0 END AS alone FROM {self._from()}"
        )
        return f"SELECT {', '.join(sums)} FROM (SELECT {', '.join(means)} FROM ({rows}) GROUP BY u, alone)"

    def read(self, questions: Sequence[TextQuestion], row: Sequence[int]) -> list[Sums]:
        """The sums in the row that `sums` selects: one column for a yes/no question of rows, two for any other."""
        columns = iter(row)
        found = []
        for question in questions:
            first = int(next(columns))
            counted = question.yes_no and self._unit is None
            found.append(Sums(first, STEPS * first if counted else int(next(columns))))
        return found

    def rows(self, question: TextQuestion) -> str:
        """A SELECT of the steps of each row, in order of the row numbers."""
        place = self._used.setdefault(("place", ""), (self._place, f"c{len(self._used)}"))[1]
        return f"SELECT CAST({self._steps(question)} AS DOUBLE) AS steps FROM {self._from()} ORDER BY {place}"

    def _sums(self, question: TextQuestion) -> str:
        if question.yes_no:
            return f"{STEPS} * count(*) FILTER (WHERE {self.certain(question.tree, True)})"
        return _both(self._twice(f"CAST({self._steps(question)} AS BIGINT)"))

    def _steps(self, question: TextQuestion) -> str:
        if question.yes_no:
            return f"(CASE WHEN {self.certain(question.tree, True)} THEN {number(STEPS)} ELSE 0e0 END)"
        x = self._twice(f"({self.number(question.tree)} - {number(question.low)}) / {number(question.high - question.low)}")
        steps = f"round_even(least(greatest({x}, 0e0), 1e0) * {number(STEPS)}, 0)"
        if question.reverse:
            steps = f"({number(STEPS)} - {steps})"
        steps = f"(CASE WHEN {x} IS NULL THEN 0e0 ELSE {steps} END)"
        if question.given is None:
            return steps
        return f"(CASE WHEN {self.certain(question.given, True)} THEN {steps} ELSE 0e0 END)"

    def _from(self) -> str:
        """The relation with the canonical columns in use, then the inner columns, layer by layer."""
        used = [f"{sql} AS {short}" for sql, short in self._used.values()]
        sql = f"(SELECT {', '.join(used) or '1 AS nothing'} FROM {self._relation})"
        for depth in range(1, 1 + max((depth for _, depth in self._inner.values()), default=0)):
            layer = [f"{inner} AS {name}" for inner, (name, at) in self._inner.items() if at == depth]
            sql = f"(SELECT *, {', '.join(layer)} FROM {sql})"
        return sql

    def _column_of(self, name: str) -> str:
        return self._used.setdefault(("canonical", name), (self._columns[name], f"c{len(self._used)}"))[1]

    def _raw(self, name: str) -> str:
        return self._used.setdefault(("raw", name), (identifier(name), f"c{len(self._used)}"))[1]

    def _twice(self, sql: str) -> str:
        """The name of an inner column for an expression that is needed more than once."""
        if re.fullmatch(r"[ct]\d+", sql):
            return sql
        if sql not in self._inner:
            depths = dict(self._inner.values())
            depth = 1 + max((depths.get(name, 0) for name in re.findall(r"\bt\d+\b", sql)), default=0)
            self._inner[sql] = f"t{len(self._inner)}", depth
        return self._inner[sql][0]

    # the tree ------------------------------------------------------------------------------------------------------

    def certain(self, node: Node, want: bool) -> str:
        """A condition for the rows on which a yes/no node is known to be `want`: TRUE there, FALSE or NULL elsewhere."""
        if isinstance(node, Logic):
            if node.op == "not":
                return self.certain(node.args[0], not want)
            join = " AND " if (node.op == "and") == want else " OR "
            return "(" + join.join(self.certain(part, want) for part in node.args) + ")"
        if isinstance(node, Test) and (raw := self._raw_test(node, want)) is not None:
            return raw
        return self.truth(node) if want else f"(NOT {self.truth(node)})"

    def _raw_test(self, node: Test, want: bool) -> str | None:
        """A comparison of a stored floating-point column with a constant; NaN is excluded, and tiny numbers are 0."""
        if node.op not in ("<", "<=", "="):
            return None
        column, constant = node.args[0], node.args[1]
        op = {"<": "<", "<=": "<=", "=": "="}[node.op]
        if isinstance(column, Number):
            column, constant = constant, column
            op = {"<": ">", "<=": ">=", "=": "="}[op]
        if not (isinstance(column, Column) and isinstance(constant, Number) and column.name in self._floats):
            return None
        if not want:
            op = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>"}[op]
        value = constant.value
        if value == 0.0:
            if op in ("=", "<>"):
                return None
            value = SMALLEST if op in (">", "<=") else -SMALLEST
            op = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}[op]
        elif not SMALLEST <= abs(value) < LARGEST:
            return None
        test = f"{self._raw(column.name)} {op} {number(value)}"
        # In DuckDB, NaN is larger than every number and different from all.
        return f"({test})" if op in ("<", "<=", "=") else f"({test} AND NOT isnan({self._raw(column.name)}))"

    def truth(self, node: Node) -> str:
        """A yes/no node as SQL, NULL if a value is missing."""
        if isinstance(node, Truth):
            return "TRUE" if node.value else "FALSE"
        if isinstance(node, Logic):
            if node.op == "not":
                return f"(NOT {self.truth(node.args[0])})"
            return "(" + f" {node.op.upper()} ".join(self.truth(part) for part in node.args) + ")"
        if isinstance(node, Test):
            return self._test(node)
        return self._any(node)

    def _test(self, node: Test) -> str:
        first = self.value(node.args[0])
        if node.op == "null":
            return f"({first} IS NULL)"
        if node.op == "in":
            return f"({first} IN ({', '.join(self.value(item) for item in node.args[1:])}))"
        if node.op == "like":
            pattern = str(getattr(node.args[1], "value", ""))
            body = literal(pattern.strip("%"))
            if pattern.startswith("%") and pattern.endswith("%"):
                return f"contains({first}, {body})"
            if pattern.endswith("%"):
                return f"starts_with({first}, {body})"
            return f"suffix({first}, {body})" if pattern.startswith("%") else f"({first} = {body})"
        return f"({first} {node.op} {self.value(node.args[1])})"

    def value(self, node: Node) -> str:
        """A node of any kind as SQL."""
        if node.kind == "boolean":
            return self.truth(node)
        return self.text(node) if node.kind == "text" else self.number(node)

    def _any(self, node: Node) -> str:
        """The nodes that all kinds share: columns, NULL, CASE."""
        if isinstance(node, Column):
            return self._column_of(node.name)
        if isinstance(node, Case):
            branches = " ".join(f"WHEN {self.certain(when, True)} THEN {self.value(then)}" for when, then in node.branches)
            return f"(CASE {branches} ELSE {self.value(node.otherwise)} END)"
        if isinstance(node, Null):
            return f"CAST(NULL AS {_SQL_TYPES[node.kind]})"
        raise TypeError(f"a {type(node).__name__} has no SQL")

    def text(self, node: Node) -> str:
        """A text node as SQL."""
        if isinstance(node, Text):
            return literal(node.value)
        if isinstance(node, Call):
            letters = (CAPITAL, SMALL) if node.name == "lower" else (SMALL, CAPITAL)
            inner = self._twice(self.text(node.args[0]))
            # ASCII texts, with as many bytes as characters, take the faster way to the same result.
            return (
                f"(CASE WHEN strlen({inner}) = length({inner}) THEN {node.name}({inner}) "
                f"ELSE translate({inner}, {literal(letters[0])}, {literal(letters[1])}) END)"
            )
        return f"left({self._any(node)}, {LONGEST_TEXT})" if isinstance(node, Column) else self._any(node)

    def number(self, node: Node) -> str:
        """A number or a date as SQL; NULL if missing, never NaN or infinite."""
        if isinstance(node, Number):
            return number(node.value)
        return self._call(node) if isinstance(node, Call) else self._any(node)

    def _call(self, node: Call) -> str:
        first = node.args[0]
        if node.name == "length":
            return f"CAST(length({self.text(first)}) AS DOUBLE)"
        args = [self.number(arg) for arg in node.args]
        if first.kind == "date":
            moment = f"make_timestamp(CAST({args[0]} AS BIGINT))"
            part = f"isodow({moment}) - 1" if node.name == "weekday" else f"{node.name}({moment})"
            return f"CAST({part} AS DOUBLE)"
        if node.name in ("+", "-", "*"):
            return f"({args[0]} {node.name} {args[1]})"
        if node.name in ("/", "%"):
            return self._divided(node, args)
        if node.name == "neg":
            return f"(- {args[0]})"
        if node.name == "coalesce":
            return f"coalesce({', '.join(args)})"
        if node.name in ("least", "greatest"):
            names = [self._twice(arg) for arg in args]
            known = " AND ".join(f"{name} IS NOT NULL" for name in names)
            return f"(CASE WHEN {known} THEN {node.name}({', '.join(names)}) END)"
        if node.name in ("abs", "floor", "ceil"):
            return f"{node.name}({args[0]})"
        if node.name == "round":
            return f"round_even({args[0]}, 0)"
        x = self._twice(args[0])
        if node.name == "sqrt":
            return f"(CASE WHEN {x} >= 0e0 THEN sqrt({x}) END)"
        if node.name == "ln":
            return f"(CASE WHEN {x} >= {number(SMALLEST)} THEN {_single(self._ln(x))} END)"
        inside = self._twice(f"least(greatest({x}, {number(LEAST_EXPONENT)}), {number(MOST_EXPONENT)})")
        return (
            f"(CASE WHEN {x} < {number(LEAST_EXPONENT)} THEN 0e0 "
            f"WHEN {x} <= {number(MOST_EXPONENT)} THEN {_single(self._exp(inside))} END)"
        )

    def _exp(self, x: str) -> str:
        """The steps of `elementary.exp`."""
        k = self._twice(f"round_even({x} * {number(LOG2E)}, 0)")
        r = self._twice(f"(({x} - {k} * {number(LN2_HIGH)}) - {k} * {number(LN2_LOW)})")
        return f"({_horner(EXP, r)} * {_power_of_two(k)})"

    def _ln(self, x: str) -> str:
        """The steps of `elementary.ln`; a guess of the exponent that is off by at most one gives the same result."""
        guess = self._twice(f"floor(log2(greatest({x}, {number(SMALLEST)})))")
        scaled = self._twice(f"({x} * {_power_of_two(f'(- {guess})')})")
        low, high = number(ROOT_HALF), number(2.0 * ROOT_HALF)
        lift = self._twice(f"(CASE WHEN {scaled} < {low} THEN 1e0 WHEN {scaled} >= {high} THEN -1e0 ELSE 0e0 END)")
        m = self._twice(f"({scaled} * {_power_of_two(lift)})")
        e = self._twice(f"({guess} - {lift})")
        s = self._twice(f"(({m} - 1e0) / ({m} + 1e0))")
        square = self._twice(f"({s} * {s})")
        return f"({e} * {number(LN2_HIGH)} + ({e} * {number(LN2_LOW)} + {s} * {_horner(LN, square)}))"

    def _divided(self, node: Call, args: list[str]) -> str:
        x, y = args
        if isinstance(node.args[1], Number):
            fine = "TRUE" if abs(node.args[1].value) >= SMALLEST else "FALSE"
        else:
            y = self._twice(y)
            fine = f"abs({y}) >= {number(SMALLEST)}"
        if node.name == "/":
            return f"({x} / {y})" if fine == "TRUE" else f"(CASE WHEN {fine} THEN {x} / {y} END)"
        x = self._twice(x)
        return f"(CASE WHEN {fine} THEN {x} - {y} * trunc({x} / {y}) END)"


def _both(steps: str) -> str:
    """The sums of a BIGINT column of steps and of their squares; DuckDB sums BIGINT in HUGEINT, which is exact."""
    return ", ".join(f"CAST(coalesce(sum({each}), 0) AS HUGEINT)" for each in (steps, f"{steps} * {steps}"))


def _single(sql: str) -> str:
    return f"CAST(CAST({sql} AS FLOAT) AS DOUBLE)"


def _horner(coefficients: tuple[float, ...], x: str) -> str:
    """A polynomial, highest power first, evaluated in the same order as in numpy."""
    result = f"({number(coefficients[0])} * {x} + {number(coefficients[1])})"
    for one in coefficients[2:]:
        result = f"({result} * {x} + {number(one)})"
    return result


_SMALL_POWERS = "[" + ", ".join(number(2.0**power) for power in range(32)) + "]"
_LARGE_POWERS = "[" + ", ".join(number(2.0 ** (32 * power)) for power in range(-32, 32)) + "]"


def _power_of_two(k: str) -> str:
    """2^k for whole k from -1,022 to 1,023, exact: from two lists of powers."""
    high = f"CAST(floor({k} / 32e0) AS BIGINT)"
    return f"({_LARGE_POWERS}[{high} + 33] * {_SMALL_POWERS}[CAST({k} AS BIGINT) - 32 * {high} + 1])"
