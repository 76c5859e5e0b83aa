"""Game 2: exact counts fall to a chain, everhold does not fall to it, and what it does fall to is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

import everhold as eh
from everhold.baselines import BaselineMechanism, Empirical
from everhold.games.singling_out import Keys, Predicate, SuccessRate, composition, single_out

ERROR_RATE = 0.01


def exact(rows=256, seed=0):
    keys, rng = Keys(), np.random.default_rng(seed)
    private, public = keys.draw(rng, rows), keys.prior(rng, rows).pool(rng)
    return private, eh.Holdout.with_mechanism(private, lambda n: BaselineMechanism(Empirical(), rows=n, public=public))


@pytest.mark.parametrize("kind", ["low", "high"])
def test_the_chain_isolates_where_counts_are_exact(kind):
    risk = single_out("empirical mean", kind=kind, games=20, rows=200)
    assert risk.main.value >= 0.9
    assert risk.control.value <= 0.1
    assert risk.baseline.value <= 0.1
    assert risk.p_value < 1e-6
    assert risk.risk > 0.9


@pytest.mark.parametrize("kind", ["low", "high"])
def test_the_chain_gains_nothing_against_everhold(kind):
    """Fisher's exact test against random predicates of the same weight: a mechanism that leaks nothing to the chain fails
    with probability at most 0.01. The test above is the control that would fail."""
    risk = single_out("everhold", kind=kind, games=20, rows=200)
    assert risk.p_value > ERROR_RATE


def test_riding_isolates_behind_everhold_and_so_no_privacy_is_promised():
    """If this fails because the attack no longer works, the documentation may claim more than it does."""
    risk = single_out("everhold", attack="riding", games=6, rows=100)
    assert risk.main.value >= 0.5
    assert risk.control.value == 0.0
    assert risk.questions > 100


@pytest.mark.parametrize("kind", ["low", "high"])
def test_predicates_have_the_weight_that_counts(kind):
    private, holdout = exact()
    found = composition(holdout, kind, np.random.default_rng(1))
    n = len(private["key"])
    assert found.weight <= 1.0 / n**2 if kind == "low" else found.weight >= 4.0 * math.log(n) / n
    assert found.isolates(private)
    fresh = Keys().draw(np.random.default_rng(5), 200_000)
    share = float(np.mean(found(fresh["key"])))
    assert share == pytest.approx(found.weight, abs=5 * math.sqrt(found.weight / 200_000) + 1e-9)


def test_random_predicates_isolate_as_luck_has_it():
    """w = 1/n: (1 - 1/n)^(n-1), 37 %. 2,000 predicates: five standard errors, a false alarm below 1e-6."""
    rng, n = np.random.default_rng(0), 256
    private = Keys().draw(rng, n)
    hits = sum(
        Predicate(int(rng.integers(0, 2**62)) * 2 + 1, ((8, int(rng.integers(0, 256))),)).isolates(private)
        for _ in range(2000)
    )
    expected = (1 - 1 / n) ** (n - 1)
    assert abs(hits / 2000 - expected) < 5 * math.sqrt(expected * (1 - expected) / 2000)


def test_wilson_intervals():
    for successes, tries in ((8, 10), (0, 50), (50, 50), (1, 3), (37, 400)):
        wanted = binomtest(successes, tries).proportion_ci(method="wilson")
        assert SuccessRate(successes, tries).interval == pytest.approx((wanted.low, wanted.high), abs=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "medium"}, {"games": 0}, {"rows": 3}, {"kind": "high", "rows": 12}, {"attack": "riding", "kind": "high"}],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(eh.SettingError):
        single_out("everhold", **wrong)
