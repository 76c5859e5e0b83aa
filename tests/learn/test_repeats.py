"""The same question in other words, and what people write first: the record answers, and messages say what to write."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import everhold as eh

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(2, 1_500, 3))
y, z = ((one[:, 0] + 0.3 * RNG.normal(size=1_500) > 0).astype(int) for one in (X, Z))
STUMP, TREE = (DecisionTreeClassifier(max_depth=depth, random_state=0).fit(Z[:, :], z) for depth in (1, 4))
WEAK = DecisionTreeClassifier(max_depth=1, random_state=0).fit(np.column_stack([0 * Z[:, 0], Z[:, 1:]]), z)


@pytest.fixture
def test_set():
    return eh.TestSet(X, y, reference=(Z, z), seed=1)


class TestRepeats:
    def test_a_model_against_itself_costs_nothing(self, test_set):
        before = test_set.holdout.budget
        assert test_set.compare(TREE, TREE).verdict == "cannot tell"
        difference = test_set.difference(TREE, TREE)
        assert (difference.value, difference.low, difference.high, difference.verdict) == (0.0, 0.0, 0.0, "cannot tell")
        assert difference.source == "known beforehand"
        assert eh.ScoreDifference.from_json(difference.to_json()) == difference
        assert test_set.holdout.budget == before
        assert test_set.holdout.rounds == 0

    def test_the_other_way_round(self, test_set):
        first = test_set.difference(TREE, WEAK)
        before = test_set.holdout.budget
        mirrored = test_set.difference(WEAK, TREE)
        assert (mirrored.value, mirrored.low, mirrored.high) == (-first.value, -first.high, -first.low)
        assert (first.verdict, mirrored.verdict) == ("better", "worse")
        assert test_set.holdout.budget == before
        assert test_set.compare(TREE, WEAK, "error").verdict == "better"
        before = test_set.holdout.budget
        assert test_set.compare(WEAK, TREE, "error").verdict == "worse"
        assert test_set.holdout.budget == before

    def test_the_same_choice(self, test_set):
        first = test_set.best_of([TREE, WEAK, STUMP])
        before = test_set.holdout.budget
        assert test_set.best_of([TREE, WEAK, STUMP]) == first
        assert test_set.holdout.budget == before
        test_set.best_of([TREE, WEAK, STUMP], "f1")
        test_set.best_of([WEAK, TREE])
        assert len(test_set.holdout.session.journal.recorded_acts) == 3
        assert test_set.holdout.audit().ok

    def test_a_reading_is_foreseen_by_the_entry(self):
        """The forecast that `enter` made is the reading's, and a good one makes it cheaper."""
        prices = []
        for entered in (False, True):
            test = eh.TestSet(X, y, reference=(Z, z), seed=1)
            if entered:
                test.enter(TREE)
            test.read(TREE)
            prices.append(test.holdout.budget.claim_price())
        assert prices[1] < prices[0] - 1.0
        test = eh.TestSet(X, y, reference=(Z, z), seed=1)
        entry = test.enter(TREE)
        test.read(TREE)
        told = eh.TestSet(X, y, reference=(Z, z), seed=1)
        told.read(TREE, expect=float(entry))
        assert told.holdout.budget.claim_price() == prices[1]


class TestWarnings:
    def test_a_search_by_readings(self, test_set):
        trees = [DecisionTreeClassifier(max_leaf_nodes=k, random_state=0).fit(Z, z) for k in range(2, 10)]
        for tree in trees[:5]:
            test_set.read(tree)
            test_set.read(tree)
        with pytest.warns(eh.SearchWarning, match=r"6 models were read one by one.*test\.winner\(\)"):
            test_set.read(trees[5])
        test_set.read(trees[6])

    def test_the_score_of_a_search_is_a_forecast(self, test_set):
        search = GridSearchCV(
            DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]}, scoring=test_set.scorer(), cv=test_set.cv(Z)
        ).fit(Z, z)
        with pytest.warns(eh.SearchWarning, match=r"forecast from public rows, and not a score.*test\.winner\(\)\.score"):
            search.score(X, y)
        assert search.score(Z, z) == pytest.approx(search.best_score_)


