"""One suite for every engine: the same steps on every nasty row, the same totals whatever the chunks and threads.

A new engine is added to ENGINES and has to pass all of it.
"""

from __future__ import annotations

import warnings

import duckdb
import numpy as np
import pytest

from everhold.data.engines.duckdb import DuckDBEngine
from everhold.data.engines.memory import MemoryEngine
from everhold.data.source import as_source
from everhold.data.table import Table
from tests.engines.rows import KINDS, nasty, questions

ROWS = 600


def write_parquet(columns, path):
    """A Parquet file of raw columns."""
    import pandas as pd

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
        "arrays": MemoryEngine(Table(nasty(ROWS, 1))),
        "one chunk, one thread": MemoryEngine(Table(nasty(ROWS, 1)), threads=1),
        "chunks of 8": MemoryEngine(Table(nasty(ROWS, 1)), chunk=8),
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


def test_totals_are_equal_one_by_one_and_in_batches(engines):
    asked = questions(300, 99)
    first = engines["arrays"]
    expected = [int(first.steps(question).sum()) for question in asked]
    for name, engine in engines.items():
        assert engine.totals(asked) == expected, name
        assert [engine.totals([question])[0] for question in asked[:60]] == expected[:60], name


def test_totals_do_not_depend_on_the_order_of_rows():
    columns = nasty(5000, 3)
    shuffled = np.random.default_rng(0).permutation(5000)
    one, other = (
        MemoryEngine(Table({k: v[order] for k, v in columns.items()})) for order in (np.arange(5000), shuffled)
    )
    asked = questions(150, 5)
    assert one.totals(asked) == other.totals(asked)


def test_large_tables_in_threads_and_odd_chunks():
    columns = nasty(200_003, 4)
    table = Table(columns)
    asked = questions(12, 6)
    expected = [int(MemoryEngine(table, threads=1).steps(question).sum()) for question in asked]
    for engine in (MemoryEngine(table), MemoryEngine(table, chunk=4096, threads=3), MemoryEngine(table, chunk=100_000)):
        assert engine.totals(asked) == expected
        assert [engine.totals([question])[0] for question in asked] == expected


def test_units_are_averaged_alike(parquet):
    """Rows of one unit count as one draw: engines agree, and so does a plain loop."""
    files = as_source(parquet, what="rows", private=True)
    table = files.table(KINDS)
    memory = MemoryEngine(table.by_unit(files.units("n")))
    engine = DuckDBEngine(files, KINDS, unit="n", threads=2)
    assert memory.size == engine.size
    asked = questions(60, 8)
    totals = memory.totals(asked)
    assert engine.totals(asked) == totals
    groups = nasty(ROWS, 1)["n"]
    for question, total in zip(asked[:20], totals, strict=False):
        rows = MemoryEngine(table).steps(question)
        assert total == sum(
            round(float(rows[groups == unit].sum()) / int((groups == unit).sum())) for unit in np.unique(groups)
        )


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
