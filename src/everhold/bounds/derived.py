"""Intervals for quantities that are computed from several means: valid if the intervals of all means are.

Every function here takes simultaneously valid intervals and returns one that is valid whenever they are, so the session's
guarantee applies at no extra cost (docs/theory/derived.md). Ends move outwards by more than the rounding error.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt

__all__ = [
    "correlation",
    "correlation_by_difference",
    "correlation_from",
    "covariance",
    "difference",
    "ratio",
    "rescaled",
    "spread",
    "variance",
    "variance_from",
]

Ends = tuple[float, float]

_ROUNDING = 2e-15  # relative to the largest number involved; larger than the rounding error of five operations


def _outwards(low: float, high: float, size: float = 1.0) -> Ends:
    slack = _ROUNDING * max(size, abs(low) if low > -inf else 0.0, abs(high) if high < inf else 0.0)
    return low - slack, high + slack


def ratio(part: Ends, rest: Ends) -> Ends:
    """A/(A+B) for A, B ≥ 0: increasing in A, decreasing in B; [0, 1] if both may be 0.

    >>> low, high = ratio((0.2, 0.3), (0.1, 0.2))
    >>> round(low, 6), round(high, 6)
    (0.5, 0.75)
    >>> ratio((0.0, 0.1), (0.0, 0.2))
    (0.0, 1.0)
    """
    a, b = (max(part[0], 0.0), max(part[1], 0.0)), (max(rest[0], 0.0), max(rest[1], 0.0))
    low = a[0] / (a[0] + b[1]) if a[0] + b[1] > 0.0 else 0.0
    high = a[1] / (a[1] + b[0]) if a[1] + b[0] > 0.0 else 1.0
    low, high = _outwards(low, high)
    return max(low, 0.0), min(high, 1.0)


def difference(a: Ends, b: Ends) -> Ends:
    """The interval of A - B."""
    return _outwards(a[0] - b[1], a[1] - b[0], max(abs(a[0]), abs(a[1]), abs(b[0]), abs(b[1])))


def rescaled(ends: Ends, low: float, high: float) -> Ends:
    """An interval of positions between 0 and 1, in the units of a range."""
    span = high - low
    result = _outwards(low + span * ends[0], low + span * ends[1], max(abs(low), abs(high)))
    return max(result[0], low), min(result[1], high)


def _squares(centre: float, ends: Ends) -> Ends:
    """The interval of (m - c)² for m between the ends."""
    low, high = ends[0] - centre, ends[1] - centre
    far = max(low * low, high * high)
    near = 0.0 if ends[0] <= centre <= ends[1] else min(low * low, high * high)
    return near, far


def variance(mean: Ends, about: Ends, centre: float) -> Ends:
    """Var = E(y - c)² - (Ey - c)², for y in [0, 1] and any public c; never above m(1 - m).

    With c near the mean the second term is the square of a small number, and the first term's interval remains.

    >>> low, high = variance((0.49, 0.51), (0.08, 0.09), 0.5)
    >>> round(low, 6), round(high, 6)
    (0.0799, 0.09)
    """
    near, far = _squares(centre, mean)
    # m(1-m) is largest at the end nearest to 1/2
    middle = min(max(0.5, mean[0]), mean[1])
    low, high = _outwards(about[0] - far, min(about[1] - near, middle * (1.0 - middle)))
    return max(low, 0.0), max(min(high, 0.25 + _ROUNDING), 0.0)


def covariance(x: Ends, y: Ends, product: Ends, centres: tuple[float, float]) -> Ends:
    """Cov = E(x - c)(y - d) - (Ex - c)(Ey - d), for x, y in [0, 1] and any public c, d."""
    c, d = centres
    corners = [(p - c) * (q - d) for p in x for q in y]
    return _outwards(product[0] - max(corners), product[1] - min(corners))


def correlation(cov: Ends, x_variance: Ends, y_variance: Ends) -> Ends:
    """Cov/√(Var x · Var y), in [-1, 1]; all of it if a variance may be 0.

    >>> low, high = correlation((0.02, 0.03), (0.04, 0.05), (0.04, 0.05))
    >>> round(low, 6), round(high, 6)
    (0.4, 0.75)
    """
    smallest = sqrt(max(x_variance[0], 0.0) * max(y_variance[0], 0.0))
    largest = sqrt(max(x_variance[1], 0.0) * max(y_variance[1], 0.0))
    if not largest > 0.0:
        return -1.0, 1.0

    def end(value: float, outer: float) -> float:
        scale = smallest if value * outer > 0.0 else largest  # away from 0, the smaller spread gives the wider end
        return value / scale if scale > 0.0 else outer

    low, high = _outwards(end(cov[0], -1.0), end(cov[1], 1.0), 1.0)
    return max(low, -1.0), min(high, 1.0)


def spread(mean: Ends, square: Ends) -> Ends:
    """Var = E x² - (E x)², for x on any scale.

    >>> spread((-0.1, 0.1), (1.0, 1.2))
    (0.98..., 1.2...)
    """
    near, far = _squares(0.0, mean)
    low, high = _outwards(square[0] - far, square[1] - near, max(square[1], far))
    return max(low, 0.0), max(high, 0.0)


def correlation_by_difference(x_variance: Ends, y_variance: Ends, gap_variance: Ends) -> Ends:
    """(U + V - W)/(2√(UV)) for the variances U, V of x and y and W of x - y, in [-1, 1].

    It falls in W. In U, for fixed V and W, it has no maximum inside, and at most one minimum, at U = V - W.

    >>> low, high = correlation_by_difference((1.0, 1.0), (1.0, 1.0), (0.2, 0.3))
    >>> round(low, 6), round(high, 6)
    (0.85, 0.9)
    """
    if not (x_variance[0] > 0.0 and y_variance[0] > 0.0):
        return -1.0, 1.0

    def at(u: float, v: float, w: float) -> float:
        return (u + v - w) / (2.0 * sqrt(u * v))

    corners = [(u, v) for u in x_variance for v in y_variance]
    high = max(at(u, v, gap_variance[0]) for u, v in corners)
    w = gap_variance[1]
    least = [at(u, v, w) for u, v in corners]
    least += [at(v - w, v, w) for v in y_variance if x_variance[0] < v - w < x_variance[1]]
    least += [at(u, u - w, w) for u in x_variance if y_variance[0] < u - w < y_variance[1]]
    low, high = _outwards(min(least), high)
    return max(low, -1.0), min(high, 1.0)


Position = tuple[float, float, float]
"""A mean as a position in its range: estimate, and the ends of its interval."""


def _moments(mean: Position, square: Position, ends: Ends, farthest: float) -> tuple[float, Ends, float, Ends]:
    """A number's mean and variance, from the positions of x and of x²: estimates and intervals."""
    m = rescaled((mean[1], mean[2]), *ends)
    low, high = spread(m, rescaled((square[1], square[2]), 0.0, farthest))
    about = ends[0] + (ends[1] - ends[0]) * mean[0]
    value = farthest * square[0] - about * about
    return about, m, min(max(value, low), high), (low, high)


