"""The accountant: against hand-made numbers, against dp_accounting, against a search over all analysts."""

from __future__ import annotations

from fractions import Fraction
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.integrate import trapezoid

from everhold.bounds.privacy import (
    COST_ONE,
    Privacy,
    PrivacyAccount,
    PrivacyTerms,
    converted_epsilon,
    hazard_divergence,
    release_divergence,
)
from everhold.errors import SettingError
from everhold.mechanism.noise import quiet_weight
from tests.oracles import oracle


@pytest.mark.parametrize(
    ("epsilon", "delta", "surprises", "rows"),
    [(1.0, 1e-9, 10, 32.1), (1.0, 1e-9, 20, 40.0), (1.0, 1e-9, 50, 56.2), (0.5, 1e-9, 20, 77.3), (3.0, 1e-9, 20, 14.4)],
)
def test_the_noise_of_well_known_promises(epsilon, delta, surprises, rows):
    terms = Privacy(epsilon, delta, surprises).terms
    assert terms.test_scale == pytest.approx(rows, abs=0.1)
    assert terms.release_parts == 2 * terms.test_parts


def divergence_of_clocks(order, rho, points=400_001):
    """D_α(Exp(1) ‖ Exp(ρ)) by quadrature: what the surprise's time says of the two tables."""
    x = np.linspace(0.0, 60.0 / min(1.0, order + (1 - order) * rho), points)
    density = np.exp(-order * x + (1.0 - order) * (log(rho) - rho * x))
    return float(np.log(trapezoid(density, x))) / (order - 1.0)


@pytest.mark.parametrize(("order", "scale"), [(4.0, 10.0), (27.0, 40.0), (2.0, 2.5), (11.0, 20.0)])
def test_the_divergence_of_a_run_of_tests_is_that_of_two_clocks(order, scale):
    by_hand = max(divergence_of_clocks(order, rho) for rho in (exp(1.0 / scale), exp(-1.0 / scale)))
    assert hazard_divergence(order, scale) == pytest.approx(by_hand, rel=1e-4)


def test_no_ratio_inside_the_range_is_worse_than_its_ends():
    order, scale = 13.0, 17.0
    worst = hazard_divergence(order, scale)
    for ln_rho in np.linspace(-1.0 / scale, 1.0 / scale, 2_001):
        inside = -ln_rho - log(order + (1.0 - order) * exp(ln_rho)) / (order - 1.0)
        assert inside <= worst + 1e-12


def test_at_the_pole_the_cost_is_infinite_and_never_a_nan():
    order = 27.0
    pole = 1.0 / log(order / (order - 1.0))
    assert hazard_divergence(order, pole) == inf
    assert hazard_divergence(order, 0.5 * pole) == inf
    assert hazard_divergence(order, 1e-6) == inf
    assert hazard_divergence(order, 1.01 * pole) < inf
    with pytest.raises(SettingError, match="does not keep"):
        PrivacyTerms(Privacy(), 4 * 27, int(64 * pole), 128 * 64)


def best_adaptive_moment(order, scale, sigma, surprises):
    """sup over adaptive analysts of E_Q[(P/Q)^α], by dynamic programming over rates and both directions of the ratio.

    Without a sigma nothing is released: bits.
    """
    gamma = 1.0 if sigma is None else exp(order * (order - 1.0) / (2.0 * sigma**2))
    values = [1.0] * (surprises + 1)  # by the number of surprises left
    rates = np.geomspace(1e-3, 5.0, 60)
    for _ in range(3_000):
        following = [1.0]
        for k in range(1, surprises + 1):
            best = values[k]
            for rho in (exp(1.0 / scale), exp(-1.0 / scale)):
                quiet = np.exp(-(order + (1.0 - order) * rho) * rates)
                surprise = (1.0 - np.exp(-rates)) ** order * (1.0 - np.exp(-rho * rates)) ** (1.0 - order)
                best = max(best, float((quiet * values[k] + surprise * gamma * values[k - 1]).max()))
            following.append(best)
        values = following
    return values[surprises]


def test_the_best_adaptive_analyst_reaches_the_account_and_does_not_exceed_it():
    order, scale, sigma, surprises = 4.0, 10.0, 20.0, 2
    found = log(best_adaptive_moment(order, scale, sigma, surprises)) / (order - 1.0)
    claimed = surprises * (hazard_divergence(order, scale) + release_divergence(order, sigma))
    assert found <= claimed + 1e-9
    assert found >= 0.98 * claimed  # the account is not merely safe: it is what such an analyst gets
    half = surprises * (hazard_divergence(order, 2 * scale) + release_divergence(order, 2 * sigma))
    assert found > 2 * half  # an account that takes the noise to be twice as large is caught


def test_the_best_adaptive_analyst_of_bits_reaches_their_account_and_does_not_exceed_it():
    order, scale, bits = 4.0, 10.0, 2
    found = log(best_adaptive_moment(order, scale, None, bits)) / (order - 1.0)
    claimed = bits * hazard_divergence(order, scale)
    assert 0.98 * claimed <= found <= claimed + 1e-9
    assert found > 2 * bits * hazard_divergence(order, 2 * scale)  # b taken for 2b is caught


