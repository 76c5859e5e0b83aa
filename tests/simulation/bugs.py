"""Bugs to plant, each of which the simulation must find: controls that show that it can.

Each is a change of one place of the product, for the time of a test.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from everhold.errors import EverholdError, LedgerBusy
from everhold.ledger import safe_files, store
from everhold.ledger.journal import Journal
from everhold.ledger.store import Store
from everhold.server.job_queue import Job
from everhold.server.study_writer import StudyWriter
from everhold.server.time_grid import TimeGrid

__all__ = ["BUGS"]


def lost_flush() -> AbstractContextManager[Any]:
    """SQLite is told not to wait for the disk: a commit returns before it is durable."""
    real = store._set_pragmas

    def quick(con: Any) -> None:
        real(con)
        con.execute("PRAGMA synchronous = OFF")

    return patch.object(store, "_set_pragmas", quick)


def double_answer() -> AbstractContextManager[Any]:
    """Request ids are forgotten: who asks again is answered, and charged, again."""
    return patch.multiple(Journal, round_of_request=_nothing, act_of_request=_nothing)


def _nothing(journal: Journal, request_id: str | None) -> None:
    return None


@contextmanager
def early_reveal() -> Iterator[None]:
    """Answers are handed out first, and recorded afterwards."""
    real_flush, real_answer = Journal.flush, StudyWriter._answer

    def answer(self: StudyWriter, asks: list[Job[Any]]) -> None:
        if not asks:
            return
        journal = self._holdout.journal
        with patch.object(Journal, "flush", lambda journal: journal.require_open()):
            found = self._holdout.ask_each([one.work for one in asks])
        for one, each in zip(asks, found, strict=True):
            if isinstance(each, EverholdError):
                one.future.set_exception(each)
            else:
                one.future.set_result(each)
        real_flush(journal)
        self._publish([one.arrived for one in asks])

    with patch.object(StudyWriter, "_answer", answer):
        yield
    assert real_answer is not answer


def reordered_rounds() -> AbstractContextManager[Any]:
    """Records that are written together are written in another order."""
    real = Store.append

    def append(self: Store, records: Sequence[Any]) -> None:
        real(self, sorted(records, key=lambda one: one.body, reverse=True))

    return patch.object(Store, "append", append)


def stale_lock() -> AbstractContextManager[Any]:
    """A lock is a file that is there, and not a lock of the system: it outlives the process that made it."""
    real = store._locked

    def locked(path: Path) -> int:
        try:
            os.close(os.open(path.with_name(path.name + ".held"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:
            raise LedgerBusy(f"{path} is open for asking elsewhere.") from None
        fd = real(path)
        _held[fd] = path
        return fd

    _held: dict[int, Path] = {}
    unlocked = store._unlocked

    def released(fd: int | None) -> None:
        if fd is not None and fd in _held:
            path = _held.pop(fd)
            path.with_name(path.name + ".held").unlink(missing_ok=True)
        unlocked(fd)

    return patch.multiple(store, _locked=locked, _unlocked=released)


def no_lock() -> AbstractContextManager[Any]:
    """A lock that everybody gets."""
    return patch.object(store, "lock", lambda fd: None)


def no_folder_sync() -> AbstractContextManager[Any]:
    """Files are synced, and the folders that name them are not."""
    return patch.object(safe_files, "sync_folder", lambda folder: None)


def off_the_grid() -> AbstractContextManager[Any]:
    """Answers leave as soon as they are ready."""
    return patch.object(TimeGrid, "slot", lambda self, arrived, now: now)


def free_interruption() -> AbstractContextManager[Any]:
    """An act that was interrupted costs nothing."""
    from everhold.bounds.budget import Budget

    return patch.object(Budget, "interrupted", lambda budget, releases=1: budget)


BUGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    one.__name__.replace("_", " "): one
    for one in (
        lost_flush,
        double_answer,
        early_reveal,
        reordered_rounds,
        stale_lock,
        no_lock,
        no_folder_sync,
        off_the_grid,
        free_interruption,
    )
}
"""By name; the first five are those that the project is judged by."""
