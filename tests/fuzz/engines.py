"""A differential fuzz of engines: nasty tables in every form, random questions, equal sums or it is a fault.

    python -m tests.fuzz.engines --minutes 60
    python -m tests.fuzz.engines --seed 7 --tables 3      # again, to look at a fault

Tables are wide (up to 110 columns) or long (past 122,880 rows, where DuckDB begins to reorder), of several row groups or files,
with NaN beside NULL under statistics that leave NaN out, texts that look like numbers, truths and dates, units, and columns
named like DuckDB's own. Each is read by DuckDB in place, from Parquet into memory, from CSV, as an Arrow table and as a
pandas frame. On small tables every row is compared with a plain Python evaluator as well.
"""

from __future__ import annotations

import argparse
import datetime as dt
import decimal
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from everhold.data.sample import Sample
from everhold.data.schema import ColumnSchema, Schema
from everhold.errors import DataError, QuestionError
from everhold.queries.expression import bounded_mean, expression, number
from everhold.queries.expression.parser import RECORDED
from everhold.queries.expression.values import READ
from tests.engines.plain import STEPS, steps_of

NAN, INF = float("nan"), float("inf")
NUMBERS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.5, 7.0, 40.0, 1e15, -1e15, 1e16, 9.99e14, 1e-30, -1e-30, 9.9e-31, 1e-29, 5e-324,
    NAN, INF, -INF, None, 1e-15, 123456789.123, 80.0, 80.0000001, -87.0, -87.01, 0.1, 0.2, 0.30000000000000004, 1e300, 2.0**53,
]  # fmt: skip
CALM = [float(one) for one in range(1, 31)] + [NAN] * 8 + [None]
"""Statistics of such a column say that nothing is larger than 30."""
NUMBER_TEXTS = [
    "1", "01", "+1", "-1", " 1", "1 ", "1 2", "1e5", "1E5", "1e", "e1", "1e400", "-1e400", "1e-400", "inf", "Infinity", "0x10",
    "1_000", "١", "1.", "..5", ".5", "-.5", "+", "-", "1\n", "\t1", "1,5", "9" * 400, "0." + "0" * 400 + "1", "1d", "true",
    "\u00a01", "−1", "1e+05", "--1", "1e1.5", "  ", None,
]  # fmt: skip
DATE_TEXTS = [
    "2024-02-29", "2023-02-29", "2024-02-29 13:30:00", "2024-02-29T13:30", "2024-02-29 24:00:00", "0001-01-01", "0000-01-01",
    "9999-12-31 23:59:59.999999", "9999-12-31", "2024-13-01", "2024-1-1", " 2024-05-01 ", "2024-05-01T00:00:00.1",
    "2024-05-01 00:00:00.1234567", "2024-05-01Z", "2024-05-01T10:00Z", "2024-05-01 00:00:00+01", "2024-05-01T23:59:59-0330",
    "2024-05-01T10:00:00+24:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-01:00", "1969-12-31 23:59:59.999999",
    "1582-10-10", "infinity", "epoch", "today", "2024-05-01 13", "2024-05-01 13:60", "2024-05-01  13:30:00", "２024-05-01", None,
]  # fmt: skip
TRUTH_TEXTS = ["true", "TRUE", "True", "t", "T", "yes", "Y", "no", "N", "f", "false", "0", "1", " true", "true ", "tru", "on", "İ",
               "1.0", "\tt", None]  # fmt: skip
WORDS = [
    "", "a", "A", "aa", "ab", "b", "%", "_", "a%", "é", "É", "e\u0301", "ß", "SS", "ẞ", "İ", "i̇", "ı", "I", "ǆ", "ﬁ", "日本", "😀",
    "\u202eabc", "'", "''", '"', "\\", "it's", "ÿ", "Ÿ", "ς", "σ", "Σ", "Ж", "ж", "և", "Ա", "\U0010ffff", "\ufeffa", "a ", "  a",
    "x" * 999, "x" * 1000, "x" * 1001, "é" * 1000 + "z", None, "York",
]  # fmt: skip
MOMENTS = [None, dt.datetime(1, 1, 1), dt.datetime.max, dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1),
           dt.datetime(2024, 2, 29, 13, 30), dt.datetime(1582, 10, 10), dt.datetime(1600, 2, 29), dt.datetime(2262, 4, 11)]  # fmt: skip
