"""One contest behind one writer thread: submissions are scored in turn, and shown when their answers leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from everhold.contest.contest import Contest, FileStamps
from everhold.errors import EverholdError, LedgerError, RequestConflict
from everhold.ledger.logged_act import logged_act
from everhold.ledger.reader import LoggedRound, StudyFile, logged_round, read_study
from everhold.ledger.store import Head
from everhold.server.study_writer import Caller, StudyProgress
from everhold.server.writer import Job, OwnThread, ReleasedView, StartRunner, Writer

if TYPE_CHECKING:
    from everhold.contest.board import Board, Submission
    from everhold.contest.ranking_preview import RankingPreview
    from everhold.ledger.study import Study
    from everhold.server.time_grid import TimeGrid

__all__ = ["ContestWriter"]


@dataclass(frozen=True, slots=True)
class _View:
    """What readers see of a contest.

    Attributes:
        board: where everybody stands.
        file: makes the study as its file would be read.
        stamps: of the contest's files when this was taken, to find out what others have changed.
        logged: how many submissions there were.
    """

    board: Board
    file: Callable[[], StudyFile]
    stamps: FileStamps
    logged: int


class ContestWriter:
    """A contest that many may enter at once. It stays open: a submission costs the same however many came before.

    Args:
        path: of its study.
        grid: when answers leave.
        charges_each: of a private one, how many charges each name may cause; None: any.
        start: makes what runs the writer's turns.
    """

    kind: Literal["contest"] = "contest"

    def __init__(
        self, path: Path, *, grid: TimeGrid, charges_each: int | None = None, start: StartRunner = OwnThread
    ) -> None:
        self.path, self.name = path, path.stem
        self._grid = grid
        self.contest = Contest(path)
        self.contest.charges_each = charges_each
        self.contest.open()  # whether the labels are there is found out at once
        self.broken = False
        self._rounds: list[LoggedRound] = []
        self.study: Study = read_study(path).study
        self._scoring = False
        self._lock = Lock()
        self._released = ReleasedView(self._take_view(), grid)
        self._writer = Writer(self.name, self._handle, grid.clock, start)

    async def submit(self, entrant: str, predictions: bytes, *, arrived: float | None = None) -> Submission:
        """Score a submission. It leaves on the grid, whatever becomes of it."""
        async with self._grid.release(arrived):
            work = partial(self.contest.submit, entrant, predictions)
            found: Submission = await asyncio.wrap_future(self._writer.put(work, arrived))
        return found

    async def duel(self, caller: Caller, first: str, second: str) -> bool:
        """Make a duel. It leaves on the grid, whatever becomes of it."""
        async with self._grid.release(caller.arrived):
            work = partial(self.contest.duel, first, second, request_id=caller.asked_by.request_id, who=caller.asked_by.who)
            found: bool = await asyncio.wrap_future(self._writer.put(work, caller.arrived))
        return found

    async def finish(self, caller: Caller) -> Board:
        """End the contest. It leaves on the grid, whatever becomes of it."""
        async with self._grid.release(caller.arrived):
            work = partial(self.contest.finish, who=caller.asked_by.who)
            found: Board = await asyncio.wrap_future(self._writer.put(work, caller.arrived))
        return found

    def preview(self, first: str | None = None, second: str | None = None) -> RankingPreview:
        """What `finish`, or with two names a duel, would do and cost, by what has left."""
        view = self._current_view()
        return self.contest.preview(first, second, standing=(view.board, view.file().budget))

    def _handle(self, jobs: list[Job[Any]]) -> None:
        for job in jobs:
            self._score(job)

    def _score(self, job: Job[Any]) -> None:
        with self._lock:  # nobody looks at what is scored and not yet on its way
            self._scoring = True
            try:
                try:
                    found = job.work()
                    self.broken = False
                except RequestConflict:  # the caller's mistake
                    raise
                except LedgerError:
                    self.broken = True
                    raise
                finally:
                    with suppress(EverholdError):  # a file that cannot be read shows nothing new
                        self._released.show(self._take_view(), [job.arrived])
                    self._scoring = False
            except BaseException as error:
                job.future.set_exception(error)
                return
        job.future.set_result(found)

    def _take_view(self) -> _View:
        """The contest as it stands: from memory where this process wrote last, else from its file."""
        stamps = self.contest.stamps()
        if stamps[0] != self.contest.last_stamps[0]:
            file = read_study(self.path)
            return _View(self.contest.board(), lambda: file, stamps, len(self.contest.log()))
        board, holdout = self.contest.standing()
        journal = holdout.journal
        for number in range(len(self._rounds) + 1, len(journal) + 1):
            self._rounds.append(logged_round(journal[number], journal.asked_by(number)))
        count, head, budget = len(journal), Head.parse(holdout.head), holdout.budget
        acts = tuple(logged_act(act, at) for act, at in journal.acts)

        def file_so_far() -> StudyFile:
            return StudyFile(
                self.path, self.study, tuple(self._rounds[:count]), (), head, budget, acts=acts, closed=board.final
            )

        return _View(board, file_so_far, stamps, len(self.contest.log()))

    def _current_view(self) -> _View:
        """What has left. A change by somebody else, in the shell, is seen when nobody is being scored here."""
        if not self._lock.acquire(blocking=False):
            return self._released.current
        try:
            view = self._released.current
            if not self._released.pending and self.contest.stamps() != view.stamps:
                view = self._take_view()
                self._released.show(view, [])
            return view
        finally:
            self._lock.release()

    @property
    def stalled(self) -> bool:
        """Whether the writer has been at one submission for minutes."""
        return self._writer.stalled

    def release_time(self) -> float:
        """When all that is scored now will have left, on the grid's clock."""
        if self._scoring:
            return self._grid.clock() + max(self._grid.step, 0.05)
        return self._released.release_time()

    def board(self) -> Board:
        """Where everybody stands."""
        return self._current_view().board

    def refused(self, entrant: str) -> list[dict[str, Any]]:
        """An entrant's own submissions that were not scored, the latest first, as far as their answers have left."""
        logged = self.contest.log()[: self._current_view().logged]
        return [one for one in reversed(logged) if one["entrant"] == entrant and one["round"] is None]

    def file(self) -> StudyFile:
        """The study behind it."""
        return self._current_view().file()

    @property
    def progress(self) -> StudyProgress:
        """Where it stands."""
        file = self.file()
        return StudyProgress(len(file.rounds), 0, file.surprises, file.budget, str(file.head), len(file.acts), file.closed)

    def close(self) -> None:
        """Score what waits, then stop."""
        self._writer.close()
        self.contest.release()
