"""The protocol of rules: constraints from surprises, and coefficients on a grid.

A rule writes the sketch as `h = link(θ_0 + Σ θ_j φ_j)`, with the surprising questions φ_j. Coefficients are fitted in
floating point, rounded to a grid and recorded; a replay reads them and evaluates h from them exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from everhold.errors import EverholdError, ReplayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.mechanism.basis import Basis

__all__ = ["THETA_ONE", "Constraint", "Rule", "check_fit", "from_grid", "to_grid"]

THETA_ONE = 2**24
"""Coefficients are whole multiples of 1/THETA_ONE; the sum of their absolute values is below 2¹⁴, so sums are exact."""

_MOST = 2**14


@dataclass(frozen=True, slots=True)
class Constraint:
    """The public constraint from one surprise; values on the [-1, 1] scale.

    Attributes:
        target: a, the answer returned.
        slack: s, how far the sample's mean may be from it: half a cell.
        sketch: u, the sketch's answer before.
        width: w, how far the sample's mean may be from the population's.
        gap: a lower bound on the sketch's distance from the population, τ + (j-1)Δ - w; may be negative.
        tolerance: τ.
    """

    target: float
    slack: float
    sketch: float
    width: float
    gap: float
    tolerance: float


class Rule(Protocol):
    """A way to represent and update the density ratio h."""

    @property
    def name(self) -> str:
        """The rule's name in settings and records."""

    @property
    def normalised(self) -> bool:
        """Whether h has mean 1 by construction, so that the sketch may be divided by its total."""

    def start(self) -> float:
        """θ_0 before the first surprise."""

    def ratio(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """h from z = θ_0 + Σ θ_j φ_j, element by element, with IEEE operations only; may overwrite z."""

    def fit(
        self,
        basis: Basis,
        constraints: Sequence[Constraint],
        theta: NDArray[np.float64],
        moments: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """New coefficients (θ_0, θ_1 … θ_k) from the old ones and all constraints; the last questions have no old ones.

        `moments` are E_π[h] and E_π[h φ_j] under the old sketch. Also returns the moments under the new one, if known.
        """


def to_grid(theta: NDArray[np.float64]) -> tuple[int, ...]:
    """Coefficients as whole multiples of 1/THETA_ONE."""
    if not np.all(np.isfinite(theta)) or np.abs(theta).sum() >= _MOST:
        raise EverholdError("the sketch's coefficients are too large to be stored exactly.")
    return tuple(int(v) for v in np.rint(theta * THETA_ONE))


def check_fit(fit: Sequence[int], surprises: int) -> None:
    """Raise for recorded coefficients that cannot belong to a sketch after `surprises` surprises."""
    whole = all(isinstance(value, int) for value in fit)
    if not whole or len(fit) != surprises + 1 or sum(abs(value) for value in fit) >= _MOST * THETA_ONE:
        raise ReplayError(
            f"the recorded coefficients of surprise {surprises} do not belong to a sketch after {surprises} surprises."
        )


def from_grid(theta: Sequence[int]) -> NDArray[np.float64]:
    """The exact coefficients from recorded whole numbers."""
    return np.array(theta, dtype=np.float64) / THETA_ONE
