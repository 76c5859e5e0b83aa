"""The first line of a CSV file: its delimiter and the names of its columns."""

from __future__ import annotations

import csv
import gzip
import io

from everhold.errors import DataError

__all__ = ["csv_head"]


def csv_head(path: str, what: str) -> tuple[str, list[str]]:
    """The delimiter and the names in the first line of a CSV file."""
    opened = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as lines:
            text = lines.read(1_000_000)
    except (OSError, UnicodeDecodeError, EOFError):
        raise DataError(f"{what}: {path!r} is not UTF-8 text. Expected a CSV file in UTF-8: convert it.") from None
    if "\r" in text and "\n" not in text:
        raise DataError(f"{what}: the lines of {path!r} end with carriage returns only. Expected line feeds: convert it.")
    heads = {one: _fields(text, one) for one in ",;\t|"}
    delimiter = max(heads, key=lambda one: len(heads[one]))
    names = heads[delimiter]
    if not any(name.strip() for name in names):
        raise DataError(f"{what}: {path!r} has no first line. Expected the column names there.")
    for name in names:
        if not name.strip():
            raise DataError(f"{what}: {path!r} has a column without a name. Expected a name for each in the first line.")
        if [other.lower() for other in names].count(name.lower()) > 1:
            raise DataError(
                f"{what}: {path!r} has two columns named {name!r}, ignoring case. Expected different names: rename one."
            )
    return delimiter, names


def _fields(text: str, delimiter: str) -> list[str]:
    """The fields of the first line, split by this delimiter."""
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error:
        return []
