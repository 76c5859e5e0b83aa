"""What a score is worth after many looks: the prices, the intervals, and simulated searches that must not fool them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, exp, log

import numpy as np
import pytest
from scipy.stats import beta, binom

import everhold as eh
from everhold.bounds.code import Code
from everhold.bounds.looks import (
    count_range,
    fixed_nats,
    kept_nats,
    look_price,
    mean_interval,
    possible_scores,
    scores_nats,
    share_interval,
)
from everhold.errors import SettingError


@pytest.mark.parametrize("looks", range(1, 13))
def test_kept_or_not_is_a_code(looks):
    """Over all sequences of bits the weights sum to at most 1, and to nearly 1: nothing is wasted."""
    total = sum(comb(looks, kept) * exp(-kept_nats(looks, kept)) for kept in range(looks + 1))
    assert 0.98 < total <= 1.0
    assert sum(exp(-kept_nats(looks, None)) for _ in product((0, 1), repeat=looks)) == pytest.approx(1.0)


def test_scores_and_fixed_candidates_are_codes():
    assert 50 * exp(-fixed_nats(50)) == pytest.approx(1.0)
    assert 7.0**3 * exp(-scores_nats(3, 7)) == pytest.approx(1.0)
    assert look_price(0.95, 2.0) == pytest.approx(log(2 / 0.05) + 2.0, abs=1e-12)


def test_every_number_of_a_shown_score_is_counted():
    for rows, digits in product((3, 7, 40, 300), (0, 1, 2, 3)):
        shown = {round(Fraction(count, rows), digits) for count in range(rows + 1)}
        assert len(shown) <= possible_scores(rows, digits, None, None)
    for low, high, digits in product((0.0, -0.37), (1.0, 2.5), (0, 1, 2)):
        shown = {round(x, digits) for x in np.linspace(low, high, 20_001).tolist()}
        assert len(shown) <= possible_scores(10, digits, low, high)


@pytest.mark.parametrize(("count", "rows"), [(0, 10), (1, 3), (415, 500), (10, 10), (29_999, 30_000)])
def test_one_look_is_clopper_and_pearson(count, rows):
    low, high = share_interval(count / rows, rows, look_price(0.95, 0.0))
    exact = (
        (0.0 if count == 0 else beta.ppf(0.025, count, rows - count + 1)),
        (1.0 if count == rows else beta.isf(0.025, count + 1, rows - count)),
    )
    assert low <= exact[0] + 1e-9
    assert high >= exact[1] - 1e-9
    # Hoeffding's condition makes an end at 1 of n rows 0: it is the only place where the two differ visibly.
    assert high - low <= (exact[1] - exact[0]) * 1.01 + (0.06 if count in (1, rows - 1) and rows < 10 else 1e-4)


def test_every_count_is_found_again_from_its_share():
    for rows in (1, 3, 7, 97, 500, 9_999):
        for count in np.unique(np.linspace(0, rows, 60).round().astype(int)).tolist():
            assert count_range(count / rows, rows) == (count, count)
            for digits in (2, 3):
                shown = float(round(Fraction(count, rows), digits))
                low, high = count_range(shown, rows)
                assert low <= count <= high or Fraction(repr(shown)) * rows == low == high, "an exact share"
    with pytest.raises(SettingError, match=r"no count of 3 rows"):
        count_range(0.41, 3)


def test_lines_get_wider_in_their_order_and_with_more_looks():
    found = eh.price(rows=500, looks=100, kept=15, score=0.83)
    assert [line.disclosed for line in found.lines] == ["nothing", "fixed", "kept", "scores"]
    for narrow, wide in zip(found.lines, found.lines[1:], strict=False):
        assert wide.interval.low < narrow.interval.low
        assert wide.interval.high > narrow.interval.high
        assert wide.rows < narrow.rows
        assert wide.times > narrow.times
    last = found
    for looks in (200, 400, 4_000):
        more = eh.price(rows=500, looks=looks, kept=looks * 15 // 100, score=0.83)
        assert more.one_look == found.one_look
        assert more.kept.low < last.kept.low
        assert more.fixed.low < last.fixed.low
        last = more
    assert eh.price(rows=500, looks=100, score=0.83).kept.low < found.kept.low, "a known number kept is worth something"


def test_the_price_is_that_of_a_budget():
    assert eh.price(rows=500, looks=80, kept=9, score=0.5)["kept"].nats == log(2 / 0.05) + Code(bits=(80, 9)).nats


def test_means():
    found = eh.price(rows=4_000, looks=30, kept=4, score=-0.5, low=-2.0, high=2.0, digits=3)
    assert -2.0 <= found.scores.low < found.kept.low < found.one_look.low < -0.5 < found.one_look.high < found.kept.high
    half = 4.0 * (log(2 / 0.05) / (2 * 4_000)) ** 0.5  # Hoeffding, which kl is never wider than
    assert found.one_look.half_width <= half + 1e-6
    with pytest.raises(KeyError, match="scores"):
        eh.price(rows=4_000, looks=30, score=-0.5, low=-2.0, high=2.0)["scores"]
    assert "--digits" in str(eh.price(rows=4_000, looks=30, score=-0.5, low=-2.0, high=2.0))
    assert mean_interval(2.0, 10, 1e9, low=-2.0, high=2.0) == (-2.0, 2.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": 0}, "rows"),
        ({"rows": 2.5}, "whole"),
        ({"looks": 0}, "looks"),
        ({"kept": 101}, "kept"),
        ({"kept": -1}, "kept"),
        ({"score": 1.2}, "low and high"),
        ({"score": float("nan")}, "score"),
        ({"score": "0.8"}, "number"),
        ({"low": 0.0}, "belong together"),
        ({"low": 1.0, "high": 0.0}, "low < high"),
        ({"low": 0.9, "high": 2.0}, "between low"),
        ({"low": 0.0, "high": float("inf")}, "finite"),
        ({"confidence": 1.0}, "confidence"),
        ({"digits": -1}, "digits"),
    ],
)
def test_impossible_numbers_are_refused(change, said):
    with pytest.raises(SettingError, match=said):
        eh.price(**({"rows": 500, "looks": 100, "kept": 15, "score": 0.83} | change))


def test_json_and_text():
    found = eh.price(rows=500, looks=100, kept=15, score=0.83)
    assert eh.ScorePrice.from_json(found.to_json()) == found
    assert found.headline in str(found)
    assert "24" in str(found)
    assert "15 kept" in found._repr_html_()
    assert "1 look:" in str(eh.price(rows=500, looks=1, kept=1, score=0.83))


def _climbed(rng, rows, looks, chance):
    """A climber who knows the population and is told only "kept or not": every model is a coin, kept bits become a vote.

    Returns how many were kept, and the last vote's share of right rows. In the population every model is right half of the
    time.
    """
    truth = rng.integers(0, 2, rows)
    vote, kept = np.zeros(rows), 0
    for _ in range(looks):
        guess = rng.integers(0, 2, rows)
        if np.mean(guess == truth) > chance:
            vote += 2 * guess - 1
            kept += 1
    final = (vote + rng.normal(0, 1e-6, rows) > 0).astype(int)
    return kept, int(np.sum(final == truth))


@pytest.mark.parametrize(("threshold", "looks"), [(0.5, 60), (0.53, 200)])
def test_a_search_by_kept_or_not_does_not_leave_its_interval(threshold, looks):
    """300 searches that overfit on purpose: the single-look interval misses most of them, the priced one at most 5 %.

    The pass line is the 1 - 1e-4 quantile of Bin(300, 0.05).
    """
    rng, rows, runs = np.random.default_rng(8), 400, 300
    missed = fooled = 0
    for _ in range(runs):
        kept, right = _climbed(rng, rows, looks, threshold)
        found = eh.price(rows=rows, looks=looks, kept=kept, score=right / rows)
        missed += 0.5 not in found.kept
        fooled += 0.5 not in found.one_look
    assert missed <= binom.ppf(1 - 1e-4, runs, 0.05)
    assert fooled > 0.9 * runs, "the control: a plain interval is wrong after such a search"


def test_the_best_of_fixed_candidates_does_not_leave_its_interval():
    """1,000 times the best of 100 coins; the pass line is the 1 - 1e-4 quantile of Bin(1000, 0.05)."""
    rng, runs = np.random.default_rng(9), 1_000
    best = rng.binomial(400, 0.5, (runs, 100)).max(axis=1)
    missed = fooled = 0
    for right in best.tolist():
        found = eh.price(rows=400, looks=100, score=right / 400)
        missed += 0.5 not in found.fixed
        fooled += 0.5 not in found.one_look
    assert missed <= binom.ppf(1 - 1e-4, runs, 0.05)
    assert fooled > 0.5 * runs
