"""From a price to a width: Chernoff's bound for means of [0, 1]-valued draws, and its inversion.

With probability 1-δ, simultaneously in every round, `kl(x ‖ p) ≤ C/n`: x is the sample's mean on the share scale, p the
population's, C the price (`code`), n the number of rows. The functions here search for the p that this
allows, and every search returns the endpoint that cannot overclaim. See `docs/theory/intervals.md`.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, floor, log, log1p, sqrt
from typing import TYPE_CHECKING

from everhold.bounds.elementary import ln
from everhold.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "SHARE_GRID",
    "binary_kl",
    "confidence_nats",
    "hoeffding_rows",
    "hoeffding_width",
    "kl_interval",
    "kl_lower",
    "kl_upper",
    "known_rows_range",
    "smallest_inside",
]

SHARE_GRID = 2.0**-32
"""Ends of intervals are on this grid of shares, rounded outwards."""

_STEPS = 2**32
_BLUR = 2e-15  # larger than the floating-point error of kl


def confidence_nats(failure_probability: float) -> float:
    """`ln(2/δ)`: the part of the price that pays for confidence; 2 for the two sides of an interval.

    >>> round(confidence_nats(0.05), 4)
    3.6889
    """
    if not 0.0 < failure_probability < 1.0:
        raise SettingError(f"a failure probability lies strictly between 0 and 1, not at {failure_probability!r}")
    return ln(2.0 / failure_probability)


def hoeffding_width(nats: float, rows: float) -> float:
    """Half-width on the [-1, 1] scale: `w = sqrt(2 C / n)`. The plain bound; the kl form is never wider.

    >>> hoeffding_width(50.0, 10_000)
    0.1
    """
    _check(nats, rows)
    return sqrt(2.0 * nats / rows)


def hoeffding_rows(nats: float, width: float) -> int:
    """The inverse of `hoeffding_width`, rounded up: the rows for which the width is at most `width`.

    >>> hoeffding_rows(50.0, 0.1)
    10000
    """
    if not 0.0 < width <= 2.0:
        raise SettingError(f"a half-width on the [-1, 1] scale lies between 0 and 2, not at {width!r}")
    _check(nats, 1.0)
    rows = ceil(2 * Fraction(nats) / Fraction(width) ** 2)
    while hoeffding_width(nats, rows) > width:  # floating point may be off by a unit in the last place
        rows += 1 + rows // 2**50
    return rows


def binary_kl(x: float, p: float) -> float:
    """Relative entropy `kl(x ‖ p)` of two coins, in nats, the same bits on every machine; `inf` if p excludes x.

    >>> binary_kl(0.5, 0.5), binary_kl(0.0, 0.0), binary_kl(1.0, 0.0)
    (0.0, 0.0, inf)
    """
    if not (0.0 <= x <= 1.0 and 0.0 <= p <= 1.0):
        raise SettingError(f"shares lie between 0 and 1, not at {x!r} and {p!r}")
    if x == p:
        return 0.0
    if p == 0.0 or p == 1.0:
        return float("inf")
    yes = x * ln(x / p) if x > 0.0 else 0.0
    no = (1.0 - x) * ln((1.0 - x) / (1.0 - p)) if x < 1.0 else 0.0
    return max(0.0, yes + no)


def kl_lower(x: float, radius: float) -> float:
    """The lower end: no p below the returned value has `kl(x ‖ p) ≤ radius` (and p ≤ x).

    Searched on `SHARE_GRID` and rounded outwards by one step more than the floating-point error.

    >>> kl_lower(0.0, 0.1), 0.4 < kl_lower(0.5, 0.02) < 0.401
    (0.0, True)
    """
    _check_share(x, radius)
    if x == 0.0:
        return 0.0
    # The boundary m: kl at (m-1)/2^32 exceeds the radius, kl at m/2^32 does not. A fast guess, then exact steps, so
    # that the result does not depend on the machine.
    top = floor(x * _STEPS)
    m = min(max(round(_guess(x, radius) * _STEPS), 0), top)
    m = smallest_inside(lambda i: _inside(x, i / _STEPS, radius), m, 0, top)
    return max(m - 2, 0) / _STEPS


def kl_upper(x: float, radius: float) -> float:
    """The upper end: no p above the returned value has `kl(x ‖ p) ≤ radius` (and p ≥ x). `1 - kl_lower(1 - x)`.

    >>> kl_upper(0.25, 0.01) == 1.0 - kl_lower(0.75, 0.01)
    True
    """
    return 1.0 - kl_lower(1.0 - x, radius)


def kl_interval(low: float, high: float, radius: float) -> tuple[float, float]:
    """All population shares that are possible if the sample's share is only known to be in [low, high].

    If the share x is in [low, high] and `kl(x ‖ p) ≤ radius`, then p is in the returned interval: for p below low,
    kl(low ‖ p) ≤ kl(x ‖ p), and likewise above high.

    >>> a, b = kl_interval(0.4, 0.6, 0.0)
    >>> a <= 0.4 < 0.6 <= b
    True
    """
    if low > high:
        raise SettingError(f"an interval needs low ≤ high, not [{low!r}, {high!r}]")
    return kl_lower(low, radius), kl_upper(high, radius)


def known_rows_range(low: float, high: float, rows: int, known_rows: int) -> tuple[float, float, int]:
    """The range of the share among the rows that the analyst does not know, from [low, high] for all rows.

    Of `rows`, `known_rows` may have any values: the share of the others is in [(n·low - m)/(n-m), n·high/(n-m)]. Returns
    that range and n - m, which then replace [low, high] and n.

    >>> known_rows_range(0.5, 0.5, 100, 0)
    (0.5, 0.5, 100)
    """
    if not 0 <= known_rows < rows:
        raise SettingError(f"the number of known rows lies between 0 and {rows - 1}, not at {known_rows}")
    if known_rows == 0:
        return low, high, rows
    left = rows - known_rows
    slack = 4e-16  # the rounding error of the divisions
    return max(0.0, (rows * low - known_rows) / left - slack), min(1.0, rows * high / left + slack), left


def _inside(x: float, p: float, radius: float) -> bool:
    return p >= x or binary_kl(x, p) <= radius + _BLUR


def smallest_inside(inside: Callable[[int], bool], m: int, bottom: int, top: int) -> int:
    """The smallest whole number in [bottom, top] that is inside: doubling steps from m, then bisection."""
    if inside(m):
        step, high = 1, m
        while (low := max(high - step, bottom - 1)) >= bottom and inside(low):
            high, step = low, step * 2
    else:
        step, low = 1, m
        while (high := min(low + step, top)) < top and not inside(high):
            low, step = high, step * 2
        if high == top and not inside(top):
            return top
    while high - low > 1:
        middle = (low + high) // 2
        if inside(middle):
            high = middle
        else:
            low = middle
    return high


def _guess(x: float, radius: float) -> float:
    """Newton's method for kl(x ‖ p) = radius below x, with the machine's own functions."""
    if radius == 0.0:
        return x
    if x == 1.0:
        return exp(-radius)
    p = max(
        x - sqrt(radius * max(x * (1.0 - x), 1e-300) * 2.0),
        x * exp(max(-radius / x - 1.0, -700.0)),
        1e-300,
    )
    for _ in range(40):
        value = x * log(x / p) + (1.0 - x) * (log1p(-x) - log1p(-p)) - radius
        slope = (p - x) / (p * (1.0 - p))
        if slope == 0.0:
            break
        step = value / slope
        following = p - step
        if not 0.0 < following < x:
            following = p / 2.0 if following <= 0.0 else (p + x) / 2.0
        if abs(following - p) < 1e-11 * p:
            return following
        p = following
    return p


def _check(nats: float, rows: float) -> None:
    if not nats >= 0.0:
        raise SettingError(f"a price in nats is at least 0, not {nats!r}")
    if not rows > 0.0:
        raise SettingError(f"the number of rows is positive, not {rows!r}")


def _check_share(x: float, radius: float) -> None:
    if not 0.0 <= x <= 1.0:
        raise SettingError(f"a share lies between 0 and 1, not at {x!r}")
    if not radius >= 0.0:
        raise SettingError(f"a radius in nats a row is at least 0, not {radius!r}")
