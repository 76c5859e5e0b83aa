"""ln and exp of columns by additions, multiplications and divisions alone, in a fixed order.

IEEE 754 fixes these operations to the last bit, so the result is the same on every processor and in every engine that
takes the same steps. Library functions differ in the last bit, and rounding to single precision hides that everywhere
but at ties. Here numpy evaluates the steps; `data.engines.sql` writes them as SQL.

Both are accurate to about 1e-15; expressions round them to single precision.
"""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np

__all__ = ["EXP", "LN", "LN2_HIGH", "LN2_LOW", "LOG2E", "ROOT_HALF", "exp", "ln"]

LN2_HIGH, LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
"""ln 2 in two parts; the first has so few digits that its small whole multiples are exact."""
LOG2E, ROOT_HALF = 1.4426950408889634, 0.7071067811865476

EXP = tuple(1.0 / factorial(power) for power in range(13, -1, -1))
"""Taylor coefficients, highest power first; enough for |r| ≤ ln(2)/2."""
LN = tuple(2.0 / (2 * power + 1) for power in range(11, -1, -1))
"""ln((1 + s)/(1 - s)) = s · polynomial in s², highest power first; enough for |s| ≤ 0.172."""


def exp(x: Any) -> Any:
    """e^x for -87 ≤ x ≤ 80.

    >>> bool(abs(exp(np.array([1.0]))[0] - np.e) < 1e-15)
    True
    """
    k = np.rint(x * LOG2E)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    result = _horner(EXP, r)
    return np.ldexp(result, k.astype(np.int64))


def ln(x: Any) -> Any:
    """ln x for x ≥ 1e-30.

    >>> bool(abs(ln(np.array([10.0]))[0] - np.log(10.0)) < 1e-15)
    True
    """
    m, e = np.frexp(x)  # 1/2 ≤ m < 1
    below = (m < ROOT_HALF).astype(np.float64)
    m, e = m + m * below, e - below  # √½ ≤ m < √2
    s = (m - 1.0) / (m + 1.0)
    return e * LN2_HIGH + (e * LN2_LOW + s * _horner(LN, s * s))


def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    result = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * x + coefficient
    return result
