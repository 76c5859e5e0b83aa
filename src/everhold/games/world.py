"""Worlds with known truth: a population, a prior, and the exact mean of any question.

Every world has the same three columns, so that every analyst can play in every world: `x`, a matrix of features in
[-1, 1]; `y`, a label of -1 or 1; and `i`, the row's atom of the population, for analysts who know the population.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.data.table import RowTable
from everhold.errors import SettingError
from everhold.games.registry import Register
from everhold.priors.labels import Labels
from everhold.priors.pool import Pool, Prior
from everhold.priors.reference import Reference
from everhold.queries.query import Rows

__all__ = ["WORLDS", "Question", "World", "atoms_of"]

Question = Callable[[Rows], "NDArray[Any]"]
"""A vectorised question: yes/no, or numbers in [-1, 1]."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A population over finitely many atoms, which the game knows and the mechanism does not.

    Attributes:
        name: its name in tables.
        rows: the atoms: columns x, y and i.
        weights: the weights of the population, with sum 1.
        prior_weights: the weights of the prior over the same atoms; for unlabelled priors, over the features.
        labelled: whether the prior has labels. If not, it is features × both labels.
        density: λ.
    """

    name: str
    rows: RowTable
    weights: NDArray[np.float64] = field(repr=False)
    prior_weights: NDArray[np.float64] = field(repr=False)
    labelled: bool
    density: float | None

    @property
    def features(self) -> int:
        """The number of columns of x."""
        return int(self.rows["x"].shape[1])

    @property
    def atoms(self) -> int:
        """The number of atoms; `i` runs from 0 to one less."""
        return int(self.rows["i"].max()) + 1

    def draw(self, rng: np.random.Generator, size: int) -> RowTable:
        """`size` atoms, drawn by the population's weights."""
        return self.rows.take(_pick(rng, self.weights, size))

    def _features(self, rng: np.random.Generator, size: int) -> dict[str, NDArray[Any]]:
        picked = _pick(rng, self.prior_weights, size)
        return {name: column[picked] for name, column in self.rows.items() if self.labelled or name != "y"}

    def prior(self, rng: np.random.Generator, size: int) -> Prior:
        """The prior from `size` draws: whole rows, or features with both labels."""
        drawn = self._features(rng, size)
        return Reference(drawn) if self.labelled else Labels(drawn, label="y", classes=[-1, 1])

    def draw_prior(self, rng: np.random.Generator, size: int) -> RowTable:
        """Single rows of the prior, for mechanisms that draw."""
        drawn = self._features(rng, size)
        if not self.labelled:
            drawn["y"] = np.where(rng.random(size) < 0.5, -1, 1).astype(np.int8)
        return RowTable(drawn)

    def domain(self) -> Pool:
        """Every point with the prior's weights, for mechanisms that need an explicit domain."""
        rows = dict(self.rows)
        if self.labelled:
            return Pool(RowTable(rows), self.prior_weights, float(self.rows.size))
        both: dict[str, object] = {name: np.concatenate([column, column]) for name, column in rows.items()}
        both["y"] = np.repeat(np.array([-1, 1], np.int8), self.rows.size)
        return Pool(RowTable(both), np.concatenate([self.prior_weights] * 2) / 2.0, float(self.rows.size))

    def truth(self, question: Question) -> float:
        """The population mean of a question, Σ p φ over the atoms: a share for booleans, a mean for numbers."""
        values = np.asarray(question(self.rows))
        return float(self.weights.dot(values.astype(np.float64)))

    @property
    def chi_square(self) -> float:
        """χ²(population ‖ prior); infinite if the population has atoms with prior weight 0."""
        expected = self.prior_weights
        if not self.labelled:  # features × both labels: each label has half of the prior weight of the features
            features = np.zeros(self.atoms)
            np.add.at(features, self.rows["i"], self.prior_weights)
            expected = 0.5 * features[self.rows["i"]]
        occurs = self.weights > 0.0
        if bool((expected[occurs] <= 0.0).any()):
            return float("inf")
        return float((self.weights[occurs] ** 2 / expected[occurs]).sum() - 1.0)


def atoms_of(
    name: str,
    x: NDArray[Any],
    y: NDArray[Any],
    *,
    weights: NDArray[np.float64] | None = None,
    prior_weights: NDArray[np.float64] | None = None,
    labelled: bool = False,
    density: float | None = None,
    index: NDArray[Any] | None = None,
) -> World:
    """A world from features, labels and weights, after checks. `index` says which rows share their features."""
    if x.ndim != 2 or len(x) != len(y) or not set(np.unique(y)) <= {-1, 1}:
        raise SettingError("expected a matrix x, and labels y of -1 and 1, one for each row of x.")
    size = len(x)
    rows = RowTable({"x": x.astype(np.float32), "y": y.astype(np.int8), "i": np.arange(size) if index is None else index})
    uniform = np.full(size, 1.0 / size)
    p = uniform if weights is None else weights / weights.sum()
    q = uniform if prior_weights is None else prior_weights / prior_weights.sum()
    return World(name, rows, p, q, labelled, density)


def _pick(rng: np.random.Generator, weights: NDArray[np.float64], size: int) -> NDArray[np.intp]:
    return np.searchsorted(np.cumsum(weights)[:-1], rng.random(size), side="right")


WORLDS: Register[Callable[[int], World]] = Register("world")
"""Worlds by name; each is made from a seed."""
