"""The weight floor: against its theorem on whole trees, and against the attack that shows it is nearly tight."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

import everhold as eh
from everhold.bounds.budget import Budget
from everhold.bounds.singling_out import weight_floor


def test_the_floor_falls_with_everything_that_is_disclosed():
    budget = Budget(0.05)
    floors = [weight_floor(budget, 1_000).weight]
    for step in (lambda b: b.quiet(100), lambda b: b.surprised(2.0), lambda b: b.disclosed(1.0), lambda b: b.answered(True)):
        budget = step(budget)
        floors.append(weight_floor(budget, 1_000).weight)
    assert floors == sorted(floors, reverse=True)
    assert floors[-1] == pytest.approx(0.05 / 1_000 * exp(-budget.nats), rel=1e-9)


def test_claiming_discloses_nothing():
    budget = Budget(0.05)
    assert weight_floor(budget.claimed(), 1_000) == weight_floor(budget, 1_000)


def test_over_a_whole_tree_of_asks_the_chances_sum_to_at_most_the_probability():
    """Σ n·μ(z) over all nodes at which somebody may stop, one on each path: the theorem itself, for depth 7."""
    rows, wanted = 50, 0.05

    def chance(budget, depth):
        if depth == 0:
            return rows * weight_floor(budget, rows, wanted).weight
        cells = [chance(budget.surprised(nats), depth - 1) for nats in (np.log(2.0), np.log(4.0), np.log(4.0))]
        return chance(budget.quiet(), depth - 1) + sum(cells)

    total = chance(Budget(0.05), 5)
    assert total <= wanted * (1 + 1e-9)
    assert total > 0.9 * wanted  # it is the whole of it: a floor of twice the weight would exceed the probability


def test_with_privacy_the_floor_holds_whatever_is_asked():
    promise = eh.Privacy(epsilon=1.0, delta=1e-9, surprises=20)
    budget = Budget.first(0.05, None, promise.terms)
    untouched = weight_floor(budget, 10_000)
    for _ in range(20):
        budget = budget.surprised(5.0)
    used_up = weight_floor(budget, 10_000)
    assert used_up.by_privacy
    assert used_up.weight == pytest.approx((0.05 / 10_000 - 1e-9) / np.e, rel=1e-9)
    assert untouched.weight >= used_up.weight
    assert "whatever is ever asked" in used_up.text
    assert weight_floor(budget, 10**9).by_privacy is False  # δ is too large for so many rows: the promise says nothing
    assert weight_floor(budget, 10**9).weight < 1e-40


def test_the_sentence_says_when_it_protects_nobody():
    budget = Budget(0.05).quiet(10)
    assert "nobody has so rare a trait" not in weight_floor(budget, 1_000).text
    for _ in range(5):
        budget = budget.surprised(5.0)
    assert "protects nobody" in weight_floor(budget, 1_000).text
    assert float(weight_floor(budget, 1_000)) > 0.0


@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.1, "1"])
def test_a_probability_lies_between_0_and_1(wrong):
    with pytest.raises(eh.SettingError):
        weight_floor(Budget(0.05), 100, wrong)


def test_a_holdout_and_its_file_agree(tmp_path):
    rng = np.random.default_rng(1)
    rows = {"age": rng.integers(18, 90, 500)}
    held = eh.Holdout.create(tmp_path / "s.everhold", rows, prior=eh.Reference({"age": rng.integers(18, 90, 500)}), seed=1)
    held.ask("age > 40")
    held.read("age > 50")
    from everhold.ledger.reader import read_study

    assert read_study(tmp_path / "s.everhold").weight_floor(0.1) == held.weight_floor(0.1)
    assert held.weight_floor().weight < 0.05 / 500
