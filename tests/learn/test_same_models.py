"""The same model, scored again, gets the recorded answer at no cost; whether models agree on private rows is never told."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold.learn.identity import digest_of, model_digest


def rows(size, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size, 4))
    return X, (X[:, 0] + 0.5 * rng.normal(size=size) > 0).astype(int)


@pytest.fixture
def test_set():
    return eh.TestSet(*rows(800, 0), reference=rows(1_000, 1), seed=0)


METRICS = ["accuracy", "f1", "brier", "log_loss", "balanced_accuracy"]


@pytest.mark.parametrize("metric", METRICS)
def test_a_model_that_was_scored_before_costs_nothing(test_set, metric):
    model = LogisticRegression().fit(*rows(1_000, 2))
    first = test_set.score(model, metric)
    asked, price = test_set.holdout.rounds, test_set.holdout.price
    test_set.score(DecisionTreeClassifier(max_depth=2, random_state=0).fit(*rows(1_000, 3)), metric)
    after = test_set.holdout.rounds
    assert test_set.score(model, metric) == first
    assert test_set.score(clone(model).fit(*rows(1_000, 2)), metric) == first  # fitted anew, to the same
    assert test_set.holdout.rounds == after > asked
    assert test_set.holdout.price >= price
    assert test_set.holdout.audit().ok


def test_groups_and_comparisons_too(test_set):
    one, other = LogisticRegression().fit(*rows(1_000, 2)), LogisticRegression(C=0.01).fit(*rows(900, 4))
    told = test_set.score(one, given="x0 > 0"), test_set.compare(one, other)
    asked = test_set.holdout.rounds
    assert (test_set.score(one, given="x0 > 0"), test_set.compare(one, other)) == told
    assert test_set.holdout.rounds == asked
    assert test_set.score(one, given="x0 > 1") != told[0]
    acts = len(test_set.holdout.session.journal.recorded_acts)
    verdicts = {"better": "worse", "worse": "better", "cannot tell": "cannot tell"}
    assert test_set.compare(other, one).verdict == verdicts[told[1].verdict], "the same question, the other way round"
    assert len(test_set.holdout.session.journal.recorded_acts) == acts
    assert test_set.holdout.rounds == asked + 2


def test_predictions_too():
    X, y = rows(600, 0)
    test = eh.TestSet(X, y, classes=[0, 1], seed=0)
    guess = (X[:, 0] > 0).astype(int)
    first = test.score_predictions(guess)
    assert test.score_predictions(guess.copy()) == first
    assert test.holdout.rounds == 1
    test.score_predictions(1 - guess)
    assert test.holdout.rounds == 2


@pytest.mark.parametrize("durable", [True, False])
def test_readers_of_the_record_cannot_guess_predictions_for_private_rows(tmp_path, durable):
    """Their owner is recognised, also after opening it again; the name is keyed, so that a guess cannot be tested."""
    guess = [(X[:, 1] > 2).astype(int) for X, _ in (rows(800, 0), rows(1_000, 1))]
    names = []
    for number in range(2):
        path = tmp_path / f"{number}.everhold" if durable else None
        test = eh.TestSet(*rows(800, 0), reference=rows(1_000, 1), seed=0, path=path, register=False)
        first = test.score_predictions(guess[0], reference=guess[1])
        if durable:
            test.release()
            test = eh.TestSet(*rows(800, 0), reference=rows(1_000, 1), seed=0, path=path, register=False)
        assert test.score_predictions(guess[0].copy(), reference=guess[1]) == first
        with test.turn() as holdout:
            assert holdout.rounds == 1
            assert holdout.audit().ok
            names.append(holdout.journal[1].name)
        told = digest_of(*guess, test.sides.context)
        test.score_predictions(1 - guess[0], reference=guess[1])
        with test.turn() as holdout:
            assert holdout.rounds == 2
        test.release()
        assert told not in str(names)
    assert names[0] != names[1], "what a reader can compute is the same in both"


class Rule:
    """Says what its threshold says, but for one spot."""

    def __init__(self, spot=None):
        self.spot = spot

    def predict(self, X):
        found = (np.asarray(X)[:, 0] > 0).astype(int)
        if self.spot is not None:
            found = np.where(np.all(np.isclose(X, self.spot), axis=1), 1 - found, found)
        return found


def test_whether_models_agree_on_private_rows_is_not_told(test_set):
    """Two models that agree on every public row are two questions, whether or not they agree on every private one.

    Else "asked before" would say whether a guessed row is among the private ones.
    """
    private = rows(800, 0)[0]
    rounds = []
    for spot in (None, private[7], np.full(4, 99.0)):
        test_set.score(Rule(spot))
        rounds.append(test_set.holdout.rounds)
    assert rounds == [1, 2, 3]


class Switched:
    """A model whose class, not its state, says where the threshold is."""

    threshold = 0.0

    def predict(self, X):
        return (np.asarray(X)[:, 0] > self.threshold).astype(int)


def test_models_with_code_of_their_own_are_asked_about_anew():
    """Whether such a model is still the one that was scored cannot be told; the recorded answer could be another's."""
    import functools

    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    rng = np.random.default_rng(0)
    test = eh.TestSet(
        rng.uniform(0, 1, (2_000, 2)),
        np.ones(2_000, int),
        reference=rng.uniform(-1, 0, (1_000, 2)),
        classes=[0, 1],
        seed=1,
    )
    model = Switched()
    assert test.score(model).low > 0.9
    try:
        Switched.threshold = 0.9  # the same on every public row
        with pytest.warns(eh.SearchWarning, match="charged again"):
            found = test.score(model)
        assert 0.1 in found.interval
        assert found.high < 0.5
    finally:
        Switched.threshold = 0.0
    inner = LogisticRegression().fit(*rows(100, 0))
    for one in (
        model,
        model.predict,
        functools.partial(lambda X, t: t < X, t=1),
        make_pipeline(FunctionTransformer(np.abs), FunctionTransformer(lambda X: X), inner),
        make_pipeline(FunctionTransformer(rows), inner),
    ):
        assert model_digest(one) is None
    assert model_digest(make_pipeline(FunctionTransformer(np.abs), inner)) is not None


