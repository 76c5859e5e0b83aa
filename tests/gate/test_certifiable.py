"""Which steps a gate can still certify: forecasts that depend on its contract and its price alone."""

from __future__ import annotations

import pytest

import everhold as eh
from everhold.bounds.budget import Budget
from everhold.bounds.changes import POWER
from everhold.gate import certifiable
from everhold.gate.certifiable import certifies, left, left_at_first, smallest_step
from everhold.gate.rules import GateRules


def rules(cases=500, **given):
    usual = {"visible": 0, "outcomes": "pass", "by": 0, "certify": "each", "generation_size": 1, "confidence": 0.95}
    more = {"incumbent": "first", "first": "", "artifact": None, "new_budget": None}
    return GateRules(cases=cases, **{**usual, **more, **given})


def used(made, kept=0, promoted=0, privacy=None):
    budget = Budget.first(1.0 - made.confidence, None, None if privacy is None else privacy.terms)
    for outcome, times in (("kept", kept), ("promoted", promoted)):
        for _ in range(times):
            budget = budget.checked(outcome, made.generation_size)
    return budget


CONTRACTS = [{}, {"outcomes": "score"}, {"by": 655}, {"generation_size": 20}, {"private": True, "cases": 20_000}]


@pytest.mark.parametrize("given", CONTRACTS)
@pytest.mark.parametrize("kept", [0, 40])
def test_the_smallest_step_is_the_first_tenth_of_a_point_with_that_power(given, kept):
    made = rules(**given)
    budget = used(made, kept, privacy=eh.Privacy(epsilon=5.0) if made.private else None)
    least = smallest_step(made, budget)
    parts = 0 if budget.privacy is None else budget.privacy.terms.test_parts
    price = budget.promotion_price(made.generation_size)

    def power(step, nats):
        return certifiable._power(made.method, made.cases, made.by, parts, step, nats)

    assert power(least, price) >= POWER
    assert power(least - 0.002, price) < POWER
    assert certifies(made, budget, least)
    assert not certifies(made, budget, least - 0.002)


def test_it_grows_with_what_was_disclosed():
    made = rules()
    found = [smallest_step(made, used(made, kept, promoted)) or 1.0 for kept, promoted in ((0, 0), (100, 0), (100, 10))]
    assert found[0] < found[1] < found[2]


@pytest.mark.parametrize("cases", [2, 5])
def test_none_where_no_step_is_large_enough(cases):
    assert smallest_step(rules(cases), used(rules(cases))) is None


@pytest.mark.parametrize("given", CONTRACTS)
def test_what_the_next_check_certifies_counts_as_possible(given):
    made = rules(**given)
    budget = used(made, 30, privacy=eh.Privacy(epsilon=5.0) if made.private else None)
    least = smallest_step(made, budget)
    assert left(made, budget, least) >= 1
    assert left(made, budget, least - 0.002) == 0
    assert left(made, budget, least, paid=0) == 0


@pytest.mark.parametrize("privacy", [None, eh.Privacy(epsilon=5.0, surprises=3)])
def test_a_new_gate_has_what_it_has_at_first(tmp_path, privacy):
    incumbent = {f"case-{k}": k % 2 for k in range(3_000)}
    gate = eh.Gate.create(tmp_path / "gate.everhold", incumbent, outcomes="pass", privacy=privacy)
    status = gate.status()
    assert left_at_first(gate.rules, 0.06, privacy) == status.left_at_first["6"]
    if privacy is None:
        assert status.left == status.left_at_first
    else:
        assert status.left["6"] <= min(status.left_at_first["6"], 3)