KINDS = {"x": "number", "f": "number", "k": "number", "n": "number", "dec": "number", "big": "number", "tn": "number",
         "b": "boolean", "tb": "boolean", "s": "text", "t": "text", "c": "text", "d": "date", "td": "date", "dn": "date"}  # fmt: skip
CSV_SAFE = ("x", "k", "n", "b", "tb", "d", "td", "s")
ODD_NAMES = ["everhold_place", "file_row_number", "file_index", "rowid", "filename", "a b", 'q"q', "select", "Größe"]


@dataclass
class Found:
    """What a run has compared, and what differed."""

    tables: int = 0
    questions: int = 0
    pairs: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.tables} tables, {self.questions:,} questions, {self.pairs:,} row-question pairs, {len(self.faults)} faults"


class Writer:
    """Random well-typed text over the columns above."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def number(self, depth: int) -> str:
        pick = self.rng.choice
        if depth <= 0 or self.rng.random() < 0.2:
            return pick(["x", "k", "k", "k", "n", "f", "dec", "tn", "big", "x", "0", "1", "-1", "0.5", "2.5", "1e15", "1e-30", "80", "-87",
                         "NULL", "0.1", "3", "length(s)", "length(t)", "coalesce(x, 0)"])  # fmt: skip
        kind = self.rng.randrange(11)
        if kind < 4:
            return f"({self.number(depth - 1)} {pick('+-*/%')} {self.number(depth - 1)})"
        if kind < 6:
            return f"{pick(['abs', 'sqrt', 'floor', 'ceil', 'round', 'ln', 'exp', '-'])}({self.number(depth - 1)})"
        if kind == 6:
            parts = ", ".join(self.number(depth - 1) for _ in range(self.rng.randint(2, 4)))
            return f"{pick(['least', 'greatest', 'coalesce'])}({parts})"
        if kind == 7:
            return f"{pick(['year', 'month', 'day', 'weekday', 'hour'])}({pick(['d', 'td', 'dn'])})"
        if kind == 8:
            return f"CASE WHEN {self.test(depth - 1)} THEN {self.number(depth - 1)} WHEN {self.test(0)} THEN 2 END"
        if kind == 9:
            return f"CASE WHEN {self.test(depth - 1)} THEN {self.number(depth - 1)} ELSE {self.number(depth - 1)} END"
        return f"length({self.text()})"

    def text(self) -> str:
        if self.rng.random() < 0.5:
            return self.rng.choice(["s", "t", "lower(s)", "upper(s)", "lower(upper(t))", "upper(lower(s))"])
        return self.quoted(self.word())

    def word(self) -> str:
        return self.rng.choice([word for word in WORDS if word is not None and "%" not in word and "_" not in word])

    @staticmethod
    def quoted(word: str) -> str:
        return "'" + word.replace("'", "''") + "'"

    def test(self, depth: int) -> str:
        pick, word = self.rng.choice, self.quoted
        if depth <= 0 or self.rng.random() < 0.1:
            one = self.word()
            return pick([
                "b", "tb", "TRUE", "b IS NULL", "tb IS NOT NULL", "s IS NULL", "td IS NULL", "d IS NOT NULL", "x IS NULL",
                "tn IS NULL", "k IS NULL", "k > 31", "k <= 15", "k <> 7", "k >= 1e15", "k + 1 IS NULL", "abs(k) > 31", "b = tb", "tb <> TRUE", "tb IN (TRUE, FALSE)",
                f"s LIKE {word(one + '%')}", f"s LIKE {word('%' + one)}", f"t NOT LIKE {word('%' + one + '%')}", "s LIKE '%'",
                "d > '2024-02-29'", "td <= '1969-12-31 23:59:59.999999'", "d BETWEEN '0001-01-01' AND '9999-12-31'",
                "d >= '9999-12-31 23:59:59.999999'", "x IN (0, 0.5, 1e15)", "n NOT IN (1, 2, 3, 0)", "tn IN (1, -1, 1e15, 0)",
                f"s IN ({word(one)}, '')", f"NOT s IN ({word(one)})", "d = td", "d < dn", "x = 0", "x <> 0", "x < 0", "x <= 0",
                "0 < x", "x >= 0", "f = 0.1", "x > 1e-30", "x <= -1e-30", "x = 1e15", "x >= 1e15", "c = 'a'", "c IS NULL",
            ])  # fmt: skip
        kind = self.rng.randrange(9)
        if kind < 3:
            return f"({self.number(depth - 1)} {pick(['<', '<=', '>', '>=', '=', '<>'])} {self.number(depth - 1)})"
        if kind == 3:
            return f"({self.text()} {pick(['<', '<=', '>', '>=', '=', '<>'])} {self.text()})"
        if kind == 4:
            low, high = self.number(depth - 1), self.number(depth - 1)
            return f"({self.number(depth - 1)} {pick(['', 'NOT '])}BETWEEN {low} AND {high})"
        if kind == 5:
            return f"(NOT {self.test(depth - 1)})"
        if kind == 6:
            other = pick(["NULL", self.test(depth - 1)])
            return f"(CASE WHEN {self.test(depth - 1)} THEN {self.test(depth - 1)} ELSE {other} END)"
        if kind == 7:
            return f"(({self.test(depth - 1)}) IS {pick(['', 'NOT '])}NULL)"
        return f"({self.test(depth - 1)} {pick(['AND', 'OR'])} {self.test(depth - 1)})"

    def question(self, schema: Schema):
        """A question, four in five yes/no; what the language refuses is written anew."""
        while True:
            try:
                if self.rng.random() < 0.8:
                    return expression(self.test(self.rng.randint(0, 3)), schema.kinds, schema.words)
                low, high = sorted(self.rng.sample([-1e15, -1.0, 0.0, 1e-15, 0.5, 1.0, 2.5, 100.0, 1e15, 0.1], 2))
                given = expression(self.test(1), schema.kinds, schema.words).tree if self.rng.random() < 0.5 else None
                tree = number(self.number(self.rng.randint(0, 3)), schema.kinds, schema.words)
                return bounded_mean(tree, low, high, given=given, reverse=self.rng.random() < 0.5)
            except QuestionError:
                continue


def columns_of(rng: random.Random, size: int) -> dict[str, list]:
    """The values of every column, as Python's own."""

    def some(pool):
        if size <= 2_000:
            return [rng.choice(pool) for _ in range(size)]
        places = np.random.default_rng(rng.randrange(2**32)).integers(0, len(pool), size)
        return [pool[place] for place in places.tolist()]

    return {
        "x": some(NUMBERS),
        "f": [None if one is None else float(np.float32(one)) if not abs(one) > 1e38 else one for one in some(NUMBERS[:-2])],
        "k": some(CALM),
        "n": some([0, 1, -1, 2, 3, 2**62, -(2**63), 2**53 + 1, None, 7]),
        "big": some([0, 1, 2**63, 2**64 - 1, 10**15, 10**15 + 1, None]),
        "dec": [None if one is None else decimal.Decimal(one) for one in some(["0", "0.1", "-0.1", "1.005", "12345678901234567.123", None])],
        "tn": some(NUMBER_TEXTS),
        "b": some([True, False, None]),
        "tb": some(TRUTH_TEXTS),
        "s": some(WORDS),
        "t": some(WORDS),
        "c": some(["a", "b", None, "A"]),
        "d": some(MOMENTS),
        "td": some(DATE_TEXTS),
        "dn": [None if one is None else one.date() for one in some(MOMENTS)],
    }  # fmt: skip


