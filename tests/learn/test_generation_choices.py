"""Generations: production weights sum to at most 1, the margin follows from the price, ties are cheap."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import everhold as eh
from everhold.bounds.code import succession_nats
from everhold.learn.forecasts import choice_weights, needed_lead
from tests.bounds.test_code import ONE, mass_above

FORECASTS = st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=40)


def generation_mass(weights: list[Fraction], generation: int) -> int:
    """Σ of what all outcomes of a generation are foreseen with, by the production prices, rounded up."""
    outcomes = [*weights, None] if generation else weights
    return sum(mass_above(succession_nats(generation, one)) for one in outcomes)


@given(FORECASTS, st.floats(0.0, 1e6), st.sampled_from([1.0, -1.0]), st.integers(0, 6))
def test_all_outcomes_of_a_generation_sum_to_at_most_one(forecasts, spread, better, generation):
    weights = choice_weights(forecasts, spread, better)
    assert sum(weights) <= 1
    assert min(weights) >= Fraction(49, 100) / len(weights), "never more than ln 2 above even weights"
    assert 0.9 * ONE < generation_mass(weights, generation) <= ONE * (1 + 1e-12)


def test_the_sum_would_notice_widths_that_are_not_shared_out():
    """The control: three widths of weight one half each, instead of a sixth."""
    weights = choice_weights([0.9] * 10, 0.05, 1.0)
    even = Fraction(1, 20)
    wrong = [even + 3 * (one - even) for one in weights]
    assert generation_mass(wrong, 2) > ONE


def test_a_sharp_forecast_is_cheap_and_a_wrong_one_is_not_dear():
    forecasts = [0.5] * 199 + [0.9]
    weights = choice_weights(forecasts, 0.02, 1.0)
    assert weights[-1] > Fraction(1, 2)
    assert weights[0] >= Fraction(49, 100) / 200
    assert choice_weights(forecasts, 0.02, -1.0)[-1] == min(choice_weights(forecasts, 0.02, -1.0))


def test_the_margin_follows_from_the_price():
    """Evidence z²/2 of two fifths of ln(g/π), exactly; none where a change costs no more than to stay."""
    for weight, generation in ((Fraction(1, 200), 1), (Fraction(1, 20), 1), (Fraction(1, 200), 7)):
        costs = succession_nats(generation, weight) - succession_nats(generation, None)
        assert needed_lead(weight, generation) ** 2 / 2 == pytest.approx(0.4 * costs, rel=1e-12)
    assert needed_lead(Fraction(1), 1) == 0.0


def coins(rows: int = 400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * rows, 2))
    y = (X[:, 0] > 0).astype(int)
    return eh.TestSet(X[:rows], y[:rows], reference=(X[rows:], y[rows:]), seed=1), y[:rows]


def test_of_equal_entries_the_one_with_the_largest_weight_is_named():
    test, _ = coins()
    for number in range(20):  # alike on every row there is
        test.enter(lambda X, far=1e6 + number: (X[:, 0] > 0) & (X[:, 1] < far), expect=0.95 if number == 7 else 0.6)
    told = test.winner(read=False)
    assert told.index == 7
    assert test.holdout.budget.nats < np.log(20 / 5), "foreseen, and so cheap; the first of them would cost ln 40"


@pytest.mark.parametrize(("expect", "follows"), [(0.85, True), (0.3, False)])
def test_an_entry_that_is_foreseen_as_good_needs_less_evidence(expect, follows):
    """Ahead by 1.6 standard errors: enough for an entry that was foreseen, too little for one that was foreseen as bad."""
    X = np.column_stack([np.arange(800), np.arange(800) % 2])  # a row's number, and its label
    test = eh.TestSet(X[:400], X[:400, 1], reference=(X[400:], X[400:, 1]), seed=1)

    def enter(wrong, foreseen):
        where = np.zeros(800, bool)
        where[list(wrong)] = True
        test.enter(lambda X: np.where(where[X[:, 0]], 1 - X[:, 1], X[:, 1]), expect=foreseen, folds=0)

    enter(range(80), 0.8)
    assert test.winner(read=False).index == 0
    for number in range(30):
        enter(range(number, 140), 0.7)
    enter([*range(20, 80), *range(80, 91)], expect)  # right on 20 more, wrong on 11 others: 9/sqrt(31) = 1.6
    told = test.winner(read=False)
    assert (told.index == 31) == follows
    assert told.generations == 2
    assert "champion of 32 in 2 generations" in str(told)


def test_the_winner_s_reading_takes_three_quarters_if_it_is_the_first_claim():
    test, _ = coins()
    test.enter(lambda X: (X[:, 0] > 0.1).astype(int))
    test.winner()
    assert test.holdout.budget.spending.left == Fraction(1, 4)
    assert test.winner() == test.winner(), "asked again: the recorded answer"
    assert test.holdout.budget.spending.claims == 1
    test.enter(lambda X: (X[:, 0] > 0).astype(int))
    test.winner()
    assert test.holdout.budget.spending.left == Fraction(1, 4) * Fraction(2, 3)
