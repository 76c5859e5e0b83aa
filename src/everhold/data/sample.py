"""The private side: only two exact sums per question leave these rows."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from everhold.data.duckdb_files import Files
from everhold.data.engines.duckdb import DuckDBEngine
from everhold.data.engines.memory import MemoryEngine
from everhold.data.engines.remote import RemoteEngine, RemoteTable
from everhold.data.fingerprint import fingerprint_files, fingerprint_rows, row_hashes
from everhold.data.likeness import ROW_DIGEST, Likeness, likeness
from everhold.data.source import as_source
from everhold.data.table import RowTable
from everhold.data.units import by_unit
from everhold.errors import DataError, QuestionError, SettingError
from everhold.progress import NO_BAR, progress_bar
from everhold.queries.expression.columns import EncodedColumn, converted, encode
from everhold.queries.expression.question import BoundedMean, Expression, TextQuestion, without_values
from everhold.queries.query import RowFunction, Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.engines.engine import Engine
    from everhold.data.schema import Schema
    from everhold.data.source import Source
    from everhold.queries.expression.tree import Kind
    from everhold.queries.grid import Scale, Sums
    from everhold.queries.query import Query

__all__ = ["IN_MEMORY", "EngineName", "Sample"]

_MOST_COLUMNS = 256  # by which a table is recognised
_MOST_ROWS = 200_000_000  # of a table that is recognised by more than its files
_LONG = 200_000_000  # rows times questions of a scan that may take seconds

EngineName = Literal["auto", "memory", "duckdb"]

IN_MEMORY = 4 * 2**30
"""DuckDB reads Parquet files in place if their declared columns would need more bytes than this."""


class Sample:
    """Private rows, in memory, in files or in a database.

    Its size is public; its repr shows nothing else.

    Args:
        source: where to read the rows.
        schema: the public declaration of the columns; None uses the columns as they are.
        unit: the column that says which rows belong together.
        engine: 'memory', 'duckdb' (Parquet files, read in place), or 'auto', by the number of rows and columns. A table of
            PostgreSQL or Spark is always evaluated there.
        memory_limit: for DuckDB, such as '1GB'.
    """

    def __init__(
        self,
        source: object,
        *,
        schema: Schema | None = None,
        unit: str | None = None,
        engine: EngineName = "auto",
        memory_limit: str | None = None,
    ) -> None:
        if engine not in get_args(EngineName):
            raise SettingError(f"engine is {engine!r}. Expected one of {', '.join(get_args(EngineName))}.")
        what = "the private table"
        rows = as_source(source, what=what, private=True)
        in_place = isinstance(rows, Files) and bool(rows.paths) and schema is not None
        if engine == "duckdb" and not in_place:
            raise DataError("the DuckDB engine reads Parquet files only. Expected a path or a pattern of such files.")
        if schema is not None and isinstance(rows, Files) and in_place:
            large = 8 * rows.size * len(schema) > IN_MEMORY
            in_place = engine == "duckdb" or (engine == "auto" and large)
        self._table: RowTable | None = None
        self._paths = rows.paths if isinstance(rows, Files) else ()
        self._engine: Engine
        closed = {} if schema is None else {name: one.listed for name, one in schema.words.items() if one.closed}
        if isinstance(rows, RemoteTable):
            if engine != "auto":
                raise SettingError(f"engine is {engine!r}, but rows in {rows.dialect.name} stay there. Expected 'auto'.")
            self._kinds: dict[str, Kind] = rows.kinds() if schema is None else schema.kinds
            self._engine = RemoteEngine(rows, self._kinds, closed=closed, unit=unit)
        elif in_place and isinstance(rows, Files) and schema is not None:
            self._kinds = schema.kinds
            self._engine = DuckDBEngine(rows, schema.kinds, closed=closed, unit=unit, memory_limit=memory_limit)
        else:
            table = rows.table(None if schema is None else schema.kinds)
            if schema is not None:
                table = schema.conform(table, what=what)
            self._table = table = table.by_unit(None if unit is None else rows.units(unit), what=what)
            self._kinds = {name: kind for name in table if (kind := table.kind(name)) is not None}
            self._engine = MemoryEngine(table)
        self._unit = unit
        self._source: Source = rows
        self._declared: dict[str, Kind] | None = None if schema is None else dict(schema.kinds)
        self.size = self._engine.size

    @property
    def kinds(self) -> dict[str, Kind]:
        """Names and kinds of the columns that text questions may use. They are public, as part of the schema."""
        return self._kinds

    def check(self, query: Query) -> None:
        """Raise QuestionError for a question that these rows cannot answer, before anything is charged."""
        if query.text:
            return
        if self._unit is not None:
            raise QuestionError(
                "with unit=..., only text questions can be averaged within each unit. Expected a text question, such as "
                '"age > 40"; callables and arrays need a session without unit=.'
            )
        if self._table is None and isinstance(without_values(query), RowFunction):
            raise QuestionError(
                "a callable needs the rows in memory, but these are read where they are. Expected a text question, such as "
                '"age > 40", or files with engine="memory".'
            )

    def sums(self, queries: Sequence[Query], scale: Scale = "mean", rows_read: NDArray[np.intp] | None = None) -> list[Sums]:
        """Σ of each question's values over the draws and Σ of their squares, exact, on the [-1, 1] scale. Texts in one scan.

        Args:
            queries: the questions.
            scale: the scale of their answers; texts bring their own.
            rows_read: indices of the rows to sum over; None: all rows.
        """
        if rows_read is not None:
            return [self._sums_over(query, scale, rows_read) for query in queries]
        texts = [query for query in queries if query.text]
        scanned = iter(self._scan(texts) if texts else ())
        return [next(scanned) if query.text else self._sums(query, scale) for query in queries]

    def _sums(self, query: Query, scale: Scale) -> Sums:
        self.check(query)
        rows: Any = {} if self._table is None else self._table
        return query.on_sample(rows, self.size, scale)

    def _sums_over(self, query: Query, scale: Scale, rows_read: NDArray[np.intp]) -> Sums:
        self.check(query)
        query = without_values(query)
        if isinstance(query, Values):
            query.on_sample({}, self.size, scale)  # errors are reported, whichever rows are read
            return replace(query, sample=np.asarray(query.sample)[rows_read]).on_sample({}, len(rows_read), scale)
        if self._table is None or self._table.units is not None:
            raise QuestionError(
                "this mechanism reads a part of the rows, so it needs them in memory and without units. Expected "
                'engine="memory" and no unit=.'
            )
        rows = self._table.take(rows_read)
        if isinstance(query, Expression | BoundedMean):
            return MemoryEngine(rows).sums([query])[0].centred(len(rows_read))
        return query.on_sample(rows, len(rows_read), scale)

    def _scan(self, texts: Sequence[Query]) -> list[Sums]:
        questions = [cast(TextQuestion, without_values(query)) for query in texts]
        with (
            progress_bar(f"Reading {self.size:,} {'rows' if self._unit is None else 'units'}")
            if self._is_long(len(questions))
            else NO_BAR
        ):
            return [steps.centred(self.size) for steps in self._engine.sums(questions)]

    def _is_long(self, questions: int) -> bool:
        """Whether a scan may take seconds, by public counts."""
        return self.size * questions >= _LONG or isinstance(self._engine, RemoteEngine)

    def require_ready(self) -> None:
        """Raise DataError if the rows are in a database that does not answer now."""
        if isinstance(self._engine, RemoteEngine):
            self._engine.require_ready()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._kinds) if self._table is None else tuple(self._table)

    @property
    def unit(self) -> str | None:
        """The column that says which rows belong together."""
        return self._unit

    def digests(self, public: RowTable, names: Sequence[str], most: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Digests of the private and the public draws, from these columns; of a part of both if there are more than `most`
        private rows. Only for `data.overlap`, like `keys`."""
        if not names:
            return np.empty(0, np.uint64), np.empty(0, np.uint64)
        if isinstance(self._engine, DuckDBEngine | RemoteEngine):
            return self._engine.digests(public, names, most)
        key, every = secrets.token_bytes(32), np.uint64(-(-self._rows.row_count // most))
        mine, theirs = (by_unit(row_hashes(table, names, key), table.units) for table in (self._rows, public))
        return mine[mine % every == 0], theirs[theirs % every == 0]

    def row_digests(self, key: bytes) -> NDArray[np.uint64] | None:
        """A keyed digest of each row, to recognise a table that was seen before; None where rows are not in memory.

        Columns that number the rows are left out, unless there are no others: two tables may have the same numbers.
        """
        if self._table is None or not len(self._table):
            return None
        telling = tuple(name for name in self._table if name == ROW_DIGEST or not self._table.is_key(name))
        return row_hashes(self._table, telling or tuple(self._table), key)

    def file_digests(self, key: bytes) -> NDArray[np.uint64] | None:
        """A keyed digest of each Parquet file that the rows are in; None where they are not in such files."""
        found = [int(fingerprint_files([path], key)[:16], 16) for path in self._paths]
        return np.array(found, dtype=np.uint64) if found else None

    def likeness(self, key: bytes, *, whole: bool) -> Likeness:
        """What tells these rows from others, whatever the schema and the order of rows (`data.likeness`).

        `whole`: also by columns that are not declared, and of files that are read in place; each is then read once.
        """
        source = self._source
        if isinstance(source, RemoteTable) or source.size > _MOST_ROWS or (self._table is None and not whole):
            return Likeness()
        if isinstance(source, Files):
            declared = self._kinds if self._declared is None else self._declared
            kinds = {**source.kinds(), **declared} if whole else dict(declared)
            return likeness(list(kinds)[:_MOST_COLUMNS], lambda name: source.table({name: kinds[name]}), key)
        table = source.table()
        names = [name for name in table if whole or self._declared is None or name in self._declared]
        return likeness(names[:_MOST_COLUMNS], lambda name: self._as_declared(table, name), key)

    def _as_declared(self, table: RowTable, name: str) -> RowTable:
        """A column of a frame as it is declared."""
        kind = None if self._declared is None else self._declared.get(name)
        if kind is None or kind == table.kind(name):
            return table
        column = table.raw_or_encoded(name)
        return RowTable({name: converted(column, kind) if isinstance(column, EncodedColumn) else encode(column, kind)})

    @property
    def rows(self) -> int:
        """The number of rows, also where units are counted."""
        return self._source.size

    def keys(self, names: Sequence[str]) -> set[str]:
        """The columns that identify every row by a whole number, a text or a date."""
        if isinstance(self._engine, DuckDBEngine | RemoteEngine):
            return self._engine.keys(names)
        return {name for name in names if self._rows.is_key(name)}

    @property
    def _rows(self) -> RowTable:
        if self._table is None:
            raise DataError("the rows are not in memory.")
        return self._table

    @property
    def binding(self) -> str:
        """What the fingerprint covers: 'rows' in memory, 'files' read in place, or a 'table' of a database."""
        if isinstance(self._engine, RemoteEngine):
            return "table"
        return "files" if self._table is None else "rows"

    def fingerprint(self, key: bytes) -> str:
        """The keyed fingerprint of these rows; only holders of the key can compare it with other rows."""
        if isinstance(self._engine, RemoteEngine):
            return self._engine.fingerprint(key)
        if self._table is not None:
            return fingerprint_rows(self._table, key)
        return fingerprint_files(self._paths, key)

    def __repr__(self) -> str:
        return f"Sample({self.size:,} private {'rows' if self._unit is None else 'units'})"
