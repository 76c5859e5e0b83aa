"""Simulated time, and threads of which one runs at a time, so that a seed decides every interleaving.

The event loop never waits: when nothing is ready, its clock jumps to the next timer. A thread of the product is a real one
that runs only while it has the baton. It passes the baton back where it would wait: at every step of the disk, in
`time.sleep`, and at a lock that another thread holds.
"""

from __future__ import annotations

import asyncio
import random
from _thread import allocate_lock
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from threading import Thread, get_ident
from typing import Any

MOST_TURNS = 400_000  # of the event loop, in one run


class Killed(BaseException):
    """The simulated process has ended: what is raised in it means nothing any more."""


class Stuck(AssertionError):
    """Nothing can happen any more, or too much does."""


class Process:
    """A simulated process: a server, or somebody's shell."""

    def __init__(self, name: str, pid: int) -> None:
        self.name, self.pid, self.alive = name, pid, True
        self.files: set[int] = set()
        self.connections: list[Any] = []
        self.logs: list[Any] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.workers: set[_Worker] = set()

    def __repr__(self) -> str:
        return self.name


CURRENT: ContextVar[Process | None] = ContextVar("simulated process", default=None)


class Loop(asyncio.BaseEventLoop):
    """An event loop whose time jumps."""

    def __init__(self) -> None:
        super().__init__()
        self._now, self._turns = 1_000.0, 0
        self._selector = self

    def time(self) -> float:
        return self._now

    def count_turn(self) -> None:
        """A run ends some time."""
        self._turns += 1
        if self._turns > MOST_TURNS:
            raise Stuck("it does not come to an end")

    def jump_to(self, moment: float) -> None:
        """While the loop's own thread is blocked, time goes on."""
        self._now = max(self._now, moment)

    def select(self, timeout: float | None) -> list[object]:
        self.count_turn()
        if timeout is None:
            raise Stuck("nothing can happen any more")
        self._now += max(timeout, 0.0)
        return []

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class _Worker:
    """A real thread, used again and again."""

    def __init__(self, crew: Crew) -> None:
        self._crew, self._go = crew, allocate_lock()
        self._go.acquire()
        self.job: Callable[[], None] | None = None
        self.process: Process | None = None
        self.ident = 0
        Thread(target=self._main, name="simulated thread", daemon=True).start()

    def _main(self) -> None:
        self.ident = get_ident()
        while True:
            self._go.acquire()
            if self.job is None:
                return
            self.job()
            self.job = None
            self._crew.give_back()

    def run(self) -> None:
        """From the loop's thread: let it run until it waits or ends."""
        self._go.release()

    def wait(self) -> None:
        """In the thread itself: until it may go on."""
        self._go.acquire()


class Crew:
    """All simulated threads.

    Args:
        loop: whose time they share.
        coins: how long each step takes.
    """

    def __init__(self, loop: Loop, coins: random.Random) -> None:
        self.loop, self._coins = loop, coins
        self._back = allocate_lock()
        self._back.acquire()
        self._main = get_ident()
        self._idle: list[_Worker] = []
        self._parked: dict[_Worker, asyncio.TimerHandle] = {}
        self._running: _Worker | None = None

    # from the loop's thread ------------------------------------------------------------------------------------------

    def start(self, process: Process, work: Callable[[], None], delay: float | None = None) -> None:
        """Run something in a thread of a process, soon, if it still lives. `work` sees to that, and does not raise."""
        worker = self._idle.pop() if self._idle else _Worker(self)
        context = copy_context()
        context.run(CURRENT.set, process)

        def job() -> None:
            context.run(work)
            process.workers.discard(worker)
            self._idle.append(worker)

        worker.job, worker.process = job, process
        process.workers.add(worker)
        self._park(worker, self.moment() if delay is None else delay)

    def run(self, process: Process, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """What something returns that runs in a thread."""
        future: asyncio.Future[Any] = self.loop.create_future()

        def tell(how: Callable[[Any], None], what: Any) -> None:
            if not future.done():
                how(what)

        def whole() -> None:
            try:
                if not process.alive:
                    raise Killed
                found = work()
            except BaseException as error:
                self.loop.call_soon(tell, future.set_exception, error if process.alive else Killed())
            else:
                self.loop.call_soon(tell, future.set_result, found)

        self.start(process, whole)
        return future

    def _resume(self, worker: _Worker) -> None:
        self._parked.pop(worker).cancel()
        before, self._running = self._running, worker
        worker.run()
        self._back.acquire()
        self._running = before

    def bury(self, process: Process) -> None:
        """End the threads of a process that was killed: each unwinds, and nothing it does counts."""
        while process.workers:
            for worker in list(process.workers):
                if worker in self._parked:
                    self._resume(worker)

    def close(self) -> None:
        """End the real threads."""
        for worker in self._idle:
            worker.job = None
            worker.run()
        self._idle = []

    # from anywhere ---------------------------------------------------------------------------------------------------

    @property
    def me(self) -> object:
        """Who runs now: a simulated thread, or the loop's (None)."""
        return self._running

    def moment(self) -> float:
        """How long something small takes."""
        return self._coins.choice((0.00005, 0.0002, 0.001, 0.004)) * (0.5 + self._coins.random())

    def give_back(self) -> None:
        """A thread has ended or waits: the loop goes on."""
        self._back.release()

    def _park(self, worker: _Worker, seconds: float) -> None:
        moment = self.loop.time() + seconds
        self._parked[worker] = self.loop.call_at(moment, self._resume, worker)

    def pause(self, seconds: float) -> None:
        """Let others run for a while. In the loop's thread, which blocks here, only threads do."""
        worker = self._running
        if worker is None:
            self._block(seconds)
            return
        self._park(worker, seconds)
        self.give_back()
        worker.wait()
        if not worker.process.alive:
            raise Killed

    def _block(self, seconds: float) -> None:
        until = self.loop.time() + seconds
        self.loop.count_turn()
        while self._parked:
            worker, handle = min(self._parked.items(), key=lambda one: one[1].when())
            if handle.when() > until:
                break
            self.loop.jump_to(handle.when())
            self._resume(worker)
        self.loop.jump_to(until)


class Runner:
    """Runs a queue's turns in a simulated thread; `everhold.server.job_queue.Runner`."""

    def __init__(self, crew: Crew, process: Process, turn: Callable[[], None]) -> None:
        self._crew, self._process, self._turn = crew, process, turn
        self._wanted, self._busy = 0, False

    def wake(self) -> None:
        self._wanted += 1
        if not self._busy:
            self._busy = True
            self._crew.start(self._process, self._run)

    def _run(self) -> None:
        try:
            while self._wanted and self._process.alive:
                self._wanted -= 1
                self._turn()
        except Killed:
            pass
        finally:
            self._busy = False

    def join(self) -> None:
        while self._busy and self._process.alive:
            self._crew.pause(0.001)


class SimulatedLock:
    """A lock between simulated threads: whoever waits for it lets the others run."""

    reentrant = False
    crew: Crew | None = None

    def __init__(self) -> None:
        self._owner: object = self  # nobody
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        crew = SimulatedLock.crew
        me = None if crew is None else crew.me
        while self._depth and not (self.reentrant and self._owner is me):
            if not blocking:
                return False
            if crew is None or self._owner is me:
                raise Stuck("a thread waits for a lock that it holds")
            crew.pause(0.0005)
        self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1

    def locked(self) -> bool:
        return self._depth > 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimulatedRLock(SimulatedLock):
    """A lock that its thread may take again."""

    reentrant = True
