"""Tables as questions see them: named, frozen columns of equal length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from everhold.data.units import Units, units_of
from everhold.errors import DataError, did_you_mean
from everhold.queries.expression.columns import EncodedColumn, encode, kind_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.expression.tree import Kind

__all__ = ["RowTable"]

_WORDS = {"boolean": "booleans", "number": "numbers", "text": "text", "date": "dates"}


class RowTable(Mapping[str, "NDArray[Any]"]):
    """Columns by name, all with the same number of rows, copied and read-only.

    A column is stored raw, as given, or canonical (`EncodedColumn`), and each form is made from the other when first needed:
    callables see `table["age"]`, text questions `table.column("age")`.

    Attributes:
        size: the number of draws: units if there are any, otherwise rows.
        row_count: the number of rows.
        units: rows grouped into draws, or None.

    >>> table = RowTable({"age": [30, 41], "smoker": [True, False]})
    >>> table.size, list(table), table["age"].tolist()
    (2, ['age', 'smoker'], [30, 41])
    """

    def __init__(
        self,
        columns: Mapping[str, object],
        *,
        size: int | None = None,
        what: str = "the table",
        unit: str | None = None,
        units: Units | None = None,
        copy: bool = True,
    ) -> None:
        self._raw: dict[str, NDArray[Any]] = {}
        self._encoded: dict[str, EncodedColumn] = {}
        for name, column in columns.items():
            if not isinstance(name, str):
                raise DataError(f"{what} has a column named {name!r}. Expected names that are text: rename it.")
            if isinstance(column, EncodedColumn):
                self._encoded[name] = column
            elif not copy and isinstance(column, np.ndarray):
                self._raw[name] = column  # from another table, already read-only
            else:
                self._raw[name] = _frozen(column, f"column {name!r} of {what}")
        self._names = tuple(columns)
        lengths = {name: len(self._encoded[name] if name in self._encoded else self._raw[name]) for name in columns}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name}: {length:,}" for name, length in list(lengths.items())[:6])
            raise DataError(f"{what} has columns of different lengths ({shown}). Expected one entry for each row.")
        self.row_count = next(iter(lengths.values())) if lengths else (size or 0)
        if self.row_count < 1:
            raise DataError(f"{what} has no rows. Expected at least one.")
        self.units: Units | None = units if unit is None else units_of(self._unit_column(unit, what))
        self.size = self.row_count if self.units is None else len(self.units)

    def _unit_column(self, unit: str, what: str) -> EncodedColumn | NDArray[Any]:
        if unit not in self._names:
            raise DataError(
                f"{what} has no column {unit!r} to group rows by (unit=).{did_you_mean(unit, self._names)} Expected the "
                "name of a column."
            )
        return self._raw[unit] if unit in self._raw else self._encoded[unit]

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._raw:
            self._raw[name] = _locked(self._encoded[name].decode())
        return self._raw[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and name in self._names:
            raise AttributeError(f'columns are not attributes: write rows["{name}"] instead of rows.{name}')
        raise AttributeError(f"a table has no attribute {name!r}. Write rows[{name!r}] for a column.")

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"RowTable({self.row_count:,} rows: {', '.join(self._names) or 'no columns'})"

    def column(self, name: str) -> EncodedColumn:
        """A column in canonical form, as text questions see it."""
        if name not in self._encoded:
            self._encoded[name] = encode(self._raw[name])
        return self._encoded[name]

    def raw_or_encoded(self, name: str) -> EncodedColumn | NDArray[Any]:
        """A column in the form in which it is stored."""
        return self._raw[name] if name in self._raw else self._encoded[name]

    def kind(self, name: str) -> Kind | None:
        """The kind of a column; None if text questions cannot use it."""
        return self._encoded[name].kind if name in self._encoded else kind_of(self._raw[name])

    def is_key(self, name: str) -> bool:
        """Whether a column identifies every row by a whole number, a text or a date.

        >>> table = RowTable({"id": [1, 2, 3], "x": [0.5, 1.5, 2.5], "y": [1, 1, 2]})
        >>> [table.is_key(name) for name in table]
        [True, False, False]
        """
        if self.kind(name) in (None, "boolean"):
            return False
        column = self.column(name)
        known = column.values[~column.missing]
        first = known[:1_000]
        if len(np.unique(first)) < len(first) or (column.kind == "text" and len(column.words) < len(known)):
            return False
        if column.kind == "number" and not bool(np.all(known == np.rint(known))):
            return False
        return len(np.unique(known)) == len(known) > 1

    def kinds(self) -> dict[str, str]:
        """A description of each column's content, by which two tables can be compared."""
        return {name: self._kind_in_words(name) for name in self._names}

    def _kind_in_words(self, name: str) -> str:
        if (kind := self.kind(name)) is not None:
            return _WORDS[kind]
        raw = self._raw[name]
        names = {
            "b": "booleans",
            "i": "numbers",
            "u": "numbers",
            "f": "numbers",
            "O": "objects",
            "S": "bytes",
            "m": "durations",
        }
        found = names.get(raw.dtype.kind, str(raw.dtype))
        return found + (f" ({raw.shape[1]} wide)" if raw.ndim == 2 else "")

    def take(self, index: NDArray[Any], *, unit: str | None = None) -> RowTable:
        """A table of the rows in `index`."""
        columns: dict[str, object] = {
            name: _locked(self._raw[name][index]) if name in self._raw else self._encoded[name].take(index)
            for name in self._names
        }
        return RowTable(columns, size=len(index), unit=unit, copy=False)

    def by_unit(self, unit: str | Units | None, *, what: str = "the table") -> RowTable:
        """The same rows, grouped by a column or by given units."""
        if unit is None:
            return self
        columns = {name: self.raw_or_encoded(name) for name in self._names}
        if isinstance(unit, str):
            return RowTable(columns, size=self.row_count, what=what, unit=unit, copy=False)
        return RowTable(columns, size=self.row_count, what=what, units=unit, copy=False)

    def check_like(self, other: RowTable) -> str | None:
        """Why questions for `other` cannot be asked of this table, as a phrase for a message; None if they can."""
        missing = [name for name in other if name not in self]
        extra = [name for name in self if name not in other]
        if missing:
            return f"has no column {missing[0]!r}.{did_you_mean(missing[0], extra)}"
        if extra:
            return f"has a column {extra[0]!r} that is not in the private table.{did_you_mean(extra[0], missing)}"
        for name in other:
            mine, theirs = self._kind_in_words(name), other._kind_in_words(name)
            if mine != theirs and None not in (self._typed(name), other._typed(name)):
                return f"has {mine} in column {name!r}, but the private table has {theirs}."
        return None

    def _typed(self, name: str) -> str | None:
        """A column's kind by its type; None if it may contain values of any type, and each is converted on its own."""
        if name in self._encoded and name not in self._raw:
            return self._encoded[name].kind
        raw = self._raw[name]
        return None if raw.dtype.kind == "O" and raw.ndim == 1 else str(raw.dtype)


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _frozen(column: object, what: str) -> NDArray[Any]:
    if isinstance(column, np.ma.MaskedArray):
        raise DataError(f"{what} is masked. Expected a plain array: fill the masked places first.")
    try:
        array = np.array(column)
        if isinstance(column, list | tuple) and array.ndim == 1 and array.dtype.kind in "UiufM" and _mixed(column):
            array = np.array([*column, None], dtype=object)[:-1]  # numpy would convert all of them to texts or numbers
    except Exception:
        raise DataError(f"{what} could not be read as an array. Expected one entry for each row.") from None
    if array.ndim not in (1, 2):
        raise DataError(f"{what} has {array.ndim} dimensions. Expected one entry, or one vector, for each row.")
    array.setflags(write=False)
    return array


def _mixed(column: list[object] | tuple[object, ...]) -> bool:
    """Whether numpy would change some values to fit others: texts or booleans beside other types, times of several
    precisions, texts that end with NUL."""
    types = {type(one) for one in column}
    if np.datetime64 in types or any(isinstance(one, str) and one.endswith("\0") for one in column):
        return True
    return len(types) > 1 and bool(types & {str, bool, np.str_, np.bool_})
