"""A prior of feature rows without labels, combined with every possible label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everhold.data.table import RowTable
from everhold.errors import PriorError
from everhold.priors.pool import MOST_ROWS, Pool, Prior, normalised
from everhold.priors.reference import Reference

if TYPE_CHECKING:
    Probabilities = ArrayLike | Callable[[RowTable], ArrayLike] | None

__all__ = ["Labels"]


class Labels:
    """Features with a known distribution and unknown labels: the paper's setting for learning.

    The pool contains every feature row once for each class, weighted by the class's probability. With uniform labels the
    population is 1/classes-dense in this prior, for any labelling.

    Args:
        features: a table of rows without labels, or a prior that draws them.
        label: name of the label column, which questions will see.
        classes: the possible labels, at least two.
        probabilities: one row of class probabilities for each feature row (for example, cross-validated predictions of a
            model), or a function from the feature table to such rows; None: uniform.

    >>> prior = Labels({"x": [0.1, 0.7, 0.9]}, label="y", classes=["no", "yes"])
    >>> pool = prior.pool(np.random.default_rng(0))
    >>> pool.size, pool.rows["y"].tolist(), prior.density
    (6, ['no', 'no', 'no', 'yes', 'yes', 'yes'], 0.5)
    """

    exempt_from_overlap = True
    """Features may be those of the private rows, because only labels are private: the overlap check does not apply."""

    def __init__(
        self,
        features: object,
        *,
        label: str = "y",
        classes: Sequence[Any] | NDArray[Any] = (-1, 1),
        probabilities: Probabilities = None,
    ) -> None:
        self._features: Prior = features if isinstance(features, Prior) else Reference(features)
        self._label = label
        self._classes = np.array(list(classes) if isinstance(classes, Iterable) else classes)
        if (
            self._classes.ndim != 1
            or len(np.unique(self._classes)) < 2
            or len(np.unique(self._classes)) != len(self._classes)
        ):
            raise PriorError(f"the classes are {classes!r}. Expected at least two different classes.")
        self._probabilities = probabilities
        if self.fresh and probabilities is not None and not callable(probabilities):
            raise PriorError(
                "the features are drawn again every round, so a fixed array of probabilities does not fit them. Expected a "
                "function from the feature table to probabilities."
            )

    @property
    def fresh(self) -> bool:
        """Whether every round draws new feature rows."""
        return self._features.fresh

    @property
    def density(self) -> float | None:
        """1/classes for uniform labels, times the density of the features' prior; None for given probabilities."""
        return (self._features.density or 1.0) / len(self._classes) if self._probabilities is None else None

    def pool(self, rng: np.random.Generator) -> Pool:
        """Every feature row with every label."""
        return self._cross(self._features.pool(rng))

    def draw(self, rng: np.random.Generator, size: int) -> Pool:
        """`size` new feature rows with every label; labels are summed over, not drawn."""
        return self._cross(self._features.draw(rng, size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()})"

    def describe(self) -> str:
        """A one-line description."""
        how = "uniform labels" if self._probabilities is None else "given label probabilities"
        return f"{self._features.describe()} × {how} ({len(self._classes)} classes)"

    def _cross(self, features: Pool) -> Pool:
        rows, k, m = features.rows, len(self._classes), features.size
        if self._label in rows:
            raise PriorError(
                f"the features already have a column {self._label!r}. Expected rows without labels: drop the column, or "
                "use another name for the label."
            )
        if m * k > MOST_ROWS:
            raise PriorError(f"{m:,} rows × {k} classes are more than {MOST_ROWS:,}. Use a random part of the rows.")
        columns: dict[str, object] = {name: np.concatenate([column] * k) for name, column in rows.items()}
        columns[self._label] = np.repeat(self._classes, m)
        crossed = RowTable(columns, what="features × labels")
        if self._probabilities is None and features.weights is None:
            return Pool(crossed, None, features.draws)
        chances = self._class_probabilities(rows)
        base = np.full(m, 1.0 / m) if features.weights is None else features.weights
        return Pool(crossed, normalised((chances * base[:, None]).T.reshape(-1), m * k), features.draws)

    def _class_probabilities(self, rows: RowTable) -> NDArray[np.float64]:
        k = len(self._classes)
        if self._probabilities is None:
            return np.full((rows.size, k), 1.0 / k)
        given = self._probabilities(rows) if callable(self._probabilities) else self._probabilities
        try:
            chances = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise PriorError("the label probabilities are not numbers. Expected an array of numbers.") from None
        if chances.shape != (rows.size, k):
            raise PriorError(
                f"the label probabilities have shape {chances.shape}. Expected ({rows.size}, {k}): one row for each "
                "feature row, one column for each class."
            )
        if not (np.all(chances >= 0.0) and np.all(np.abs(chances.sum(axis=1) - 1.0) < 1e-6)):
            raise PriorError("the label probabilities must be at least 0 and sum to 1 in every row.")
        return chances
