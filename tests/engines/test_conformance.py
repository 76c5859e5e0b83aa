"""One suite for every engine: the same steps on every nasty row, the same sums whatever the chunks and threads.

A new engine is added to ENGINES and has to pass all of it.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest

from everhold.data.engines.duckdb import DuckDBEngine
from everhold.data.engines.memory import MemoryEngine
from everhold.data.sample import Sample
from everhold.data.schema import ColumnSchema, Schema
from everhold.data.source import as_source
from everhold.data.table import RowTable
from everhold.queries.expression import bounded_mean, expression, number
from everhold.queries.query import Values, as_query
from tests.engines.rows import KINDS, nasty, questions

ROWS = 600


def write_parquet(columns, path):
    """A Parquet file of raw columns."""
    frame = pd.DataFrame(
        {name: pd.Series(list(column) if column.dtype == object else column) for name, column in columns.items()}
    )
    con = duckdb.connect()
    con.register("frame", frame)
    con.execute(
        # pandas' NaN arrives as NULL; a file may hold both, and both are missing
        "COPY (SELECT CASE WHEN x IS NULL AND n > 5 THEN 'nan'::DOUBLE ELSE x END AS x, n, b, "
        "CAST(m AS BOOLEAN) AS m, CAST(s AS VARCHAR) AS s, CAST(t AS VARCHAR) AS t, "
        f"CAST(d AS TIMESTAMP) AS d FROM frame) TO '{path}' (FORMAT parquet)"
    )
    return path


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    return str(write_parquet(nasty(ROWS, 1), tmp_path_factory.mktemp("rows") / "nasty.parquet"))


@pytest.fixture(scope="module")
def engines(parquet):
    files = as_source(parquet, what="rows", private=True)
    return {
        "arrays": MemoryEngine(RowTable(nasty(ROWS, 1))),
        "one chunk, one thread": MemoryEngine(RowTable(nasty(ROWS, 1)), threads=1),
        "chunks of 8": MemoryEngine(RowTable(nasty(ROWS, 1)), chunk=8),
        "file in memory": MemoryEngine(files.table(KINDS)),
        "DuckDB": DuckDBEngine(files, KINDS, threads=2),
        "DuckDB, one thread": DuckDBEngine(files, KINDS, threads=1),
    }


@pytest.mark.parametrize("seed", range(8))
def test_every_engine_agrees_on_every_row(engines, seed):
    """125 random questions a seed: equal to the memory engine row by row, without a warning."""
    first, *others = engines.values()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for question in questions(125, seed):
            expected = first.steps(question)
            assert np.all((expected >= 0) & (expected <= 65536))
            for engine in others:
                assert np.array_equal(engine.steps(question), expected), (question.name, engine)


def summed(steps):
    """The sums of steps and of their squares in Python integers, one at a time."""
    whole = [int(one) for one in steps]
    return sum(whole), sum(one * one for one in whole)


def test_sums_are_equal_one_by_one_and_in_batches(engines):
    asked = questions(300, 99)
    first = engines["arrays"]
    expected = [summed(first.steps(question)) for question in asked]
    for name, engine in engines.items():
        found = engine.sums(asked)
        assert found == expected, name
        assert {type(one) for sums in found for one in sums} == {int}, name
        assert [engine.sums([question])[0] for question in asked[:60]] == expected[:60], name


def test_sums_do_not_depend_on_the_order_of_rows():
    columns = nasty(5000, 3)
    shuffled = np.random.default_rng(0).permutation(5000)
    one, other = (MemoryEngine(RowTable({k: v[order] for k, v in columns.items()})) for order in (np.arange(5000), shuffled))
    asked = questions(150, 5)
    assert one.sums(asked) == other.sums(asked)


def test_large_tables_in_threads_and_odd_chunks():
    columns = nasty(200_003, 4)
    table = RowTable(columns)
    asked = questions(12, 6)
    expected = [summed(MemoryEngine(table, threads=1).steps(question)) for question in asked]
    for engine in (MemoryEngine(table), MemoryEngine(table, chunk=4096, threads=3), MemoryEngine(table, chunk=100_000)):
        assert engine.sums(asked) == expected
        assert [engine.sums([question])[0] for question in asked] == expected


def test_units_are_averaged_alike(parquet):
    """Rows of one unit count as one draw: engines agree, and so does a plain loop."""
    files = as_source(parquet, what="rows", private=True)
    table = files.table(KINDS)
    memory = MemoryEngine(table.by_unit(files.units("n")))
    engine = DuckDBEngine(files, KINDS, unit="n", threads=2)
    assert memory.size == engine.size
    asked = questions(60, 8)
    sums = memory.sums(asked)
    assert engine.sums(asked) == sums
    assert [engine.sums([question])[0] for question in asked[:20]] == sums[:20]
    groups = nasty(ROWS, 1)["n"]
    for question, found in zip(asked[:20], sums, strict=False):
        rows = MemoryEngine(table).steps(question)
        means = [round(float(rows[groups == unit].sum()) / int((groups == unit).sum())) for unit in np.unique(groups)]
        assert found == summed(means)


KNOWN = {"x": "number", "y": "number"}
NUMBERS = {"plain": {}, "given": {"given": "y >= 0"}, "reverse": {"reverse": True}}
NUMBERS["given and reverse"] = NUMBERS["given"] | NUMBERS["reverse"]


def some_numbers(size):
    """Values at both ends, beyond them, between them and missing, and a name for units of one to nine rows."""
    rng = np.random.default_rng(size)
    x = rng.uniform(-0.2, 1.2, size)
    x[::7], x[1::7], x[2::11] = 0.0, 1.0, np.nan
    y = np.where(rng.random(size) < 0.2, np.nan, rng.normal(size=size))
    return {"x": x, "y": y, "who": rng.integers(0, 1 + size // 5, size)}


def expected_steps(x, y, given=None, reverse=False):
    """The steps of one row, from their definition, in Python."""
    if x != x or (given is not None and not y >= 0):
        return 0
    steps = round(min(max(x, 0.0), 1.0) * 65_536)
    return 65_536 - steps if reverse else steps


def both(columns, path, unit=None):
    """The same rows in memory and in a file, of which DuckDB reads a few groups."""
    pd.DataFrame(columns).to_parquet(path, row_group_size=10_000)
    files = as_source(str(path), what="rows", private=True)
    table = files.table(KNOWN).by_unit(None if unit is None else files.units(unit), what="rows")
    return [
        MemoryEngine(table),
        MemoryEngine(table, chunk=4096, threads=3),
        DuckDBEngine(files, KNOWN, unit=unit, threads=2),
    ]


@pytest.mark.parametrize("size", [1, 8, 32_767, 32_768, 32_769, 65_537])
@pytest.mark.parametrize("unit", [None, "who"])
def test_sums_are_those_of_plain_integers(tmp_path, size, unit):
    """Numbers with and without a condition, from either end, and a yes/no question; over rows and over units."""
    columns = some_numbers(size)
    yes = expression("x > 0.5", KNOWN)
    asked, rows = [yes], [[65_536 * int(x > 0.5) for x in columns["x"].tolist()]]
    for how in NUMBERS.values():
        given = expression(how["given"], KNOWN).tree if "given" in how else None
        asked.append(bounded_mean(number("x", KNOWN), 0.0, 1.0, given=given, reverse=how.get("reverse", False)))
        pairs = zip(columns["x"].tolist(), columns["y"].tolist(), strict=True)
        rows.append([expected_steps(x, y, **how) for x, y in pairs])
    if unit is not None:
        groups = defaultdict(list)
        for place, name in enumerate(columns["who"].tolist()):
            groups[name].append(place)
        rows = [[round(Fraction(sum(one[i] for i in group), len(group))) for group in groups.values()] for one in rows]
    expected = [summed(one) for one in rows]
    for engine in both(columns, tmp_path / "rows.parquet", unit):
        assert engine.size == len(rows[0])
        assert engine.sums(asked) == expected, engine
        assert [engine.sums([question])[0] for question in asked] == expected, engine


@pytest.mark.parametrize("unit", [None, "who"])
def test_squares_beyond_float64_are_exact(tmp_path, unit):
    """Odd squares with a sum above 2⁵³; the control, all of them summed in float64, is off."""
    size, steps = 2_200_001, 65_535
    columns = {"x": np.full(size, steps / 65_536), "y": np.zeros(size)}
    if unit is not None:
        columns["who"] = np.arange(size)
    exact = size * steps * steps
    assert exact > 2**53
    control = np.full(size, float(steps))
    assert int(np.einsum("i,i->", control, control)) != exact
    question = bounded_mean(number("x", KNOWN), 0.0, 1.0)
    other = bounded_mean(number("y", KNOWN), 0.0, 1.0)
    for engine in both(columns, tmp_path / "rows.parquet", unit):
        assert engine.sums([question]) == [(size * steps, exact)], engine
        assert engine.sums([question, other]) == [(size * steps, exact), (0, 0)], engine


def test_every_way_to_ask_gives_the_same_sums(tmp_path):
    """Text, a callable and values, over all rows and over a part: the same two integers of the same question."""
    columns = some_numbers(40_000)
    columns["x"] = np.nan_to_num(columns["x"]).clip(0.0, 1.0)
    del columns["who"]
    schema = Schema(tuple(ColumnSchema(name, "number", 0.0, 1.0) for name in KNOWN))
    pd.DataFrame(columns).to_parquet(tmp_path / "rows.parquet")
    memory = Sample(columns, schema=schema)
    in_place = Sample(str(tmp_path / "rows.parquet"), schema=schema, engine="duckdb")
    values = 2.0 * columns["x"] - 1.0
    text = bounded_mean(number("x", KNOWN), 0.0, 1.0)
    ways = [text, as_query(lambda rows: 2.0 * rows["x"] - 1.0), Values(sample=values, reference=values)]
    whole = [round(one * 32_768) for one in values.tolist()]
    part = np.arange(3, 40_000, 3)
    for way in ways:
        assert memory.sums([way], "mean") == [summed(whole)]
        assert memory.sums([way], "mean", part) == [summed(whole[i] for i in part)]
        if way is not ways[1]:  # a callable needs rows in memory
            assert in_place.sums([way], "mean") == [summed(whole)]
    assert text.on_sample(columns, 40_000, "mean") == summed(whole)
    yes = expression("x > 0.5", KNOWN)
    signs = [32_768 if one > 0.5 else -32_768 for one in columns["x"].tolist()]
    for way in (yes, as_query(lambda rows: rows["x"] > 0.5), Values(sample=columns["x"] > 0.5, reference=[True])):
        assert memory.sums([way], "share") == [summed(signs)]
        assert memory.sums([way], "share", part) == [summed(signs[i] for i in part)]
    assert yes.on_sample(columns, 40_000, "share") == summed(signs)


@pytest.mark.parametrize(("scale", "failed"), [("share", -32_768), ("mean", 0)])
def test_rows_on_which_a_callable_fails_count_as_missing(scale, failed):
    def careful(rows):
        if np.any(rows["x"] == 7.0):
            raise ValueError
        return rows["x"] > 0 if scale == "share" else rows["x"]

    x = np.array([0.5, -0.25, 7.0, 1.0, -1.0, 7.0, 0.0])
    values = [32_768 if one > 0 else -32_768 for one in x] if scale == "share" else [int(one * 32_768) for one in x]
    expected = summed(failed if one == 7.0 else value for one, value in zip(x, values, strict=True))
    assert as_query(careful).on_sample({"x": x}, len(x), scale) == expected


def test_the_suite_can_fail(engines):
    """A positive control: an engine that forgets a guard is found out."""
    from everhold.data.engines import sql

    original = sql.Select._divided
    try:
        sql.Select._divided = lambda self, node, args: f"({args[0]} / {args[1]})"
        broken = 0
        for question in questions(125, 0):
            broken += not np.array_equal(engines["DuckDB"].steps(question), engines["arrays"].steps(question))
        assert broken > 0
    finally:
        sql.Select._divided = original
