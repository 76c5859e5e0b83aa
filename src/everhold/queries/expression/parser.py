"""Parse tokens to a typed tree and check it against the public columns (a Pratt parser with hard limits)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, NoReturn

from everhold.errors import did_you_mean
from everhold.queries.expression.extent import out_of_range
from everhold.queries.expression.hints import FUNCTIONS, OPERATORS
from everhold.queries.expression.lexer import Lexeme, complain, tokens
from everhold.queries.expression.tree import (
    Call,
    Case,
    Column,
    Kind,
    Logic,
    Node,
    Null,
    Number,
    Test,
    Text,
    Truth,
    operands,
)
from everhold.queries.expression.values import LARGEST, LONGEST_TEXT, SMALLEST, date_of, truth_of

__all__ = ["ASKED", "MOST_ITEMS", "RECORDED", "Limits", "Words", "parse"]

MOST_ITEMS = 256


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper limits on a question, which bound its time and memory.

    Attributes:
        characters: length of its text.
        parts: operations, columns and constants as written.
        depth: nested parentheses and calls.
        size: parts after each BETWEEN is expanded, which repeats its operand.
        height: operations on top of each other: x + x + x has two.
    """

    characters: int
    parts: int
    depth: int
    size: int
    height: int


ASKED = Limits(characters=4_000, parts=250, depth=40, size=600, height=100)
RECORDED = Limits(characters=200_000, parts=20_000, depth=200, size=20_000, height=150)
"""Limits for texts from a ledger: they were checked when they were asked, and a statistic's text is longer."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words that the schema lists for a text column.

    Attributes:
        listed: the words.
        closed: whether the column holds no other words.
    """

    listed: frozenset[str]
    closed: bool = True


# Signatures of functions: kinds of the arguments ("…" repeats the last), kind of the result.
_FUNCTIONS: dict[str, tuple[tuple[str, ...], Kind]] = {
    "abs": (("number",), "number"),
    "sqrt": (("number",), "number"),
    "ln": (("number",), "number"),
    "exp": (("number",), "number"),
    "floor": (("number",), "number"),
    "ceil": (("number",), "number"),
    "round": (("number",), "number"),
    "least": (("number", "number", "…"), "number"),
    "greatest": (("number", "number", "…"), "number"),
    "coalesce": (("number", "number", "…"), "number"),
    "lower": (("text",), "text"),
    "upper": (("text",), "text"),
    "length": (("text",), "number"),
    "year": (("date",), "number"),
    "month": (("date",), "number"),
    "day": (("date",), "number"),
    "weekday": (("date",), "number"),
    "hour": (("date",), "number"),
}
_WORDS: dict[Kind, str] = {"number": "a number", "boolean": "yes/no", "text": "text", "date": "a date"}
_AGGREGATES = frozenset(
    ["avg", "mean", "sum", "count", "min", "max", "median", "quantile", "stddev", "std", "variance", "var"]
)
_COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")
_EQUALITIES = ("=", "==", "<>", "!=")


def parse(
    text: str,
    columns: Mapping[str, Kind],
    want: Literal["boolean", "number", "ordered"] = "boolean",
    words: Mapping[str, Words] | None = None,
    *,
    limits: Limits = ASKED,
) -> Node:
    """Parse the text of a question to its tree.

    Args:
        text: the text as typed.
        columns: the public columns with their kinds.
        want: the kind that the whole expression must have; for a number, yes and no become 1 and 0; 'ordered' is a number
            or a date.
        words: for text columns, the words that the schema lists.
        limits: `ASKED`, or `RECORDED` for a text from a ledger, which was checked when it was asked.

    Raises:
        QuestionError: with a caret under the position, and a near column, word or function if there is one.

    >>> parse("age > 40", {"age": "number"})
    Test(op='<', args=(Number(value=40.0, kind='number', at=6), Column(name='age', kind='number', at=0)), ...)
    """
    parser = _Parser(text, columns, words or {}, limits)
    tree = parser.expression(0)
    if parser.now.kind != "end":
        hint = OPERATORS.get(parser.now.value.upper(), " A question is one expression.")
        parser.fail(parser.now, f"unexpected {parser.now.value!r}.{hint}")
    if isinstance(tree, Null):
        return complain(text, tree.at, "this is NULL on every row. Expected a value that some rows have.")
    if tree.kind == want or (want == "ordered" and tree.kind in ("number", "date")):
        return tree
    if want != "boolean":
        if tree.kind == "boolean":
            no = Logic("not", (tree,), at=tree.at)
            return Case(((tree, Number(1.0)), (no, Number(0.0))), Null("number"), "number", tree.at)
        return complain(
            text, tree.at, f"this is {_WORDS[tree.kind]}. Expected a number{' or a date' if want == 'ordered' else ''}."
        )
    mean = f" Or ask for its mean: eh.Mean({text.strip()!r}), in the shell --as mean." if tree.kind == "number" else ""
    return complain(
        text,
        tree.at,
        f"the question is {_WORDS[tree.kind]}. Expected a yes/no expression: compare it, as in {_as_in(tree)}.{mean}",
    )


