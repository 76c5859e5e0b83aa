"""The exact tail: exact failure probabilities by enumeration, sixty digits up to 2^33 rows, and mutants that must fail."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import betaincinv

from everhold.bounds import binomial
from everhold.bounds.binomial import (
    bet_rate,
    bet_refutes,
    binomial_interval,
    mcnemar_refutes,
    paired_interval,
    tail_refutes,
)
from everhold.bounds.concentration import SHARE_GRID, kl_interval, kl_lower
from everhold.bounds.fan import fan_interval, fan_rate
from everhold.errors import SettingError

ROUNDING = 1 + 1e-12  # of the enumerations, which sum in floating point


def most_nats(refutes):
    """The largest price at which `refutes` is true: the sharpest statement to check. None if there is none."""
    if not refutes(0.0):
        return None
    low, high = 0.0, 1.0
    while refutes(high):
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if refutes(middle) else (low, middle)
    return low


def law(biases):
    """The distribution of the number of heads of independent coins."""
    masses = np.ones(1)
    for bias in biases:
        masses = np.convolve(masses, [1 - bias, bias])
    return masses


def coins_of_mean(n, mean, rng):
    """Coins with this average bias: Hoeffding's extreme designs (zeros, ones, the rest equal), and random ones."""
    yield [mean] * n
    for zeros in range(n):
        for ones in range(n - zeros):
            bias = (n * mean - ones) / (n - zeros - ones)
            if 0.0 <= bias <= 1.0:
                yield [0.0] * zeros + [1.0] * ones + [bias] * (n - zeros - ones)
    for _ in range(3):
        draw = rng.random(n)
        scale = min(mean / draw.mean(), 1 / draw.max())
        draw *= scale
        draw += (mean - draw.mean()) * (1 - draw) / (1 - draw).mean()
        yield list(draw)


def test_coins_of_different_biases_are_refuted_no_more_often_than_promised():
    rng = np.random.default_rng(1)
    worst = 0.0
    for n in range(2, 11):
        for mean in (0.01, 0.1, 0.25, 0.3, 0.5, 0.7, 0.85):
            tails = [np.cumsum(law(coins)[::-1])[::-1] for coins in coins_of_mean(n, mean, rng)]
            for k in range(1, n + 1):
                nats = most_nats(lambda c, k=k, n=n, mean=mean: tail_refutes(k, n, mean, c))
                if nats is not None:
                    ratio = max(tail[k] for tail in tails) * math.exp(nats)
                    assert ratio <= ROUNDING, (n, mean, k)
                    worst = max(worst, ratio)
    assert worst > 0.999, "the check is sharp: k = n is refuted at exactly p^n"


def test_without_hoeffdings_condition_different_coins_would_fail():
    """The control: two coins of average bias 1/2, one always heads. Pr[at least 1] is 1, not the binomial 3/4."""
    assert np.cumsum(law([0.0, 1.0])[::-1])[1] > 1 - 0.5**2
    assert not tail_refutes(1, 2, 0.5, 0.0)
    assert tail_refutes(2, 2, 0.5, 1.38), "the condition holds with equality at k = np + 1"


def test_rows_without_replacement_are_refuted_no_more_often_than_promised():
    worst = 0.0
    for size in range(2, 17):
        for yes in range(1, size):
            for n in range(2, size + 1):
                for k in range(1, min(n, yes) + 1):
                    nats = (
                        most_nats(lambda c, k=k, n=n, p=yes / size: tail_refutes(k, n, p, c))
                        if k * size >= n * yes
                        else None
                    )
                    if nats is not None:
                        tail = sum(math.comb(yes, j) * math.comb(size - yes, n - j) for j in range(k, min(n, yes) + 1))
                        worst = max(worst, tail / math.comb(size, n) * math.exp(nats))
    assert 0.5 < worst <= 1.0


def three_outcomes(n, masses):
    """All counts (i, j) of the first two of three outcomes in n independent rows, with probabilities."""
    for i in range(n + 1):
        for j in range(n - i + 1):
            ways = math.comb(n, i) * math.comb(n - i, j)
            yield i, j, ways * masses[0] ** i * masses[1] ** j * masses[2] ** (n - i - j)


