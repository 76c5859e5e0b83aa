"""A test set that may be looked at every day: every metric against its definition, searches that ask once a candidate."""

from __future__ import annotations

import os
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib.externals.loky import get_reusable_executor
from sklearn import metrics as sk
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_validate, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold.errors import SearchWarning
from everhold.learn.scorer import SearchStopped


def world(size, seed, classes=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 4))
    y = np.digitize(x[:, 0] + 0.5 * rng.normal(size=size), np.linspace(-1, 1, classes - 1) if classes > 2 else [0.0])
    return x, y


class Fixed:
    """A model that is a function."""

    def __init__(self, labels=None, probabilities=None):
        self._labels, self._probabilities = labels, probabilities

    def predict(self, x):
        return self._labels(np.asarray(x))

    def predict_proba(self, x):
        return self._probabilities(np.asarray(x))


@pytest.fixture(scope="module")
def binary():
    x, y = world(30_000, 1)
    return (x[:10_000], y[:10_000]), (x[10_000:20_000], y[10_000:20_000]), (x[20_000:], y[20_000:])


def make(binary, **settings):
    test, reference, _ = binary
    return eh.TestSet(*test, reference=reference, **({"seed": 1} | settings))


class TestMetrics:
    """Every interval holds what scikit-learn says of the same rows: the sample's own value always lies in it."""

    @pytest.mark.parametrize(
        ("metric", "judge"),
        [
            ("accuracy", sk.accuracy_score),
            ("error", lambda y, p: 1 - sk.accuracy_score(y, p)),
            ("balanced_accuracy", sk.balanced_accuracy_score),
            ("precision", sk.precision_score),
            ("recall", sk.recall_score),
            ("f1", sk.f1_score),
        ],
    )
    def test_of_labels(self, binary, metric, judge):
        model = LogisticRegression().fit(*binary[1])
        score = make(binary).score(model, metric)
        own = judge(binary[0][1], model.predict(binary[0][0]))
        assert own in score.interval
        assert score.interval.half_width < 0.15
        assert abs(score.value - own) < 0.1
        assert score.metric == metric

    @pytest.mark.parametrize(
        ("metric", "judge"),
        [
            ("brier", lambda y, p: sk.brier_score_loss(y, p[:, 1])),
            ("log_loss", lambda y, p: -np.mean(np.log(np.clip(p[np.arange(len(y)), y], 0.01, 1)))),
        ],
    )
    def test_of_probabilities(self, binary, metric, judge):
        model = LogisticRegression().fit(*binary[1])
        score = make(binary).score(model, metric)
        assert judge(binary[0][1], model.predict_proba(binary[0][0])) in score.interval
        assert score.low >= score.bottom
        assert score.high <= score.top

    def test_auc_is_about_pairs(self, binary):
        model = LogisticRegression().fit(*binary[1])
        test = make(binary, pairs=True)
        score = test.score(model, "auc")
        assert sk.roc_auc_score(binary[0][1], model.decision_function(binary[0][0])) in score.interval
        assert score.interval.half_width < 0.15
        assert test.holdout.size == 5_000
        assert "pairs" in repr(test)
        assert sk.accuracy_score(binary[0][1], model.predict(binary[0][0])) in test.score(model).interval
        with pytest.raises(eh.SettingError, match="pairs=True"):
            make(binary).score(model, "auc")

    def test_ten_classes_with_the_labels_prior(self):
        x, y = load_digits(return_X_y=True)
        x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.5, random_state=0)
        model = RandomForestClassifier(random_state=0).fit(x_train, y_train)
        test = eh.TestSet(x_test, y_test, reference=(x_train, y_train), seed=1)
        score = test.score(model)
        assert np.mean(model.predict(x_test) == y_test) in score.interval
        assert score.interval.half_width < 0.05
        assert "10 equally likely labels" in test.prior

    def test_regression(self):
        rng = np.random.default_rng(2)
        x = rng.normal(size=(20_000, 3))
        y = np.clip(50 + 10 * x[:, 0] + 5 * rng.normal(size=20_000), 0, 100)
        model = LinearRegression().fit(x[:5000], y[:5000])
        test = eh.TestSet(x[10_000:], y[10_000:], reference=x[:10_000], task="regression", low=0, high=100, seed=1)
        told = model.predict(x[10_000:])
        for metric, judge in (
            ("mean_absolute_error", sk.mean_absolute_error),
            ("mean_squared_error", sk.mean_squared_error),
            ("r2", sk.r2_score),
        ):
            score = test.score(model, metric)
            assert judge(y[10_000:], told) in score.interval
            assert np.isfinite(score.value)
        assert test.score(model).interval.half_width < 6

    def test_imbalanced_one_to_a_hundred_keeps_useful_intervals(self):
        """The kl form: errors of one in a hundred are known to about one in a hundred, not to one in thirty."""
        rng = np.random.default_rng(3)
        x = rng.normal(size=(20_000, 2))
        y = (x[:, 0] > 2.33).astype(int)
        test = eh.TestSet(x[:10_000], y[:10_000], reference=(x[10_000:], y[10_000:]), prior="baseline", seed=1)
        model = Fixed(lambda x: (x[:, 0] > 2.4).astype(int))
        error = test.score(model, "error")
        assert np.mean(model.predict(x[:10_000]) != y[:10_000]) in error.interval
        assert error.interval.half_width < 0.01
        recall = test.score(model, "recall")
        assert sk.recall_score(y[:10_000], model.predict(x[:10_000])) in recall.interval

    def test_subgroups(self):
        rng = np.random.default_rng(4)
        frame = pd.DataFrame({"region": rng.choice(["north", "south"], 20_000), "x": rng.normal(size=20_000)})
        y = np.where(frame.region == "north", frame.x > 0, rng.random(20_000) < 0.5).astype(int)
        test = eh.TestSet(frame[:10_000], y[:10_000], reference=(frame[10_000:], y[10_000:]), seed=1)

        class Model:
            def predict(self, rows):
                return (rows["x"] > 0).astype(int).to_numpy()

        north, south = (test.score(Model(), given=f"region = '{where}'") for where in ("north", "south"))
        assert north.low > 0.85
        assert 0.5 in south.interval
        assert south.high < 0.65
        with pytest.raises(eh.QuestionError, match="Did you mean 'region'"):
            test.score(Model(), given="regoin = 'north'")

    def test_what_is_asked_is_told_of_a_model_that_answers_nonsense(self, binary):
        test = make(binary)
        with pytest.raises(eh.QuestionError, match=r"shape \(3,\)"):
            test.score(Fixed(lambda x: np.zeros(3)))
        with pytest.raises(eh.SettingError, match="Did you mean 'accuracy'"):
            test.score(Fixed(lambda x: np.zeros(len(x))), "acuracy")
        with pytest.raises(eh.QuestionError, match="never predicts any of the classes"):
            test.score(Fixed(lambda x: np.full(len(x), "who knows")))
        with pytest.raises(eh.QuestionError, match="not finite numbers"):
            test.score(Fixed(None, lambda x: np.full((len(x), 2), np.nan)), "brier")
        with pytest.raises(eh.QuestionError, match="one row at a time"):
            test.score(Fixed(lambda x: (x[:, 0] > 0.01 * len(x) % 2).astype(int)))
        assert test.holdout.rounds == 0

    def test_a_metric_of_probabilities_needs_a_model_that_has_them(self, binary):
        class LabelsAlone:
            def predict(self, rows):
                return (rows[:, 0] > 0).astype(int)

        test = make(binary)
        with pytest.raises(eh.QuestionError, match=r"no predict_proba.*'accuracy'\. Nothing was charged") as error:
            test.score(LabelsAlone(), "brier")
        assert not isinstance(error.value, eh.PriorError)
        with pytest.raises(eh.QuestionError, match=r"Expected \(10000, 2\)\. Nothing was charged"):
            test.score(Fixed(None, lambda x: np.full((len(x), 3), 0.1)), "brier")
        assert test.holdout.rounds == 0

    def test_a_model_that_fails_on_private_rows_tells_nothing(self, binary):
        """Twins but for one row on which the model raises: no error, one wrong prediction."""
        (x, y), reference, _ = binary
        odd = x.copy()
        odd[17, 0] = 1e6

        def fails(rows):
            if (np.abs(rows[:, 0]) > 1e5).any():
                raise ValueError(f"found {rows[:, 0].max()}")
            return (rows[:, 0] > 0).astype(int)

        calm = eh.TestSet(x, y, reference=reference, seed=1).score(Fixed(fails))
        wild = eh.TestSet(odd, y, reference=reference, seed=1).score(Fixed(fails))
        assert abs(wild.value - calm.value) < 0.01
        assert wild.surprise == calm.surprise

    @pytest.mark.parametrize("labels", [bool, float, int, object, str, "int8", "category"])
    @pytest.mark.parametrize("said", [int, float, bool, object, str])
    def test_labels_and_predictions_may_be_written_differently(self, labels, said):
        """1, 1.0 and True are one label; '1' is another, and a model that says nothing else is told so."""
        rng = np.random.default_rng(11)
        x = rng.normal(size=(2_000, 1))
        truth = (x[:, 0] > 0).astype(int)
        y = pd.Series(truth).astype(labels) if labels != "category" else pd.Series(truth).astype("category")
        test = eh.TestSet(x[:1000], y[:1000], reference=(x[1000:], y[1000:]), seed=1)
        model = Fixed(lambda rows: (rows[:, 0] > 0).astype(int).astype(said))
        if (labels is str) != (said is str):
            with pytest.raises(eh.QuestionError, match="never predicts"):
                test.score(model)
        else:
            score = test.score(model)
            assert 1.0 in score.interval  # the model knows, and
            assert score.low > 0.9  # the score does not hang on how labels are written

    def test_auc_knows_which_class_is_positive(self, binary):
        model = LogisticRegression().fit(*binary[1])
        own = sk.roc_auc_score(binary[0][1], model.decision_function(binary[0][0]))
        for positive in (0, 1):
            assert own in make(binary, pairs=True, positive=positive).score(model, "auc").interval
        x, y = world(6_000, 9, classes=3)
        three = eh.TestSet(x[:3000], y[:3000], reference=(x[3000:], y[3000:]), pairs=True, seed=1)
        with pytest.raises(eh.SettingError, match="positive="):
            three.score(LogisticRegression().fit(x[3000:], y[3000:]), "auc")
        with pytest.raises(eh.SettingError, match="reference="):
            eh.TestSet(x, y, classes=[0, 1, 2], pairs=True)

    def test_classes_keep_their_order(self):
        rng = np.random.default_rng(10)
        y = rng.choice(["low", "mid", "high"], 3_000)
        names = ["low", "mid", "high"]
        table = np.stack([np.where(y == name, 0.98, 0.01) for name in names], axis=1)
        test = eh.TestSet(np.arange(3_000.0)[:, None], y, classes=names, seed=1)
        assert test.classes.tolist() == names
        assert test.score_predictions(table, "log_loss").high < 0.5

    def test_labels_outside_the_declared_range_are_refused_without_naming_them(self):
        x, y = np.zeros((50, 1)), np.linspace(0, 10, 50)
        for wrong in (77.5, np.nan):
            y[3] = wrong
            with pytest.raises(eh.DataError) as error:
                eh.TestSet(x, y, task="regression", low=0, high=10)
            assert "77" not in str(error.value)

    def test_a_model_that_never_says_yes_has_no_precision(self, binary):
        assert make(binary).score(Fixed(lambda x: np.zeros(len(x), int)), "precision").value == 0.0


