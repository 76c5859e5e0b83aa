"""What readers may see of a record: what has left.

Answers are durable before anybody sees them. Readers see a round when its answer leaves, on the grid of the request that
asked for it: looking often does not reveal how long the private rows took.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from everhold.ledger.logged_act import LoggedAct, logged_act
from everhold.ledger.reader import LoggedFinding, LoggedRound, StudyFile, logged_finding, logged_round
from everhold.ledger.store import Head
from everhold.server.time_grid import TimeGrid

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget
    from everhold.ledger.first_record import FirstRecord
    from everhold.session.holdout import Holdout

__all__ = ["RecordSoFar", "ReleasedView", "StudyProgress"]

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """How far a study is durable, and where it stands there."""

    rounds: int
    findings: int
    surprises: int
    budget: Budget
    head: str
    acts: int = 0
    closed: bool = False

    @property
    def price(self) -> float:
        """The price in nats of the next ask's interval."""
        return self.budget.ask_price

    @property
    def records(self) -> int:
        """How many records of the ledger have left."""
        return Head.parse(self.head).records


class ReleasedView(Generic[V]):
    """What readers see: the last view all of whose answers have left."""

    def __init__(self, first: V, grid: TimeGrid) -> None:
        self._grid = grid
        self._current = first
        self._pending: deque[tuple[float, V]] = deque()
        self._lock = Lock()

    def show(self, view: V, arrived: Sequence[float | None]) -> None:
        """Let readers see a view once the last of its answers leaves."""
        with self._lock:
            now = self._grid.clock()
            release_time = max((self._grid.slot(moment, now) for moment in arrived), default=now)
            if self._pending:
                release_time = max(release_time, self._pending[-1][0])
            self._pending.append((release_time, view))

    @property
    def current(self) -> V:
        """What has left."""
        with self._lock:
            now = self._grid.clock()
            while self._pending and self._pending[0][0] <= now:
                self._current = self._pending.popleft()[1]
            return self._current

    @property
    def pending(self) -> bool:
        """Whether something is durable that readers do not see yet."""
        _ = self.current
        return bool(self._pending)

    def release_time(self) -> float:
        """When all that is durable now will have left."""
        with self._lock:
            return self._pending[-1][0] if self._pending else self._grid.clock()


class RecordSoFar:
    """A study's record, taken over from memory: everything in it is put into words once, however often it is looked at.

    Args:
        path: of the study.
        first: its first record.
        holdout: whose record it is.
        known: what of it was read from its file already.
    """

    def __init__(self, path: Path, first: FirstRecord, holdout: Holdout, known: StudyFile | None = None) -> None:
        self.holdout = holdout
        self._path, self._first = path, first
        self._rounds: list[LoggedRound] = [] if known is None else list(known.rounds)
        self._findings: list[LoggedFinding] = [] if known is None else list(known.findings)
        self._acts: list[LoggedAct] = [] if known is None else list(known.acts)

    def update(self) -> StudyProgress:
        """Take over what is new. Where the study stands with it."""
        holdout, journal = self.holdout, self.holdout.journal
        for number in range(len(self._rounds) + 1, len(journal) + 1):
            self._rounds.append(logged_round(journal[number], journal.asked_by(number)))
        self._findings += [logged_finding(*finding) for finding in journal.findings[len(self._findings) :]]
        self._acts += [logged_act(*act) for act in journal.recorded_acts[len(self._acts) :]]
        return StudyProgress(
            rounds=len(self._rounds),
            findings=len(self._findings),
            surprises=holdout.mechanism.surprises,
            budget=holdout.budget,
            head=holdout.head,
            acts=len(self._acts),
            closed=holdout.closed,
        )

    def file_at(self, progress: StudyProgress) -> StudyFile:
        """The study as its file would have been read when it stood there, without reading it."""
        return StudyFile(
            self._path,
            self._first,
            tuple(self._rounds[: progress.rounds]),
            tuple(self._findings[: progress.findings]),
            Head.parse(progress.head),
            progress.budget,
            acts=tuple(self._acts[: progress.acts]),
            closed=progress.closed,
        )
