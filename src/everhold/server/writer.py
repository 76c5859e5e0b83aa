"""One thread that writes to a ledger, a queue before it, and what readers may see behind it.

Answers are durable before anybody sees them. Readers see a round when its answer leaves, on the grid of the request that
asked for it: looking often does not reveal how long the private rows took.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from everhold.errors import EverholdError, LedgerError
from everhold.server.grid import Grid

__all__ = ["Busy", "Job", "ReleasedView", "Writer"]

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


class Writer:
    """A thread that takes jobs in the order of arrival.

    Args:
        name: of the study or contest.
        handle: does some jobs that wait together, and fills their futures.
        clock: seconds that only rise.
    """

    def __init__(self, name: str, handle: Callable[[list[Job[Any]]], None], clock: Callable[[], float]) -> None:
        self._handle, self._clock = handle, clock
        self._putting = Lock()
        self._waiting: queue.Queue[Job[Any] | None] = queue.Queue(_MOST_WAITING)
        self._closed = False
        self._since: float | None = None  # when it began what it does now
        self._thread = Thread(target=self._write, name=f"writer of {name}", daemon=True)
        self._thread.start()

    def put(self, work: Any, arrived: float | None = None) -> Future[Any]:
        """A job in the queue."""
        job: Job[Any] = Job(work, arrived)
        with self._putting:
            if self._closed:
                raise LedgerError("the server is stopping. Ask again under the same request id when it is back.")
            try:
                self._waiting.put_nowait(job)
            except queue.Full:
                raise Busy("too many questions wait. Ask again later, under the same request id.") from None
        return job.future

    @property
    def waiting(self) -> int:
        """How many jobs wait for their turn."""
        return self._waiting.qsize()

    @property
    def stalled(self) -> bool:
        """Whether it has been at one turn for minutes."""
        since = self._since
        return since is not None and self._clock() - since > _STALLED

    def _write(self) -> None:
        going = True
        while going:
            jobs: list[Job[Any]] = []
            item = self._waiting.get()
            while item is not None:
                if item.future.set_running_or_notify_cancel():
                    jobs.append(item)
                if len(jobs) >= _AT_ONCE:
                    break
                try:
                    item = self._waiting.get_nowait()
                except queue.Empty:
                    break
            going = item is not None
            if not jobs:
                continue
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
        self._waiting.put(None)
        self._thread.join()


class ReleasedView(Generic[V]):
    """What readers see: the last view all of whose answers have left."""

    def __init__(self, first: V, grid: Grid) -> None:
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