class TestCompare:
    @pytest.mark.filterwarnings("ignore:.*charged again:everhold.errors.SearchWarning")
    def test_better_worse_and_cannot_tell(self, binary):
        good, bad = LogisticRegression().fit(*binary[1]), DecisionTreeClassifier(max_depth=1, random_state=0)
        bad.fit(binary[1][0][:, 1:], binary[1][1])
        worse = Fixed(lambda x: bad.predict(x[:, 1:]))
        test = make(binary)
        assert test.compare(good, worse).verdict == "better"
        assert test.compare(worse, good).verdict == "worse"
        assert test.compare(good, good).verdict == "cannot tell"
        assert test.compare(good, worse, "error").verdict == "better"
        found = test.compare(good, worse)
        assert str(found).startswith("the first model is better (accuracy")
        assert eh.ModelVerdict.from_json(found.to_json()) == found
        assert test.difference(good, worse).verdict == "better"
        assert test.difference(good, good).verdict == "cannot tell"
        difference = np.mean(good.predict(binary[0][0]) == binary[0][1]) - np.mean(
            worse.predict(binary[0][0]) == binary[0][1]
        )
        assert difference in test.difference(good, worse).interval

    def test_metrics_that_are_no_means_cannot_be_compared(self, binary):
        model = LogisticRegression().fit(*binary[1])
        with pytest.raises(eh.SettingError, match="not a mean over rows"):
            make(binary).compare(model, model, "f1")


