"""A prior made of public rows: last year's table, a public or synthetic one, the training rows."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING

import numpy as np

from everhold.data.source import as_table
from everhold.errors import DataError, PriorError
from everhold.priors.pool import MOST_ROWS, Pool, normalised

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Reference"]


class Reference:
    """A public table as the prior.

    Args:
        table: a path to CSV or Parquet files, a pandas or Polars frame, an Arrow table, a mapping of columns; or the
            number of rows, if every question is given by its values.
        weights: one for each row, at least 0; None: equal weights.

    The rows must be independent of the private ones: another sample, or a random split of the same one. Choosing rows by
    looking at the private table voids the guarantee.

    >>> Reference({"age": [30, 41, 55]}).describe()
    'reference of 3 rows'
    """

    fresh = False
    density: float | None = None

    def __init__(self, table: object, *, weights: ArrayLike | None = None) -> None:
        try:
            rows = as_table(table, what="the reference")
        except DataError as error:
            raise PriorError(str(error)) from None
        if rows.size > MOST_ROWS:
            raise PriorError(
                f"the reference has {rows.size:,} rows. Expected at most {MOST_ROWS:,}: use a random part of them."
            )
        self._weighted = weights is not None
        normal = None if weights is None else normalised(weights, rows.size)
        draws = float(rows.size) if normal is None else 1.0 / fsum(np.square(normal).tolist())
        self._pool = Pool(rows, normal, draws)

    def pool(self, rng: np.random.Generator) -> Pool:
        """The reference rows."""
        return self._pool

    def draw(self, rng: np.random.Generator, size: int) -> Pool:
        """`size` rows with replacement, by weight; `Labels` uses it to draw features."""
        picked = rng.choice(self._pool.size, size=size, p=self._pool.weights)
        rows = self._pool.rows
        return Pool(rows.take(picked), None, float(size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()})"

    def describe(self) -> str:
        """A one-line description."""
        return f"{'weighted ' if self._weighted else ''}reference of {self._pool.size:,} rows"
