"""Nasty rows and random well-typed questions: what every engine has to agree on."""

from __future__ import annotations

import numpy as np

from everhold.errors import QuestionError
from everhold.queries.expression import bounded_mean, expression, number

KINDS = {"x": "number", "n": "number", "b": "boolean", "m": "boolean", "s": "text", "t": "text", "d": "date"}

X = [0.0, -0.0, 1.0, -1.5, np.nan, np.inf, -np.inf, 1e-310, 1e300, 2.5, 7.0, 40.0, -3.0, 1e15, 0.1, 690.5, 80.0, 1e-30]
N = [0, 1, -1, 2, 3, 2**53, -(2**62), 7, 40, 41, 5, 6, 100, -7, 12, 13]
WORDS = [
    "",
    "a",
    "A",
    "ab",
    "b%",
    "é",
    "É",
    "日本",
    None,
    "it's",
    "a b",
    "Z",
    "zz",
    "ß",
    "ÅRHUS",
    "ΣΟΦΙΑ",
    "_",
    "a\x00b",
    "😀",
]
DAYS = [
    "2024-02-29",
    "1969-12-31",
    "NaT",
    "2000-01-01T23:59:59",
    "2023-07-03T12:30:00.123456",
    "1600-01-01",
    "2199-12-31",
]


def nasty(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Raw columns that hold every kind of trouble."""
    rng = np.random.default_rng(seed)

    def words() -> np.ndarray:
        return np.array([WORDS[i] for i in rng.integers(0, len(WORDS), rows)], dtype=object)

    calm = rng.normal(10.0, 30.0, rows).round(1)
    return {
        "x": np.where(rng.random(rows) < 0.5, np.array(X)[rng.integers(0, len(X), rows)], calm),
        "n": np.array(N, dtype=np.int64)[rng.integers(0, len(N), rows)],
        "b": rng.random(rows) < 0.5,
        "m": np.array([[True, False, None][i] for i in rng.integers(0, 3, rows)], dtype=object),
        "s": words(),
        "t": words(),
        "d": np.array(DAYS, dtype="datetime64[us]")[rng.integers(0, len(DAYS), rows)],
    }


class Writer:
    """Writes random well-typed text."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def pick(self, *options):
        return options[int(self._rng.integers(len(options)))]

    def number(self, depth: int) -> str:
        if depth <= 0 or self._rng.random() < 0.25:
            return self.pick("x", "n", "x", "n", "0", "1", "2.5", "-3", "40", "1e3", "0.1", "NULL", "length(s)")
        deeper = depth - 1
        kind = int(self._rng.integers(8))
        if kind < 3:
            return f"({self.number(deeper)} {self.pick('+', '-', '*', '/', '%')} {self.number(deeper)})"
        if kind < 5:
            name = self.pick("abs", "sqrt", "floor", "ceil", "round", "ln", "exp", "- ")
            return f"{name}({self.number(deeper)})"
        if kind == 5:
            name = self.pick("least", "greatest", "coalesce")
            return f"{name}({self.number(deeper)}, {self.number(deeper)})"
        if kind == 6:
            return f"{self.pick('year', 'month', 'day', 'weekday', 'hour')}(d)"
        return f"CASE WHEN {self.test(deeper)} THEN {self.number(deeper)} ELSE {self.number(deeper)} END"

    def text(self) -> str:
        return self.pick("s", "t", "lower(s)", "upper(t)", "lower(upper(s))", "'a'", "'é'", "'it''s'", "''", "'日本'")

    def test(self, depth: int) -> str:
        if depth <= 0 or self._rng.random() < 0.1:
            return self.pick(
                "b", "m", "TRUE", "s IS NULL", "x IS NOT NULL", "d IS NULL", "m IS NULL", "m = b", "m <> TRUE",
                "s IN ('a', 'zz', 'it''s', 'é')", "x NOT IN (1, 2.5, 40)", "d > '2023-07-03'", "m IN (TRUE)",
                "d BETWEEN '1900-01-01' AND '2023-07-03 12:30:00'", "s LIKE 'a%'", "t NOT LIKE '%b'", "lower(s) LIKE '%é%'",
            )  # fmt: skip
        deeper = depth - 1
        kind = int(self._rng.integers(8))
        if kind < 3:
            op = self.pick("<", "<=", ">", ">=", "=", "<>")
            return f"({self.number(deeper)} {op} {self.number(deeper)})"
        if kind == 3:
            return f"({self.text()} {self.pick('<', '<=', '>', '=', '<>')} {self.text()})"
        if kind == 4:
            return f"({self.number(deeper)} BETWEEN {self.number(deeper)} AND {self.number(deeper)})"
        if kind == 5:
            return f"(NOT {self.test(deeper)})"
        if kind == 6:
            return f"CASE WHEN {self.test(deeper)} THEN {self.test(deeper)} ELSE {self.pick('NULL', self.test(deeper))} END"
        return f"({self.test(deeper)} {self.pick('AND', 'OR')} {self.test(deeper)})"


def questions(count: int, seed: int, depth: int = 3):
    """Random questions, four in five yes/no, the others bounded_mean; what could overflow is refused and written anew."""
    writer = Writer(seed)
    made = []
    while len(made) < count:
        try:
            if len(made) % 5:
                made.append(expression(writer.test(depth), KINDS))
            else:
                given = expression(writer.test(1), KINDS).tree if len(made) % 2 else None
                tree = number(writer.number(depth), KINDS)
                made.append(bounded_mean(tree, -50.0, 100.0, given=given, reverse=len(made) % 3 == 0))
        except QuestionError as error:
            if not any(
                limit in str(error) for limit in ("1e+280", "1e-280", "parts", "deep", "IS NULL", "every row", "build on")
            ):
                raise
    return made