class TestMessages:
    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("acc", "accuracy"), ("roc_auc", "auc"), ("neg_log_loss", "log_loss"), ("f1_score", "f1"),
            ("Accuracy", "accuracy"), ("brier_score_loss", "brier"), ("balanced_accuracy_score", "balanced_accuracy"),
        ],
    )  # fmt: skip
    def test_what_metrics_are_called_elsewhere(self, test_set, name, meant):
        with pytest.raises(eh.SettingError, match=f"Did you mean '{meant}'"):
            test_set.read(TREE, name)

    def test_errors_by_other_names(self, test_set):
        test = eh.TestSet(X, X[:, 0], reference=(Z, Z[:, 0]), task="regression", seed=1)
        for name, meant in (("mae", "absolute"), ("rmse", "squared"), ("neg_mean_squared_error", "squared")):
            with pytest.raises(eh.SettingError, match=f"Did you mean 'mean_{meant}_error'"):
                test.read(TREE, name)
        with pytest.raises(eh.SettingError, match="'accuracy' is for classification, and this test set is for regression"):
            test.read(TREE, "accuracy")
        with pytest.raises(eh.SettingError, match="'r2' is for regression"):
            test_set.read(TREE, "r2")

    def test_a_group_is_text(self, test_set):
        for given in (lambda rows: rows, X[:, 0] > 0, pd.Series(X[:, 0] > 0)):
            with pytest.raises(eh.QuestionError, match=r"given is a .*Expected a condition as text"):
                test_set.read(TREE, given=given)
        assert test_set.holdout.rounds == 0

    def test_lists_of_models(self, test_set):
        for act in (test_set.close, test_set.best_of):
            with pytest.raises(eh.QuestionError, match=r"DecisionTreeClassifier .* list of models.*\[model\]"):
                act(TREE)
            with pytest.raises(eh.QuestionError, match=r"names=list\(models\)"):
                act({"a": TREE})

    @pytest.mark.parametrize("expect", [92, -0.1, float("nan"), "much"])
    def test_forecasts_that_cannot_be(self, test_set, expect):
        for act in (test_set.enter, test_set.score, test_set.read):
            with pytest.raises(eh.SettingError, match="expect is"):
                act(TREE, expect=expect)
        with pytest.raises(eh.SettingError, match=r"Expected a number from 0 to 1, which accuracy can have: 0\.92, not 92"):
            test_set.enter(TREE, expect=92)
        assert test_set.holdout.rounds == 0
        assert test_set.entries == []

    def test_a_missing_label(self):
        labels = y.astype(float)
        labels[3] = np.nan
        with pytest.raises(eh.DataError, match=r"not among the classes, or none \(NaN\)"):
            eh.TestSet(X, labels, reference=(Z, z))

    def test_training_rows_in_the_test_set(self):
        with pytest.raises(eh.PriorError, match="Remove these rows from X and y") as error:
            eh.TestSet(np.vstack([X, Z]), np.r_[y, z], reference=(Z, z))
        assert "Split" not in str(error.value)
        assert "1,500 of 3,000" in str(error.value)

    def test_pairs_where_there_were_none(self, tmp_path):
        path = tmp_path / "t.everhold"
        eh.TestSet(X, y, reference=(Z, z), path=path, register=False).release()
        with pytest.raises(eh.DataError, match=r"made with other columns: .* Expected the same X, label= and pairs="):
            eh.TestSet(X, y, reference=(Z, z), path=path, pairs=True)

    def test_after_the_last_act(self, test_set):
        assert "closed" not in repr(test_set)
        test_set.close([TREE])
        assert ", closed" in repr(test_set)
        assert "closed" in test_set._repr_html_()
        with pytest.raises(eh.HoldoutClosed, match="no candidate can be judged any more"):
            test_set.enter(WEAK)

    def test_an_empty_history_points_to_the_record(self, test_set):
        assert r"test.holdout.findings()" in repr(test_set.history())
        assert r"test.holdout.findings()" in test_set.history()._repr_html_()
        test_set.read(TREE)
        assert "findings" not in repr(test_set.history())

    def test_the_log_loss_says_where_it_is_cut(self, test_set):
        score = test_set.read(LogisticRegression().fit(Z, z), "log_loss")
        assert str(score).startswith("log_loss (probabilities at least 0.01) 0.")
        assert score.metric == "log_loss"
        assert "probabilities at least 0.01" in score._repr_html_()


