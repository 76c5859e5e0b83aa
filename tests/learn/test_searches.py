"""Searches on a test set: entries disclose nothing, the winner is the right one, and its interval is valid.

Statistical tests state how often they fail by chance.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold.bounds.budget import Budget
from everhold.errors import SearchWarning
from everhold.learn.forecasts import choice_weights, shrunk
from everhold.learn.metrics import METRICS, MetricContext, measured
from everhold.ledger.act_prices import price_act
from everhold.ledger.rounds import ActStart


def rows(size, seed, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size, 4))
    return X, ((X[:, 0] + 0.5 * X[:, 1] + noise * rng.normal(size=size)) > 0).astype(int)


TRAIN, PRIVATE, FRESH = rows(400, 0), rows(500, 1), rows(20_000, 2)


def make(**options):
    return eh.TestSet(*PRIVATE, reference=TRAIN, **{"seed": 1} | options)


def trees(count):
    return [DecisionTreeClassifier(max_depth=1 + i % 6, max_features=2, random_state=i).fit(*TRAIN) for i in range(count)]


def right(model, data):
    return np.mean(model.predict(data[0]) == data[1])


# entries and the winner ---------------------------------------------------------------------------------------------


def test_entries_disclose_nothing():
    """Two sets of private labels: entering gives the same forecasts, the same price and the same record."""
    others = (PRIVATE[0], 1 - PRIVATE[1])
    found = []
    for private in (PRIVATE, others):
        test = eh.TestSet(*private, reference=TRAIN, seed=1)
        entries = [test.enter(model) for model in trees(8)]
        found.append(([entry.to_json() for entry in entries], test.holdout.budget, len(test.holdout.session.journal)))
    assert found[0] == found[1]


def test_the_winner_is_the_best_on_the_private_rows():
    test, models = make(), trees(60)
    for model in models:
        test.enter(model)
    winner = test.winner()
    own = [right(model, PRIVATE) for model in models]
    assert own[winner.index] == max(own)
    assert own[winner.index] in winner.score.interval
    assert right(models[winner.index], FRESH) in winner.score.interval
    assert winner.entries == 60
    assert winner.generations == 1
    assert test.holdout.audit().ok


def test_the_winner_again_costs_nothing():
    test = make()
    for model in trees(10):
        test.enter(model)
    first, budget = test.winner(), test.holdout.budget
    assert test.winner() == first
    assert test.holdout.budget == budget
    assert eh.Winner.from_json(first.to_json()) == first
    assert str(first).startswith("entry ")


def test_the_same_model_is_entered_once():
    test = make()
    one = LogisticRegression().fit(*TRAIN)
    assert test.enter(one) == test.enter(LogisticRegression().fit(*TRAIN))
    assert len(test.entries) == 1


def test_generations_keep_or_replace_the_champion():
    test, models = make(), trees(40)
    own = [right(model, PRIVATE) for model in models]
    order = np.argsort(own)
    middle, best, worst = order[:20], order[-1], order[20:39]
    for place in middle:
        test.enter(models[place])
    first = test.winner(read=False)
    assert first.score is None
    before = test.holdout.budget.nats
    test.enter(models[best])
    second = test.winner(read=False)
    assert second.entry.number == 21
    replaced = test.holdout.budget.nats - before
    for place in worst:
        test.enter(models[place])
    third = test.winner()
    stayed = test.holdout.budget.nats - before - replaced
    assert third.entry.number == 21, "the champion stays"
    assert third.generations == 3
    assert third.score is not None
    # One of two generations: 1/2 for a new champion, then 2/3 for the old one; reading it comes on top.
    assert replaced == pytest.approx(np.log(2.0) + np.log(64 / 63), abs=0.01)
    assert stayed < np.log(1.5) + np.log(64 / 63) + 8.0
    assert test.holdout.audit().ok


def test_every_metric_may_be_the_criterion():
    """AUC and F1 too: only the index is disclosed."""
    models = [LogisticRegression(C=c).fit(*TRAIN) for c in (1e-4, 1e-2, 1.0)] + [
        DecisionTreeClassifier(max_depth=d, random_state=0).fit(*TRAIN) for d in (1, 2, 3)
    ]
    test = make()
    auc = [roc_auc_score(PRIVATE[1], model.predict_proba(PRIVATE[0])[:, 1]) for model in models]
    f1 = [f1_score(PRIVATE[1], model.predict(PRIVATE[0])) for model in models]
    assert test.best_of(models, "auc").index == int(np.argmax(auc))
    assert test.best_of(models, "f1").index == int(np.argmax(f1))
    for model in models:
        test.enter(model, "auc")
    winner = test.winner("auc")
    assert winner.index == int(np.argmax(auc))
    assert winner.score is None, "an interval of AUC needs pairs"
    assert test.holdout.audit().ok


def test_metrics_of_rows_are_those_of_scikit_learn():
    context = MetricContext(np.array([0, 1]), 1, 0.0, 1.0, 0.01)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    scores = np.round(rng.random(300) + 0.5 * y, 1)  # with ties
    assert measured(METRICS["auc"], context, scores, y) == pytest.approx(roc_auc_score(y, scores))
    guess = (scores > 0.8).astype(int)
    assert measured(METRICS["f1"], context, guess, y) == pytest.approx(f1_score(y, guess))
    scores[:20] = np.nan
    assert measured(METRICS["auc"], context, scores, y) < 1.0


def test_a_model_that_fails_on_private_rows_only_loses():
    class Fails(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            return self

        def predict(self, X):
            if X.shape[0] and np.isin(X[:, 0], PRIVATE[0][:, 0]).any():
                raise ValueError("a private row")
            return (X[:, 0] > 0).astype(int)

    test = make()
    test.enter(Fails().fit(*TRAIN), folds=0)
    test.enter(LogisticRegression().fit(*TRAIN))
    assert test.winner().entry.number == 2


def test_what_was_not_entered_cannot_win():
    with pytest.raises(eh.QuestionError, match="no model was entered for accuracy"):
        make().winner()


# forecasts ----------------------------------------------------------------------------------------------------------


def test_forecasts_are_held_out():
    """A tree that knows its training rows by heart is not foreseen as perfect."""
    test = make()
    tree = DecisionTreeClassifier(random_state=0).fit(*TRAIN)
    assert right(tree, TRAIN) == 1.0
    entry = test.enter(tree)
    assert entry.forecast.source == "cross-validated"
    assert float(entry) < 0.93
    forest = test.enter(RandomForestClassifier(60, oob_score=True, random_state=0).fit(*TRAIN))
    assert forest.forecast.source == "out of bag"
    assert float(forest) < 0.95
    given = test.enter(LogisticRegression().fit(*TRAIN), expect=0.9)
    assert given.forecast.source == "expected"
    assert float(given) == 0.9
    function = test.enter(lambda X: (X[:, 0] > 0).astype(int))
    assert function.forecast.source == "prior"
    assert "the prior alone" in str(function)
    assert "not a score" in str(function)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([0.5], "weights has 1 numbers for 2 models"),
        ([0.5, -0.25], "weights contains -0.25"),
        ([0.75, 0.5], "weights have the sum 1.25"),
    ],
)
def test_wrong_weights_are_named(weights, said):
    x, y = np.arange(200.0)[:, None], np.arange(200) % 2
    test = eh.TestSet(x, y, classes=[0, 1], seed=1)
    models = [lambda rows: np.zeros(len(rows), int), lambda rows: np.ones(len(rows), int)]
    with pytest.raises(eh.QuestionError, match=said):
        test.best_of(models, weights=weights)


def test_weights_of_candidates_sum_to_at_most_one():
    rng = np.random.default_rng(0)
    for count in (1, 2, 7, 1_000):
        given = [None if rng.random() < 0.2 else float(rng.random()) for _ in range(count)]
        weights = choice_weights(given, 0.035, 1.0)
        assert sum(weights) <= 1
        assert min(weights) >= 0.4 / count
        known = [(one, weight) for one, weight in zip(given, weights, strict=True) if one is not None]
        assert not known or max(known)[1] == max(weights)


def test_forecasts_of_one_of_many_are_shrunk():
    same = [0.8, 0.81, 0.79, 0.8]
    assert shrunk(0.81, same, 100.0, 1.0) == pytest.approx(0.8)
    apart = [0.5, 0.9, 0.7, 0.6]
    assert 0.7 < shrunk(0.9, apart, 1_000.0, 1.0) < 0.9
    assert shrunk(0.9, [0.9], 100.0, 1.0) == 0.9


def test_many_scores_that_overlap_are_worth_a_warning_once():
    test = make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for c in np.logspace(-1, 1, 30):
            test.score(LogisticRegression(C=c).fit(*TRAIN))
    said = [str(one.message) for one in caught if one.category is SearchWarning]
    assert len(said) == 1
    assert "all 20 intervals overlap" in said[0]


# validity -----------------------------------------------------------------------------------------------------------


def test_winners_of_noise_are_covered_and_the_uncharged_control_is_not():
    """200 guesses without any skill, 60 sessions: the winner's interval has 0.5 in it.

    A session misses with probability at most 5 %; more than 9 of 60 then have a probability below 0.1 %. The control reads
    the winner as if it had been the only candidate, and misses most of the time.
    """
    missed = control = 0
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        X, y = rng.random((200, 1)), rng.integers(0, 2, 200)
        test = eh.TestSet(X, y, classes=[0, 1], seed=seed)
        guesses = rng.integers(0, 2, (200, 200))
        for guess in guesses:
            test.enter(lambda _, guess=guess: guess)
        winner = test.winner()
        missed += 0.5 not in winner.score.interval
        best = max(int(np.sum(guess == y)) for guess in guesses)
        control += stats.binomtest(best, 200).pvalue < 0.05
    assert stats.binom.sf(9, 60, 0.05) < 0.001
    assert missed <= 9
    assert control > 40


# the other acts -----------------------------------------------------------------------------------------------------


def test_a_reading_is_narrower_than_a_score_and_free_the_second_time():
    test, model = make(), LogisticRegression().fit(*TRAIN)
    scored, read = make().score(model), test.read(model)
    assert read.high - read.low < scored.high - scored.low
    assert right(model, PRIVATE) in read.interval
    budget = test.holdout.budget
    assert test.read(model) == read
    assert test.holdout.budget == budget


@pytest.mark.parametrize("metric", ["balanced_accuracy", "precision", "recall", "f1", "brier", "log_loss"])
def test_every_metric_can_be_read_and_closed(metric):
    model = LogisticRegression().fit(*TRAIN)
    for found in (make().read(model, metric), make().close([model, trees(1)[0]], metric)[0]):
        assert found.low < found.value < found.high
        assert found.metric == metric


def test_the_last_act_reads_all_models_and_ends_the_test_set():
    test, models = make(), trees(30)
    scores = test.close(models)
    for model, score in zip(models, scores, strict=True):
        assert right(model, PRIVATE) in score.interval
        assert right(model, FRESH) in score.interval
        count = round(500 * right(model, PRIVATE))
        exact = stats.binomtest(count, 500).proportion_ci(1.0 - 0.05 / 30)  # Clopper and Pearson's, fixed in advance
        assert score.high - score.low < 1.1 * (exact.high - exact.low)
    assert test.read(models[0]).interval == scores[0].interval, "what was read then is returned again"
    with pytest.raises(eh.HoldoutClosed):
        test.read(LogisticRegression().fit(*TRAIN))


def test_a_regression_in_eight_lines():
    X, y = load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=200, random_state=0)
    test = eh.TestSet(X_test, y_test, reference=(X_train, y_train), task="regression", seed=0)
    models = [Ridge(alpha).fit(X_train, y_train) for alpha in (0.01, 0.1, 1.0, 10.0, 1000.0)]
    for model in models:
        test.enter(model)
    winner = test.winner()
    errors = [np.mean(np.abs(model.predict(X_test) - y_test)) for model in models]
    assert winner.index == int(np.argmin(errors))
    assert errors[winner.index] in winner.score.interval
    assert winner.score.high - winner.score.low < 35.0, "in the label's units"
    r2 = test.read(models[winner.index], "r2")
    assert np.isfinite(r2.low)


# processes ----------------------------------------------------------------------------------------------------------


def test_entries_wait_in_files_for_another_process(tmp_path):
    path = tmp_path / "test.everhold"
    test, models = make(path=path), trees(12)
    for model in models:
        test.enter(model)
    test.release()
    saved = tmp_path / "rows.pickle"
    saved.write_bytes(pickle.dumps((PRIVATE, TRAIN, str(path))))
    program = (
        "import pickle, sys, everhold as eh\n"
        "private, train, path = pickle.load(open(sys.argv[1], 'rb'))\n"
        "test = eh.TestSet(*private, reference=train, path=path, seed=1)\n"
        "print(test.winner().to_json())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(saved)], capture_output=True, text=True, check=True)
    winner = eh.Winner.from_json(done.stdout)
    own = [right(model, PRIVATE) for model in models]
    assert own[winner.index] == max(own)
    again = make(path=path)
    assert again.winner() == winner
    assert len(again.entries) == 12
    again.release()


def test_an_interrupted_choice_is_charged_and_chosen_again(monkeypatch):
    test = make()
    for model in trees(6):
        test.enter(model)
    before = test.holdout.budget.nats
    with monkeypatch.context() as broken:
        broken.setattr("everhold.session.session_acts._no_error", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            test.winner()
    winner = test.winner()
    assert winner.generations == 1
    assert test.holdout.budget.nats > before + np.log(128.0)
    assert test.holdout.audit().ok


def test_cross_validation_does_not_keep_other_processes_waiting(monkeypatch):
    """The forecast is made before the turn: whoever searches beside it can enter meanwhile."""
    test, turns = make(), []

    class Slow(LogisticRegression):
        def fit(self, X, y):
            turns.append(test._study.lock._is_owned())
            return super().fit(X, y)

    model = Slow().fit(*TRAIN)
    test.enter(model)
    assert turns == [False] * 6  # fitted once, then five folds
    test.enter(model)
    assert len(turns) == 11, "a model with code of its own is entered anew"


def test_a_guess_is_not_for_a_group():
    test, model = make(), LogisticRegression().fit(*TRAIN)
    for act in (test.score, test.read):
        with pytest.raises(eh.SettingError, match="expect= is for the score of all rows"):
            act(model, given="x0 > 0", expect=0.8)
    assert test.holdout.rounds == 0


def test_an_entry_whose_file_is_gone_is_named(tmp_path):
    path = tmp_path / "test.everhold"
    test = make(path=path)
    for model in trees(3):
        test.enter(model)
    number = test.winner().entry.number
    test.release()
    for file in (tmp_path / "test.everhold.entries").iterdir():
        file.unlink()
    again = make(path=path)
    with pytest.raises(eh.LedgerError, match=rf"entry {number} is in the record, and its file .*\.entry is not there"):
        again.winner()
    again.release()


@pytest.mark.parametrize("generation", [0, 1, 4])
def test_what_a_generation_costs_sums_to_one(generation):
    """Over all that a choice can disclose, an interruption included: the probabilities of a forecast, but for the 1/128
    of acts that may also end without a value."""
    weights = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
    names = [{"kind": "values", "name": f"entry {number}: x"} for number in range(1, 4 + bool(generation))]
    options = {"weights": [str(one) for one in weights], "generation": generation, "by": "accuracy"}
    begun, before = ActStart("best_of", tuple(names), options), Budget(0.05)
    costs = [price_act(before, begun, outcome)[0] for outcome in range(len(names))]
    costs.append(price_act(before, begun, None, interrupted=True)[0])
    assert sum(np.exp(-(cost - before.nats)) for cost in costs) == pytest.approx(1.0 - 1.0 / 128.0, abs=1e-5)
    assert costs[2] - costs[0] == pytest.approx(np.log(3.0), abs=1e-5), "a less likely candidate costs more"


def test_mcnemar_judges_only_where_it_is_proved():
    """Rows with public features differ in their labels' distributions: with three classes there is no proof."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 1))
    for classes, reference, method in (
        ([0, 1], None, "mcnemar"),
        ([0, 1, 2], None, "intervals"),
        ([0, 1, 2], rng.random((300, 1)), "mcnemar"),
    ):
        y = rng.integers(0, len(classes), 300)
        test = eh.TestSet(X, y, reference=reference, classes=classes, seed=1)
        test.compare(lambda X: np.zeros(len(X), int), lambda X: np.ones(len(X), int))
        assert test.holdout.session.journal.recorded_acts[-1][0].begun.options["method"] == method


def test_the_size_of_a_generation_is_checked():
    made = eh.TestSet(np.arange(40.0)[:, None], np.arange(40) % 2, classes=[0, 1], seed=0)
    assert made.scorer(generation_size=7)._generation_size == 7
    assert made.scorer()._generation_size is None
    with pytest.raises(eh.SettingError, match="generation_size"):
        made.scorer(generation_size=-1)
