"""Jobs in the order of their arrival, done in turns, never two at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, Protocol, TypeVar

from everhold.errors import EverholdError, LedgerError

__all__ = ["Busy", "Job", "JobQueue", "OwnThread", "Runner", "StartRunner"]

T = TypeVar("T")

_MOST_WAITING = 20_000
_AT_ONCE = 256  # jobs that are taken from the queue together
_STALLED = 300.0  # seconds


class Busy(EverholdError):
    """More waits than the queue holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Job(Generic[T]):
    """Something to do.

    Attributes:
        work: what to do; the queue's owner knows its kinds.
        arrived: when its request arrived, on the grid's clock; None: no grid.
        future: filled when the result is durable.
    """

    work: Any
    arrived: float | None = None
    future: Future[T] = field(default_factory=Future)


class Runner(Protocol):
    """Runs the turns of a queue, never two at once. `OwnThread` does so in a server."""

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


class JobQueue:
    """Takes jobs in the order of arrival, in turns.

    Args:
        name: of the study, contest or gate.
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
