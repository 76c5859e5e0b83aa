"""Every value of a row stays with its row, whatever the engine does with the order of rows.

DuckDB reorders rows from the second row group (122,880 rows) on, for example when an IN of constants becomes a join.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everhold as eh
from everhold.data.sample import Sample
from everhold.data.schema import ColumnSchema, Schema
from everhold.data.source import as_source

pytestmark = pytest.mark.slow

ROWS = 300_000


def wide(count=ROWS, seed=0, columns=58):
    """`first`, a text, and `last`, a number, are the same truth; every c_j holds the row's own number, or parts of it."""
    rng = np.random.default_rng(seed)
    truth = rng.random(count) < 0.5
    filling = {f"c{j}": (np.arange(count) % (7 + j)).astype(np.int16) for j in range(columns)}
    return pd.DataFrame({"first": np.where(truth, "yes", "no"), **filling, "last": truth.astype(np.int8)})


KINDS = {"first": "boolean", **{f"c{j}": "number" for j in range(58)}, "last": "number"}


def write(frame, folder, form):
    """The frame as CSV, as one Parquet file with many row groups, as several, or as an Arrow table."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if form == "csv":
        place = folder / "rows.csv"
        frame.to_csv(place, index=False)
    elif form == "parquet":
        place = folder / "rows.parquet"
        pq.write_table(table, place, row_group_size=20_000)
    elif form == "many":
        for part, start in enumerate(range(0, len(frame), 90_000)):
            pq.write_table(table.slice(start, 90_000), folder / f"part-{part}.parquet", row_group_size=30_000)
        place = folder / "part-*.parquet"
    else:
        return table
    return str(place)


@pytest.fixture(scope="module")
def frame():
    return wide()


@pytest.mark.parametrize("form", ["csv", "parquet", "many", "arrow"])
def test_columns_of_a_wide_table_stay_together(frame, tmp_path, form):
    table = as_source(write(frame, tmp_path, form), what="the table", private=True).table(KINDS)
    assert np.array_equal(table.column("first").values, table.column("last").values == 1.0)
    for name in ("c0", "c57"):  # and in the order of the file
        assert np.array_equal(table.column(name).values, frame[name].to_numpy())


def test_the_interval_of_a_wide_table_holds_the_truth(frame, tmp_path):
    private, public = write(frame, tmp_path, "csv"), tmp_path / "public.csv"
    wide(1_000, seed=1).to_csv(public, index=False)
    holdout = eh.Holdout(private, prior=eh.Reference(str(public)), seed=0, overlap="allow")
    assert 0.0 in holdout.ask("first AND last = 0").interval


@pytest.mark.parametrize("form", ["csv", "parquet", "many"])
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_rows_of_a_unit_stay_together(tmp_path, form, engine):
    """Every patient's rows agree: so the mean over patients of a mean within patients is whole."""
    if engine == "duckdb" and form == "csv":
        pytest.skip("the DuckDB engine reads Parquet files")
    rng = np.random.default_rng(0)
    smokes = rng.random(ROWS // 4) < 0.5
    rows = pd.DataFrame({"patient": np.repeat(np.arange(len(smokes)), 4), "smoker": np.repeat(smokes, 4)})
    rows = rows.sample(frac=1.0, random_state=1, ignore_index=True)
    rows["smoker"] = np.where(rows["smoker"], "yes", "no")
    schema = Schema((ColumnSchema("smoker", "boolean"),))
    sample = Sample(write(rows, tmp_path, form), schema=schema, unit="patient", engine=engine)
    assert sample.size == len(smokes)
    if engine == "memory":
        codes, values = sample._table.units.codes, sample._table.column("smoker").values
        shares = np.bincount(codes, weights=values) / np.bincount(codes)
        assert set(np.unique(shares)) == {0.0, 1.0}
        assert int(shares.sum()) == int(smokes.sum())
    # CASE makes 1 of a patient whose rows all say yes, and less where rows got mixed up.
    from everhold.queries.expression import bounded_mean, number

    sums = sample.sums([bounded_mean(number("CASE WHEN smoker THEN 1 ELSE 0 END", schema.kinds), 0.0, 1.0)])[0]
    assert (sums.first + 32_768 * sample.size) // 65_536 == int(smokes.sum())


@pytest.mark.parametrize("form", ["csv", "parquet", "many", "arrow"])
def test_a_split_keeps_rows_together_and_loses_none(frame, tmp_path, form):
    source = as_source(write(frame, tmp_path, form), what="the table", private=True)
    marks = np.random.default_rng(2).random(ROWS) < 0.3
    for half, wanted in zip(source.divide(marks), (marks, ~marks), strict=True):
        table = half.table(KINDS)
        assert np.array_equal(table.column("first").values, table.column("last").values == 1.0)
        assert np.array_equal(table.column("c57").values, frame["c57"].to_numpy()[wanted])


@pytest.mark.parametrize("form", ["csv", "parquet", "many"])
def test_a_reference_keeps_rows_together(frame, tmp_path, form):
    reference = eh.Reference(write(frame, tmp_path, form))
    rows = reference.pool(np.random.default_rng(0)).rows
    assert np.array_equal(rows.column("first").values, rows.column("last").values == 1.0)


NAMES = ["everhold_place", "EVERHOLD_PLACE", "rowid", "file_row_number", "file_index", "place", "public", "marks", "n"]


@pytest.mark.parametrize("form", ["csv", "parquet", "many", "arrow"])
@pytest.mark.parametrize("name", NAMES)
def test_no_column_is_taken_for_the_number_of_a_row(tmp_path, form, name):
    """A column may be called as everhold's or DuckDB's own numbers are."""
    rows = pd.DataFrame({name: np.arange(200_000) // 2, "x": np.arange(200_000)})
    source = as_source(write(rows, tmp_path, form), what="the table", private=True)
    assert source.names == (name, "x")
    assert np.array_equal(source.table({name: "number", "x": "number"}).column("x").values, rows["x"].to_numpy())
    assert len(source.units(name)) == 100_000
    assert np.array_equal(source.units(name).codes[::2], source.units(name).codes[1::2])
    marks = np.arange(200_000) % 3 == 0
    public, private = source.divide(marks)
    assert (public.size, private.size) == (int(marks.sum()), int((~marks).sum()))
    assert np.array_equal(public.table({"x": "number"}).column("x").values, np.flatnonzero(marks))


def test_a_split_goes_by_rows_whatever_the_columns_are_called(tmp_path):
    place = tmp_path / "place.parquet"
    pd.DataFrame({"everhold_place": np.arange(1_000) // 2, "x": np.arange(1_000)}).to_parquet(place)
    holdout = eh.Holdout(str(place), prior=eh.Split(0.5), seed=0)
    assert (holdout.size, len(holdout.public.pool.rows["x"])) == (500, 500)


UNITS = [np.nan, None, 0.0, -0.0, 1.0, 1.0, np.nan, 2.5]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_float_units_are_the_same_in_every_engine(tmp_path, kind):
    """NaN names no unit, and 0 is -0: six units, three of them rows without a name."""
    place = tmp_path / "units.parquet"
    pq.write_table(pa.table({"u": pa.array(UNITS, kind, from_pandas=False), "x": list(range(len(UNITS)))}), place)
    schema = Schema((ColumnSchema("x", "number", 0.0, 10.0),))
    frame = pd.DataFrame({"u": np.array([np.nan if u is None else u for u in UNITS]), "x": range(len(UNITS))})
    sizes = {
        "duckdb": Sample(str(place), schema=schema, unit="u", engine="duckdb").size,
        "memory": Sample(str(place), schema=schema, unit="u", engine="memory").size,
        "frame": Sample(frame, schema=schema, unit="u").size,
        "mapping": Sample({"u": np.array(UNITS, dtype=object), "x": np.arange(8)}, schema=schema, unit="u").size,
    }
    assert set(sizes.values()) == {6}, sizes
