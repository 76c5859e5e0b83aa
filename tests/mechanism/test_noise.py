"""Samplers: their exact probabilities against a reference of 300 digits, their frequencies, their fixed work."""

from __future__ import annotations

import random
from fractions import Fraction
from math import exp

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import chisquare

from everhold.bounds.privacy import Privacy
from everhold.mechanism import noise
from everhold.mechanism.noise import (
    ROW,
    SecretNoise,
    choice_weights,
    exp_minus,
    gaussian_weights,
    lattice_of,
    quiet_weight,
)
from tests.oracles import oracle

TERMS = Privacy().terms


@pytest.fixture(autouse=True)
def _digits():
    with mp.workprec(1500):
        yield


@pytest.mark.parametrize("x", [Fraction(-100), Fraction(-37, 3), Fraction(-1, 7), Fraction(0), Fraction(5, 3), Fraction(4)])
def test_the_hazard_of_a_test_is_right_to_one_part_in_2_to_the_200(x):
    found = -mp.log(mpf(quiet_weight(x)) / mpf(2) ** 384)
    assert abs(found / mp.exp(mpf(x.numerator) / x.denominator) - 1) < mpf(2) ** -200


def test_beyond_the_range_x_is_cut_and_the_weight_is_never_0_or_all():
    assert quiet_weight(Fraction(10**9)) == quiet_weight(Fraction(4)) > 2**250
    assert quiet_weight(Fraction(-(10**9))) == quiet_weight(Fraction(-100)) < 2**384


def test_neighbours_have_hazards_within_the_promised_factor():
    """The inequality behind the theorem, of the weights that are really used: rates of neighbours differ by e^(1/b)."""
    step = Fraction(64, TERMS.test_parts)
    for x in (Fraction(-101), Fraction(-99), Fraction(-3, 7), Fraction(2), Fraction(4) - step / 2):
        low, high = (-mp.log(mpf(quiet_weight(one)) / mpf(2) ** 384) for one in (x, x + step))
        assert high / low <= mp.exp(mpf(step.numerator) / step.denominator) * (1 + mpf(2) ** -90)


def test_noise_has_the_weights_of_a_discrete_gaussian():
    weights = gaussian_weights(TERMS.release_parts)
    steps = mpf(TERMS.release_parts) * ROW / (64 * lattice_of(TERMS.release_parts))
    for z in (0, 1, 7, 640, 5_000, len(weights) - 1):
        assert abs(mpf(weights[z]) / mpf(2) ** 384 / mp.exp(-(mpf(z) ** 2) / (2 * steps**2)) - 1) < mpf(2) ** -200
    assert weights[-1] < 2**384 * mpf(2) ** -140  # what is cut off beyond the last weight
    assert len(weights) - 1 >= 14 * steps


