"""Searches as their users write them: pipelines, frames, several processes, generations, and what is disclosed of them."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import everhold as eh
from everhold.bounds.binomial import binomial_interval

pytest.importorskip("sklearn")

from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

TREE = DecisionTreeClassifier(random_state=0)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return train_test_split(X, y, test_size=0.4, random_state=0)


@pytest.fixture(scope="module")
def diabetes():
    return train_test_split(*load_diabetes(return_X_y=True), test_size=0.4, random_state=0)


def made(rows, **options):
    X_train, X_test, y_train, y_test = rows
    return eh.TestSet(X_test, y_test, reference=(X_train, y_train), **{"seed": 1, **options})


class TestScikitLearnSearches:
    def test_two_processes_and_another_one_later(self, cancer, tmp_path):
        test = made(cancer, path=tmp_path / "t.everhold", seed=None)
        grid = {"max_depth": [1, 2, 3, 4], "min_samples_leaf": [1, 5]}
        search = GridSearchCV(TREE, grid, scoring=test.scorer(folds=2), cv=test.cv(cancer[0]), n_jobs=2, refit=False)
        search.fit(cancer[0], cancer[2])
        entered = {(entry.params["max_depth"], entry.params["min_samples_leaf"]) for entry in test.entries}
        assert {depth for depth, _ in entered} == {1, 2, 3, 4}  # equal trees are one candidate
        told = test.winner()
        assert told.params in [entry.params for entry in test.entries]
        test.release()
        again = made(cancer, path=tmp_path / "t.everhold", seed=None)
        assert again.winner() == told
        assert again.holdout.audit().ok

    def test_a_study_goes_on_in_another_program(self, cancer, tmp_path):
        program = """
import sys, everhold as eh
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
test = eh.TestSet(X_test, y_test, reference=(X_train, y_train), path=sys.argv[1])
for depth in sys.argv[2:]:
    test.enter(DecisionTreeClassifier(max_depth=int(depth), random_state=0).fit(X_train, y_train), folds=2)