@pytest.mark.oracles
def test_the_release_part_and_the_conversion_agree_with_dp_accounting():
    dp = oracle("dp_accounting")
    rdp = oracle("dp_accounting.rdp")
    order, sigma, times, delta = 12.0, 30.0, 7, 1e-7
    accountant = rdp.RdpAccountant([order])
    accountant.compose(dp.GaussianDpEvent(sigma), times)
    mine = converted_epsilon(times * release_divergence(order, sigma), order, delta)
    assert mine == pytest.approx(accountant.get_epsilon(delta), rel=1e-9)


@given(
    epsilon=st.floats(0.05, 10.0),
    delta=st.floats(-15.0, -4.0).map(lambda e: 10.0**e),
    surprises=st.integers(1, 1_000),
)
@settings(max_examples=60, deadline=None)
def test_all_surprises_fit_the_promise_and_no_more_than_the_allowance(epsilon, delta, surprises):
    terms = Privacy(epsilon, delta, surprises).terms
    total = surprises * (hazard_divergence(terms.order, terms.test_scale) + release_divergence(terms.order, terms.deviation))
    assert converted_epsilon(total, terms.order, delta) <= epsilon
    account = PrivacyAccount(terms, surprises=surprises)
    assert account.left >= 0
    most = terms.most_surprises  # noise comes in whole parts of a row, so one or two more may fit
    assert surprises <= most <= 1.01 * surprises + 1
    assert not PrivacyAccount(terms, surprises=most).affords(terms.surprise_cost)
    assert terms.allowance / COST_ONE <= epsilon - log(1 - 1 / terms.order) + (log(delta) + log(terms.order)) / (
        terms.order - 1
    )


@given(acts=st.lists(st.integers(0, 3), max_size=400))
@settings(max_examples=50, deadline=None)
def test_an_account_that_allows_what_it_affords_never_exceeds_its_allowance(acts):
    account = PrivacyAccount(Privacy(surprises=5).terms)
    terms = account.terms
    costs = (terms.surprise_cost, terms.release_cost, terms.bit_cost, 2 * terms.release_cost)
    for kind in acts:
        if account.affords(costs[kind]):
            before = account.spent
            account = (account.surprised, account.released, account.said_yes, lambda one=account: one.released(2))[kind]()
            assert account.spent == before + costs[kind]
        assert account.spent <= terms.allowance
    assert account.charges == account.surprises + account.releases + account.bits


def test_a_bit_costs_what_a_surprise_costs_without_its_release():
    terms = Privacy().terms
    assert terms.release_cost < terms.bit_cost < terms.surprise_cost <= terms.bit_cost + terms.release_cost
    assert terms.bit_cost / COST_ONE == pytest.approx(hazard_divergence(terms.order, terms.test_scale), rel=1e-6)
    assert terms.most_surprises == terms.promise.surprises


def test_terms_that_were_changed_do_not_keep_the_promise():
    kept = Privacy().terms.to_dict()
    for name, changed in (
        ("test_parts", kept["test_parts"] // 2),
        ("release_parts", kept["release_parts"] // 2),
        ("surprises", 40),
        ("epsilon", 0.5),
    ):
        with pytest.raises(SettingError, match="does not keep"):
            PrivacyTerms.from_dict({**kept, name: changed})
    with pytest.raises(ValueError, match="unknown or missing"):
        PrivacyTerms.from_dict({**kept, "zero": 0})
    with pytest.raises(ValueError, match="unknown or missing"):
        PrivacyTerms.from_dict("1.0")


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": 11.0},
        {"epsilon": float("nan")},
        {"delta": 0.0},
        {"delta": 0.01},
        {"surprises": 0},
        {"surprises": 2.5},
        {"epsilon": "1"},
    ],
)
def test_promises_out_of_range_are_refused(wrong):
    with pytest.raises(SettingError):
        Privacy(**wrong)


def test_slack_of_quiet_answers_is_reached_by_a_hovering_analyst_and_not_exceeded():
    """A round just beyond the slack is quiet in some run of a session with probability at most its part of δ.

    200,000 sessions; the pass line is 5 standard deviations above the allowance (false alarm below 1e-6).
    """
    terms, failure, games = Privacy(surprises=20).terms, 0.95, 200_000
    rng = np.random.default_rng(5)
    beyond = Fraction(terms.hidden_parts(failure) + 1, terms.test_parts)
    real = quiet_weight(beyond) / 2.0**384  # what the mechanism's own coin is compared with
    assert real == pytest.approx(exp(-exp(beyond)), rel=1e-9)
    quiet = rng.random((games, terms.promise.surprises)) < real
    missed = float(quiet.any(axis=1).mean())
    allowed = 0.05 * failure
    assert missed <= allowed + 5 * (allowed / games) ** 0.5
    assert missed >= 0.8 * allowed  # not merely safe
    control = rng.random((games, terms.promise.surprises)) < quiet_weight(beyond * Fraction(9, 10)) / 2.0**384
    assert control.any(axis=1).mean() > allowed + 5 * (allowed / games) ** 0.5  # a slack of nine tenths is caught
