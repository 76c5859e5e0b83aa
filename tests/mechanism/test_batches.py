"""Lessons in batches: one refit for many questions, and a batch of one is the plain refit."""

from __future__ import annotations

import numpy as np
import pytest

from everhold.mechanism.basis import Basis
from everhold.mechanism.estimator import Draws, FreshEstimator, PoolEstimator
from everhold.mechanism.rules import Constraint, Corrective, Entropic, Gradient
from everhold.mechanism.sketch import unchanged
from everhold.queries.grid import on_grid

SIZE = 4000
RULES = [Corrective(), Entropic(), Gradient(), Gradient(step="gap"), Gradient(step="paper")]
NAMES = ["χ²", "entropic", "polyak", "gap", "paper"]


def rows(rng, size):
    return {"x": rng.random(size), "y": rng.random(size)}


def pool(rule):
    return PoolEstimator(Draws(rows(np.random.default_rng(0), SIZE), SIZE, None, float(SIZE)), rule)


def fresh(rule):
    return FreshEstimator(
        lambda rng, size: Draws(rows(rng, size), size, None, float(size)), rule, seed=3, accuracy=0.05, fit_rows=SIZE
    )


def lesson(target, sketch, slack=0.02):
    off = abs(target - sketch)
    return Constraint(target=target, slack=slack, sketch=sketch, width=0.01, gap=off - slack - 0.01, tolerance=0.05)


class Threshold:
    """A question of the mechanism's own kind: a threshold of a column."""

    repeatable = True

    def __init__(self, name, at):
        self.name, self.at = name, at

    def on_reference(self, rows, size, *, verify=False):
        return on_grid(rows[self.name] < self.at, size, "x")


def batch(estimator, sketch, count):
    """Questions, their values, and lessons that the density 2x on the first column would teach."""
    asked, values, lessons = [], [], []
    for j in range(count):
        name, at = "xy"[j % 2], (1 + j) / (count + 1)
        question = Threshold(name, at)
        estimate = estimator.estimate(sketch, question, 1, "fresh")
        asked.append(question)
        values.append(estimate.values)
        truth = at * at if name == "x" else at
        lessons.append(lesson(2.0 * truth - 1.0, estimate.forecast.value))
    return asked, values, lessons


def answers(estimator, sketch, asked):
    return np.array([estimator.estimate(sketch, question, 7, "fresh").forecast.value for question in asked])


@pytest.mark.parametrize("make", [pool, fresh])
@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_one_coefficient_for_each_lesson(make, rule):
    estimator = make(rule)
    sketch = estimator.start()
    asked, values, lessons = batch(estimator, sketch, 5)
    fit = estimator.fit(sketch, asked[:2], values[:2], lessons[:2], 1)
    assert len(fit) == 3
    sketch = estimator.learn(sketch, asked[:2], values[:2], fit)
    fit = estimator.fit(sketch, asked[2:], values[2:], lessons, 2)
    assert len(fit) == 6
    sketch = estimator.learn(sketch, asked[2:], values[2:], fit)
    assert sketch.fit == fit
    again = estimator.learn(sketch, [], [], fit)
    assert np.array_equal(answers(estimator, again, asked), answers(estimator, sketch, asked))


@pytest.mark.parametrize("make", [pool, fresh])
@pytest.mark.parametrize("rule", [Corrective(), Entropic()], ids=["χ²", "entropic"])
def test_one_refit_meets_every_lesson_of_a_batch(make, rule):
    estimator = make(rule)
    sketch = estimator.start()
    asked, values, lessons = batch(estimator, sketch, 30)
    sketch = estimator.learn(sketch, asked, values, estimator.fit(sketch, asked, values, lessons, 1))
    misses = np.abs(answers(estimator, sketch, asked) - [item.target for item in lessons])
    noise = 0.0 if make is pool else 0.06
    assert np.all(misses <= 0.02 * 1.4 + noise)


@pytest.mark.parametrize("rule", RULES[2:], ids=NAMES[2:])
def test_gradient_steps_of_a_batch_are_taken_in_turn(rule):
    """Each step counts with the sketch's answer after the steps before it."""
    estimator = pool(rule)
    sketch = start = estimator.start()
    asked, values, lessons = batch(estimator, start, 6)
    together = estimator.fit(start, asked, values, lessons, 1)
    taught = []
    for question, on, item in zip(asked, values, lessons, strict=True):
        now = lesson(item.target, estimator.estimate(sketch, question, 1, "fresh").forecast.value)
        taught.append(now)
        fit = estimator.fit(sketch, [question], [on], taught, 1)
        if abs(now.target - now.sketch) <= now.tolerance:
            fit = unchanged(sketch)
        sketch = estimator.learn(sketch, [question], [on], fit)
    assert np.allclose(together, sketch.fit, atol=2**12)


def test_unchanged_ignores_all_new_questions():
    estimator = pool(Corrective())
    start = estimator.start()
    asked, values, lessons = batch(estimator, start, 3)
    sketch = estimator.learn(start, asked[:1], values[:1], estimator.fit(start, asked[:1], values[:1], lessons[:1], 1))
    assert unchanged(sketch) == (*sketch.fit, 0)
    assert unchanged(sketch, 2) == (*sketch.fit, 0, 0)
    same = estimator.learn(sketch, asked[1:], values[1:], unchanged(sketch, 2))
    assert np.array_equal(answers(estimator, same, asked), answers(estimator, sketch, asked))


def test_a_fit_that_is_not_learnt_leaves_nothing_behind():
    estimator = pool(Corrective())
    start = estimator.start()
    asked, values, lessons = batch(estimator, start, 4)
    estimator.fit(start, asked[:2], values[:2], lessons[:2], 1)
    sketch = estimator.learn(start, asked[2:], values[2:], (0, 2**20, -(2**20)))
    clean = pool(Corrective())
    other = clean.learn(clean.start(), asked[2:], values[2:], (0, 2**20, -(2**20)))
    assert np.array_equal(answers(estimator, sketch, asked), answers(clean, other, asked))


@pytest.mark.parametrize("kind", ["yes/no", "mixed"])
def test_many_at_once_pack_as_one_by_one(kind):
    rng = np.random.default_rng(1)
    values = [
        on_grid(rng.random(500) < 0.5 if kind == "yes/no" or j % 3 else rng.uniform(-1, 1, 500), 500, "x") for j in range(21)
    ]
    first = Basis(np.full(500, 1 / 500)).with_more(values[:5])
    together, one_by_one = first.with_more(values[5:]), first
    for column in values[5:]:
        one_by_one = one_by_one.with_more([column])
    every, mass = np.arange(500), rng.random(500)
    assert len(first) == 5
    assert np.array_equal(together.rows(every), one_by_one.rows(every))
    assert together.bytes == one_by_one.bytes
    assert np.allclose(together.moments(mass, 16), together.correlate(mass)[-16:], rtol=1e-12)