class TestNames:
    def test_long_pipelines_by_what_differs(self, test_set):
        names = []
        for strength in (0.1, 1, 10):
            parts = ColumnTransformer([("a", StandardScaler(), [0, 1]), ("b", "passthrough", [2])])
            model = make_pipeline(StandardScaler(), StandardScaler(), parts, LogisticRegression(C=strength, max_iter=50))
            names.append(test_set.enter(model.fit(Z, z), folds=0).name)
        assert len(set(names)) == 3
        assert "C=1" in names[1]
        assert "C=10" in names[2]
        assert all(len(name) <= 200 for name in names)

    def test_equal_names_are_numbered(self, test_set):
        half = DecisionTreeClassifier(max_depth=4, random_state=0).fit(Z[:700], z[:700])
        first, second = test_set.enter(TREE), test_set.enter(half)
        assert second.name == f"{first.name} (2)"
        assert test_set.enter(TREE).name == first.name, "the same model is the same entry"
        assert test_set.enter(TREE, "f1").name == first.name, "another metric has names of its own"


def rule(rows):
    """A function of somebody's own, which no digest identifies."""
    return (rows[:, 1] > 0).astype(int)


class TestCodeOfOnesOwn:
    def test_the_same_function_again_is_charged_with_a_word(self, test_set):
        test_set.read(rule)
        with pytest.warns(eh.SearchWarning, match=r"rule was asked about in the same way before, and is charged again"):
            test_set.read(rule)
        assert test_set.holdout.rounds == 2
        test_set.read(rule, "f1")
        test_set.read(rule, given="x0 > 0")
        test_set.score(rule)
        test_set.compare(rule, TREE)
        test_set.compare(TREE, rule)
        for again in (
            lambda: test_set.score(rule),
            lambda: test_set.compare(rule, TREE),
            lambda: test_set.read(rule, given="x0 > 0"),
        ):
            with pytest.warns(eh.SearchWarning, match="charged again"):
                again()

    def test_another_one_is_another_question(self, test_set):
        class Cut:
            at = 0.0

            def predict(self, rows):
                return (rows[:, 0] > self.at).astype(int)

        model = Cut()
        test_set.read(model)
        model.at = 0.5
        test_set.read(model)
        test_set.read(lambda rows: (rows[:, 0] > 0).astype(int))
        test_set.read(TREE)
        test_set.read(TREE)

    def test_whether_it_warns_does_not_depend_on_private_rows(self):
        """Twins that differ on one private row alone, and a model that says something else there the second time."""
        for spot in (0.0, 50.0):
            odd = X.copy()
            odd[7, 0] = spot
            test = eh.TestSet(odd, y, reference=(Z, z), seed=1)

            class Switched:
                on = 0

                def predict(self, rows):
                    return ((rows[:, 0] > 0) ^ ((rows[:, 0] > 10) & bool(self.on))).astype(int)

            model = Switched()
            test.read(model)
            model.on = 1
            with pytest.warns(eh.SearchWarning, match="charged again"):
                test.read(model)
            assert test.holdout.rounds == 2


class TestPromise:
    def test_a_promise_that_no_score_can_keep_is_refused_at_once(self):
        with pytest.raises(eh.SettingError, match="first question would be refused"):
            eh.TestSet(X, y, reference=(Z, z), half_width=0.01, seed=1)

    def test_one_that_can_be_kept_is_not(self, tmp_path):
        for _ in range(2):
            test = eh.TestSet(X, y, reference=(Z, z), half_width=0.15, seed=1, path=tmp_path / "t.everhold", register=False)
            test.score(TREE)
            test.release()
