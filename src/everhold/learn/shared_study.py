"""The study behind a test set: one turn at a time, and between turns other processes may ask."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import numpy as np

from everhold.data.schema import Schema
from everhold.errors import DataError, LedgerBusy, LedgerError, ReplayError
from everhold.learn.scorer import rows_file, save_rows
from everhold.learn.validation import made_with
from everhold.ledger.patience import patiently
from everhold.session.holdout import Holdout

if TYPE_CHECKING:
    from everhold.data.table import RowTable
    from everhold.learn.options import TestSetOptions
    from everhold.priors.fixed import FixedPrior

__all__ = ["SharedStudy"]

T = TypeVar("T")

_MADE_HERE: WeakSet[SharedStudy] = WeakSet()  # all of this process, to tell which of them has a file open


class SharedStudy:
    """A test set's holdout, in memory or in a file: made, or opened again where the file exists.

    Args:
        rows: the private ones.
        prior: the public ones.
        options: of the test set.

    Attributes:
        path: of the file; None in memory.
        lock: held during turns.
        holdout: as the last turn left it; None after `release`.
    """

    def __init__(self, rows: RowTable, prior: FixedPrior, options: TestSetOptions) -> None:
        self.lock = RLock()
        self.holdout: Holdout | None = None
        self._rows, self._prior, self._options = rows, prior, options
        self.path = options.path
        self._others_may_ask = False
        self._turns = 1  # under way; making it ready is one
        _MADE_HERE.add(self)
        try:
            self._begin()
        finally:
            self._turns -= 1

    def _begin(self) -> None:
        path, options = self.path, self._options
        if path is not None and path.exists():
            self._open()
            return
        schema = Schema.propose(self._prior.table, warn=False)  # of subgroups; no mean is cut to its ranges
        made = {"prior": self._prior, "schema": schema, **options.holdout_settings}
        if path is None:
            self.holdout = Holdout(self._rows, **made)
        else:
            self.holdout = Holdout.create(path, self._rows, privacy=options.privacy, register=options.register, **made)

    def _open(self) -> Holdout:
        path = self.path
        if path is None:
            raise LedgerError(
                "this test set is in memory only, and only the process that made it can ask. Make it durable with "
                "TestSet(…, path='test.everhold'), and other processes can ask too."
            )
        try:
            holdout = patiently(lambda: self._unless_here(lambda: Holdout.open(path, data=self._rows)))
        except DataError as error:
            raise DataError(
                f"{path} was made with other columns: {error} Expected the same X, label= and pairs= as then."
            ) from None
        pool = self._prior.pool(np.random.default_rng(0))
        promised = None if self._options.privacy is None else self._options.privacy.terms
        difference = made_with(holdout, pool, {**self._options.holdout_settings, "privacy": promised})
        if difference is not None:
            holdout.release()
            raise LedgerError(f"{path} was made with {difference}. Expected the same as then, or a new path for other rows.")
        self.holdout = holdout
        return holdout

    def _unless_here(self, work: Callable[[], T]) -> T:
        """Refuse at once where this process itself has the study open, and nothing under way that could end."""
        try:
            return work()
        except LedgerBusy as busy:
            if busy.holder != str(os.getpid()):
                raise
            others = [study for study in _MADE_HERE if study is not self and study.path == self.path]
            if others and not any(study.stays_open for study in others):
                raise  # one of them is in a turn, and gives it up
            raise LedgerError(
                f"this process has {self.path} open already. Expected one TestSet for each path: use the object that you "
                "have, or give the file up first with its release(), and then open it here."
            ) from None

    @property
    def stays_open(self) -> bool:
        """Whether it has the file open between its turns, and so for as long as it likes."""
        if self._turns or self._others_may_ask or self.holdout is None or not self.holdout.usable:
            return False
        store = self.holdout.session.journal.store
        return store is not None and not store.paused

    @property
    def closed(self) -> bool:
        """Whether the last act is done."""
        return self.holdout is not None and self.holdout.closed

    @contextmanager
    def turn(self) -> Iterator[Holdout]:
        """The holdout, for one act, one thread at a time. Others may ask between turns, if they were let."""
        with self.lock:
            self._turns += 1
            try:
                holdout = self.ready()
                try:
                    yield holdout
                finally:
                    if self._others_may_ask:
                        holdout.pause()
            finally:
                self._turns -= 1

    def ready(self) -> Holdout:
        """The holdout with its newest record, open."""
        with self.lock:
            holdout = self.holdout
            if holdout is None or not holdout.usable:
                return self._open()
            try:
                patiently(lambda: self._unless_here(holdout.resume))
            except LedgerBusy:
                raise
            except (LedgerError, ReplayError):  # not the file it was: the whole of it is read again
                holdout.release()
                return self._open()
            return holdout

    def release(self) -> None:
        """Give up the file; the next turn opens it again."""
        with self.lock:
            if self.holdout is not None and self.path is not None:
                self.holdout.release()
                self.holdout = None

    def let_others_ask(self) -> None:
        """From now on, other processes may ask between turns."""
        with self.lock:
            self._others_may_ask = True
            if self.holdout is not None:
                self.holdout.pause()

    def open_to_processes(self, made_from: dict[str, Any]) -> None:
        """The same, with a file of what the test set was made from, so that another process can make it again."""
        if self.path is None:
            raise LedgerError(
                "this test set is in memory only, so other processes cannot ask it. Make it durable with "
                "TestSet(…, path='test.everhold')."
            )
        with self.lock:
            if not self._others_may_ask or not rows_file(self.path).exists():
                save_rows(self.path, made_from)
            self.let_others_ask()
