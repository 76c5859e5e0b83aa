"""NaN in Parquet files is a missing value in every engine, also where the files carry statistics that leave NaN out."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everhold as eh
from everhold.data.sample import Sample
from everhold.data.schema import ColumnSchema, Schema
from everhold.queries.expression import bounded_mean, expression, number

SCHEMA = Schema((ColumnSchema("x", "number", 0.0, 60.0),))
ROWS = 50_000


def write(place, kind, low, high, *, group, statistics=True, huge=0.0):
    rng = np.random.default_rng(0)
    x = rng.uniform(low, high, ROWS).astype(kind)
    x[rng.random(ROWS) < huge] = 1e16
    x[rng.random(ROWS) < 0.2] = np.nan
    pq.write_table(pa.table({"x": pa.array(x, from_pandas=False)}), place, row_group_size=group, write_statistics=statistics)
    return x


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(("low", "high"), [(0, 50), (1, 50), (-5, 5)])
@pytest.mark.parametrize("group", [5_000, 200_000])
@pytest.mark.parametrize("huge", [0.0, 0.01])
def test_nan_is_missing(tmp_path, engine, kind, low, high, group, huge):
    place = tmp_path / "nan.parquet"
    x = write(place, kind, low, high, group=group, huge=huge).astype(np.float64)
    sample = Sample(str(place), schema=SCHEMA, engine=engine)
    tests = {
        "x IS NULL": np.isnan(x),
        "x IS NOT NULL": ~np.isnan(x),
        f"x > {high + 1}": x > high + 1,
        "x >= 1e15": x >= 1e15,
        "x > 0": x > 0,
        "x < 25": x < 25,
        "x <> 3": (x != 3) & ~np.isnan(x),
        "NOT x = 3": (x != 3) & ~np.isnan(x),
        "x NOT IN (1, 2, 3)": ~np.isnan(x) & ~np.isin(x, [1, 2, 3]),
        "abs(x) >= 0": ~np.isnan(x),
        "coalesce(x, 99) = 99": np.isnan(x),
        "x + 1 IS NULL": np.isnan(x),
        "greatest(x, 5) >= 5": ~np.isnan(x),
    }
    found = sample.sums([expression(text, SCHEMA.kinds) for text in tests])
    counts = [(sums.first + 32_768 * ROWS) // 65_536 for sums in found]
    assert counts == [int(np.count_nonzero(rows)) for rows in tests.values()]
    sums = sample.sums([bounded_mean(number("x", SCHEMA.kinds), 0.0, 60.0)])[0]
    steps = np.where(np.isnan(x), 0, np.rint(np.clip(np.nan_to_num(x) / 60.0, 0, 1) * 65_536))
    values = [int(one) - 32_768 for one in steps]
    assert sums == (sum(values), sum(value * value for value in values))


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_answers_about_nan(tmp_path, engine):
    place = tmp_path / "nan.parquet"
    x = write(place, np.float64, 0, 50, group=200_000)
    public = {"x": np.random.default_rng(1).uniform(0, 50, 2_000)}
    holdout = eh.Holdout(str(place), prior=eh.Reference(public), seed=0, engine=engine, schema=SCHEMA)
    assert np.mean(np.isnan(x)) in holdout.ask("x IS NULL").interval
    assert np.nanmean(x) in holdout.mean("x", low=0, high=50).interval
