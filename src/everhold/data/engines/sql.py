"""Typed trees as SQL. An analyst's text never gets here, only trees that the parser has checked.

The language has the same three truth values as SQL, so AND, OR, NOT and comparisons translate directly. Everything else
has guards, so that no row can make it fail. A guard needs its operand twice; the operand then becomes a column of an inner
SELECT, so that the text does not double. What a question means stands here; how one engine writes it stands in its
dialect (`data.engines.dialect`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from everhold.queries.expression.case import lower_case, upper_case
from everhold.queries.expression.elementary import EXP, LN, LN2_HIGH, LN2_LOW, LOG2E, ROOT_HALF
from everhold.queries.expression.evaluate import LEAST_EXPONENT, MOST_EXPONENT
from everhold.queries.expression.tree import Call, Case, Column, Logic, Node, Null, Number, Test, Text, Truth
from everhold.queries.expression.values import LARGEST, LONGEST_TEXT, SMALLEST
from everhold.queries.grid import STEPS, Sums

if TYPE_CHECKING:
    from everhold.data.engines.dialect import Dialect
    from everhold.queries.expression.question import TextQuestion

__all__ = ["Select"]

_FLIPPED = {"<": ">", "<=": ">=", "=": "="}
_USUAL = 1e-13  # its neighbours are farther away than SMALLEST
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>"}


class Select:
    """Questions about one table as SQL.

    Args:
        dialect: the engine's spelling.
        columns: the SQL of the canonical value of each column.
        relation: the relation to select from.
        floats: columns stored as floating-point numbers; comparing them with a constant needs no canonical value.
        unit: SQL of the name of a row's unit, if rows belong together.
        place: SQL of a row's number.
        types: the engine's types of the columns, where they give a shorter way to the same result.
        tally: SQL of whole numbers of each row that are summed in the same scan, after the questions.
    """

    def __init__(
        self,
        dialect: Dialect,
        columns: Mapping[str, str],
        relation: str,
        *,
        floats: frozenset[str] = frozenset(),
        unit: str | None = None,
        place: str = "0",
        types: Mapping[str, str] | None = None,
        tally: Sequence[str] = (),
    ) -> None:
        self._d = dialect
        self._place = place
        self._columns = columns
        self._floats = floats
        self._relation = relation
        self._unit = unit
        self._tally = tally
        self._types = types or {}
        self._inner: dict[str, tuple[str, int]] = {}  # SQL of an inner column: its name and depth
        self._depths: dict[str, int] = {}
        self._used: dict[tuple[str, str], tuple[str, str]] = {}  # columns in use: their SQL and short names

    def sums(self, questions: Sequence[TextQuestion]) -> str:
        """One SELECT with the sums of each question's steps and of their squares, over rows or over units."""
        if self._unit is not None:
            return self._sums_of_units(questions)
        sums = [sql for question in questions for sql in self._sums(question)]
        sums += [self._d.sum_whole(self._named("tally", sql)) for sql in self._tally]
        return f"SELECT {_named(sums, 'q')} FROM {self._from()}"

    def _sums_of_units(self, questions: Sequence[TextQuestion]) -> str:
        """Sums over units. A row without a unit is its own: its steps are whole, so such rows are summed together."""
        d, rows, groups, sums = self._d, [], [], []
        unit = self._named("unit", self._unit or "")
        for place, question in enumerate(questions):
            steps = f"s{place}"
            rows.append(f"{self._steps(question)} AS {steps}")
            mean = d.rint(f"sum({steps}) / count(*)")
            groups.append(f"CAST(CASE WHEN u IS NULL THEN sum({steps}) ELSE {mean} END AS {d.whole}) AS m{place}")
            sums.append(d.sum_whole(f"m{place}"))
            of_rows, of_means = d.square_parts(f"CAST({steps} AS {d.whole})"), d.square_parts(f"m{place}")
            for part, ((square, _), (other, _)) in enumerate(zip(of_rows, of_means, strict=True)):
                groups.append(f"CASE WHEN u IS NULL THEN {d.sum_whole(square)} END AS z{place}_{part}")
                sums.append(d.sum_whole(f"coalesce(z{place}_{part}, {other})"))
        for place, sql in enumerate(self._tally):
            rows.append(f"{self._named('tally', sql)} AS y{place}")
            groups.append(f"{d.sum_whole(f'y{place}')} AS y{place}")
            sums.append(d.sum_whole(f"y{place}"))
        inner = f"(SELECT {', '.join(rows)}, {unit} AS u FROM {self._from()}) AS r"
        return f"SELECT {_named(sums, 'q')} FROM (SELECT {', '.join(groups)} FROM {inner} GROUP BY u) AS g"

    def read(self, questions: Sequence[TextQuestion], row: Sequence[int]) -> tuple[list[Sums], list[int]]:
        """The sums in the row that `sums` selects, and those of the tally."""
        weights = [weight for _, weight in self._d.square_parts("x")]
        columns, found = iter(row), []
        for question in questions:
            first = int(next(columns))
            if question.yes_no and self._unit is None:
                found.append(Sums(STEPS * first, STEPS * STEPS * first))
            else:
                found.append(Sums(first, sum(weight * int(next(columns)) for weight in weights)))
        return found, [int(one) for one in columns]

    def rows(self, questions: Sequence[TextQuestion]) -> str:
        """A SELECT of the steps of each row, in order of the row numbers."""
        place = self._named("place", self._place)
        steps = [f"CAST({self._steps(question)} AS {self._d.types['number']})" for question in questions]
        return f"SELECT {_named(steps, 's')} FROM {self._from()} ORDER BY {place}"

    @property
    def width(self) -> int:
        """How many columns the widest inner SELECT has so far."""
        return len(self._used) + len(self._inner)

    @property
    def depth(self) -> int:
        """How many layers of inner columns there are so far, and one."""
        return 1 + max(self._depths.values(), default=0)

    def _sums(self, question: TextQuestion) -> Iterator[str]:
        if question.yes_no:
            yield self._d.count_where(self.certain(question.tree, True))
            return
        steps = self._twice(f"CAST({self._steps(question)} AS {self._d.whole})")
        yield self._d.sum_whole(steps)
        for square, _ in self._d.square_parts(steps):
            yield self._d.sum_whole(square)

    def _steps(self, question: TextQuestion) -> str:
        d, number = self._d, self._d.number
        if question.yes_no:
            return f"(CASE WHEN {self.certain(question.tree, True)} THEN {number(STEPS)} ELSE {number(0)} END)"
        steps = self._raw_steps(question)
        if steps is None:
            shifted = f"({self.number(question.tree)} - {number(question.low)})"
            x = self._twice(d.divide(shifted, number(question.high - question.low)))
            steps = d.rint(f"least(greatest({x}, {number(0)}), {number(1)}) * {number(STEPS)}")
            if question.reverse:
                steps = f"({number(STEPS)} - {steps})"
            steps = f"(CASE WHEN {x} IS NULL THEN {number(0)} ELSE {steps} END)"
        if question.given is None:
            return steps
        return f"(CASE WHEN {self.certain(question.given, True)} THEN {steps} ELSE {number(0)} END)"

    def _raw_steps(self, question: TextQuestion) -> str | None:
        """The steps of a stored floating-point column itself, which need no canonical value.

        Values up to `low` and from `high` on, infinite ones too, are decided by comparing. Numbers below SMALLEST in size
        give the same steps as 0: if `low` is 0 they are compared as well, and a `low` of a usual size minus them is itself.
        """
        column, low, high = question.tree, question.low, question.high
        if not (isinstance(column, Column) and column.name in self._floats and max(abs(low), abs(high)) <= LARGEST):
            return None
        if (low != 0.0 and abs(low) < _USUAL) or high - low < _USUAL:
            return None
        d, number, raw = self._d, self._d.number, self._raw(column.name)
        within = d.rint(f"{d.divide(f'({raw} - {number(low)})', number(high - low))} * {number(STEPS)}")
        least, most = (STEPS, 0) if question.reverse else (0, STEPS)
        if question.reverse:
            within = f"({number(STEPS)} - {within})"
        below = f"{raw} <= {number(low)}" if low else f"{raw} < {number(SMALLEST)}"
        return (
            f"(CASE WHEN {below} THEN {number(least)} WHEN {raw} < {number(high)} THEN {within} "
            f"WHEN {raw} >= {number(high)} AND NOT {d.is_nan(raw)} THEN {number(most)} ELSE {number(0)} END)"
        )

    def _from(self) -> str:
        """The relation with the canonical columns in use, then the inner columns, layer by layer."""
        used = [f"{sql} AS {short}" for sql, short in self._used.values()]
        deepest = max((depth for _, depth in self._inner.values()), default=0)
        fence = self._d.fence
        sql = f"(SELECT {', '.join(used) or '1 AS nothing'} FROM {self._relation}{fence if deepest else ''}) AS p"
        if self._d.lateral:
            layers = [[f"{inner} AS {name}" for inner, (name, _) in self._inner.items()]] if deepest else []
        else:
            layers = [
                [f"{inner} AS {name}" for inner, (name, at) in self._inner.items() if at == depth]
                for depth in range(1, 1 + deepest)
            ]
        for layer in layers:
            sql = f"(SELECT *, {', '.join(layer)} FROM {sql}{fence}) AS p"
        return sql

    def _named(self, role: str, sql: str) -> str:
        """The short name of a column of the innermost SELECT."""
        return self._used.setdefault((role, sql), (sql, f"c{len(self._used)}"))[1]

    def _column_of(self, name: str) -> str:
        return self._named("canonical", self._columns[name])

    def _raw(self, name: str) -> str:
        return self._named("raw", self._d.identifier(name))

    def _twice(self, sql: str) -> str:
        """The name of an inner column for an expression that is needed more than once."""
        if re.fullmatch(r"[ct]\d+", sql):
            return sql
        if sql not in self._inner:
            depth = 1 + max((self._depths.get(name, 0) for name in re.findall(r"\bt\d+\b", sql)), default=0)
            name = f"t{len(self._inner)}"
            self._inner[sql], self._depths[name] = (name, depth), depth
        return self._inner[sql][0]

    # yes/no ----------------------------------------------------------------------------------------------------------

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
        if node.op not in _FLIPPED:
            return None
        column, constant, op = node.args[0], node.args[1], str(node.op)
        if isinstance(column, Number):
            column, constant, op = constant, column, _FLIPPED[op]
        if not (isinstance(column, Column) and isinstance(constant, Number) and column.name in self._floats):
            return None
        if not want:
            op = _NEGATED[op]
        value = constant.value
        if value == 0.0:
            if op in ("=", "<>"):
                return None
            value = SMALLEST if op in (">", "<=") else -SMALLEST
            op = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}[op]
        elif not SMALLEST <= abs(value) < LARGEST:
            return None
        raw = self._raw(column.name)
        test = f"{raw} {op} {self._d.number(value)}"
        # NaN is larger than every number and different from all.
        return f"({test})" if op in ("<", "<=", "=") else f"({test} AND NOT {self._d.is_nan(raw)})"

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
        if node.op != "null" and node.args[0].kind == "text":
            return self._text_test(node)
        if node.op == "null" and _constant(node.args[0]) is not None:
            return "FALSE"
        first = self.value(node.args[0])
        if node.op == "null":
            return f"({first} IS NULL)"
        if node.op == "in":
            return f"({first} IN ({', '.join(self.value(item) for item in node.args[1:])}))"
        return f"({first} {node.op} {self.value(node.args[1])})"

    def _text_test(self, node: Test) -> str:
        """A test of texts; what depends on no row is decided here."""
        first, others = node.args[0], node.args[1:]
        words = [_constant(item) for item in others]
        known = _constant(first)
        if None in words:
            if known is None:
                return f"({self.text(first)} {node.op} {self.text(others[0])})"
            test = self._d.compare_word(self._for_words(others[0], [known]), _FLIPPED[node.op], known)
            return self._if_as_long(others[0], [known], test) if node.op == "=" else test
        texts = [word for word in words if word is not None]
        if node.op == "like":
            return self._like(first, known, texts[0])
        if node.op == "in":
            if known is not None:
                return _truth(known in texts)
            return self._if_as_long(first, texts, self._d.member(self._for_words(first, texts), texts))
        if known is not None:
            return _truth({"<": known < texts[0], "<=": known <= texts[0], "=": known == texts[0]}[node.op])
        test = self._d.compare_word(self._for_words(first, texts), node.op, texts[0])
        return self._if_as_long(first, texts, test) if node.op == "=" else test

    def _if_as_long(self, node: Node, words: Sequence[str], test: str) -> str:
        """A test of equality. Changing the case of letters takes long, and does not change how many there are."""
        if not isinstance(node, Call):
            return test
        lengths = ", ".join(sorted({str(len(word)) for word in words}))
        x = self._twice(self.text(node.args[0]))
        return f"(CASE WHEN length({x}) NOT IN ({lengths}) THEN FALSE ELSE {test} END)"

    def _like(self, first: Node, known: str | None, pattern: str) -> str:
        body, before, after = pattern.strip("%"), pattern.startswith("%"), pattern.endswith("%")
        if known is not None:
            if before and after:
                return _truth(body in known)
            return _truth(known.startswith(body) if after else known.endswith(body) if before else known == body)
        if before and after:
            return self._d.contains(self.text(first), body)
        if before:
            return self._d.ends(self.text(first), body)
        x = self._for_words(first, [body])
        return self._d.starts(x, body) if after else self._d.compare_word(x, "=", body)

    def _for_words(self, node: Node, words: Sequence[str]) -> str:
        """A text to compare with constants. Shorter ones than LONGEST_TEXT compare alike whether it is cut or not."""
        if isinstance(node, Column) and all(len(word) < LONGEST_TEXT for word in words):
            return self._any(node)
        return self.text(node)

    # any kind --------------------------------------------------------------------------------------------------------

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
            return f"CAST(NULL AS {self._d.types[node.kind]})"
        raise TypeError(f"a {type(node).__name__} has no SQL")

    def text(self, node: Node) -> str:
        """A text node as SQL, cut to LONGEST_TEXT."""
        if (word := _constant(node)) is not None:
            return self._d.literal(word)
        if isinstance(node, Call):
            return self._d.change_case(node.name, self.text(node.args[0]), self._twice)
        return self._d.left(self._any(node), LONGEST_TEXT) if isinstance(node, Column) else self._any(node)

    def number(self, node: Node) -> str:
        """A number or a date as SQL; NULL if missing, never NaN or infinite."""
        if isinstance(node, Number):
            return self._d.number(node.value)
        return self._call(node) if isinstance(node, Call) else self._any(node)

    # functions -------------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> str:
        d, number, first = self._d, self._d.number, node.args[0]
        if node.name == "length":
            word = _constant(first)
            return d.length(self.text(first)) if word is None else number(len(word))
        if isinstance(first, Column) and first.name in self._types:
            column, found = d.identifier(first.name), self._types[first.name]
            if first.kind == "date" and (sql := d.stored_part(node.name, column, found, self._columns[first.name])):
                return self._named("part", sql)
        args = [self.number(arg) for arg in node.args]
        if first.kind == "date":
            return d.date_part(node.name, args[0], self._twice)
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
        if node.name == "abs":
            return f"abs({args[0]})"
        if node.name == "floor":
            return d.floor(args[0], self._twice)
        if node.name == "ceil":
            return d.ceil(args[0], self._twice)
        if node.name == "round":
            return d.rint(args[0])
        x = self._twice(args[0])
        if node.name == "sqrt":
            return f"(CASE WHEN {x} >= {number(0)} THEN sqrt({x}) END)"
        if node.name == "ln":
            return f"(CASE WHEN {x} >= {number(SMALLEST)} THEN {d.single(self._ln(x))} END)"
        inside = self._twice(f"least(greatest({x}, {number(LEAST_EXPONENT)}), {number(MOST_EXPONENT)})")
        return (
            f"(CASE WHEN {x} < {number(LEAST_EXPONENT)} THEN {number(0)} "
            f"WHEN {x} <= {number(MOST_EXPONENT)} THEN {d.single(self._exp(inside))} END)"
        )

    def _exp(self, x: str) -> str:
        """The steps of `elementary.exp`."""
        number = self._d.number
        k = self._twice(self._d.rint(f"{x} * {number(LOG2E)}"))
        r = self._twice(f"(({x} - {k} * {number(LN2_HIGH)}) - {k} * {number(LN2_LOW)})")
        return f"({self._horner(EXP, r)} * {self._d.power_of_two(k)})"

    def _ln(self, x: str) -> str:
        """The steps of `elementary.ln`; a guess of the exponent that is off by at most one gives the same result."""
        d, number = self._d, self._d.number
        inside = self._twice(f"greatest({x}, {number(SMALLEST)})")
        guess = self._twice(d.floor(d.log2(inside), self._twice))
        scaled = self._twice(f"({inside} * {d.power_of_two(f'(- {guess})')})")
        low, high = number(ROOT_HALF), number(2.0 * ROOT_HALF)
        lift = self._twice(
            f"(CASE WHEN {scaled} < {low} THEN {number(1)} WHEN {scaled} >= {high} THEN {number(-1)} ELSE {number(0)} END)"
        )
        m = self._twice(f"({scaled} * {d.power_of_two(lift)})")
        e = self._twice(f"({guess} - {lift})")
        s = self._twice(d.divide(f"({m} - {number(1)})", f"({m} + {number(1)})"))
        square = self._twice(f"({s} * {s})")
        return f"({e} * {number(LN2_HIGH)} + ({e} * {number(LN2_LOW)} + {s} * {self._horner(LN, square)}))"

    def _horner(self, coefficients: tuple[float, ...], x: str) -> str:
        """A polynomial, highest power first, evaluated in the same order as in numpy."""
        number = self._d.number
        result = f"({number(coefficients[0])} * {x} + {number(coefficients[1])})"
        for one in coefficients[2:]:
            result = f"({result} * {x} + {number(one)})"
        return result

    def _divided(self, node: Call, args: list[str]) -> str:
        d, (x, y) = self._d, args
        fine = None
        if isinstance(node.args[1], Number):
            if abs(node.args[1].value) < SMALLEST:
                return f"CAST(NULL AS {d.types['number']})"
        else:
            y = self._twice(y)
            fine = f"abs({y}) >= {d.number(SMALLEST)}"
        if node.name == "/":
            return d.divide(x, y) if fine is None else f"(CASE WHEN {fine} THEN {d.divide(x, y)} END)"
        x = self._twice(x)
        quotient = d.divide(x, y) if fine is None else f"(CASE WHEN {fine} THEN {d.divide(x, y)} END)"
        return f"({x} - {y} * {d.trunc(quotient, self._twice)})"


def _named(columns: Sequence[str], letter: str) -> str:
    """Columns of a SELECT with names of their own."""
    return ", ".join(f"{sql} AS {letter}{place}" for place, sql in enumerate(columns))


def _truth(value: bool) -> str:
    return "TRUE" if value else "FALSE"


def _constant(node: Node) -> str | None:
    """The text of a node that is the same on every row; None if it depends on rows or is missing."""
    if isinstance(node, Text):
        return node.value
    if isinstance(node, Call) and node.name in ("lower", "upper") and (word := _constant(node.args[0])) is not None:
        return lower_case(word) if node.name == "lower" else upper_case(word)
    return None
