"""From price to width: inverse round trips, mpmath references, exact small cases, and always the safe side."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom

from everhold.bounds.concentration import (
    SHARE_GRID,
    binary_kl,
    confidence_nats,
    hoeffding_rows,
    hoeffding_width,
    kl_interval,
    kl_lower,
    kl_upper,
    known_rows_range,
)
from everhold.errors import SettingError

shares = st.one_of(
    st.floats(0.0, 1.0),
    st.sampled_from([0.0, 1.0, 0.5, 1e-12, 1 - 1e-12, 1e-300]),
    st.floats(1e-9, 1e-3),
)
radii = st.one_of(st.floats(1e-9, 5.0), st.sampled_from([0.0, 1e-12, 700.0, 1e6]))


def exact_kl(x, p):
    with mpmath.workdps(60):
        x, p = mpmath.mpf(x), mpmath.mpf(p)
        yes = x * mpmath.log(x / p) if x else mpmath.mpf(0)
        no = (1 - x) * mpmath.log((1 - x) / (1 - p)) if x != 1 else mpmath.mpf(0)
        return yes + no


@given(shares, radii)
def test_the_lower_end_is_outside_and_tight(x, radius):
    low = kl_lower(x, radius)
    assert 0.0 <= low <= x
    if low > 0.0:
        assert exact_kl(x, low) > radius, "an end that is inside would overclaim"
    inner = low + 4 * SHARE_GRID
    if 0.0 < inner < x and radius >= 1e-9:  # below, floating point blurs the radius itself
        assert exact_kl(x, inner) <= mpmath.mpf(radius) * (1 + mpmath.mpf("1e-6")) + mpmath.mpf("1e-15")


@given(shares, radii)
def test_the_upper_end_mirrors_the_lower_one(x, radius):
    high = kl_upper(x, radius)
    assert x <= high <= 1.0
    if high < 1.0:
        assert exact_kl(x, high) > radius


@given(shares, st.floats(0.0, 1.0))
def test_the_kl_form_is_never_wider_than_hoeffding(x, radius):
    half = math.sqrt(radius / 2.0)
    assert kl_lower(x, radius) >= max(0.0, x - half) - 1e-7  # a radius near 0 is blurred by floating point
    assert kl_upper(x, radius) <= min(1.0, x + half) + 1e-7


@pytest.mark.parametrize("x", [0.5, 0.01, 0.9, 1e-6])
@pytest.mark.parametrize("radius", [1e-6, 1e-3, 0.02, 0.5])
def test_ends_by_bisection_in_fifty_digits(x, radius):
    def end(outside):
        inside = mpmath.mpf(x)
        for _ in range(150):
            middle = (inside + outside) / 2
            if exact_kl(x, middle) <= radius:
                inside = middle
            else:
                outside = middle
        return inside

    with mpmath.workdps(50):
        below, above = end(mpmath.mpf("1e-40")), end(1 - mpmath.mpf("1e-40"))
        assert 0 <= below - kl_lower(x, radius) < 4 * SHARE_GRID
        assert 0 <= kl_upper(x, radius) - above < 4 * SHARE_GRID


@pytest.mark.parametrize("n", [1, 2, 5, 20, 60])
@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-4])
def test_exact_coverage_for_small_samples(n, delta):
    """A single question: the binomial probability of missing is at most δ for every p, summed exactly."""
    radius = confidence_nats(delta) / n
    ends = [kl_interval(k / n, k / n, radius) for k in range(n + 1)]
    for p in [0.0, 1.0, 0.5, 1e-3, 0.01, 0.1, 0.3, 0.77, 0.999]:
        missed = sum(float(binom.pmf(k, n, p)) for k, (low, high) in enumerate(ends) if not low <= p <= high)
        assert missed <= delta


def test_exact_coverage_can_fail():
    """The control: half the nats do not cover."""
    n, delta = 60, 0.05
    ends = [kl_interval(k / n, k / n, 0.25 * confidence_nats(delta) / n) for k in range(n + 1)]
    missed = sum(float(binom.pmf(k, n, 0.5)) for k, (low, high) in enumerate(ends) if not low <= 0.5 <= high)
    assert missed > delta


@given(st.floats(0.1, 1e4), st.floats(1e-4, 2.0))
def test_rows_and_width_are_inverse_on_the_safe_side(nats, width):
    rows = hoeffding_rows(nats, width)
    assert hoeffding_width(nats, rows) <= width
    if rows > 1:
        assert hoeffding_width(nats, rows - 1) > width * (1 - 1e-9)


@given(shares, st.floats(1e-6, 1.0), st.floats(1.01, 3.0))
def test_wider_radius_wider_interval(x, radius, factor):
    assert kl_lower(x, radius * factor) <= kl_lower(x, radius)
    assert kl_upper(x, radius * factor) >= kl_upper(x, radius)


@given(st.integers(2, 300), st.data())
def test_known_rows_exact(n, data):
    """Whatever the known rows are, the share among the others lies in the returned range."""
    m = data.draw(st.integers(0, n - 1))
    ones_known = data.draw(st.integers(0, m))
    ones_other = data.draw(st.integers(0, n - m))
    x = (ones_known + ones_other) / n
    low, high, left = known_rows_range(x, x, n, m)
    assert left == n - m
    assert low <= ones_other / (n - m) <= high


def test_binary_kl_at_the_corners():
    assert binary_kl(0.0, 0.5) == pytest.approx(math.log(2.0))
    assert binary_kl(1.0, 0.25) == pytest.approx(math.log(4.0))
    assert binary_kl(0.0, 1.0) == math.inf


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: confidence_nats(0.0),
        lambda: confidence_nats(1.0),
        lambda: kl_lower(-0.1, 0.1),
        lambda: kl_lower(0.5, -0.1),
        lambda: kl_lower(0.5, math.nan),
        lambda: kl_interval(0.6, 0.4, 0.1),
        lambda: hoeffding_width(-1.0, 10),
        lambda: hoeffding_rows(1.0, 0.0),
        lambda: known_rows_range(0.1, 0.2, 10, 10),
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
