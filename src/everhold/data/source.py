"""Where rows come from: files, frames, arrays. Rows are read once and become canonical columns.

CSV and Parquet files, Polars frames and Arrow tables are read by DuckDB, pandas frames and mappings directly. A CSV
file holds nothing but text; what kind its columns are is inferred on the public side alone, or declared by a schema.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Mapping, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import numpy as np

from everhold.data.engines.sql import canonical_column, from_text, identifier, literal
from everhold.data.table import Table
from everhold.data.units import Units, units_of
from everhold.errors import DataError, did_you_mean
from everhold.queries.expression.columns import LONGEST_TEXT, Encoded, encode_words
from everhold.queries.expression.tree import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Files", "Frame", "Source", "as_source", "as_table", "connection"]

NOTHING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none")
"""What counts as missing in a CSV file."""

_AT_ONCE = 50  # columns in one SELECT: planning takes the square of their number
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
_PARQUET = (".parquet", ".pq")


class Source(Protocol):
    """Rows before they are read as something."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""

    @property
    def size(self) -> int:
        """The number of rows."""

    def table(self, kinds: Mapping[str, Kind] | None = None) -> Table:
        """The rows, columns of the given kinds where these are given, else as the source has them or as inferred."""

    def units(self, unit: str) -> Units:
        """Rows grouped by what a column says, exactly as it says it."""

    def divide(self, public: NDArray[np.bool_]) -> tuple[Source, Source]:
        """The rows that are marked, and the rest."""


def as_source(given: object, *, what: str, private: bool = False) -> Source:
    """Rows from a path (CSV, Parquet, a pattern such as 'part-*.parquet', a list of paths), a pandas or Polars frame, an
    Arrow table, a mapping of columns to arrays, or a bare number for sessions whose questions bring their values along.

    `private`: messages then carry nothing that the rows say.
    """
    if isinstance(given, Files | Frame):
        return given
    if isinstance(given, Table):
        return Frame(given)
    if isinstance(given, bool):
        raise DataError(f"{what} is {given}. Expected a file, a frame, or a mapping of column names to arrays.")
    if isinstance(given, int | np.integer):
        return Frame(Table({}, size=int(given), what=what))
    if isinstance(given, str | Path):
        return Files.from_paths(_found(str(given), what), what=what, private=private)
    if isinstance(given, list | tuple) and given and all(isinstance(item, str | Path) for item in given):
        return Files.from_paths(
            [path for item in given for path in _found(str(item), what)], what=what, private=private
        )
    if isinstance(given, Mapping):
        return Frame(Table(given, what=what))
    if type(given).__module__.split(".")[0] == "pandas":
        return Frame(_from_pandas(given, what))
    if hasattr(given, "collect") and hasattr(given, "lazy"):
        given = given.collect()  # a lazy Polars frame
    if hasattr(given, "__arrow_c_stream__"):
        return Files.from_arrow(given, what=what, private=private)
    names = getattr(given, "columns", None)
    if names is not None and hasattr(given, "__getitem__"):
        return Frame(Table({name: given[name] for name in names}, what=what))
    raise DataError(
        f"{what} is of type {type(given).__name__}. Expected a path to CSV or Parquet files, a pandas or Polars frame, an "
        "Arrow table, or a mapping of column names to arrays."
    )


def as_table(given: object, *, what: str = "the table") -> Table:
    """A table of public rows, from anything that rows can come from."""
    return given if isinstance(given, Table) else as_source(given, what=what).table()


class Frame:
    """Rows in memory."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.names = tuple(table)
        self.size = table.row_count

    def table(self, kinds: Mapping[str, Kind] | None = None) -> Table:
        """The table itself: kinds are the schema's business (`Schema.conform`)."""
        return self._table

    def units(self, unit: str) -> Units:
        """By the raw values."""
        _require_column(unit, self.names, "the table")
        return units_of(self._table.raw_or_encoded(unit))

    def divide(self, public: NDArray[np.bool_]) -> tuple[Source, Source]:
        """Two tables."""
        return Frame(self._table.take(np.flatnonzero(public))), Frame(self._table.take(np.flatnonzero(~public)))