def test_the_record_holds_nothing_of_what_a_model_has_seen():
    """The digest is taken before a private row is seen: what a model keeps of private rows is not in the ledger."""

    class Keeps(LogisticRegression):
        def predict(self, X):
            self.largest_ = float(np.max(X))
            return super().predict(X)

    names = []
    for odd in (0.0, 99.0):
        X, y = rows(500, 0)
        X[7, 1] += odd
        test = eh.TestSet(X, y, reference=rows(500, 1), seed=1)
        test.score(Keeps().fit(*rows(300, 2)))
        names.append(test.holdout.journal[1].name)
    assert names[0] == names[1]


class Odd:
    """Compares with nothing."""

    def __eq__(self, other):
        raise RuntimeError("a private value")

    __hash__ = None


@pytest.mark.parametrize(
    "odd", [None, Odd(), float("nan"), np.longdouble("1e400"), (1, 2), SystemExit, GeneratorExit, RuntimeError]
)
def test_what_a_model_says_of_one_private_row_does_not_show(odd):
    """That row counts as wrong; nothing is raised or warned about."""
    X, _ = rows(400, 0)
    y = np.where(X[:, 0] > 0, "yes", "no")
    X[7, 0] = 77.0

    def model(features):
        found = np.where(np.asarray(features)[:, 0] > 0, "yes", "no").astype(object)
        hit = np.asarray(features)[:, 0] == 77.0
        if hit.any():
            if isinstance(odd, type):
                raise odd("a private value")
            found[np.flatnonzero(hit)[0]] = odd
        return found

    test = eh.TestSet(X, y, reference=rows(300, 1)[0], classes=["no", "yes"], seed=1)
    assert 0.99 in test.score(model).interval


def test_another_positive_class_is_another_question(tmp_path):
    model = LogisticRegression().fit(*rows(300, 2))
    rounds = []
    for positive in (1, 0, 1):
        test = eh.TestSet(*rows(400, 0), reference=rows(300, 1), positive=positive, path=tmp_path / "t.everhold", seed=1)
        test.score(model, "precision")
        rounds.append(test.holdout.rounds)
        test.release()
    assert 0 < rounds[0] < rounds[1] == rounds[2]


