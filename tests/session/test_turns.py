"""What a turn must never do: return what is not recorded, or charge for what cannot be recorded."""

from datetime import date
from fractions import Fraction

import numpy as np
import pytest

import everhold as eh
from everhold.session.holdout import holdout_without_rows


def people(size, seed, smokers=0.3):
    rng = np.random.default_rng(seed)
    joined = np.datetime64("2023-01-01") + rng.integers(0, 700, size).astype("timedelta64[D]")
    return {
        "age": rng.integers(18, 90, size),
        "bmi": rng.normal(26, 4, size),
        "smoker": rng.random(size) < smokers,
        "joined": joined,
    }


PRIVATE, PUBLIC = people(3_000, 0), people(2_000, 1, 0.2)


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "s.everhold"
    eh.Holdout.create(place, PRIVATE, prior=eh.Reference(PUBLIC), seed=1).release()
    return place


@pytest.fixture
def held(path):
    with eh.Holdout.open(path, data=PRIVATE) as found:
        yield found


def test_an_interrupted_resume_answers_nothing(path, monkeypatch):
    """Half of another process's rounds taken over: before, the next answer was in no ledger."""
    held = eh.Holdout.open(path, data=PRIVATE)
    held.ask("age > 40")
    held.pause()
    with eh.Holdout.open(path, data=PRIVATE) as other:
        other.ask_many(["age > 50", "age > 51"])
    mechanism = type(held.session.mechanism)

    def interrupted(self, rounds):
        raise KeyboardInterrupt

    monkeypatch.setattr(mechanism, "skip", interrupted)
    with pytest.raises(KeyboardInterrupt):
        held.resume()
    monkeypatch.undo()
    assert not held.usable  # at once, and not only when the next round does not fit
    with pytest.raises(eh.LedgerError):
        held.ask("age > 70")
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert again.rounds == 3
        assert again.audit().ok


def test_a_question_cannot_pause_the_study_that_answers_it(held):
    """A callable that pauses is like one that fails on the public rows: nothing is charged."""
    with pytest.raises((eh.QuestionError, eh.LedgerError)):
        held.ask(lambda rows: held.pause() or rows["age"] > 40)
    assert held.rounds == 0
    assert held.ask("smoker").round == 1
    assert held.audit().ok


@pytest.mark.parametrize(
    "wanted",
    [
        eh.Histogram("age", bins=np.int64(5)),
        eh.Histogram("age", edges=np.arange(20, 90, 10)),
        eh.Histogram("age", edges=range(20, 90, 10)),
        eh.Histogram("joined", edges=[date(2023, 1, 1), date(2024, 1, 1)]),
        eh.Median("joined", low=np.datetime64("2023-01-01"), high=np.datetime64("2025-01-01")),
        eh.Mean("bmi", low=np.float32(10), high=np.float64(60)),
        eh.Ratio("bmi", "age", first_range=[10, 60], second_range=np.array([0, 100])),
    ],
    ids=str,
)
def test_numbers_and_dates_of_other_libraries_are_recorded_as_python_s_own(held, wanted):
    """Before, some were charged and then not recorded, and one made the study unreadable."""
    found = held.ask(wanted)
    assert held.audit().ok
    assert held.ask(wanted) == found
    assert len([one for one in held.findings() if one.finding is not None]) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda h: h.quantile("bmi", Fraction(9, 10)),
        lambda h: h.ask(eh.Compare("smoker", "age > 80", low="\ud800")),
        lambda h: h.ask(eh.Compare("smoker", "age > 80", low=True)),
        lambda h: h.ask(eh.Compare("smoker", "age > 80", low=0, high=1)),
        lambda h: h.table("smoker", bins="many"),
        lambda h: h.histogram("age", edges=[float("nan"), 1.0]),
        lambda h: h.histogram("smoker", edges=[3, 1]),
        lambda h: h.mean("bmi", low=float("nan"), high=3),
        lambda h: h.mean("bmi", low=-(10**400), high=10**400),
        lambda h: h.ask(eh.Ratio("bmi", "age", first_range=(5,))),
        lambda h: h.ask(eh.Ratio("bmi", "age", first_range=(5, 6, 7))),
        lambda h: h.mean(5),
        lambda h: h.share("smoker", given=7),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_it_is_charged(held, ask):
    with pytest.raises((eh.QuestionError, eh.SettingError)):
        ask(held)
    assert held.rounds == 0
    assert held.ask("smoker").round == 1
    assert held.audit().ok


