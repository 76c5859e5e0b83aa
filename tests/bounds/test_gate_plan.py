"""What the planner of gates foresees is what gates do: against enumeration, and against simulated gates."""

from __future__ import annotations

from math import comb, log

import numpy as np
import pytest
from benchmarks.gate import play
from scipy.stats import norm

import everhold as eh
from everhold.bounds.binomial import mcnemar_refutes
from everhold.bounds.budget import Budget
from everhold.bounds.changes import Changes
from everhold.bounds.gain import SCORE_ONE, gain_refutes
from everhold.bounds.gate_power import EVERY, bets_power, leads, leads_power, mcnemar_power, most_price, promotions_left
from everhold.errors import SettingError
from everhold.gate.judge import promoted_index
from everhold.ledger.gate_check import Candidate, CheckPlan

FALSE_ALARM = norm.isf(1e-4 / 2)  # each comparison with a simulation fails with probability 1e-4


def _all_counts(cases, changes):
    """Every (gained, lost) with its probability, by the trinomial law."""
    same = 1.0 - changes.gained - changes.lost
    for gained in range(cases + 1):
        for lost in range(cases - gained + 1):
            ways = comb(cases, gained) * comb(cases - gained, lost)
            yield gained, lost, ways * changes.gained**gained * changes.lost**lost * same ** (cases - gained - lost)


@pytest.mark.parametrize("cases", [1, 7, 30])
@pytest.mark.parametrize("changes", [Changes(0.3, 0.1), Changes(0.08, 0.02), Changes(0.2, 0.0), Changes(0.6, 0.4)])
@pytest.mark.parametrize("nats", [0.0, 1.0, 3.0])
def test_power_is_exact(cases, changes, nats):
    total = {"mcnemar": 0.0, "bets": 0.0, "by": 0.0, "leads": 0.0}
    by = SCORE_ONE // 50
    for gained, lost, mass in _all_counts(cases, changes):
        counts = {SCORE_ONE: gained, 0: cases - gained - lost, -SCORE_ONE: lost}
        total["mcnemar"] += mass * mcnemar_refutes(gained, lost, nats)
        total["bets"] += mass * gain_refutes(counts, 0, nats)
        total["by"] += mass * gain_refutes(counts, by, nats)
        total["leads"] += mass * leads(gained - lost, gained + lost)
    assert mcnemar_power(cases, changes, nats) == pytest.approx(total["mcnemar"], abs=1e-9)
    assert bets_power(cases, changes, nats) == pytest.approx(total["bets"], abs=1e-9)
    assert bets_power(cases, changes, nats, by) == pytest.approx(total["by"], abs=1e-9)
    assert leads_power(cases, changes) == pytest.approx(total["leads"], abs=1e-9)


def test_the_gate_itself_leads_by_the_same_rule():
    """`certify='final'` promotes in the gate exactly where `leads` says so, for outcomes that pass or fail."""
    plan = CheckPlan((Candidate("a", "digest", None),), "other", 0, "mcnemar", "final")
    for gained in range(13):
        for lost in range(13):
            incumbent = np.repeat([0, SCORE_ONE, 0], [gained, lost, 5])
            candidate = np.repeat([SCORE_ONE, 0, 0], [gained, lost, 5])
            promoted = promoted_index(plan, incumbent, [candidate], 0.0) is not None
            assert promoted == leads(gained - lost, gained + lost), (gained, lost)


def test_power_of_many_cases_against_a_simulation():
    rng, runs, changes = np.random.default_rng(3), 4_000, Changes.of(step=0.03, changed=0.1)
    counts = rng.multinomial(5_000, [changes.gained, changes.lost, 1 - changes.changed], size=runs)
    found = np.mean([mcnemar_refutes(int(a), int(b), 20.0) for a, b, _ in counts])
    foreseen = mcnemar_power(5_000, changes, 20.0)
    assert 0.1 < foreseen < 0.9
    assert abs(found - foreseen) <= FALSE_ALARM * np.sqrt(foreseen * (1 - foreseen) / runs)


