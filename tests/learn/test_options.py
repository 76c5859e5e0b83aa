"""The options of a test set: the public signature has them all, they are checked once, and travel as one value."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import numpy as np
import pytest

import everhold as eh
from everhold.contest.board import Rules
from everhold.learn.options import TestSetOptions, checked_labels


def test_the_signature_and_the_options_have_the_same_names_and_defaults():
    taken = inspect.signature(eh.TestSet).parameters
    rows = {"X", "y", "reference"}
    assert set(taken) - rows == {one.name for one in fields(TestSetOptions)}
    for one in fields(TestSetOptions):
        assert taken[one.name].default == one.default, one.name


def test_they_are_pickled_as_one_and_do_not_change():
    options = TestSetOptions(path=Path("/x.everhold"), classes=("a", "b"), confidence=0.9, seed=3)
    again = pickle.loads(pickle.dumps(options))
    assert [getattr(again, one.name) for one in fields(options)] == [getattr(options, one.name) for one in fields(options)]
    with pytest.raises(FrozenInstanceError):
        options.seed = 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"task": "ranking"}, "task is 'ranking'. Expected 'classification'"),
        ({"prior": "hope"}, "prior is 'hope'. Expected one of uniform"),
        ({"least_probability": 0.5}, r"least_probability is 0\.5\. Expected a number between"),
        ({"task": "regression", "low": 1.0}, r"low=1\.0, high=None. A regression needs both"),
        ({"task": "regression", "low": 2.0, "high": 1.0}, r"low=2\.0, high=1\.0"),
    ],
)
def test_what_is_wrong_is_said(given, said):
    with pytest.raises(eh.SettingError, match=said):
        TestSetOptions(**given)


def test_classes_come_from_public_facts():
    assert TestSetOptions(classes=("b", "a")).context(None).classes.tolist() == ["b", "a"]
    assert TestSetOptions().context(np.array([2, 1, 2])).classes.tolist() == [1, 2]
    with pytest.raises(eh.SettingError, match="not known from public facts"):
        TestSetOptions().context(None)
    with pytest.raises(eh.SettingError, match="not among the classes"):
        TestSetOptions(classes=(0, 1), positive=7).context(None)
    assert TestSetOptions(classes=(0, 1)).context(None).positive == 1
    assert TestSetOptions(classes=(0, 1, 2)).context(None).positive is None


def test_a_regression_s_context_has_the_declared_range():
    context = TestSetOptions(task="regression", low=-3, high=5).context(None)
    assert (context.low, context.high) == (-3.0, 5.0)
    assert context.classes.min() > -3.0
    assert context.classes.max() < 5.0


def test_labels_are_checked_without_showing_them():
    context = TestSetOptions(classes=(0, 1)).context(None)
    assert checked_labels([0, 1, 1], 3, "classification", context).tolist() == [0, 1, 1]
    with pytest.raises(eh.DataError, match=r"4 rows and y has shape \(3,\)"):
        checked_labels([0, 1, 1], 4, "classification", context)
    with pytest.raises(eh.DataError) as error:
        checked_labels([0, 1, 77], 3, "classification", context)
    assert "77" not in str(error.value)


def test_the_seed_is_the_one_given_or_that_of_the_study(tmp_path):
    place = tmp_path / "t.everhold"
    x, y = np.arange(100.0)[:, None], np.arange(100) % 2
    options = TestSetOptions(path=place, classes=(0, 1), seed=5)
    assert options.with_seed() is options
    eh.TestSet.from_options(x, y, options).release()
    assert replace(options, seed=None).with_seed().seed == 5
    assert TestSetOptions().with_seed().seed is not None


def test_a_test_set_from_options_is_the_same():
    x, y = np.arange(400.0)[:, None], np.arange(400) % 2
    by_names = eh.TestSet(x, y, classes=[0, 1], seed=2, confidence=0.9)
    by_value = eh.TestSet.from_options(x, y, TestSetOptions(classes=(0, 1), seed=2, confidence=0.9))
    guess = (np.arange(400) // 3) % 2
    assert by_names.score_predictions(guess) == by_value.score_predictions(guess)


def test_a_contest_s_rules_are_options():
    rules = Rules(
        "Heights", "regression", "mean_absolute_error", [], 0.0, 9.0, "id", "prediction", 10, None, False, 4, 0.9, 0.2
    )
    options = rules.options(Path("c.everhold"))
    shared = ("task", "low", "high", "seed", "confidence", "half_width")
    assert [getattr(options, name) for name in shared] == [getattr(rules, name) for name in shared]
    assert options.classes is None
    assert options.path == Path("c.everhold").absolute()


def test_what_is_left_out_follows_from_public_labels():
    known = np.array([10.0, 30.0])
    found = TestSetOptions(task="regression").completed(known)
    assert (found.low, found.high, found.prior) == (5.0, 35.0, "labelled")
    assert TestSetOptions().completed(None).prior == "uniform"
    assert TestSetOptions(prior="baseline").completed(known).prior == "baseline"
    kept = TestSetOptions(task="regression", low=0.0, high=100.0).completed(known)
    assert (kept.low, kept.high) == (0.0, 100.0)
    with pytest.raises(eh.SettingError, match="or reference="):
        TestSetOptions(task="regression").completed(None)
