"""The rules: does the fit solve its problem, and do surprises stay below what is proved?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import everhold as eh
from everhold.bounds.surprises import chi_square_at_most, corrective_surprises, entropic_surprises
from everhold.mechanism.basis import Basis
from everhold.mechanism.rules import THETA_ONE, Constraint, Corrective, Entropic, Gradient
from everhold.mechanism.rules.rule import from_grid, to_grid
from everhold.mechanism.tolerance import TOLERANCE_ONE, Tolerance
from everhold.queries.grid import on_grid


def lesson(target, slack=0.02):
    return Constraint(target=target, slack=slack, sketch=0.0, width=0.01, gap=0.05, tolerance=0.1)


def problem(size, k, seed, *, kind="yes/no", weighted=False):
    """k questions on `size` rows, and lessons taken from a hidden density ratio: they can all be met."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=size) if weighted else np.ones(size)
    weights /= weights.sum()
    basis = Basis(weights)
    hidden = rng.exponential(size=size)
    hidden /= weights @ hidden
    lessons = []
    for j in range(k):
        values = rng.random(size) < 0.5 if kind == "yes/no" or j % 2 else rng.uniform(-1, 1, size)
        on = on_grid(values, size, "x")
        basis.append(on)
        signed = np.where(values, 1.0, -1.0) if values.dtype == bool else on.array / 2**15
        lessons.append(lesson(float(weights @ (hidden * signed))))
    return basis, lessons


def refit(rule, basis, lessons):
    """From nothing to all lessons at once."""
    start = np.zeros(len(lessons))
    mass = basis.weights.copy()
    theta, _ = rule.fit(basis, lessons, start, basis.correlate(mass))
    return theta


def moments(rule, basis, theta):
    h = rule.ratio(basis.combine(theta[1:]) + theta[0])
    return basis.correlate(basis.weights * h), h


class TestBasis:
    @pytest.mark.parametrize("kind", ["yes/no", "mixed"])
    def test_matches_plain_matrices(self, kind):
        basis, _ = problem(1000, 19, 1, kind=kind, weighted=True)
        matrix = basis.rows(np.arange(1000))
        rng = np.random.default_rng(2)
        theta, mass = np.rint(rng.standard_normal(19) * THETA_ONE) / THETA_ONE, rng.random(1000)
        assert np.array_equal(basis.combine(theta), theta @ matrix[1:])
        assert np.allclose(basis.correlate(mass), matrix @ mass, rtol=1e-12)
        assert np.array_equal(basis.rows(np.arange(1000), np.float32), matrix.astype(np.float32))

    def test_combine_is_exact_in_any_order(self):
        basis, _ = problem(500, 30, 3, kind="mixed")
        theta = np.rint(np.random.default_rng(1).uniform(-300, 300, 30) * THETA_ONE) / THETA_ONE
        matrix = basis.rows(np.arange(500))[1:]
        order = np.random.default_rng(2).permutation(30)
        expected = np.zeros(500)
        for j in order:
            expected += theta[j] * matrix[j]
        assert np.array_equal(basis.combine(theta), expected)

    def test_one_more_leaves_the_first_alone(self):
        basis, _ = problem(200, 5, 4)
        before = basis.rows(np.arange(200)).copy()
        more = basis.with_more([on_grid(np.ones(200, bool), 200, "x")])
        assert len(more) == 6
        assert len(basis) == 5
        assert np.array_equal(basis.rows(np.arange(200)), before)
        assert np.array_equal(more.rows(np.arange(200))[:-1], before)

    def test_yes_no_questions_take_an_eighth_of_a_byte_a_row(self):
        basis, _ = problem(8000, 16, 5)
        assert basis.bytes == 2 * 8000

    @pytest.mark.parametrize("weighted", [False, True])
    def test_numbers_take_a_byte_a_row_and_keep_their_mean(self, weighted):
        rng = np.random.default_rng(8)
        weights = rng.exponential(size=5000) if weighted else np.ones(5000)
        basis = Basis(weights / weights.sum())
        ends = np.concatenate([np.ones(2000), -np.ones(1000), rng.uniform(-1, 1, 2000)])
        for values in (ends, rng.uniform(-1, 1, 5000), np.full(5000, 0.3)):
            before, on = basis.bytes, on_grid(values, 5000, "x")
            basis = basis.with_more([on])
            kept = basis.rows(np.arange(5000))[-1]
            assert basis.bytes - before == 5000
            assert np.abs(kept - values).max() < 0.008
            # the mean under the prior is off by a step of the grid of values, and what rounding weights adds
            assert abs(basis.weights @ (kept - on.array / 2**15)) < 2.0**-15
            assert basis.moments(basis.weights)[-1] == pytest.approx(basis.correlate(basis.weights)[-1], abs=1e-12)