def variance_from(positions: Sequence[Position], ranges: Sequence[Ends]) -> Position:
    """Var x from the positions of E x and E x²: estimate and interval, in squares of x's units."""
    _, _, value, (low, high) = _moments(positions[0], positions[1], ranges[0], ranges[1][1])
    return value, low, high


def correlation_from(positions: Sequence[Position], ranges: Sequence[Ends], sign: int) -> Position:
    """The correlation of x and y from the positions of E x, E x², E y, E y² and a fifth: estimate and interval.

    The fifth is E xy for sign 0, E(x - y)² for sign 1, where x and y rise together, and E(x + y)² for sign -1.
    """
    x, x_mean, x_variance, x_ends = _moments(positions[0], positions[1], ranges[0], ranges[1][1])
    y, y_mean, y_variance, y_ends = _moments(positions[2], positions[3], ranges[2], ranges[3][1])
    low, high = ranges[4]
    about = low + (high - low) * positions[4][0]
    ends = rescaled((positions[4][1], positions[4][2]), low, high)
    root = sqrt(max(x_variance * y_variance, 1e-12))
    if sign == 0:
        cov = covariance(x_mean, y_mean, ends, (0.0, 0.0))
        value, least, most = (about - x * y) / root, *correlation(cov, x_ends, y_ends)
    else:
        gap = difference(x_mean, y_mean) if sign > 0 else (x_mean[0] + y_mean[0], x_mean[1] + y_mean[1])
        rest = about - (x - sign * y) * (x - sign * y)
        value = sign * (x_variance + y_variance - rest) / (2.0 * root)
        least, most = correlation_by_difference(x_ends, y_ends, spread(gap, ends))
        least, most = (least, most) if sign > 0 else (-most, -least)
    return min(max(value, least), most), least, most
