"""What a score says of itself: where its value comes from, how exact it is, and that it is the same when asked again."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import everhold as eh

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(2, 1_500, 3))
y, z = ((one[:, 0] + 0.3 * RNG.normal(size=1_500) > 0).astype(int) for one in (X, Z))


@pytest.fixture
def test_set():
    return eh.TestSet(X, y, reference=(Z, z), seed=1)


def answer(*, surprise=False, act="ask", value=0.4):
    return eh.Answer(value, 0.3, 0.5, surprise, 1, 5.0, "share", act)


@pytest.mark.parametrize(
    ("parts", "source", "forecasts"),
    [
        ([answer()], "forecast only", 1),
        ([answer(), answer()], "forecast only", 2),
        ([answer(surprise=True), answer()], "partly forecast", 1),
        ([answer(surprise=True)], "surprise", 0),
        ([answer(surprise=True), answer(surprise=True)], "surprise", 0),
        ([answer(act="read")], "private reading", 0),
        ([answer(act="read"), answer(act="close")], "private reading", 0),
    ],
)
def test_a_score_says_where_its_value_comes_from(parts, source, forecasts):
    score = eh.Score("f1", 0.4, 0.3, 0.5, tuple(parts))
    assert score.source == source
    assert f", {source}, " in str(score)
    assert score.forecast_parts == forecasts
    assert score.is_forecast == (forecasts > 0)
    assert ("measured on the private rows" in score.kind_text) == (source in ("surprise", "partly forecast"))
    assert (source in score._repr_html_()) == score.is_forecast
    assert eh.Score.from_json(score.to_json()).source == source


def test_a_score_of_several_questions_is_partly_a_forecast():
    """Of balanced accuracy's four questions the forecasts of two hold, because half of all rows are in each class."""
    test = eh.TestSet(X, y, reference=Z, classes=[0, 1], seed=1)
    score = test.score(lambda rows: (rows[:, 0] > 1.2).astype(int), "balanced_accuracy")
    assert 0 < score.forecast_parts < len(score.parts)
    assert "partly forecast" in str(score)
    assert "partly forecast: " in score.kind_text


def test_a_group_s_score_shows_both_of_its_questions(test_set):
    score = test_set.read(LogisticRegression().fit(Z, z), given="x1 > 0")
    assert len(score.parts) == 2
    assert score.source == "private reading"


@pytest.mark.parametrize("metric", ["accuracy", "f1", "brier", "balanced_accuracy"])
@pytest.mark.parametrize("act", ["score", "read"])
def test_a_group_without_rows_has_no_value(test_set, act, metric):
    score = getattr(test_set, act)(LogisticRegression().fit(Z, z), metric, given="x1 > 1000")
    assert not score.seen
    assert np.isnan(score.value)
    assert f"{metric} no such rows seen; [" in str(score)
    assert "no such rows seen" in score._repr_html_()
    assert eh.Score.from_json(score.to_json()).to_json() == score.to_json()
    assert test_set.history().to_frame().value.isna().all()
    assert "no such rows seen" in test_set.history()._repr_html_()


def test_a_value_has_as_many_digits_as_its_interval_allows():
    for value, low, high, said in (
        (0.033412, 0.01, 0.2, "0.03 in"),
        (0.921161, 0.847, 0.967, "0.92 in"),
        (0.921161, 0.9205, 0.9217, "0.9212 in"),
        (45.361, 35.7, 62.6, "45 in"),
        (4512.7, 3500.0, 6000.0, "4,500 in"),
        (-0.0004, -0.1, 0.1, "0.00 in"),
    ):
        score = eh.Score("m", value, low, high, (answer(act="read"),), bottom=-10, top=1e5)
        assert f"m {said} [" in str(score)
        assert f"<b>{said.removesuffix(' in')}</b>" in score._repr_html_()
        assert score.value == value


class TestTheWinnersScore:
    def test_reading_the_winner_again_returns_its_score(self, test_set):
        trees = [DecisionTreeClassifier(max_depth=depth, random_state=0).fit(Z, z) for depth in (1, 3, 5)]
        for tree in trees:
            test_set.enter(tree)
        winner = test_set.winner()
        before = test_set.holdout.rounds, test_set.holdout.budget
        assert test_set.read(trees[winner.index]) == winner.score
        again = DecisionTreeClassifier(**winner.params).fit(Z, z)
        assert test_set.read(again, expect=0.9) == winner.score
        assert test_set.winner().score == winner.score
        assert (test_set.holdout.rounds, test_set.holdout.budget) == before
        assert test_set.read(trees[winner.index - 1]).round == 2, "another model is another question"
        assert test_set.read(trees[winner.index], given="x1 > 0") != winner.score

    def test_it_is_that_of_the_metric(self, test_set):
        model = LogisticRegression().fit(Z, z)
        test_set.enter(model)
        test_set.enter(model, "brier")
        first = test_set.winner().score
        brier = test_set.read(model, "brier")
        assert brier.metric == "brier"
        assert brier.round == 2
        assert test_set.read(model) == first
        assert test_set.winner("brier").score == brier, "and what was read before is the winner's"
        assert test_set.holdout.rounds == 2

    def test_of_several_questions(self, test_set):
        model = LogisticRegression().fit(Z, z)
        test_set.enter(model, "f1")
        assert test_set.winner("f1").score == test_set.read(model, "f1")


class TestPlot:
    @pytest.fixture(autouse=True)
    def _no_window(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        yield
        matplotlib.pyplot.close("all")

    def test_each_metric_has_a_panel(self, test_set):
        from matplotlib import pyplot

        model = LogisticRegression().fit(Z, z)
        with pytest.raises(eh.SettingError, match="nothing was scored"):
            test_set.plot()
        test_set.score(model, "log_loss", expect=0.3)
        test_set.read(model)
        test_set.read(model, "f1")
        panels = test_set.plot().figure.axes
        assert [one.get_title("left") for one in panels] == ["log_loss", "accuracy", "f1"]
        said = {one.get_text() for one in panels[-1].get_legend().get_texts()}
        assert said == {one.score.source for one in test_set.history()}
        assert panels[1].lines[-1].get_markerfacecolor() != "white"
        only = test_set.plot(metric="f1").figure.axes
        assert [one.get_title("left") for one in only] == ["f1"]
        ax = pyplot.figure().add_subplot()
        assert test_set.plot(ax, metric="f1") is ax
        with pytest.raises(eh.SettingError, match="room for one metric"):
            test_set.plot(ax)
        with pytest.raises(eh.SettingError, match="Did you mean 'accuracy'"):
            test_set.plot(metric="acuracy")

    def test_a_forecast_is_hollow(self, test_set):
        score = test_set.score(lambda rows: (rows[:, 1] > 0).astype(int))
        assert score.source == "forecast only"
        assert test_set.plot().lines[-1].get_markerfacecolor() == "white"
