"""One contest behind one writer thread: submissions are scored in turn, and shown when their answers leave."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from everhold.contest.contest import Board, Contest, Submission
from everhold.errors import EverholdError, LedgerError
from everhold.ledger.reader import StudyFile, read_study
from everhold.server.grid import slot
from everhold.server.writer import Progress

if TYPE_CHECKING:
    from everhold.ledger.study import Study

__all__ = ["ContestWriter"]


@dataclass(frozen=True, slots=True)
class _View:
    """What readers see of a contest, and what its files looked like then."""

    mark: tuple[tuple[int, int], ...]
    board: Board
    file: StudyFile


class ContestWriter:
    """A contest that many may enter at once.

    Args:
        path: of its study.
        grid: in seconds; a submission is shown at a whole multiple of it after it came.
    """

    def __init__(self, path: Path, *, grid: float = 0.0) -> None:
        self.path, self.name = path, path.stem
        self._grid = grid
        self.contest = Contest(path)
        self.contest._opened()  # whether the labels are there is found out at once
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"contest {self.name}")
        self.broken = False
        self._reading = Lock()
        self._scoring = False
        self._shown = self._look()
        self._coming: deque[tuple[float, _View]] = deque()

    def submit(self, entrant: str, predictions: bytes, *, arrived: float | None = None) -> Future[Submission]:
        """A submission in the queue."""
        try:
            return self._writer.submit(self._submit, entrant, predictions, arrived)
        except RuntimeError:
            raise LedgerError("the server is stopping.") from None

    def _submit(self, entrant: str, predictions: bytes, arrived: float | None) -> Submission:
        with self._reading:
            self._scoring = True
        try:
            found = self.contest.submit(entrant, predictions)
            self.broken = False
            return found
        except LedgerError:
            self.broken = True
            raise
        finally:
            self._publish(arrived)

    def _publish(self, arrived: float | None) -> None:
        """Let readers see what was scored, once its answer leaves; a file that cannot be read shows nothing new."""
        view = None
        with suppress(EverholdError):
            view = self._look()
        with self._reading:
            leaves = slot(arrived, time.monotonic(), self._grid)
            if view is not None:
                self._coming.append((max(leaves, self._coming[-1][0]) if self._coming else leaves, view))
            self._scoring = False

    def _mark(self) -> tuple[tuple[int, int], ...]:
        """What the contest's files look like now: as long as it stays, so does what they say."""
        return tuple(_mark(self.path.with_name(self.path.name + tail)) for tail in ("", ".submissions.jsonl"))

    def _look(self) -> _View:
        return _View(self._mark(), self.contest.board(), read_study(self.path))

    def _seen(self) -> _View:
        """What has left. A change by somebody else, in the shell, is seen when nobody is being scored here."""
        with self._reading:
            now = time.monotonic()
            while self._coming and self._coming[0][0] <= now:
                self._shown = self._coming.popleft()[1]
            if not self._scoring and not self._coming and self._mark() != self._shown.mark:
                self._shown = self._look()
            return self._shown

    stalled = False  # each submission is scored in a thread of its own

    def leaves(self) -> float:
        """When all that is scored now will have left, on the monotonic clock."""
        with self._reading:
            now = time.monotonic()
            if self._scoring:
                return now + max(self._grid, 0.05)
            return self._coming[-1][0] if self._coming else now

    def board(self) -> Board:
        """Where everybody stands."""
        return self._seen().board

    def file(self) -> StudyFile:
        """The study behind it."""
        return self._seen().file

    @property
    def study(self) -> Study:
        """Its public facts."""
        return self._shown.file.study

    @property
    def standing(self) -> Progress:
        """Where it stands."""
        file = self.file()
        return Progress(len(file.told), file.surprises, file.spent, str(file.head))

    def close(self) -> None:
        """Score what waits, then stop."""
        self._writer.shutdown(wait=True)


def _mark(place: Path) -> tuple[int, int]:
    with suppress(FileNotFoundError):
        found = place.stat()
        return found.st_mtime_ns, found.st_size
    return 0, 0
