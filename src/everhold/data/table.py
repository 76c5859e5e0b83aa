"""A table as questions see it: named columns of one length, frozen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from everhold.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Table", "as_table"]


class Table(Mapping[str, "NDArray[Any]"]):
    """Columns by name, all with the same number of rows, copied and locked against writing.

    >>> table = Table({"age": [30, 41], "smoker": [True, False]})
    >>> table.size, list(table), table["age"].tolist()
    (2, ['age', 'smoker'], [30, 41])
    """

    def __init__(self, columns: Mapping[str, object], *, size: int | None = None, what: str = "the table") -> None:
        frozen: dict[str, NDArray[Any]] = {}
        for name, column in columns.items():
            if not isinstance(name, str):
                raise DataError(f"{what} has a column named {name!r}. Expected names that are text: rename it.")
            frozen[name] = _frozen(column, f"column {name!r} of {what}")
        lengths = {name: len(column) for name, column in frozen.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name}: {length:,}" for name, length in list(lengths.items())[:6])
            raise DataError(f"{what} has columns of different lengths ({shown}). Expected one entry for each row.")
        self._columns = frozen
        self.encoded: dict[str, Any] = {}
        """Columns as expressions see them, made when first used."""
        self.size = next(iter(lengths.values())) if lengths else (size or 0)
        if self.size < 1:
            raise DataError(f"{what} has no rows. Expected at least one.")

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and name in self._columns:
            raise AttributeError(f'columns are taken by name: write rows["{name}"] instead of rows.{name}')
        raise AttributeError(f"a table has no attribute {name!r}; its columns are taken as rows[{name!r}]")

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Table({self.size:,} rows: {', '.join(self._columns) or 'no columns'})"

    def kinds(self) -> dict[str, str]:
        """What each column holds, in words that two tables can be compared by."""
        names = {
            "b": "booleans",
            "i": "numbers",
            "u": "numbers",
            "f": "numbers",
            "U": "text",
            "O": "text",
            "S": "text",
        }
        names |= {"M": "dates", "m": "durations"}
        return {
            name: names.get(column.dtype.kind, str(column.dtype))
            + (f" ({column.shape[1]} wide)" if column.ndim == 2 else "")
            for name, column in self._columns.items()
        }

    def check_like(self, other: Table) -> str | None:
        """What keeps questions about `other` from being asked of this table too; None when nothing does."""
        missing = [name for name in other if name not in self]
        extra = [name for name in self if name not in other]
        if missing:
            return f"has no column {missing[0]!r}.{did_you_mean(missing[0], extra)}"
        if extra:
            return f"has a column {extra[0]!r} that the private table has not.{did_you_mean(extra[0], missing)}"
        mine, theirs = self.kinds(), other.kinds()
        for name in other:
            if mine[name] != theirs[name]:
                return f"has {mine[name]} in column {name!r} where the private table has {theirs[name]}."
        return None


def as_table(source: object, *, what: str = "the table") -> Table:
    """A table from a mapping of columns, a pandas or Polars frame, an Arrow table, or a bare number of rows.

    A bare number is for sessions in which every question brings its values along (`eh.Values`).
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, bool):
        raise DataError(f"{what} is {source}. Expected a mapping of column names to arrays.")
    if isinstance(source, int | np.integer):
        return Table({}, size=int(source), what=what)
    if isinstance(source, Mapping):
        return Table(source, what=what)
    names = getattr(source, "column_names", None)
    if names is None:
        names = getattr(source, "columns", None)
    if names is not None and hasattr(source, "__getitem__"):
        return Table({name: source[name] for name in names}, what=what)
    raise DataError(
        f"{what} is of type {type(source).__name__}. Expected a mapping of column names to arrays, a pandas or Polars "
        "frame or an Arrow table."
    )


def _frozen(column: object, what: str) -> NDArray[Any]:
    if isinstance(column, np.ma.MaskedArray):
        raise DataError(f"{what} is masked. Expected a plain array: fill the masked places first.")
    try:
        array = np.array(column)
    except Exception:
        raise DataError(f"{what} could not be read as an array. Expected one entry for each row.") from None
    if array.ndim not in (1, 2):
        raise DataError(f"{what} has {array.ndim} dimensions. Expected one entry, or one vector, for each row.")
    array.setflags(write=False)
    return array