@pytest.mark.parametrize("rows", [3, 80, 255, 256, 1023, 1024, 20_000])
def test_the_lattice_divides_a_row_so_that_rounding_keeps_the_sensitivity(rows):
    lattice = lattice_of(rows * 64)
    assert ROW % lattice == 0
    rng = random.Random(rows)
    for _ in range(300):
        total, moved = rng.randrange(-(10**12), 10**12), rng.randint(-ROW, ROW)
        assert abs((total + moved) // lattice - total // lattice) * lattice <= ROW


def pooled_chisquare(drawn, deviation):
    """p-value of noise in rows against a normal of that deviation plus the lattice, in 40 bins."""
    edges = np.linspace(-4 * deviation, 4 * deviation, 41)
    counts = np.histogram(drawn, edges)[0]
    from scipy.stats import norm

    expected = np.diff(norm.cdf(edges, scale=deviation))
    expected = expected / expected.sum() * counts.sum()
    return chisquare(counts, expected).pvalue


def test_frequencies_of_released_noise():
    """False alarm 1e-6. The control, noise of 0.95 of the deviation, must be caught."""
    seeded = SecretNoise(TERMS, random.Random(3).getrandbits)
    per_row = ROW // lattice_of(TERMS.release_parts)
    drawn = np.array([seeded.step() for _ in range(40_000)]) / per_row
    shaken = drawn + np.random.default_rng(1).uniform(-0.5, 0.5, len(drawn)) / per_row
    assert pooled_chisquare(shaken, TERMS.deviation) > 1e-6
    assert pooled_chisquare(0.95 * shaken, TERMS.deviation) < 1e-6


@pytest.mark.oracles
def test_released_noise_agrees_with_opendp():
    """Two samples of the same law, ours and OpenDP's, in 30 bins. False alarm 1e-6."""
    dp = oracle("opendp.prelude")
    dp.enable_features("contrib")
    per_row = ROW // lattice_of(TERMS.release_parts)
    theirs_of = dp.m.make_gaussian(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=TERMS.deviation * per_row)
    mine_of = SecretNoise(TERMS)
    mine, theirs = (np.array([draw() for _ in range(4_000)]) for draw in (mine_of.step, lambda: theirs_of(0)))
    edges = np.quantile(np.concatenate([mine, theirs]), np.linspace(0, 1, 31))
    counts = np.array([np.histogram(one, edges)[0] for one in (mine, theirs)])
    from scipy.stats import chi2_contingency

    assert chi2_contingency(counts).pvalue > 1e-6


@pytest.mark.parametrize("x", [Fraction(-2), Fraction(-1, 3), Fraction(0), Fraction(1)])
def test_frequencies_of_quiet_tests(x):
    drawn = SecretNoise(TERMS, random.Random(4).getrandbits)
    games, p = 6_000, exp(-exp(x))
    found = sum(drawn.quiet(x) for _ in range(games)) / games
    assert abs(found - p) < 5 * (p * (1 - p) / games) ** 0.5


def test_a_choice_has_the_probabilities_of_the_exponential_mechanism():
    per = TERMS.release_parts * ROW // 64
    totals, weights = [0, per, -3 * per, per // 2], [Fraction(1, 4), Fraction(1, 8), Fraction(1, 2), Fraction(1, 8)]
    found = choice_weights(totals, weights, TERMS.release_parts)
    ideal = [float(w) * exp(t / per) for t, w in zip(totals, weights, strict=True)]
    for one, other in zip(found, ideal, strict=True):
        assert one / sum(found) == pytest.approx(other / sum(ideal), rel=1e-4)  # σ in 64ths of a row
    drawn = SecretNoise(TERMS, random.Random(5).getrandbits)
    counts = np.bincount([drawn.choose(totals, weights) for _ in range(4_000)], minlength=4)
    assert chisquare(counts, 4_000 * np.array(ideal) / sum(ideal)).pvalue > 1e-6


def test_a_choice_has_bounded_range_also_where_totals_are_cut():
    """ln p_i(S)/p_i(S') spans at most 2/σ over all candidates: what the cost of a choice rests on."""
    rng = random.Random(6)
    sigma = mpf(TERMS.release_parts) / 64
    for _ in range(150):
        count = rng.randint(2, 6)
        totals = [rng.randrange(-200 * TERMS.release_parts * ROW // 64, 0) for _ in range(count)]
        moved = [one + rng.randint(-ROW, ROW) for one in totals]
        even = [Fraction(1, count)] * count
        one, other = (choice_weights(some, even, TERMS.release_parts) for some in (totals, moved))
        ratios = [mp.log(mpf(a) / mpf(b)) for a, b in zip(one, other, strict=True)]
        assert max(ratios) - min(ratios) <= (2 / sigma) * (1 + mpf(2) ** -90)


def test_the_same_operations_whatever_comes_out(monkeypatch):
    """Every test draws the same coins and computes as many exponentials, quiet or not; every release draws once."""
    asked, computed = [], []

    def bits(count):
        asked.append(count)
        return 0 if len(asked) % 2 else 2**count - 1

    monkeypatch.setattr(noise, "exp_minus", lambda y: computed.append(1) or exp_minus(y))
    drawn = SecretNoise(TERMS, bits)
    outcomes = set()
    for x in (Fraction(-3), Fraction(3), Fraction(-100), Fraction(50)):
        for _ in range(2):
            before = len(asked), len(computed)
            outcomes.add(drawn.quiet(x))
            assert (len(asked) - before[0], len(computed) - before[1]) == (1, 2)
    assert outcomes == {True, False}
    drawn.step()
    before = len(asked)
    assert drawn.step() != drawn.step()
    assert len(asked) - before == 2


def test_coins_come_from_the_operating_system_and_are_never_used_twice():
    one, other = SecretNoise(TERMS), SecretNoise(TERMS)
    assert len({one.step() for _ in range(200)} | {other.step() for _ in range(200)}) > 250
    assert vars(one).keys() == {"_terms", "_bits"}  # nothing is stored
