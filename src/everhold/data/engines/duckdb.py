"""Rows larger than memory: DuckDB reads Parquet files in place, and runs only SQL that everhold generates."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.data.duckdb_files import Files, connection, duckdb_error
from everhold.data.engines.dialects.duckdb import DUCKDB
from everhold.data.engines.sql import Select
from everhold.data.units import by_unit
from everhold.errors import DataError
from everhold.queries.expression.values import LONGEST_TEXT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.table import RowTable
    from everhold.queries.expression.columns import EncodedColumn
    from everhold.queries.expression.question import TextQuestion
    from everhold.queries.expression.tree import Kind
    from everhold.queries.grid import Sums

__all__ = ["DuckDBEngine"]

_AT_ONCE = 128  # questions in one SELECT


class DuckDBEngine:
    """An engine over Parquet files. It copies nothing, and it can read nothing but these files.

    Args:
        files: the files to read.
        kinds: the declared columns.
        closed: for text columns with a closed list of words, the words.
        unit: the column that says which rows belong together.
        memory_limit: how much memory DuckDB may use, such as '1GB'.
        threads: the number of threads; None: one for each processor.
    """

    def __init__(
        self,
        files: Files,
        kinds: Mapping[str, Kind],
        *,
        closed: Mapping[str, frozenset[str]] | None = None,
        unit: str | None = None,
        memory_limit: str | None = None,
        threads: int | None = None,
    ) -> None:
        if not files.paths:
            raise DataError("the DuckDB engine reads Parquet files only. Expected a path or a pattern of such files.")
        self._columns = files.columns_sql(kinds)
        self._floats = frozenset(
            name for name, kind in kinds.items() if kind == "number" and DUCKDB.is_float(files.types[name])
        )
        for name, words in (closed or {}).items():
            self._columns[name] = DUCKDB.listed(self._columns[name], words)
        self._kinds = dict(kinds)
        self._relation, self._rows = files.relation, files.size
        self._unit = None if unit is None else files.unit_sql(unit)
        self._place = files.place
        self._paths = files.paths
        self._stamp = _stamp(self._paths)
        self._lock = Lock()
        scratch = tempfile.mkdtemp(prefix="everhold-")
        self._clean = weakref.finalize(self, shutil.rmtree, scratch, True)
        self._con = connection(memory_limit=memory_limit, threads=threads)
        listed = ", ".join(DUCKDB.literal(os.path.abspath(path)) for path in self._paths)
        given = ", ".join(DUCKDB.literal(path) for path in self._paths)
        for setting in (
            f"temp_directory = {DUCKDB.literal(scratch)}",
            f"allowed_paths = [{listed}, {given}]",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self._con.execute(f"SET {setting}")
        self.size = files.size if unit is None else self._units()

    def sums(self, questions: Sequence[TextQuestion]) -> list[Sums]:
        """The sums of the steps of each question and of their squares, up to 128 questions per scan."""
        result: list[Sums] = []
        for start in range(0, len(questions), _AT_ONCE):
            some = list(questions[start : start + _AT_ONCE])
            select = self._select()
            row = self._run(select.sums(some), lambda con: con.fetchone())
            result.extend(select.read(some, row)[0])
        return result

    def steps(self, question: TextQuestion) -> NDArray[np.float64]:
        """The steps of each row."""
        if self._unit is not None:
            raise DataError("this engine does not list the steps of single units.")
        column = self._run(self._select().rows([question]), lambda con: con.fetchnumpy())["s0"]
        return np.asarray(np.ma.getdata(column), dtype=np.float64)

    def digests(self, public: RowTable, names: Sequence[str], most: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Digests of the private and the public draws (`Sample.digests`)."""
        kinds = [public.column(name).kind for name in names]
        every = -(-self._rows // most)
        columns = [_hashable(self._columns[name], kind) for name, kind in zip(names, kinds, strict=True)]
        hashed = f"hash({', '.join(columns)}) AS h"
        sql = f"SELECT {hashed} FROM {self._relation}"
        if self._unit is not None:
            alone = f"CASE WHEN {self._unit} IS NULL THEN row_number() OVER () ELSE 0 END AS alone"
            rows = f"SELECT {hashed}, {self._unit} AS u, {alone} FROM {self._relation}"
            sql = f"SELECT min(h) AS h FROM ({rows}) GROUP BY u, alone"
        mine = self._run(f"SELECT h FROM ({sql}) WHERE h % {every} = 0", lambda con: con.fetchnumpy())["h"]
        theirs = by_unit(_public_hashes([public.column(name) for name in names]), public.units)
        return np.asarray(mine, dtype=np.uint64), theirs[theirs % np.uint64(every) == 0]

    def keys(self, names: Sequence[str]) -> set[str]:
        """Columns that identify every row (`Sample.keys`)."""
        result = set()
        for name in names:
            column = self._columns[name]
            whole = f"bool_and({column} = floor({column}))" if self._kinds[name] == "number" else "TRUE"
            row = self._run(
                f"SELECT count(DISTINCT {column}) = count({column}) AND count({column}) > 1 AND {whole} "
                f"FROM {self._relation}",
                lambda con: con.fetchone(),
            )
            if row[0] and self._kinds[name] != "boolean":
                result.add(name)
        return result

    def _select(self) -> Select:
        return Select(DUCKDB, self._columns, self._relation, floats=self._floats, unit=self._unit, place=self._place)

    def _units(self) -> int:
        named = f"SELECT {self._unit} AS name FROM {self._relation}"
        row = self._run(
            f"SELECT count(DISTINCT name) + count(*) FILTER (WHERE name IS NULL) FROM ({named})",
            lambda con: con.fetchone(),
        )
        return int(row[0])

    def _run(self, sql: str, fetch: Callable[[Any], Any]) -> Any:
        """Run, unless the files have changed. Errors are not reported in detail: they could depend on private rows."""
        if _stamp(self._paths) != self._stamp:
            raise DataError(
                "the private files have changed since the session began, so further answers would not be valid. Restore "
                "the original files."
            )
        try:
            with self._lock:
                return fetch(self._con.cursor().execute(sql))
        except (duckdb_error(), RuntimeError):
            raise DataError(
                "the private files could not be read. Check that they still exist and that memory_limit is large enough."
            ) from None

    def __repr__(self) -> str:
        return f"DuckDBEngine({self.size:,} draws in {len(self._paths)} Parquet files)"


def _hashable(sql: str, kind: Kind) -> str:
    """The SQL to hash for a canonical value, so that 0 and -0 are equal."""
    return f"{sql} + 0e0" if kind in ("number", "date") else f"left({sql}, {LONGEST_TEXT})" if kind == "text" else sql


def _public_hashes(columns: Sequence[EncodedColumn]) -> NDArray[np.uint64]:
    """Hashes of rows in memory, equal to those of the same rows in files."""
    with connection() as con:
        rows: dict[str, Any] = {"place": np.arange(len(columns[0]))}
        shown = []
        for place, column in enumerate(columns):
            values: Any = column.decode() if column.kind == "text" else column.values
            rows[f"v{place}"] = np.where(column.missing, "", values).astype(object) if column.kind == "text" else values
            rows[f"k{place}"] = ~column.missing
            shown.append(_hashable(f"CASE WHEN k{place} THEN v{place} END", column.kind))
        con.register("rows", rows)
        found = con.execute(f"SELECT place, hash({', '.join(shown)}) AS h FROM rows").fetchnumpy()
    hashes = np.empty(len(columns[0]), dtype=np.uint64)
    hashes[found["place"]] = found["h"]
    return hashes


def _stamp(paths: Sequence[str]) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((status.st_size, status.st_mtime_ns) for status in map(os.stat, paths))
    except OSError:
        return ()