class TestPriors:
    def test_the_repr_says_which_is_used(self, binary):
        shown = {prior: repr(make(binary, prior=prior)) for prior in ("uniform", "baseline", "labelled")}
        assert "equally likely labels" in shown["uniform"]
        assert "baseline model" in shown["baseline"]
        assert "their own labels" in shown["labelled"]
        assert "prior" in make(binary)._repr_html_()
        assert "private" in make(binary)._repr_html_()

    def test_the_baseline_s_probabilities_are_the_prior(self):
        """Labels that are 1 in 9 of 10 rows: the prior expects a model that always says 1 to be right about that often."""
        rng = np.random.default_rng(8)
        x, y = rng.normal(size=(4_000, 2)), (rng.random(4_000) < 0.9).astype(int)
        expected = {}
        for prior in ("uniform", "baseline"):
            test = eh.TestSet(x[:2000], y[:2000], reference=(x[2000:], y[2000:]), prior=prior, seed=1)
            right = np.repeat([0, 1], 2000) == 1
            expected[prior] = test.holdout.try_out(eh.Values(reference=right)).prior
        assert expected["uniform"] == pytest.approx(0.5)
        assert expected["baseline"] == pytest.approx(0.9, abs=0.03)

    def test_overfitted_models_surprise_the_labelled_prior_most(self, binary):
        """Forty trees that know the reference by heart: THEORY's reason for the default."""
        (x, y), (x_train, y_train), _ = binary
        surprises = {}
        for prior in ("uniform", "labelled"):
            test = eh.TestSet(x[:3000], y[:3000], reference=(x_train[:3000], y_train[:3000]), prior=prior, seed=1)
            for depth in range(1, 41):
                model = DecisionTreeClassifier(max_depth=depth, max_features=2, random_state=depth)
                test.score(model.fit(x_train[:3000], y_train[:3000]))
            surprises[prior] = test.holdout.surprises
        assert surprises["uniform"] < surprises["labelled"]

    def test_public_test_features_need_no_second_predictions(self):
        x, y = world(4_000, 5)
        test = eh.TestSet(x, y, classes=[0, 1], seed=1)
        told = (x[:, 0] > 0).astype(int)
        assert np.mean(told == y) in test.score_predictions(told).interval
        assert "test features" in repr(test)
        other = eh.TestSet(x[:2000], y[:2000], reference=x[2000:], classes=[0, 1], seed=1)
        with pytest.raises(eh.QuestionError, match="reference="):
            other.score_predictions(told[:2000])
        assert other.score_predictions(told[:2000], reference=told[2000:]).round == 1

    def test_frames_of_both_kinds(self):
        x, y = world(4_000, 6)
        names = ["a", "b", "c", "d"]
        for frame in (pd.DataFrame(x, columns=names), pl.DataFrame({n: x[:, j] for j, n in enumerate(names)})):
            test = eh.TestSet(frame[:2000], y[:2000], reference=(frame[2000:], y[2000:]), seed=1)
            model = Fixed(lambda rows: (rows[:, 0] > 0).astype(int))
            assert np.mean((x[:2000, 0] > 0) == y[:2000]) in test.score(model, given="b > -3").interval

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"task": "ranking"}, "classification"),
            ({"prior": "hope"}, "uniform"),
            ({"positive": 7}, "not among"),
            ({"task": "regression", "low": 3.0}, "declared range"),
            ({"least_probability": 0.7}, "least_probability"),
            ({"classes": [0]}, "at least two"),
            ({"classes": [0, 1, 1]}, "classes has 1 more than once"),
        ],
    )
    def test_nonsense_is_refused(self, binary, settings, said):
        with pytest.raises(eh.EverholdError, match=said):
            make(binary, **settings)

    def test_labels_nobody_spoke_of_are_refused_without_naming_them(self, binary):
        (x, y), reference, _ = binary
        strange = y.copy()
        strange[17] = 99
        with pytest.raises(eh.DataError) as error:
            eh.TestSet(x, strange, reference=reference)
        assert "99" not in str(error.value)
        with pytest.raises(eh.PriorError, match="labelled public rows"):
            eh.TestSet(x, y, reference=reference[0], classes=[0, 1], prior="baseline")
        with pytest.raises(eh.SettingError, match="public facts"):
            eh.TestSet(x, y, reference=reference[0])