def test_power_rises_with_cases_and_step_and_falls_with_the_price():
    def power(cases=2_000, step=0.04, nats=10.0):
        return mcnemar_power(cases, Changes.of(step=step, changed=0.1), nats)

    assert power(cases=1_000) < power() < power(cases=4_000)
    assert power(step=0.03) < power() < power(step=0.05)
    assert power(nats=20.0) < power() < power(nats=5.0)


@pytest.mark.parametrize("method", ["mcnemar", "bets"])
def test_the_highest_price_is_the_highest(method):
    changes, power = Changes.of(step=0.05, changed=0.1), {"mcnemar": mcnemar_power, "bets": bets_power}[method]
    price = most_price(1_000, changes, method)
    assert power(1_000, changes, price) >= 0.8 > power(1_000, changes, price + 1 / 64)
    assert most_price(20, Changes.of(step=0.01, changed=0.1), method) == -1.0


def test_promotions_left_by_hand():
    """One promotion in five checks, until the price of the next is too high; the record changes the rate."""
    price = most_price(2_000, Changes.of(step=0.06, changed=0.1), "mcnemar")
    budget, count = Budget(0.05), 0
    while True:
        for _ in range(EVERY - 1):
            budget = budget.checked("kept")
        if budget.promotion_price() > price:
            break
        budget, count = budget.checked("promoted"), count + 1
    assert promotions_left(Budget(0.05), 2_000, 0.06) == count == 9
    after = Budget(0.05)
    for _ in range(3):
        after = after.checked("promoted")
    busy = promotions_left(after, 2_000, 0.06)
    assert busy > promotions_left(after, 2_000, 0.06, every=5), "three promotions in three checks: so the next are near"
    assert promotions_left(after, 2_000, 0.06, every=5) < count
    idle = Budget(0.05)
    for _ in range(100):
        idle = idle.checked("kept")
    assert promotions_left(idle, 2_000, 0.06) < promotions_left(idle, 2_000, 0.06, every=5) <= count
    assert promotions_left(Budget(0.05), 500, 0.03) == 0
    assert promotions_left(Budget(0.05), 2_000, 0.06, method="bets", by=0.01) < count
    assert promotions_left(Budget(0.05), 2_000, 0.06, candidates=50) < count


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: promotions_left(Budget(0.05), 2_000, 0.2), "step is"),
        (lambda: promotions_left(Budget(0.05), 0, 0.05), "cases"),
        (lambda: promotions_left(Budget(0.05), 100, 0.05, every=0), "every"),
        (lambda: promotions_left(Budget(0.05), 100, 0.05, by=0.01), "bets"),
        (lambda: promotions_left(Budget(0.05), 100, 0.05, method="t"), "method"),
        (lambda: eh.plan_gate(rows=0, step=0.05, looks=10), "rows"),
        (lambda: eh.plan_gate(rows=100, step=0.0, looks=10), "step"),
        (lambda: eh.plan_gate(rows=100, step=0.05, looks=10, changed=0.01), "changed is"),
        (lambda: eh.plan_gate(rows=100, step=0.05, looks=10, by=0.05), "by"),
        (lambda: eh.plan_gate(rows=100, step=0.05, looks=10, accuracy=1.0), "accuracy"),
        (lambda: eh.plan_gate(rows=100, step=0.05, looks=10, better=0.0), "better"),
        (lambda: eh.plan_gate(rows=100, step="a", looks=10), "step"),
        (lambda: eh.plan_gate(rows=1e3, step=0.05, looks=10), "whole"),
    ],
)
def test_impossible_numbers_are_refused(call, said):
    with pytest.raises(SettingError, match=said):
        call()