class TestThingsThatPredict:
    def test_functions(self, test_set):
        found = test_set.score(lambda X: (X[:, 0] > 0).astype(int))
        assert 0.85 in found.interval

        def chances(X):
            p = 1 / (1 + np.exp(-3 * X[:, 0]))
            return np.column_stack([1 - p, p])

        assert test_set.score(chances, "log_loss").low > 0

    def test_what_cannot_predict_is_a_sentence(self, test_set):
        with pytest.raises(eh.QuestionError, match=r"a dict cannot predict.*Nothing was charged"):
            test_set.score({})
        assert test_set.holdout.rounds == 0

    @pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
    def test_boosters_give_probabilities(self, test_set, monkeypatch, package):
        """Stand-ins with the packages' interfaces: xgboost wants a DMatrix, both return the second class's probability."""

        class DMatrix:
            def __init__(self, rows):
                self.rows = rows

        def predict(_, X):
            rows = X.rows if package == "xgboost" else X
            return 1.0 / (1.0 + np.exp(-rows[:, 0]))

        monkeypatch.setitem(sys.modules, "xgboost", type(sys)("xgboost"))
        monkeypatch.setattr(sys.modules["xgboost"], "DMatrix", DMatrix, raising=False)
        booster = type("Booster", (), {"predict": predict, "__module__": f"{package}.core"})()
        own = [(test_set.sides.X[:, 0] > 0) == test_set.sides.labels]
        assert np.mean(own) in test_set.read(booster).interval
        assert test_set.read(booster, "log_loss").value > 0.0
        margins = type("Booster", (), {"predict": lambda _, X: 3.0 * predict(_, X), "__module__": f"{package}.core"})()
        with pytest.raises(eh.QuestionError, match=r"Expected probabilities.*Nothing was charged"):
            test_set.score(margins)


class TestContestFiles:
    @pytest.fixture
    def contest(self, tmp_path):
        labels = (np.random.default_rng(0).random(60) < 0.5).astype(int)
        return eh.Contest.create(tmp_path / "c.everhold", labels, classes=[0, 1], seed=0), labels

    @pytest.mark.parametrize("divide", [",", ";", "\t"])
    @pytest.mark.parametrize("written", ["{}", "{}.0", " {}"])
    def test_files_as_spreadsheets_and_frames_write_them(self, contest, divide, written):
        held, labels = contest
        lines = [f"{place}{divide}{written.format(one)}" for place, one in enumerate(labels)]
        found = held.submit("ann", "\n".join([f"id{divide}prediction", *lines]))
        assert found.state == "scored"
        assert found.score.high == pytest.approx(1.0)
        assert held.submit("bob", labels.astype(float)).score.value == found.score.value

    @pytest.mark.parametrize("text", ["id,prediction\r0,1\r1,0\r", "id," + "a" * 200_000 + "\n", "", "\0", ";;;"])
    def test_files_that_are_no_csv_are_refused_in_a_sentence(self, contest, text):
        assert contest[0].submit("ann", text).state == "malformed"

    def test_classes_written_as_texts_are_numbers_too(self, tmp_path):
        labels = np.array(["0", "1"] * 30)
        held = eh.Contest.create(tmp_path / "t.everhold", labels, classes=["0", "1"], seed=0)
        lines = "\n".join(f"{place},{one}.0" for place, one in enumerate(labels))
        assert held.submit("ann", "id,prediction\n" + lines).state == "scored"

    def test_other_numbers_are_refused(self, contest):
        held, _ = contest
        found = held.submit("ann", "id,prediction\n" + "\n".join(f"{place},0.5" for place in range(60)))
        assert found.state == "malformed"
        assert "'0.5' is not a class" in found.reason


def test_asking_a_contest_is_answered_by_a_sentence(tmp_path):
    from typer.testing import CliRunner

    from everhold.cli.main import app

    eh.Contest.create(tmp_path / "c.everhold", np.arange(60) % 2, classes=[0, 1], seed=0)
    said = CliRunner().invoke(app, ["ask", str(tmp_path / "c.everhold"), "x0 > 3"])
    assert said.exit_code == 3
    assert "is a contest" in said.output
    assert "everhold contest submit" in said.output


@pytest.mark.parametrize("args", [["ask", ".", "age > 1"], ["status", "."], ["serve", "."], ["audit", "."]])
def test_a_folder_in_place_of_a_study_is_a_sentence(args, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from everhold.cli.main import app

    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, args)
    assert said.exit_code in (3, 4, 5, 7)
    assert "error:" in said.output or "FAILED" in said.output


def test_a_command_line_without_its_extra_says_what_to_install():
    """Not a traceback."""
    hidden = "import sys; sys.modules['typer'] = None; import everhold.__main__ as m; m.main()"
    for code in (hidden, hidden.replace("'typer'", "'rich'")):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr.strip() == (
            "error: the command line needs an optional part of everhold. Install it with: pip install 'everhold[cli]'"
        )