def three_outcomes_drawn(n, sizes):
    for i in range(min(n, sizes[0]) + 1):
        for j in range(min(n - i, sizes[1]) + 1):
            if n - i - j <= sizes[2]:
                ways = math.comb(sizes[0], i) * math.comb(sizes[1], j) * math.comb(sizes[2], n - i - j)
                yield i, j, ways / math.comb(sum(sizes), n)


DRAWN = [(4, 6, 6), (2, 9, 5), (8, 2, 6), (5, 5, 1)]


@pytest.mark.parametrize("nats", [0.7, 1.5, 3.0, 5.0])
def test_group_shares_given_the_size_of_the_group(nats):
    """k of the m rows of a group, m private and random: yes in the group, no in the group, outside."""

    def missed(outcomes, share, price):
        below = above = 0.0
        for yes, no, mass in outcomes:
            low, high = binomial_interval(yes, yes, yes + no, price)
            below += mass * (high < share)
            above += mass * (low > share)
        return max(below, above)

    cases = [
        (list(three_outcomes(9, m)), m[0] / (m[0] + m[1])) for m in [(0.2, 0.3, 0.5), (0.05, 0.6, 0.35), (0.45, 0.4, 0.15)]
    ]
    cases += [(list(three_outcomes_drawn(9, s)), s[0] / (s[0] + s[1])) for s in DRAWN]
    failures = [missed(outcomes, share, nats) for outcomes, share in cases]
    assert max(failures) <= math.exp(-nats)
    mutant = [missed(outcomes, share, nats / 4) for outcomes, share in cases]
    if nats > 1.0:  # below, Hoeffding's condition alone covers
        assert max(mutant) > math.exp(-nats), "the control: a quarter of the price does not cover"


@pytest.mark.parametrize("nats", [0.6, 1.5, 3.0, 4.5])
def test_mcnemar_is_valid_for_identical_rows_and_without_replacement(nats):
    designs = [list(three_outcomes(n, (p, p, 1 - 2 * p))) for n in (4, 8, 14) for p in (0.1, 0.3, 0.45, 0.5)]
    designs += [list(three_outcomes_drawn(n, (s, s, 16 - 2 * s))) for n in (5, 9, 12) for s in (2, 4, 6, 8)]

    def given(design, price):
        return sum(mass for first, second, mass in design if mcnemar_refutes(first, second, price))

    assert max(given(design, nats) for design in designs) <= math.exp(-nats)
    if nats > 1.0:  # below, Hoeffding's condition alone suffices
        assert max(given(design, nats / 2.5) for design in designs) > math.exp(-nats), "the control"


def rows_of_different_laws(n, rng):
    """p10 and p01 of n rows whose averages agree: some rows lean to one model, others to the other."""
    shares = rng.dirichlet([0.5, 0.5, 0.5], size=n)
    shares = shares ** rng.choice([1, 4])
    shares /= shares.sum(axis=1, keepdims=True)
    gap = shares[:, 0].mean() - shares[:, 1].mean()
    if gap > 0:
        moved = shares[:, 0] * gap / shares[:, 0].mean()
        shares[:, 0] -= moved
    else:
        moved = shares[:, 1] * -gap / shares[:, 1].mean()
        shares[:, 1] -= moved
    shares[:, 2] += moved
    return shares


def joint_law(shares):
    """Pr[n10 = i, n01 = j] for independent rows with these probabilities."""
    masses = np.ones((1, 1))
    for p10, p01, p0 in shares:
        size = len(masses)
        following = np.zeros((size + 1, size + 1))
        following[:size, :size] += p0 * masses
        following[1:, :size] += p10 * masses
        following[:size, 1:] += p01 * masses
        masses = following
    return masses


