"""Rows that DuckDB reads: CSV and Parquet files, Polars frames, Arrow tables.

DuckDB guarantees no order of rows, neither within a query nor between two. Every row therefore gets a number once, and
every query fetches that number too, to put the values in order (`Files._fetched`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.data.csv_head import csv_head
from everhold.data.engines.dialects.duckdb import DUCKDB
from everhold.data.table import RowTable
from everhold.data.units import Units, units_of
from everhold.errors import DataError, did_you_mean
from everhold.queries.expression.columns import EncodedColumn, encode_words, tamed
from everhold.queries.expression.tree import Kind
from everhold.queries.expression.values import LONGEST_TEXT

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

__all__ = ["Files", "connection", "duckdb_error"]

NOTHING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null")
"""Texts that count as missing in a CSV file."""

_NONE = ("None", "none")
"""Missing among numbers, dates, yes and no, and names of units; among other texts they are an answer, such as 'none'."""

_AT_ONCE = 50  # columns in one SELECT: planning time grows with their square
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".pq")
_VIRTUAL = ("file_index", "file_row_number")
"""DuckDB's names for the position of a Parquet row, unless the file has columns with these names."""


def duckdb_error() -> type[Exception]:
    """DuckDB's own errors. It is loaded when a file is read, and not before."""
    import duckdb

    return duckdb.Error