def test_no_power_decides_what_is_asked():
    """`x ** 2` and `x ** 0.5` are not rounded alike on all processors; products and square roots are."""
    import ast
    from pathlib import Path

    import everhold.bounds.derived as derived
    import everhold.statistics as statistics

    places = [Path(derived.__file__), *Path(statistics.__file__).parent.glob("*.py")]
    assert len(places) > 8
    for place in places:
        powers = [node for node in ast.walk(ast.parse(place.read_text())) if isinstance(node, ast.Pow)]
        assert not powers, place


def test_a_batch_of_texts_is_one_scan_of_the_private_rows(monkeypatch):
    """Each question of a batch used to scan once more, for nothing."""
    from everhold.data.engines.memory import MemoryEngine

    scans = []
    scan = MemoryEngine.sums
    monkeypatch.setattr(
        MemoryEngine, "sums", lambda engine, questions: scans.append(len(questions)) or scan(engine, questions)
    )
    held = eh.Holdout(PRIVATE, prior=eh.Reference(PUBLIC), seed=1)
    held.ask_many([f"age > {year}" for year in range(20, 60)])
    assert scans == [40]


def test_ctrl_c_at_the_end_of_an_act_returns_nothing_that_is_not_recorded(path, monkeypatch):
    """Before, the same request was answered from memory while its file had only the act's beginning."""
    with eh.Holdout.open(path, data=PRIVATE) as held:
        journal = type(held.journal)
        end, wrote = journal.restore_act_end, []

        def interrupted(self, done):
            found = end(self, done)
            wrote.append(found)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(journal, "restore_act_end", interrupted)
            with pytest.raises(KeyboardInterrupt):
                held.best_of(["smoker", "age > 60"], request_id="one")
        assert wrote
        with pytest.raises(eh.LedgerError, match="no further answer is returned"):
            held.best_of(["smoker", "age > 60"], request_id="one")
    with eh.Holdout.open(path, data=PRIVATE) as again:
        assert again.best_of(["smoker", "age > 60"], request_id="one").index == 1
        assert again.audit().ok


def test_a_certificate_is_refused_by_what_others_have_disclosed_meanwhile(held, monkeypatch):
    """Somebody else's readings come between the request and its turn: nothing breaks."""
    asked = held.ask("age > 40")
    do_act = type(held.session.recorder).do_act

    def after_others(self, *given, **more):
        with monkeypatch.context() as patch:
            patch.setattr(type(self), "do_act", do_act)
            for age in range(50, 60):
                held.read(f"age > {age}")
        return do_act(self, *given, **more)

    monkeypatch.setattr(type(held.session.recorder), "do_act", after_others)
    with pytest.raises(eh.QuestionError, match="would not be narrower"):
        held.certify(asked)
    assert held.usable
    assert held.audit().ok


@pytest.mark.parametrize("act", ["best_of", "is_better", "compare", "close"])
def test_other_acts_wait_for_a_batch_of_readings(held, monkeypatch, act):
    """Another thread's readings are under way while an act tries its statistics on the public side."""
    from threading import Event, Thread

    things = [eh.Mean("bmi", given="smoker"), eh.Mean("bmi", given="NOT smoker")]
    acts = {
        "best_of": lambda: held.best_of(things),
        "is_better": lambda: held.is_better(*things),
        "compare": lambda: held.compare(*things),
        "close": lambda: held.close(things),
    }
    recorder, middle, results = type(held.session.recorder), Event(), []
    finish = recorder._record_round

    def slowly(self, decided):
        found = finish(self, decided)
        if not middle.is_set():
            other = Thread(target=lambda: results.append(acts[act]()))
            other.start()
            middle.set()
            other.join(0.2)  # it waits for its turn; without turns it has failed by now
            assert other.is_alive(), "an act did not wait for the readings"
            threads.append(other)
        return found

    threads = []
    monkeypatch.setattr(recorder, "_record_round", slowly)
    assert len(held.read_many(["age > 40", "age > 50", "age > 60"])) == 3
    threads[0].join()
    assert len(results) == 1
    assert held.audit().ok


def test_a_holdout_of_a_file_is_of_no_other_class_and_has_all_attributes(path):
    in_memory = eh.Holdout(PRIVATE, prior=eh.Reference(PUBLIC), seed=1)
    with eh.Holdout.open(path, data=PRIVATE) as opened:
        for other in (opened, holdout_without_rows(path)):
            assert type(other) is eh.Holdout
            assert set(vars(other)) == set(vars(in_memory))
            assert None not in vars(other).values()
