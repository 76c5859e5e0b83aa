"""Acts that end half way, acts that are forged, and the last act: nothing is told for nothing, and nothing is lost.

A durable study's process is killed at the moment when an act has been announced and its private sums are wanted. On
reopening, readings of text are completed, bit for bit as if nothing had happened, and everything else is charged.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import everhold as eh
from everhold.bounds.binomial import binomial_interval
from everhold.data.sample import Sample
from everhold.errors import EverholdError, LedgerError
from everhold.ledger.store import Store
from tests.validity.records import forged, records


def people(size: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(50, 15, size).round(1),
        "k": rng.integers(0, 20, size),
        "b": rng.random(size) < 0.3,
        "g": rng.random(size) < 0.5,
    }


PRIVATE, PUBLIC = people(200, 0), people(220, 1)
RANGE = {"low": 0, "high": 100}


def yes(t: int) -> eh.Values:
    return eh.Values(sample=PRIVATE["k"] > t, reference=PUBLIC["k"] > t)


READINGS = {
    "read": lambda h: [h.read("k > 7", request_id="one", spend=0.4, expect=0.5)],
    "read_many": lambda h: h.read_many(
        ["k > 3", eh.Mean("x", **RANGE, given="g"), "k > 3", eh.Median("x", **RANGE), eh.Share("b", given="g")],
        request_id="one",
    ),
    "close": lambda h: h.close(["k > 3", eh.Difference("x", "g", "not g", **RANGE), "b"], request_id="one"),
}
OTHERS = {
    "read values": lambda h: h.read_many([yes(3), "b"], request_id="one"),
    "read callable": lambda h: h.read(lambda rows: rows["k"] > 3, request_id="one"),
    "close values": lambda h: h.close([yes(3), "g"], request_id="one"),
    "best_of": lambda h: h.best_of(["k > 3", "b", eh.Mean("x", **RANGE)], request_id="one"),
    "is_better": lambda h: h.is_better("b", "g", request_id="one"),
    "compare": lambda h: h.compare("b", "g", request_id="one", spend=0.3),
    "compare means": lambda h: h.compare(eh.Mean("x", **RANGE), eh.Median("x", **RANGE), request_id="one"),
}


def begin(path: Path) -> None:
    with eh.Holdout.create(path, PRIVATE, prior=eh.Reference(PUBLIC), seed=4) as held:
        held.ask("b")
        held.read("k > 12")


def killed(path: Path, act, *, when: str) -> None:
    """Do an act in a process of its own that is gone when the private rows are wanted, or when the end is written."""
    child = os.fork()
    if child == 0:  # pragma: no cover - the child ends at once
        try:
            held = eh.Holdout.open(path, data=PRIVATE)
            begun = []
            append, sums = Store.append, Sample.sums

            def appending(self, some):
                if any(one.kind == "begun" for one in some):
                    append(self, some)
                    begun.append(True)
                elif begun and when == "written":
                    os._exit(9)
                else:
                    append(self, some)

            def gone(self, *args, real):
                if begun and when == "wanted":
                    os._exit(9)
                return real(self, *args)

            Store.append = appending
            Sample.sums = lambda self, *args: gone(self, *args, real=sums)
            act(held)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9, "the act ended: nothing was killed"


def plain(found) -> str:
    return str([one.to_dict() for one in found])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("when", ["wanted", "written"])
@pytest.mark.parametrize("name", list(READINGS))
def test_readings_of_text_are_completed_bit_for_bit(tmp_path, name, when):
    """The same answers, budget and records as without the kill; the same request is answered and costs nothing."""
    act = READINGS[name]
    for place in ("whole", "killed"):
        begin(tmp_path / place)
    with eh.Holdout.open(tmp_path / "whole", data=PRIVATE) as held:
        wanted, budget = plain(act(held)), held.budget
    killed(tmp_path / "killed", act, when=when)
    assert records(tmp_path / "killed")[-1].kind == "begun"
    with eh.Holdout.open(tmp_path / "killed", data=PRIVATE) as held:
        assert held.budget == budget
        assert held.session.mechanism.closed is (name == "close")
        assert plain(act(held)) == wanted
        assert held.budget == budget, "asked again under the same id: for nothing"
        assert held.audit().ok
        rounds = held.rounds
    asked = [one.body["asked"] for one in records(tmp_path / "killed") if one.kind == "round"]
    assert asked == [one.body["asked"] for one in records(tmp_path / "whole") if one.kind == "round"]
    assert len(asked) == rounds


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("when", ["wanted", "written"])
@pytest.mark.parametrize(
    "name",
    [
        *(name for name in OTHERS if name != "close values"),
        "close values",
    ],
)
def test_all_other_acts_are_charged_as_interrupted(tmp_path, name, when):
    """Nothing of it is recorded as returned, later prices are higher than before, the same act can be done again."""
    act, path = OTHERS[name], tmp_path / "study"
    begin(path)
    with eh.Holdout.open(path, data=PRIVATE) as held:
        before = held.budget
    killed(path, act, when=when)
    with eh.Holdout.open(path, data=PRIVATE) as held:
        assert held.rounds == 2, "a part of a batch was recorded"
        after = held.budget
        assert after.nats > before.nats + 4.0
        assert after.ask_price > before.ask_price
        assert after.claim_price() > before.claim_price()
        if "better" not in name and name != "best_of":
            assert after.spending.left < before.spending.left
        if "close" not in name:
            assert act(held) is not None
        assert held.audit().ok
        held.ask("k > 5")
        assert held.audit().ok


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, TypeError])
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("name", ["read", "read_many", "best_of", "is_better", "compare", "read callable"])
def test_an_error_within_an_act_is_charged_and_loses_nothing(tmp_path, monkeypatch, name, durable, error):
    """Ctrl-C, no memory, a mistake in a program: afterwards the act is charged, the next ones work, the file is whole."""
    act = {**READINGS, **OTHERS}[name]
    path = tmp_path / "study"
    begin(path)
    held = eh.Holdout(PRIVATE, prior=eh.Reference(PUBLIC), seed=4)
    if durable:
        held = eh.Holdout.open(path, data=PRIVATE)
    before = held.budget

    def fails(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Sample, "sums", fails)
        with pytest.raises(error):
            act(held)
    if durable:
        with pytest.raises(LedgerError):
            held.ask("k > 9")
        held.release()
        held = eh.Holdout.open(path, data=PRIVATE)
    first = held.ask("k > 9")
    assert first.price > before.ask_price + 0.5, "an interrupted act was not charged"
    assert held.best_of(["b", "g"]).index == 1
    assert act(held) is not None
    assert held.audit().ok
    held.release()
    if durable:
        with eh.Holdout.open(path, data=PRIVATE) as again:
            assert again.audit().ok


def test_a_batch_with_bad_values_is_refused_whole(tmp_path):
    """What is wrong with the last of a batch is found before the first is read."""
    path = tmp_path / "study"
    begin(path)
    bad = eh.Values(sample=np.ones(3, bool), reference=PUBLIC["b"])
    numbers = eh.Values(sample=PRIVATE["x"], reference=PUBLIC["b"])
    with eh.Holdout.open(path, data=PRIVATE) as held:
        before = held.budget
        for batch in ([yes(3), bad], [yes(3), numbers], ["b", yes(4), bad]):
            with pytest.raises(EverholdError):
                held.read_many(batch)
            with pytest.raises(EverholdError):
                held.close(batch)
        with pytest.raises(EverholdError):
            held.compare(yes(3), bad)
        assert held.budget == before
        assert held.rounds == 2
        assert held.read("g").round == 3
        assert held.audit().ok


def test_a_name_means_one_question_within_a_batch():
    held = eh.Holdout(PRIVATE, prior=eh.Reference(PUBLIC), seed=4)
    one = eh.Values(sample=PRIVATE["b"], reference=PUBLIC["b"], name="n")
    other = eh.Values(sample=~PRIVATE["b"], reference=~PUBLIC["b"], name="n")
    with pytest.raises(eh.QuestionError):
        held.read_many([one, other])
    assert held.rounds == 0
    first, again = held.read_many([one, one])
    assert first == again
    assert held.rounds == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_another_process_that_died_in_an_act_is_charged_on_resuming(tmp_path):
    """Pause, let another process begin an act and die, resume: the act is charged before anything else is answered."""
    path = tmp_path / "study"
    begin(path)
    held = eh.Holdout.open(path, data=PRIVATE)
    before = held.budget
    held.pause()
    killed(path, OTHERS["best_of"], when="wanted")
    held.resume()
    assert held.ask("k > 9").price > before.ask_price + 0.5
    assert held.best_of(["b", "g"]).index == 1
    held.release()
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert again.audit().ok


# forgeries --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("acts") / "study.everhold"
    with eh.Holdout.create(path, PRIVATE, prior=eh.Reference(PUBLIC), seed=4) as held:
        held.ask("b")
        held.certify(1, spend=0.2)
        held.read_many(["k > 3", eh.Mean("x", **RANGE, given="g")], request_id="r")
        held.best_of(["k > 5", "b", "g"])
        held.is_better("b", "g")
        held.compare("b", "g")
        held.ask("k > 5")
        held.close(["k > 9", "k > 12"])
    assert eh.Holdout.audit_file(path).ok
    return path


def act_of(kept, kind):
    place = next(i for i, one in enumerate(kept) if one.kind == "begun" and one.body["act"] == kind)
    return kept[place].body, kept[place + 1].body


def option(kind, name, value):
    return lambda kept: act_of(kept, kind)[0]["options"].update({name: value})


def result(kind, name, value):
    return lambda kept: act_of(kept, kind)[1]["result"].update({name: value})


def shifted(kind, name, by):
    def change(kept):
        found = act_of(kept, kind)[1]["result"]
        found[name] += by

    return change


def both(*changes):
    def change(kept):
        for one in changes:
            one(kept)

    return change


def narrower_counts(kept):
    """The counts that a certificate rests on, and its interval with them."""
    past = next(one.body for one in kept if one.kind == "round")
    past["counts"] = [past["counts"][0] + 5, past["counts"][1] - 5]
    n, nats = len(PRIVATE["b"]), act_of(kept, "certify")[1]["result"]["price"]
    low, high = binomial_interval(past["counts"][0], past["counts"][1], n, nats)
    act_of(kept, "certify")[1]["result"].update(low=low, high=high)


def reading_act(name, value):
    def change(kept):
        for one in kept:
            if one.kind == "round" and one.body["act"] and one.body["act"]["kind"] == "read":
                one.body["act"][name] = value

    return change


def without(kind, *acts):
    def change(kept):
        return [one for one in kept if not (one.kind == kind and one.body.get("act") in acts)]

    return change


FORGERIES = {
    "weights": option("best_of", "weights", ["1/2", "1/4", "1/4"]),
    "weights above one": option("best_of", "weights", ["1/2", "1/2", "1/2"]),
    "weights, cheaper": both(
        option("best_of", "weights", ["1/1", "1/1000000", "1/1000000"]), shifted("best_of", "disclosed", -1.0)
    ),
    "index": result("best_of", "index", 1),
    "outcome": lambda kept: act_of(kept, "best_of")[1].update(outcome=1),
    "outcome that is not there": lambda kept: act_of(kept, "best_of")[1].update(outcome=3),
    "candidates": result("best_of", "candidates", 17),
    "bit": result("is_better", "yes", True),
    "bit and outcome": both(
        result("is_better", "yes", True), lambda kept: act_of(kept, "is_better")[1].update(outcome=True)
    ),
    "bit that is none": lambda kept: act_of(kept, "is_better")[1].update(outcome=2),
    "verdict": result("compare", "verdict", "yes"),
    "outcome of a verdict": result("compare", "outcome", "first"),
    "parts": both(option("compare", "parts", 1), shifted("compare", "price", -np.log(2.0))),
    "spend of a verdict": option("compare", "spend", "1/2"),
    "price of a verdict": shifted("compare", "price", -0.5),
    "certificate, narrower": shifted("certify", "low", 0.01),
    "certificate, price": shifted("certify", "price", -0.5),
    "certificate, spend": option("certify", "spend", "1/2"),
    "certificate, round": lambda kept: act_of(kept, "certify")[0]["asked"][0].update(round=4),
    "certificate, counts": narrower_counts,
    "reading, spend": both(reading_act("spend", "1/2"), option("read", "spend", "1/2")),
    "reading, expect": reading_act("expect", 0.3),
    "reading, parts": reading_act("parts", 1),
    "announced, spend": option("read", "spend", "1/2"),
    "announced, expect": option("read", "expect", [0.5, 0.5]),
    "announced, fewer": lambda kept: act_of(kept, "read")[0].update(asked=act_of(kept, "read")[0]["asked"][:1]),
    "announced, another": lambda kept: act_of(kept, "read")[0]["asked"][0].update(text='(7.0 < "k")'),
    "not announced": without("begun", "read"),
    "never ended": lambda kept: [one for one in kept if one.kind != "done"],
    "never began": without("begun", "best_of", "is_better", "compare", "certify"),
    "interrupted after all": lambda kept: act_of(kept, "compare")[1].update(interrupted=True, outcome=None, result={}),
    "an act left out": lambda kept: [
        one for i, one in enumerate(kept) if not ({i, i - 1} & _place(kept, "best_of"))
    ],
    "asked after the last act": lambda kept: [*kept, next(one for one in kept if one.kind == "round")],
    "a second last act": lambda kept: [*kept, *kept[-3:]],
}  # fmt: skip


def _place(kept, kind) -> set[int]:
    return {i for i, one in enumerate(kept) if one.kind == "begun" and one.body["act"] == kind}


@pytest.mark.parametrize("name", list(FORGERIES))
def test_a_forged_act_is_refused_or_found(study, tmp_path, name):
    """The chain of hashes is whole again: what finds it is the replay of prices, results and announcements.

    What was asked in an act that is not made of rounds (a candidate of best_of, `by`) could be forged: nothing follows from
    it. That is what a noted head is for."""
    place = forged(study, tmp_path / "forged.everhold", FORGERIES[name])
    assert not eh.Holdout.audit_file(place).ok


def test_the_forger_changes_something(study, tmp_path):
    """The control: a copy without a change is ok, so that it is the change which is found."""
    assert eh.Holdout.audit_file(forged(study, tmp_path / "same.everhold", lambda kept: kept)).ok


# the last act -----------------------------------------------------------------------------------------------------------


def never(*_, **__):
    raise AssertionError("the private rows were read")


CLOSED = {
    "ask": lambda held: held.ask("k > 4"),
    "ask_many": lambda held: held.ask_many(["k > 4", "k > 5"]),
    "table": lambda held: held.ask(eh.Table("g", "b")),
    "read": lambda held: held.read("k > 4"),
    "read_many": lambda held: held.read_many(["k > 4", "k > 5"]),
    "best_of": lambda held: held.best_of(["k > 4", "b"]),
    "is_better": lambda held: held.is_better("k > 4", "b"),
    "compare": lambda held: held.compare("k > 4", "b"),
    "compare means": lambda held: held.compare(eh.Mean("x", **RANGE), eh.Median("x", **RANGE)),
    "certify": lambda held: held.certify(1),
    "close": lambda held: held.close(["k > 4"]),
    "callable": lambda held: held.ask(lambda rows: rows["k"] > 4),
    "values": lambda held: held.read(yes(3)),
}


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "file"])
def test_after_the_last_act_nothing_private_is_read(tmp_path, monkeypatch, durable):
    """Every act again and every way to ask: refused, or answered from the record; also after reopening."""
    path = tmp_path / "study"
    begin(path)
    held = eh.Holdout.open(path, data=PRIVATE) if durable else eh.Holdout(PRIVATE, prior=eh.Reference(PUBLIC), seed=4)
    kept = [*held.close(["k > 3", eh.Mean("x", **RANGE, given="g")]), [past.answer for past in held.journal]]
    for reopened in (False, True):
        if reopened:
            if not durable:
                continue
            held.release()
            held = eh.Holdout.open(path, data=PRIVATE)
        with monkeypatch.context() as patch:
            patch.setattr(Sample, "sums", never)
            assert held.ask("k > 3").value == kept[0].value
            assert held.read("k > 3") == kept[0]
            for refused in CLOSED.values():
                with pytest.raises(eh.QuestionError, match="closed"):
                    refused(held)
            assert held.audit().ok
            assert [past.answer for past in held.journal] == kept[-1]
    held.release()


def test_the_last_act_always_closes(monkeypatch):
    """Also if all its questions were read before, and if there are none; a statistic of several steps is refused first."""
    for questions in (["b"], []):
        held = eh.Holdout(PRIVATE, prior=eh.Reference(PUBLIC), seed=4)
        held.read("b")
        held.close(questions)
        assert held.session.mechanism.closed
        assert held.audit().ok
    units = {**PRIVATE, "u": np.arange(200) // 2}
    held = eh.Holdout(units, prior=eh.Reference({**PUBLIC, "u": np.arange(220) // 2 + 1000}), unit="u", seed=4)
    before = held.budget
    with monkeypatch.context() as patch:
        patch.setattr(Sample, "sums", never)
        with pytest.raises(eh.QuestionError):
            held.close([eh.Median("x", **RANGE)])
    assert held.budget == before
    assert not held.session.mechanism.closed


def test_a_verdict_with_fewer_parts_than_it_has_is_found(tmp_path):
    """Two means share one claim; a record that says one, and the price of one, is cheaper than what was done."""
    path = tmp_path / "study"
    with eh.Holdout.create(path, PRIVATE, prior=eh.Reference(PUBLIC), seed=4) as held:
        cheaper = held.budget.claim_price(parts=1, sides=2)
        assert held.compare(eh.Mean("x", **RANGE), eh.Median("x", **RANGE)).price > cheaper
    change = both(option("compare", "parts", 1), result("compare", "price", cheaper))
    assert not eh.Holdout.audit_file(forged(path, tmp_path / "forged", change)).ok
