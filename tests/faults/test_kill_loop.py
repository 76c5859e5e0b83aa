"""Nothing lost, nothing free: SIGKILL at random moments while several clients ask."""

from __future__ import annotations

import os
import sqlite3

import pytest

import everhold as eh
from everhold.errors import LedgerError
from tests.faults.clients import PRIVATE, create
from tests.faults.kill_loop import Loop


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking a process that has threads
@pytest.mark.parametrize(("seed", "kills"), [(9, 5), *(pytest.param(seed, 50, marks=pytest.mark.slow) for seed in range(4))])
def test_two_hundred_kills(tmp_path, seed, kills):
    """50 kills a seed; the audit after every fifth, everything else after each. `make torture` does ten times as many."""
    loop = Loop(tmp_path / "study.everhold", seed)
    for kill in range(kills):
        loop.kill_once()
        if kill % 5 == 4:
            loop.check()
    loop.check()
    assert loop.landed > kills // 2, "most lives showed no answer: the loop tests nothing"
    assert len(loop.seen) > 3 * kills


class TestFailedWrites:
    """A commit that fails is ambiguous: nothing is told, the study stops, reopening finds out."""

    class Failing:
        """A connection that fails at one of its statements."""

        def __init__(self, con, statement, error):
            self._con, self._statement, self._error = con, statement, error

        def execute(self, sql, *args):
            if sql.startswith(self._statement):
                if self._statement == "COMMIT" and self._error == "after":
                    self._con.execute(sql, *args)
                raise sqlite3.OperationalError("disk I/O error")
            return self._con.execute(sql, *args)

        def close(self):
            self._con.close()

    @pytest.mark.parametrize(
        ("statement", "when"), [("BEGIN", "before"), ("INSERT", "before"), ("COMMIT", "before"), ("COMMIT", "after")]
    )
    def test_nothing_is_told_and_nothing_lost(self, tmp_path, statement, when):
        path = tmp_path / "study.everhold"
        create(path)
        held = eh.Holdout.open(path, data=PRIVATE)
        first = held.ask("age > 40", request_id="one")
        store = held.journal.store
        store._con = self.Failing(store._con, statement, when)
        with pytest.raises(LedgerError, match="could not be written"):
            held.ask("smoker", request_id="two")
        for question in ("age > 40", "age > 50"):
            with pytest.raises(LedgerError, match="no further answer is returned"):
                held.ask(question)
        again = eh.Holdout.open(path, data=PRIVATE)
        assert again.rounds == (2 if when == "after" else 1)
        assert again.ask("age > 40", request_id="one") == first
        second = again.ask("smoker", request_id="two")
        assert second.round == 2
        assert again.audit().ok
        again.close()

    def test_a_batch_is_recorded_whole_or_not_at_all(self, tmp_path):
        path = tmp_path / "study.everhold"
        create(path)
        held = eh.Holdout.open(path, data=PRIVATE)
        store = held.journal.store
        store._con = self.Failing(store._con, "COMMIT", "before")
        with pytest.raises(LedgerError):
            held.ask_many([f"age > {age}" for age in range(20, 40)])
        again = eh.Holdout.open(path, data=PRIVATE)
        assert again.rounds == 0
        assert len(again.ask_many([f"age > {age}" for age in range(20, 40)])) == 20
        again.close()

    def test_an_interrupt_before_the_record_leaves_no_free_answer(self, tmp_path):
        """Ctrl-C between the decision and the record: the round is recorded before anything else is told."""
        path = tmp_path / "study.everhold"
        create(path)
        held = eh.Holdout.open(path, data=PRIVATE)
        journal = held.journal
        flush, journal.flush = journal.flush, lambda: None
        original = held.session.recorder._finish_round

        def interrupted(decided):
            held.session.recorder._finish_round = original
            raise KeyboardInterrupt

        held.session.recorder._finish_round = interrupted
        with pytest.raises(KeyboardInterrupt):
            held.ask("smoker")
        journal.flush = flush
        for tell in (lambda: held.ask("age > 40"), lambda: held.rounds, lambda: held.transcript, lambda: held.journal):
            with pytest.raises(LedgerError, match="no further answer is returned"):
                tell()
        assert "interrupted" in repr(held)
        with eh.Holdout.open(path, data=PRIVATE) as again:
            assert again.rounds == 0
            assert again.ask("smoker").round == 1
            assert again.audit().ok

    @pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(1, 7))])
    def test_an_interrupt_at_any_line(self, tmp_path, first):
        """Ctrl-C at every line of asking, in turn: what is shown later is in the ledger, once, and the audit passes."""
        import sys

        lines, stop, total = 0, first - 6, 0
        while lines >= stop:
            stop += 7
            path = tmp_path / f"{stop}.everhold"
            create(path)
            held = eh.Holdout.open(path, data=PRIVATE)
            lines = 0

            def trace(frame, event, _, stop=stop):
                nonlocal lines
                if event == "line" and "everhold" in frame.f_code.co_filename:
                    lines += 1
                    if lines == stop:
                        sys.settrace(None)
                        raise KeyboardInterrupt
                return trace

            sys.settrace(trace)
            try:
                held.ask("smoker", request_id="one")
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            shown = []
            for _ in range(2):
                try:
                    shown.append(held.ask("smoker", request_id="one"))
                    shown.append(held.ask("age > 40", request_id="two"))
                except LedgerError:
                    pass
            held.close()
            found = eh.Holdout.audit_file(path)
            assert found.ok, (stop, str(found))
            with eh.Holdout.open(path, data=PRIVATE) as again:
                recorded = [past.answer for past in again.journal]
                assert len(recorded) <= 2
                assert all(answer in recorded for answer in shown), stop
            total += len(shown)
        assert stop > 200
        assert total > 20, "nothing was shown after an interrupt: the test compares nothing"

    def test_a_full_disk_at_creation_leaves_nothing(self, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "link", full)
        with pytest.raises(LedgerError, match="could not be created"):
            create(tmp_path / "study.everhold")
        assert not (tmp_path / "study.everhold").exists()
        monkeypatch.undo()
        create(tmp_path / "study.everhold")