def connection(*, memory_limit: str | None = None, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A DuckDB of our own: in memory, without extensions, secrets or access to Python's variables."""
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
    con = duckdb.connect(":memory:", config=config)
    con.execute("SET TimeZone = 'UTC'")
    return con


class Files:
    """Rows that DuckDB reads.

    Args:
        con: its connection.
        relation: SQL for what is read: a table, or a call of read_parquet.
        what: whose rows these are, for messages.
        private: whether messages must be silent about what the rows say.
        paths: the Parquet files that can be read in place, where the relation does.
        text_only: whether all columns are text whose kinds have to be inferred or declared.
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
    ) -> None:
        self.con = con
        self.relation = relation
        self.paths = tuple(paths)
        self._what, self._private = what, private
        self.text_only = text_only
        described = self._fetch(f"DESCRIBE SELECT * FROM {relation}")
        self.types: dict[str, str] = {row[0]: row[1] for row in described}
        self.names = tuple(self.types)
        self.size = int(self._fetch(f"SELECT count(*) FROM {relation}")[0][0])

    @classmethod
    def from_paths(cls, paths: Sequence[str], *, what: str, private: bool) -> Files:
        """CSV files, or Parquet files."""
        kinds = {_file_kind(path, what) for path in paths}
        if len(kinds) > 1:
            raise DataError(f"{what} is made of CSV and Parquet files together. Expected files of one kind.")
        con = connection()
        listed = ", ".join(_path(path) for path in paths)
        if kinds == {"parquet"}:
            files = cls(con, f"read_parquet([{listed}])", what=what, private=private, paths=paths)
            if len(paths) > 1:
                files._require_one_schema()
            return files
        heads = {path: _head(path, what) for path in paths}
        delimiter, names = heads[paths[0]]
        for path, (_, others) in heads.items():
            if others != names:
                raise DataError(f"{what}: {path!r} has other columns than {paths[0]!r}. Expected the same first line.")
        columns = ", ".join(f"{identifier(name)}: 'VARCHAR'" for name in names)
        missing = ", ".join(literal(word) for word in NOTHING)
        # Nothing is guessed: a dialect sniffed from private rows could drop or shift some of them.
        read = (
            f"read_csv([{listed}], auto_detect = false, header = true, columns = {{{columns}}}, "
            f"delim = {literal(delimiter)}, quote = '\"', escape = '\"', nullstr = [{missing}], null_padding = false)"
        )
        try:
            con.execute(f"CREATE TEMP TABLE source AS SELECT * FROM {read}")
        except duckdb.Error as error:
            raise DataError(_cannot_read(what, paths, "CSV", None if private else error)) from None
        return cls(con, "source", what=what, private=private, text_only=True)

    @classmethod
    def from_arrow(cls, stream: object, *, what: str, private: bool) -> Files:
        """A frame that can hand over an Arrow stream."""
        con = connection()
        con.register("frame", stream)
        con.execute("CREATE TEMP TABLE source AS SELECT * FROM frame")
        con.unregister("frame")
        return cls(con, "source", what=what, private=private)

    def _require_one_schema(self) -> None:
        """Files of different types would fail, or not, by what their rows hold: refuse them at once."""
        for path in self.paths:
            types = {row[0]: row[1] for row in self._fetch(f"DESCRIBE SELECT * FROM read_parquet({_path(path)})")}
            for name in {**self.types, **types}:
                if types.get(name) != self.types.get(name):
                    raise DataError(
                        f"{self._what} is made of Parquet files in which column {name!r} has different types, or is missing "
                        "in some. Expected the same columns in all: write them anew."
                    )

    @property
    def usable(self) -> tuple[str, ...]:
        """The columns that questions could use."""
        if self.text_only:
            return self.names
        return tuple(name for name, kind in self.types.items() if _kind_of_type(kind) is not None)

    def kinds(self) -> dict[str, Kind]:
        """What kind each column is: by its type, or for CSV by what all of its texts can be read as."""
        if not self.text_only:
            known = {name: _kind_of_type(kind) for name, kind in self.types.items()}
            return {name: kind for name, kind in known.items() if kind is not None}
        tests: tuple[Kind, ...] = ("boolean", "number", "date")
        wanted = [
            f"count({from_text(identifier(name), kind)}) = count({identifier(name)})"
            for name in self.names
            for kind in tests
        ]
        known_at_all = [f"count({identifier(name)}) > 0" for name in self.names]
        row: list[Any] = []
        for start in range(0, len(wanted + known_at_all), _AT_ONCE):
            some = (wanted + known_at_all)[start : start + _AT_ONCE]
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
        """For each column the SQL of its canonical value."""
        missing = [name for name in kinds if name not in self.types]
        if missing:
            raise DataError(f"{self._what} has no column {missing[0]!r}.{did_you_mean(missing[0], self.names)}")
        return {name: canonical_column(name, self.types[name], kind, self._what) for name, kind in kinds.items()}

    def table(self, kinds: Mapping[str, Kind] | None = None) -> Table:
        """Everything in memory, canonical; texts as codes into a sorted dictionary."""
        kinds = self.kinds() if kinds is None else kinds
        columns = self.columns_sql(kinds)
        if not columns or not self.size:
            raise DataError(f"{self._what} has no {'rows' if columns else 'columns that questions could use'}.")
        words: dict[str, list[str]] = {}
        wanted: list[str] = []
        for place, (name, sql) in enumerate(columns.items()):
            if kinds[name] != "text":
                wanted.append(f"{sql} AS c{place}")
                continue
            sql = f"left({sql}, {LONGEST_TEXT})"
            distinct = f"SELECT DISTINCT {sql} AS w FROM {self.relation} WHERE {sql} IS NOT NULL ORDER BY w"
            words[name] = [row[0] for row in self._fetch(distinct)]
            if words[name]:
                self._run(f"CREATE TYPE words{place} AS ENUM ({distinct})")
                wanted.append(f"enum_code(CAST({sql} AS words{place})) AS c{place}")
            else:
                wanted.append(f"NULL::INTEGER AS c{place}")
        found: dict[str, Any] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            found |= self._numpy(f"SELECT {', '.join(wanted[start : start + _AT_ONCE])} FROM {self.relation}")
        for place, name in enumerate(columns):
            if words.get(name):
                self._run(f"DROP TYPE words{place}")
        return Table(
            {
                name: _encoded(kinds[name], found[f"c{place}"], words.get(name, []))
                for place, name in enumerate(columns)
            },
            what=self._what,
        )

    def units(self, unit: str) -> Units:
        """By the values as text, which tells all of them apart."""
        _require_column(unit, self.names, self._what)
        place = identifier(unit)
        found = self._numpy(
            f"SELECT dense_rank() OVER (ORDER BY name) - 1 AS code, name IS NULL AS nothing FROM (SELECT CAST({place} AS "
            f"VARCHAR) AS name, row_number() OVER () AS n FROM {self.relation}) ORDER BY n"
        )
        codes, nothing = np.ma.getdata(found["code"]), np.ma.getdata(found["nothing"])
        return units_of(Encoded("text", np.where(nothing, -1, codes).astype(np.int64)))

    def divide(self, public: NDArray[np.bool_]) -> tuple[Source, Source]:
        """Two tables in the same DuckDB; the marks go by the order of rows."""
        self._run(
            f"CREATE TEMP TABLE all_rows AS SELECT *, row_number() OVER () - 1 AS everhold_place FROM {self.relation}"
        )
        marks = {"everhold_place": np.arange(self.size), "everhold_public": public}
        self.con.register("marks", marks)
        halves = []
        for name, wanted in (("public_rows", "everhold_public"), ("private_rows", "NOT everhold_public")):
            self._run(
                f"CREATE TEMP TABLE {name} AS SELECT a.* EXCLUDE (everhold_place) FROM all_rows a "
                f"JOIN marks USING (everhold_place) WHERE {wanted} ORDER BY everhold_place"
            )
            halves.append(
                Files(
                    self.con,
                    name,
                    what=self._what,
                    private=self._private or name == "private_rows",
                    text_only=self.text_only,
                )
            )
        self.con.unregister("marks")
        self._run("DROP TABLE all_rows")
        return halves[0], halves[1]

    def _run(self, sql: str, fetch: Callable[[duckdb.DuckDBPyConnection], Any] = lambda _: None) -> Any:
        """Run and fetch; an error may come from either, and shows nothing of private rows."""
        try:
            return fetch(self.con.execute(sql))
        except duckdb.Error as error:
            raise DataError(_cannot_read(self._what, self.paths, "rows", None if self._private else error)) from None

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._run(sql, lambda con: con.fetchall())
        return found

    def _numpy(self, sql: str) -> dict[str, Any]:
        found: dict[str, Any] = self._run(sql, lambda con: con.fetchnumpy())
        return found


def _found(path: str, what: str) -> list[str]:
    """The files that a path or a pattern names."""
    if has_magic(path) and not Path(path).exists():
        found = sorted(glob(path, recursive=True))
        if not found:
            raise DataError(f"{what}: no file matches {path!r}. Expected CSV or Parquet files.")
        return found
    if not Path(path).exists():
        folder = Path(path).parent
        near = did_you_mean(Path(path).name, [item.name for item in folder.iterdir()]) if folder.is_dir() else ""
        raise DataError(f"{what}: there is no file {path!r}.{near}")
    if Path(path).is_dir():
        inside = sorted(str(item) for item in Path(path).iterdir() if str(item).lower().endswith(_PARQUET))
        if not inside:
            raise DataError(f"{what}: {path!r} is a folder without Parquet files. Expected a file, or such a folder.")
        return inside
    return [path]


def _head(path: str, what: str) -> tuple[str, list[str]]:
    """The delimiter and the names in the first line of a CSV file."""
    opened = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as lines:
            text = lines.read(1_000_000)
    except (OSError, UnicodeDecodeError, EOFError):
        raise DataError(
            f"{what}: {path!r} could not be read as UTF-8 text. Expected a CSV file in that encoding."
        ) from None
    if "\r" in text and "\n" not in text:
        raise DataError(
            f"{what}: the lines of {path!r} end in carriage returns alone. Expected line feeds: convert it."
        )
    heads = {one: _fields(text, one) for one in ",;\t|"}
    delimiter = max(heads, key=lambda one: len(heads[one]))
    names = heads[delimiter]
    if not any(name.strip() for name in names):
        raise DataError(f"{what}: {path!r} has no first line. Expected the names of its columns there.")
    for name in names:
        if not name.strip():
            raise DataError(f"{what}: {path!r} has a column without a name. Expected names for all in the first line.")
        if [other.lower() for other in names].count(name.lower()) > 1:
            raise DataError(
                f"{what}: {path!r} has two columns called {name!r}, but for capitals. Expected different names: rename one."
            )
    return delimiter, names


def _fields(text: str, delimiter: str) -> list[str]:
    """The first line as this delimiter divides it."""
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error:
        return []


def _file_kind(path: str, what: str) -> str:
    name = path.lower()
    if name.endswith(_PARQUET):
        return "parquet"
    if name.endswith(_CSV):
        return "csv"
    raise DataError(f"{what}: {path!r} is neither CSV nor Parquet by its name. Expected {', '.join(_CSV + _PARQUET)}.")


def _cannot_read(what: str, paths: Sequence[str], kind: str, error: Exception | None) -> str:
    where = f" ({', '.join(paths[:3])})" if paths else ""
    if error is None:
        return (
            f"{what}{where} could not be read as {kind}. Its rows are private, so nothing of them is shown here; "
            "duckdb or pandas will tell you more, on a machine where that is allowed."
        )
    return f"{what}{where} could not be read as {kind}: {str(error).strip().splitlines()[0]}"


def _path(path: str) -> str:
    """A path for DuckDB, which would take some letters of it for a pattern."""
    return literal("".join(f"[{letter}]" if letter in "[*?" else letter for letter in path))


def _require_column(name: str, names: Sequence[str], what: str) -> None:
    if name not in names:
        raise DataError(
            f"{what} has no column {name!r} to tell units by.{did_you_mean(name, names)} Expected the name of a column."
        )


def _kind_of_type(kind: str) -> Kind | None:
    """What a DuckDB type is to questions."""
    if kind.endswith("]"):
        return None
    name = kind.split("(")[0].upper()
    if name == "BOOLEAN":
        return "boolean"
    if name in {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL"} or (
        (name.startswith("U") and name.endswith("INT")) or name == "UINTEGER"
    ):
        return "number"
    if name in {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"}:
        return "date"
    return "text" if name in {"VARCHAR", "ENUM", "UUID"} else None


def _encoded(kind: Kind, column: Any, words: list[str]) -> Encoded:
    """What fetchnumpy gave, as a canonical column."""
    mask = np.ma.getmaskarray(column)
    data = np.ma.getdata(column)
    if kind == "text":
        return encode_words(words, np.where(mask, -1, data.astype(np.int64)))
    if kind == "boolean":
        known = None if not mask.any() else ~mask
        return Encoded(kind, np.where(mask, False, data).astype(np.bool_), (), known)
    return Encoded(kind, np.where(mask, np.nan, data.astype(np.float64)))


def _from_pandas(frame: Any, what: str) -> Table:
    """Column by column; nullable types, categories and zoned times made plain."""
    if not hasattr(frame, "columns"):
        raise DataError(f"{what} is a pandas {type(frame).__name__}. Expected a DataFrame.")
    columns: dict[str, object] = {}
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        if not isinstance(column.dtype, np.dtype):  # pandas' own types
            column = column.to_numpy(dtype=object, na_value=None)
        columns[name] = column
    if len(columns) < len(frame.columns):
        raise DataError(f"{what} has two columns of the same name. Expected different names: rename one.")
    return Table(columns, what=what)
