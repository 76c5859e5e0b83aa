"""A study that is paused for another process, and resumed: nothing is lost, nothing is read twice."""

import shutil

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.store import Store


def people(size, seed, smokers=0.3):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size), "smoker": rng.random(size) < smokers}


PRIVATE, PUBLIC = people(4_000, 0), people(3_000, 1, 0.2)


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "s.everhold"
    eh.Holdout.create(place, PRIVATE, prior=eh.Reference(PUBLIC), seed=1).release()
    return place


def test_two_take_turns_and_agree_with_one_alone(path):
    """Each continues what the other recorded: rounds, sketch, price and request ids, to the bit."""
    first, second = eh.Holdout.open(path, data=PRIVATE), None
    questions = ["smoker", "age > 40", "smoker AND age > 60", "age > 30", "NOT smoker AND age < 30"]
    answers = []
    for number, question in enumerate(questions):
        answers.append(first.ask(question, request_id=f"a{number}"))
        first.pause()
        if second is None:
            second = eh.Holdout.open(path, data=PRIVATE)
        else:
            second.resume()
        assert second.ask(question, request_id=f"a{number}") == answers[-1]
        answers.append(second.ask(f"age > {50 + number}", request_id=f"b{number}"))
        second.pause()
        first.resume()
        assert first.rounds == len(answers)
    alone = eh.Holdout(PRIVATE, prior=eh.Reference(PUBLIC), seed=1)
    mixed = [text for number, question in enumerate(questions) for text in (question, f"age > {50 + number}")]
    assert [alone.ask(text) for text in mixed] == answers
    assert (alone.price, alone.transcript) == (first.price, first.transcript)
    assert first.audit().ok
    assert first.surprises >= 1
    first.release()
    second.release()


def test_a_paused_study_does_not_answer_and_says_so(path):
    held = eh.Holdout.open(path, data=PRIVATE)
    held.pause()
    for ask in (lambda: held.ask("smoker"), lambda: held.mean("age"), lambda: held.try_out("smoker")):
        with pytest.raises(eh.LedgerError, match="paused"):
            ask()
    held.resume()
    assert held.ask("smoker").round == 1
    held.release()


def test_one_at_a_time(path):
    first = eh.Holdout.open(path, data=PRIVATE)
    first.pause()
    second = eh.Holdout.open(path, data=PRIVATE)
    with pytest.raises(eh.LedgerBusy):
        first.resume()
    second.release()
    first.resume()
    assert first.ask("smoker").round == 1
    first.release()


def test_an_older_copy_in_its_place_is_refused(path, tmp_path):
    shutil.copy(path, tmp_path / "copy")
    held = eh.Holdout.open(path, data=PRIVATE)
    held.ask("smoker")
    held.pause()
    shutil.copy(tmp_path / "copy", path)  # the same file, with less in it
    with pytest.raises(eh.LedgerError, match="changed by somebody else"):
        held.resume()
    held.release()


def test_only_new_records_are_read(path, monkeypatch):
    held = eh.Holdout.open(path, data=PRIVATE)
    held.ask_many([f"age > {age}" for age in range(20, 60)])
    held.pause()
    with eh.Holdout.open(path, data=PRIVATE) as other:
        other.ask_many([f"age > {age}" for age in range(60, 63)])
    read = []
    some = Store._next_rows

    def counted(self, seq, size):
        rows, size = some(self, seq, size)
        read.extend(rows)
        return rows, size

    monkeypatch.setattr(Store, "_next_rows", counted)
    held.resume()
    assert len(read) == 3
    assert held.rounds == 43
    held.release()
