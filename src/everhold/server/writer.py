"""One thread that writes to a ledger, a queue before it, and what readers may see behind it.

Answers are durable before anybody sees them. Readers see a round when its answer leaves, on the grid of the request that
asked for it: looking often does not reveal how long the private rows took.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from everhold.errors import EverholdError, LedgerError, RequestConflict
from everhold.ledger.files import FileStamps
from everhold.ledger.logged_act import LoggedAct, logged_act
from everhold.ledger.reader import LoggedFinding, LoggedRound, StudyFile, logged_finding, logged_round
from everhold.ledger.store import Head
from everhold.server.time_grid import TimeGrid

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget
    from everhold.ledger.study import Study
    from everhold.session.holdout import Holdout

__all__ = [
    "Busy",
    "Job",
    "OwnThread",
    "RecordSoFar",
    "ReleasedView",
    "Runner",
    "StartRunner",
    "StudyProgress",
    "View",
    "ViewedWriter",
    "Writer",
]

T = TypeVar("T")
V = TypeVar("V")
W = TypeVar("W", bound="View")

_MOST_WAITING = 20_000
_AT_ONCE = 256  # jobs that are taken from the queue together
_STALLED = 300.0  # seconds


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


class Busy(EverholdError):
    """More waits than the queue holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Job(Generic[T]):
    """Something for the writer to do.

    Attributes:
        work: what to do; the writer's owner knows its kinds.
        arrived: when its request arrived, on the grid's clock; None: no grid.
        future: filled when the result is durable.
    """

    work: Any
    arrived: float | None = None
    future: Future[T] = field(default_factory=Future)


class Runner(Protocol):
    """Runs the turns of a writer, never two at once. `OwnThread` does so in a server."""

    def wake(self) -> None:
        """Something waits: let a turn begin soon. It may find that an earlier one has done it."""

    def join(self) -> None:
        """Return when all turns have ended. None is wanted after that."""


StartRunner = Callable[[str, Callable[[], None]], Runner]
"""Makes what runs turns: of a name, for logs, and of a function that is one turn."""


class OwnThread:
    """Runs turns in a thread of their own."""

    def __init__(self, name: str, turn: Callable[[], None]) -> None:
        self._turn = turn
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._wanted.get():
            self._turn()

    def wake(self) -> None:
        """Something waits."""
        self._wanted.put(True)

    def join(self) -> None:
        """Return when all turns have ended."""
        self._wanted.put(False)
        self._thread.join()