class TestProjection:
    @pytest.mark.parametrize("size", [300, 30_000])
    @pytest.mark.parametrize("rule", [Corrective(), Corrective(cap=3.0), Entropic()], ids=["χ²", "χ² capped", "entropic"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_lessons_are_met(self, size, rule, weighted):
        basis, lessons = problem(size, 12, 6, kind="mixed", weighted=weighted)
        theta = refit(rule, basis, lessons)
        got, h = moments(rule, basis, theta)
        misses = np.abs(got[1:] - [item.target for item in lessons])
        assert np.all(misses <= 0.02 * 1.4)
        assert got[0] == pytest.approx(1.0, abs=0.01)
        assert np.all(h >= 0.0)
        assert np.all(h <= rule.cap)

    def test_it_is_the_nearest_such_sketch(self):
        """Against a general-purpose solver of the primal problem on a small pool."""
        basis, lessons = problem(40, 4, 7)
        theta = refit(Corrective(cap=8.0), basis, lessons)
        _, mine = moments(Corrective(cap=8.0), basis, theta)
        matrix, targets = basis.rows(np.arange(40)), np.array([item.target for item in lessons])
        weights = basis.weights

        best = minimize(
            lambda h: float(weights @ (h - 1.0) ** 2),
            np.ones(40),
            jac=lambda h: 2.0 * weights * (h - 1.0),
            bounds=[(0.0, 8.0)] * 40,
            constraints=[
                {"type": "eq", "fun": lambda h: float(weights @ h) - 1.0},
                {"type": "ineq", "fun": lambda h: 0.02 - (matrix[1:] @ (weights * h) - targets)},
                {"type": "ineq", "fun": lambda h: 0.02 + (matrix[1:] @ (weights * h) - targets)},
            ],
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert best.success
        assert weights @ (mine - 1.0) ** 2 <= best.fun * 1.05 + 1e-4
        assert np.sqrt(weights @ (mine - best.x) ** 2) < 0.05

    def test_contradicting_lessons_stay_solvable(self):
        basis = Basis(np.full(100, 0.01))
        half = on_grid(np.arange(100) % 2 == 0, 100, "x")
        for _ in range(2):
            basis.append(half)
        for rule in (Corrective(), Entropic()):
            theta = refit(rule, basis, [lesson(0.9), lesson(-0.9)])
            assert np.all(np.isfinite(theta))
            to_grid(theta)

    def test_coefficients_survive_their_grid(self):
        theta = np.rint(np.random.default_rng(0).standard_normal(50) * THETA_ONE) / THETA_ONE
        assert np.array_equal(from_grid(to_grid(theta)), theta)
        with pytest.raises(eh.EverholdError, match="too large"):
            to_grid(np.array([20_000.0]))


class Strict:
    """Constant tolerance, cells and so γ = τ - w known: for checking the theorems."""

    def __init__(self, tau):
        self.tau = tau

    def tolerance(self, at):
        grid = int(self.tau * TOLERANCE_ONE)
        return Tolerance(grid, grid // 2)

    def describe(self):
        return "constant"


@pytest.mark.parametrize(
    "rule", [Gradient(step="gap"), Corrective(cap=2.0, proved=True), Entropic(proved=True)], ids=["g", "c", "e"]
)
def test_surprises_stay_below_the_theorem(rule):
    """λ = 1/2 world with known truth; an analyst who asks, each time, the direction the sketch is furthest off on."""
    rng = np.random.default_rng(10)
    atoms, n, tau = 400, 60_000, 0.25
    f = np.where(rng.random(atoms) < 0.5, 1.0, -1.0)
    picked = rng.integers(atoms, size=n)
    held = eh.Holdout(n, prior=eh.Reference(2 * atoms), rule=rule, tolerance=Strict(tau), seed=0)
    for t in range(300):
        subset = np.random.default_rng(t).random(atoms) < 0.5
        g = np.where(subset, f, np.where(np.random.default_rng([t, 1]).random(atoms) < 0.5, 1.0, -1.0))
        held.ask(eh.Values(sample=(f * g)[picked], reference=np.concatenate([g, -g])))
    width = np.sqrt(2 * held.price / n)
    gap = tau - width
    bound = entropic_surprises(0.5, gap) if rule.name == "entropic" else corrective_surprises(chi_square_at_most(0.5), gap)
    assert 1 <= held.surprises <= bound


def test_gradient_steps():
    basis, lessons = problem(1000, 1, 11)
    for step, size in (("paper", 0.1 / 8), ("gap", 0.05)):
        theta, _ = Gradient(step=step).fit(basis, lessons, np.zeros(1), None)
        assert abs(theta[1]) == pytest.approx(size)
    theta, _ = Gradient().fit(basis, lessons, np.zeros(1), None)
    assert theta[1] == pytest.approx(lessons[0].target)
    with pytest.raises(eh.SettingError):
        Gradient(step="leap")
    with pytest.raises(eh.SettingError):
        Corrective(cap=1.0)
    with pytest.raises(eh.SettingError):
        Entropic(cap=1e9)
