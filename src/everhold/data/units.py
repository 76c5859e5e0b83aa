"""Rows that belong together: several rows of one person are one draw, the mean of what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.expression.columns import Encoded

__all__ = ["Units", "units_of"]


class Units:
    """Rows grouped by unit.

    Args:
        codes: the unit of each row, 0 … units - 1.
        count: how many units there are.
    """

    def __init__(self, codes: NDArray[Any], count: int) -> None:
        self._codes = codes
        self._sizes = np.bincount(codes, minlength=count).astype(np.float64)

    def __len__(self) -> int:
        return len(self._sizes)

    def average(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean steps within each unit, rounded to whole ones. Sums of steps are whole numbers, so this is exact.

        >>> Units(np.array([0, 0, 1]), 2).average(np.array([0.0, 4.0, 1.0])).tolist()
        [2.0, 1.0]
        """
        sums = np.bincount(self._codes, weights=steps, minlength=len(self._sizes))
        return np.rint(sums / self._sizes)


def units_of(column: Encoded) -> Units:
    """The units that a column names; a row without one is a unit of its own."""
    missing = column.missing
    _, codes = np.unique(column.values[~missing], return_inverse=True)
    named = int(codes.max()) + 1 if len(codes) else 0
    result = np.empty(len(column), dtype=np.int64)
    result[~missing] = codes
    result[missing] = named + np.arange(int(missing.sum()))
    return Units(result, named + int(missing.sum()))
