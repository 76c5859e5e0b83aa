"""Intervals of numbers that are made of several means: if all parts hold, so do they.

Every function here takes intervals that hold together and returns one that holds whenever they do, so the session's
guarantee carries over without anything to pay (docs/theory/derived.md). Ends are moved outwards by more than rounding
can have moved them.
"""

from __future__ import annotations

from math import inf, sqrt

__all__ = ["correlation", "covariance", "difference", "ratio", "rescaled", "variance"]

Ends = tuple[float, float]

_ROUNDING = 2e-15  # of the largest number that took part: more than five operations can be off by


def _outwards(low: float, high: float, size: float = 1.0) -> Ends:
    slack = _ROUNDING * max(size, abs(low) if low > -inf else 0.0, abs(high) if high < inf else 0.0)
    return low - slack, high + slack


def ratio(part: Ends, rest: Ends) -> Ends:
    """A/(A+B) for A, B ≥ 0: rising in A, falling in B. Anything in [0, 1] where both may be 0.

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
    """A - B."""
    return _outwards(a[0] - b[1], a[1] - b[0], max(abs(a[0]), abs(a[1]), abs(b[0]), abs(b[1])))


def rescaled(ends: Ends, low: float, high: float) -> Ends:
    """A place between 0 and 1 in the units of a range."""
    span = high - low
    result = _outwards(low + span * ends[0], low + span * ends[1], max(abs(low), abs(high)))
    return max(result[0], low), min(result[1], high)


def _squares(centre: float, ends: Ends) -> Ends:
    """(m - c)² for m between the ends."""
    far = max((ends[0] - centre) ** 2, (ends[1] - centre) ** 2)
    near = 0.0 if ends[0] <= centre <= ends[1] else min((ends[0] - centre) ** 2, (ends[1] - centre) ** 2)
    return near, far


def variance(mean: Ends, about: Ends, centre: float) -> Ends:
    """Var = E(y - c)² - (Ey - c)², for y in [0, 1] and any public c; never above m(1 - m).

    With c near the mean the second term is a square of something small: what is left is the first term's own interval.

    >>> low, high = variance((0.49, 0.51), (0.08, 0.09), 0.5)
    >>> round(low, 6), round(high, 6)
    (0.0799, 0.09)
    """
    near, far = _squares(centre, mean)
    # m(1-m) is largest at the end nearest to a half
    middle = min(max(0.5, mean[0]), mean[1])
    low, high = _outwards(about[0] - far, min(about[1] - near, middle * (1.0 - middle)))
    return max(low, 0.0), max(min(high, 0.25 + _ROUNDING), 0.0)


def covariance(x: Ends, y: Ends, product: Ends, centres: tuple[float, float]) -> Ends:
    """Cov = E(x - c)(y - d) - (Ex - c)(Ey - d), for x, y in [0, 1] and any public c, d."""
    c, d = centres
    corners = [(p - c) * (q - d) for p in x for q in y]
    return _outwards(product[0] - max(corners), product[1] - min(corners))


def correlation(cov: Ends, x_variance: Ends, y_variance: Ends) -> Ends:
    """Cov/√(Var x · Var y), in [-1, 1]. Anything where a variance may be 0.

    >>> low, high = correlation((0.02, 0.03), (0.04, 0.05), (0.04, 0.05))
    >>> round(low, 6), round(high, 6)
    (0.4, 0.75)
    """
    smallest = sqrt(max(x_variance[0], 0.0) * max(y_variance[0], 0.0))
    largest = sqrt(max(x_variance[1], 0.0) * max(y_variance[1], 0.0))
    if not largest > 0.0:
        return -1.0, 1.0

    def end(value: float, outer: float) -> float:
        scale = smallest if value * outer > 0.0 else largest  # away from 0 the smaller spread is the safe one
        return value / scale if scale > 0.0 else outer

    low, high = _outwards(end(cov[0], -1.0), end(cov[1], 1.0), 1.0)
    return max(low, -1.0), min(high, 1.0)
