"""Learners that only ask: they learn, they never see a labelled row, and scikit-learn knows them as its own."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import everhold as eh
from everhold.learn.estimators import SQBoosting, SQDecisionTree, SQHalfspace, SQLogisticRegression

LEARNERS = [SQHalfspace, SQLogisticRegression, SQBoosting, SQDecisionTree]


@parametrize_with_checks([learner() for learner in LEARNERS])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def world(target, size, rng):
    x = rng.uniform(-1.0, 1.0, (size, 6))
    if target == "linear":
        return x, np.where(x[:, 0] - 0.7 * x[:, 1] + 0.4 * x[:, 2] > 0.1, 1, -1)
    return x, np.where(np.where(x[:, 0] > 0, x[:, 1] > -0.5, x[:, 2] > 0.5), 1, -1)


class OnlyAnswers:
    """Lets nothing through but questions and answers, and counts them."""

    def __init__(self, oracle):
        self._asked = 0
        self.ask = self._counting(oracle.ask)

    def _counting(self, ask):
        def answer(phi):
            self._asked += 1
            return ask(phi)

        return answer


@pytest.mark.parametrize(
    ("learner", "target", "least"),
    [
        (SQHalfspace(), "linear", 0.90),
        (SQLogisticRegression(), "linear", 0.90),
        (SQBoosting(), "linear", 0.85),
        (SQDecisionTree(depth=2, cuts=3), "tree", 0.95),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else str(value),
)
def test_they_learn_with_the_sample_never_read(learner, target, least, monkeypatch):
    """The labelled rows are behind an oracle; what a learner gets is other features without labels, and answers. To be
    sure, the private table is locked while it learns: whatever reads it except its sums ends the test."""
    rng = np.random.default_rng(1)
    x, y = world(target, 40_000, rng)
    features, _ = world(target, 20_000, rng)
    oracle = eh.SQOracle(features=features, sample=(x, y), tolerance=0.1, seed=1)
    sample = oracle.holdout.sample
    table, sums = sample._table, sample.sums

    def only_sums(*args):
        sample._table = table
        try:
            answer = sums(*args)
        finally:
            sample._table = None
        assert [type(number) for sums in answer for number in sums] == [int, int] * len(args[0])
        return answer

    monkeypatch.setattr(sample, "sums", only_sums)
    monkeypatch.setattr(sample, "check", lambda query: None)
    sample._table = None
    behind = OnlyAnswers(oracle)
    learner.fit_oracle(behind, features)
    fresh_x, fresh_y = world(target, 20_000, np.random.default_rng(2))
    assert np.mean(learner.predict(fresh_x) == fresh_y) >= least
    assert learner.n_questions_ == behind._asked == oracle.holdout.rounds


def test_labels_that_are_noise_teach_nothing():
    """The control: the same learner on coin flips stays at one half."""
    rng = np.random.default_rng(3)
    x, _ = world("linear", 5_000, rng)
    y = rng.choice([-1, 1], 5_000)
    model = SQLogisticRegression(random_state=0).fit(x, y)
    fresh = rng.choice([-1, 1], 5_000)
    assert abs(np.mean(model.predict(x) == fresh) - 0.5) < 0.05


def test_fit_says_what_it_cost_and_keeps_class_names():
    rng = np.random.default_rng(4)
    x, y = world("linear", 5_000, rng)
    model = SQHalfspace(random_state=0).fit(x, np.where(y > 0, "late", "in time"))
    assert set(model.predict(x)) == {"late", "in time"}
    assert model.n_questions_ == 11 * 7
    assert model.n_surprises_ >= 1
    assert model.nats_ > 5
    assert SQLogisticRegression(random_state=0).fit(x, y).predict_proba(x).sum(axis=1) == pytest.approx(1.0)


def test_a_tolerance_that_the_rows_cannot_keep_is_refused():
    rng = np.random.default_rng(5)
    x, y = world("linear", 300, rng)
    with pytest.raises(eh.SettingError, match="first question would be refused"):
        SQHalfspace(tolerance=0.05).fit(x, y)


def test_trees_are_trees():
    rng = np.random.default_rng(6)
    x, y = world("tree", 20_000, rng)
    model = SQDecisionTree(depth=2, random_state=0).fit(x, y)
    assert 2 <= model.model_.leaves <= 4
    assert SQDecisionTree(depth=0, random_state=0).fit(x, y).model_.leaves == 1
