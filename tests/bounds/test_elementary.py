"""Logarithm and exponential against mpmath, and the same bits whatever the processor offers."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import mpmath
import numpy as np
import pytest

from everhold.bounds.elementary import exp, exp_array, ln, ln_binomial, ln_gamma
from everhold.errors import SettingError

mpmath.mp.prec = 200


def ulps(value, exact):
    if exact == 0:
        return 0.0 if value == 0.0 else math.inf
    return float(abs(mpmath.mpf(value) - exact) / mpmath.mpf(math.ulp(float(exact))))


def grid():
    rng = np.random.default_rng(1)
    wide = 10.0 ** rng.uniform(-300, 300, 1500)
    near_one = 1.0 + rng.uniform(-0.5, 1.0, 1500) * 10.0 ** rng.uniform(-15, 0, 1500)
    return [5e-324, 2.2250738585072014e-308, 1.0, 2.0, 1.7976931348623157e308, *wide, *near_one]


def test_ln_is_within_four_units_in_the_last_place():
    assert max(ulps(ln(float(x)), mpmath.log(float(x))) for x in grid()) < 4.0


def test_exp_is_within_four_units_in_the_last_place():
    points = [0.0, -0.0, 1e-300, 708.9, -707.9, *np.random.default_rng(2).uniform(-700, 700, 2000)]
    assert max(ulps(exp(float(x)), mpmath.exp(float(x))) for x in points) < 4.0


def test_array_and_scalar_exponential_agree_to_the_bit():
    points = np.concatenate([np.random.default_rng(3).uniform(-720, 700, 5000), [0.0, -708.0, -708.5, 16.0]])
    assert exp_array(points).tolist() == [exp(float(x)) for x in points]


@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 18, 100, 12345, 10**6, 10**9])
def test_ln_gamma(n):
    assert ln_gamma(n) == pytest.approx(float(mpmath.loggamma(n)), rel=5e-16, abs=1e-15)


def test_ln_binomial_of_small_numbers_is_that_of_the_exact_coefficient():
    for n in range(40):
        for k in range(n + 1):
            assert ln_binomial(n, k) == pytest.approx(math.log(math.comb(n, k)), abs=1e-12)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_ln_refuses_what_has_no_logarithm(bad):
    with pytest.raises(SettingError):
        ln(bad)


def test_same_bits_with_other_processor_features():
    """numpy without its vector instructions stands for another machine."""
    program = (
        "import numpy as np; from everhold.bounds.elementary import exp_array, ln;"
        "x = np.random.Generator(np.random.Philox(5)).uniform(-30, 16, 20000);"
        "import hashlib; d = hashlib.sha256(exp_array(x).tobytes());"
        "d.update(np.array([ln(abs(float(v)) + 1e-9) for v in x[:2000]]).tobytes()); print(d.hexdigest())"
    )
    plain = os.environ | {"NPY_DISABLE_CPU_FEATURES": ""}
    reduced = os.environ | {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 X86_V3 X86_V4 AVX512F AVX512CD AVX512_SKX"}
    printed = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], env=env, capture_output=True, text=True, check=True
        ).stdout
        for env in (plain, reduced)
    }
    assert len(printed) == 1
