"""The code is a code: weights sum to at most 1, and prices are rounded up."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.bounds.description_length import Code, cell_nats, integer_nats, krichevsky_trofimov_nats
from everhold.errors import SettingError


def walk(rounds, surprising):
    """The code after the rounds in `surprising` (round -> cell), before round `rounds + 1`."""
    code = Code()
    for t in range(1, rounds + 1):
        if t in surprising:
            code = code.after(round=t, cell=surprising[t])
    return code


def exact_nats(t, gaps, cells):
    """The price before round t in 60 digits, straight from the formula."""
    with mpmath.workdps(60):
        k, g = len(gaps), t - sum(gaps)

        def length(x):
            m = math.floor(math.log2(x))
            return mpmath.log(2**m * (m + 1) * (m + 2))

        count = mpmath.log((k + 1) * (k + 2))
        a = sum((length(x) for x in gaps), mpmath.mpf(0)) + length(g) + count
        b = length(t) + mpmath.log(mpmath.binomial(t - 1, k)) + count
        said = sum((mpmath.log(2) + mpmath.log(abs(j) * (abs(j) + 1)) for j in cells), mpmath.mpf(0))
        return said - mpmath.log(mpmath.exp(-a) / 2 + mpmath.exp(-b) / 2)


def test_integer_code_sums_to_one_from_below():
    total = sum(math.exp(-integer_nats(g)) for g in range(1, 2**16))
    assert total <= 1.0
    # What is left belongs to the octaves that were not summed: Σ_{m ≥ 16} 1/((m+1)(m+2)) = 1/17.
    assert total == pytest.approx(1.0 - 1.0 / 17.0, abs=1e-9)


def test_cell_code_sums_to_one_from_below():
    total = sum(2.0 * math.exp(-cell_nats(j)) for j in range(1, 2000))
    assert total <= 1.0
    assert total == pytest.approx(1.0 - 1.0 / 2000.0, abs=1e-9)


def weight_of_all_nodes(discount=0.0):
    """Σ exp(-price) over every set of surprising rounds before round t ≤ 14. Cells are summed out (they sum to 1)."""
    total = 0.0
    for t in range(1, 15):
        for pattern in product((False, True), repeat=t - 1):
            code = Code()
            for s, surprised in enumerate(pattern, start=1):
                if surprised:
                    code = code.surprised(s, 0.0)
            total += math.exp(discount - code.nats(t))
    return total


def test_all_nodes_up_to_a_horizon_weigh_at_most_one():
    assert 0.5 < weight_of_all_nodes() <= 1.0


def test_enumeration_would_notice_a_wrong_code():
    """The control: a code one nat too cheap breaks the sum within the same horizon."""
    assert weight_of_all_nodes(discount=1.0) > 1.0


@given(
    gaps=st.lists(st.integers(1, 5000), max_size=12),
    cells=st.lists(st.integers(1, 40), min_size=12, max_size=12),
    after=st.integers(1, 10**6),
)
def test_price_is_the_formula_rounded_up(gaps, cells, after):
    code, t = Code(), 0
    for gap, cell in zip(gaps, cells, strict=False):
        t += gap
        code = code.after(round=t, cell=-cell)
    exact = float(exact_nats(t + after, gaps, cells[: len(gaps)]))
    assert exact <= code.nats(t + after) <= exact + 1e-5


@given(st.lists(st.integers(1, 200), min_size=1, max_size=20), st.integers(1, 10**5))
def test_a_surprise_never_makes_the_past_cheaper(gaps, after):
    t, code = 0, Code()
    for gap in gaps:
        t += gap
        following = code.after(round=t, cell=1)
        assert following.nats(t + 1) > code.nats(t)
        code = following
    assert code.nats(t + 2 * after) >= code.nats(t + after) - 1e-6


def test_quiet_sessions_and_early_surprises_are_cheap():
    """Far below Krichevsky and Trofimov's price for sessions as they are: surprises early, then quiet."""
    code = walk(40, dict.fromkeys(range(1, 21, 2), 1))
    mine = code.nats(100_000)
    plain = krichevsky_trofimov_nats(100_000, 10) + 10 * cell_nats(1)
    assert mine < 0.62 * plain


def test_spread_out_surprises_cost_at_most_ln_two_more_than_by_count():
    code = walk(10_000, dict.fromkeys(range(500, 10001, 500), 1))
    by_count = float(integer_nats(10_001)) + math.log(math.comb(10_000, 20)) + math.log(21 * 22) + 20 * cell_nats(1)
    assert code.nats(10_001) <= by_count + math.log(2.0) + 1e-5


@pytest.mark.parametrize(("t", "k"), [(1, 0), (10, 3), (1000, 20)])
def test_krichevsky_trofimov_matches_its_integral(t, k):
    with mpmath.workdps(30):
        exact = -mpmath.log(mpmath.beta(k + 0.5, t - 1 - k + 0.5) / mpmath.pi) + mpmath.log(t * (t + 1))
    assert krichevsky_trofimov_nats(t, k) == pytest.approx(float(exact), abs=1e-9)


@pytest.mark.parametrize("wrong", [lambda: integer_nats(0), lambda: cell_nats(0), lambda: Code(1, 5).nats(5)])
def test_nonsense_is_refused(wrong):
    with pytest.raises(SettingError):
        wrong()