def connection(*, memory_limit: str | None = None, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A new in-memory DuckDB connection, without extensions, secrets or access to Python variables.

    Parquet files store the minimum and maximum of each column, which ignore NaN. DuckDB would conclude from them that there
    is no NaN, so it must not use them (`statistics_propagation`).
    """
    config: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,
    }
    if memory_limit is not None:
        config["memory_limit"] = memory_limit
    if threads is not None:
        config["threads"] = threads
    import duckdb

    con = duckdb.connect(":memory:", config=config)
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET disabled_optimizers = 'statistics_propagation'")
    return con


class Files:
    """Rows that DuckDB reads.

    Args:
        con: its connection.
        relation: SQL for the rows: a table, or a call of read_parquet.
        what: a name for these rows, for messages.
        private: whether messages must not show anything from the rows.
        paths: the Parquet files, if the relation reads them in place.
        text_only: whether all columns are text whose kinds have to be inferred or declared.
        number: the column with the row numbers; None for Parquet files, which have their own.
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        relation: str,
        *,
        what: str,
        private: bool,
        paths: Sequence[str] = (),
        text_only: bool = False,
        number: str | None = None,
    ) -> None:
        self.con = con
        self.relation = relation
        self.paths = tuple(paths)
        self._what, self._private = what, private
        self.text_only = text_only
        described = self._fetch(f"DESCRIBE SELECT * FROM {relation}")
        self.types: dict[str, str] = {row[0]: row[1] for row in described if row[0] != number}
        self.names = tuple(self.types)
        self.size = int(self._fetch(f"SELECT count(*) FROM {relation}")[0][0])
        self._numbers: tuple[str, str] | None = None if number is None else (relation, DUCKDB.identifier(number))

    @classmethod
    def from_paths(cls, paths: Sequence[str], *, what: str, private: bool) -> Files:
        """Rows from CSV files or from Parquet files."""
        kinds = {_file_kind(path, what) for path in paths}
        if len(kinds) > 1:
            raise DataError(f"{what} has both CSV and Parquet files. Expected files of one kind.")
        con = connection()
        listed = ", ".join(_path(path) for path in paths)
        if kinds == {"parquet"}:
            files = cls(con, f"read_parquet([{listed}], hive_partitioning = false)", what=what, private=private, paths=paths)
            for path in paths:
                _require_different(files._parquet_names(path), f"{what} ({path})")
            if len(paths) > 1:
                files._require_one_schema()
            return files
        heads = {path: csv_head(path, what) for path in paths}
        delimiter, names = heads[paths[0]]
        for path, (_, others) in heads.items():
            if others != names:
                raise DataError(f"{what}: {path!r} and {paths[0]!r} have different columns. Expected the same first line.")
        columns = ", ".join(f"{DUCKDB.identifier(name)}: 'VARCHAR'" for name in names)
        missing = ", ".join(DUCKDB.literal(word) for word in NOTHING)
        # No dialect detection: a dialect guessed from private rows could drop or shift some of them.
        read = (
            f"read_csv([{listed}], auto_detect = false, header = true, columns = {{{columns}}}, "
            f"delim = {DUCKDB.literal(delimiter)}, quote = '\"', escape = '\"', nullstr = [{missing}], null_padding = false)"
        )
        try:
            number = _numbered(con, "source", read, names)
        except duckdb_error() as error:
            raise DataError(_cannot_read(what, paths, "CSV", None if private else error)) from None
        return cls(con, "source", what=what, private=private, text_only=True, number=number)

    @classmethod
    def from_arrow(cls, stream: object, *, what: str, private: bool) -> Files:
        """Rows from a frame that exports an Arrow stream."""
        con = connection()
        _require_different(_arrow_names(stream), what)  # first: DuckDB before 2.0 fails on names that come twice
        try:
            con.register("frame", stream)
            con.execute("CREATE TEMP TABLE given AS SELECT * FROM frame")
            con.unregister("frame")
            names = [row[0] for row in con.execute("DESCRIBE given").fetchall()]
            number = _numbered(con, "source", "given", names)
            con.execute("DROP TABLE given")
        except duckdb_error() as error:
            raise DataError(_cannot_read(what, (), "a table", None if private else error)) from None
        return cls(con, "source", what=what, private=private, number=number)

    def _require_one_schema(self) -> None:
        """Reject files whose column types differ: whether reading them fails would depend on the rows."""
        for path in self.paths:
            types = {
                row[0]: row[1]
                for row in self._fetch(f"DESCRIBE SELECT * FROM read_parquet({_path(path)}, hive_partitioning = false)")
            }
            for name in {**self.types, **types}:
                if types.get(name) != self.types.get(name):
                    raise DataError(
                        f"{self._what} has Parquet files in which column {name!r} has different types, or is missing "
                        "in some. Expected the same columns in all files: rewrite them."
                    )

    def _parquet_names(self, path: str) -> list[str]:
        """The column names in a Parquet file itself; DuckDB renames duplicates."""
        found = self._fetch(f"SELECT name, num_children FROM parquet_schema({_path(path)})")
        names, place = [], 1
        while place < len(found):
            names.append(found[place][0])
            inner = 1
            while inner:  # nested fields are not columns of the table
                inner += (found[place][1] or 0) - 1
                place += 1
        return names

    @property
    def usable(self) -> tuple[str, ...]:
        """The columns that questions could use."""
        if self.text_only:
            return self.names
        return tuple(name for name, kind in self.types.items() if DUCKDB.kind_of(kind) is not None)

    def kinds(self) -> dict[str, Kind]:
        """The kind of each column: from its type, or for CSV the kind that all of its texts can be read as."""
        if not self.text_only:
            known = {name: DUCKDB.kind_of(kind) for name, kind in self.types.items()}
            return {name: kind for name, kind in known.items() if kind is not None}
        tests: tuple[Kind, ...] = ("boolean", "number", "date")
        some_value = {name: f"count({_unless_none(DUCKDB.identifier(name))})" for name in self.names}
        wanted = [
            f"count({DUCKDB.from_text(DUCKDB.identifier(name), kind)}) = {some_value[name]}"
            for name in self.names
            for kind in tests
        ]
        known_at_all = [f"{some_value[name]} > 0" for name in self.names]
        row: list[Any] = []
        for some in _pieces(wanted + known_at_all):
            row.extend(self._fetch(f"SELECT {', '.join(some)} FROM {self.relation}")[0])
        result: dict[str, Kind] = {}
        for place, name in enumerate(self.names):
            fits = row[len(tests) * place : len(tests) * (place + 1)]
            kinds: list[Kind] = [kind for kind, fit in zip(tests, fits, strict=True) if fit]
            if kinds and kinds[0] == "boolean" and "number" in kinds:
                kinds = kinds[1:]  # zeros and ones are numbers
            result[name] = kinds[0] if kinds and row[len(wanted) + place] else "text"
        return result

    def columns_sql(self, kinds: Mapping[str, Kind]) -> dict[str, str]:
        """The SQL of the canonical value of each column."""
        return {name: DUCKDB.canonical(name, self._type(name), kind, self._what) for name, kind in kinds.items()}

    def unit_sql(self, unit: str) -> str:
        """The SQL of the name of a row's unit; NULL if the row has none."""
        if unit not in self.types:
            raise DataError(
                f"{self._what} has no column {unit!r} to group rows by (unit=).{did_you_mean(unit, self.names)} "
                "Expected the name of a column."
            )
        named = DUCKDB.unit(unit, self.types[unit])
        return _unless_none(named) if self.text_only else named

    def _type(self, name: str) -> str:
        if name not in self.types:
            raise DataError(f"{self._what} has no column {name!r}.{did_you_mean(name, self.names)}")
        return self.types[name]

    def table(self, kinds: Mapping[str, Kind] | None = None) -> RowTable:
        """All rows in memory as canonical columns; texts as codes into a sorted dictionary."""
        kinds = self.kinds() if kinds is None else kinds
        columns = self.columns_sql(kinds)
        if not columns or not self.size:
            raise DataError(f"{self._what} has no {'rows' if columns else 'columns that questions can use'}.")
        words: dict[str, list[str]] = {}
        wanted: list[str] = []
        for place, (name, sql) in enumerate(columns.items()):
            if kinds[name] == "number":
                wanted.append(
                    DUCKDB.raw_number(name, self.types[name], self._what)
                )  # `tamed` makes it canonical, not the SQL
                continue
            if kinds[name] != "text":
                wanted.append(sql)
                continue
            sql = f"left({sql}, {LONGEST_TEXT})"
            distinct = f"SELECT DISTINCT {sql} AS w FROM {self.relation} WHERE {sql} IS NOT NULL ORDER BY w"
            words[name] = [row[0] for row in self._fetch(distinct)]
            if words[name]:
                self._run(f"CREATE TYPE words{place} AS ENUM ({distinct})")
                wanted.append(f"enum_code(CAST({sql} AS words{place}))")
            else:
                wanted.append("NULL::INTEGER")
        found = self._fetched(wanted)
        for place, name in enumerate(columns):
            if words.get(name):
                self._run(f"DROP TYPE words{place}")
        return RowTable(
            {name: _encoded(kinds[name], column, words.get(name, [])) for name, column in zip(columns, found, strict=True)},
            what=self._what,
        )

    def units(self, unit: str) -> Units:
        """Rows grouped by the values of a column as text, which keeps different values different."""
        relation, number = self._numbering()
        name = self.unit_sql(unit)
        found = self._numpy(
            f"SELECT dense_rank() OVER (ORDER BY name) - 1 AS code, name IS NULL AS nothing, place FROM "
            f"(SELECT {name} AS name, {number} AS place FROM {relation})"
        )
        places = self._places(found.pop("place"))
        codes, nothing = np.ma.getdata(found["code"]), np.ma.getdata(found["nothing"])
        named = np.empty(self.size, dtype=np.int64)
        named[places] = np.where(nothing, -1, codes)
        return units_of(EncodedColumn("text", named))

    def unnamed_units(self, unit: str) -> bool:
        """Whether some row has no value in the column that names units."""
        relation, _ = self._numbering()
        found = self._numpy(f"SELECT count(*) AS unnamed FROM {relation} WHERE {self.unit_sql(unit)} IS NULL")
        return int(found["unnamed"][0]) > 0

    def divide(self, public: NDArray[np.bool_]) -> tuple[Files, Files]:
        """Two tables in the same DuckDB; `public` marks rows by their numbers."""
        relation, number = self._numbering()
        free, columns = _free(self.names), ", ".join(DUCKDB.identifier(column) for column in self.names)
        self.con.register("marks", {"place": np.arange(self.size), "public": public})
        halves = []
        for name, wanted in (("public_rows", "m.public"), ("private_rows", "NOT m.public")):
            self._run(
                f"CREATE TEMP TABLE {name} AS SELECT a.* EXCLUDE ({free}), row_number() OVER (ORDER BY a.{free}) - 1 AS "
                f"{free} FROM (SELECT {columns}, {number} AS {free} FROM {relation}) a JOIN marks m ON a.{free} = m.place "
                f"WHERE {wanted}"
            )
            private = self._private or name == "private_rows"
            halves.append(Files(self.con, name, what=self._what, private=private, text_only=self.text_only, number=free))
        self.con.unregister("marks")
        return halves[0], halves[1]

    @property
    def place(self) -> str:
        """SQL for the number of a row within the relation; 0 if columns of the file hide it."""
        return "0" if self._hidden else self._numbering()[1]

    @property
    def _hidden(self) -> bool:
        """Whether columns of a Parquet file hide DuckDB's row numbers."""
        return self._numbers is None and any(name.lower() in _VIRTUAL for name in self.names)

    # rows by their numbers -----------------------------------------------------------------------------------------

    def _numbering(self) -> tuple[str, str]:
        """A relation with all columns, and SQL for the number of each of its rows, 0 … size - 1."""
        if self._numbers is None:
            if self._hidden:
                number = self._run_numbered()
                self._numbers = "numbered", DUCKDB.identifier(number)
            else:
                self._numbers = self.relation, self._place_in_files()
        return self._numbers

    def _run_numbered(self) -> str:
        try:
            return _numbered(self.con, "numbered", self.relation, self.names)
        except duckdb_error() as error:
            raise DataError(_cannot_read(self._what, self.paths, "rows", None if self._private else error)) from None

    def _place_in_files(self) -> str:
        if len(self.paths) == 1:
            return "file_row_number"
        counts = [
            int(self._fetch(f"SELECT count(*) FROM read_parquet({_path(path)}, hive_partitioning = false)")[0][0])
            for path in self.paths
        ]
        before = np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist()
        return f"([{', '.join(map(str, before))}]::BIGINT[])[CAST(file_index AS BIGINT) + 1] + file_row_number"

    def _fetched(self, wanted: Sequence[str]) -> list[Any]:
        """The values of these SQL expressions for all rows, in order of the row numbers."""
        relation, number = self._numbering()
        result: list[Any] = []
        for some in _pieces(wanted):
            columns = ", ".join(f"{sql} AS c{place}" for place, sql in enumerate(some))
            found = self._numpy(f"SELECT {number} AS place, {columns} FROM {relation}")
            places = self._places(found["place"])
            result.extend(_put(found.pop(f"c{place}"), places) for place in range(len(some)))
        return result

    def _places(self, numbers: Any) -> NDArray[np.int64]:
        """The fetched row numbers. Each must occur once; otherwise the rows changed in the meantime."""
        places = np.ma.getdata(numbers).astype(np.int64)
        if len(places) != self.size or np.any(np.bincount(places, minlength=self.size) != 1):
            raise DataError(f"{self._what} changed while it was read. Expected files that do not change.")
        return places

    def _run(self, sql: str, fetch: Callable[[duckdb.DuckDBPyConnection], Any] = lambda _: None) -> Any:
        """Run and fetch. Either may raise; the message shows nothing from private rows."""
        try:
            return fetch(self.con.execute(sql))
        except duckdb_error() as error:
            raise DataError(_cannot_read(self._what, self.paths, "rows", None if self._private else error)) from None

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._run(sql, lambda con: con.fetchall())
        return found

    def _numpy(self, sql: str) -> dict[str, Any]:
        found: dict[str, Any] = self._run(sql, lambda con: con.fetchnumpy())
        return found