@pytest.mark.parametrize("theta", [0.55, 0.7, 0.95])
def test_the_bet_on_counts_is_valid_for_rows_of_different_laws(theta):
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(150):
        n = int(rng.integers(1, 11))
        masses = joint_law(rows_of_different_laws(n, rng))
        for nats in (0.2, 1.0, 2.5):
            given = sum(masses[i, j] for i in range(n + 1) for j in range(n + 1 - i) if bet_refutes(i, j, theta, nats))
            worst = max(worst, given * math.exp(nats))
    assert 0.1 < worst <= 1.0


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0.501, 0.999))
def test_the_bet_on_counts_in_forty_digits(first, second, theta):
    with mpmath.workdps(40):
        share = mpmath.mpf(theta)
        exact = first * mpmath.log(2 * share) + second * mpmath.log(2 * (1 - share))
        nats = most_nats(lambda c: bet_refutes(first, second, theta, c))
        if nats is None:
            assert exact < 1e-4
        else:
            assert exact - mpmath.mpf("1e-14") * (first + second) - mpmath.mpf("1e-9") <= nats <= exact


def test_the_bet_finds_a_better_model():
    """The control: where p10 exceeds p01 the verdict is given far more often than e^-nats."""
    masses = joint_law([(0.6, 0.1, 0.3), (0.9, 0.0, 0.1)] * 6)
    given = sum(masses[i, j] for i in range(13) for j in range(13 - i) if bet_refutes(i, j, 0.9, 2.5))
    assert given > 5 * math.exp(-2.5)


def test_unit_means_are_not_coins():
    """Values 0 and 0.96: the exact tail would fail 1.7 times too often, Chernoff's does not. So units need kl or Fan."""
    n, mean, value, nats = 50, 0.2, 0.96, 8.0
    masses = law([mean / value] * n)
    exact_tail = sum(m for j, m in enumerate(masses) if tail_refutes(math.ceil(value * j), n, mean, nats))
    chernoff = sum(m for j, m in enumerate(masses) if kl_lower(value * j / n, nats / n) > mean)
    assert chernoff <= math.exp(-nats)
    assert exact_tail == pytest.approx(1.7 * math.exp(-nats), rel=0.02)


def exact_bound(k, n, p):
    """The smaller of the closed form and Chernoff's bound, in sixty digits; Gauss's continued fraction as it stands."""
    with mpmath.workdps(60):
        p = mpmath.mpf(p)
        common = k * mpmath.log(p) + (n - k) * mpmath.log(1 - p)
        choose = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        odds, left = p / (1 - p), n - k
        fraction = mpmath.mpf(1)
        if left:
            steps = [
                -mpmath.mpf(left) / (k + 1),
                mpmath.mpf(n + 1) / ((k + 1) * (k + 2)),
                -mpmath.mpf((left - 1) * (k + 1)) / ((k + 2) * (k + 3)),
                2 * mpmath.mpf(n + 2) / ((k + 3) * (k + 4)),
                -mpmath.mpf(max(left - 2, 0) * (k + 2)) / ((k + 4) * (k + 5)),
            ]
            for step in reversed(steps):
                fraction = 1 + step * odds / fraction
        x = mpmath.mpf(k) / n
        entropy = 0 if k == n else -n * (x * mpmath.log(x) + (1 - x) * mpmath.log(1 - x))
        return common + min(choose - mpmath.log(fraction), entropy)


def true_tail(k, n, p):
    """ln Pr[Bin(n, p) ≥ k], term by term in whole numbers, rounded down: what is lost is below 1e-18 of it."""
    above, below = p.as_integer_ratio()
    total = term = 1 << 120
    j, odds_below = k, below - above
    while term > total >> 62:
        term = term * ((n - j) * above) // ((j + 1) * odds_below)
        total += term
        j += 1
    with mpmath.workdps(60):
        p = mpmath.mpf(p)
        choose = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        first = choose + k * mpmath.log(p) + (n - k) * mpmath.log(1 - p)
        return first + mpmath.log(mpmath.mpf(total) / (1 << 120))


def cases_at_the_edge():
    rng = np.random.default_rng(3)
    for n in (2, 3, 15, 16, 17, 40, 1_000, 10**6, 10**8, 2**33 - 1, 2**33):
        for _ in range(12):
            p = float(rng.choice([rng.random(), 10 ** -rng.uniform(0, 9), 1 - 10 ** -rng.uniform(0, 5), 0.5]))
            k = math.floor(n * p + 1 + rng.uniform(0, 8) * math.sqrt(n * p * (1 - p))) + 1
            if k <= n:
                yield k, n, p


