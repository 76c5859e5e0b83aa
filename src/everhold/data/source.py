"""Sources of rows: files, frames, arrays, tables of a database. Rows are read once and become canonical columns.

DuckDB reads CSV and Parquet files, Polars frames and Arrow tables; pandas frames and mappings are read directly. A CSV
file contains only text; the kinds of its columns are inferred from public rows only, or declared by a schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from everhold.data.database_urls import Postgres, Spark, at_url, is_url, open_table
from everhold.data.duckdb_files import PARQUET, Files
from everhold.data.engines.remote import RemoteTable
from everhold.data.table import RowTable
from everhold.data.units import Units, has_unnamed, units_of
from everhold.errors import DataError, did_you_mean
from everhold.queries.expression.tree import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Frame", "Source", "as_source", "as_table"]


class Source(Protocol):
    """Rows that have not been converted to canonical columns yet."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def size(self) -> int:
        """The number of rows."""

    def table(self, kinds: Mapping[str, Kind] | None = None) -> RowTable:
        """The rows as a table, with the given kinds; without them, with the kinds of the source or inferred ones."""

    def units(self, unit: str) -> Units:
        """Rows grouped by the exact values of a column."""

    def divide(self, public: NDArray[np.bool_]) -> tuple[Source, Source]:
        """Split into the marked rows and the others."""


def as_source(given: object, *, what: str, private: bool = False) -> Source:
    """Rows from a path (CSV, Parquet, a pattern such as 'part-*.parquet', a list of paths), a pandas or Polars frame, an
    Arrow table, a mapping of columns to arrays, a table of PostgreSQL or Spark or its URL, or only the number of rows, if
    every question is given by its values.

    `private`: messages then show nothing from the rows.
    """
    if isinstance(given, Files | Frame | RemoteTable):
        return given
    if isinstance(given, str) and is_url(given):
        given = at_url(given)
    if isinstance(given, Postgres | Spark):
        return open_table(given, what=what, private=private)
    if isinstance(given, RowTable):
        return Frame(given)
    if isinstance(given, bool):
        raise DataError(f"{what} is {given}. Expected a file, a frame, or a mapping of column names to arrays.")
    if isinstance(given, int | np.integer):
        return Frame(RowTable({}, size=int(given), what=what))
    if isinstance(given, str | Path):
        return Files.from_paths(_found(str(given), what), what=what, private=private)
    if isinstance(given, list | tuple) and given and all(isinstance(item, str | Path) for item in given):
        return Files.from_paths([path for item in given for path in _found(str(item), what)], what=what, private=private)
    if isinstance(given, Mapping):
        return Frame(RowTable(given, what=what))
    if type(given).__module__.split(".")[0] == "pandas":
        return Frame(_from_pandas(given, what))
    if hasattr(given, "collect") and hasattr(given, "lazy"):
        given = given.collect()  # a lazy Polars frame
    if hasattr(given, "__arrow_c_stream__"):
        return Files.from_arrow(given, what=what, private=private)
    names = getattr(given, "columns", None)
    if names is not None and hasattr(given, "__getitem__"):
        return Frame(RowTable({name: given[name] for name in names}, what=what))
    raise DataError(
        f"{what} is of type {type(given).__name__}. Expected a path to CSV or Parquet files, a pandas or Polars frame, an "
        "Arrow table, or a mapping of column names to arrays."
    )


def as_table(given: object, *, what: str = "the table") -> RowTable:
    """A table of public rows, from any source."""
    return given if isinstance(given, RowTable) else as_source(given, what=what).table()


class Frame:
    """Rows in memory, as a source."""

    def __init__(self, table: RowTable) -> None:
        self._table = table
        self.names = tuple(table)
        self.size = table.row_count

    def table(self, kinds: Mapping[str, Kind] | None = None) -> RowTable:
        """The table itself; `Schema.conform` applies the kinds."""
        return self._table

    def units(self, unit: str) -> Units:
        """Rows grouped by the raw values of a column."""
        _require_column(unit, self.names, "the table")
        return units_of(self._table.raw_or_encoded(unit))

    def unnamed_units(self, unit: str) -> bool:
        """Whether some row has no value in the column that names units."""
        _require_column(unit, self.names, "the table")
        return has_unnamed(self._table.raw_or_encoded(unit))

    def divide(self, public: NDArray[np.bool_]) -> tuple[Source, Source]:
        """The marked rows and the others, as two tables."""
        return Frame(self._table.take(np.flatnonzero(public))), Frame(self._table.take(np.flatnonzero(~public)))


def _found(path: str, what: str) -> list[str]:
    """The files that match a path or a pattern."""
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
        inside = sorted(str(item) for item in Path(path).iterdir() if str(item).lower().endswith(PARQUET))
        if not inside:
            raise DataError(f"{what}: {path!r} is a folder without Parquet files. Expected a file, or such a folder.")
        return inside
    return [path]


def _require_column(name: str, names: Sequence[str], what: str) -> None:
    if name not in names:
        raise DataError(
            f"{what} has no column {name!r} to group rows by (unit=).{did_you_mean(name, names)} Expected the name of a "
            "column."
        )


def _from_pandas(frame: Any, what: str) -> RowTable:
    """A table from a pandas frame; nullable types, categories and zoned times become plain arrays."""
    if not hasattr(frame, "columns"):
        raise DataError(f"{what} is a pandas {type(frame).__name__}. Expected a DataFrame.")
    columns: dict[str, object] = {}
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        if not isinstance(column.dtype, np.dtype):  # extension types of pandas
            column = column.to_numpy(dtype=object, na_value=None)
        columns[name] = column
    if len(columns) < len(frame.columns):
        raise DataError(f"{what} has two columns of the same name. Expected different names: rename one.")
    return RowTable(columns, what=what)
