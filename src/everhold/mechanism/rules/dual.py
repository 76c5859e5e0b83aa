"""Fitting coefficients: the dual of a projection with slack, by a proximal Newton method.

Corrective and entropic rules both minimise

    F(θ) = potential(θ) - Σ θ_j a_j + Σ s_j |θ_j|,     |θ_j| ≤ bound

whose solution satisfies |E_π[h φ_j] - a_j| ≤ s_j for every constraint, unless a bound is active; the bounds make sure
that there is a solution even if the constraints contradict each other.

The number of passes over the public rows is bounded, so a surprise has a bounded cost whatever is asked. A step needs z at
its end and the moments where it stops: one pass. Between start and end z is linear, so a line search needs neither. The
curvature is that of a few thousand rows, evenly spaced among those that have any. A fit that is stopped early is a worse
sketch, never a wrong answer: θ is recorded and public, and the next surprise continues where this one stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from everhold.mechanism.rules.rule import THETA_ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanism.basis import Basis

__all__ = ["Potential", "minimise", "most_steps"]

_MOST_STEPS = 5
_FEWEST_STEPS = 2
_MOST_WORK = 35_000_000  # rows times questions in all steps together, if that leaves the fewest
_CURVED_ROWS = 4096  # rows for the curvature
_DAMPING_ROWS = 512
_DAMPING = 0.01  # how much of the prior's own curvature is added, so that a step does not leave the region it knows
_MOST_CURVATURES = 2
_MOST_TRIES = 4  # points of a line search
_MOST_GUESSES = 5
_MOST_STOPS = 4  # linear systems solved for one guess
_ACCURACY = 0.3  # how exactly a constraint is met, as a share of its slack
_STALE = 0.1  # the curvature is computed again if so much of it has moved
_BLAS_ALONE = 2**18  # multiplications for which OpenBLAS uses one thread
_NEAR = 0.9  # how close to the cap a target is moved that lies beyond it
_MOST_SUM = 2.0**13  # Σ|θ_j|, half of what the grid allows


class Potential(Protocol):
    """The smooth part of the objective, as a function of z = θ_0 + Σ θ_j φ_j on the rows."""

    def value(self, z: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The potential, and w·h, whose correlation with φ is the gradient. May overwrite z."""

    def curvature(self, z: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The second derivative on each row, times its weight."""


class _Problem(NamedTuple):
    """What does not change during a fit; index 0 is the mean of h, with target 1 and no slack."""

    potential: Potential
    basis: Basis
    a: NDArray[np.float64]
    s: NDArray[np.float64]
    limit: NDArray[np.float64]


class _Point(NamedTuple):
    """A point of the search: θ, F, and w·h on all rows."""

    theta: NDArray[np.float64]
    value: float
    mass: NDArray[np.float64]


def most_steps(rows: int, questions: int) -> int:
    """The most steps of a fit, each with one pass over the public rows: fewer if a pass is long."""
    return max(_FEWEST_STEPS, min(_MOST_STEPS, _MOST_WORK // (rows * (questions + 60))))


def minimise(
    potential: Potential,
    basis: Basis,
    *,
    targets: NDArray[np.float64],
    slacks: NDArray[np.float64],
    bound: float,
    cap: float,
    start: NDArray[np.float64],
    moments: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Minimise F from `start` = (θ_0, θ_1 … θ_k), where E_π[h] and E_π[h φ_j] are `moments`.

    Returns θ on its grid, and the moments there.
    """
    a = np.concatenate([[1.0], targets])
    s = np.concatenate([[0.0], slacks])
    limit = np.full(len(a), min(float(bound), _MOST_SUM / len(a)))
    limit[0] = np.inf
    accuracy = _ACCURACY * np.concatenate([[slacks.min()], slacks])
    a[1:] = _attainable(basis, targets, slacks, cap)
    problem = _Problem(potential, basis, a, s, limit)
    z = basis.combine(start[1:])
    z += start[0]
    point = _point(problem, start, z.copy())
    off = _off(moments - a, start, s, limit, accuracy)
    curvature, hessian = None, np.empty(0)
    computed, damping = 0, _DAMPING
    for _ in range(most_steps(basis.size, len(basis))):
        if off <= 1.0:
            break
        now = potential.curvature(z, basis.weights)
        if curvature is None or (
            computed < _MOST_CURVATURES and float(np.abs(now - curvature).sum()) > _STALE * float(curvature.sum())
        ):
            curvature, hessian, computed = now, _hessian(basis, now, damping), computed + 1
        goal = _quadratic(hessian, moments - a, s, point.theta, limit)
        reached = _search(problem, point, z, np.rint(goal * THETA_ONE) / THETA_ONE, moments - a)
        if reached is None:
            if damping >= 1.0:
                break
            damping, curvature = 1.0, None  # the whole curvature of the prior: a cautious step
            continue
        point, z = reached
        moments = basis.correlate(point.mass)
        off = _off(moments - a, point.theta, s, limit, accuracy)
    return np.rint(point.theta * THETA_ONE) / THETA_ONE, moments


def _attainable(basis: Basis, targets: NDArray[np.float64], slacks: NDArray[np.float64], cap: float) -> NDArray[np.float64]:
    """The targets; any that no h below the cap can meet are moved to where one can: E_π[h (1±φ)] ≤ cap · E_π[1±φ]."""
    up, down = cap * (1.0 + basis.means()), cap * (1.0 - basis.means())
    result = np.where(1.0 + targets - slacks > up, _NEAR * up - 1.0 + slacks, targets)
    return np.where(1.0 - targets - slacks > down, 1.0 - _NEAR * down - slacks, result)


def _point(problem: _Problem, theta: NDArray[np.float64], z: NDArray[np.float64]) -> _Point:
    """F at θ; overwrites z."""
    value, mass = problem.potential.value(z, problem.basis.weights)
    return _Point(theta, value - float(problem.a @ theta) + float(problem.s @ np.abs(theta)), mass)


def _search(
    problem: _Problem, point: _Point, z: NDArray[np.float64], goal: NDArray[np.float64], gradient: NDArray[np.float64]
) -> tuple[_Point, NDArray[np.float64]] | None:
    """A point on the line through the goal where F is lower, near its minimum on that line, and z there; or None.

    F is convex, so the sign of its slope says on which side of a point the minimum lies.
    """
    d = goal - point.theta
    first = float(gradient @ d) + float(problem.s @ (np.abs(goal) - np.abs(point.theta)))  # at most the slope at the start
    if not first < 0.0:
        return None
    dz = problem.basis.combine(goal[1:])
    dz += goal[0]
    dz -= z
    room = np.divide(problem.limit - np.sign(d) * point.theta, np.abs(d), out=np.full(len(d), np.inf), where=d != 0.0)
    end = max(float(room.min()), 1.0)  # where the first bound is met
    low, low_slope, high, high_slope = 0.0, first, np.inf, np.inf
    step, best, best_step = 1.0, point, 0.0
    line = np.empty(len(z))
    for _ in range(_MOST_TRIES):
        theta = point.theta + step * d
        np.multiply(dz, step, out=line)
        line += z
        tried = _point(problem, theta, line)
        if tried.value < best.value:
            best, best_step = tried, step
        slope = float(np.einsum("i,i->", tried.mass, dz)) - float(problem.a @ d) + float(problem.s @ (np.sign(theta) * d))
        if abs(slope) <= 0.3 * abs(first) or (slope < 0.0 and step >= end):
            break
        if slope < 0.0:
            low, low_slope = step, slope
        else:
            high, high_slope = step, slope
        if high == np.inf:
            step = min(4.0 * step, end)
        else:  # the zero of a slope that is linear between both sides, but not too close to either
            step = low + (high - low) * min(max(low_slope / (low_slope - high_slope), 0.03), 0.97)
    if best is point:
        return None
    dz *= best_step
    dz += z
    return best, dz


def _hessian(basis: Basis, curvature: NDArray[np.float64], damping: float) -> NDArray[np.float64]:
    """Σ (curvature + damping · w) φ φᵀ, over rows that represent all."""
    rows, weights = _picked(curvature, _CURVED_ROWS)
    more_rows = np.arange(0, basis.size, max(basis.size // _DAMPING_ROWS, 1))
    more_weights = np.full(len(more_rows), 1.0 / len(more_rows))
    values = basis.rows(np.append(rows, more_rows), np.float32)
    values *= np.sqrt(np.append(weights, damping * more_weights)).astype(np.float32)
    hessian = _outer(values)
    hessian[np.diag_indices_from(hessian)] += 1e-3 * max(float(hessian[0, 0]), 1e-3)
    return hessian


def _outer(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """values · valuesᵀ in blocks so small that BLAS does not start threads, which spin if the other cores are busy."""
    size, rows = values.shape
    block = max(_BLAS_ALONE // (size * size), 4)
    blocks = values[:, : rows - rows % block].reshape(size, -1, block).transpose(1, 0, 2)
    rest = values[:, rows - rows % block :]
    result: NDArray[np.float64] = np.matmul(blocks, blocks.transpose(0, 2, 1)).sum(axis=0).astype(np.float64)
    return result + rest @ rest.T


def _times(matrix: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """matrix · x without BLAS."""
    result: NDArray[np.float64] = np.einsum("ij,j->i", matrix, x)
    return result


def _picked(curvature: NDArray[np.float64], size: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Rows and their weights: all that have any, or evenly spaced quantiles."""
    index = np.flatnonzero(curvature != 0.0)
    weights = curvature[index]
    if len(index) <= size:
        return index, weights
    if weights.min() == weights.max():
        return index[np.arange(size) * len(index) // size], np.full(size, weights[0] * (len(index) / size))
    edges = np.cumsum(weights)
    comb = (np.arange(size) + 0.5) * (edges[-1] / size)
    return index[np.minimum(np.searchsorted(edges, comb), len(index) - 1)], np.full(size, edges[-1] / size)


def _pull(
    gradient: NDArray[np.float64], theta: NDArray[np.float64], s: NDArray[np.float64], limit: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How far each coordinate is from optimal: the smallest subgradient, 0 where a bound holds it."""
    away = gradient + s * np.sign(theta)
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - s, 0.0)
    stuck = (np.abs(theta) >= limit) & (away * theta <= 0.0)
    return np.where(stuck, 0.0, np.where(theta == 0.0, at_zero, away))


def _off(
    gradient: NDArray[np.float64],
    theta: NDArray[np.float64],
    s: NDArray[np.float64],
    limit: NDArray[np.float64],
    accuracy: NDArray[np.float64],
) -> float:
    """The largest violation of the optimality conditions, in units of the accuracy wanted."""
    return float(np.max(np.abs(_pull(gradient, theta, s, limit)) / accuracy))


def _quadratic(
    hessian: NDArray[np.float64],
    gradient: NDArray[np.float64],
    s: NDArray[np.float64],
    theta: NDArray[np.float64],
    limit: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Minimise the quadratic model with the same slack and bounds, nearly: by guessing signs, each guess lower."""
    x, slope = theta, gradient
    enough = 1e-2 * float(np.max(np.abs(_pull(gradient, theta, s, limit))))
    for _ in range(_MOST_GUESSES):
        pull = _pull(slope, x, s, limit)
        if float(np.max(np.abs(pull))) <= enough:
            break
        d = _towards(hessian, pull, np.where(x != 0.0, np.sign(x), -np.sign(slope)) * (s > 0.0), x, limit)
        bend = _times(hessian, d)
        down, up = float(pull @ d), float(d @ bend)
        if not (down < 0.0 and up > 0.0):
            break
        share = min(-down / up, 1.0)  # no sign changes on the way, so the model is a parabola
        x = np.clip(x + share * d, -limit, limit)
        x[np.abs(x) < 0.25 / THETA_ONE] = 0.0
        slope = gradient + _times(hessian, x - theta)
    return x


def _towards(
    hessian: NDArray[np.float64],
    pull: NDArray[np.float64],
    sign: NDArray[np.float64],
    x: NDArray[np.float64],
    limit: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The way to the minimum for fixed signs. A coordinate that would change its sign, or leave its bounds, stops there.

    If that way does not go down, the way to the first stop, which does.
    """
    free = (x != 0.0) & (np.abs(x) < limit) | (pull != 0.0)
    d = first = np.zeros(len(x))
    for turn in range(_MOST_STOPS):
        d = d.copy()
        try:
            d[free] = np.linalg.solve(hessian[np.ix_(free, free)], -(pull + _times(hessian, np.where(free, 0.0, d)))[free])
        except np.linalg.LinAlgError:
            return np.zeros(len(x))
        goal = x + d
        stop = np.where(goal * sign < 0.0, 0.0, np.clip(goal, -limit, limit))
        stops = free & (stop != goal)
        if turn == 0:
            ways = np.divide(stop - x, d, out=np.ones(len(x)), where=stops)
            first = d * float(ways.min())
        d = stop - x
        if not stops.any():
            break
        free &= ~stops
    return d if float(pull @ d) < 0.0 else first