def test_the_closed_form_in_sixty_digits_up_to_2_33_rows():
    checked = 0
    for k, n, p in cases_at_the_edge():
        nats, bound = most_nats(lambda c, k=k, n=n, p=p: tail_refutes(k, n, p, c)), exact_bound(k, n, p)
        if nats is None:
            assert bound > -1e-2
            continue
        assert nats <= -bound, (k, n, p)
        assert nats >= -bound - mpmath.mpf("1e-13") - mpmath.mpf("1e-12") * n, "no more than the allowance is lost"
        checked += 1
    assert checked > 80


def test_without_the_allowance_rounding_would_decide(monkeypatch):
    monkeypatch.setattr(binomial, "_ROUNDING", 0.0)
    unsafe = 0
    for k, n, p in cases_at_the_edge():
        nats = most_nats(lambda c, k=k, n=n, p=p: tail_refutes(k, n, p, c))
        unsafe += nats is not None and nats > -exact_bound(k, n, p)
    assert unsafe > 5


def test_never_below_the_true_tail_up_to_2_33_rows():
    gaps = []
    for k, n, p in cases_at_the_edge():
        nats, exact = most_nats(lambda c, k=k, n=n, p=p: tail_refutes(k, n, p, c)), true_tail(k, n, p)
        with mpmath.workdps(60):
            assert exact_bound(k, n, p) >= exact - mpmath.mpf("1e-40"), "also without the allowance"
        if nats is not None:
            assert mpmath.mpf(-nats) >= exact, (k, n, p)
            gaps.append(float(-nats - exact) if exact < -3.69 else 0.0)
    assert len(gaps) > 80
    assert max(gaps) < 0.02


def test_never_below_the_true_tail_for_any_few_rows():
    """Every count of up to 40 rows, and the fraction is the tail itself where it ends: no more than two rows say no."""
    for n in range(2, 41):
        for k in range(2, n + 1):
            for part in (1e-6, 0.1, 0.5, 0.9, 1.0):
                p = part * (k - 1) / n
                nats = most_nats(lambda c, k=k, n=n, p=p: tail_refutes(k, n, p, c))
                if nats is not None:
                    over = float(-nats - true_tail(k, n, p))
                    assert over >= 0.0, (k, n, p)
                    assert over < 2e-11 or n - k > 2, (k, n, p)


def test_the_convergent_before_would_be_below_the_true_tail(monkeypatch):
    """The control: without its innermost term the fraction bounds the tail from below."""
    first = binomial._Tail._first

    def shorter(tail, gap, p):
        tail.inner = 0.0
        return first(tail, gap, p)

    monkeypatch.setattr(binomial._Tail, "_first", shorter)
    wrong = 0
    for k, n, p in [(15, 30, 0.3), (10, 200, 0.02), (532, 1_000, 0.5), (9_065, 10_000, 0.9)]:
        nats = most_nats(lambda c, k=k, n=n, p=p: tail_refutes(k, n, p, c))
        wrong += mpmath.mpf(-nats) < true_tail(k, n, p) - mpmath.mpf("1e-6")
    assert wrong == 4


def test_the_closed_form_grows_with_the_share():
    """Otherwise an end would depend on where the search starts. A polynomial of the proof has no negative coefficient.

    One whole number holds the polynomial: powers of a large base for t, u and h. If every digit is small, the digits are the
    coefficients.
    """
    bits = 100
    t, u, h = (1 << bits * 32**i for i in range(3))
    m, gap, k = t + u, 2 + t + h, 1 + h + 2 * t + u  # Nt, A/q and k, with N ≥ 1 and Hoeffding's condition
    third, third_slope = (k - 1) * gap + 4 * (k + 2) * (2 + t), 4 * (k + 2) * t - (k - 1) * m
    plain, plain_slope = (k - 1) * gap + 2 * (k + 1) * (2 + t), 2 * (k + 1) * t - (k - 1) * m
    inner, ends = 2 * (m + (k + 2) * t) * u * (k + 1) ** 2 * (k + 5), (k + 2) * (k + 4)
    second = ends * plain * third + inner
    second_slope = ends * (plain_slope * third + plain * third_slope) + 2 * inner
    rise = (2 * third + third_slope) * second - third * second_slope
    polynomial = second**2 - (m + (k + 1) * t) * (k + 3) * (k + 4) * rise
    digits = []
    while polynomial > 0:
        digits.append(polynomial & ((1 << bits) - 1))
        polynomial >>= bits
    assert max(digits) < 1 << bits - 40
    assert sum(digit > 0 for digit in digits) == 447


