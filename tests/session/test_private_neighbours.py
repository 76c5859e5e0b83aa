"""One row replaced by any odd value, in every form that rows come in: every sum moves by at most one row.

Privacy rests on this. Kinds that are guessed from a whole column would break it: one odd value would change all rows.
"""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everhold as eh
from everhold.data.sample import Sample
from everhold.mechanism.noise import ROW
from everhold.queries.expression import BoundedMean, expression
from everhold.queries.expression.parser import parse

RNG, SIZE, REPLACED = np.random.default_rng(0), 60, 7
PUBLIC = {
    "age": RNG.integers(18, 90, SIZE),
    "smoker": RNG.random(SIZE) < 0.5,
    "bmi": RNG.normal(27.0, 4.0, SIZE),
    "town": RNG.choice(["Leeds", "York", "Bath"], SIZE),
    "day": np.array(["2024-05-01", "2023-01-01", "2022-07-05"] * (SIZE // 3), dtype="datetime64[D]"),
}
SCHEMA = eh.Schema.propose(PUBLIC).revised("bmi", low=10, high=50)
ROWS = {name: values.tolist() for name, values in PUBLIC.items()} | {"day": [str(one) for one in PUBLIC["day"]]}
ODD = [
    None, float("nan"), float("inf"), -float("inf"), "unknown", "", True, 2**60, -1, 1e308, "1e400", "2024-05-01", "NULL",
    "nan", "1,5", "TRUE", "2024-13-45", "a" * 5_000, "'quote\"", "\u0000x", " 41 ",
]  # fmt: skip
TEXTS = (
    "age > 40", "NOT smoker", "bmi / age > 0.5", "town = 'York'", "age IS NULL", "day > '2023-03-01'", "year(day) = 2023",
    "CASE WHEN bmi > 27 THEN smoker ELSE age > 30 END", "length(town) > 4", "town LIKE 'Y%'", "ln(bmi) > 3",
)  # fmt: skip


def converted(rows):
    """With the types that pandas finds; pandas 2.2 casts infinite numbers on its way, and numpy warns of it."""
    with np.errstate(invalid="ignore"):
        return pd.DataFrame(rows).convert_dtypes()


def mean(text, low, high, given=None, reverse=False):
    tree = parse(text, SCHEMA.kinds, "number", SCHEMA.words)
    group = None if given is None else parse(given, SCHEMA.kinds, "boolean", SCHEMA.words)
    return BoundedMean(tree, low, high, text, group, reverse)


QUESTIONS = [
    *(expression(text, SCHEMA.kinds, SCHEMA.words) for text in TEXTS),
    mean("bmi", 10, 50),
    mean("bmi * bmi", 0, 2_500, "smoker"),
    mean("age", 0, 100, "town = 'York'", reverse=True),
    mean("exp(bmi)", 0, 1e9),
    mean("bmi / (age - 40)", -1, 1),
]


def as_csv(rows, folder):
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows)
        writer.writerows(zip(*([("" if one is None else one) for one in values] for values in rows.values()), strict=True))
    return folder / "rows.csv"


def as_arrow(rows, _):
    """Columns of mixed values become text, as whoever writes such a file would do."""
    columns = {}
    for name, values in rows.items():
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            columns[name] = pa.array([None if one is None else str(one) for one in values])
    return pa.table(columns)


def as_parquet(rows, folder):
    pq.write_table(as_arrow(rows, folder), folder / "rows.parquet")
    return folder / "rows.parquet"


FORMS = {
    "lists": lambda rows, _: rows,
    "objects": lambda rows, _: {name: np.array(values, dtype=object) for name, values in rows.items()},
    "pandas": lambda rows, _: pd.DataFrame(rows),
    "pandas, converted": lambda rows, _: converted(rows),
    "arrow": as_arrow,
    "CSV": as_csv,
    "Parquet": as_parquet,
}


@pytest.mark.parametrize("form", FORMS)
def test_neighbours_in_every_form_move_every_sum_by_at_most_a_row(form, tmp_path):
    def sums(rows):
        return [one.first for one in Sample(FORMS[form](rows, tmp_path), schema=SCHEMA).sums(QUESTIONS)]

    before, moved = sums(ROWS), 0
    for name in ROWS:
        for odd in ODD:
            rows = {**ROWS, name: [*ROWS[name][:REPLACED], odd, *ROWS[name][REPLACED + 1 :]]}
            try:
                after = sums(rows)
            except eh.EverholdError:  # refused at creation, to the custodian alone
                continue
            largest = max(abs(one - other) for one, other in zip(before, after, strict=True))
            assert largest <= ROW, (name, odd)
            moved += largest > 0
    assert moved > 50  # the values that replace others are seen
