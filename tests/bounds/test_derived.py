"""Intervals made of intervals: they hold whenever their parts do, and are not wider than they must be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from everhold.bounds import derived

unit = st.floats(0.0, 1.0)


def around(value, rng, floor=0.0, ceiling=1.0):
    """An interval that holds the value."""
    return max(value - rng.random() * 0.2, floor), min(value + rng.random() * 0.2, ceiling)


def holds(ends, value):
    return ends[0] <= value <= ends[1]


@pytest.mark.parametrize("seed", range(200))
def test_all_hold_when_their_parts_do(seed):
    """Random finite populations; every part's interval holds by construction."""
    rng = np.random.default_rng(seed)
    x = rng.beta(*rng.uniform(0.3, 3.0, 2), 50)
    y = np.clip(rng.uniform(-1, 1) * x + rng.uniform(0, 1) * rng.random(50), 0, 1)
    yes, group = rng.random(50) < 0.4, rng.random(50) < 0.5
    a, b = np.mean(yes & group), np.mean(~yes & group)
    if group.any():
        assert holds(derived.ratio(around(a, rng), around(b, rng)), a / (a + b))
    assert holds(derived.difference(around(x.mean(), rng), around(y.mean(), rng)), x.mean() - y.mean())
    c, d = rng.random(2)
    mean_x, mean_y = around(x.mean(), rng), around(y.mean(), rng)
    var_x = derived.variance(mean_x, around(np.mean((x - c) ** 2), rng), c)
    var_y = derived.variance(mean_y, around(np.mean((y - d) ** 2), rng), d)
    assert holds(var_x, x.var())
    assert holds(var_y, y.var())
    cov = derived.covariance(mean_x, mean_y, around(np.mean((x - c) * (y - d)), rng, -1.0), (c, d))
    assert holds(cov, np.mean(x * y) - x.mean() * y.mean())
    if x.std() > 0 and y.std() > 0:
        assert holds(derived.correlation(cov, var_x, var_y), np.corrcoef(x, y)[0, 1])
    low, high = sorted(rng.normal(0, 1e3, 2))
    assert holds(derived.rescaled(around(0.3, rng), low, high), low + (high - low) * 0.3)


@given(unit, unit)
def test_exact_parts_give_nearly_exact_results(a, b):
    if a + b > 1e-3:
        low, high = derived.ratio((a, a), (b, b))
        assert low <= a / (a + b) <= high
        assert high - low < 1e-13
    low, high = derived.difference((a, a), (b, b))
    assert low <= a - b <= high
    assert high - low < 1e-13


@given(unit, unit, unit, unit, st.floats(0.0, 0.1))
def test_wider_parts_never_narrow_the_whole(a, b, c, d, more):
    parts = (min(a, b), max(a, b)), (min(c, d), max(c, d))
    wider = tuple((max(ends[0] - more, 0.0), min(ends[1] + more, 1.0)) for ends in parts)
    for make in (derived.ratio, derived.difference):
        inner, outer = make(*parts), make(*wider)
        assert outer[0] <= inner[0] + 1e-12
        assert outer[1] >= inner[1] - 1e-12


def test_nothing_known_means_anything_is_possible():
    assert derived.ratio((0.0, 0.0), (0.0, 0.0)) == (0.0, 1.0)
    assert derived.correlation((-0.1, 0.1), (0.0, 0.1), (0.0, 0.1)) == (-1.0, 1.0)
    assert derived.correlation((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)) == (-1.0, 1.0)


def test_a_broken_formula_would_be_found():
    """Positive control: forgetting the square of the mean misses in these populations."""
    missed = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.beta(1, 1, 50)
        missed += not holds(around(np.mean((x - 0.0) ** 2), rng), x.var())
    assert missed > 100