counts = st.integers(1, 10**9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, st.floats(0.01, 300.0))
def test_ends_are_refuted_and_tight(count, nats):
    k, n = count
    low, high = binomial_interval(k, k, n, nats)
    assert 0.0 <= low <= k / n <= high <= 1.0
    assert low == 0.0 or tail_refutes(k, n, low + SHARE_GRID, nats)
    assert high == 1.0 or tail_refutes(n - k, n, 1.0 - (high - SHARE_GRID), nats)
    assert not tail_refutes(k, n, min(low + 2 * SHARE_GRID, 1.0), nats)
    assert binomial_interval(n - k, n - k, n, nats) == (1.0 - high, 1.0 - low)


@given(counts, st.floats(0.01, 100.0), st.integers(-(10**9), 10**9))
def test_ends_do_not_depend_on_the_first_guess(count, nats, shift):
    """The guess uses the machine's own logarithm; the end must not."""
    k, n = count
    expected = binomial_interval(k, k, n, nats)
    with pytest.MonkeyPatch.context() as patch:
        guess = binomial._Tail.guess
        patch.setattr(binomial._Tail, "guess", lambda tail: guess(tail) + shift * SHARE_GRID)
        assert binomial_interval(k, k, n, nats) == expected


@given(counts, st.floats(0.01, 100.0), st.floats(1.0, 2.0))
def test_a_higher_price_is_wider(count, nats, factor):
    k, n = count
    low, high = binomial_interval(k, k, n, nats)
    wide_low, wide_high = binomial_interval(k, k, n, nats * factor)
    assert wide_low <= low
    assert high <= wide_high


@pytest.mark.parametrize("n", [1, 2, 7, 24])
def test_a_range_of_counts_covers_every_count_in_it(n):
    for low in range(n + 1):
        for high in range(low, n + 1):
            left, right = binomial_interval(low, high, n, 2.5)
            assert left == min(binomial_interval(k, k, n, 2.5)[0] for k in range(low, high + 1))
            assert right == max(binomial_interval(k, k, n, 2.5)[1] for k in range(low, high + 1))


@pytest.mark.parametrize("n", [50, 73, 100, 1_000, 10_000, 10**6])
@pytest.mark.parametrize("nats", [3.69, 3.7, 5.0, 8.0, 12.0, 20.0])
def test_within_one_per_cent_of_clopper_and_pearson_and_narrower_than_kl(n, nats):
    for x in (0.01, 0.03, 0.2, 0.5, 0.7, 0.9, 0.99):
        k = round(n * x)
        low, high = binomial_interval(k, k, n, nats)
        exact_low = betaincinv(k, n - k + 1, math.exp(-nats)) if k else 0.0
        exact_high = 1.0 - betaincinv(n - k, k + 1, math.exp(-nats)) if k < n else 1.0
        assert low <= exact_low + 1e-7  # older versions of scipy invert to seven places only; other tests are exact
        assert exact_high <= high + 1e-7
        if k >= 2:
            assert high - low <= 1.01 * (exact_high - exact_low)
            assert k / n - low <= 1.01 * (k / n - exact_low) + 1e-8
        if n - k >= 2:
            assert high - k / n <= 1.01 * (exact_high - k / n) + 1e-8
        kl_low, kl_high = kl_interval(k / n, k / n, nats / n)
        assert high - low <= (0.90 if nats <= 8 and n >= 1_000 and 10 <= k <= n - 10 else 1.0) * (kl_high - kl_low)


