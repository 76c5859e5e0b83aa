"""Intervals from noisy sums: never too narrow, as narrow as the exponent allows, and no wider without noise."""

from __future__ import annotations

from math import exp, sqrt

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from everhold.bounds.concentration import kl_lower
from everhold.bounds.noisy_tail import _evidence, noisy_interval, noisy_low
from everhold.errors import SettingError

CASES = [
    (k, n, deviation, nats)
    for n in (50, 1_000, 3_000_000)
    for k in (0.0005 * n, 0.02 * n, 0.5 * n, 0.98 * n, n)
    for deviation in (0.5, 80.0)
    for nats in (0.5, 60.0)
]


def exponent(rate, k, n, variance, p):
    """To 60 digits."""
    with mpmath.workdps(60):
        rate, p = mpmath.mpf(rate), mpmath.mpf(p)
        return rate * k - n * mpmath.log(1 - p + p * mpmath.exp(rate)) - rate**2 * variance / 2


def best(k, n, variance, p):
    """The largest exponent, by another optimiser."""
    found = minimize_scalar(
        lambda log_rate: -float(exponent(exp(log_rate), k, n, variance, p)),
        bounds=(-18.0, 6.4),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return exponent(exp(found.x), k, n, variance, p)


@pytest.mark.parametrize(("k", "n", "deviation", "nats"), CASES)
def test_what_is_outside_is_refuted_and_hardly_more_is_inside(k, n, deviation, nats):
    """By the best exponent of another optimiser, to 60 digits: at the end it is C, up to a hair on the safe side."""
    low = noisy_low(k, n, deviation**2, nats)
    assert 0.0 <= low <= k / n

    if low > 1e-9:
        assert best(k, n, deviation**2, low) >= nats
    inside = low + 1e-4 * (k / n - low) + 1e-12
    if 0.0 < inside < 1.0:
        assert best(k, n, deviation**2, inside) <= nats * (1.0 + 1e-6) + 1e-6


def test_the_exponent_is_rounded_down():
    rng = np.random.default_rng(3)
    for _ in range(60):
        n = int(10 ** rng.uniform(1, 7))
        p = float(rng.uniform(0.0, 1.0))
        k = n * (p + (1 - p) * float(rng.uniform(0.0, 1.0)))
        variance = float(10 ** rng.uniform(-2, 5))
        found, most = _evidence(k, n, variance, p), best(k, n, variance, p)
        assert most - 1e-6 * (1.0 + abs(most)) <= found <= most + 1e-9 * (1.0 + abs(most))


def test_with_hardly_any_noise_it_is_the_kl_interval():
    for k, n, _, nats in CASES:
        if k < n:
            assert noisy_low(k, n, 1e-9, nats) == pytest.approx(kl_lower(k / n, nats / n), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("n", "p", "deviation"), [(200, 0.3, 20.0), (2_000, 0.5, 80.0), (400, 0.02, 10.0)])
def test_it_misses_no_more_often_than_allowed_and_without_the_noise_it_would(n, p, deviation):
    """100,000 noisy sums on each side; the line is five standard deviations above e^-C: a false alarm below 1e-6."""
    rng, nats, games = np.random.default_rng(8), 1.0, 100_000
    sums = rng.binomial(n, p, games) + rng.normal(0.0, deviation, games)
    line = exp(-nats) + 5 * sqrt(exp(-nats) / games)
    edge = n * p
    step = max(deviation, sqrt(n)) / 200
    while noisy_low(edge, n, deviation**2, nats) <= p:  # the least sum that would exclude p
        edge += step
    assert np.mean(sums >= edge) <= line
    edge = n * p
    while noisy_low(edge, n, 1e-9, nats) <= p:
        edge += step
    assert np.mean(sums >= edge) > exp(-nats) / 2  # the control: a much larger share, though the bound has room
    low, high = noisy_interval(n * p, n * p, n, deviation**2, nats)
    assert low < p < high
    assert binom.cdf(int(n * low), n, p) < 0.5


def test_beyond_the_scale_an_end_says_nothing():
    assert noisy_interval(-5.0, 120.0, 100, 4.0, 3.0) == (0.0, 1.0)
    assert noisy_interval(0.0, 100.0, 100, 4.0, 3.0) == (0.0, 1.0)
    for wrong in ((1.0, 0, 1.0, 1.0), (1.0, 10, -1.0, 1.0), (1.0, 10, 1.0, -1.0)):
        with pytest.raises(SettingError):
            noisy_low(*wrong)
