"""Fitting coefficients: the dual of a projection with slack, by a proximal Newton method.

Corrective and entropic rules both minimise

    F(θ) = potential(θ) - Σ θ_j a_j + Σ s_j |θ_j|,     |θ_j| ≤ bound

whose solution satisfies |E_π[h φ_j] - a_j| ≤ s_j for every constraint, unless a bound is active; the bounds make sure
that there is a solution even if the constraints contradict each other.

A pass over all public rows is expensive, so there are few. The gradient at the last sketch is known. From there the method
works on a fixed part of the rows, whose own gradient is corrected to agree with the full one at the start (as in
distributed Newton-type methods: Shamir, Srebro and Zhang 2014), and one full pass checks the result. If the part is too
small, it is enlarged. Convergence affects only the quality of the answers, never their validity: θ is recorded and public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from everhold.mechanism.rules.rule import THETA_ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanism.basis import Basis

__all__ = ["Potential", "minimise"]

_PART_ROWS = 2048
_MOST_CHECKS = 16
_MOST_STEPS = 12
_ACCURACY = 0.3  # how exactly the constraints are met, as a share of the smallest slack


class Potential(Protocol):
    """The smooth part of the objective, as a function of z = θ_0 + Σ θ_j φ_j on the rows."""

    def value(self, z: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The potential, and w·h, whose correlation with φ is the gradient. May overwrite z."""

    def curvature(self, z: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The second derivative on each row, times its weight."""


def minimise(
    potential: Potential,
    basis: Basis,
    *,
    targets: NDArray[np.float64],
    slacks: NDArray[np.float64],
    bound: float,
    start: NDArray[np.float64],
    mass: NDArray[np.float64],
    moments: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Minimise F from `start` = (θ_0, θ_1 … θ_k); θ_0 has target 1 and no slack.

    At the start the sketch's masses w·h are `mass`, and E_π[h], E_π[h φ_j] are `moments`.

    Returns θ on its grid, and the moments there.
    """
    a = np.concatenate([[1.0], targets])
    s = np.concatenate([[0.0], slacks])
    limit = np.full(len(a), float(bound))
    limit[0] = np.inf
    accuracy = _ACCURACY * float(slacks.min())
    part = _Part(potential, basis, mass, s, limit, _PART_ROWS)
    theta = start
    residual = _residual(moments - a, theta, s, limit)
    for _ in range(_MOST_CHECKS):
        if residual <= accuracy:
            break
        tried = np.rint(part.minimise(theta, moments - a, 0.5 * accuracy) * THETA_ONE) / THETA_ONE
        z = basis.combine(tried[1:])
        z += tried[0]
        _, tried_mass = potential.value(z, basis.weights)
        tried_moments = basis.correlate(tried_mass)
        tried_residual = _residual(tried_moments - a, tried, s, limit)
        slow = tried_residual > 0.5 * residual
        if tried_residual < residual or (part.whole and not np.array_equal(tried, theta)):
            theta, mass, moments, residual = tried, tried_mass, tried_moments, tried_residual
        elif part.whole:
            break
        if slow and not part.whole:
            part = _Part(potential, basis, mass, s, limit, 4 * part.size)
    return theta, moments


class _Part:
    """The problem on a part of the rows, with a linear term for the rest."""

    def __init__(
        self,
        potential: Potential,
        basis: Basis,
        mass: NDArray[np.float64],
        s: NDArray[np.float64],
        limit: NDArray[np.float64],
        size: int,
    ) -> None:
        index, self._weights = _part(basis.weights, mass, size)
        self.size = len(index)
        self.whole = self.size == basis.size
        self._potential = potential
        self._values = basis.rows(index)
        self._single = self._values.astype(np.float32)
        self._s = s
        self._limit = limit
        # The curvature at h = 1 over all rows; the curvature over the part is a noisy estimate of it.
        weighted = self._single * self._weights.astype(np.float32)
        self._rest = basis.gram() - weighted @ self._single.T if not self.whole else np.zeros((len(s), len(s)))

    def minimise(
        self, theta: NDArray[np.float64], gradient: NDArray[np.float64], accuracy: float
    ) -> NDArray[np.float64]:
        """The minimum of the part's problem, from θ, where the gradient of the full problem is `gradient`."""
        s, limit, rest = self._s, self._limit, self._rest
        origin = theta
        shift = gradient - self._evaluate(theta)[1]

        def at(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            """The part's objective and gradient, shifted to the full gradient and with the curvature of the rest."""
            value, own = self._evaluate(x)
            bend = rest @ (x - origin)
            return value + float(s @ np.abs(x) + shift @ x + 0.5 * (x - origin) @ bend), own + shift + bend

        x = theta
        objective, slope = at(x)
        hessian, age = self._hessian(x), 0
        for _ in range(_MOST_STEPS):
            if _residual(slope, x, s, limit) <= accuracy:
                break
            goal = _quadratic(hessian, slope, s, x, limit)
            step, better = 1.0, False
            while step > 0.05:
                tried = x + step * (goal - x)
                tried_objective, tried_slope = at(tried)
                if tried_objective < objective - 1e-13:
                    better = True
                    break
                step *= 0.4
            if better:
                x, slope, objective, age = tried, tried_slope, tried_objective, age + 1
            elif age == 0:
                break
            if not better or age == 4 or step < 1.0:
                hessian, age = self._hessian(x), 0
        return x

    def _evaluate(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, mass = self._potential.value(theta @ self._values, self._weights)
        return value, self._values @ mass

    def _hessian(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        curvature = self._potential.curvature(theta @ self._values, self._weights).astype(np.float32)
        hessian: NDArray[np.float64] = (self._single * curvature) @ self._single.T + self._rest
        hessian[np.diag_indices_from(hessian)] += 1e-3 * max(float(hessian[0, 0]), 1e-3)
        return hessian


def _part(
    weights: NDArray[np.float64], mass: NDArray[np.float64], size: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Weighted rows that represent all: evenly spaced quantiles of a mixture, half the prior and half the sketch.

    If the sketch has moved its mass to few rows, the part contains them.
    """
    if 2 * size >= len(weights):
        return np.arange(len(weights)), weights
    chance = weights + mass * (weights.sum() / max(float(mass.sum()), 1e-300))
    edges = np.cumsum(chance)
    comb = (np.arange(size) + 0.5) * (edges[-1] / size)
    index = np.minimum(np.searchsorted(edges, comb), len(weights) - 1)
    part = weights[index] / chance[index]
    return index, part / part.sum()


def _residual(
    gradient: NDArray[np.float64], theta: NDArray[np.float64], s: NDArray[np.float64], limit: NDArray[np.float64]
) -> float:
    """The largest violation of the optimality conditions."""
    at_zero = np.maximum(np.abs(gradient) - s, 0.0)
    away = np.abs(gradient + s * np.sign(theta))
    stuck = (np.abs(theta) >= limit * (1 - 1e-12)) & ((gradient + s * np.sign(theta)) * theta <= 0.0)
    return float(np.max(np.where(stuck, 0.0, np.where(theta == 0.0, at_zero, away))))


def _quadratic(
    hessian: NDArray[np.float64],
    gradient: NDArray[np.float64],
    s: NDArray[np.float64],
    theta: NDArray[np.float64],
    limit: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Minimise the quadratic model with the same slack and bounds.

    Guess the signs, solve, correct the guess, repeat. If a guess does not lower the model, sweep through the coordinates,
    which always does.
    """

    def model(x: NDArray[np.float64]) -> float:
        d = x - theta
        return float(gradient @ d + 0.5 * d @ hessian @ d + s @ np.abs(x))

    accuracy = 1e-3 * _residual(gradient, theta, s, limit)
    x, value = theta, model(theta)
    sweeps = 0
    for _ in range(40):
        slope = gradient + hessian @ (x - theta)
        if _residual(slope, x, s, limit) <= accuracy:
            break
        tried = _guess_signs(hessian, slope, s, x, limit)
        if (tried_value := model(tried)) >= value:
            if sweeps == 6:
                break
            sweeps += 1
            tried = _sweep(hessian, slope, s, x, limit)
            tried_value = model(tried)
        x, value = tried, tried_value
    return x


def _guess_signs(
    hessian: NDArray[np.float64],
    slope: NDArray[np.float64],
    s: NDArray[np.float64],
    x: NDArray[np.float64],
    limit: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Solve with fixed signs, and set to zero the coefficients that would change their sign."""
    from scipy.linalg import solve  # loaded at the first surprise

    sign = np.where(s == 0.0, 0.0, np.where(x != 0.0, np.sign(x), -np.sign(slope)))
    pull = slope + s * sign
    stuck = (np.abs(x) >= limit * (1 - 1e-12)) & (pull * x <= 0.0)
    free = ((x != 0.0) | (np.abs(slope) > s) | (s == 0.0)) & ~stuck
    result = x.copy()
    try:
        result[free] += solve(hessian[np.ix_(free, free)], -pull[free], assume_a="pos", check_finite=False)
    except np.linalg.LinAlgError:
        return x
    result[result * sign < 0.0] = 0.0
    return np.clip(result, -limit, limit)


def _sweep(
    hessian: NDArray[np.float64],
    slope: NDArray[np.float64],
    s: NDArray[np.float64],
    x: NDArray[np.float64],
    limit: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Minimise along each coordinate in turn, three times."""
    x, slope = x.copy(), slope.copy()
    for _ in range(3):
        for j in range(len(x)):
            curve = hessian[j, j]
            goal = x[j] - slope[j] / curve
            goal = np.sign(goal) * max(abs(goal) - s[j] / curve, 0.0)
            goal = min(max(goal, -limit[j]), limit[j])
            if goal != x[j]:
                slope += hessian[:, j] * (goal - x[j])
                x[j] = goal
    return x