told = test.winner()
print(told.entries, told.generations, told.params["max_depth"])
"""
        path = str(tmp_path / "t.everhold")
        said = [
            subprocess.run(
                [sys.executable, "-W", "ignore", "-c", program, path, *depths], capture_output=True, text=True, check=True
            ).stdout.split()
            for depths in (["1", "2"], ["3", "4", "2"], [])
        ]
        assert [one[:2] for one in said] == [["2", "1"], ["4", "2"], ["4", "2"]]  # depth 2 again is no new candidate
        assert said[1][2] == said[2][2]

    def test_a_pipeline_by_random_search(self, cancer):
        test = made(cancer)
        pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        search = RandomizedSearchCV(
            pipeline,
            {"logisticregression__C": np.logspace(-3, 3, 30)},
            n_iter=8,
            random_state=0,
            scoring=test.scorer(folds=2),
            cv=test.cv(cancer[0]),
        )
        search.fit(cancer[0], cancer[2])
        assert len(test.entries) == 8
        assert search.best_score_ == max(float(entry) for entry in test.entries)
        assert {entry.forecast.source for entry in test.entries} == {"cross-validated"}
        told = test.winner()
        again = pipeline.set_params(logisticregression__C=told.params["logisticregression__C"]).fit(cancer[0], cancer[2])
        assert np.mean(again.predict(cancer[1]) == cancer[3]) == pytest.approx(told.score.value, abs=0.005)

    def test_halving_by_the_number_of_trees(self, cancer):
        test = made(cancer)
        search = HalvingGridSearchCV(
            RandomForestClassifier(random_state=0),
            {"max_depth": [1, 2, 4]},
            resource="n_estimators",
            min_resources=4,
            max_resources=12,
            scoring=test.scorer(folds=2),
            cv=test.cv(cancer[0]),
            random_state=0,
        )
        search.fit(cancer[0], cancer[2])
        told = test.winner()
        assert told.entries == len(test.entries) == 4
        assert told.params["n_estimators"] in (4, 12)

    def test_a_search_by_two_metrics(self, cancer):
        test = made(cancer)
        scoring = {"accuracy": test.scorer(folds=2), "f1": test.scorer("f1", folds=2)}
        grid = {"max_depth": [1, 2, 3]}
        GridSearchCV(TREE, grid, scoring=scoring, refit=False, cv=test.cv(cancer[0])).fit(cancer[0], cancer[2])
        assert [entry.metric for entry in test.entries] == ["accuracy", "f1"] * 3
        told = test.winner("f1")
        assert told.entries == 3
        assert "the best of 3" in str(told)

    def test_a_regression_s_forecasts_are_negated(self, diabetes):
        test = made(diabetes, task="regression")
        search = GridSearchCV(Ridge(), {"alpha": [0.01, 1.0, 100.0]}, scoring=test.scorer(), cv=test.cv(diabetes[0]))
        search.fit(diabetes[0], diabetes[2])
        assert search.best_score_ == -min(float(entry) for entry in test.entries)


class TestModels:
    def test_forests_give_their_out_of_bag_score(self, cancer, diabetes):
        test = made(cancer)
        forest = RandomForestClassifier(40, oob_score=True, random_state=0).fit(cancer[0], cancer[2])
        entry = test.enter(forest)
        assert entry.forecast.source == "out of bag"
        assert float(entry) == pytest.approx(forest.oob_score_)
        other = made(diabetes, task="regression")
        forest = RandomForestRegressor(40, oob_score=True, random_state=0).fit(diabetes[0], diabetes[2])
        error = np.mean(np.abs(forest.oob_prediction_ - diabetes[2]))
        assert float(other.enter(forest)) == pytest.approx(error, rel=1e-6)

    def test_functions_of_a_frame(self, cancer):
        test = made(cancer)
        first = test.enter(lambda X: (X["mean radius"] < 15).astype(int), name="15")
        test.enter(lambda X: (X["mean radius"] < 5).astype(int), name="5", expect=0.4)
        assert first.forecast.source == "prior"
        assert "not a score" in str(first)
        assert test.winner().name == "15"

    def test_labels_that_are_texts(self, cancer):
        X_train, X_test, y_train, y_test = cancer
        texts = [np.where(y == 1, "benign", "malignant") for y in (y_train, y_test)]
        test = made((X_train, X_test, *texts), positive="malignant")
        for depth in (1, 3):
            test.enter(DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X_train, texts[0]), "auc", folds=2)
        told = test.winner("auc")
        assert told.score is None
        assert "not read" in str(told)

    @pytest.mark.parametrize("positive", [0, 1])
    def test_scores_without_probabilities_are_foreseen_too(self, cancer, positive):
        test = made(cancer, positive=positive)
        entry = test.enter(LinearSVC(dual=False).fit(cancer[0], cancer[2]), "auc", folds=2)
        assert entry.forecast.source == "cross-validated"
        assert float(entry) > 0.9

    def test_numbers_without_their_task(self, diabetes):
        numbers = "use task='regression'"
        with pytest.warns(eh.SchemaWarning, match=numbers), pytest.raises(eh.DataError, match=numbers):
            made(diabetes)


class TestOptuna:
    def test_trials_are_led_by_forecasts(self, diabetes):
        optuna = pytest.importorskip("optuna")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        test = made(diabetes, task="regression")

        def objective(trial):
            model = Ridge(trial.suggest_float("alpha", 1e-3, 1e3, log=True)).fit(diabetes[0], diabetes[2])
            return float(test.enter(model, name=f"trial {trial.number}", folds=3))

        study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=0))
        study.optimize(objective, n_trials=12, callbacks=[test.optuna_callback()])
        told = test.winner()
        trial = study.trials[int(told.name.split()[1])]
        assert told.params["alpha"] == trial.params["alpha"]
        assert told.score.low < 46 < told.score.high

    def test_the_page_s_own_words(self):
        """The block of docs/howto/tune.md, which the other tests of that page cannot run without Optuna."""
        optuna = pytest.importorskip("optuna")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        page = (Path(__file__).parents[2] / "docs" / "howto" / "tune.md").read_text(encoding="utf-8")
        (block,) = [one for one in re.findall(r"```python\n(.*?)```", page, flags=re.S) if one.startswith("import optuna")]
        names = {"eh": eh, "load_diabetes": load_diabetes, "train_test_split": train_test_split}
        exec(compile(block, "tune.md", "exec"), names)
        assert names["winner"].entries == 30
        assert names["winner"].score.interval.half_width < 25


def coins(rows, seed):
    """A test set of pure noise."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(rows, 5)), rng.integers(0, 2, rows)
    return eh.TestSet(X, y, reference=rng.normal(size=(200, 5)), classes=[0, 1], seed=seed), rng


