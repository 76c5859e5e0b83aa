"""What a power cut may not take away, also after a process was killed: judged by a simulated disk."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np
import pytest

import everhold as eh
from everhold.errors import LedgerError
from everhold.gate.gate import Gate
from everhold.gate.waiting import WaitingCandidates
from everhold.ledger.gate_check import Candidate
from everhold.ledger.kept_arrays import KeptArrays
from everhold.ledger.reader import read_study
from everhold.ledger.registry import Registry
from everhold.ledger.safe_files import append_line, write_atomic
from everhold.ledger.store import Record, Store
from tests.gate.test_gate import cases, improved
from tests.simulation.boundary import simulated
from tests.simulation.disk import Disk
from tests.simulation.time_and_threads import CURRENT, Crew, Killed, Loop, Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated disk follows Linux")


class Machine:
    """A disk on which something goes wrong at a step that a test names."""

    def __init__(self, root):
        self.loop, self.coins = Loop(), random.Random(1)
        self.disk, self.crew = Disk(root, self.loop.time), Crew(self.loop, self.coins)
        self.killed_at = self.fails_at = None
        self.steps = []

    def now(self):
        return datetime(2030, 1, 1, tzinfo=UTC)

    def step(self, process, what, name):
        self.steps.append((what, name))
        if self.killed_at is not None and self.killed_at(what, name):
            process.alive = False
        return errno.ENOSPC if self.fails_at is not None and self.fails_at(what, name) else 0

    def failed(self, error):
        raise error

    def run(self, work):
        """In a process of its own; what the process has open is closed when it ends."""
        process = Process("one", 7)
        token = CURRENT.set(process)
        try:
            return work()
        except (Killed, LedgerError):
            if process.alive:
                raise
            return None
        finally:
            process.alive = False
            for con in process.connections:
                con.close()
            for fd in list(process.files):
                os.close(fd)
            CURRENT.reset(token)


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    with simulated(made):
        yield made
    made.loop.close()


def test_control_what_is_not_synced_is_lost(machine, tmp_path):
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"something")
    assert "file" not in machine.disk.certain()
    os.fsync(fd)
    os.close(fd)
    assert "file" not in machine.disk.certain(), "its name is not synced"


def test_a_line_of_a_new_file_is_durable(machine, tmp_path):
    append_line(tmp_path / "log", b"one")
    append_line(tmp_path / "log", b"two")
    assert machine.disk.certain()["log"] == b"one\ntwo\n"


def test_a_line_that_was_cut_off_stays_by_itself(machine, tmp_path):
    write_atomic(tmp_path / "log", b"one\ntw")
    append_line(tmp_path / "log", b"three")
    assert (tmp_path / "log").read_bytes() == b"one\ntw\nthree\n"


def record(text):
    return Record("note", 1, text)


def append_and_be_killed(machine, path):
    """A process whose commit has happened, and is not durable: it ends before the last sync."""

    def append():
        store = Store.open(path, write=True)
        list(store.records())
        machine.killed_at = lambda what, name: what == "sync" and name == "."
        store.append([record("second")])

    machine.run(append)
    machine.killed_at = None
    assert not (path.parent / f"{path.name}-journal").exists()
    assert f"{path.name}-journal" in machine.disk.certain(), "a power cut would undo the commit"


def test_what_is_found_on_opening_is_durable(machine, tmp_path):
    path = tmp_path / "study.everhold"
    Store.create(path, record("first")).close()
    append_and_be_killed(machine, path)
    reader = Store.open(path, write=False)
    assert [one.body for one in reader.records()] == ["first", "second"]
    reader.close()
    assert f"{path.name}-journal" not in machine.disk.certain()


def test_what_another_process_left_is_durable_when_it_is_taken_over(machine, tmp_path):
    path = tmp_path / "study.everhold"
    store = Store.create(path, record("first"))
    store.pause()
    append_and_be_killed(machine, path)
    store.resume()
    assert [one.body for one in store.new_records()] == ["second"]
    assert f"{path.name}-journal" not in machine.disk.certain()
    store.close()


def test_a_candidate_that_a_killed_process_entered_is_durable_before_it_counts(machine, tmp_path):
    path = tmp_path / "gate.everhold"
    with Gate.create(path, cases(60), generation_size=2, certify="final"):
        pass
    candidate = improved(cases(60))
    machine.killed_at = lambda what, name: what == "sync" and name.endswith("waiting.jsonl")
    machine.run(lambda: Gate(path).check(candidate, request_id="one"))
    machine.killed_at = None
    waiting = f"{path.name}.waiting.jsonl"
    assert machine.disk.certain().get(waiting, b"") == b""
    with Gate(path) as gate:
        assert gate.check(candidate, request_id="one").state == "waiting"
    assert b'"one"' in machine.disk.certain()[waiting]


def test_outcomes_that_a_killed_process_kept_are_durable_before_they_are_used(machine, tmp_path):
    kept = KeptArrays(tmp_path / "outcomes", lambda values: "digest")
    machine.killed_at = lambda what, name: what == "sync" and name == "outcomes"
    machine.run(lambda: kept.keep(np.arange(3)))
    machine.killed_at = None
    os.fsync(folder := os.open(tmp_path, os.O_RDONLY))
    os.close(folder)
    assert "outcomes/digest.npy.z" not in machine.disk.certain()
    kept.keep(np.arange(3))
    assert "outcomes/digest.npy.z" in machine.disk.certain()


def test_the_registry_waits_for_the_end_of_its_journal(machine, tmp_path):
    registry = Registry(tmp_path / "home")
    digests = {"ids": registry.digests(["a", "b"])}
    registry.enter(study="one", kind="gate", path=tmp_path / "one", digests=digests)
    assert registry.advance("one", "", "2:" + "ab" * 32)
    certain = machine.disk.certain()
    assert {"home", "home/registry.key", "home/registry.sqlite"} <= set(certain)
    assert "home/registry.sqlite-journal" not in certain


def test_a_lock_is_taken_on_a_full_disk(machine, tmp_path):
    path = tmp_path / "study.everhold"
    Store.create(path, record("first")).close()
    machine.fails_at = lambda what, name: name.endswith(".lock")
    machine.run(lambda: Store.open(path, write=True).close())
    machine.fails_at = None
    Store.open(path, write=True).close()


@pytest.mark.parametrize("part", ["outcomes", "waiting.jsonl"])
def test_a_full_disk_is_an_error_of_the_ledger(machine, tmp_path, part):
    path = tmp_path / "gate.everhold"
    with Gate.create(path, cases(60), generation_size=2, certify="final"):
        pass
    machine.fails_at = lambda what, name: part in name and what in ("create", "write")
    with pytest.raises(LedgerError, match=r"cannot be written \(No space left on device\). Nothing was charged"):
        machine.run(lambda: Gate(path).check(improved(cases(60))))
    machine.fails_at = None
    with Gate(path) as gate:
        assert gate.check(improved(cases(60))).state == "waiting"


def test_waiting_candidates_survive_a_line_that_was_cut_off(tmp_path):
    waiting = WaitingCandidates(tmp_path / "waiting.jsonl")
    waiting.add(Candidate("a", "d", None), "one")
    with (tmp_path / "waiting.jsonl").open("ab") as file:
        file.write(b'{"kind": "cand')
    waiting.add(Candidate("b", "d", None), "two")
    assert waiting.names() == {"a", "b"}


_PROBE = """
import sqlite3, sys
con = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    con.execute("BEGIN IMMEDIATE")
    print("free")
