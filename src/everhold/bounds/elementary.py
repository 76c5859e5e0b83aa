"""Logarithm and exponential from IEEE operations alone: the same bits on every machine.

The C library's `log` and `exp` differ in the last place between machines, and numpy's between processors. Answers must
not: a replay recomputes every price, tolerance and interval and expects the same bits. Addition, multiplication, division
and square root are correctly rounded everywhere (IEEE 754), so functions built only from these agree everywhere too.
Accuracy: within 4 units in the last place, tested against mpmath.
"""

from __future__ import annotations

from math import floor, frexp, inf, ldexp

import numpy as np

from everhold.errors import SettingError

__all__ = ["exp", "exp_array", "ln", "ln_binomial", "ln_gamma"]

# ln 2 in two parts; the first has 32 trailing zero bits, so its product with an exponent is exact.
_LN2_HI = 0.6931471803691238
_LN2_LO = 1.9082149292705877e-10
_LOG2_E = 1.4426950408889634
_HALF_LN_TWO_PI = 0.9189385332046728
_INVERSE_FACTORIALS = (
    1.6059043836821613e-10,  # 1/13!
    2.08767569878681e-09,
    2.505210838544172e-08,
    2.755731922398589e-07,
    2.7557319223985893e-06,
    2.48015873015873e-05,
    0.0001984126984126984,
    0.001388888888888889,
    0.008333333333333333,
    0.041666666666666664,
    0.16666666666666666,
    0.5,
    1.0,
    1.0,
)
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_SMALL = 16


def ln(x: float) -> float:
    """Natural logarithm of a positive finite number, bit for bit the same everywhere.

    >>> ln(1.0), round(ln(10.0), 12)
    (0.0, 2.302585092994)
    """
    if not 0.0 < x < inf:
        raise SettingError(f"ln needs a positive finite number, not {x!r}")
    m, e = frexp(x)
    if m < 0.7071067811865476:
        m, e = m + m, e - 1
    # ln m = 2 artanh(z), z = (m - 1)/(m + 1), |z| ≤ 0.1716: eleven odd terms reach 1e-18.
    z = (m - 1.0) / (m + 1.0)
    z2 = z * z
    series = (1 / 15 + (1 / 17 + (1 / 19 + 1 / 21 * z2) * z2) * z2) * z2
    series = (1 / 3 + (1 / 5 + (1 / 7 + (1 / 9 + (1 / 11 + (1 / 13 + series) * z2) * z2) * z2) * z2) * z2) * z2
    return e * _LN2_HI + (2.0 * z + (2.0 * z * series + e * _LN2_LO))


def exp(x: float) -> float:
    """Exponential of a finite number, bit for bit the same everywhere (0 below -708, an error above 709).

    >>> exp(0.0), round(exp(1.0), 12)
    (1.0, 2.718281828459)
    """
    if x > 709.0:
        raise SettingError(f"exp of {x!r} would overflow")
    if x < -708.0:
        return 0.0
    k = floor(x * _LOG2_E + 0.5)
    r = (x - k * _LN2_HI) - k * _LN2_LO
    series = 0.0
    for coefficient in _INVERSE_FACTORIALS:
        series = series * r + coefficient
    return ldexp(series, k)


def exp_array(x: np.ndarray) -> np.ndarray:
    """`exp` of every element: the same operations, so the same bits as the scalar function."""
    k = np.floor(x * _LOG2_E + 0.5)
    r = x - k * _LN2_HI
    r -= k * _LN2_LO
    series = np.zeros_like(r)
    for coefficient in _INVERSE_FACTORIALS:
        series *= r
        series += coefficient
    result: np.ndarray = np.ldexp(series, k.astype(np.int32))
    result[x < -708.0] = 0.0
    return result


def _ln_factorials() -> tuple[float, ...]:
    values = [0.0]
    for k in range(1, _SMALL):
        values.append(values[-1] + ln(float(k)))
    return tuple(values)


_LN_FACTORIAL = _ln_factorials()


def ln_gamma(n: int) -> float:
    """ln Γ(n) for a whole number n ≥ 1: a table below 16, Stirling's series above.

    >>> round(ln_gamma(5), 12) == round(ln(24.0), 12)
    True
    """
    if n < 1:
        raise SettingError(f"ln_gamma needs a whole number of at least 1, not {n}")
    if n <= _SMALL:
        return _LN_FACTORIAL[n - 1]
    z = float(n)
    inverse_square = 1.0 / (z * z)
    series = 0.0
    for coefficient in _STIRLING:
        series = series * inverse_square + coefficient
    return (z - 0.5) * ln(z) - z + _HALF_LN_TWO_PI + series / z


def ln_binomial(n: int, k: int) -> float:
    """ln C(n, k), exact to about 1e-13 of the largest term; bit for bit the same everywhere.

    >>> round(ln_binomial(10, 3), 12) == round(ln(120.0), 12)
    True
    """
    if not 0 <= k <= n:
        raise SettingError(f"a binomial coefficient needs 0 ≤ k ≤ n, not n={n}, k={k}")
    if k == 0 or k == n:
        return 0.0
    return ln_gamma(n + 1) - ln_gamma(k + 1) - ln_gamma(n - k + 1)
