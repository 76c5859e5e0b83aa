"""One gate behind one writer thread: candidates are checked in turn, and a verdict is visible when it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from everhold.errors import EverholdError, LedgerError, RequestConflict
from everhold.gate.gate import Gate
from everhold.ledger.reader import StudyFile, read_study
from everhold.server.study_writer import StudyProgress
from everhold.server.writer import Job, OwnThread, ReleasedView, StartRunner, Writer

if TYPE_CHECKING:
    from everhold.gate.results import CheckResult, GateStatus, TotalGain
    from everhold.ledger.study import Study
    from everhold.server.study_writer import Caller
    from everhold.server.time_grid import TimeGrid

__all__ = ["GateWriter"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _View:
    """What readers see of a gate.

    Attributes:
        status: where it stands.
        file: its study as read from the file.
        stamp: time of change and size of that file.
    """

    status: GateStatus
    file: StudyFile
    stamp: tuple[int, int]


class GateWriter:
    """A gate that many may use at once.

    Args:
        path: of its study.
        grid: when verdicts leave.
        charges_each: of a private one, how many charges each name may cause; None: any.
        start: makes what runs the writer's turns.
    """

    kind: Literal["gate"] = "gate"

    def __init__(
        self, path: Path, *, grid: TimeGrid, charges_each: int | None = None, start: StartRunner = OwnThread
    ) -> None:
        self.path, self.name = path, path.stem
        self._grid = grid
        self.gate = Gate(path)
        self.gate.charges_each = charges_each
        self.gate.open()  # whether all files are there, and the newest, is found out at once
        self.broken = False
        self.study: Study = read_study(path).study
        self._checking = False
        self._lock = Lock()
        self._released = ReleasedView(self._take_view(), grid)
        self._writer = Writer(self.name, self._handle, grid.clock, start)

    async def check(
        self, outcomes: Mapping[str, Any], caller: Caller, *, name: str | None, artifact: bytes | None
    ) -> CheckResult:
        """Check a candidate. The verdict leaves on the grid, whatever it is."""
        return await self._do(
            lambda: self.gate.check(
                outcomes, name=name, artifact=artifact, request_id=caller.asked_by.request_id, who=caller.asked_by.who
            ),
            caller,
        )

    async def decide(self, caller: Caller) -> CheckResult:
        """Check the candidates that wait."""
        return await self._do(
            lambda: self.gate.decide(request_id=caller.asked_by.request_id, who=caller.asked_by.who), caller
        )

    async def finish(self, caller: Caller) -> TotalGain:
        """The last act."""
        return await self._do(lambda: self.gate.finish(who=caller.asked_by.who), caller)

    async def _do(self, work: Callable[[], T], caller: Caller) -> T:
        async with self._grid.release(caller.arrived):
            found: T = await asyncio.wrap_future(self._writer.put(work, caller.arrived))
        return found

    def _handle(self, jobs: list[Job[Any]]) -> None:
        for job in jobs:
            self._work(job)

    def _work(self, job: Job[Any]) -> None:
        with self._lock:  # nobody looks at what is decided and not yet on its way
            self._checking = True
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
                    self._checking = False
            except BaseException as error:
                job.future.set_exception(error)
                return
        job.future.set_result(found)

    def _take_view(self) -> _View:
        stamp = _stamp(self.path)
        return _View(self.gate.status(), read_study(self.path), stamp)

    def _current_view(self) -> _View:
        """What has left. A change by somebody else, in the shell, is seen when nothing is being checked here."""
        if not self._lock.acquire(blocking=False):
            return self._released.current
        try:
            view = self._released.current
            if not self._released.pending and _stamp(self.path) != view.stamp:
                view = self._take_view()
                self._released.show(view, [])
            return view
        finally:
            self._lock.release()

    @property
    def stalled(self) -> bool:
        """Whether the writer has been at one candidate for minutes."""
        return self._writer.stalled

    def release_time(self) -> float:
        """When all that is checked now will have left, on the grid's clock."""
        if self._checking:
            return self._grid.clock() + max(self._grid.step, 0.05)
        return self._released.release_time()

    def status(self) -> GateStatus:
        """Where it stands."""
        return self._current_view().status

    def file(self) -> StudyFile:
        """The study behind it."""
        return self._current_view().file

    @property
    def progress(self) -> StudyProgress:
        """Where its study stands."""
        file = self.file()
        return StudyProgress(len(file.rounds), 0, file.surprises, file.budget, str(file.head), len(file.acts), file.closed)

    def close(self) -> None:
        """Check what waits, then stop."""
        self._writer.close()
        self.gate.release()


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size
