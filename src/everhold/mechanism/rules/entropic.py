"""The entropic rule: the same projection, nearest in relative entropy.

`h = exp(θ_0 + Σ θ_j φ_j)` with mean 1. At most `2 ln(1/λ)/γ²` surprises, fewer than the bound of the χ² rules if λ is
below 0.285. The exponential is everhold's own (`bounds.elementary`), so h is the same on every machine and need not be
recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.bounds.elementary import exp_array
from everhold.errors import SettingError
from everhold.mechanism.rules.dual import minimise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.mechanism.basis import Basis
    from everhold.mechanism.rules.rule import Constraint

__all__ = ["Entropic"]


class Entropic:
    """Relative-entropy projection of the prior onto the constraints of all surprises so far.

    Args:
        cap: the largest density ratio; a guard that is hardly ever active.
        proved: give every constraint the slack Δ/2 + w, for which the bound on surprises is proved; Δ/2 by default.
    """

    name = "entropic"
    normalised = True

    def __init__(self, *, cap: float = 4096.0, proved: bool = False) -> None:
        if not 1.0 < cap <= 2.0**12:
            raise SettingError(f"the cap on the density ratio is {cap!r}. Expected a number in (1, 4096].")
        self.cap = cap
        self.proved = proved

    def __repr__(self) -> str:
        return f"Entropic(cap={self.cap:g}, proved={self.proved})"

    def start(self) -> float:
        """θ_0 = 0: h = 1, the prior itself."""
        return 0.0

    def ratio(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """h = exp(z), at most the cap."""
        h: NDArray[np.float64] = exp_array(np.minimum(z, 16.0))
        np.minimum(h, self.cap, out=h)
        return h

    def fit(
        self,
        basis: Basis,
        constraints: Sequence[Constraint],
        theta: NDArray[np.float64],
        moments: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Project again, starting from the last projection."""
        fitted, _ = minimise(
            self,
            basis,
            targets=np.array([constraint.target for constraint in constraints]),
            slacks=np.array([constraint.slack + (constraint.width if self.proved else 0.0) for constraint in constraints]),
            bound=8.0,
            cap=self.cap,
            start=np.append(theta, np.zeros(1 + len(constraints) - len(theta))),
            moments=moments,
        )
        # θ_0 follows from the others, because the mean of h is 1 up to the grid.
        z = basis.combine(fitted[1:])
        top = float(z.max())
        fitted[0] = -top - float(np.log(basis.weights.dot(np.exp(z - top))))
        return fitted, None

    def value(self, z: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """E_π[exp(z)], whose derivative is E_π[h φ]; and w·h."""
        mass = weights * np.exp(np.minimum(z, 30.0))
        return float(mass.sum()), mass

    def curvature(self, z: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """w·h."""
        return self.value(z, weights)[1]
