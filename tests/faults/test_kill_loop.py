"""Nothing lost, nothing free: SIGKILL at random moments while several clients ask, read, choose, compare and close."""

from __future__ import annotations

import os
import sys

import pytest

import everhold as eh
from everhold.errors import LedgerError
from tests.faults.deeds import KINDS, LAST, PRIVATE, Deed
from tests.faults.kill_loop import Loop
from tests.faults.lives import create
from tests.faults.record_check import check

THOROUGH = bool(os.environ.get("EVERHOLD_THOROUGH"))
"""Nightly: every line of an ask and every seventeenth of each other act; otherwise some of these."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking a process that has threads
@pytest.mark.parametrize(
    ("seed", "kills"), [(9, 10), *(pytest.param(seed, 50, marks=pytest.mark.slow) for seed in range(4))]
)
def test_two_hundred_kills(tmp_path, seed, kills):
    """50 kills a seed; everything is checked after every fifth. The last lives close the study. `make torture` does more."""
    loop = Loop(tmp_path / "study.everhold", seed)
    for kill in range(kills):
        loop.kill_once()
        if kill % 5 == 4:
            loop.check()
    for last in LAST:
        while not loop.kinds()[last]:
            loop.kill_once(last)
        loop.check()
        loop.kill_once(last)  # asked for again, under the same id
        loop.check()
    assert loop.landed > kills // 2, "most lives showed no answer: the loop tests nothing"
    assert len(loop.seen.shown) > 3 * kills
    assert set(loop.kinds()) == {*KINDS, *LAST}


class TestInterrupts:
    """Ctrl-C, where the process lives on."""

    def test_between_the_decision_and_the_record_leaves_no_free_answer(self, tmp_path):
        """The round is recorded before anything else is returned."""
        path = tmp_path / "study.everhold"
        create(path)
        held = eh.Holdout.open(path, data=PRIVATE)
        journal = held.journal
        flush, journal.flush = journal.flush, lambda: None
        original = held.session.recorder._record_round

        def interrupted(decided):
            held.session.recorder._record_round = original
            raise KeyboardInterrupt

        held.session.recorder._record_round = interrupted
        with pytest.raises(KeyboardInterrupt):
            held.ask("smoker")
        journal.flush = flush
        for show in (lambda: held.ask("age > 40"), lambda: held.rounds, lambda: held.transcript, lambda: held.journal):
            with pytest.raises(LedgerError, match="no further answer is returned"):
                show()
        assert "interrupted" in repr(held)
        with eh.Holdout.open(path, data=PRIVATE) as again:
            assert again.rounds == 0
            assert again.ask("smoker").round == 1
            assert again.audit().ok

    @pytest.mark.parametrize(
        ("kind", "first", "stride"),
        [
            ("ask", 0, 7),
            *((kind, 10 * place, 101) for place, kind in enumerate((*KINDS, *LAST))),
            *(pytest.param("ask", first, 7, marks=pytest.mark.slow) for first in (range(1, 7) if THOROUGH else (4,))),
            *(pytest.param(kind, 5, 17 if THOROUGH else 47, marks=pytest.mark.slow) for kind in (*KINDS, *LAST)),
        ],
    )
    def test_at_any_line(self, tmp_path, kind, first, stride):
        """Ctrl-C at lines of a deed, in turn: what is shown later is in the ledger, once, and the audit passes."""
        one, lines, stop, shown_at_all = Deed(1, 1, kind), 0, first + 1, 0
        while lines >= stop - stride or stop == first + 1:
            path = tmp_path / f"{stop}.everhold"
            create(path)
            held = eh.Holdout.open(path, data=PRIVATE)
            lines = 0

            def trace(frame, event, _, stop=stop):
                nonlocal lines
                if event == "call" and "everhold" not in frame.f_code.co_filename:
                    return None  # no lines of other packages
                if event == "line":
                    lines += 1
                    if lines == stop:
                        sys.settrace(None)
                        raise KeyboardInterrupt
                return trace

            shown = {}
            sys.settrace(trace)
            try:
                shown[one] = one.do(held)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            other = Deed(2, 2, "ask")
            for after in (one, other, one):
                try:
                    found = after.do(held)
                except (LedgerError, eh.HoldoutClosed):
                    continue
                assert shown.setdefault(after, found) == found, stop
            held.release()
            check(path, shown, set())
            shown_at_all += len(shown)
            stop += stride
        assert stop > 200
        assert shown_at_all > 5, "nothing was shown after an interrupt: the test compares nothing"


def test_a_full_disk_at_creation_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(LedgerError, match="could not be created"):
        create(tmp_path / "study.everhold")
    assert not (tmp_path / "study.everhold").exists()
    monkeypatch.undo()
    create(tmp_path / "study.everhold")
