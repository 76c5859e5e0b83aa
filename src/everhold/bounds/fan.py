"""Means of numbers in a known range, as narrow as their spread allows: Fan's bound with a public rate λ.

A value is its position within its public range in whole steps, 0 to `top`, and values outside are cut to the range. Only the
sums of x and x² are needed, so every end is exact integer arithmetic. Centre, reach and rate are fixed before the private
rows are used. See `docs/theory/fan.md`.

With a the centre, b the reach, `ψ(λ) = -ln(1-λ) - λ` and `M₂` the mean of (x - a)²:

    Pr[ population mean < sample mean - (b/λ)(ψ(λ)·M₂/b² + c/n) ] ≤ e^-c       (Fan, Grama and Liu 2015)
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import ceil, inf, sqrt

import numpy as np

from everhold.bounds.elementary import ln
from everhold.errors import SettingError

__all__ = [
    "RATE_STEPS",
    "TOP",
    "fan_group_difference",
    "fan_interval",
    "fan_radius",
    "fan_rate",
    "fan_reach",
]

RATE_STEPS = 2**10
"""A rate λ is a multiple of 1/RATE_STEPS, strictly between 0 and 1."""

TOP = 65536
"""The steps of a value's range, unless said otherwise."""

_PSI_STEPS = 2**40  # ψ is rounded up to a multiple of 2^-40
_NATS_STEPS = 2**20  # prices are multiples of 2^-20, and are rounded up to one
_LEAST_RATE = 1 / 64  # where ψ(λ) is still within 2 % of λ²/2, and a step of λ is small beside λ


def fan_rate(second: float, reach: int, nats: float, rows: float) -> int:
    """The public rate, in steps of 1/RATE_STEPS, for a foreseen second moment about the centre (in steps squared).

    Minimises the foreseen radius `(b/λ)(ψ(λ)·second/b² + nats/rows)`. Any rate that is fixed in advance is valid: a wrong
    forecast costs width only. The same on every machine.

    >>> fan_rate(12_288.0**2, 32_768, 12.0, 10_000), fan_rate(0.0, 32_768, 12.0, 10_000)
    (123, 1023)
    """
    _check_foreseen(second, reach, nats, rows)
    return _best_rate(second / (float(reach) * float(reach)), nats / rows)


def fan_radius(second: float, reach: int, rate: int, nats: float, rows: float) -> float:
    """The foreseen distance of an end from the sample's mean, in steps: a forecast, with ordinary floating point.

    >>> rate = fan_rate(12_288.0**2, 32_768, 12.0, 10_000)
    >>> round(fan_radius(12_288.0**2, 32_768, rate, 12.0, 10_000))  # normal theory: 12,288·sqrt(2·12/10,000) = 602
    628
    """
    _check_foreseen(second, reach, nats, rows)
    _check_rate(rate)
    return _cost(rate, second / (float(reach) * float(reach)), nats / rows) * reach


def fan_reach(second: float, room: int, nats: float, rows: float) -> int:
    """The public reach b for a distance `room` from the centre to the end of the range: at least `room`.

    Any b ≥ room is valid. A larger b is better if the best rate for b = room is below a few steps of λ: with very many rows,
    or with rare large values on the other side.

    >>> fan_reach(12_288.0**2, 32_768, 12.0, 10_000), fan_reach(12_288.0**2, 32_768, 12.0, 10**9)
    (32768, 1239355)
    """
    _check_foreseen(second, max(room, 1), nats, rows)
    if nats == 0.0:
        return max(room, 1)
    # The best λ is about b·sqrt(2c/(n·M₂)).
    return max(room, 1, ceil(min(_LEAST_RATE * sqrt(rows * second / (2.0 * nats)), 2.0**50)))