except sqlite3.OperationalError as error:
    print(error)
"""


def probe(path):
    """Whether another process finds SQLite's lock free."""
    return subprocess.run([sys.executable, "-c", _PROBE, path], capture_output=True, text=True, check=True).stdout.strip()


def test_reading_a_study_does_not_end_the_locks_of_its_writer(tmp_path):
    """POSIX ends all locks of a process on a file when it closes any descriptor of it."""
    path = tmp_path / "study.everhold"
    private, public = {"age": np.arange(50.0)}, {"age": np.arange(40.0) + 0.5}
    eh.Holdout.create(path, private, prior=eh.Reference(public), register=False).release()
    store = Store.open(path, write=True)
    assert probe(path) == "free"
    store._con.execute("BEGIN IMMEDIATE")
    read_study(path)
    assert eh.Holdout.audit_file(path).ok
    assert probe(path) == "database is locked"
    store._con.execute("ROLLBACK")
    store.close()
    assert probe(path) == "free"


def test_control_a_plain_read_ends_them(tmp_path):
    path = tmp_path / "study.everhold"
    Store.create(path, record("first")).close()
    store = Store.open(path, write=True)
    store._con.execute("BEGIN IMMEDIATE")
    path.read_bytes()
    assert probe(path) == "free"
    with suppress(sqlite3.Error):
        store._con.execute("ROLLBACK")
    store.close()


def test_files_are_closed_with_the_last_connection(tmp_path):
    path = tmp_path / "study.everhold"
    Store.create(path, record("first")).close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        store = Store.open(path, write=True)
        Store.open(path, write=False).close()
        store.close()
    assert len(os.listdir("/proc/self/fd")) == before
