"""A study that somebody has open: this process says so at once, another one waits with a word, and not for ever."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.patience import PATIENCE, patience, patiently

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(2, 300, 2))
y, z = (X[:, 0] > 0).astype(int), (Z[:, 0] > 0).astype(int)


def made(path):
    return eh.TestSet(X, y, reference=(Z, z), path=path, seed=1, register=False)


def rule(rows):
    return (rows[:, 0] > 0).astype(int)


class Clock:
    """Time that passes only where somebody waits for it."""

    def __init__(self):
        self.now, self.said = 0.0, []

    def __call__(self):
        return self.now

    def sleep(self, _):
        self.now += 0.25

    def wait_for(self, work):
        return patiently(work, clock=self, pause=self.sleep, say=self.said.append)


def busy():
    error = eh.LedgerBusy("t.everhold is open for asking elsewhere (process 77).")
    error.holder = "77"
    return error


class TestPatience:
    def test_it_says_whom_it_waits_for_and_gives_up(self, monkeypatch):
        monkeypatch.setenv("EVERHOLD_PATIENCE", "10")
        clock, times = Clock(), []

        def work():
            times.append(clock.now)
            raise busy()

        with pytest.raises(eh.LedgerBusy, match=r"process 77.*waited 10 seconds and gives up.*EVERHOLD_PATIENCE"):
            clock.wait_for(work)
        assert times[-1] == 10.0
        assert len(clock.said) == 1
        assert "waiting for process 77" in clock.said[0]

    def test_a_short_wait_says_nothing(self):
        clock = Clock()

        def work():
            if clock.now < 1.5:
                raise busy()
            return "done"

        assert clock.wait_for(work) == "done"
        assert clock.said == []

    def test_how_long_can_be_set(self, monkeypatch):
        monkeypatch.delenv("EVERHOLD_PATIENCE", raising=False)
        assert patience() == PATIENCE
        monkeypatch.setenv("EVERHOLD_PATIENCE", "1.5")
        assert patience() == 1.5
        for wrong in ("soon", "-1", "nan", "inf"):
            monkeypatch.setenv("EVERHOLD_PATIENCE", wrong)
            with pytest.raises(eh.SettingError, match="EVERHOLD_PATIENCE"):
                patience()


class TestOneProcess:
    def test_a_second_test_set_of_one_path_is_refused_at_once(self, tmp_path):
        path = tmp_path / "t.everhold"
        first = made(path)
        with pytest.raises(eh.LedgerError, match=r"this process has .* open already.*release\(\)") as error:
            made(path)
        assert not isinstance(error.value, eh.LedgerBusy)
        assert first.read(rule).round == 1, "the first is as it was"
        first.release()
        second = made(path)
        with pytest.raises(eh.LedgerError, match="open already"):
            _ = first.holdout
        second.release()
        assert first.holdout.rounds == 1
        first.release()

    def test_one_that_is_in_a_turn_is_waited_for(self, tmp_path):
        """Two shared test sets of one process: the second waits until the first has ended its turn."""
        path = tmp_path / "t.everhold"
        first = made(path)
        first.open_to_processes()
        second = made(path)
        second.open_to_processes()
        inside, done = threading.Event(), []

        def later():
            inside.wait(30)
            done.append(second.read(rule).round)

        thread = threading.Thread(target=later)
        thread.start()
        with first.turn():
            inside.set()
            assert done == []
        thread.join(30)
        assert done == [1]
        first.release()
        second.release()


def test_another_process_waits_and_gives_up(tmp_path):
    path = tmp_path / "t.everhold"
    first = made(path)
    code = f"""
import os
os.environ["EVERHOLD_PATIENCE"] = "0"
import everhold as eh
from tests.learn.test_waiting import made
try:
    made({str(path)!r})
except eh.LedgerBusy as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True).stdout
    assert "gives up" in said
    first.release()
