"""Rows and questions on which engines disagree by nature: a permanent list. Every dialect has to pass it.

Random questions seldom meet these: halves that round to even, the last microsecond of a year, the text `${env:HOME}`, the
character NUL, a decimal number that no double can hold. Each was a fault, or would be one with the spelling that comes to
mind first.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np

from everhold.data.table import RowTable
from everhold.errors import QuestionError
from everhold.queries.expression import bounded_mean, expression, number
from everhold.queries.expression.columns import encode

NAN, INF = float("nan"), float("inf")
ODD = 'Größe "A" `b` c'
KINDS = {"x": "number", "y": "number", "n": "number", "f": "number", "dec": "number", "i": "number", ODD: "number",
         "s": "text", "t": "text", "c": "text", "d": "date", "day": "date", "zoned": "date", "m": "boolean", "bit": "boolean"}  # fmt: skip

X = [
    0.0, -0.0, 1e-30, -1e-30, 9.999999999999999e-31, 1e15, -1e15, 1e16, INF, -INF, NAN, None, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5,
    0.49999999999999994, 450359962737049.75, 4503599627370495.5, 2251799813685248.5, -2251799813685248.5, 1e-29, 5e-324, 7.0, -7.0,
    3.0000000000000004, 2.2250738585072014e-308, 1.7976931348623157e308, 80.0, 80.00000000000001, -87.0, -87.00000000000001, 0.1,
    0.2, 0.30000000000000004, 1 / 3, 9007199254740993.0, 1.0, 2.0, 10.0, 999999999999999.9, 123456789.125,
]  # fmt: skip
N = [0, 1, -1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1, 10**15, 10**15 + 1, -(10**15) - 1, 7, 40, None]
F = [0.0, 0.1, -0.1, 1.5, 2.5, 16777217.0, 1e-38, 3e38, NAN, INF, -INF, 1e-31, None]
DEC = [
    "0",
    "0.1",
    "-0.1",
    "1.005",
    "12345678901234567.123",
    "-12345678901234567.5",
    "1000000000000000.001",
    "1",
    "2.5",
    None,
]
WORDS = [
    "", "a", "A", "\x01", "\t", "\n", "a\nb", "a\\b", "\\", "\\u0041", "${spark.app.name}", "${env:HOME}", "$", "${", "'", "''", "it's",
    '"', "`", "%", "_", "a%b", "a_b", "axb", "é", "É", "e\u0301", "ﬁ", "ß", "ẞ", "SS", "İ", "i̇", "ı", "I", "i", "σ", "ς", "Σ", "ǆ", "ǅ", "Ǆ",
    "😀", "\U00010400", "\U00010428", "\uffff", "\ufeff", "\u200b", "zz", "Z", "b", "B", " a", "a ", "  ", "\u00a0", "\u2028", "NULL",
    "null", "NaN", "日本", "日", "a" * 999 + "é" + "b" * 3, "a" * 1000, "a" * 1001, "a" * 999, "\x7f", "\x80", "Ÿ", "ÿ", "ŉ", "K", "Å", "Å",
    "-- ", "/*", "a\x00b", "\x00", "a\x00", None,
]  # fmt: skip
WIDE = ["1e400", "-1e400", "1e-400", "0.99999999999999999999999e-30", "NaN"]
"""Decimal numbers that no fixed number of digits holds."""
C = ["a", "b", "A", "é", "it", None]
D = [
    "0001-01-01", "9999-12-31T23:59:59.999999", "1969-12-31T23:59:59.999999", "1970-01-01", "1582-10-04", "1582-10-15", "1582-10-10",
    "1900-02-28", "1900-03-01", "2000-02-29", "2024-02-29T23:59:59.999999", "2024-12-30", "2021-01-03", "2255-06-05T23:47:34.740993",
    "2255-06-05T23:47:34.740992", "1684-07-28T00:12:25.259007", "2024-03-31T02:30:00", "2024-10-27T02:30:00", "1883-11-18T12:03:58",
    "1600-02-29T01:00:00", "0004-02-29", "9999-12-31", "2024-07-01T03:59:59.999999", "2024-07-01T04:00:00", "2199-08-01T13:14:15.654321",
    "2250-03-04T05:06:07.890123", "5000-12-31T23:59:59.999999", "0800-12-31T23:59:59.999999", None,
]  # fmt: skip


def rows(size: int = 700, seed: int = 7, *, nul: bool = True, wide: bool = False) -> dict[str, list]:
    """Columns of Python's own values. Every value of the lists occurs.

    Without `nul`, no text holds that character; with `wide`, decimal numbers may have any number of digits.
    """
    rng = np.random.default_rng(seed)

    def pick(pool):
        index = np.concatenate([np.arange(len(pool)), rng.integers(0, len(pool), size)])[:size]
        return [pool[one] for one in rng.permutation(index)]

    words = [word for word in WORDS if word is None or nul or "\x00" not in word]
    moments = [None if text is None else dt.datetime.fromisoformat(text) for text in D]
    return {
        "x": pick(X),
        "y": pick(X),
        "n": pick(N),
        "f": [None if one is None else float(np.float32(one)) for one in pick(F)],
        "dec": [None if one is None else Decimal(one) for one in pick([*DEC, *(WIDE if wide else [])])],
        "i": pick([0, 1, -1, 32767, -32768, 7, None]),
        ODD: pick([0.0, 1.0, 2.5, None]),
        "s": pick(words),
        "t": pick(words),
        "c": pick(C),
        "d": pick(moments),
        "day": [None if one is None else one.date() for one in pick(moments)],
        "zoned": [None if one is None else one.replace(tzinfo=dt.UTC) for one in pick(moments)],
        "m": pick([True, False, None]),
        "bit": pick([0, 1, 2, -1, None]),
    }


def table(columns: dict[str, list], kinds=None) -> RowTable:
    """The same rows in memory, each value read by itself."""
    chosen = KINDS if kinds is None else kinds
    return RowTable(
        {name: encode(np.array([*columns[name], None], dtype=object)[:-1], kind) for name, kind in chosen.items()}
    )


LISTED = "('a', 'A', 'é', '', 'it''s', '\t', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'zz')"
DIGITS = "(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)"
TEXT = [
    "s < 'a\x00b'", "s <= 'a\x00'", "s > 'a\x00b'", "s >= 'a\x00'", "s = 'a\x00b'", "s <> 'a\x00b'", "s IN ('a\x00b', 'a')",
    "s IN ('\x00', '\x00\x00')", "s NOT IN ('a\x00b', 'b')", "s LIKE '%\x00%'", "s LIKE 'a\x00%'", "s NOT LIKE '%\x00b'", "'a\x00' < s",
    "'a\x00' = s", "lower('A\x00') = s", "s < t", "s <= t", "s = t", "lower(s) = lower(t)", "upper(s) < upper(t)", "lower(s) = 'σ'",
    "upper(s) = 'I'", "lower(s) = 'i'", "upper(s) = 'SS'", "lower(s) = 'k'", "lower(s) = 'å'", "upper(s) = 'Ÿ'", "lower(upper(s)) = s",
    "s = '${spark.app.name}'", "s = '${env:HOME}'", "s LIKE '${%'", "s = '\\u0041'", "s = '\\'", "s = 'a\\b'", "s LIKE '%\\%'",
    "s = ''''", "s = ''''''", "s = '`'", "s = '\"'", "s LIKE '%''%'", "s = 'a\nb'", "s LIKE '%\n%'", "s = '\t'", "s = '\x01'", "s = '\x7f'",
    "s = ''", "s > ''", "s LIKE '% '", "s = 'a'", "s = 'a '", "s = '/*+ x */ --'", "s <> '-- '", "s LIKE '%é'", "s = 'é'", "s = 'É'",
    "s > '😀'", "s >= '\uffff'", "s < '\U00010400'", "s LIKE '😀%'", "s LIKE '%😀'", "length(s) = 1", "length(s) = 2", "length(s) = 1000",
    "length(s) > 999", "s = t OR s IS NULL", f"s IN {LISTED}", f"s NOT IN {LISTED}", "length(lower(s)) = length(s)", "s = '日'",
    "s LIKE '日%'", "s > '\ufeff'", "s < 'B'", "s >= 'Z'", "s < 'a'", "s <= 'i'", "'B' < 'a' OR m", "'é' < 'z' OR m",
    "s LIKE '%\\b'", "s LIKE '\\%'", "c = 'a'", "c LIKE '%t'", "c < 'b'", "length(c) = 1",
    "c IN ('a', 'it')", "s LIKE '%'", f"s = '{'a' * 1000}'", f"s = '{'a' * 1001}'", f"s < '{'a' * 1001}'", f"s LIKE '{'a' * 999}%'",
    f"s = '{'a' * 999}'", f"s > '{'a' * 999}'", "'a' IS NULL OR m", "s LIKE '%$%'", "s = '$'", "lower('É') = s",
]  # fmt: skip
NUMBER = [
    f"x IN {DIGITS}", f"-(x) IN {DIGITS}", "(x * 0) IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)", f"-(x) NOT IN {DIGITS}", "x = 0", "x <> 0",
    "x < 0", "x <= 0", "x > 0", "x >= 0", "NOT x < 0", "x = y", "x <> y", "x < y", "NOT (x < y)", "x <= 1000000000000000",
    "x >= 1000000000000000", "x < 1e15", "x = 1e15", "x > 0.1 + 0.2", "x = 0.30000000000000004", "x = 0.1 + 0.2", "x >= 1e-30",
    "x > 1e-30", "x < 1e-30", "x = 1e-30", "x / y > 0", "x / y = 1", "x / 0 = 1", "x / 0 IS NULL", "x % 0 IS NULL", "x % y = 0", "x % 3 = 1",
    "x % -3 = -1", "-(x) % 3 < 0", "x % 1e-30 = 0", "x % 1e-30 < 1", "x % 0.1 > 0.05", "floor(x) = x", "ceil(x) = x", "round(x) = x",
    "round(x) = 2", "round(x) = 0", "round(x) = 4", "round(-(x)) = -2", "round(y) % 2 = 0", "floor(x) = -1", "ceil(x) = 0", "floor(x * x * x * x) > 1e15",
    "ceil(x * x * y * y) > 1e15", "round(x * x * x * y) < 0", "floor(x / y) > 1e15", "x % y > 1e14", "sqrt(x) > 1", "sqrt(x) IS NULL",
    "sqrt(-(x)) IS NULL", "ln(x) > 1", "ln(x) IS NULL", "exp(x) > 1e15", "exp(x) IS NULL", "exp(x) = 0", "exp(x) = 1", "exp(y) < 1e-30",
    "ln(x) = 0.9162907600402832", "ln(x) = 1.9459100961685181", "exp(x) = 4.4816889762878418", "exp(x) = 12.182494163513184",
    "ln(x) = -1.0986123085021973", "exp(y) = 1.1051709651947021", "least(x, y) = x", "greatest(x, y) IS NULL", "least(x, y, n) < 0",
    "coalesce(x, y) = y", "coalesce(x / y, n) > 1", "coalesce(NULL, x) IS NULL", "abs(x) = 0", "n >= 1e15",
    "n >= 1000000000000000", "n = 1000000000000000", "n / 2 > 1", "n / 7 = 1", "n % 2 = 1", "n <= -1e15",
    "(n + 1) / 2 * 2 = n + 1", "f = 0.1", "f > 0.1", "f >= 0.10000000149011612", "f = 16777216", "f > 1e14", "f = 0", "f <> 0", "f IS NULL",
    "NOT f > 1", "dec = 0.1", "dec > 1e15", "dec >= 1e15", "dec < 0", "dec = 1.005", "dec * 2 = 5", "dec <= -1e15", "i = -32768", "i / 2 = 3.5",
    f'"{ODD.replace(chr(34), chr(34) * 2)}" > 1', "1/3 * 3 = 1 AND m", "7/2 = 3.5 AND m", "5 % 3 = 2 AND m", "1 / 0 = 1 OR m", "1 / 0 IS NULL AND m",
    "sqrt(0 - 1) IS NULL AND m", "ln(0) IS NULL AND m", "exp(1000) IS NULL AND m", "exp(-1000) = 0 AND m", "0 / 0 IS NULL AND m",
    "CASE WHEN x > 0 THEN 1 / 0 ELSE 2 END = 2", "CASE WHEN y <> 0 THEN x / y ELSE 0 END > 1", "y <> 0 AND x / y > 1", "x * x > 0", "x * y * x >= 0",
    "x / 1e15 / 1e15 / 1e15 = 0", "(x > 0 AND ln(x) > 0) OR (x < 0 AND sqrt(-(x)) > 0)", "x + 0.1 = y + 0.1", "0.1 * 3 = x", "x * 1.1 = y",
    "abs(x) >= 0", "x + y IS NULL", "ln(abs(x) + 1) = ln(abs(y) + 1)", "exp(x / 10) = exp(y / 10)", "x - x = 0", "x % 2 = 1", "x % 2 = -1",
    "floor(x) <> round(x)", "ceil(y) <> round(y)", "floor(-(x)) = -(ceil(x))", "round(x / 3) = round(y / 3)",
]  # fmt: skip
DATE = [
    "year(d) = 1", "year(d) = 9999", "year(d) = 1969", "hour(d) = 23", "weekday(d) = 0", "weekday(d) = 6", "weekday(d) = 4", "month(d) = 2",
    "day(d) = 29", "day(d) = 31", "day(d) = 4", "day(d) = 10", "hour(d) = 2", "hour(d) = 12", "d > '1969-12-31 23:59:59.999998'",
    "d < '1970-01-01'", "d = '2024-02-29 23:59:59.999999'", "d <= '0001-01-01'", "d = '2255-06-05 23:47:34.740993'",
    "d < '2255-06-05 23:47:34.740993'", "d = '2199-08-01 13:14:15.654321'", "d = '2250-03-04 05:06:07.890123'", "d IS NULL", "d < '0001-01-02'",
    "year(d) % 4 = 0 AND month(d) = 2", "d BETWEEN '1582-10-04' AND '1582-10-15'", "year(d) = 1582 AND day(d) > 4", "d = '2024-03-31 02:30:00'",
    "d = zoned", "d < day", "day = '2000-02-29'", "year(day) = 9999", "weekday(day) = 3", "hour(day) = 0", "zoned < '1970-01-01'",
    "hour(zoned) = 2", "hour(zoned) = 23", "day(zoned) = 31", "zoned = '2255-06-05 23:47:34.740993'", "zoned IS NULL", "day IS NULL",
    "d >= '9999-12-31 23:59:59.999999'", "d IN ('2024-12-30', '2021-01-03', '1684-07-28 00:12:25.259007')", "month(zoned) = 12", "year(d) = 5001",
    "year(d) = 801", "hour(d) = 0", "day(zoned) = 1", "weekday(zoned) = 1",
]  # fmt: skip
BOOLEAN = [
    "m = TRUE", "m <> TRUE", "m IN (TRUE, FALSE)", "m NOT IN (TRUE)", "NOT m", "m IS NULL", "m = (x > 0)", "(m = TRUE) = (x > y)", "bit", "NOT bit",
    "CASE WHEN m THEN NULL ELSE TRUE END", "NOT CASE WHEN m THEN NULL ELSE x > 0 END", "(m AND x > 0) IS NULL", "(m OR x > 0) IS NULL",
    "CASE WHEN m THEN x WHEN NOT m THEN y END > 0", "bit IS NULL", "m = bit",
]  # fmt: skip
MEANS = [
    "x", "y", "x / y", "n", "exp(x)", "ln(abs(x))", "x % 7", "round(x)", "x * 1e-30 * 1e-30", "length(s)", "year(d)", "CASE WHEN m THEN x END", "f",
    "dec", "0.5", "-0.5", "1/0", "weekday(d) + hour(d) / 24", "x * x * x", "least(x, y)", "exp(x / 100) * ln(abs(y) + 2)",
]  # fmt: skip
RANGES = [(-1.0, 1.0), (0.0, 1e-20), (-1e15, 1e15), (0.1, 0.3), (0.0, 3.0)]
RAW_RANGES = [(-1e-13, 1e-13), (0.0, 1e-13), (-0.5, 1.5), (-3.0, 0.0), (1e-14, 1.0)]
"""For stored columns, which have a shorter way to their steps."""


def deep() -> list[str]:
    """Nested as deeply as the language allows: where an engine merges subqueries, the text would double at each level."""
    found = []
    for outer in (
        "floor({} + 0.5)",
        "sqrt(abs({}) + 1)",
        "least({}, 7, n)",
        "CASE WHEN ({}) > 1 THEN 1 ELSE 2 END",
        "({} + 3) % 7",
        "ln(abs({}) + 2)",
    ):
        text = "x"
        while True:
            try:
                expression(f"{outer.format(text)} > 1", KINDS)
            except QuestionError:
                break
            text = outer.format(text)
        found.append(f"{text} > 1")
    return found


def questions() -> list:
    """All of them, ready to be asked."""
    made = [expression(text, KINDS) for text in [*TEXT, *NUMBER, *DATE, *BOOLEAN, *deep()]]
    for place, text in enumerate(MEANS):
        given = expression("m OR x > 1", KINDS).tree if place % 3 == 0 else None
        made += [bounded_mean(number(text, KINDS), low, high, given=given, reverse=low == 0.1) for low, high in RANGES]
    for place, (low, high) in enumerate(RAW_RANGES):
        made += [
            bounded_mean(number(text, KINDS), low, high, reverse=(place + len(text)) % 2 == 0) for text in ("x", "f", "-x")
        ]
    return made
