"""A gate's prices: all that a gate can disclose has weights that sum to at most 1, with the production prices."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from scipy import stats

from everhold.bounds.binomial import mcnemar_refutes
from everhold.bounds.budget import Budget
from everhold.bounds.code import Code
from everhold.bounds.gain import SCORE_ONE
from everhold.errors import SettingError
from everhold.gate.judge import promoted_index, total_gain
from everhold.ledger.act_prices import price_act
from everhold.ledger.gate_check import Candidate, CheckPlan, GainPlan
from everhold.ledger.rounds import ActStart

DELTA = 0.05
FALSE_ALARM = 1e-6


def plan(candidates=1, certify="each", by=0):
    named = tuple(Candidate(f"c{k}", f"{k}", None) for k in range(candidates))
    return CheckPlan(named, "incumbent", by, "mcnemar" if by == 0 else "bets", certify)


def charged(budget, checked, outcome):
    """The production price of a check, and the budget after it."""
    begun = ActStart("check", checked.asked, checked.options)
    return price_act(budget, begun, None if outcome == "interrupted" else outcome, interrupted=outcome == "interrupted")


def outcomes(checked):
    return [-1, *range(len(checked.candidates)), "interrupted"]


def weights_of_claims(budget, sizes, certify="each"):
    """Σ ω·P over all certified promotions of the tree in which check t has sizes[t] candidates."""
    if not sizes:
        return 0.0
    checked = plan(sizes[0], certify)
    total = 0.0
    for outcome in outcomes(checked):
        price, after = charged(budget, checked, outcome)
        if isinstance(outcome, int) and outcome >= 0 and certify == "each":
            total += exp(-price) / DELTA
        total += weights_of_claims(after, sizes[1:], certify)
    return total


def weights_of_nodes(code, sizes):
    """Σ P over all transcripts."""
    if not sizes:
        return exp(-code.nats)
    total = sizes[0] * weights_of_nodes(code.checked("promoted", sizes[0]), sizes[1:])
    return total + sum(weights_of_nodes(code.checked(outcome), sizes[1:]) for outcome in ("kept", "interrupted"))


@pytest.mark.parametrize("sizes", [(1,) * 7, (3, 1, 3, 1, 3), (50, 50, 50)])
def test_all_transcripts_sum_to_at_most_one(sizes):
    total = weights_of_nodes(Code(), sizes)
    assert 0.95 < total <= 1.0


def test_control_a_check_that_forgets_which_candidate_sums_to_more(monkeypatch):
    monkeypatch.setattr(
        Code, "checked", (lambda real: lambda self, outcome, candidates=1: real(self, outcome, 1))(Code.checked)
    )
    assert weights_of_nodes(Code(), (3, 3, 3)) > 1.0


@pytest.mark.parametrize("sizes", [(1,) * 6, (2, 1, 2, 1)])
def test_claims_of_all_promotions_sum_to_at_most_one(sizes):
    assert 0.05 < weights_of_claims(Budget(DELTA), sizes) <= 1.0


def test_control_promotions_that_leave_their_own_bit_out_sum_to_more(monkeypatch):
    """The claim of a promotion is made at the node after it (the child), where its own bit is in P."""

    def unpaid(self, candidates=1):
        from everhold.bounds.code import claim_price

        return claim_price(self.failure_probability, self.code, self.spending.next(), sides=1)

    honest = weights_of_claims(Budget(DELTA), (1,) * 6)
    monkeypatch.setattr(Budget, "promotion_price", unpaid)
    assert weights_of_claims(Budget(DELTA), (1,) * 6) > max(1.0, honest)


def test_keeping_is_cheap_and_promoting_costs_what_it_discloses():
    budget = Budget(DELTA)
    for _ in range(100):
        budget = budget.checked("kept")
    assert budget.nats < 2.5
    before, after = budget.nats, budget.checked("promoted").nats
    assert after - before > 3.0


def test_nonsense_is_refused():
    for wrong in (lambda: Code().checked("lost"), lambda: Code().checked("kept", 0), lambda: Code(check_counts=(1, 1, 1))):
        with pytest.raises(SettingError):
            wrong()


@pytest.mark.parametrize("outcome", [True, -2, 1, "0", None])
def test_an_outcome_that_no_check_has_is_refused(outcome):
    with pytest.raises(ValueError):
        charged(Budget(DELTA), plan(), outcome)


# Whole sessions of candidates that are not better, with the production decision. Each candidate changes a tenth of the
# cases at random, so that it is as good as the incumbent in the population, exactly.


def flipped(rng, incumbent, share=0.1):
    return np.where(rng.random(len(incumbent)) < share, SCORE_ONE - incumbent, incumbent)


def misses(runs, cases, candidates, *, price=None, seed=0, by=0):
    """In how many runs a candidate that is not better was promoted."""
    missed = 0
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        incumbent = SCORE_ONE * rng.integers(0, 2, cases)
        budget = Budget(DELTA)
        for _ in range(candidates):
            checked, candidate = plan(by=by), flipped(rng, incumbent)
            charge = checked.price(budget) if price is None else price
            found = promoted_index(checked, incumbent, [candidate], charge)
            budget = checked.charge(budget, checked.disclosed(found), interrupted=False)
            if found is not None:
                missed += 1
                break
    return missed


def test_runs_with_a_phantom_are_within_the_failure_probability():
    """Fails an honest gate with probability below 1e-6: at most δ of the runs may miss."""
    runs = 300
    assert misses(runs, 300, 60) <= stats.binom.isf(FALSE_ALARM, runs, DELTA)


def test_control_mcnemar_at_five_percent_each_time_promotes_phantoms():
    runs = 60
    assert misses(runs, 300, 60, price=-np.log(DELTA)) > stats.binom.isf(FALSE_ALARM, runs, DELTA)


def final_misses(runs, cases, candidates, *, charged, seed=1):
    """Candidates that are not better are promoted by uncertified bits; the last claim misses if it says there is a gain."""
    missed = 0
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        first = SCORE_ONE * rng.integers(0, 2, cases)
        incumbent, budget = first, Budget(DELTA)
        for _ in range(candidates):
            checked, candidate = plan(certify="final"), flipped(rng, incumbent)
            found = promoted_index(checked, incumbent, [candidate], 0.0)
            budget = checked.charge(budget, checked.disclosed(found), interrupted=False)
            incumbent = incumbent if found is None else candidate
        price = GainPlan("", "", cases).price(budget if charged else Budget(DELTA))
        missed += total_gain(first, incumbent, price)[1] >= 0
    return missed


def test_the_final_gain_of_phantoms_is_within_the_failure_probability():
    runs = 150
    assert final_misses(runs, 300, 80, charged=True) <= stats.binom.isf(FALSE_ALARM, runs, DELTA)


def test_control_a_final_gain_that_pays_for_nothing_misses():
    runs = 40
    assert final_misses(runs, 300, 80, charged=False) > stats.binom.isf(FALSE_ALARM, runs, DELTA)


class TestDecision:
    def test_a_generation_promotes_its_best_and_ties_go_to_the_first(self):
        incumbent = np.zeros(100, dtype=np.int64)
        good, better = incumbent.copy(), incumbent.copy()
        good[:20], better[:30] = SCORE_ONE, SCORE_ONE
        assert promoted_index(plan(3), incumbent, [good, better, better], 3.0) == 1

    def test_the_verdict_is_mcnemars(self):
        incumbent = SCORE_ONE * (np.arange(200) % 2)
        candidate = incumbent.copy()
        candidate[0:60:2], candidate[1:21:2] = SCORE_ONE, 0  # 30 better, 10 worse
        for price in (2.0, 4.0, 6.0, 8.0):
            assert (promoted_index(plan(), incumbent, [candidate], price) == 0) is mcnemar_refutes(30, 10, price)

    def test_equal_outcomes_are_never_promoted_at_any_price(self):
        same = SCORE_ONE * (np.arange(50) % 2)
        for certify in ("each", "final"):
            assert promoted_index(plan(certify=certify), same, [same.copy()], 0.0) is None

    def test_a_margin_must_be_exceeded(self):
        incumbent = np.zeros(1_000, dtype=np.int64)
        candidate = incumbent.copy()
        candidate[:100] = SCORE_ONE
        assert promoted_index(plan(by=round(0.05 * SCORE_ONE)), incumbent, [candidate], 5.0) == 0
        assert promoted_index(plan(by=round(0.10 * SCORE_ONE)), incumbent, [candidate], 5.0) is None

    def test_the_claims_share_of_delta(self):
        """Promotion k spends 1/(k(k+1)) of nine tenths of δ, and P is that of its own node."""
        budget = Budget(DELTA)
        for _ in range(3):
            price = budget.promotion_price()
            after = budget.checked("promoted")
            weight = Fraction(9, 10) * budget.spending.next()
            assert exp(-price) <= DELTA * weight * exp(-after.nats) <= exp(-price) * (1 + 1e-5)
            budget = after