def rule(w):
    return lambda X: (np.asarray(X) @ w > 0).astype(int)


class TestGenerations:
    def test_luck_does_not_follow_a_champion(self):
        """Neighbours are better by luck, and in most generations none is better by enough."""
        changes = 0
        for seed in range(5):
            test, rng = coins(400, seed)
            tried = list(rng.normal(size=(50, 5)))
            for w in tried:
                test.enter(rule(w), folds=0)
            told = test.winner(read=False)
            for _ in range(3):
                near = tried[told.index] + 0.2 * rng.normal(size=(50, 5))
                tried += list(near)
                for w in near:
                    test.enter(rule(w), folds=0)
                later = test.winner(read=False)
                changes += later.entry != told.entry
                told = later
        assert changes <= 5  # of 15

    @pytest.mark.parametrize("metric", ["accuracy", "f1", "auc"])
    def test_a_clearly_better_candidate_follows(self, metric):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1_000, 3))
        y = (X[:, 0] > 0).astype(int)
        test = eh.TestSet(X[:500], y[:500], reference=(X[500:], y[500:]), seed=1)
        scores = metric == "auc"
        for tilt in (2.0, 0.3, 2.5):
            w = np.array([1.0, tilt, 0.0])
            model = (lambda X, w=w: np.asarray(X) @ w) if scores else rule(w)
            test.enter(model, metric, folds=0, name=f"{tilt:g}")
            told = test.winner(metric, read=False)
        assert told.name == "0.3"
        assert told.generations == 3


def test_the_winner_of_a_thousand_is_as_narrow_as_promised():
    """Few public rows, many private ones: the cell of the reading is small beside the interval."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8_200, 4))
    y = (X[:, 0] + 0.8 * rng.normal(size=len(X)) > 0).astype(int)
    test = eh.TestSet(X[200:], y[200:], reference=(X[:200], y[:200]), seed=1)
    rules = rng.normal(size=(1_000, 4))
    for w in rules:
        test.enter(rule(w), folds=0)
    score = test.winner().score
    k = int(np.max(np.sum((X[200:] @ rules.T > 0) == y[200:, None], axis=0)))
    low, high = binomial_interval(k, k, 8_000, np.log(2 * 1_000 / 0.05))
    assert score.interval.half_width <= 1.15 * (high - low) / 2
    assert abs(score.value - k / 8_000) < 0.002


class TestFolds:
    """A search with folds of its own enters a model for each, and its user is warned once."""

    def searched(self, cv):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 3))
        y = (X[:, 0] > 0).astype(int)
        test = eh.TestSet(X[:200], y[:200], reference=(X[200:], y[200:]), seed=1)
        search = GridSearchCV(
            DecisionTreeClassifier(random_state=0),
            {"max_depth": [1, 2, 3]},
            scoring=test.scorer(),
            cv=test.cv(X[200:]) if cv is None else cv,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(X[200:], y[200:])
        self.names = [one.name for one in test.entries]
        return len(test.entries), [str(one.message) for one in caught if one.category is eh.SearchWarning]

    def test_folds_are_worth_a_warning(self):
        entries, said = self.searched(5)
        assert entries > 3
        assert len(said) == 1
        assert "Use cv=test.cv(X_train)" in said[0]
        assert len(set(self.names)) == entries, "every fit has a name of its own"
        assert any(name.endswith(", fit 2") for name in self.names)

    def test_the_split_of_the_test_set_is_not(self):
        assert self.searched(None) == (3, [])
