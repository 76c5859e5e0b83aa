"""Fan's bound: exact failure probabilities of small worlds, exact arithmetic, widths, and mutants that must fail."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from everhold.bounds import fan
from everhold.bounds.concentration import kl_interval
from everhold.bounds.fan import TOP, fan_group_difference, fan_interval, fan_radius, fan_rate, fan_reach
from everhold.errors import SettingError

STEP = 2**20


def test_psi_is_rounded_up():
    table = fan._psi()
    with mpmath.workdps(40):
        for rate in range(1, 1024):
            share = mpmath.mpf(rate) / 1024
            excess = table[rate] - (-mpmath.log(1 - share) - share) * 2**40
            assert 0 < excess < 1.1


@given(
    st.lists(st.integers(0, TOP), min_size=1, max_size=30),
    st.integers(0, TOP),
    st.integers(1, 1023),
    st.integers(0, 40 * STEP),
)
def test_ends_are_the_formula_in_forty_digits_and_never_narrower(values, centre, rate, price):
    nats, n = price / STEP, len(values)
    low, high = fan_interval(sum(values), sum(x * x for x in values), n, centre=centre, rates=(rate, rate), nats=nats)
    with mpmath.workdps(60):
        share = mpmath.mpf(rate) / 1024
        psi = -mpmath.log(1 - share) - share
        moment = sum(mpmath.mpf(x - centre) ** 2 for x in values) / n
        mean = mpmath.mpf(sum(values)) / n
        ends = []
        for sign, room in ((-1, centre), (1, TOP - centre)):
            reach = max(room, 1)
            ends.append(mean + sign * (reach / share) * (psi * moment / reach**2 + nats / n))
        exact_low, exact_high = max(ends[0], 0), min(ends[1], TOP)
        low, high = (mpmath.mpf(end.numerator) / end.denominator for end in (low, high))
        blur = mpmath.mpf("1e-30") + mpmath.mpf("3e-6") * (ends[1] - ends[0])  # ψ is rounded up by a step of 2^-40
        assert exact_low - blur <= low <= exact_low + mpmath.mpf("1e-30")
        assert exact_high - mpmath.mpf("1e-30") <= high <= exact_high + blur


@given(st.floats(0.0, TOP**2), st.integers(1, TOP), st.floats(0.01, 100.0), st.floats(1.0, 1e9))
def test_the_rate_minimises_the_foreseen_radius(second, reach, nats, rows):
    chosen = fan_radius(second, reach, fan_rate(second, reach, nats, rows), nats, rows)
    for rate in range(1, 1024, 31):
        assert chosen <= fan_radius(second, reach, rate, nats, rows) * (1 + 1e-12)


def test_the_foreseen_radius_is_the_interval_if_the_forecast_is_right():
    values = [100, 300, 300, 500] * 50
    second = sum((x - 300) ** 2 for x in values) / 200
    rates = fan_rate(second, 300, 8.0, 200), fan_rate(second, TOP - 300, 8.0, 200)
    low, high = fan_interval(sum(values), sum(x * x for x in values), 200, centre=300, rates=rates, nats=8.0)
    assert 300 - float(low) == pytest.approx(fan_radius(second, 300, rates[0], 8.0, 200))
    assert float(high) - 300 == pytest.approx(fan_radius(second, TOP - 300, rates[1], 8.0, 200))


@pytest.mark.parametrize("rows", [10**4, 10**6, 10**9, 2**33])
@pytest.mark.parametrize(("second", "room"), [(12_000.0**2, 30_000), (6.5 * TOP, 7)])
def test_a_wider_reach_keeps_the_bound_near_its_limit(rows, second, room):
    """With very many rows, or rare large values, the least rate for b = room is too large."""
    nats = 12.0
    limit = math.sqrt(2 * second * nats / rows)
    reach = fan_reach(second, room, nats, rows)
    assert reach >= room
    plain = fan_radius(second, room, fan_rate(second, room, nats, rows), nats, rows)
    wider = fan_radius(second, reach, fan_rate(second, reach, nats, rows), nats, rows)
    assert wider <= 1.005 * plain
    assert wider <= 1.1 * limit
    if rows == 2**33:
        assert plain > 1.5 * limit, "the control"


def outcomes(rows):
    """Σx, Σx², probability over all samples of independent rows, each a list of (value, probability)."""
    law = {(0, 0): 1.0}
    for row in rows:
        following = {}
        for (first, squares), mass in law.items():
            for value, share in row:
                key = first + value, squares + value * value
                following[key] = following.get(key, 0.0) + mass * share
        law = following
    return law


def drawn(values, n):
    """The same for n of these values drawn without replacement."""
    law = {}
    samples = list(itertools.combinations(values, n))
    for sample in samples:
        key = sum(sample), sum(x * x for x in sample)
        law[key] = law.get(key, 0.0) + 1 / len(samples)
    return law


def missed(law, n, mean, centre, rates, nats, top):
    below = above = 0.0
    for (first, squares), mass in law.items():
        low, high = fan_interval(first, squares, n, centre=centre, rates=rates, nats=nats, top=top)
        below += mass * (low > mean)
        above += mass * (high < mean)
    return max(below, above)


PRICES = [0.05, 0.3, 1.0, 2.0]


def test_rows_of_different_laws_miss_no_more_often_than_promised():
    rng = np.random.default_rng(1)
    top, worst = 60, 0.0
    for trial in range(60):
        n = int(rng.integers(1, 7))
        atoms = sorted({0, top, *(int(x) for x in rng.integers(0, top + 1, size=2))})
        laws = [rng.dirichlet([0.4] * len(atoms)) for _ in range(n)]
        if trial % 3 == 0:
            laws = laws[:1] * n
        rows = [list(zip(atoms, shares, strict=True)) for shares in laws]
        mean = sum(value * share for row in rows for value, share in row) / n
        centre = int(rng.integers(0, top + 1)) if trial % 2 else round(mean)
        for rate, nats in itertools.product((50, 400, 1_000), PRICES):
            ratio = missed(outcomes(rows), n, mean, centre, (rate, rate), nats, top) * math.exp(nats)
            worst = max(worst, ratio)
    assert 0.3 < worst <= 1.0


def test_rows_without_replacement_miss_no_more_often_than_promised():
    rng = np.random.default_rng(2)
    top, worst = 60, 0.0
    for _ in range(25):
        values = [int(x) for x in rng.choice([0, 7, 30, top], size=9, p=rng.dirichlet([0.5] * 4))]
        mean = Fraction(sum(values), 9)
        for n, rate, nats in itertools.product((2, 4, 6), (100, 500, 1_000), PRICES):
            ratio = missed(drawn(values, n), n, mean, round(mean), (rate, rate), nats, top) * math.exp(nats)
            worst = max(worst, ratio)
    assert 0.02 < worst <= 1.0


def test_values_that_are_not_cut_would_fail():
    """The control: one value in twenty lies far below the range that the reach covers."""
    n, rate, nats, centre, reach = 6, 1_000, 3.0, 24, 1
    row = [(0, 0.05), (24, 0.95)]
    mean = 22.8
    failure = {True: 0.0, False: 0.0}
    for (first, squares), mass in outcomes([row] * n).items():
        spread = squares - 2 * centre * first + n * centre * centre
        for cut in failure:
            radius = fan._radius(spread, n, centre if cut else reach, rate, int(nats * STEP))
            failure[cut] += mass * (Fraction(first, n) - radius > mean)
    assert failure[True] <= math.exp(-nats)
    assert failure[False] > 2 * math.exp(-nats)
    with pytest.raises(SettingError):
        fan_interval(24 * n, 24 * 24 * n, n, centre=centre, rates=(rate, rate), nats=nats, top=24, reaches=(reach, 24))


def test_twice_as_narrow_as_kl_for_a_delay():
    """Minutes in [-60, 180], mean 10, standard deviation 45, 10,000 rows, 12 nats."""
    n, nats, minute = 10_000, 12.0, TOP / 240
    mean, sd = 70 * minute, 45 * minute
    centre, second = round(mean), sd**2
    rates = fan_rate(second, centre, nats, n), fan_rate(second, TOP - centre, nats, n)
    low, high = fan_interval(round(n * mean), round(n * (mean**2 + sd**2)), n, centre=centre, rates=rates, nats=nats)
    kl_low, kl_high = kl_interval(70 / 240, 70 / 240, nats / n)
    assert 2 * float(high - low) / TOP <= kl_high - kl_low
    assert float(high - low) / 2 <= 1.06 * sd * math.sqrt(2 * nats / n)


@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_a_fourfold_wrong_forecast_costs_a_quarter_of_the_width(factor):
    n, nats, second, reach = 10_000, 12.0, 12_000.0**2, 32_768
    right = fan_radius(second, reach, fan_rate(second, reach, nats, n), nats, n)
    wrong = fan_radius(second, reach, fan_rate(second * factor, reach, nats, n), nats, n)
    assert 1.1 * right < wrong <= 1.27 * right


def difference_missed(law, difference, centres, seconds, nats, top, price=None):
    below = above = 0.0
    for (first, squares, rows), mass in law.items():
        low, high = fan_group_difference(first, squares, rows, centres=centres, seconds=seconds, nats=nats, top=top)
        below += mass * (low > difference)
        above += mass * (high < difference)
    return max(below, above)


def group_law(sample_masses):
    law = {}
    for sample, mass in sample_masses:
        parts = [[value for group, value in sample if group == which] for which in (1, 2)]
        key = (
            tuple(sum(part) for part in parts),
            tuple(sum(x * x for x in part) for part in parts),
            tuple(len(part) for part in parts),
        )
        law[key] = law.get(key, 0.0) + mass
    return law


KINDS = [(1, 0), (1, 10), (2, 0), (2, 10), (0, 0)]


@pytest.mark.parametrize("shares", [(0.1, 0.3, 0.3, 0.1, 0.2), (0.02, 0.5, 0.08, 0.3, 0.1), (0.3, 0.05, 0.05, 0.6, 0.0)])
def test_differences_of_groups_miss_no_more_often_than_promised(shares):
    """Independent rows of five kinds: two groups of private and random sizes, two values each, and rows outside both."""
    samples = itertools.product(range(5), repeat=6)
    law = group_law(([KINDS[i] for i in sample], math.prod(shares[i] for i in sample)) for sample in samples)
    first, second = (10 * shares[i + 1] / (shares[i] + shares[i + 1]) for i in (0, 2))
    worst = 0.0
    for seconds, nats in itertools.product([(25.0, 25.0), (1.0, 90.0)], PRICES):
        failure = difference_missed(law, first - second, (round(first), round(second)), seconds, nats, 10)
        worst = max(worst, failure * math.exp(nats))
    assert 0.02 < worst <= 1.0


def test_differences_of_groups_without_replacement():
    population = [KINDS[i] for i in (0, 0, 1, 1, 1, 2, 2, 2, 3, 4)]
    samples = list(itertools.combinations(population, 6))
    law = group_law((sample, 1 / len(samples)) for sample in samples)
    for nats in PRICES:
        assert difference_missed(law, 6.0 - 2.5, (6, 2), (24.0, 19.0), nats, 10) <= math.exp(-nats)


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=9),
    st.lists(st.integers(0, 40), min_size=1, max_size=9),
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
    st.tuples(st.floats(0.0, 1e3), st.floats(0.0, 1e3)),
    st.floats(0.5, 5.0),
)
def test_differences_of_groups_row_by_row(ours, theirs, centres, seconds, nats):
    """The ends from ξ of every row: refuted is every D up to the low end, λΣξ - ψΣξ² - λ(D - a₁ + a₂)/b = c."""

    def end(one, two, a1, a2, second1, second2):
        m1, m2 = len(one), len(two)
        foreseen = second1 / m1 + second2 / m2
        wide = math.ceil(math.sqrt(foreseen / (2 * nats)) / 64 * m1 * m2) / (m1 * m2)
        b = max(max(a1, 1) / m1, max(40 - a2, 1) / m2, wide)
        rate = min(range(1, 1024), key=lambda r: ((-math.log1p(-r / 1024) - r / 1024) * foreseen / b**2 + nats) / r)
        share = rate / 1024
        psi = -math.log1p(-share) - share
        xi = [(x - a1) / (m1 * b) for x in one] + [-(x - a2) / (m2 * b) for x in two]
        assert min(xi) >= -1 - 1e-12, "the reach covers both groups"
        return a1 - a2 + b / share * (share * sum(xi) - psi * sum(x * x for x in xi) - nats)

    low, high = fan_group_difference(
        (sum(ours), sum(theirs)),
        (sum(x * x for x in ours), sum(x * x for x in theirs)),
        (len(ours), len(theirs)),
        centres=centres,
        seconds=seconds,
        nats=nats,
        top=40,
    )
    expected = end(ours, theirs, *centres, *seconds), -end(theirs, ours, *centres[::-1], *seconds[::-1])
    assert float(low) == pytest.approx(max(expected[0], -40), abs=0.1)  # another rate may be best by a hair
    assert float(high) == pytest.approx(min(expected[1], 40), abs=0.1)


def test_a_plain_sum_over_groups_of_different_size_would_fail():
    """The control: without the weights 1/m₁ and 1/m₂ a false claim is certified nearly always.

    Groups of 40 and 10 per cent with means .55 and .66, so the difference is -.11; the claim is "more than -.10".
    """
    rng = np.random.default_rng(5)
    n, nats, top, bound = 20_000, 8.0, 1_000, -100
    lower, upper = 500, 600  # θ₁ > 500 and θ₂ < 600 would imply the claim, and the second is false
    plain = weighted = 0
    for _ in range(60):
        group = rng.choice([1, 2, 0], size=n, p=[0.4, 0.1, 0.5])
        x = np.clip(np.rint(rng.normal(np.where(group == 1, 550, 660), 100)), 0, top).astype(int)
        ours, theirs = x[group == 1], x[group == 2]
        xi = np.concatenate([ours - lower, upper - theirs]) / top
        rate = fan_rate(float((xi**2).sum() / n), 1, nats, n) / 1024
        psi = -math.log1p(-rate) - rate
        plain += rate * xi.sum() - psi * (xi**2).sum() >= nats
        low, _ = fan_group_difference(
            (int(ours.sum()), int(theirs.sum())),
            (int((ours**2).sum()), int((theirs**2).sum())),
            (len(ours), len(theirs)),
            centres=(550, 660),
            seconds=(1e4, 1e4),
            nats=nats,
            top=top,
        )
        weighted += low > bound
    assert plain > 50
    assert weighted == 0


def test_one_interval_of_a_difference_is_narrower_than_two():
    m1, m2, nats, top = 4_000, 9_000, 8.0, 1_000
    sums = (m1 * 550, m2 * 500), (m1 * (550**2 + 100**2), m2 * (500**2 + 100**2))
    low, high = fan_group_difference(*sums, (m1, m2), centres=(550, 500), seconds=(1e4, 1e4), nats=nats, top=top)
    width = 0.0
    for total, squares, m, centre in zip(*sums, (m1, m2), (550, 500), strict=True):
        rates = fan_rate(1e4, centre, nats + math.log(2), m), fan_rate(1e4, top - centre, nats + math.log(2), m)
        left, right = fan_interval(total, squares, m, centre=centre, rates=rates, nats=nats + math.log(2), top=top)
        width += float(right - left)
    assert low < 50 < high
    assert float(high - low) < 0.75 * width


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(0, 50), st.floats(0.0, 30.0), st.floats(1.0, 3.0))
def test_a_higher_price_is_wider_and_mirrored_values_give_mirrored_ends(values, centre, nats, factor):
    def ends(numbers, middle, price):
        squares = sum(x * x for x in numbers)
        return fan_interval(sum(numbers), squares, len(numbers), centre=middle, rates=(300, 300), nats=price, top=50)

    low, high = ends(values, centre, nats)
    wide_low, wide_high = ends(values, centre, nats * factor)
    assert 0 <= wide_low <= low <= high <= wide_high <= 50
    assert ends([50 - x for x in values], 50 - centre, nats) == (50 - high, 50 - low)


def test_edges():
    assert fan_interval(0, 0, 0, centre=5, rates=(1, 1), nats=1.0) == (0, TOP)
    assert fan_interval(30, 300, 3, centre=10, rates=(1, 1), nats=math.inf, top=20) == (0, 20)
    assert fan_interval(0, 0, 5, centre=0, rates=(900, 900), nats=0.0, top=20) == (0, 0)
    nothing = {"centres": (5, 5), "seconds": (1.0, 1.0), "nats": 1.0, "top": 10}
    assert fan_group_difference((0, 30), (0, 300), (0, 3), **nothing) == (-10, 10)
    low, high = fan_group_difference((90, 30), (900, 300), (9, 3), centres=(10, 10), seconds=(0.0, 0.0), nats=0.0, top=10)
    assert low == high == 0
    # A price that is not a multiple of 2^-20 is rounded up.
    odd = fan_interval(30, 300, 3, centre=10, rates=(500, 500), nats=0.1, top=20)
    up = fan_interval(30, 300, 3, centre=10, rates=(500, 500), nats=math.ceil(0.1 * STEP) / STEP, top=20)
    assert odd == up


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: fan_rate(-1.0, 10, 1.0, 10),
        lambda: fan_rate(math.nan, 10, 1.0, 10),
        lambda: fan_rate(1.0, 0, 1.0, 10),
        lambda: fan_rate(1.0, 10, -1.0, 10),
        lambda: fan_rate(1.0, 10, 1.0, 0),
        lambda: fan_radius(1.0, 10, 1024, 1.0, 10),
        lambda: fan_interval(10, 100, 1, centre=11, rates=(1, 1), nats=1.0, top=10),
        lambda: fan_interval(10, 100, 1, centre=5, rates=(0, 1), nats=1.0, top=10),
        lambda: fan_interval(10, 100, 1, centre=5, rates=(1, 1), nats=1.0, top=10, reaches=(4, 5)),
        lambda: fan_interval(10, 100, 1, centre=5, rates=(1, 1), nats=math.nan, top=10),
        lambda: fan_interval(-3, 9, 1, centre=5, rates=(1, 1), nats=1.0, top=10),
        lambda: fan_interval(12, 144, 1, centre=5, rates=(1, 1), nats=1.0, top=10),
        lambda: fan_interval(10, 40, 2, centre=5, rates=(1, 1), nats=1.0, top=10),
        lambda: fan_interval(0, 0, -1, centre=5, rates=(1, 1), nats=1.0, top=10),
        lambda: fan_group_difference((1, 1), (1, 1), (1, 1), centres=(11, 5), seconds=(1.0, 1.0), nats=1.0, top=10),
        lambda: fan_group_difference((1, 1), (1, 1), (1, 1), centres=(1, 5), seconds=(-1.0, 1.0), nats=1.0, top=10),
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(SettingError):
        wrong()


@pytest.mark.parametrize("at_top", [True, False])
def test_rows_that_the_analyst_knows_may_have_any_values(at_top):
    """Twelve of eighteen rows lie at one end, as an analyst who knows them can arrange; the others are coins.

    The end on the side of the known rows may miss with probability e^-nats, exactly. Control: counted like the others, they
    make it miss far more often."""
    top, nats, known, others = 1_000, 1.0, 12, 6
    worst = {known: 0.0, 0: 0.0}
    for p in np.linspace(0.02, 0.98, 49):
        centre = round(p * top)
        reaches = max(centre, 1), max(top - centre, 1)
        second = p * (1.0 - p) * top * top
        rates = tuple(fan_rate(second, reach, nats, others) for reach in reaches)
        for counted, found in worst.items():
            missed = 0.0
            for k in range(others + 1):
                ones = k + (known if at_top else 0)
                low, high = fan_interval(
                    ones * top,
                    ones * top * top,
                    known + others,
                    centre=centre,
                    rates=rates,
                    nats=nats,
                    top=top,
                    known_rows=counted,
                )
                if (low > p * top) if at_top else (high < p * top):
                    missed += math.comb(others, k) * p**k * (1.0 - p) ** (others - k)
            worst[counted] = max(found, missed)
    assert worst[known] <= math.exp(-nats)
    assert worst[0] > 1.5 * math.exp(-nats)
