"""Noisy promotions: one case moves the test by 1/b, a candidate that is not better is promoted with e^-C, exactly summed."""

from __future__ import annotations

from fractions import Fraction
from math import comb, exp, expm1

import numpy as np
import pytest
from scipy import stats

from everhold.bounds.budget import Budget
from everhold.bounds.changes import Changes
from everhold.bounds.gain import SCORE_ONE
from everhold.bounds.privacy import ROW_PARTS, Privacy
from everhold.bounds.private_gain import MOST_NATS, NoisyBet, least_step, noisy_gain_end, noisy_power
from everhold.errors import SettingError
from everhold.mechanism.noise import ROW

FALSE_ALARM = 1e-6
SCALES = (1, 37, ROW_PARTS, 10 * ROW_PARTS, 40 * ROW_PARTS)


@pytest.mark.parametrize("test_parts", SCALES)
@pytest.mark.parametrize("by", [0, 1, SCORE_ONE // 100, SCORE_ONE // 2, SCORE_ONE - 1])
@pytest.mark.parametrize("cases", [2, 500, 10**6])
def test_one_case_moves_the_test_by_one_bth_at_most(test_parts, by, cases):
    """From any outcome to any other: exactly, in whole numbers."""
    bet = NoisyBet.of(cases=cases, by=by, test_parts=test_parts, nats=7.0)
    most = Fraction(ROW_PARTS, test_parts)
    rng = np.random.default_rng(test_parts + by)
    places = [
        -SCORE_ONE,
        -SCORE_ONE + 1,
        -1,
        0,
        1,
        by,
        SCORE_ONE - 1,
        SCORE_ONE,
        *rng.integers(-SCORE_ONE, SCORE_ONE + 1, 30).tolist(),
    ]
    alone = [bet.beyond({one: 1}) for one in places]
    assert max(alone) - min(alone) == most  # from one end to the other it is used up
    assert bet.span * test_parts <= 2**40 * ROW_PARTS  # bΔ is at most 1, which the claim needs
    worths = [bet.worth(one) for one in sorted(set(places))]
    assert worths == sorted(worths)


def test_a_case_counts_less_than_the_logarithm_that_the_proof_has():
    bet = NoisyBet.of(cases=1_000, by=300, test_parts=10 * ROW_PARTS, nats=6.0)
    for difference in range(-SCORE_ONE, SCORE_ONE + 1, 97):
        exact = np.log1p(np.longdouble(bet.bet) / 2**20 * (np.longdouble(difference - 300) / SCORE_ONE))
        assert bet.worth(difference) / 2**40 <= exact < (bet.worth(difference) + 3) / 2**40


def promoted(bet, cases, gained, lost):
    """The exact probability that a candidate that changes cases so is promoted: over all counts, and over the noise."""
    total = 0.0
    for more in range(cases + 1):
        for fewer in range(cases + 1 - more):
            chance = comb(cases, more) * comb(cases - more, fewer)
            chance *= gained**more * lost**fewer * (1.0 - gained - lost) ** (cases - more - fewer)
            x = float(bet.beyond({SCORE_ONE: more, -SCORE_ONE: fewer, 0: cases - more - fewer}))
            total += chance * -expm1(-exp(min(max(x, -100.0), 4.0)))
    return total


@pytest.mark.parametrize("test_parts", [32, ROW_PARTS, 4 * ROW_PARTS])
@pytest.mark.parametrize(("gained", "lost"), [(0.5, 0.5), (0.1, 0.1), (0.02, 0.02), (0.05, 0.3)])
@pytest.mark.parametrize("nats", [0.5, 3.0, 6.0])
def test_a_candidate_that_is_not_better_is_promoted_with_at_most_the_price(test_parts, gained, lost, nats):
    assert promoted(NoisyBet.of(cases=40, by=0, test_parts=test_parts, nats=nats), 40, gained, lost) <= exp(-nats)


def test_the_price_is_nearly_reached_and_controls_exceed_it():
    """The bound is within a factor of four for cases that all change; half of it breaks it."""
    nats = 6.0
    bet = NoisyBet.of(cases=40, by=0, test_parts=ROW_PARTS, nats=nats)
    assert promoted(bet, 40, 0.5, 0.5) > exp(-nats) / 4.0
    for wrong in (
        NoisyBet(0, ROW_PARTS, bet.bet, nats / 2),
        NoisyBet(0, 4 * ROW_PARTS, bet.bet, nats),  # bΔ is four: too much noise for the bet
    ):
        assert promoted(wrong, 40, 0.5, 0.5) > exp(-nats)


def test_with_a_margin_the_candidate_must_exceed_it():
    by = SCORE_ONE // 10
    bet = NoisyBet.of(cases=40, by=by, test_parts=ROW_PARTS, nats=4.0)
    assert promoted(bet, 40, 0.3, 0.2) <= exp(-4.0)  # better by exactly the margin
    plain = NoisyBet.of(cases=40, by=0, test_parts=ROW_PARTS, nats=4.0)
    assert promoted(plain, 40, 0.3, 0.2) > promoted(bet, 40, 0.3, 0.2)


def test_beyond_the_floor_of_the_noise_there_is_no_price():
    for nats in (-0.1, MOST_NATS + 0.1, float("inf"), float("nan")):
        with pytest.raises(SettingError, match="nats"):
            NoisyBet.of(cases=100, by=0, test_parts=ROW_PARTS, nats=nats)
    with pytest.raises(SettingError, match="steps"):
        NoisyBet.of(cases=100, by=0, test_parts=ROW_PARTS, nats=3.0).beyond({SCORE_ONE + 1: 1})


def test_the_lower_end_of_a_noisy_gain_misses_as_rarely_as_its_price_allows():
    """200,000 sums with Gaussian noise at a true gain of 0; half the slack misses more often (a positive control)."""
    runs, cases, parts, nats = 200_000, 400, 5 * ROW_PARTS, 3.0
    rng = np.random.default_rng(5)
    gained, lost, _ = rng.multinomial(cases, [0.5, 0.5, 0.0], size=runs).T
    totals = np.round(((gained - lost) + rng.normal(0.0, 10.0, runs)) * SCORE_ONE).astype(int)
    limit = next(total for total in range(0, cases * SCORE_ONE, 64) if above(total, cases, parts, nats))
    assert (totals >= limit).sum() <= stats.binom.isf(FALSE_ALARM, runs, exp(-nats))
    assert (totals >= limit // 2).sum() > stats.binom.isf(FALSE_ALARM, runs, exp(-nats))


def above(total, cases, parts, nats):
    return noisy_gain_end(total, cases=cases, release_parts=parts, nats=nats) >= 0


def test_a_row_of_the_noise_is_a_case_from_one_end_to_the_other():
    assert ROW == 2 * SCORE_ONE


def test_the_lower_end_lies_on_the_scale_and_grows_with_the_sum():
    ends = [
        noisy_gain_end(one, cases=100, release_parts=64, nats=2.0) for one in range(-200 * SCORE_ONE, 200 * SCORE_ONE, 997)
    ]
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (-SCORE_ONE, SCORE_ONE)


@pytest.mark.parametrize("step", [0.0, 0.03, 0.06])
def test_the_power_is_that_of_drawn_candidates(step):
    """By 20,000 candidates; the normal law is off by less than 0.02."""
    terms, cases, nats = Privacy(epsilon=3.0, surprises=5).terms, 3_000, 5.0
    changes = Changes.of(step=step, changed=0.1)
    bet = NoisyBet.of(cases=cases, by=0, test_parts=terms.test_parts, nats=nats)
    rng = np.random.default_rng(1)
    counts = rng.multinomial(cases, [changes.gained, changes.lost, 1.0 - changes.changed], size=20_000)
    worth = counts @ np.array([bet.worth(SCORE_ONE), bet.worth(-SCORE_ONE), 0])
    x = (worth - nats * 2**40) * ROW_PARTS / (bet.span * terms.test_parts)
    found = float(np.mean(-np.expm1(-np.exp(np.clip(x, -100.0, 4.0)))))
    assert abs(found - noisy_power(cases, changes, nats, test_parts=terms.test_parts)) < 0.02


@pytest.mark.parametrize(
    ("cases", "epsilon", "points"), [(1_000, 5, 7.5), (2_000, 1, 15.1), (5_000, 3, 2.6), (20_000, 1, 1.6), (100_000, 3, 0.4)]
)
def test_the_table_of_the_guide(cases, epsilon, points):
    terms = Privacy(epsilon=epsilon, surprises=5).terms
    nats = Budget.first(0.05, None, terms).promotion_price()
    assert round(100 * least_step(cases, nats, test_parts=terms.test_parts), 1) == points


def test_beyond_its_price_no_step_is_promoted():
    assert least_step(100, 70.0, test_parts=40 * ROW_PARTS) is None
    assert noisy_power(10**6, Changes.of(step=0.5, changed=0.5), MOST_NATS + 1.0, test_parts=ROW_PARTS) == 0.0