@pytest.mark.parametrize(("cases", "step"), [(500, 0.06), (2_000, 0.03), (2_000, 0.06), (10_000, 0.03)])
def test_the_expected_number_of_promotions_is_that_of_simulated_gates(cases, step):
    """Within 5 % or a tenth of a promotion, and the noise of the simulation: powers are interpolated, and the incumbent is
    as far ahead on the cases as it is on average."""
    runs = 200
    found = play(5, cases, step, "each", runs=runs).promoted
    foreseen = eh.plan_gate(rows=cases, step=step, looks=200)["each promotion"].expected
    slack = FALSE_ALARM * found.std() / np.sqrt(runs) + max(0.05 * foreseen, 0.1)
    assert abs(found.mean() - foreseen) <= slack


@pytest.mark.parametrize(("cases", "step"), [(500, 0.06), (2_000, 0.03)])
def test_generations_promote_as_often_as_foreseen(cases, step):
    """Within a tenth: who has the largest sum is foreseen by the normal law."""
    runs = 200
    found = play(5, cases, step, "each", runs=runs, generation_size=50).promoted
    foreseen = eh.plan_gate(rows=cases, step=step, looks=200)["each, the best of 50"].expected
    assert abs(found.mean() - foreseen) <= FALSE_ALARM * found.std() / np.sqrt(runs) + 0.1 * foreseen


@pytest.mark.parametrize(("cases", "step", "generation_size"), [(500, 0.03, 1), (2_000, 0.03, 1), (2_000, 0.06, 50)])
def test_the_last_act_certifies_what_was_foreseen(cases, step, generation_size):
    """At least the foreseen gain, less a point, in at least 80 % of the runs: the number of promotions varies too."""
    plan = eh.plan_gate(rows=cases, step=step, looks=200)
    foreseen = next(one for one in plan.contracts if (one.certify, one.generation_size) == ("final", generation_size))
    assert foreseen.possible
    low = play(6, cases, step, "final", runs=100, generation_size=generation_size).low
    assert np.mean(low >= foreseen.certified_gain - 0.01) >= 0.8 - FALSE_ALARM * 0.04
    assert np.quantile(low, 0.2) <= foreseen.certified_gain + 0.03, "and hardly more"


def test_cannot_certify_says_what_would_be_needed():
    plan = eh.plan_gate(rows=500, step=0.03, looks=200)
    each = plan["each promotion"]
    assert not each.possible
    assert "cannot certify" in str(plan)
    assert eh.plan_gate(rows=each.rows_needed, step=0.03, looks=200)["each promotion"].possible
    assert not eh.plan_gate(rows=int(each.rows_needed * 0.97), step=0.03, looks=200)["each promotion"].possible
    assert eh.plan_gate(rows=500, step=each.step_needed, looks=200)["each promotion"].possible
    assert not eh.plan_gate(rows=500, step=each.step_needed - 0.002, looks=200)["each promotion"].possible
    nothing = eh.plan_gate(rows=50, step=0.01, looks=200)
    assert nothing.recommended is None
    assert "Cannot certify" in str(nothing)


def test_the_recommended_contract():
    assert eh.plan_gate(rows=2_000, step=0.06, looks=200).recommended.certify == "each"
    assert eh.plan_gate(rows=2_000, step=0.03, looks=200).recommended.certify == "final"
    with pytest.raises(KeyError, match="each promotion"):
        eh.plan_gate(rows=2_000, step=0.03, looks=20)["each, the best of 50"]


def test_phantoms_of_a_gate_and_of_the_control():
    """100 small runs: phantoms within the binomial line at 1e-4 for every contract, and McNemar's at 5 % far above it."""
    from scipy.stats import binom

    line = binom.ppf(1 - 1e-4, 100, 0.05)
    for contract, generation_size in (("each", 1), ("final", 1), ("each", 50), ("final", 50)):
        assert play(2, 500, 0.06, contract, runs=100, generation_size=generation_size).phantoms.sum() <= line
    assert play(2, 500, 0.06, "mcnemar", runs=100).phantoms.sum() > 2 * line
    assert play(2, 200, 0.03, "final", runs=100).uncharged.sum() > 2 * line, "promotions that are not charged"
    assert mcnemar_refutes(30, 10, log(20)), "the control is judged at 5 %"
