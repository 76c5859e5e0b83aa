"""The differential fuzz for a minute on every run; `make fuzz` runs it for an hour."""

import duckdb
import pytest

from everhold.data import duckdb_files
from everhold.data.engines import sql
from tests.fuzz.engines import fuzz

pytestmark = pytest.mark.filterwarnings("ignore::everhold.errors.SchemaWarning")  # small tables with empty columns are usual


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 13])
def test_engines_agree(seed):
    """Twelve tables each, one of them past DuckDB's first row group: hundreds of thousands of row-question pairs."""
    found = fuzz(seed, tables=12)
    assert not found.faults, "\n".join(found.faults[:5])
    assert found.pairs > 100_000


def test_engines_agree_on_the_tables_of_the_controls():
    """The four tables on which the positive controls below find faults: as they are, there is none."""
    found = fuzz(11, tables=4)
    assert not found.faults, "\n".join(found.faults[:5])
    assert found.pairs > 10_000


@pytest.mark.skipif(
    int(duckdb.__version__.partition(".")[0]) < 2,
    reason="DuckDB 1.3 does not make this mistake on these tables, so there is nothing for the control to find",
)
def test_the_fuzz_finds_statistics_that_leave_nan_out(monkeypatch):
    """A positive control: the fault of the DuckDB engine that this fuzz was made for."""
    quiet = duckdb_files.connection

    def trusting(**settings):
        con = quiet(**settings)
        con.execute("SET disabled_optimizers = ''")
        return con

    monkeypatch.setattr("everhold.data.engines.duckdb.connection", trusting)
    assert fuzz(11, tables=4).faults


def test_the_fuzz_finds_rows_that_are_mixed_up(monkeypatch):
    """A positive control: columns that are put together from two queries by their order."""
    turns = iter(range(10**9))
    put = duckdb_files._put
    monkeypatch.setattr(
        duckdb_files, "_put", lambda column, places: put(column, places)[:: -1 if next(turns) % 7 == 0 else 1]
    )
    assert fuzz(11, tables=4).faults


def test_the_fuzz_finds_a_forgotten_guard(monkeypatch):
    monkeypatch.setattr(sql.Select, "_divided", lambda self, node, args: f"({args[0]} / {args[1]})")
    assert fuzz(11, tables=4).faults


def test_duckdb_still_has_the_optimizer_that_is_switched_off():
    """Under another name it would be on again."""
    con = duckdb.connect()
    names = {row[0] for row in con.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
    assert "statistics_propagation" in names
