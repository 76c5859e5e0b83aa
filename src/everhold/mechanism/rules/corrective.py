"""The corrective rule (the default): the sketch nearest to the prior that agrees with all surprises so far.

    min E_π[(h - 1)²]   subject to   |E_π[h φ_j] - a_j| ≤ s_j,   E_π[h] = 1,   0 ≤ h ≤ cap

Its solution is `h = clip(1 + θ_0 + Σ θ_j φ_j, 0, cap)`. By Pythagoras every surprise reduces the squared distance to the
truth by γ²/Var_π(φ) (`docs/theory/surprises.md`); in trials it needs at most a fifth of the gradient rule's surprises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import SettingError
from everhold.mechanism.rules.dual import minimise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.mechanism.basis import Basis
    from everhold.mechanism.rules.rule import Constraint

__all__ = ["Corrective"]


class Corrective:
    """Projection of the prior onto the constraints of all surprises so far.

    Args:
        cap: the largest density ratio considered, at least 1/λ if a density λ is known.
        proved: give every constraint the slack Δ/2 + w, for which the bound on surprises is proved. The default is Δ/2,
            which has no theorem but fewer surprises in every trial.
    """

    name = "corrective"
    normalised = True

    def __init__(self, *, cap: float = 64.0, proved: bool = False) -> None:
        if not 1.0 < cap <= 2.0**12:
            raise SettingError(f"the cap on the density ratio is {cap!r}. Expected a number in (1, 4096].")
        self.cap = cap
        self.proved = proved

    def __repr__(self) -> str:
        return f"Corrective(cap={self.cap:g}, proved={self.proved})"

    def start(self) -> float:
        """θ_0 = 0: h = 1, the prior itself."""
        return 0.0

    def ratio(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """h = clip(1 + z, 0, cap)."""
        z += 1.0
        return np.clip(z, 0.0, self.cap, out=z)

    def fit(
        self,
        basis: Basis,
        constraints: Sequence[Constraint],
        theta: NDArray[np.float64],
        moments: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Project again, starting from the last projection."""
        return minimise(
            self,
            basis,
            targets=np.array([constraint.target for constraint in constraints]),
            slacks=np.array([constraint.slack + (constraint.width if self.proved else 0.0) for constraint in constraints]),
            bound=max(4.0, self.cap),
            cap=self.cap,
            start=np.append(theta, np.zeros(1 + len(constraints) - len(theta))),
            moments=moments,
        )

    def value(self, z: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """E_π of ψ(z) = h(1+z) - h²/2 - 1/2, whose derivative is h; and w·h."""
        z += 1.0
        h = np.clip(z, 0.0, self.cap)
        mass = weights * h
        h *= 0.5
        z -= h
        return float(np.einsum("i,i->", mass, z)) - 0.5, mass

    def curvature(self, z: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """w on the rows whose h is not clipped, 0 elsewhere."""
        result: NDArray[np.float64] = weights * ((z > -1.0) & (z < self.cap - 1.0))
        return result