TYPES = {"x": pa.float64(), "f": pa.float32(), "k": pa.float64(), "n": pa.int64(), "big": pa.uint64(), "dec": pa.decimal128(38, 3),
         "tn": pa.string(), "b": pa.bool_(), "tb": pa.string(), "s": pa.string(), "t": pa.large_string(), "c": pa.string(),
         "d": pa.timestamp("us"), "td": pa.string(), "dn": pa.date32()}  # fmt: skip
CSV_NOTHING = {"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null"}


def schema_of(names) -> Schema:
    """All kinds as declared; one text column with a closed list."""
    return Schema(
        tuple(
            ColumnSchema(name, kind, categories=("a", "b"), others="missing")
            if name == "c"
            else ColumnSchema(name, kind, *((0.0, 1.0) if kind == "number" else ()))
            for name, kind in KINDS.items()
            if name in names
        )
    )


@dataclass
class Case:
    """A table in all its forms."""

    columns: dict[str, list]
    samples: dict[str, Sample]
    schema: Schema
    unit: bool
    size: int


def make_case(rng: random.Random, folder: Path, *, long: bool) -> Case:
    """A random table, written and read in every way."""
    size = rng.choice([123_000, 140_000]) if long else rng.choice([1, 7, 64, 257, 900])
    columns = columns_of(rng, size)
    unit = rng.random() < 0.4
    arrays = {name: pa.array(values, TYPES[name], from_pandas=False) for name, values in columns.items()}
    filler = rng.choice([0, 40, 95]) if not long else 40
    for place in range(filler):
        name = ODD_NAMES[place] if place < len(ODD_NAMES) and rng.random() < 0.5 else f"filler{place}"
        arrays[name] = pa.array(np.arange(size) % (place + 2))
    units = rng.choice([["p", "q", "r", "P", "", None, "p "], [1, 2, 3, None, 2**62], [0.0, -0.0, 1.0, NAN, None, 1e300]])
    arrays["u"] = pa.array([rng.choice(units) for _ in range(size)], from_pandas=False)
    order = list(arrays)
    rng.shuffle(order)
    table = pa.table({name: arrays[name] for name in order})
    schema = schema_of(KINDS)
    group = rng.choice([1, 10, 1_000]) if size <= 900 else rng.choice([20_000, 122_880])
    if rng.random() < 0.3 and size > 10:
        cuts = sorted(rng.sample(range(1, size), 2))
        for part, (a, b) in enumerate(zip([0, *cuts], [*cuts, size], strict=True)):
            pq.write_table(table.slice(a, b - a), folder / f"part-{part}.parquet", row_group_size=group)
        place = str(folder / "part-*.parquet")
    else:
        pq.write_table(table, folder / "one.parquet", row_group_size=group)
        place = str(folder / "one.parquet")
    by = {"schema": schema, "unit": "u" if unit else None}
    samples = {
        "DuckDB in place": Sample(place, engine="duckdb", **by),
        "Parquet in memory": Sample(place, engine="memory", **by),
        "Arrow": Sample(table, **by),
    }
    if size <= 900:
        frame = table.to_pandas(types_mapper=pd.ArrowDtype)
        objects = pd.DataFrame({name: pd.Series([*columns[name], None], dtype=object)[:-1] for name in columns})
        objects["u"] = frame["u"].to_numpy(dtype=object, na_value=None)
        forms = {
            "pandas, Arrow types": frame,
            "pandas, objects": objects,
            "mapping of lists": {**columns, "u": list(objects["u"])},
        }
        for name, form in forms.items():
            try:
                samples[name] = Sample(form, **by)
            except DataError as refusal:  # a column without a single readable value is refused by its name
                _require_named(refusal)
    return Case(columns, samples, schema, unit, size)


