"""The sketch: a density ratio over public rows, as a frozen value.

A surprise makes a new sketch and does not change the old one, so a round ends with one assignment or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import EverholdError
from everhold.mechanism.basis import Basis
from everhold.mechanism.rules.rule import from_grid
from everhold.queries.grid import MASS_ONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.mechanism.rules.rule import Rule
    from everhold.queries.grid import GridValues
    from everhold.queries.query import Query, Rows

__all__ = ["Draws", "Masses", "Sketch", "basis_on", "masses_on", "unchanged"]

_MOST_MASS = 2**38  # Σ|mass|·VALUE_ONE stays below 2⁵³: sums of masses times values are exact


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Public rows with weights that sum to 1 (None: all equal), and how many independent draws they are worth."""

    rows: Rows
    size: int
    weights: NDArray[np.float64] | None
    independent: float

    @classmethod
    def of(cls, public: Any) -> Draws:
        """The rows of a prior's pool, or of anything like it."""
        return public if isinstance(public, Draws) else cls(public.rows, public.size, public.weights, public.draws)

    def normal_weights(self) -> NDArray[np.float64]:
        """The weights as an array, also if all are equal."""
        return np.full(self.size, 1.0 / self.size) if self.weights is None else self.weights


@dataclass(frozen=True, slots=True, eq=False)
class Masses:
    """The sketch on some rows: masses on their grid, their total, and the divisor of an answer."""

    values: NDArray[np.float64]
    whole: int
    per: int
    each: int | None
    """The mass of every row, where all have the same: the prior of plain reference rows."""

    @classmethod
    def on(cls, values: NDArray[np.float64], whole: int, per: int) -> Masses:
        """Masses of rows."""
        first = int(values[0])
        return cls(values, whole, per, first if bool((values == first).all()) else None)

    def dot(self, values: GridValues) -> int:
        """Σ mass·value in multiples of 1/(MASS_ONE·VALUE_ONE), exact."""
        if self.each is not None and values.scale == "share":
            return self.each * values.total
        return values.dot(self.values, self.whole)

    @property
    def ratio(self) -> NDArray[np.float64]:
        """w·h on every row."""
        return self.values / self.per


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """The sketch after some surprises: coefficients, and the questions they belong to.

    Attributes:
        fit: θ on its grid, θ_0 first.
        queries: the surprising questions; used if every round draws new rows.
        basis: their values on a fixed pool; None if every round draws new rows.
        masses: the sketch evaluated on the pool; None if every round draws new rows.
        moments: E_π[h] and E_π[h φ_j] on the pool, if known.
    """

    fit: tuple[int, ...]
    queries: tuple[Query, ...] = ()
    basis: Basis | None = None
    masses: Masses | None = None
    moments: NDArray[np.float64] | None = None

    @property
    def theta(self) -> NDArray[np.float64]:
        """θ, exact."""
        return from_grid(self.fit)


def unchanged(sketch: Sketch, more: int = 1) -> tuple[int, ...]:
    """The coefficients that ignore `more` new questions; used if a refit fails."""
    return (*sketch.fit, *(0,) * more)


def masses_on(rule: Rule, basis: Basis, theta: NDArray[np.float64], draws: Draws) -> Masses:
    """Evaluate the sketch on rows, exactly.

    Raises:
        EverholdError: the result cannot be summed exactly, or has no mass to divide by.
    """
    z = basis.combine(theta[1:])
    z += theta[0]
    h = rule.ratio(z)
    if draws.weights is not None:
        h *= draws.weights * float(draws.size)
    h *= float(MASS_ONE)
    masses = np.rint(h, out=h)
    if float(np.abs(masses).sum()) >= _MOST_MASS:
        raise EverholdError("the sketch has grown too large to be summed exactly")
    whole = int(masses.sum())
    if rule.normalised and not whole > 0:
        raise EverholdError("the sketch has no mass left")
    return Masses.on(masses, whole, whole if rule.normalised else MASS_ONE * draws.size)


def basis_on(values: Sequence[GridValues], draws: Draws) -> Basis:
    """A basis of questions, from their values on some rows."""
    basis = Basis(draws.normal_weights())
    for column in values:
        basis.append(column)
    return basis
