"""A report for the owner: how well private rows fit a schema. It is not part of a session or its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.data.duckdb_files import Files
from everhold.data.engines.remote import RemoteTable
from everhold.data.schema import ColumnSchema, Schema
from everhold.data.source import as_source
from everhold.errors import DataError, did_you_mean
from everhold.queries.expression.columns import EncodedColumn, converted, encode
from everhold.queries.expression.values import is_nothing
from everhold.results import Tabular

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["ColumnReport", "Examination", "examine"]


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """Counts of rows that do not fit the schema in one column.

    Attributes:
        missing: rows without a value.
        unreadable: rows with a value that cannot be read as the declared kind; it counts as missing.
        outside: rows outside the declared range or categories.
        unexpected: rows without a value, in a column declared complete.
    """

    name: str
    missing: int
    unreadable: int
    outside: int
    unexpected: int


@dataclass(frozen=True)
class Examination(Tabular, Mapping[str, ColumnReport]):
    """Private counts. Do not show them to anybody who may ask questions."""

    rows: int
    columns: tuple[ColumnReport, ...]

    def __getitem__(self, name: str) -> ColumnReport:
        return {column.name: column for column in self.columns}[name]

    def __iter__(self) -> Iterator[str]:
        return (column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def to_rows(self) -> list[dict[str, Any]]:
        """A line for each column."""
        return [asdict(column) for column in self.columns]

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def __repr__(self) -> str:
        wide = max([6, *(len(column.name) for column in self.columns)])
        lines = [
            f"{self.rows:,} private rows. For the owner only: these counts are not protected.",
            f"{'column':<{wide}} {'missing':>10} {'unreadable':>10} {'outside':>10} {'unexpected':>10}",
        ]
        lines += [
            f"{column.name:<{wide}} {column.missing:>10,} {column.unreadable:>10,} {column.outside:>10,} "
            f"{column.unexpected:>10,}"
            for column in self.columns
        ]
        return "\n".join(lines)


def examine(data: object, schema: Schema | str | Path) -> Examination:
    """Count the private rows that do not fit a schema, column by column. For the owner, before a study begins.

    Change the schema only for reasons that do not depend on these rows: a range fitted to the private maximum reveals that
    maximum.
    """
    declared = schema if isinstance(schema, Schema) else Schema.load(schema)
    rows = as_source(data, what="the private table", private=True)
    if isinstance(rows, RemoteTable):
        return Examination(rows.size, tuple(_counted(declared, rows)))
    if isinstance(rows, Files) and rows.text_only:
        table = rows.table(dict.fromkeys(rows.names, "text"))
    else:
        table = rows.table()
    reports = []
    for column in declared.columns:
        if column.name not in table:
            raise DataError(f"the private table has no column {column.name!r}.{did_you_mean(column.name, table)}")
        if table.kind(column.name) is None:
            raise DataError(f"column {column.name!r} of the private table cannot be read as {column.kind}.")
        reports.append(_report(column, table.raw_or_encoded(column.name)))
    return Examination(rows.size, tuple(reports))


def _counted(schema: Schema, rows: RemoteTable) -> Iterator[ColumnReport]:
    """The reports of all columns, from counts that the database makes in one scan."""
    number, own = rows.dialect.number, rows.kinds()
    columns, conditions = {}, []
    for place, column in enumerate(schema.columns):
        found, read = f"f{place}", f"r{place}"
        columns[read] = rows.column(column.name, column.kind)
        columns[found] = rows.column(column.name, own[column.name])
        outside = "FALSE"
        if column.low is not None and column.high is not None:
            outside = f"{read} < {number(column.low)} OR {read} > {number(column.high)}"
        if column.categories:
            outside = f"NOT {rows.dialect.member(read, column.categories)}"
        conditions += [f"{found} IS NULL", f"{found} IS NOT NULL AND {read} IS NULL", outside, f"{read} IS NULL"]
    counts = rows.counts(conditions, columns)
    for place, column in enumerate(schema.columns):
        missing, unreadable, outside_rows, unexpected = counts[4 * place : 4 * place + 4]
        yield ColumnReport(column.name, missing, unreadable, outside_rows, 0 if column.missing else unexpected)


def _report(declared: ColumnSchema, found: EncodedColumn | NDArray[np.generic]) -> ColumnReport:
    if isinstance(found, EncodedColumn):
        read, missing = converted(found, declared.kind), found.missing
    else:
        read = encode(found, declared.kind)
        missing = np.array([is_nothing(item) for item in found.tolist()], dtype=np.bool_) & read.missing
    outside = 0
    if declared.low is not None and declared.high is not None:
        known = read.values[~read.missing]
        outside = int(np.count_nonzero((known < declared.low) | (known > declared.high)))
    if declared.categories:
        listed = np.array([*(word in set(declared.categories) for word in read.words), True])
        outside = int(np.count_nonzero(~listed[read.values]))
    return ColumnReport(
        declared.name,
        missing=int(missing.sum()),
        unreadable=int((read.missing & ~missing).sum()),
        outside=outside,
        unexpected=0 if declared.missing else int(read.missing.sum()),
    )
