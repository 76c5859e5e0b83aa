"""The cost of a refit, in passes over the pool, and what hostile lessons can do to it: nothing."""

from __future__ import annotations

import numpy as np
import pytest

import everhold as eh
from everhold.mechanism.basis import Basis
from everhold.mechanism.rules import Constraint, Corrective, Entropic, dual
from everhold.mechanism.rules.rule import to_grid
from everhold.queries.grid import on_grid

SIZE = 6000


def lesson(target, slack=0.005):
    return Constraint(target=target, slack=slack, sketch=0.0, width=0.01, gap=0.05, tolerance=0.04)


def hostile(kind, rng, j):
    """The j-th question and its lesson."""
    place = np.arange(SIZE)
    if kind == "contradictions":
        return (place % 2 == 0) ^ (rng.random(SIZE) < 1e-3), lesson((-0.8, 0.8)[j % 2])
    if kind == "constant":
        return np.full(SIZE, j % 2 == 0), lesson(rng.uniform(-1, 1))
    if kind == "beyond the cap":
        return place == rng.integers(SIZE), lesson(0.0)
    if kind == "the same again":
        return place < SIZE // 3, lesson(0.2)
    if kind == "ends":
        return rng.random(SIZE) < 0.5, lesson(rng.choice([-1.0, 1.0]), 1e-7)
    if kind == "numbers":
        return rng.uniform(-1, 1) * np.cos(place * rng.random()), lesson(rng.uniform(-1, 1))
    low = rng.random()
    return (place / SIZE - low) % 1.0 < rng.choice([0.001, 0.01, 0.1, 0.5]), lesson(rng.uniform(-1, 1))


KINDS = ["contradictions", "constant", "beyond the cap", "the same again", "ends", "numbers", "anything"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", [Corrective(), Corrective(cap=1.5), Entropic()], ids=["χ²", "χ² capped", "entropic"])
def test_hostile_lessons_are_fitted_in_a_bounded_number_of_passes(kind, rule, monkeypatch):
    rng = np.random.default_rng(1)
    basis = Basis(np.full(SIZE, 1 / SIZE))
    lessons, theta = [], np.zeros(1)
    counted = {"combine": 0, "correlate": 0, "value": 0}

    def count(owner, name):
        plain = getattr(owner, name)

        def counting(self, *arguments):
            counted[name] += 1
            return plain(self, *arguments)

        monkeypatch.setattr(owner, name, counting)

    old = basis.correlate(basis.weights)
    for owner, name in ((Basis, "combine"), (Basis, "correlate"), (type(rule), "value")):
        count(owner, name)
    for j in range(40):
        asked, taught = hostile(kind, rng, j)
        basis = basis.with_more([on_grid(asked, SIZE, "x")])
        lessons.append(taught)
        mass = basis.weights * rule.ratio(basis.combine(np.append(theta[1:], 0.0)) + theta[0])
        old = basis.correlate(mass)
        counted.update(dict.fromkeys(counted, 0))
        theta, _ = rule.fit(basis, lessons, theta, old)
        most = dual.most_steps(SIZE, len(basis))
        assert counted["correlate"] <= most
        assert counted["combine"] <= most + 2
        assert counted["value"] <= 1 + 5 * most * (2 if rule.name == "entropic" else 1)
        assert len(theta) == 2 + j
        to_grid(theta)


def test_a_pass_that_is_long_has_fewer_steps():
    steps = [dual.most_steps(rows, 80) for rows in (100, 20_000, 100_000, 1_000_000, 10**8)]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] <= 6
    assert steps[-1] >= 2
    assert dual.most_steps(100_000, 500) <= dual.most_steps(100_000, 5)


