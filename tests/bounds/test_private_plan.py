"""What privacy costs: the planner against the mechanism itself, and against the exact curve of Gaussian noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

import everhold as eh
from everhold.bounds.private_plan import break_even, gaussian_deviation, private_plan
from everhold.errors import SettingError
from everhold.games.mechanisms.own import private
from everhold.games.play import GameTerms
from everhold.games.singling_out import Keys
from tests.oracles import oracle


@pytest.mark.parametrize("rows", [3_000, 20_000])
def test_the_plan_foresees_what_the_mechanism_prints(rows):
    """A share of one half, asked and read first in a private session: within 3 %."""
    rng, promise = np.random.default_rng(1), eh.Privacy(epsilon=3.0, surprises=5)
    keys = Keys()
    rows_of = keys.draw(rng, rows)
    session = private(GameTerms(keys, rows_of, keys.prior(rng, rows), 10, 0.95, 1), promise)
    middle = np.uint64(2**63)
    preview = session.try_out(lambda table: table["key"] < middle)
    plan = private_plan(rows=rows, reference=rows, asks=1, privacy=promise)
    assert plan.costs[0].private == pytest.approx((preview.high - preview.low) / 2, rel=0.03)
    assert plan.costs[2].private == pytest.approx((preview.read_high - preview.read_low) / 2, rel=0.03)


@pytest.mark.oracles
def test_gaussian_noise_by_the_exact_curve_of_dp_accounting():
    dp = oracle("dp_accounting")
    pld = oracle("dp_accounting.pld")
    promise = eh.Privacy(epsilon=1.0, delta=1e-6)
    sigma = gaussian_deviation(promise, 50)
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp.GaussianDpEvent(sigma), 50)
    assert accountant.get_epsilon(1e-6) == pytest.approx(1.0, rel=5e-3)


def test_break_even_by_hand():
    promise = eh.Privacy()
    terms, even = promise.terms, break_even(promise)

    def noises(questions):
        mine = terms.test_scale * np.log((questions + 10) / (0.02 * 10)) + terms.hidden_parts(0.05) / 64
        theirs = gaussian_deviation(promise, questions) * np.sqrt(2 * np.log(2 * questions / 0.05))
        return mine, theirs

    assert noises(even)[0] < noises(even)[1]
    assert noises(even - 1)[0] >= noises(even - 1)[1]
    assert norm.isf(0.05 / (2 * even)) < np.sqrt(2 * np.log(2 * even / 0.05))  # the bound on the largest of them


def test_intervals_from_noise_on_fixed_questions_by_simulation():
    """All of 50 shares at once, 400 times; allowed are misses that a probability of 5 % gives once in 10⁶ such runs."""
    promise, rows, questions = eh.Privacy(), 2_000, 50
    width = private_plan(rows=rows, reference=rows, asks=questions, privacy=promise).gaussian_width
    sigma, rng = gaussian_deviation(promise, questions), np.random.default_rng(0)
    counts = rng.binomial(rows, 0.5, (400, questions)) + rng.normal(0.0, sigma, (400, questions))
    missed = np.sum(np.any(np.abs(counts / rows - 0.5) > width, axis=1))
    assert missed <= binom.isf(1e-6, 400, 0.05)
    narrow = np.sum(np.any(np.abs(counts / rows - 0.5) > width / 3.0, axis=1))
    assert narrow > binom.isf(1e-6, 400, 0.05)  # the control


def test_the_plan_of_a_promise():
    found = eh.plan(rows=100_000, rounds=10_000, privacy=eh.Privacy(epsilon=1.0))
    assert found.private is not None
    assert "Privacy makes quiet answers" in str(found)
    assert "ε = 1" in found._repr_html_()
    few = eh.plan(rows=100_000, rounds=50, privacy=eh.Privacy(epsilon=1.0)).private
    assert "Gaussian noise on each is narrower" in few.advice
    assert few.gaussian_width < few.costs[0].private
    assert "is no narrower" in found.private.advice
    assert found.private.gaussian_width > found.private.costs[0].private
    assert f"±{few.gaussian_width:.3g}" in str(few)
    assert "too few for this promise" in eh.plan(rows=1_000, rounds=100, privacy=eh.Privacy(epsilon=0.5)).private.advice
    factors = [eh.plan(rows=n, rounds=1e6, privacy=eh.Privacy()).private.costs[0].factor for n in (10**4, 10**5, 10**6)]
    assert factors == sorted(factors, reverse=True)
    with pytest.raises(SettingError, match="depends on the rows"):
        eh.plan(half_width=0.1, rounds=10, privacy=eh.Privacy())
    with pytest.raises(SettingError):
        private_plan(rows=0, reference=1, asks=1, privacy=eh.Privacy())
