"""A check or a submission costs a server the same however many came before: counted in records read, not in seconds."""

import asyncio

import numpy as np
import pytest

import everhold as eh
from everhold.gate.gate import Gate
from everhold.ledger.reader import read_study
from everhold.ledger.store import Store
from everhold.queries.request import AskedBy
from everhold.server.caller import Caller
from everhold.server.contest_writer import ContestWriter
from everhold.server.gate_writer import GateWriter
from everhold.server.time_grid import TimeGrid
from tests.gate.test_gate import cases, improved, shuffled
from tests.server.serving import make_contest


@pytest.fixture
def read(monkeypatch):
    """The records that were read, each as often as it was."""
    found, some = [], Store._next_rows

    def counted(self, seq, size):
        rows, size = some(self, seq, size)
        found.extend(rows)
        return rows, size

    monkeypatch.setattr(Store, "_next_rows", counted)
    return found


def caller(number):
    return Caller(asked_by=AskedBy(who="ann", request_id=f"r{number}"))


async def check(writer, outcomes, number):
    return await writer.check(outcomes, caller(number), name=f"c{number}", artifact=None)


def as_read(file):
    return file.rounds, file.findings, file.acts, str(file.head), file.budget, file.closed


@pytest.mark.parametrize("certify", ["each", "final"])
def test_no_record_is_read_again_for_a_check(tmp_path, read, certify):
    old = cases(300)
    Gate.create(tmp_path / "g.everhold", old, certify=certify).release()
    writer = GateWriter(tmp_path / "g.everhold", grid=TimeGrid(0))
    opened = len(read)

    async def checks():
        for number in range(30):
            new = improved(old, 0.6) if number == 20 else shuffled(old, seed=number)
            found = await check(writer, new, number)
            assert (found.checks, found.promoted) == (number + 1, number == 20 if certify == "each" else found.promoted)
            assert writer.status().checks == writer.progress.acts == number + 1
        with pytest.raises(eh.InvalidOutcomes):
            await check(writer, {"nothing": 1}, 99)

    asyncio.run(checks())
    assert len(read) == opened
    assert writer.status() == writer.gate.status()
    assert as_read(writer.file()) == as_read(read_study(writer.path))
    asyncio.run(writer.finish(caller("last")))
    assert writer.status() == writer.gate.status()
    assert as_read(writer.file()) == as_read(read_study(writer.path))
    assert writer.status().finished
    writer.close()


def test_the_control_reads_all_of_it(tmp_path, read):
    """A gate's status from its file, as every check took it twice before, reads more each time."""
    old = cases(300)
    counts = []
    with Gate.create(tmp_path / "g.everhold", old) as gate:
        for number in range(8):
            before = len(read)
            gate.check(shuffled(old, seed=number))
            gate.status()
            counts.append(len(read) - before)
    assert counts == sorted(set(counts))


def test_what_another_process_checked_is_seen(tmp_path, read):
    """The file is read again where somebody else wrote last, and once."""
    old = cases(300)
    Gate.create(tmp_path / "g.everhold", old, generation_size=2).release()
    writer = GateWriter(tmp_path / "g.everhold", grid=TimeGrid(0))
    with Gate(tmp_path / "g.everhold") as shell:
        shell.check(shuffled(old, seed=1))
        assert writer.status().waiting == 1
        shell.check(shuffled(old, seed=2))
    before = len(read)
    assert (writer.status().checks, writer.status().waiting) == (1, 0)
    once = len(read) - before
    assert once == sum(1 for _ in _records(writer.path))
    asyncio.run(check(writer, shuffled(old, seed=3), 3))
    assert writer.status().waiting == 1
    asyncio.run(check(writer, shuffled(old, seed=4), 4))
    assert writer.status().checks == 2
    assert writer.status() == writer.gate.status()
    assert as_read(writer.file()) == as_read(read_study(writer.path))
    writer.close()


def _records(path):
    store = Store.open(path, write=False)
    try:
        yield from store.records()
    finally:
        store.close()


def test_a_private_gate_reads_nothing_again_either(tmp_path, read):
    old = cases(2_000)
    Gate.create(tmp_path / "g.everhold", old, outcomes="pass", privacy=eh.Privacy(epsilon=5.0, surprises=2)).release()
    writer = GateWriter(tmp_path / "g.everhold", grid=TimeGrid(0))
    opened = len(read)
    for number in range(6):
        outcomes = improved(old, 0.6) if number == 3 else dict.fromkeys(old, 0)  # so far apart that noise decides nothing
        asyncio.run(check(writer, outcomes, number))
    assert writer.status().promotions == 1
    assert len(read) == opened
    assert writer.status() == writer.gate.status()
    assert as_read(writer.file()) == as_read(read_study(writer.path))
    writer.close()


def test_no_record_is_read_again_for_a_submission(tmp_path, read):
    place, labels = make_contest(tmp_path)
    writer = ContestWriter(place, grid=TimeGrid(0))
    rng = np.random.default_rng(1)
    opened = len(read)
    for number in range(10):
        guess = np.where(rng.random(len(labels)) < 0.3, 1 - labels, labels)
        sent = "id,prediction\n" + "".join(f"{row},{one}\n" for row, one in enumerate(guess))
        assert asyncio.run(writer.submit("ann", sent.encode())).state == "scored"
        assert writer.progress.rounds == number + 1
    assert len(read) == opened
    assert writer.board() == writer.contest.board()
    assert as_read(writer.file()) == as_read(read_study(place))
    writer.close()


def test_a_check_that_cannot_be_recorded_shows_what_the_file_says(tmp_path, read, monkeypatch):
    old = cases(300)
    place = tmp_path / "g.everhold"
    Gate.create(place, old).release()
    writer = GateWriter(place, grid=TimeGrid(0))
    asyncio.run(check(writer, shuffled(old), 1))
    append, times = Store.append, iter(range(9))

    def failing(self, records):
        if next(times):
            self.fail()
            raise eh.LedgerError("the disk is full.")
        append(self, records)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "append", failing)
        with pytest.raises(eh.LedgerError):
            asyncio.run(check(writer, improved(old, 0.6), 2))
    assert writer.broken
    assert writer.status() == Gate(place).status()
    assert as_read(writer.file()) == as_read(read_study(place))
    with pytest.raises(eh.LedgerError):
        writer.gate.status_and_holdout()
    writer.close()
    opened = GateWriter(place, grid=TimeGrid(0))
    status = opened.status()
    assert (status.checks, status.promotions, status.interrupted) == (2, 0, 1)
    assert status == opened.gate.status()
    opened.close()