def fan_interval(
    first: int,
    squares: int,
    rows: int,
    *,
    centre: int,
    rates: tuple[int, int],
    nats: float,
    top: int = TOP,
    reaches: tuple[int, int] | None = None,
    known_rows: int = 0,
) -> tuple[Fraction, Fraction]:
    """The interval of a mean, in steps, from `first` = Σx and `squares` = Σx² over `rows` values in {0, …, top}.

    Each end fails with probability at most `e^{-nats}`, for independent rows (identical or not: then the average of their
    means) and for rows drawn without replacement. `centre`, `rates` (for the lower and the upper end) and `reaches` (at
    least `centre` and `top - centre`, their defaults) are public and fixed in advance. Within a group, `rows` is the
    group's number m of rows, and the rates may be a public function of m. Of these rows the analyst may know `known_rows`:
    the others' sum is then only known to that many whole ranges, and their squares are at most all squares. Exact; no rows
    give the whole range.

    >>> low, high = fan_interval(40 * 100, 40 * 100**2, 40, centre=100, rates=(700, 900), nats=6.0, top=200)
    >>> float(low), float(high)  # forty values of exactly 100
    (78.05..., 117.06...)
    """
    if not 0 <= centre <= top:
        raise SettingError(f"a centre lies between 0 and {top}, not at {centre!r}")
    _check_sums(first, squares, rows, top)
    for rate in rates:
        _check_rate(rate)
    below, above = (centre, top - centre) if reaches is None else reaches
    if below < centre or above < top - centre:
        raise SettingError(f"reaches from {centre} are at least {centre} and {top - centre}, not {reaches!r}")
    price = _price(nats)
    others = rows - known_rows
    if others < 1 or price is None:
        return Fraction(0), Fraction(top)
    spread = squares - 2 * centre * first + rows * centre * centre  # Σ(x - a)²
    low = Fraction(first - known_rows * top, others) - _radius(spread, others, max(below, 1), rates[0], price)
    high = Fraction(first, others) + _radius(spread, others, max(above, 1), rates[1], price)
    return _clip(low, 0, top), _clip(high, 0, top)


def fan_group_difference(
    first: tuple[int, int],
    squares: tuple[int, int],
    rows: tuple[int, int],
    *,
    centres: tuple[int, int],
    seconds: tuple[float, float],
    nats: float,
    top: int = TOP,
) -> tuple[Fraction, Fraction]:
    """The interval of θ₁ - θ₂, the means of two disjoint groups, in steps, from each group's Σx, Σx² and number of rows.

    Each end fails with probability at most `e^{-nats}`, given which rows belong to which group: for identically distributed
    rows, for rows drawn without replacement, and for other independent rows if membership is public. `centres` and `seconds`
    (the foreseen second moments about them) are public; reach and rate follow from these and the numbers of rows alone, by a
    fixed rule. One interval is narrower than the difference of two. A group without rows gives the whole range.

    >>> low, high = fan_group_difference(
    ...     (400 * 60, 900 * 40), (400 * 3_700, 900 * 1_700), (400, 900),
    ...     centres=(60, 40), seconds=(100.0, 100.0), nats=6.0, top=100)
    >>> round(float(low), 2), round(float(high), 2)
    (17.28, 22.5)
    """
    for centre in centres:
        if not 0 <= centre <= top:
            raise SettingError(f"a centre lies between 0 and {top}, not at {centre!r}")
    for foreseen in seconds:
        _check_foreseen(foreseen, 1, nats, 1.0)
    for total, square, count in zip(first, squares, rows, strict=True):
        _check_sums(total, square, count, top)
    price = _price(nats)
    if min(rows) == 0 or price is None:
        return Fraction(-top), Fraction(top)
    swapped = (first[::-1], squares[::-1], rows[::-1], centres[::-1], seconds[::-1])
    low = _difference_end(first, squares, rows, centres, seconds, nats, price, top)
    high = -_difference_end(*swapped, nats, price, top)
    return _clip(low, -top, top), _clip(high, -top, top)