def make_csv_case(rng: random.Random, folder: Path) -> Case:
    """A table of what CSV can hold, as CSV and as objects."""
    size = rng.choice([7, 257, 900])
    columns = {name: values for name, values in columns_of(rng, size).items() if name in CSV_SAFE}
    for name in ("s", "tb", "td"):
        columns[name] = [None if one is None or one.strip("\r\n") in CSV_NOTHING else one for one in columns[name]]
    columns["d"] = [None if one is None else one.isoformat(sep=rng.choice(" T")) for one in columns["d"]]
    texts = {
        name: [None if one is None or one != one else one if isinstance(one, str) else repr(one) for one in values]
        for name, values in columns.items()
    }
    columns["x"] = [None if one is None or one in (INF, -INF) else one for one in columns["x"]]  # no number in a file
    texts["x"] = [None if one is None or one != one else repr(one) for one in columns["x"]]
    pd.DataFrame(texts).to_csv(folder / "rows.csv", index=False, quoting=1)
    schema = schema_of(CSV_SAFE)
    objects = {name: np.array([*values, None], dtype=object)[:-1] for name, values in texts.items()}
    samples = {"CSV": Sample(str(folder / "rows.csv"), schema=schema)}
    try:
        samples["texts in memory"] = Sample(objects, schema=schema)
    except DataError as refusal:
        _require_named(refusal)
    return Case(columns, samples, schema, False, size)