class Writer:
    """Takes jobs in the order of arrival, in turns.

    Args:
        name: of the study or contest.
        handle: does some jobs that wait together, and fills their futures.
        clock: seconds that only rise.
        start: makes what runs the turns.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[list[Job[Any]]], None],
        clock: Callable[[], float],
        start: StartRunner = OwnThread,
    ) -> None:
        self._handle, self._clock = handle, clock
        self._putting = Lock()
        self._waiting: deque[Job[Any]] = deque()
        self._closed = False
        self._since: float | None = None  # when it began what it does now
        self._runner = start(f"writer of {name}", self._turn)

    def put(self, work: Any, arrived: float | None = None) -> Future[Any]:
        """A job in the queue."""
        job: Job[Any] = Job(work, arrived)
        with self._putting:
            if self._closed:
                raise LedgerError("the server is stopping. Ask again under the same request id when it is back.")
            if len(self._waiting) >= _MOST_WAITING:
                raise Busy("too many questions wait. Ask again later, under the same request id.")
            self._waiting.append(job)
            self._runner.wake()
        return job.future

    @property
    def waiting(self) -> int:
        """How many jobs wait for their turn."""
        return len(self._waiting)

    @property
    def stalled(self) -> bool:
        """Whether it has been at one turn for minutes."""
        since = self._since
        return since is not None and self._clock() - since > _STALLED

    def _turn(self) -> None:
        """Do some of the jobs that wait. Each job has woken the runner once, so none is left over."""
        jobs: list[Job[Any]] = []
        while self._waiting and len(jobs) < _AT_ONCE:
            job = self._waiting.popleft()
            if job.future.set_running_or_notify_cancel():
                jobs.append(job)
        if not jobs:
            return
        self._since = self._clock()
        try:
            self._handle(jobs)
        except BaseException as error:  # nobody gets an answer that was not recorded
            for job in jobs:
                if not job.future.done():
                    job.future.set_exception(error)
        finally:
            self._since = None

    def close(self) -> None:
        """Do what waits, then stop. Where that takes too long, `server.run` ends the process."""
        with self._putting:
            if self._closed:
                return
            self._closed = True
        self._runner.join()


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
            release_time = max((self._grid.slot(one, now) for one in arrived), default=now)
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
        study: its configuration.
    """

    def __init__(self, path: Path, study: Study) -> None:
        self._path, self._study = path, study
        self._held: Holdout | None = None  # whose record it is

    def file(self, held: Holdout) -> Callable[[], StudyFile]:
        """Makes the study as its file would be read now."""
        if self._held is not held:
            self._rounds: list[LoggedRound] = []
            self._findings: list[LoggedFinding] = []
            self._acts: list[LoggedAct] = []
            self._held = held
        rounds, findings, acts, journal = self._rounds, self._findings, self._acts, held.journal
        for number in range(len(rounds) + 1, len(journal) + 1):
            rounds.append(logged_round(journal[number], journal.asked_by(number)))
        findings += [logged_finding(*one) for one in journal.findings[len(findings) :]]
        acts += [logged_act(*one) for one in journal.acts[len(acts) :]]
        counts = len(rounds), len(findings), len(acts)
        head, budget, closed = Head.parse(held.head), held.budget, held.closed

        @cache
        def file_so_far() -> StudyFile:
            parts = (tuple(rounds[: counts[0]]), tuple(findings[: counts[1]]))
            done = tuple(acts[: counts[2]])
            return StudyFile(self._path, self._study, *parts, head, budget, acts=done, closed=closed)

        return file_so_far


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
        name: of the gate or contest.
        take_view: looks at it as it stands. Nobody writes here meanwhile.
        stamps: what its files look like now.
        grid: when answers leave.
        start: makes what runs the writer's turns.
    """

    def __init__(
        self,
        name: str,
        take_view: Callable[[], W],
        stamps: Callable[[], FileStamps],
        grid: TimeGrid,
        start: StartRunner = OwnThread,
    ) -> None:
        self.name = name
        self.broken = False
        """Whether the last thing that was done could not be recorded."""
        self._look, self._stamps_now, self._grid = take_view, stamps, grid
        self._busy = False
        self._lock = Lock()
        self._released = ReleasedView(take_view(), grid)
        self._writer = Writer(name, self._handle, grid.clock, start)

    async def do(self, work: Callable[[], T], arrived: float | None) -> T:
        """Do this in the writer's thread. It leaves on the grid, with a result or an error."""
        async with self._grid.release(arrived):
            found: T = await asyncio.wrap_future(self._writer.put(work, arrived))
        return found

    def _handle(self, jobs: list[Job[Any]]) -> None:
        for job in jobs:
            self._run(job)

    def _run(self, job: Job[Any]) -> None:
        with self._lock:  # nobody looks at what is decided and not yet on its way
            self._busy = True
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
                        self._released.show(self._look(), [job.arrived])
                    self._busy = False
            except BaseException as error:
                job.future.set_exception(error)
                return
        job.future.set_result(found)

    @property
    def view(self) -> W:
        """What has left. A change by somebody else, in the shell, is seen when nothing is being done here."""
        if not self._lock.acquire(blocking=False):
            return self._released.current
        try:
            view = self._released.current
            if not self._released.pending and self._stamps_now() != view.stamps:
                view = self._look()
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
        return StudyProgress(len(file.rounds), 0, file.surprises, file.budget, str(file.head), len(file.acts), file.closed)

    @property
    def stalled(self) -> bool:
        """Whether the writer has been at one thing for minutes."""
        return self._writer.stalled

    def release_time(self) -> float:
        """When all that is done now will have left, on the grid's clock."""
        if self._busy:
            return self._grid.clock() + max(self._grid.step, 0.05)
        return self._released.release_time()

    def close(self) -> None:
        """Do what waits, then stop."""
        self._writer.close()
