"""One row, one row's worth: replacing a row by anything at all moves every sum by at most one row, in every engine."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from everhold.data.sample import Sample
from everhold.data.schema import ColumnSchema, Schema
from everhold.errors import DataError
from everhold.queries.expression import bounded_mean, expression, number

ROWS = 40
ODD = [
    "unknown", "", " 7 ", "1e400", "yes", "2024-02-30", "2024-05-01T12:00:00Z", "it's", "x" * 1200, None, float("nan"),
    float("inf"), 10**400, -(10**400), 2**70, 0, 1, 2, -1, 0.5, 1e300, 5e-324, True, False, Decimal("NaN"), Decimal("1.5"),
    dt.date(2024, 5, 1), dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))), dt.datetime(9999, 12, 31, 23, 59),
    np.datetime64("NaT"), np.datetime64("9999-12-31T23:59:59.999999"), np.float32(0.1), np.int8(3), np.bool_(True), pd.NaT,
    b"bytes", (1, 2), {"a": 1}, object(), 1j,
]  # fmt: skip
BASES = {
    "whole": [50] * ROWS,
    "numbers": [0.5 * place for place in range(ROWS)],
    "truths": [place % 3 == 0 for place in range(ROWS)],
    "dates": [dt.datetime(2024, 1, 1) + dt.timedelta(days=place) for place in range(ROWS)],
    "words": [["York", "Leeds", "7"][place % 3] for place in range(ROWS)],
}
DECLARED = {"whole": ("number", "boolean", "text"), "numbers": ("number", "text"), "truths": ("boolean", "number", "text"),
            "dates": ("date", "text"), "words": ("text", "number")}  # fmt: skip
READABLE = {("words", "number"): "12", ("whole", "boolean"): 1}  # a column without any such value is refused
QUESTIONS = {
    "number": ["x > 40", "x IS NULL", "x = 1", "x IN (50, 7)"],
    "boolean": ["x", "x IS NULL", "NOT x"],
    "date": ["x > '2024-01-20'", "x IS NULL", "year(x) = 2024"],
    "text": ["x = '50'", "x = 'York'", "x < 'a'", "x IS NULL", "length(x) > 3", "x = 'true'"],
}


def sums(data, kind, engine="memory"):
    schema = Schema((ColumnSchema("x", kind, *((0.0, 100.0) if kind == "number" else ())),))
    asked = [expression(text, schema.kinds) for text in QUESTIONS[kind]]
    if kind == "number":
        asked.append(bounded_mean(number("x", schema.kinds), 0.0, 100.0))
    return np.array(Sample(data, schema=schema, engine=engine).sums(asked))


def moved_one_row(before, after):
    """A value moves by at most 2 on the [-1, 1] scale, its square by at most 1."""
    return bool(np.all(np.max(np.abs(before - after), axis=0) <= [65_536, 32_768**2]))


def as_list(items):
    return {"x": items}


def as_objects(items):
    return {"x": np.array([*items, None], dtype=object)[:-1]}


def as_pandas(items):
    return pd.DataFrame({"x": pd.Series([*items, None], dtype=object)[:-1]})


def as_pandas_guessed(items):
    return pd.DataFrame({"x": items})


MADE = [as_list, as_objects, as_pandas, as_pandas_guessed]


@settings(max_examples=300, deadline=None)
@given(
    base=st.sampled_from(sorted(BASES)),
    which=st.integers(0, 2),
    place=st.integers(0, ROWS - 1),
    odd=st.one_of(
        st.sampled_from(range(len(ODD))).map(lambda one: ODD[one]),
        st.text(max_size=8),
        st.floats(),
        st.integers(),
        st.datetimes(),
    ),
    made=st.sampled_from(MADE),
)
def test_one_odd_value_moves_one_row_in_memory(base, which, place, odd, made):
    kind = DECLARED[base][which % len(DECLARED[base])]
    items = list(BASES[base])
    if (base, kind) in READABLE:
        items = [*items[:-1], READABLE[base, kind]]
    changed = [*items]
    changed[place] = odd
    before = sums(made(items), kind)
    try:
        after = sums(made(changed), kind)
    except DataError as refusal:  # at creation, by the column's name: then there is no sum at all
        assert "'x'" in str(refusal)  # noqa: PT017
        return
    assert moved_one_row(before, after)


@pytest.mark.parametrize("base", ["whole", "truths", "dates"])
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("odd", ["unknown", None, float("nan"), 3.5])
def test_the_cases_of_the_report_are_answered(base, made, odd):
    """A word among a thousand numbers, truths or dates is one missing value, and nothing is refused."""
    items = list(BASES[base])
    kind = DECLARED[base][0]
    before = sums(made(items), kind)
    after = sums(made([odd, *items[1:]]), kind)
    assert moved_one_row(before, after)


TEXTS = ["unknown", "", "7", "1e400", "yes", "2024-02-30", "a,b", 'a"b', "NaN", "é" * 1001, "2024-05-01T12:00:00+05:30"]


@pytest.mark.parametrize("kind", ["number", "boolean", "date", "text"])
@pytest.mark.parametrize("form", ["csv", "parquet", "duckdb", "polars", "arrow"])
def test_one_odd_text_moves_one_row_in_files(tmp_path, kind, form):
    plain = {"number": "50", "boolean": "yes", "date": "2024-02-01", "text": "York"}[kind]

    def source(items, name):
        if form == "csv":
            place = tmp_path / f"{name}.csv"
            pd.DataFrame({"x": items}).to_csv(place, index=False, quoting=1)
            return str(place)
        table = pa.table({"x": pa.array(items, pa.string())})
        if form in ("polars", "arrow"):
            return pl.from_arrow(table) if form == "polars" else table
        place = tmp_path / f"{name}.parquet"
        pq.write_table(table, place)
        return str(place)

    engine = "duckdb" if form == "duckdb" else "memory"
    before = sums(source([plain] * ROWS, "plain"), kind, engine)
    for number_, odd in enumerate(TEXTS):
        after = sums(source([odd, *[plain] * (ROWS - 1)], f"odd{number_}"), kind, engine)
        assert moved_one_row(before, after), odd