def test_counts_at_the_edges():
    assert binomial_interval(0, 0, 0, 3.0) == (0.0, 1.0)
    assert binomial_interval(-3, 12, 10, 3.0) == (0.0, 1.0)
    assert binomial_interval(1, 1, 1, 0.5) == (0.0, 1.0)
    assert binomial_interval(5, 5, 10, math.inf) == (0.0, 1.0)
    assert binomial_interval(1, 9, 10, 0.0) == (0.0, 1.0)  # one row is Hoeffding's condition
    assert tail_refutes(11, 10, 1.0, math.inf)
    assert tail_refutes(1, 0, 0.5, 5.0)
    assert not tail_refutes(0, 10, 0.0, 0.0)
    assert tail_refutes(3, 10, 5e-324, 2_000.0)


def quantile_ends(counts, q, nats, shift=0):
    """The places of the ends among three ordered atoms: refute P(x < l) ≥ q and P(x ≤ r) ≤ q."""
    n, atoms = sum(counts), range(len(counts))
    low = max([i for i in atoms if i and tail_refutes(sum(counts[i - shift :]), n, 1.0 - q, nats)], default=0)
    high = min([i for i in atoms if tail_refutes(sum(counts[: i + 1]), n, q, nats)], default=len(counts) - 1)
    return low, high


@pytest.mark.parametrize(
    "masses", [(0.25, 0.5, 0.25), (0.5, 0.25, 0.25), (0.5, 0.0, 0.5), (0.8, 0.1, 0.1), (0.1, 0.15, 0.75)]
)
@pytest.mark.parametrize("q", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("nats", [0.6, 1.5, 3.0])
def test_quantile_ends_cover_every_root(masses, q, nats):
    """Every root t, P(x < t) ≤ q ≤ P(x ≤ t), also where q equals the distribution function at an atom."""
    below = [sum(masses[:i]) for i in range(3)]
    roots = [i for i in range(3) if below[i] <= q + 1e-12 and q <= below[i] + masses[i] + 1e-12]
    for n in (3, 8, 13):
        left = right = 0.0
        for i, j, mass in three_outcomes(n, masses):
            low, high = quantile_ends((i, j, n - i - j), q, nats)
            left += mass * (low > min(roots))
            right += mass * (high < max(roots))
        assert max(left, right) <= math.exp(-nats)


def test_a_quantile_that_counts_one_atom_too_many_would_fail():
    """The control: P(x < l) tested with the atom before l counted. The median of (1/2, 1/4, 1/4) has the roots 0 and 1."""
    outcomes = list(three_outcomes(13, (0.5, 0.25, 0.25)))
    ends = [(mass, quantile_ends((i, j, 13 - i - j), 0.5, 1.5, shift=1)[0]) for i, j, mass in outcomes]
    assert sum(mass for mass, low in ends if low > 0) > math.exp(-1.5)


RATES = [(200, 200), (450, 450), (900, 1_000), (1_100, 1_500)]


def paired_misses(masses, mean, rates, nats):
    n = len(masses) - 1
    below = above = 0.0
    for i, j in itertools.product(range(n + 1), repeat=2):
        if i + j <= n and masses[i, j] > 0:
            low, high = paired_interval(i, j, n, rates, nats)
            below += masses[i, j] * (low > mean)
            above += masses[i, j] * (high < mean)
    return max(below, above)


@pytest.mark.parametrize("rates", RATES)
def test_paired_intervals_miss_no_more_often_than_promised(rates):
    rng = np.random.default_rng(4)
    worst = 0.0
    for trial in range(40):
        n = int(rng.integers(1, 7))
        shares = rng.dirichlet([0.4, 0.4, 0.4], size=n)
        if trial % 3 == 0:
            shares[:] = shares[0]
        mean = float((shares[:, 0] - shares[:, 1]).mean())
        for nats in (0.1, 0.5, 1.5):
            worst = max(worst, paired_misses(joint_law(shares), mean, rates, nats) * math.exp(nats))
    for sizes in [(3, 2, 4), (1, 4, 4), (5, 0, 4), (1, 1, 7)]:
        masses = np.zeros((6, 6))
        for i, j, mass in three_outcomes_drawn(5, sizes):
            masses[i, j] = mass
        for nats in (0.1, 0.5, 1.5):
            worst = max(worst, paired_misses(masses, (sizes[0] - sizes[1]) / 9, rates, nats) * math.exp(nats))
    assert 0.1 < worst <= 1.0


@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 4_000), st.integers(1, 2**20), st.floats(0.0, 50.0))
def test_paired_ends_are_safe_and_tight(first, second, still, rate, nats):
    rows = first + second + still
    low, high = paired_interval(first, second, rows, (rate, 300), nats)
    assert -1.0 <= low <= high <= 1.0
    assert paired_interval(second, first, rows, (300, rate), nats) == (-high, -low)

    def wealth(end):
        with mpmath.workdps(40):
            bet = mpmath.mpf(rate) / 1024
            terms = [1 + bet * (1 - end), 1 - bet * (1 + end), 1 - bet * end]
            if min(terms) <= 0:
                return mpmath.mpf("-inf")
            return sum(count * mpmath.log(term) for count, term in zip((first, second, still), terms, strict=True))

    if low > -1.0:
        assert wealth(mpmath.mpf(low) + SHARE_GRID) >= nats, "an end that the bet does not reach would overclaim"
        assert wealth(mpmath.mpf(low) + 3 * SHARE_GRID) <= nats + 1e-9


