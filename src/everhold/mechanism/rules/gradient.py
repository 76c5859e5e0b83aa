"""The gradient rule: one step along the surprising question, as in the paper.

`h ← h + step · φ` in the direction of the answer. With step γ (a lower bound on the sketch's error) every surprise reduces
E_π[(h - h*)²] by γ², so there are at most χ²/γ² (`docs/theory/surprises.md`). In practice the Polyak step
`|a - u|/E_π[φ²]`, after which the sketch agrees with the answer, needs fewer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from everhold.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.mechanism.basis import Basis
    from everhold.mechanism.rules.rule import Constraint

__all__ = ["Gradient", "Step"]

Step = Literal["polyak", "gap", "paper"]


class Gradient:
    """h = 1 + Σ θ_j φ_j, each θ_j set once, by one step.

    Args:
        step: 'polyak' (|a - u|/E_π[φ²], the practical one), 'gap' (γ, the proved one; Polyak if γ ≤ 0) or 'paper'
            (ε/16 with ε = 2τ, as in Algorithm 1).
        start_at: 1, the prior itself, or 0, as in the paper.
    """

    name = "gradient"
    normalised = False

    def __init__(self, *, step: Step = "polyak", start_at: float = 1.0) -> None:
        if step not in get_args(Step):
            raise SettingError(f"the gradient rule's step is {step!r}. Expected one of {', '.join(get_args(Step))}.")
        self.step = step
        self.start_at = start_at

    def __repr__(self) -> str:
        return f"Gradient(step={self.step!r}, start_at={self.start_at:g})"

    def start(self) -> float:
        """θ_0: h starts at 1 + θ_0."""
        return self.start_at - 1.0

    def ratio(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """h = 1 + z, unclipped."""
        z += 1.0
        return z

    def fit(
        self,
        basis: Basis,
        constraints: Sequence[Constraint],
        theta: NDArray[np.float64],
        moments: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Add one coefficient for each new question, in turn; the others do not change."""
        first = len(theta) - 1
        for j, constraint in enumerate(constraints[first:], first):
            now: Constraint | None = constraint
            if j > first:  # the steps of this batch so far have moved the sketch's answer
                now = _after(constraint, _moved(basis, theta, first, j))
            theta = np.append(theta, self._step(basis, j, now) if now else 0.0)
        return theta, None

    def _step(self, basis: Basis, j: int, constraint: Constraint) -> float:
        direction = 1.0 if constraint.target > constraint.sketch else -1.0
        if self.step == "paper":
            size = constraint.tolerance / 8.0  # ε/16 on the scale of h, with ε = 2τ
        elif self.step == "gap" and constraint.gap > 0.0:
            size = constraint.gap
        else:
            indicator = np.zeros(len(basis))
            indicator[j] = 1.0
            square = float(basis.weights.dot(np.square(basis.combine(indicator))))
            size = abs(constraint.target - constraint.sketch) / max(square, 1e-3)
        return direction * size


def _moved(basis: Basis, theta: NDArray[np.float64], first: int, j: int) -> float:
    """How far the steps for the questions from the first to before the j-th move the answer to the j-th."""
    steps = np.zeros(len(basis))
    steps[first:j] = theta[1 + first :]
    return float(basis.correlate(basis.weights * basis.combine(steps))[1 + j])


def _after(constraint: Constraint, moved: float) -> Constraint | None:
    """The constraint once the sketch's answer has moved; None if that answer would no longer be a surprise."""
    off = abs(constraint.target - constraint.sketch - moved)
    if off <= constraint.tolerance:
        return None
    return replace(constraint, sketch=constraint.sketch + moved, gap=off - constraint.slack - constraint.width)
