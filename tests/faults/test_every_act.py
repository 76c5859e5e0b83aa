"""Every deed, killed at every point and failed at every write; and a control for each promise, which must be caught."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

import pytest

import everhold as eh
from everhold.acts import ACTS
from everhold.bounds.budget import Budget
from everhold.errors import LedgerError
from everhold.ledger.journal import Journal
from everhold.session import recorder
from tests.faults.deeds import KINDS, LAST, PRIVATE, Deed, is_about_a_round
from tests.faults.kill_loop import Loop
from tests.faults.kill_points import lives
from tests.faults.lives import create
from tests.faults.record_check import RecordBroken, check

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking a process that has threads
ALL = (*KINDS, *LAST)
NUMBERS = (1, 2)  # of deeds: of plain questions, and of statistics


def test_every_act_is_a_deed():
    assert set(ACTS) < set(ALL)
    assert LAST == ("close",)


def again(path, one, seen):
    """Whoever comes after the kill does the same, under the same id."""
    with eh.Holdout.open(path, data=PRIVATE) as held:
        seen.shown.setdefault(one, one.do(held))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", ALL)
def test_killed_at_every_point(tmp_path, kind, number):
    """The promises hold at once, and after the same deed was done again; an act that looked is charged or completed."""
    one, killed, interrupted = Deed(1, number, kind), 0, 0
    for path, seen in lives(tmp_path, one):
        with eh.Holdout.open(path, data=PRIVATE) as held:
            after = held.budget
        counted = check(path, seen.shown, seen.looked)
        interrupted += counted.get("interrupted", 0)
        if kind in ACTS and counted.get("interrupted"):
            before = _budget_before(tmp_path)
            assert after.spending.left < before.spending.left or after.nats > before.nats + 4.0
        if not counted.get("close"):
            again(path, one, seen)
            check(path, seen.shown, seen.looked)
        killed += 1
    assert killed > 4
    reads_text_only = kind in ("read", "read_many", "close")  # these are completed, as tests/validity shows
    assert bool(interrupted) == (kind in ACTS and not reads_text_only)


def _budget_before(folder):
    path = folder / "before.everhold"
    path.unlink(missing_ok=True)
    create(path)
    with eh.Holdout.open(path, data=PRIVATE) as held:
        held.ask("age > 40")
        held.read("age > 60")
        return held.budget


def check_all(some, *, looks=True):
    """Every promise, of several studies."""
    for path, seen in some:
        check(path, seen.shown, seen.looked if looks else set())


# controls ---------------------------------------------------------------------------------------------------------------


def reveals_first(reporter):
    """What is shown is written afterwards."""
    flush, after = Journal.flush, reporter.after_shown
    late = []

    def shown():
        after()
        for journal in late:
            flush(journal)

    Journal.flush, reporter.after_shown = lambda journal: late.append(journal), shown


def looks_first(_):
    """An act is announced together with its result."""
    flush = Journal.flush

    def flushed(journal):
        if not journal._waiting or journal._waiting[-1].kind != "begun":
            flush(journal)

    Journal.flush = flushed


def forgets_a_choice(_):
    """A selection costs nothing."""
    Budget.chosen = lambda budget, _: budget


@pytest.mark.parametrize("kind", ALL)
def test_control_showing_before_writing_is_caught(tmp_path, kind):
    with pytest.raises(RecordBroken, match="what was shown is in the ledger"):
        check_all(lives(tmp_path, Deed(1, 1, kind), reveals_first), looks=False)


@pytest.mark.parametrize("kind", [kind for kind in ACTS if not is_about_a_round(kind)])
def test_control_looking_before_the_announcement_is_caught(tmp_path, kind):
    with pytest.raises(RecordBroken, match="an act is announced before private rows are read"):
        check_all(lives(tmp_path, Deed(1, 1, kind), looks_first))


@pytest.mark.parametrize("kind", ["best_of", "is_better", "compare"])
def test_control_a_free_look_is_caught(tmp_path, monkeypatch, kind):
    """An interrupted act that costs nothing: every audit would agree, because it computes the same."""
    for name in ("interrupted", "interrupted_bit"):
        monkeypatch.setattr(Budget, name, lambda budget, *_: budget)
    with pytest.raises(RecordBroken, match="an interrupted act is charged"):
        check_all(lives(tmp_path, Deed(1, 1, kind)))


@pytest.mark.parametrize("kind", ["ask", *(kind for kind in ACTS if kind not in ("read", "read_many", "close"))])
def test_control_a_request_that_is_not_recognised_is_caught(tmp_path, monkeypatch, kind):
    """It is answered twice. (The same reading is recognised by its question too.)"""
    one = Deed(1, 1, kind)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "act_of_request", lambda *_: None)
        patch.setattr(Journal, "round_of_request", lambda *_: None)
        patch.setattr(Journal, "narrowest_answer", lambda *_: None)
        paths = []
        for path, seen in lives(tmp_path, one):
            with suppress(eh.QuestionError):  # a second certificate of the same round is not narrower
                again(path, one, seen)
            paths.append((path, seen))
    with pytest.raises(RecordBroken, match=r"a request is answered once|gives the recorded result"):
        check_all(paths)


def test_control_an_act_that_is_not_paid_for_is_caught(tmp_path):
    for path, seen in lives(tmp_path, Deed(1, 1, "best_of"), forgets_a_choice):
        if seen.shown:
            assert not eh.Holdout.audit_file(path).ok
            with pytest.raises(eh.ReplayError):
                check(path, seen.shown, seen.looked)


def test_control_an_act_that_stays_open_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder.Recorder, "end_interrupted_act", lambda *_: None)
    with pytest.raises(RecordBroken, match="every act that began has ended"):
        check_all(lives(tmp_path, Deed(1, 1, "best_of")))


def test_control_the_loop_catches_a_late_write(tmp_path):
    """Random kills, all kinds of deeds: what is written one turn later is missed within 40 kills.

    A kill loses what was shown last unless it comes while opening: each misses it with a probability of at most 1/2.
    """
    flush = Journal.flush

    def one_behind(reporter):
        def late(journal):
            journal.require_open()
            if journal._waiting and journal._waiting[-1].kind != "begun":
                kept, journal._waiting = journal._waiting, getattr(journal, "_late", [])
                if journal._waiting:
                    flush(journal)
                journal._late, journal._waiting = kept, []

        Journal.flush = late

    loop = Loop(tmp_path / "study.everhold", 3, one_behind)

    def kill_and_check(kills):
        for _ in range(kills):
            loop.kill_once()
            loop.check()

    with pytest.raises((AssertionError, eh.EverholdError)):
        kill_and_check(40)


# failed writes ----------------------------------------------------------------------------------------------------------


class Failing:
    """A connection that fails at the statement with this number, before or after it was done."""

    def __init__(self, con, number, *, after):
        self._con, self._number, self._after = con, number, after
        self.failed = False

    def execute(self, sql, *given):
        self._number -= 1
        if self._number == 0:
            self.failed = True
            if self._after:
                self._con.execute(sql, *given)
            raise sqlite3.OperationalError("disk I/O error")
        return self._con.execute(sql, *given)

    def close(self):
        self._con.close()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ALL)
def test_every_statement_fails_in_turn(tmp_path, kind, after):
    """Nothing is returned, the study stops, and whoever opens it again finds it whole."""
    one, failed = Deed(1, 1, kind), 0
    for number in range(1, 1000):
        path = tmp_path / f"{number}.everhold"
        create(path)
        held = eh.Holdout.open(path, data=PRIVATE)
        first = held.ask("age > 40", request_id="first")
        store = held.journal.store
        store._con = failing = Failing(store._con, number, after=after)
        shown = {}
        try:
            shown[one] = one.do(held)
        except LedgerError:
            for question in ("age > 40", "age > 50"):
                with pytest.raises(LedgerError, match="no further answer is returned"):
                    held.ask(question)
        held.release()
        assert failing.failed != (one in shown)
        check(path, shown, set())
        with eh.Holdout.open(path, data=PRIVATE) as held:
            shown.setdefault(one, one.do(held))
            assert held.ask("age > 40", request_id="first") == first
        check(path, shown, set())
        if not failing.failed:
            break
        failed += 1
    assert failed >= (6 if kind in ACTS else 3)
