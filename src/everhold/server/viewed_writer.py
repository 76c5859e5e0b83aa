"""A gate or a contest behind one thread that writes, and a view of it for readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from everhold.errors import EverholdError, LedgerError, RequestConflict
from everhold.ledger.reader import StudyFile, read_study
from everhold.ledger.safe_files import FileStamps
from everhold.server.job_queue import Job, JobQueue, OwnThread, StartRunner
from everhold.server.released import RecordSoFar, ReleasedView, StudyProgress
from everhold.server.time_grid import TimeGrid

if TYPE_CHECKING:
    from everhold.ledger.first_record import FirstRecord
    from everhold.session.holdout import Holdout

__all__ = ["View", "ViewedWriter"]

T = TypeVar("T")
W = TypeVar("W", bound="View")


class View(Protocol):
    """What readers see of a gate or a contest."""

    @property
    def file(self) -> Callable[[], StudyFile]:
        """Makes the study as its file would be read."""

    @property
    def stamps(self) -> FileStamps:
        """Of the files when this was taken, to find out what others have changed."""


class ViewedWriter(Generic[W]):
    """Does one thing after the other, and shows what became of it when its answer leaves.

    Args:
        path: of the study of a gate or a contest.
        stamps: what its files look like now.
        grid: when answers leave.
        start: makes what runs the writer's turns.
    """

    def __init__(
        self,
        path: Path,
        stamps: Callable[[], FileStamps],
        grid: TimeGrid,
        start: StartRunner = OwnThread,
    ) -> None:
        self.path, self.name = path, path.stem
        self.first_record: FirstRecord = read_study(path).first_record
        self.broken = False
        """Whether the last thing that was done could not be recorded."""
        self._stamps_now, self._grid = stamps, grid
        self._record: RecordSoFar | None = None
        self._busy = False
        self._lock = Lock()
        self._released = ReleasedView(self._take_view(), grid)
        self._jobs = JobQueue(self.name, self._handle, grid.clock, start)

    def _take_view(self) -> W:
        """How it stands. Nobody writes here meanwhile."""
        raise NotImplementedError

    def _file_so_far(self, holdout: Holdout) -> Callable[[], StudyFile]:
        """Makes the study as its file would be read now, from the memory of the holdout that wrote last."""
        if self._record is None or self._record.holdout is not holdout:
            self._record = RecordSoFar(self.path, self.first_record, holdout)
        return cache(partial(self._record.file_at, self._record.update()))

    async def do(self, work: Callable[[], T], arrived: float | None) -> T:
        """Do this in the writer's thread. It leaves on the grid, with a result or an error."""
        async with self._grid.release(arrived):
            result: T = await asyncio.wrap_future(self._jobs.put(work, arrived))
        return result

    def _handle(self, jobs: list[Job[Any]]) -> None:
        for job in jobs:
            self._run(job)

    def _run(self, job: Job[Any]) -> None:
        with self._lock:  # nobody looks at what is decided and not yet on its way
            self._busy = True
            try:
                try:
                    result = job.work()
                    self.broken = False
                except RequestConflict:  # the caller's mistake
                    raise
                except LedgerError:
                    self.broken = True
                    raise
                finally:
                    with suppress(EverholdError):  # a file that cannot be read shows nothing new
                        self._released.show(self._take_view(), [job.arrived])
                    self._busy = False
            except BaseException as error:
                job.future.set_exception(error)
                return
        job.future.set_result(result)

    @property
    def view(self) -> W:
        """What has left. A change by somebody else, in the shell, is seen when nothing is being done here."""
        if not self._lock.acquire(blocking=False):
            return self._released.current
        try:
            view = self._released.current
            if not self._released.pending and self._stamps_now() != view.stamps:
                view = self._take_view()
                self._released.show(view, [])
            return view
        finally:
            self._lock.release()

    def file(self) -> StudyFile:
        """The study behind it, as far as its answers have left."""
        return self.view.file()

    @property
    def progress(self) -> StudyProgress:
        """Where its study stands."""
        file = self.file()
        return StudyProgress(
            rounds=len(file.rounds),
            findings=0,
            surprises=file.surprises,
            budget=file.budget,
            head=str(file.head),
            acts=len(file.acts),
            closed=file.closed,
        )

    @property
    def stalled(self) -> bool:
        """Whether the writer has been at one thing for minutes."""
        return self._jobs.stalled

    def release_time(self) -> float:
        """When all that is done now will have left, on the grid's clock."""
        if self._busy:
            return self._grid.clock() + max(self._grid.step, 0.05)
        return self._released.release_time()

    def close(self) -> None:
        """Do what waits, then stop."""
        self._jobs.close()