@pytest.fixture
def processes():
    """joblib keeps its processes for the next search; nothing of a test is left behind."""
    yield
    get_reusable_executor().shutdown(wait=True)


class TestSearches:
    @pytest.mark.usefixtures("processes")
    def test_a_grid_with_two_processes_enters_every_candidate_once(self, binary, tmp_path):
        """Exactly one entry a candidate, none lost; nothing is disclosed before the choice."""
        path = tmp_path / "test.everhold"
        test = make(binary, path=path)
        grid = {"max_depth": [1, 2, 3, 4, 5], "min_samples_leaf": [1, 50]}
        search = GridSearchCV(
            DecisionTreeClassifier(random_state=0), grid, scoring=test.scorer(), cv=test.cv(binary[1][0]), n_jobs=2
        )
        search.fit(*binary[1])
        assert test.holdout.rounds == 0
        assert sorted(entry.number for entry in test.entries) == list(range(1, 11))
        assert sorted(search.cv_results_["mean_test_score"]) == pytest.approx(sorted(map(float, test.entries)))
        assert {path.stat().st_mode & 0o077 for path in (tmp_path / "test.everhold.entries").iterdir()} == {0}
        winner = test.winner()
        model = DecisionTreeClassifier(**winner.params).fit(*binary[1])
        own = [
            np.mean(DecisionTreeClassifier(**entry.params).fit(*binary[1]).predict(binary[0][0]) == binary[0][1])
            for entry in test.entries
        ]
        assert own[winner.index] == max(own)
        assert np.mean(model.predict(binary[2][0]) == binary[2][1]) in winner.score.interval
        assert test.holdout.audit().ok

    def test_random_search_and_cross_validate(self, binary):
        test = make(binary)
        search = RandomizedSearchCV(
            DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3, 4]}, n_iter=3, random_state=0,
            scoring=test.scorer("error"), cv=test.cv(binary[1][0]),
        )  # fmt: skip
        search.fit(*binary[1])
        assert len(test.entries) == 3
        assert (search.cv_results_["mean_test_score"] <= 0).all(), "losses are negated"
        found = cross_validate(GaussianNB(), *binary[1], scoring=test.scorer(), cv=test.cv(binary[1][0]))
        assert len(test.entries) == 4
        assert test.holdout.rounds == 0
        assert len(found["test_score"]) == 1

    def test_a_test_set_in_memory_belongs_to_one_process(self, binary, monkeypatch):
        test = make(binary)
        with pytest.raises(eh.LedgerError, match="Make it durable"):
            test.open_to_processes()
        monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a fork
        with pytest.raises(eh.LedgerError, match="only the process that made it can ask"):
            test.score(Fixed(lambda x: np.zeros(len(x), int)))

    def test_a_search_without_training_rows_is_refused(self, binary):
        with pytest.raises(eh.DataError, match="Expected the training rows"):
            make(binary).cv(np.empty((0, 4)))

    def test_a_scorer_in_memory_cannot_leave_its_process(self, binary):
        with pytest.raises(eh.LedgerError, match="path="), pytest.warns(SearchWarning, match=r"path='test\.everhold'"):
            pickle.dumps(make(binary).scorer())

    def test_a_test_set_that_was_closed_stops_the_search(self, binary):
        """Not NaN, and no warning: the search ends with the reason."""
        _, reference, _ = binary
        test = make(binary)
        test.close([GaussianNB().fit(*reference)])
        search = GridSearchCV(
            DecisionTreeClassifier(),
            {"max_depth": [1, 2, 4, 8]},
            scoring=test.scorer(generation_size=2),
            cv=test.cv(reference[0]),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(SearchStopped, match="closed by its last act"):
                search.fit(*reference)

    def test_an_exhausted_test_set_says_so(self, binary):
        (x, y), reference, _ = binary
        test = eh.TestSet(x[:1500], y[:1500], reference=(reference[0][:1500], reference[1][:1500]), half_width=0.15, seed=1)
        trees = (DecisionTreeClassifier(max_depth=1 + i % 8, random_state=i).fit(*reference) for i in range(400))
        with pytest.raises(eh.PrecisionExhausted, match="cannot be kept"):
            list(map(test.score, trees))
        assert test.exhausted is not None
        assert test.holdout.rounds >= 2, "some were answered before"

    def test_optuna_s_callback_stops(self, binary):
        test = make(binary)

        class Study:
            stopped = False

            def stop(self):
                self.stopped = True

        study = Study()
        callback = test.optuna_callback()
        callback(study, None)
        assert not study.stopped
        test.exhausted = eh.PrecisionExhausted("no more", asked=1.0, left=0.0, needed=1.0, more_rows=None)
        callback(study, None)
        assert study.stopped

    def test_a_durable_test_set_goes_on(self, binary, tmp_path):
        path = tmp_path / "test.everhold"
        model = LogisticRegression().fit(*binary[1])
        first = make(binary, path=path)
        one = first.score(model)
        first.release()
        again = make(binary, path=path)
        assert again.holdout.rounds == 1
        assert again.score(model) == one
        assert again.score(LogisticRegression(C=0.01).fit(*binary[1])).round == 2
        again.release()
        with pytest.raises(eh.LedgerError, match="not the rows"):
            eh.TestSet(binary[0][0], 1 - binary[0][1], reference=binary[1], path=path, seed=1)
        for other, said in (
            ({"reference": (binary[1][0][:50], binary[1][1][:50])}, "other public rows"),
            ({"reference": binary[2]}, "other public rows"),
            ({"prior": "baseline"}, "another prior"),
            ({"confidence": 0.999}, "confidence = 0.95"),
            ({"known_rows": 5}, "known_rows = 0"),
            ({"half_width": 0.2}, "half_width = None"),
        ):
            with pytest.raises(eh.LedgerError, match=said):
                eh.TestSet(*binary[0], **({"reference": binary[1], "path": path, "seed": 1} | other))
        without_seed = eh.TestSet(*binary[0], reference=binary[1], path=path)
        assert without_seed.holdout.rounds == 2, "the seed is the study's"
        without_seed.release()
        assert one.round == 1

    def test_rows_that_are_no_columns_are_bound_too(self, tmp_path):
        texts = [f"text number {i}" for i in range(60)]
        y = np.arange(60) % 2
        first = eh.TestSet(texts, y, classes=[0, 1], path=tmp_path / "t.everhold", seed=1)
        first.release()
        with pytest.raises(eh.LedgerError, match="not the rows"):
            eh.TestSet([*texts[:-1], "another"], y, classes=[0, 1], path=tmp_path / "t.everhold", seed=1)

    def test_a_pickled_search_carries_no_private_row(self, binary, tmp_path):
        test = make(binary, path=tmp_path / "t.everhold")
        sent = pickle.dumps(test.scorer())
        assert binary[0][0].tobytes()[:64] not in sent
        assert len(sent) < 1000
        assert os.stat(tmp_path / "t.everhold.rows").st_mode & 0o077 == 0
        model = LogisticRegression().fit(*binary[1])
        assert pickle.loads(sent)(model) == float(test.enter(model))
        assert len(test.entries) == 1
        assert test.holdout.rounds == 0
        test.release()

    def test_threads_take_turns(self, binary, tmp_path):
        """Three threads on a shared test set: every score there, every round once."""
        test = make(binary, path=tmp_path / "t.everhold")
        test.open_to_processes()
        models = [LogisticRegression(C=0.001 * 2**place).fit(*binary[1]) for place in range(12)]
        with ThreadPoolExecutor(3) as pool:
            scores = list(pool.map(test.score, models))
        assert sorted(score.round for score in scores) == list(range(1, 13))
        assert test.holdout.audit().ok
        test.release()

    def test_six_lines(self):
        """From `train_test_split` to a protected score, as a new user would."""
        X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
        model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X_train, y_train)
        test = eh.TestSet(X_test, y_test, reference=(X_train, y_train), seed=1)
        score = test.score(model)
        assert np.mean(model.predict(X_test) == y_test) in score.interval
        assert "<svg" in score._repr_html_()
        assert str(score).startswith("accuracy 0.")
