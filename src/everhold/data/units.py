"""Units: several rows of one person count as one draw, with the mean of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import DataError
from everhold.queries.expression.columns import EncodedColumn
from everhold.queries.expression.values import LARGEST, is_nothing

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Units", "by_unit", "has_unnamed", "units_of"]


class Units:
    """Rows grouped by unit.

    Args:
        codes: the unit of each row, 0 … units - 1.
        count: the number of units.
    """

    def __init__(self, codes: NDArray[Any], count: int) -> None:
        self.codes = codes.astype(np.intp, copy=False)  # 32 bits in a browser, where bincount takes nothing wider
        """The unit of each row."""
        self._sizes = np.bincount(self.codes, minlength=count).astype(np.float64)

    def __len__(self) -> int:
        return len(self._sizes)

    def average(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean of the steps within each unit, rounded to whole steps. Sums of steps are whole numbers, so it is exact.

        >>> Units(np.array([0, 0, 1]), 2).average(np.array([0.0, 4.0, 1.0])).tolist()
        [2.0, 1.0]
        """
        sums = np.bincount(self.codes, weights=steps, minlength=len(self._sizes))
        return np.rint(sums / self._sizes)


def by_unit(hashes: NDArray[np.uint64], units: Units | None) -> NDArray[np.uint64]:
    """One hash for each unit: the smallest of its rows. Without units, the hashes of the rows."""
    if units is None:
        return hashes
    least = np.full(len(units), np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(least, units.codes, hashes)
    return least


def units_of(column: EncodedColumn | NDArray[Any]) -> Units:
    """The units named by the raw values of a column; a row without a value is its own unit.

    >>> len(units_of(np.array([2**60, 2**60 + 1, 2**60])))
    2
    """
    values, missing = _named(column)
    _, codes = np.unique(values[~missing], return_inverse=True)
    named = int(codes.max()) + 1 if len(codes) else 0
    result = np.empty(len(missing), dtype=np.int64)
    result[~missing] = codes
    result[missing] = named + np.arange(int(missing.sum()))
    return Units(result, named + int(missing.sum()))


def has_unnamed(column: EncodedColumn | NDArray[Any]) -> bool:
    """Whether some row has no value that names its unit.

    >>> has_unnamed(np.array([1.0, np.nan])), has_unnamed(np.array([1, 2]))
    (True, False)
    """
    return bool(_named(column)[1].any())


def _named(column: EncodedColumn | NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The value that names each row's unit, and a mask of rows without one."""
    if isinstance(column, EncodedColumn):
        missing = column.missing
        if column.kind == "number":  # clamped, so different names may have become equal
            missing = missing | (np.abs(column.values) >= LARGEST)
        return column.values, missing
    if column.ndim != 1:
        raise DataError("the unit column has several values in each row. Expected one value for each row.")
    if column.dtype.kind == "O":
        nothing = np.array([is_nothing(item) for item in column.tolist()], dtype=np.bool_)
        names = [_name(item) for item in column.tolist()]
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        return np.array([places[name] for name in names]), nothing
    if column.dtype.kind in "fM":
        return column, np.isnan(column) if column.dtype.kind == "f" else np.isnat(column)
    return column, np.zeros(len(column), dtype=np.bool_)


def _name(item: object) -> str:
    """A single value as text. 1.0 becomes 1, because the type of the column depends on other rows."""
    return str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)