def _put(column: Any, places: NDArray[np.int64]) -> Any:
    """The values, in order of their row numbers."""
    result = np.ma.empty_like(column) if isinstance(column, np.ma.MaskedArray) else np.empty_like(column)
    result[places] = column
    return result


def _arrow_names(stream: object) -> list[str]:
    """The column names in an Arrow table or a frame itself."""
    schema = getattr(stream, "schema", None)
    names = getattr(schema, "names", None) or getattr(stream, "columns", None) or ()
    return [] if callable(names) else [str(name) for name in names]


def _require_different(names: Sequence[str], what: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise DataError(
                f"{what} has columns named {seen[name.lower()]!r} and {name!r}. Expected names that differ in more than "
                "case: rename one."
            )
        seen[name.lower()] = name


def _pieces(wanted: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(wanted), _AT_ONCE):
        yield wanted[start : start + _AT_ONCE]


def _free(names: Sequence[str]) -> str:
    """A name that no column has, ignoring case."""
    taken, name = {one.lower() for one in names}, "everhold_place"
    while name in taken:
        name += "_"
    return name


def _numbered(con: duckdb.DuckDBPyConnection, name: str, relation: str, names: Sequence[str]) -> str:
    """Create a table with all rows of a relation, numbered in the order of one scan. Returns the number column."""
    number = _free(names)
    con.execute(f"CREATE TEMP TABLE {name} AS SELECT *, row_number() OVER () - 1 AS {number} FROM {relation}")
    return number


def _file_kind(path: str, what: str) -> str:
    name = path.lower()
    if name.endswith(PARQUET):
        return "parquet"
    if name.endswith(_CSV):
        return "csv"
    raise DataError(f"{what}: {path!r} is not named like a CSV or Parquet file. Expected {', '.join(_CSV + PARQUET)}.")


def _cannot_read(what: str, paths: Sequence[str], kind: str, error: Exception | None) -> str:
    where = f" ({', '.join(paths[:3])})" if paths else ""
    if error is None:
        return (
            f"{what}{where} could not be read as {kind}. Its rows are private, so this message shows nothing from them. "
            "Open it with duckdb or pandas for details, on a machine where that is allowed."
        )
    return f"{what}{where} could not be read as {kind}: {str(error).strip().splitlines()[0]}"


def _unless_none(text: str) -> str:
    """A text of a CSV file, NULL where it says None."""
    return f"(CASE WHEN {text} NOT IN ({', '.join(DUCKDB.literal(word) for word in _NONE)}) THEN {text} END)"


def _path(path: str) -> str:
    """A path as an SQL literal for DuckDB, with the characters of glob patterns escaped."""
    return DUCKDB.literal("".join(f"[{letter}]" if letter in "[*?" else letter for letter in path))


def _encoded(kind: Kind, column: Any, words: list[str]) -> EncodedColumn:
    """A canonical column from the result of fetchnumpy."""
    mask = np.ma.getmaskarray(column)
    data = np.ma.getdata(column)
    if kind == "text":
        return encode_words(words, np.where(mask, -1, data.astype(np.int64)))
    if kind == "boolean":
        present = None if not mask.any() else ~mask
        return EncodedColumn(kind, np.where(mask, False, data).astype(np.bool_), (), present)
    values = np.where(mask, np.nan, data.astype(np.float64))
    return EncodedColumn(kind, tamed(values) if kind == "number" else values)