def test_many_lessons_at_their_bounds_still_fit_the_grid():
    """More than 256 coefficients of 64 would not; a refit that always fails would never learn again."""
    rng = np.random.default_rng(3)
    basis = Basis(np.full(500, 1 / 500))
    half, lessons = np.arange(500) % 2 == 0, []
    for j in range(400):
        basis.append(on_grid(half ^ (np.arange(500) == rng.integers(500)), 500, "x"))
        lessons.append(lesson((-0.9, 0.9)[j % 2]))
    theta = np.zeros(1)
    for _ in range(20):
        mass = basis.weights * Corrective().ratio(basis.combine(np.append(theta[1:], np.zeros(401 - len(theta)))) + theta[0])
        theta, _ = Corrective().fit(basis, lessons, theta, basis.correlate(mass))
        to_grid(theta)


def test_a_lesson_beyond_the_cap_does_not_keep_others_from_being_learnt():
    basis = Basis(np.full(SIZE, 1 / SIZE))
    place, rule = np.arange(SIZE), Corrective(cap=8.0)
    basis.append(on_grid(place < 6, SIZE, "x"))  # 0.1 % of the public rows, said to be half of the private ones
    basis.append(on_grid(np.zeros(SIZE, bool), SIZE, "x"))
    basis.append(on_grid(place % 3 == 0, SIZE, "x"))
    theta, got = rule.fit(basis, [lesson(0.0), lesson(0.5), lesson(0.1)], np.zeros(1), basis.correlate(basis.weights))
    assert got[3] == pytest.approx(0.1, abs=0.02)
    assert got[0] == pytest.approx(1.0, abs=0.02)
    assert got[1] > -1.0 + 2 * 0.001 * 4, "as far as the cap allows, nearly"
    assert abs(theta[2]) < 0.1, "no public row can tell"


@pytest.mark.parametrize("cap", [1.5, 8.0, 64.0])
def test_only_targets_beyond_the_cap_are_moved(cap):
    basis, rng = Basis(np.full(SIZE, 1 / SIZE)), np.random.default_rng(4)
    for share in (0.0, 0.001, 0.02, 0.3, 0.7, 0.999, 1.0):
        basis.append(on_grid(rng.permutation(SIZE) < share * SIZE, SIZE, "x"))
    means, slacks = basis.means(), np.full(7, 0.01)
    highest, lowest = np.minimum(cap * (1 + means) - 1, 1.0), np.maximum(1 - cap * (1 - means), -1.0)
    for share in (0.0, 0.5, 1.0):
        feasible = lowest + share * (highest - lowest)
        assert np.array_equal(dual._attainable(basis, feasible, slacks, cap), feasible)
    for target in (-1.0, 1.0):
        moved = dual._attainable(basis, np.full(7, target), slacks, cap)
        assert np.all(moved - slacks <= highest + 1e-9)
        assert np.all(moved + slacks >= lowest - 1e-9)


def session(rounds=300):
    """Conjunctions of correlated columns, asked of a prior with independent ones; the number of surprises."""
    rng = np.random.default_rng(2)
    profiles = rng.beta(0.7, 0.9, size=(3, 10))
    private = rng.random((20_000, 10)) < profiles[rng.integers(3, size=20_000)]
    public = rng.random((20_000, 10)) < 0.5
    held = eh.Holdout(20_000, prior=eh.Reference(20_000), seed=0)
    for _ in range(rounds):
        picked = rng.choice(10, size=rng.integers(1, 4), replace=False)
        wanted = rng.random(len(picked)) < 0.5
        sample, reference = ((rows[:, picked] == wanted).all(axis=1) for rows in (private, public))
        held.ask(eh.Values(sample=sample, reference=reference))
    return held.surprises


def test_a_fit_that_stops_early_costs_few_surprises(monkeypatch):
    few = session()
    monkeypatch.setattr(dual, "_MOST_STEPS", 60)
    monkeypatch.setattr(dual, "_MOST_WORK", 10**12)
    monkeypatch.setattr(dual, "_MOST_CURVATURES", 60)
    monkeypatch.setattr(dual, "_ACCURACY", 0.05)
    converged = session()
    assert converged >= 30
    assert few <= 1.06 * converged + 1
