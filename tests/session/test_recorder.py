"""Nothing is told for nothing: a decided round is charged whatever happens to it, and no second record can be had."""

from __future__ import annotations

import copy
import os
import pickle
import warnings

import numpy as np
import pytest

import everhold as eh
from everhold.mechanism.rules import Corrective
from everhold.mechanism.tolerance import FixedPrecision, ToleranceInputs


def surprising(n=2000, size=500):
    """A question that surprises: yes on every private row, on half of the public ones."""
    return eh.Values(sample=np.ones(n, bool), reference=np.arange(size) % 2 == 0)


class Failing(Corrective):
    """A rule whose refit fails."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def fit(self, *_):
        raise self.error


def test_a_refit_that_fails_is_charged_recorded_and_replayed():
    held = eh.Holdout(2000, prior=eh.Reference(500), rule=Failing(RuntimeError("no")), seed=0)
    before = held.price
    answers = [held.ask(surprising()) for _ in range(3)]
    assert all(answer.surprise for answer in answers)
    assert held.surprises == 3
    assert held.price > before + 10
    assert held.audit().ok
    assert held.transcript[3][1] == (0, 0, 0, 0), "the sketch stayed as it was, and that is on record"


def test_an_interrupted_round_is_charged_all_the_same():
    held = eh.Holdout(2000, prior=eh.Reference(500), rule=Failing(KeyboardInterrupt()), seed=0)
    with pytest.raises(KeyboardInterrupt):
        held.ask(surprising())
    held.session.mechanism._estimator._rule = Corrective()
    answer = held.ask(eh.Values(sample=np.arange(2000) % 2 == 0, reference=np.arange(500) % 2 == 0))
    assert answer.round == 2
    assert held.surprises == 1 + answer.surprise
    assert [record.answer.surprise for record in held.journal] == [True, answer.surprise]
    assert held.audit().ok


def test_an_interrupt_between_learning_and_recording_loses_nothing(monkeypatch):
    held = eh.Holdout(2000, prior=eh.Reference(500), seed=0)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(held.journal, "add_round", interrupted)
        with pytest.raises(KeyboardInterrupt):
            held.ask(surprising())
    assert held.try_out(surprising()).low >= 0.0
    assert len(held.journal) == held.rounds == 1
    assert held.audit().ok


def test_a_question_that_fails_on_the_refits_own_rows_still_pays():
    """Fresh rows: NaN on a few rows of the refit only. The surprise is charged, and later questions are not disturbed."""
    held = eh.Holdout(
        {"x": np.full(3000, 0.9)}, prior=eh.Sampler(lambda rng, size: {"x": rng.random(size)}, size=None), seed=2
    )

    def rarely_missing(rows):
        return np.where(rows["x"] < 3e-5, np.nan, np.where(rows["x"] > 0.8, 1.0, -1.0))

    asked = 0
    for _ in range(4):
        try:
            assert held.ask(rarely_missing).surprise or held.surprises
            asked += 1
        except eh.QuestionError:
            pass  # the round's own public rows had such a row: told before the private rows were asked
    assert asked >= 1
    assert held.surprises >= 1
    assert held.rounds == asked
    assert held.ask(lambda rows: rows["x"] > 0.5).round == asked + 1


@pytest.mark.parametrize("density", [None, 0.5, 0.02, 0.002, 0.0003])
def test_a_reference_without_support_never_bricks_the_session(density):
    """What the reference has never seen happens all the time: every round is answered, and the audit agrees."""
    held = eh.Holdout(3000, prior=eh.Reference(400), density=density, seed=0)
    for j in range(140):
        answer = held.ask(eh.Values(sample=np.arange(3000) % 200 >= j % 7, reference=np.arange(400) < j % 5))
        assert answer.round == j + 1
    assert held.surprises >= 10
    assert held.audit().ok


def test_a_gradient_sketch_that_runs_away_is_charged_too():
    held = eh.Holdout(3000, prior=eh.Reference(400), rule=eh.Gradient(), seed=0)
    for j in range(30):
        assert held.ask(surprising(3000, 400)).round == j + 1


def test_no_second_record():
    held = eh.Holdout(100, prior=eh.Reference(100), seed=0)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(eh.LedgerError, match="copied or pickled"):
            duplicate(held)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child reports through the pipe
        try:
            held.ask(eh.Values(sample=np.ones(100, bool), reference=np.ones(100, bool)))
            os.write(write, b"answered")
        except eh.LedgerError:
            os.write(write, b"refused")
        finally:
            os._exit(0)
    os.close(write)  # a child that fails otherwise says nothing, and the pipe ends
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"refused"
    os.close(read)


def test_a_question_cannot_ask():
    held = eh.Holdout({"x": np.arange(100)}, prior=eh.Reference({"x": np.arange(100)}), seed=0, overlap="allow")

    def nosy(rows):
        held.ask(lambda r: r["x"] > 3)
        return rows["x"] > 5

    with pytest.raises(eh.QuestionError, match="while it is being answered"):
        held.ask(nosy)
    assert held.rounds == 0
    assert held.ask(lambda r: r["x"] > 3).round == 1


def test_questions_across_rows_are_refused():
    x = np.random.default_rng(0).random(2000)
    held = eh.Holdout({"x": x}, prior=eh.Reference({"x": np.random.default_rng(1).random(2000)}), seed=0)
    for across in (
        lambda r: r["x"] > np.median(r["x"]) + 0.01 * len(r["x"]) / 2000,
        lambda r: np.argsort(np.argsort(r["x"])) < 200,
        lambda r: np.arange(len(r["x"])) < 100,
    ):
        with pytest.raises(eh.QuestionError, match="one row at a time"):
            held.ask(across)
    assert held.rounds == 0


def test_warnings_and_exits_on_private_rows_do_not_tell():
    data = {"x": np.array([1.0] * 99 + [-7.0])}
    public = {"x": np.array([1.0] * 49 + [2.0])}
    held = eh.Holdout(data, prior=eh.Reference(public), seed=0)

    def loud(rows):
        if (rows["x"] < 0).any():
            warnings.warn("a private row", stacklevel=1)
            raise SystemExit("row found")
        return rows["x"] > 0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = held.ask(loud)
    assert answer.round == 1


class TestNames:
    def holdout(self, **settings):
        return eh.Holdout(
            {"x": np.arange(200)}, prior=eh.Reference({"x": np.arange(200)}), seed=0, overlap="allow", **settings
        )

    def test_a_callables_name_belongs_to_its_values(self):
        held = self.holdout()
        first = held.ask(lambda r: r["x"] > 40, name="a")
        assert held.ask(lambda r: r["x"] >= 41, name="a") == first, "another spelling, the same values"
        with pytest.raises(eh.QuestionError, match="other values"):
            held.ask(lambda r: r["x"] > 80, name="a")
        assert held.rounds == 1

    def test_over_fresh_rows_too(self):
        prior = eh.Sampler(lambda rng, size: {"x": rng.random(size)}, size=None)
        held = eh.Holdout({"x": np.random.default_rng(0).random(500)}, prior=prior, seed=0)
        first = held.ask(lambda r: r["x"] > 0.4, name="a")
        assert held.ask(lambda r: r["x"] > 0.4, name="a") == first
        with pytest.raises(eh.QuestionError, match="other values"):
            held.ask(lambda r: r["x"] > 0.8, name="a")

    def test_a_name_can_be_given_to_values_when_asking(self):
        held = self.holdout()
        values = eh.Values(sample=np.arange(200) > 3, reference=np.arange(200) > 3)
        first = held.ask(values, name="v")
        assert held.ask(values, name="v") == first
        assert held.rounds == 1
        with pytest.raises(eh.QuestionError, match="already"):
            held.ask(eh.Values(sample=np.ones(200), reference=np.ones(200), name="w"), name="v")
        with pytest.raises(eh.QuestionError, match="text"):
            held.ask(values, name=3)

    def test_a_recorded_answer_is_given_again_after_a_refusal(self):
        held = eh.Holdout(2000, prior=eh.Reference(2000), half_width=0.15, seed=0)
        half = np.arange(2000) % 2 == 0
        first = held.ask(eh.Values(sample=half, reference=half, name="kept"))
        bits = np.random.default_rng(1)
        batch = [eh.Values(sample=bits.random(2000) < 0.7, reference=bits.random(2000) < 0.5) for _ in range(60)]
        with pytest.raises(eh.PrecisionExhausted) as refusal:
            held.ask_many(batch)
        assert len(refusal.value.answers) == held.rounds - 1 > 0
        assert held.ask(eh.Values(sample=half, reference=half, name="kept")) == first


def test_closures_that_change_afterwards_do_not_change_the_record():
    held = eh.Holdout({"x": np.arange(300) / 300}, prior=eh.Reference({"x": np.arange(300) / 300}), seed=0, overlap="allow")
    for c in (0.2, 0.5, 0.8):
        held.ask(lambda r: r["x"] > c)  # noqa: B023 - the late binding is the point
    assert held.audit().ok


def test_previews_draw_other_rows_than_answers():
    seen = {}

    def draw(rng, size):
        rows = rng.random(size)
        seen.setdefault("rows", []).append(float(rows[0]))
        return {"x": rows}

    held = eh.Holdout({"x": np.random.default_rng(0).random(400)}, prior=eh.Sampler(draw, size=None), seed=0)
    seen.clear()
    held.try_out(lambda r: r["x"] > 0.5)
    previewed = set(seen.pop("rows"))
    held.ask(lambda r: r["x"] > 0.5)
    assert not previewed & set(seen["rows"])


def test_a_refusal_that_rows_cannot_mend_says_so():
    with pytest.raises(eh.PrecisionExhausted, match="larger reference") as caught:
        FixedPrecision(0.1).tolerance(ToleranceInputs(0.0, 6.7, 10_000, 100.0))
    assert caught.value.more_rows is None


def test_a_promise_that_not_even_the_first_ask_could_keep_is_refused_when_it_is_made():
    for rows, reference in ((10_000, 100), (50, 50)):
        with pytest.raises(eh.SettingError, match="first question would be refused"):
            eh.Holdout(rows, prior=eh.Reference(reference), half_width=0.05, seed=0)
    eh.Holdout(50_000, prior=eh.Reference(50_000), half_width=0.05, seed=0)


@pytest.mark.parametrize("fit", [(), (1,), (1, 2, 3), (2**60, 2**60), ("a", 1)])
def test_an_audit_notices_coefficients_that_cannot_be(fit):
    from dataclasses import replace

    from everhold.ledger.audit import audit

    held = eh.Holdout(2000, prior=eh.Reference(500), seed=0)
    held.ask(surprising())
    assert not audit(held.session.first_state(), [replace(held.journal[1], fit=fit)]).ok


@pytest.mark.parametrize(
    "settings",
    [
        {"confidence": "0.9"},
        {"confidence": None},
        {"confidence": 1e-320},
        {"density": "a"},
        {"density": True},
        {"half_width": "x"},
        {"known_rows": 1.5},
        {"known_rows": "2"},
        {"seed": "a"},
        {"seed": 1.5},
        {"rule": 7},
        {"tolerance": 0.5},
    ],
)
def test_settings_of_the_wrong_kind(settings):
    with pytest.raises(eh.SettingError):
        eh.Holdout(100, prior=eh.Reference(100), **settings)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: eh.plan(rounds="a", rows=10),
        lambda: eh.plan(rounds=float("inf"), rows=10),
        lambda: eh.plan(rounds=10, rows=float("inf")),
        lambda: eh.plan(rounds=10, rows=10, surprises=2.5),
        lambda: eh.Sampler(lambda rng, size: None, size="a"),
        lambda: eh.Sampler(lambda rng, size: None, size=10.5),
        lambda: eh.Sampler(lambda rng, size: 1 / 0, size=10).pool(np.random.default_rng(0)),
        lambda: eh.uniform("a", 3),
        lambda: eh.Labels({"x": [1, 2]}, classes=5),
        lambda: eh.Labels({"x": [1, 2]}, probabilities="abc").pool(None),
        lambda: eh.Reference({"x": [1, 2]}, weights=["a", "b"]),
        lambda: eh.Reference({"x": np.ma.masked_array([1, 2], mask=[True, False])}),
        lambda: eh.Marginals({"a": {"x": 0.5, "y": "b"}}),
        lambda: eh.SQOracle(features=np.zeros((3, 2)), sample=np.zeros((3, 2))),
        lambda: eh.SQOracle(features=np.zeros((3, 2)), sample=(np.zeros((3, 2)), np.ones(3)), route="boolean", rounds=2.5),
    ],
)
def test_other_things_of_the_wrong_kind(wrong):
    with pytest.raises(eh.EverholdError):
        wrong()
