"""What every prior boils down to: rows with weights, drawn once or anew every round."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from everhold.errors import PriorError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.data.table import Table

__all__ = ["Pool", "Prior", "normalised"]

MOST_ROWS = 2**24
"""Pools stay below this, so that every sum over them is exact."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Public rows that stand for the prior.

    Attributes:
        rows: the table.
        weights: one for each row, summing to 1; None when all are equal.
        draws: how many independent draws from the prior these rows amount to: what their noise is computed from.
    """

    rows: Table
    weights: NDArray[np.float64] | None
    draws: float

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.rows.size


@runtime_checkable
class Prior(Protocol):
    """A prior: public rows, or a way to draw them."""

    @property
    def fresh(self) -> bool:
        """Whether rows are drawn anew every round (`draw`) instead of once (`pool`)."""

    @property
    def density(self) -> float | None:
        """A λ that the prior guarantees by its construction (`D ≤ π/λ`); None when it guarantees none."""

    def pool(self, rng: np.random.Generator) -> Pool:
        """The fixed pool, drawn once with these coins."""

    def draw(self, rng: np.random.Generator, size: int) -> Pool:
        """`size` new draws from the prior."""

    def describe(self) -> str:
        """One line for people."""


def normalised(weights: ArrayLike, size: int) -> NDArray[np.float64]:
    """Weights checked and scaled to sum to 1."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise PriorError("the weights could not be read as numbers. Expected one for each reference row.") from None
    if array.shape != (size,):
        raise PriorError(f"the weights have shape {array.shape}. Expected one for each of {size:,} reference rows.")
    if not (np.all(np.isfinite(array)) and np.all(array >= 0.0)):
        raise PriorError("a weight is negative, infinite or missing. Expected numbers of at least 0.")
    total = fsum(array.tolist())  # correctly rounded: the same on every machine
    if not total > 0.0:
        raise PriorError("all weights are 0. Expected at least one positive weight.")
    return array / total
