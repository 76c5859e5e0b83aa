"""One writer a study: in order, durable before told, and nobody hears of what could not be written."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import wait

import pytest

import everhold as eh
from everhold.ledger.store import Store
from everhold.queries.request import AskedBy, Request
from everhold.server.caller import Caller
from tests.server.serving import make_study, people, study_writer


@pytest.fixture
def desk(tmp_path):
    made = study_writer(make_study(tmp_path))
    yield made
    made.close()


def test_each_is_answered_as_if_it_were_asked_alone(tmp_path):
    table, prior = people(4_000, 0.3, 1), people(3_000, 0.2, 2)
    together, alone = (eh.Holdout(table, prior=eh.Reference(prior), seed=5) for _ in range(2))
    texts = ["age > 40", "smoker", "nonsense >", "age > 40", "city = 'York' AND smoker", "bmi > 30", "NOT smoker"]
    found = together.ask_each([Request(text, AskedBy("", "ann", f"id {n}")) for n, text in enumerate(texts)])
    for n, (text, answer) in enumerate(zip(texts, found, strict=True)):
        if text == "nonsense >":
            assert isinstance(answer, eh.QuestionError)
        else:
            assert answer == alone.ask(text, request_id=f"id {n}", who="ann")
    assert together.transcript == alone.transcript
    assert together.surprises >= 1
    assert together.audit().ok


def test_a_conflict_is_told_to_the_one_who_made_it():
    holdout = eh.Holdout(people(4_000, 0.3, 1), prior=eh.Reference(people(3_000, 0.2, 2)), seed=5)
    asked = [Request(f"age > {40 + n}", AskedBy(request_id=one)) for n, one in enumerate("aab")]
    first, second, third = holdout.ask_each(asked)
    assert isinstance(second, eh.RequestConflict)
    assert (first.round, third.round, holdout.rounds) == (1, 2, 2)


def test_a_used_up_promise_refuses_each(tmp_path):
    prior = eh.Reference(people(3_000, 0.2, 2))
    holdout = eh.Holdout(people(4_000, 0.3, 1), prior=prior, seed=5, half_width=0.085)
    texts = [f"smoker AND age > {20 + n} AND bmi > {20 + n / 9}" for n in range(120)]
    found = holdout.ask_each([Request(text) for text in texts])
    refused = [isinstance(one, eh.PrecisionExhausted) for one in found]
    assert any(refused)
    assert refused == sorted(refused)  # once used up, always
    assert sum(not one for one in refused) == holdout.rounds


def test_a_forecast_of_ones_own_travels_with_its_request(tmp_path):
    """In a turn with others it gives what it gives alone, and one that is wrong stops nobody else."""
    with eh.Holdout.open(make_study(tmp_path, "alone")) as alone, eh.Holdout.open(make_study(tmp_path, "many")) as many:
        expected = [alone.ask("age > 50", expect=0.55), alone.ask("age > 40"), alone.ask("bmi > 30", expect=0.2)]
        first, second, wrong, odd, third = many.ask_each(
            [
                Request("age > 50", expect=0.55),
                Request("age > 40"),
                Request("age > 30", expect=7.0),
                Request("age > 30", expect="half"),
                Request("bmi > 30", expect=0.2),
            ]
        )
        assert [first, second, third] == expected
        assert first.value == 0.55
        assert "expect is 7.0" in str(wrong)
        assert "expect" in str(odd)
        assert many.rounds == 3


def test_in_the_order_of_arrival_and_durable_when_told(desk):
    futures = [desk.put(Request(f"age > {20 + n}", AskedBy(who="ann"))) for n in range(50)]
    for number, future in enumerate(futures, 1):
        assert future.result(600).round == number
        assert len(desk.file().rounds) >= number
    store = Store.open(desk.path, write=False)
    try:
        assert sum(record.kind == "round" for record in store.records()) == 50
        assert str(store.head) == desk.progress.head
    finally:
        store.close()


def test_readers_never_see_what_is_not_durable(desk, monkeypatch):
    """While a record is being written, nobody can read of it: not by the log, the status or a certificate."""
    writing, go_on = threading.Event(), threading.Event()
    append = Store.append

    def slow(self, records):
        writing.set()
        assert go_on.wait(600)
        append(self, records)

    monkeypatch.setattr(Store, "append", slow)
    future = desk.put(Request("smoker", AskedBy(who="ann")))
    assert writing.wait(600)
    assert desk.progress.rounds == len(desk.file().rounds) == 0
    assert not future.done()
    go_on.set()
    assert future.result(600).round == 1
    assert desk.progress.rounds == len(desk.file().rounds) == 1


def test_what_cannot_be_written_is_told_to_nobody(desk, monkeypatch):
    answered = desk.put(Request("age > 40")).result(600)
    before = desk.progress

    def full(self, records):
        self._broken = True
        self.close()
        raise eh.LedgerError("no space left on device")

    monkeypatch.setattr(Store, "append", full)
    futures = [desk.put(Request(text)) for text in ("smoker", "age > 50", "bmi > 30")]
    wait(futures, 600)
    assert all(isinstance(one.exception(), eh.LedgerError) for one in futures)
    monkeypatch.undo()
    with pytest.raises(eh.LedgerError):
        desk.put(Request("age > 60")).result(600)
    assert desk.broken
    assert desk.progress == before
    assert [one.answer for one in desk.file().rounds] == [answered]
    assert len(desk.file().questions) == 1


def test_reopened_it_shows_the_same_record(tmp_path):
    place = make_study(tmp_path)
    first = study_writer(place)
    first.put(Request("smoker", AskedBy("", "ann", "a"))).result(600)
    asyncio.run(first.ask(Caller("bob", AskedBy("", "bob", "b")), eh.Mean("bmi", given="smoker")))
    told, standing = list(first.file().rounds), first.progress
    first.close()
    second = study_writer(place)
    assert list(second.file().rounds) == told
    assert second.progress == standing
    assert second.put(Request("smoker", AskedBy("", "ann", "a"))).result(600) == told[0].answer
    second.close()


def test_a_question_given_up_before_its_turn_is_not_asked(desk):
    started, go_on = threading.Event(), threading.Event()
    blocking = desk.put(lambda: (started.set(), go_on.wait(600)))
    assert started.wait(600)
    given_up, kept = desk.put(Request("age > 70")), desk.put(Request("age > 71"))
    assert given_up.cancel()
    go_on.set()
    blocking.result(600)
    assert kept.result(600).round == 1
    assert [one.question for one in desk.file().rounds] == ["age > 71"]


def test_closing_answers_what_waits_and_frees_the_study(tmp_path):
    place = make_study(tmp_path)
    desk = study_writer(place)
    futures = [desk.put(Request(f"age > {20 + n}")) for n in range(30)]
    desk.close()
    assert [one.result(0).round for one in futures] == list(range(1, 31))
    with pytest.raises(eh.LedgerError, match="stopping"):
        desk.put(Request("age > 80"))
    with eh.Holdout.open(place) as holdout:
        assert holdout.rounds == 30


def test_an_open_study_is_refused_elsewhere(desk):
    with pytest.raises(eh.LedgerBusy, match=str(os.getpid())):
        study_writer(desk.path)


def test_one_word_means_one_thing(desk):
    """`try_out` gives what `Holdout.try_out` gives, and `rehearse` what `Holdout.rehearsal` gives."""
    held = desk._holdout
    for wanted in (eh.Mean("bmi", low=10, high=60), eh.Table("city")):
        trial = asyncio.run(desk.try_out(Caller(), wanted))
        assert isinstance(trial, eh.Trial)
        assert trial == held.try_out(wanted) == asyncio.run(desk.try_both(Caller(), wanted))
        assert asyncio.run(desk.rehearse(Caller(), wanted)) == trial.ask == held.rehearsal.ask(wanted)
    assert asyncio.run(desk.try_out(Caller(), "smoker")) == held.try_out("smoker")
    assert desk.progress.rounds == 0
