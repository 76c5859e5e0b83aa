"""Every mistake gets an error of everhold's own, before anything is charged, and nothing private is told."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import everhold as eh


def table(size=200, seed=0):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size), "smoker": rng.random(size) < 0.2, "city": rng.choice(["a", "b"], size)}


@pytest.fixture
def holdout():
    return eh.Holdout(table(), prior=eh.Reference(table(seed=1)), seed=0)


QUESTIONS = {
    "outside [-1, 1]": (lambda r: r["age"] * 1.0, "outside|value"),
    "NaN": (lambda r: np.where(r["age"] > 40, np.nan, 0.0), "NaN"),
    "infinite": (lambda r: r["age"] / 0.0 if False else np.full(len(r["age"]), np.inf), "inf"),
    "wrong length": (lambda r: (r["age"] > 40)[:-1], "shape"),
    "scalar": (lambda r: True, "shape"),
    "two dimensions": (lambda r: np.stack([r["smoker"], r["smoker"]]), "shape"),
    "text": (lambda r: r["city"], "type"),
    "complex": (lambda r: r["age"] * 1j, "type"),
    "objects": (lambda r: np.array([None] * len(r["age"])), "type"),
    "nothing": (lambda r: None, "shape"),
    "unknown column": (lambda r: r["smokr"], "Did you mean 'smoker'"),
    "raises": (lambda r: 1 / 0, "ZeroDivisionError"),
    "changes": (lambda r: np.random.default_rng().random(len(r["age"])) < 0.5, "second call"),
    "a column as an attribute": (lambda r: r.smoker, "smoker"),
    "not a question": (42, "callable"),
    "text with a misspelt column": ("agee > 40", "Did you mean 'age'"),
    "text that is no question": ("age + 1", "yes/no"),
    "short values": (eh.Values(sample=np.ones(199, bool), reference=np.ones(200, bool)), "200 values"),
    "short reference": (eh.Values(sample=np.ones(200, bool), reference=np.ones(3, bool)), "200 values"),
    "sample outside": (eh.Values(sample=np.full(200, 1.5), reference=np.zeros(200)), r"outside \[-1, 1\]"),
    "sample NaN": (eh.Values(sample=np.full(200, np.nan), reference=np.zeros(200)), "missing"),
    "sample of text": (eh.Values(sample=np.full(200, "x"), reference=np.zeros(200)), "type"),
    "two kinds": (eh.Values(sample=np.ones(200, bool), reference=np.zeros(200)), "same type on both sides"),
    "no sample": (eh.Values(reference=np.zeros(200)), "sample"),
}


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_a_faulty_question_is_refused_and_not_charged(holdout, name):
    question, says = QUESTIONS[name]
    before = holdout.price, holdout.rounds, len(holdout.journal)
    with pytest.raises(eh.QuestionError, match=says):
        holdout.ask(question)
    assert (holdout.price, holdout.rounds, len(holdout.journal)) == before
    assert holdout.ask(lambda r: r["smoker"]).round == 1


def test_a_batch_with_one_faulty_question_charges_nothing(holdout):
    with pytest.raises(eh.QuestionError):
        holdout.ask_many([lambda r: r["smoker"], lambda r: r["age"] * 1.0])
    assert holdout.rounds == 0


def test_a_batch_is_a_list(holdout):
    for wrong in (lambda r: r["smoker"], "age > 40", 3):
        with pytest.raises(eh.QuestionError, match="list of questions"):
            holdout.ask_many(wrong)


def test_a_batch_with_a_faulty_array_charges_nothing(holdout):
    fine = eh.Values(sample=np.ones(200, bool), reference=np.ones(200, bool))
    with pytest.raises(eh.QuestionError):
        holdout.ask_many([fine, eh.Values(sample=np.full(200, 1.5), reference=np.zeros(200))])
    assert holdout.rounds == 0


def test_a_batch_is_answered_in_order(holdout):
    questions = [lambda r: r["smoker"], lambda r: r["age"] > 40]
    twin = eh.Holdout(table(), prior=eh.Reference(table(seed=1)), seed=0)
    assert holdout.ask_many(questions) == [twin.ask(question) for question in questions]


class TestSampleSideNeverTells:
    """A callable that fails on private rows only: the same answer, no error, no warning, no trace of it."""

    def twins(self):
        private = table(400, seed=5)
        marked = {name: column.copy() for name, column in private.items()}
        marked["age"][7] = 1234  # one extreme row, which counts as "no" either way
        reference = table(400, seed=6)
        return [eh.Holdout(data, prior=eh.Reference(reference), seed=0) for data in (private, marked)]

    @pytest.mark.parametrize("kind", ["raises", "warns", "nan", "shape", "type"])
    def test_twins_answer_alike(self, kind):
        def question(rows):
            extreme = rows["age"] == 1234
            no = np.zeros(len(rows["age"]), dtype=bool)
            if kind == "raises" and extreme.any():
                raise RuntimeError(f"secret row {rows['age'][extreme]}")
            if kind == "warns" and extreme.any():
                np.log(np.zeros(1) * rows["age"][extreme])
            if kind == "nan":
                return np.where(extreme, np.nan, np.where(rows["smoker"] & (rows["age"] < 200), 0.5, 0.0))
            if kind == "shape" and extreme.any():
                return no[:-1]
            if kind == "type" and extreme.any():
                return no.astype(str)
            return rows["smoker"] & (rows["age"] < 200) if not extreme.any() or len(extreme) > 1 else no

        plain, marked = self.twins()
        # Make the extreme row a "no" in the plain table too, so that both have the same total.
        plain.session.sample._table["smoker"].setflags(write=True)
        plain.session.sample._table["smoker"][7] = False
        marked.session.sample._table["smoker"].setflags(write=True)
        marked.session.sample._table["smoker"][7] = False
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answers = [held.ask(question) for held in (plain, marked)]
        assert answers[0] == answers[1]

    def test_rows_that_raise_count_as_no_and_the_others_as_they_are(self):
        data = {"x": np.array([1.0, 2.0, 0.0, 4.0] * 50)}
        held = eh.Holdout(data, prior=eh.Reference({"x": np.array([1.0, 2.0, 4.0])}), seed=0)

        def question(rows):
            if (rows["x"] == 0.0).any():
                raise ZeroDivisionError
            return 1.0 / rows["x"] > 0.4

        sums = held.session.sample.sums([eh.queries.query.as_query(question)], "share")
        assert sums == [((2 * 100 - 200) * 2**15, 200 * 2**30)]


SETTINGS = {
    "confidence 0": {"confidence": 0.0},
    "confidence 1": {"confidence": 1.0},
    "confidence NaN": {"confidence": float("nan")},
    "density 0": {"density": 0.0},
    "density 2": {"density": 2.0},
    "half-width 0": {"half_width": 0.0},
    "half-width 1": {"half_width": 1.0},
    "unknown rule": {"rule": "newton"},
    "all rows known": {"known_rows": 200},
    "negative known rows": {"known_rows": -1},
    "negative seed": {"seed": -1},
}


@pytest.mark.parametrize("name", list(SETTINGS))
def test_settings_out_of_range(name):
    with pytest.raises(eh.SettingError):
        eh.Holdout(table(), prior=eh.Reference(table(seed=1)), **SETTINGS[name])


DATA = {
    "empty": {},
    "no rows": {"age": []},
    "unequal lengths": {"age": [1, 2], "smoker": [True]},
    "three dimensions": {"age": np.zeros((2, 2, 2))},
    "no table": 3.5,
    "a path of its own": "patients.parquet",
    "zero": 0,
    "a boolean": True,
    "ragged": {"age": [[1], [1, 2]]},
    "a name that is no text": {3: [1, 2]},
}


@pytest.mark.parametrize("name", list(DATA))
def test_tables_that_cannot_be_used(name):
    with pytest.raises(eh.DataError):
        eh.Holdout(DATA[name], prior=eh.Reference(table()))
    with pytest.raises(eh.PriorError):
        eh.Reference(DATA[name])


def test_a_prior_with_other_columns():
    with pytest.raises(eh.PriorError, match="has a column 'smokers' that is not in the private table"):
        eh.Holdout(table(), prior=eh.Reference({**table(), "smokers": table()["smoker"]}))
    other = table(seed=1)
    other["smokers"] = other.pop("smoker")
    with pytest.raises(eh.PriorError, match=r"has no column 'smoker'.*Did you mean 'smokers'"):
        eh.Holdout(table(), prior=eh.Reference(other))
    kinds = table(seed=1) | {"age": np.array(["old"] * 200)}
    with pytest.raises(eh.PriorError, match="has text in column 'age', but the private table has numbers"):
        eh.Holdout(table(), prior=eh.Reference(kinds))


def test_what_is_not_a_prior():
    with pytest.raises(eh.PriorError, match=r"eh\.Reference"):
        eh.Holdout(table(), prior=table(seed=1))


PRIORS = {
    "short weights": lambda: eh.Reference(table(), weights=[1.0]),
    "negative weight": lambda: eh.Reference(table(), weights=np.full(200, -1.0)),
    "zero weights": lambda: eh.Reference(table(), weights=np.zeros(200)),
    "NaN weight": lambda: eh.Reference(table(), weights=np.full(200, np.nan)),
    "one class": lambda: eh.Labels(table(), label="y", classes=[1]),
    "a class twice": lambda: eh.Labels(table(), label="y", classes=[1, 1]),
    "label taken": lambda: eh.Labels(table(), label="age").pool(np.random.default_rng(0)),
    "probabilities of another shape": lambda: eh.Labels(table(), probabilities=np.ones((3, 2))).pool(None),
    "probabilities that do not sum to 1": lambda: eh.Labels(table(), probabilities=np.ones((200, 2))).pool(None),
    "no marginals": lambda: eh.Marginals({}),
    "a marginal of nothing": lambda: eh.Marginals({"age": 3}),
    "marginal probabilities": lambda: eh.Marginals({"age": {1: 0.5, 2: 0.2}}),
    "empty uniform": lambda: eh.uniform(3, 3),
    "a sampler that is no function": lambda: eh.Sampler(3),
    "a sampler of another size": lambda: eh.Sampler(lambda rng, size: {"x": np.zeros(3)}, size=5).pool(None),
    "fixed probabilities for fresh rows": lambda: eh.Labels(
        eh.Sampler(lambda rng, size: {"x": rng.random(size)}, size=None), probabilities=np.ones((2, 2))
    ),
}


@pytest.mark.parametrize("name", list(PRIORS))
def test_priors_that_cannot_be_used(name):
    with pytest.raises(eh.PriorError):
        PRIORS[name]()


def test_values_cannot_be_asked_of_fresh_rows():
    held = eh.Holdout({"x": np.zeros(50)}, prior=eh.Sampler(lambda rng, size: {"x": rng.random(size)}, size=None))
    with pytest.raises(eh.QuestionError, match="fresh rows"):
        held.ask(eh.Values(sample=np.zeros(50), reference=np.zeros(50)))


def test_a_name_belongs_to_one_question(holdout):
    values = eh.Values(sample=np.ones(200, bool), reference=np.ones(200, bool), name="mine")
    first = holdout.ask(values)
    assert holdout.ask(values) == first
    assert holdout.rounds == 1
    with pytest.raises(eh.QuestionError, match="belongs to a question with other values"):
        holdout.ask(eh.Values(sample=np.ones(200, bool), reference=np.zeros(200, bool), name="mine"))


def test_try_out_costs_nothing_and_tells_all(holdout):
    preview = holdout.try_out(lambda r: r["smoker"])
    assert holdout.rounds == 0
    assert preview.low <= preview.sketch <= preview.high
    assert preview.sketch == pytest.approx(np.mean(table(seed=1)["smoker"]), abs=1e-12)
    with pytest.raises(eh.QuestionError, match="ZeroDivisionError"):
        holdout.try_out(lambda r: 1 / 0)


def test_reprs_show_public_values_only(holdout):
    for shown in (repr(holdout), repr(holdout.session.sample), str(holdout.ask(lambda r: r["smoker"]))):
        assert "array" not in shown
    assert repr(holdout.session.sample) == "Sample(200 private rows)"


def test_frames_are_tables():
    frame = pd.DataFrame(table())
    held = eh.Holdout(frame, prior=eh.Reference(pd.DataFrame(table(seed=1))), seed=0)
    twin = eh.Holdout(table(), prior=eh.Reference(table(seed=1)), seed=0)
    assert held.ask(lambda r: r["smoker"]) == twin.ask(lambda r: r["smoker"])


def test_the_callers_array_may_change_afterwards():
    data = table()
    held = eh.Holdout(data, prior=eh.Reference(table(seed=1)), seed=0)
    data["smoker"][:] = True
    assert held.ask(lambda r: r["smoker"]).value < 0.5


def test_a_question_cannot_change_the_rows(holdout):
    def vandal(rows):
        rows["smoker"][:] = True
        return rows["smoker"]

    with pytest.raises(eh.QuestionError, match="ValueError"):
        holdout.ask(vandal)


def test_errors_are_one_tree():
    import inspect

    from everhold import errors

    own = [value for _, value in inspect.getmembers(errors, inspect.isclass) if value.__module__ == errors.__name__]
    assert len(own) >= 10
    assert all(issubclass(value, eh.EverholdError | Warning) for value in own)
    for value in own:
        assert value.__name__ in errors.__doc__