def _as_in(tree: Node) -> str:
    """Comparisons that could be meant.

    >>> _as_in(Column("readmitted", "number", 0)), _as_in(Column("city", "text", 0))
    ('readmitted = 1 or readmitted > 0', "city = 'one of its words'")
    """
    name = tree.name if isinstance(tree, Column) else "x"
    name = name if name.isidentifier() else f'"{name}"'
    if isinstance(tree, Column) and tree.kind == "text":
        return f"{name} = 'one of its words'"
    if isinstance(tree, Column) and tree.kind == "date":
        return f"{name} >= '2024-05-01'"
    return f"{name} = 1 or {name} > 0" if isinstance(tree, Column) else "x > 0"


class _Parser:
    def __init__(self, text: str, columns: Mapping[str, Kind], words: Mapping[str, Words], limits: Limits) -> None:
        self._text = text
        self._limits = limits
        self._columns = columns
        self._words = words
        self._strict = limits is ASKED
        self._tokens = tokens(text, limits.characters)
        self._index = 0
        self._parts = 0
        self._depth = 0
        self._measured: dict[int, tuple[Node, int, int]] = {}  # by identity: the node, its size and its height
        self.now = self._tokens[0]
        """The next token to read."""

    def fail(self, where: Lexeme | Node, message: str) -> NoReturn:
        """Raise a QuestionError that points at a token or a node."""
        complain(self._text, where.at, message)

    def take(self) -> Lexeme:
        """Read the next token."""
        token = self.now
        if token.kind != "end":
            self._index += 1
            self.now = self._tokens[self._index]
        return token

    def accept(self, *values: str) -> Lexeme | None:
        """Read the next token if it is one of these operators or keywords."""
        if self.now.kind in ("op", "keyword") and self.now.value in values:
            return self.take()
        return None

    def expect(self, value: str) -> Lexeme:
        """Read this operator or keyword, or fail."""
        token = self.accept(value)
        if token is None:
            found = "the end of the question" if self.now.kind == "end" else repr(self.now.value)
            self.fail(self.now, f"expected {value!r} here, but found {found}.")
        return token

    def part(self, node: Node) -> Node:
        """Count a node against the limits."""
        self._parts += 1
        inner = [self._measured.get(id(child), (child, 1, 1)) for child in _counted(node)]
        size, height = 1 + sum(measured[1] for measured in inner), 1 + max((measured[2] for measured in inner), default=0)
        self._measured[id(node)] = node, size, height
        most = self._limits
        if self._parts > most.parts:
            self.fail(node, f"the question has more than {most.parts} parts. Expected a smaller one.")
        if size > most.size:
            self.fail(
                node,
                f"the question has more than {most.size} parts after each BETWEEN is expanded to two comparisons. "
                "Expected a smaller one.",
            )
        if height > most.height:
            self.fail(node, f"more than {most.height} operations build on each other here. Expected a flatter question.")
        return node

    def expression(self, level: int) -> Node:
        """Parse operators that bind tighter than `level`: 1 OR, 2 AND, 3 NOT, 4 comparisons, 5 sums, 6 products, 7 signs."""
        self._depth += 1
        if self._depth > self._limits.depth:
            self.fail(self.now, f"the question is nested more than {self._limits.depth} deep. Expected a flatter one.")
        left = self.prefix()
        while True:
            following = self.infix(left, level)
            if following is None:
                self._depth -= 1
                return left
            left = following

    def prefix(self) -> Node:
        """A literal, a column, a function, a sign, NOT, CASE or parentheses."""
        token = self.take()
        if token.kind == "number":
            value = float(token.value)
            if not abs(value) <= LARGEST:
                self.fail(token, f"the number {token.value} is too large. Expected at most 1e15.")
            if self._strict and 0.0 < value < SMALLEST:
                self.fail(token, f"the number {token.value} is too small. Expected 0, or at least 1e-30.")
            return self.part(Number(value, at=token.at))
        if token.kind == "text":
            return self.part(Text(token.value[:LONGEST_TEXT], at=token.at))
        if token.kind == "word":
            return self.call(token) if self.now.value == "(" and self.now.kind == "op" else self.column(token)
        if token.value == "(" and token.kind == "op":
            inner = self.expression(0)
            self.expect(")")
            return inner
        if token.value in ("-", "+") and token.kind == "op":
            operand = self.need(self.expression(7), "number")
            if isinstance(operand, Number):
                return replace(operand, value=-operand.value if token.value == "-" else operand.value, at=token.at)
            return self.part(Call("neg", (operand,), "number", token.at)) if token.value == "-" else operand
        if token.kind == "keyword":
            if token.value in ("TRUE", "FALSE"):
                return self.part(Truth(token.value == "TRUE", at=token.at))
            if token.value == "NULL":
                return self.part(Null(at=token.at))
            if token.value == "NOT":
                return self.part(Logic("not", (self.need(self.expression(3), "boolean"),), at=token.at))
            if token.value == "CASE":
                return self.case(token)
        if token.kind == "end":
            return self.fail(token, "the question ends where a value was expected.")
        before = self._text[max(token.at - 1, 0) : token.at]
        hint = {"=>": " Write >=.", "=<": " Write <=.", "**": OPERATORS["**"]}.get(before + token.value, "")
        if token.kind == "keyword" and (names := [name for name in self._columns if name.upper() == token.value]):
            hint = f' Put the column in double quotes, because its name is a keyword: "{names[0]}".'
        return self.fail(token, f"unexpected {token.value!r}. Expected a column, a number or a text here.{hint}")

    def infix(self, left: Node, level: int) -> Node | None:
        """Parse the operator after a value, if it binds tighter than `level`."""
        token = self.now
        if token.kind == "keyword":
            if token.value == "OR" and level < 1:
                return self.logic("or", left, 1)
            if token.value == "AND" and level < 2:
                return self.logic("and", left, 2)
            if level < 4 and token.value in ("IS", "IN", "BETWEEN", "LIKE", "NOT"):
                return self.predicate(left)
            return None
        if token.kind != "op":
            return None
        if token.value in _COMPARISONS and level < 4:
            self.take()
            return self.compare(token, left, self.expression(4))
        if token.value in ("+", "-") and level < 5:
            self.take()
            return self.arithmetic(token, left, self.expression(5))
        if token.value in ("*", "/", "%") and level < 6:
            self.take()
            return self.arithmetic(token, left, self.expression(6))
        return None

    def logic(self, op: str, left: Node, level: int) -> Node:
        """AND and OR; a chain of them is one node."""
        token, parts = self.now, [self.need(left, "boolean")]
        while self.accept(op.upper()):
            self._parts += len(parts) > 1
            parts.append(self.need(self.expression(level), "boolean"))
        return self.part(Logic("and" if op == "and" else "or", tuple(parts), at=token.at))

    def compare(self, token: Lexeme, left: Node, right: Node) -> Node:
        """A comparison, rewritten so that only '<', '<=' and '=' remain."""
        left, right = self.alike(token, left, right)
        if self._strict and (isinstance(left, Null) or isinstance(right, Null)):
            self.fail(token, "a comparison with NULL is never true. Write IS NULL or IS NOT NULL.")
        if token.value in _EQUALITIES:
            self.require_listed(left, right)
            self.require_listed(right, left)
        if left.kind == "boolean" and token.value not in _EQUALITIES:
            self.fail(token, "yes/no values can only be compared with = and <>.")
        op = token.value
        if op in ("<", "<="):
            return self.part(Test(op, (left, right), at=token.at))  # type: ignore[arg-type]
        if op in (">", ">="):
            return self.part(Test("<" if op == ">" else "<=", (right, left), at=token.at))
        if isinstance(left, Truth):
            left, right = right, left
        if isinstance(right, Truth) and not isinstance(left, Truth | Null):  # smoker = TRUE is smoker
            equal = left if right.value else self.part(Logic("not", (left,), at=token.at))
        else:
            equal = self.part(Test("=", (left, right), at=token.at))
        return equal if op in ("=", "==") else self.part(Logic("not", (equal,), at=token.at))

    def predicate(self, left: Node) -> Node:
        """IS NULL, IN, BETWEEN, LIKE, each possibly with NOT."""
        token = self.take()
        if token.value == "IS":
            negated = self.accept("NOT") is not None
            if self.now.value in ("TRUE", "FALSE"):
                self.fail(self.now, "IS can only be followed by NULL or NOT NULL. Write a yes/no column alone, or with NOT.")
            self.expect("NULL")
            node = self.part(Test("null", (left,), at=token.at))
        else:
            negated = token.value == "NOT"
            if negated:
                token = self.take()
            if token.value == "IN":
                node = self.members(token, left)
            elif token.value == "BETWEEN":
                low = self.expression(4)
                self.expect("AND")
                high = self.expression(4)
                if "date" in (left.kind, low.kind, high.kind):
                    left, low, high = (self.need(operand, "date") for operand in (left, low, high))
                first = self.compare(Lexeme("op", "<=", token.at), low, left)
                node = self.part(Logic("and", (first, self.compare(Lexeme("op", "<=", token.at), left, high)), at=token.at))
            elif token.value == "LIKE":
                pattern = self.take()
                if (
                    pattern.kind != "text"
                    or len(pattern.value) > LONGEST_TEXT
                    or "_" in pattern.value
                    or "%" in pattern.value.strip("%")
                ):
                    self.fail(pattern, "LIKE takes 'start%', '%end' or '%middle%', in quotes and without _.")
                node = self.part(Test("like", (self.need(left, "text"), Text(pattern.value, at=pattern.at)), at=token.at))
            else:
                self.fail(token, "expected IN, BETWEEN or LIKE after NOT.")
        return self.part(Logic("not", (node,), at=token.at)) if negated else node

    def members(self, token: Lexeme, left: Node) -> Node:
        """IN (literal, …)."""
        if isinstance(left, Null):
            self.fail(token, "NULL IN (...) would be no on every row. Write a column before IN.")
        self.expect("(")
        items: list[Node] = []
        while True:
            where = self.now
            item = self.expression(4)
            if not isinstance(item, Number | Text | Truth):
                self.fail(where, "IN takes a list of numbers or texts.")
            _, item = self.alike(token, left, item)
            self.require_listed(left, item)
            items.append(item)
            self._parts -= 1  # lists have their own limit
            if len(items) > MOST_ITEMS:
                self.fail(where, f"the list has more than {MOST_ITEMS} items. Expected a shorter list.")
            if not self.accept(","):
                break
        self.expect(")")
        if isinstance(items[0], Truth) and len({item.value for item in items if isinstance(item, Truth)}) == 1:
            return self.compare(Lexeme("op", "=", token.at), left, items[0])
        return self.part(Test("in", (left, *items), at=token.at))

    def arithmetic(self, token: Lexeme, left: Node, right: Node) -> Node:
        """One of + - * / %, on two numbers."""
        node = Call(token.value, (self.need(left, "number"), self.need(right, "number")), "number", token.at)
        self.bounded(node)
        return self.part(node)

    def call(self, name: Lexeme) -> Node:
        """A function call, with its arguments checked."""
        function = _FUNCTIONS.get(name.value.lower())
        if function is None:
            if name.value.lower() in _AGGREGATES:
                self.fail(
                    name,
                    f"{name.value} aggregates rows, but a question is evaluated on one row at a time. Ask for a "
                    "statistic instead: holdout.mean(...), or --as mean in the shell; also quantile, variance, share.",
                )
            if name.value.lower() in FUNCTIONS:
                self.fail(name, f"there is no function {name.value!r}. {FUNCTIONS[name.value.lower()]}")
            near = did_you_mean(name.value.lower(), _FUNCTIONS)
            self.fail(name, f"there is no function {name.value!r}.{near} Functions: {', '.join(sorted(_FUNCTIONS))}.")
        self.expect("(")
        args: list[Node] = []
        if not self.accept(")"):
            args.append(self.expression(0))
            while self.accept(","):
                args.append(self.expression(0))
            self.expect(")")
        arg_kinds, kind = function
        repeats = arg_kinds[-1] == "…"
        least = len(arg_kinds) - repeats
        if len(args) < least or (len(args) > least and not repeats):
            self.fail(name, f"{name.value} takes {least}{' or more' if repeats else ''} values, not {len(args)}.")
        checked = tuple(self.need(arg, arg_kinds[0]) for arg in args)  # type: ignore[arg-type]
        node = Call(name.value.lower(), checked, kind, name.at)
        self.bounded(node)
        return self.part(node)

    def case(self, token: Lexeme) -> Node:
        """CASE WHEN … THEN … ELSE … END, numbers or yes/no."""
        branches: list[tuple[Node, Node]] = []
        while self.accept("WHEN"):
            condition = self.need(self.expression(0), "boolean")
            self.expect("THEN")
            branches.append((condition, self.expression(0)))
        if not branches:
            self.fail(self.now, "CASE needs at least one WHEN … THEN ….")
        otherwise = self.expression(0) if self.accept("ELSE") else Null(at=token.at)
        self.expect("END")
        kinds = {value.kind for _, value in branches if not isinstance(value, Null)} | (
            set() if isinstance(otherwise, Null) else {otherwise.kind}
        )
        if len(kinds) > 1 or not kinds <= {"number", "boolean"}:
            self.fail(token, "all values of a CASE must be numbers, or all yes/no.")
        kind: Kind = "boolean" if kinds == {"boolean"} else "number"
        cases = tuple((condition, self.as_kind(value, kind)) for condition, value in branches)
        return self.part(Case(cases, self.as_kind(otherwise, kind), kind, token.at))

    def column(self, token: Lexeme) -> Node:
        """A column of the public table."""
        kind = self._columns.get(token.value)
        if kind is None:
            if token.value.upper() in ("SELECT", "FROM", "WHERE"):
                self.fail(token, "a question is only a condition, such as age > 40, without SELECT, FROM or WHERE.")
            near = did_you_mean(token.value, self._columns)
            text = "" if near else f" Put a text in single quotes: {token.value!r}."
            longer = [name for name in self._columns if name.startswith(token.value + " ")]
            if longer:
                near, text = f' Put names with spaces in double quotes: "{longer[0]}".', ""
            self.fail(
                token,
                f"there is no column {token.value!r}.{near}{text} The columns are: {', '.join(self._columns) or 'none'}.",
            )
        return self.part(Column(token.value, kind, token.at))

    def need(self, node: Node, kind: Kind) -> Node:
        """The node, if it is of this kind or can become so; otherwise fail."""
        if isinstance(node, Null):
            return replace(node, kind=kind)
        if kind == "date" and isinstance(node, Text):
            return self.date(node)
        if node.kind != kind:
            hint = " Put dates in quotes: '2024-05-01'." if kind == "date" and node.kind == "number" else ""
            if kind == "date" and isinstance(node, Column):
                hint = (
                    " A date column needs dates such as 2024-05-01 in the file, or pd.to_datetime in a frame; anything else "
                    "is text."
                )
            self.fail(node, f"this is {_WORDS[node.kind]}. Expected {_WORDS[kind]}.{hint}")
        return node

    @staticmethod
    def as_kind(node: Node, kind: Kind) -> Node:
        return replace(node, kind=kind) if isinstance(node, Null) else node

    def alike(self, token: Lexeme, left: Node, right: Node) -> tuple[Node, Node]:
        """Two sides of a comparison, of one kind; a text next to a date is read as a date."""
        if left.kind == "date" or right.kind == "date":
            return self.need(left, "date"), self.need(right, "date")
        if isinstance(left, Null):
            return replace(left, kind=right.kind), right
        if isinstance(right, Null):
            return left, replace(right, kind=left.kind)
        if left.kind != right.kind:
            left, right = _as_truth(left, right), _as_truth(right, left)
        if left.kind != right.kind:
            hint = ""
            if isinstance(left, Test) and token.value in _COMPARISONS:
                hint = " Join two comparisons with AND: 0 < x AND x < 1."
            elif "boolean" in (left.kind, right.kind):
                hint = " Write the column alone, or with NOT; or compare it with 'yes' or 'no'."
            elif isinstance(left, Text) or isinstance(right, Text):
                hint = " Write numbers without quotes."
            elif isinstance(left, Number) or isinstance(right, Number):
                hint = " Put the value in quotes, or declare the column as a number in the schema."
            self.fail(token, f"{_WORDS[left.kind]} cannot be compared with {_WORDS[right.kind]}.{hint}")
        return left, right

    def require_listed(self, column: Node, item: Node) -> None:
        """Fail for a word that the column does not list: it would be charged, and most often it is misspelt.

        Where other words may occur, LIKE asks for one of them.
        """
        words = self._words.get(column.name) if isinstance(column, Column) else None
        if words is None or not isinstance(item, Text) or item.value in words.listed or not self._strict:
            return
        name = getattr(column, "name", "")
        listed = sorted(words.listed)
        near = did_you_mean(item.value, listed)
        shown = ", ".join(repr(word) for word in listed[:12]) + (", …" if len(listed) > 12 else "")
        if words.closed:
            self.fail(item, f"{name!r} is never {item.value!r}.{near} It holds {shown}.")
        asked = name if name.isidentifier() else f'"{name}"'
        word = "'" + item.value.replace("'", "''") + "'"
        wild = any(mark in item.value for mark in "%_")
        anyway = f"lower({asked}) = {word.lower()}" if wild else f"{asked} LIKE {word}"
        self.fail(
            item,
            f"{item.value!r} is not a listed value of {name!r}.{near} The schema lists {shown}. Nothing was charged. To ask "
            f"about other words, write {anyway}.",
        )

    def date(self, node: Text) -> Node:
        """An ISO date or time as microseconds since 1970."""
        try:
            moment = datetime.fromisoformat(node.value.strip())
        except ValueError:
            self.fail(
                node,
                f"{node.value!r} is not a date. Expected '2024-05-01', '2024-05-01 13:30:00' or '2024-05-01T13:30:00Z'.",
            )
        micros = date_of(moment)
        if micros != micros:
            self.fail(node, f"{node.value!r} is outside the years 1 to 9999, in UTC. Expected a date within them.")
        return Number(micros, "date", node.at)

    def bounded(self, node: Call) -> None:
        """Fail for an expression that could overflow or underflow."""
        if self._strict and (fault := out_of_range(node)) is not None:
            self.fail(node, fault)


def _as_truth(node: Node, beside: Node) -> Node:
    """A constant beside a yes/no column as TRUE or FALSE, if it is a word or number that files write for them."""
    if isinstance(node, Text | Number) and isinstance(beside, Column) and beside.kind == "boolean":
        truth = truth_of(node.value)
        return node if truth is None else Truth(truth, at=node.at)
    return node


def _counted(node: Node) -> tuple[Node, ...]:
    """The operands of a node that count against the limits; list items have their own limit."""
    return node.args[:1] if isinstance(node, Test) and node.op == "in" else operands(node)
