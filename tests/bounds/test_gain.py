"""The test of gains by mixed bets: its failure probability enumerated exactly, and its safe side."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from math import exp, inf, log

import pytest

from everhold.bounds import gain
from everhold.bounds.gain import SCORE_ONE, gain_end, gain_refutes
from everhold.errors import SettingError

ATOMS = (-SCORE_ONE, -SCORE_ONE // 3, 0, SCORE_ONE // 2, SCORE_ONE)
PRICES = (0.5, 1.0, 1.5, 2.0, 3.0)


def worst_ratio(rows, by, prices=PRICES):
    """The largest exact failure probability over e^-price, for independent rows given as {atom: probability}."""
    failed = dict.fromkeys(prices, Fraction(0))
    for outcome in product(*(row.items() for row in rows)):
        weight = Fraction(1)
        for _, part in outcome:
            weight *= part
        counts = Counter(atom for atom, _ in outcome)
        for price in prices:
            if gain_refutes(counts, by, price):
                failed[price] += weight
    return max(float(failed[price]) / exp(-price) for price in prices)


def rows_with_mean(by, count):
    """Rows of different distributions whose means average to `by` exactly: some above it, some below."""
    target = Fraction(by, SCORE_ONE)
    rows = []
    for index in range(count):
        mean = target + Fraction((-1) ** index, 5) if count % 2 == 0 else target
        low, high = ((-SCORE_ONE, SCORE_ONE), (-SCORE_ONE // 3, SCORE_ONE), (-SCORE_ONE, SCORE_ONE // 2))[index % 3]
        share = (mean * SCORE_ONE - low) / (high - low)
        rows.append({low: 1 - share, high: share})
    return rows


@pytest.mark.parametrize("count", [4, 6, 9])
@pytest.mark.parametrize("by", [0, SCORE_ONE // 10])
def test_independent_rows_of_different_distributions_fail_at_most_as_promised(count, by):
    assert worst_ratio(rows_with_mean(by, count), by) <= 1.0


def test_rows_with_three_values_fail_at_most_as_promised():
    row = {SCORE_ONE: Fraction(3, 20), 0: Fraction(7, 10), -SCORE_ONE: Fraction(3, 20)}
    assert worst_ratio([row] * 7, 0) <= 1.0


def test_without_replacement():
    """All samples of 4 of 8 cases whose differences sum to 0."""
    population = (SCORE_ONE, SCORE_ONE, SCORE_ONE // 2, 0, 0, -SCORE_ONE // 2, -SCORE_ONE, -SCORE_ONE)
    samples = list(permutations(population, 4))
    for price in PRICES:
        failed = sum(gain_refutes(Counter(sample), 0, price) for sample in samples)
        assert failed / len(samples) <= exp(-price)


def test_control_the_enumeration_notices_wealth_that_is_not_averaged(monkeypatch):
    """Taking the best bet instead of the average is a union that nobody paid for."""
    monkeypatch.setattr(
        gain, "_ln_wealth", lambda counts, by: max(gain._ln_of_bet(counts, by, bet) for bet in gain._BETS) + log(3.0)
    )
    rows = [{SCORE_ONE: Fraction(1, 2), -SCORE_ONE: Fraction(1, 2)}] * 9
    assert worst_ratio(rows, 0) > 1.0


@pytest.mark.parametrize("nats", [1.0, 4.0, 12.0, 40.0])
def test_the_end_is_the_largest_refuted_margin(nats):
    counts = {SCORE_ONE: 300, SCORE_ONE // 2: 20, 0: 1_500, -SCORE_ONE // 4: 30, -SCORE_ONE: 150}
    low = gain_end(counts, nats)
    assert gain_refutes(counts, low, nats) or low == -SCORE_ONE
    assert not gain_refutes(counts, low + 1, nats)


def test_the_end_is_below_the_mean_and_falls_with_the_price():
    counts = {SCORE_ONE: 130, 0: 1_800, -SCORE_ONE: 70}
    ends = [gain_end(counts, nats) / SCORE_ONE for nats in (1.0, 3.0, 9.0, 27.0)]
    assert ends == sorted(ends, reverse=True)
    assert ends[0] < 60 / 2_000


def test_nothing_is_refuted_by_equal_outcomes_or_at_an_infinite_price():
    assert not gain_refutes({0: 1_000}, 0, 0.001)
    assert not gain_refutes({SCORE_ONE: 1_000}, 0, inf)
    assert gain_end({}, 1.0) == -SCORE_ONE


@pytest.mark.parametrize(
    ("counts", "by", "nats"), [({0: 1}, 0, -1.0), ({0: 1}, 2 * SCORE_ONE, 1.0), ({2 * SCORE_ONE: 1}, 0, 1.0)]
)
def test_nonsense_is_refused(counts, by, nats):
    with pytest.raises(SettingError):
        gain_refutes(counts, by, nats)