@pytest.mark.parametrize(("rows", "half", "narrower"), [(1_000, 0.0256, 0.9), (10_000, 0.0078, 0.96)])
def test_paired_intervals_are_narrower_than_fans(rows, half, narrower):
    p10, p01, nats = 0.03, 0.02, 6.0
    first, second = round(p10 * rows), round(p01 * rows)
    rates = bet_rate(p10, p01, rows, nats), bet_rate(p01, p10, rows, nats)
    low, high = paired_interval(first, second, rows, rates, nats)
    assert (high - low) / 2 == pytest.approx(half, rel=0.02)
    step, centre = 32_768, round(32_768 * 1.01)
    total = step * (rows + first - second)
    squares = step * step * (rows - first - second) + (2 * step) ** 2 * first
    moment = 0.05 * step**2
    fans = fan_rate(moment, centre, nats, rows), fan_rate(moment, 2 * step - centre, nats, rows)
    left, right = fan_interval(total, squares, rows, centre=centre, rates=fans, nats=nats)
    assert high - low <= narrower * float(right - left) / step


@pytest.mark.parametrize(("p10", "p01", "rows"), [(0.03, 0.02, 1_000), (0.2, 0.1, 200), (0.0, 0.0, 500), (0.4, 0.6, 50)])
def test_the_public_bet_is_nearly_the_best(p10, p01, rows):
    def low(rate):
        return paired_interval(round(p10 * rows), round(p01 * rows), rows, (rate, 1), 6.0)[0]

    chosen = low(bet_rate(p10, p01, rows, 6.0))
    best = max(low(rate) for rate in range(1, 2_000, 7))
    mean = p10 - p01
    assert mean - chosen <= 1.03 * (mean - best) + (0.0 if p01 else 0.5 / rows)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: tail_refutes(1, -1, 0.5, 1.0),
        lambda: tail_refutes(1, 2, 1.5, 1.0),
        lambda: tail_refutes(1, 2, math.nan, 1.0),
        lambda: tail_refutes(1, 2, 0.5, -1.0),
        lambda: tail_refutes(1, 2, 0.5, math.nan),
        lambda: binomial_interval(3, 2, 5, 1.0),
        lambda: binomial_interval(6, 9, 5, 1.0),
        lambda: mcnemar_refutes(-1, 2, 1.0),
        lambda: bet_refutes(1, 2, 0.5, 1.0),
        lambda: bet_refutes(1, 2, 1.0, 1.0),
        lambda: bet_rate(0.7, 0.7, 10, 1.0),
        lambda: bet_rate(0.1, 0.1, 0, 1.0),
        lambda: paired_interval(3, 3, 5, (10, 10), 1.0),
        lambda: paired_interval(1, 1, 5, (0, 10), 1.0),
        lambda: paired_interval(1, 1, 5, (10, 2**20 + 1), 1.0),
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