def _require_named(refusal: DataError) -> None:
    if "has no value that can be read as" not in str(refusal):
        raise refusal


def compare(case: Case, rng: random.Random, found: Found, questions: int, label: str) -> None:
    """Equal sums, in batches and alone; on small tables equal to the plain evaluator too."""
    if len({sample.size for sample in case.samples.values()}) > 1:
        found.faults.append(f"{label}: sizes { ({name: one.size for name, one in case.samples.items()}) }")
    plain = None
    if not case.unit and case.size <= 300:
        plain = [
            {
                name: _known(READ[case.schema[name].kind](case.columns[name][place]), case.schema[name])
                for name in case.schema
            }
            for place in range(case.size)
        ]
    writer = Writer(rng)
    while questions > 0:
        asked = []
        while len(asked) < min(rng.choice([1, 3, 8, 20]), questions):
            try:
                asked.append(writer.question(case.schema))
            except KeyError:  # a column that this table has not
                continue
        questions -= len(asked)
        for one in asked:
            if one.yes_no and expression(one.name, case.schema.kinds, limits=RECORDED).name != one.name:
                found.faults.append(f"{label}: {one.name[:300]!r} does not read back")
        told = {name: _sums(sample, asked) for name, sample in case.samples.items()}
        if plain is not None:
            told["plain Python"] = [_plain_sums(one, plain) for one in asked]
        found.questions += len(asked)
        found.pairs += len(asked) * case.size * len(told)
        for place, question in enumerate(asked):
            sums = {name: every[place] for name, every in told.items()}
            if len(set(sums.values())) > 1:
                found.faults.append(f"{label}: {question.name[:300]!r} {sums}")


def _known(value, column: ColumnSchema):
    """A value as the plain evaluator takes it."""
    if value is None or value != value or (column.closed and value not in column.categories):
        return None
    return value


def _plain_sums(question, rows) -> tuple[int, int]:
    values = [steps_of(question, row) - STEPS // 2 for row in rows]
    return sum(values), sum(value * value for value in values)


def _sums(sample: Sample, asked) -> list:
    try:
        return sample.sums(asked)
    except Exception as error:  # a fault like any other
        return [f"{type(error).__name__}: {str(error)[:80]}"] * len(asked)


def fuzz(
    seed: int, *, tables: int | None = None, minutes: float | None = None, questions: int = 40, say=lambda _: None
) -> Found:
    """Compare so many tables, or for so long."""
    found = Found()
    ends = None if minutes is None else time.monotonic() + 60.0 * minutes
    while (tables is None or found.tables < tables) and (ends is None or time.monotonic() < ends):
        rng = random.Random(f"{seed}/{found.tables}")
        label = f"--seed {seed}, table {found.tables + 1}"
        with tempfile.TemporaryDirectory() as folder:
            long = found.tables % 12 == 5
            made = make_csv_case(rng, Path(folder)) if found.tables % 6 == 3 else make_case(rng, Path(folder), long=long)
            compare(made, rng, found, 12 if long else questions, label)
        found.tables += 1
        say(f"{found}")
        for fault in found.faults[-5:]:
            say(f"  {fault}")
    return found


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--tables", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    if given.minutes is None and given.tables is None:
        given.minutes = 60.0
    print(f"seed {given.seed}", flush=True)
    found = fuzz(given.seed, tables=given.tables, minutes=given.minutes, say=lambda text: print(text, flush=True))
    print(f"{'FAULTS' if found.faults else 'all equal'}: {found}")
    for fault in found.faults[:50]:
        print(" ", fault)
    sys.exit(1 if found.faults else 0)


if __name__ == "__main__":
    main()
