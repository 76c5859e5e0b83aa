"""The protocol of priors: rows with weights, drawn once or again every round."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from everhold.errors import PriorError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.data.table import RowTable

__all__ = ["Pool", "Prior", "normalised"]

MOST_ROWS = 2**24
"""The largest pool; within it, every sum over the rows is exact."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Public rows that represent the prior.

    Attributes:
        rows: the table.
        weights: one for each row, with sum 1; None if all are equal.
        draws: how many independent draws from the prior these rows are worth; their noise is computed from it.
    """

    rows: RowTable
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
        """Whether rows are drawn again every round (`draw`) instead of once (`pool`)."""

    @property
    def density(self) -> float | None:
        """The λ that the prior guarantees by construction (`D ≤ π/λ`); None if it guarantees nothing."""

    def pool(self, rng: np.random.Generator) -> Pool:
        """The fixed pool, drawn once with these coins."""

    def draw(self, rng: np.random.Generator, size: int) -> Pool:
        """`size` new draws from the prior."""

    def describe(self) -> str:
        """A one-line description."""


def normalised(weights: ArrayLike, size: int) -> NDArray[np.float64]:
    """Check weights and scale them to sum 1."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise PriorError("the weights are not numbers. Expected one number for each reference row.") from None
    if array.shape != (size,):
        raise PriorError(f"the weights have shape {array.shape}. Expected one for each of {size:,} reference rows.")
    if not (np.all(np.isfinite(array)) and np.all(array >= 0.0)):
        raise PriorError("a weight is negative, infinite or missing. Expected numbers of at least 0.")
    total = fsum(array.tolist())  # correctly rounded: the same on every machine
    if not total > 0.0:
        raise PriorError("all weights are 0. Expected at least one positive weight.")
    return array / total
