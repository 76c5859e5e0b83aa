"""One thread that writes to a ledger, a queue before it, and what readers may see behind it.

Answers are durable before anybody sees them. Readers see a round when its answer leaves, on the grid of the request that
asked for it: looking often does not reveal how long the private rows took.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, Protocol, TypeVar

from everhold.errors import EverholdError, LedgerError
from everhold.server.time_grid import TimeGrid

__all__ = ["Busy", "Job", "OwnThread", "ReleasedView", "Runner", "StartRunner", "Writer"]

T = TypeVar("T")
V = TypeVar("V")

_MOST_WAITING = 20_000
_AT_ONCE = 256  # jobs that are taken from the queue together
_STALLED = 300.0  # seconds


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