def _difference_end(
    first: tuple[int, ...],
    squares: tuple[int, ...],
    rows: tuple[int, ...],
    centres: tuple[int, ...],
    seconds: tuple[float, ...],
    nats: float,
    price: int,
    top: int,
) -> Fraction:
    """The lower end: 4b with ξ = (x - a₁)/(m₁b) in group 1 and -(x - a₂)/(m₂b) in group 2, b = reach/(m₁m₂)."""
    (m1, m2), (a1, a2) = rows, centres
    # A public function of m₁ and m₂: the variance that is foreseen for the difference, the reach, the rate.
    foreseen = seconds[0] / m1 + seconds[1] / m2
    wide = _LEAST_RATE * sqrt(foreseen / (2.0 * nats)) * (float(m1) * float(m2)) if nats > 0.0 else 0.0
    reach = max(max(a1, 1) * m2, max(top - a2, 1) * m1, ceil(wide))
    b = reach / (m1 * m2)
    rate = _best_rate(foreseen / (b * b), nats)
    # Σξ²·b² = Σ(x-a₁)²/m₁² + Σ(x-a₂)²/m₂²
    spread1 = squares[0] - 2 * a1 * first[0] + m1 * a1 * a1
    spread2 = squares[1] - 2 * a2 * first[1] + m2 * a2 * a2
    spread = spread1 * m2 * m2 + spread2 * m1 * m1
    return Fraction(first[0], m1) - Fraction(first[1], m2) - _radius(spread, m1 * m2, reach, rate, price)


def _radius(spread: int, rows: int, reach: int, rate: int, price: int) -> Fraction:
    """`(b/λ)(ψ·spread/(n b²) + c/n)` exactly, for λ = rate/2^10, ψ = psi/2^40, c = price/2^20."""
    above = _psi()[rate] * spread + price * reach * reach * (_PSI_STEPS // _NATS_STEPS)
    return Fraction(above, rows * rate * reach * (_PSI_STEPS // RATE_STEPS))


@cache
def _psi() -> tuple[int, ...]:
    """ψ(λ) in steps of 2^-40, rounded up by more than the error of ln; index 0 is not used."""
    values = [0]
    for rate in range(1, RATE_STEPS):
        share = rate / RATE_STEPS
        values.append(ceil((-ln(1.0 - share) - share) * _PSI_STEPS + 0.0625))
    return tuple(values)


@cache
def _grid() -> tuple[np.ndarray, np.ndarray]:
    return np.array(_psi()[1:], dtype=float) / _PSI_STEPS, np.arange(1, RATE_STEPS) / RATE_STEPS


def _best_rate(moment: float, share: float) -> int:
    """The rate that minimises (ψ(λ)·moment + share)/λ: IEEE products, sums and quotients alone, the first of equal ones."""
    psi, rates = _grid()
    return int(np.argmin((psi * moment + share) / rates)) + 1


def _cost(rate: int, moment: float, share: float) -> float:
    return (_psi()[rate] / _PSI_STEPS * moment + share) / (rate / RATE_STEPS)


def _price(nats: float) -> int | None:
    """The price in steps of 2^-20, rounded up; None if it is infinite."""
    if not nats >= 0.0:
        raise SettingError(f"a price in nats is at least 0, not {nats!r}")
    return None if nats == inf else ceil(Fraction(nats) * _NATS_STEPS)


def _clip(end: Fraction, low: int, high: int) -> Fraction:
    return min(max(end, Fraction(low)), Fraction(high))


def _check_rate(rate: int) -> None:
    if not 1 <= rate < RATE_STEPS:
        raise SettingError(f"a rate lies between 1 and {RATE_STEPS - 1}, not at {rate!r}")


def _check_foreseen(second: float, reach: int, nats: float, rows: float) -> None:
    if not 0.0 <= second < inf:
        raise SettingError(f"a second moment is at least 0, not {second!r}")
    if not reach >= 1:
        raise SettingError(f"a reach is at least 1 step, not {reach!r}")
    if not nats >= 0.0:
        raise SettingError(f"a price in nats is at least 0, not {nats!r}")
    if not rows > 0.0:
        raise SettingError(f"the number of rows is positive, not {rows!r}")


def _check_sums(first: int, squares: int, rows: int, top: int) -> None:
    """Sums that no values in {0, …, top} have are mistakes of the caller, found without naming them."""
    if rows < 0:
        raise SettingError(f"the number of rows is at least 0, not {rows!r}")
    if not (0 <= first <= rows * top and first * first <= rows * squares and squares <= top * first):
        raise SettingError(f"no values between 0 and {top} have these sums: cut the values to their range first")
