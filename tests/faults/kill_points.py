"""Kill a process at every point of a deed, in turn: around each write, each look at private rows, and the showing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import everhold as eh
from everhold.data.sample import Sample
from everhold.ledger.store import Store
from tests.faults.deeds import PRIVATE, Deed
from tests.faults.lives import Mutant, Reporter, Seen, create, read_pipe

POINTS: tuple[tuple[type, str], ...] = ((Store, "append"), (Sample, "sums"))
"""Calls before and after which a process is killed."""


class Fuse:
    """Ends the process by SIGKILL at the point with this number."""

    def __init__(self, until: int) -> None:
        self._left = until

    def point(self) -> None:
        """One point is reached."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, points: tuple[tuple[type, str], ...]) -> None:
        """From here on there is a point before and after each of these calls."""
        for owner, name in points:
            setattr(owner, name, self._fused(getattr(owner, name)))

    def _fused(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def fused(*given: Any, **more: Any) -> Any:
            self.point()
            found = real(*given, **more)
            self.point()
            return found

        return fused


def until_killed(work: Callable[[Fuse, int], None], until: int) -> tuple[bool, bytes]:
    """A life that ends at a point, unless its work ends before; whether it was killed, and what it said.

    `work` is given the fuse and the pipe.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - a life that ends by SIGKILL
        try:
            os.close(reading)
            work(Fuse(until), writing)
            os._exit(0)
        finally:
            os._exit(3)
    os.close(writing)
    said = read_pipe(reading)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    assert killed or os.WEXITSTATUS(status) == 0, f"the working process ended by itself: {status}"
    return killed, said


def lives(folder: Path, one: Deed, mutant: Mutant | None = None) -> Iterator[tuple[Path, Seen]]:
    """A study for every point of a deed, killed there: its file, and what was seen. The last one is not killed."""
    for until in count(1):
        path = folder / f"{until}.everhold"
        create(path)
        with eh.Holdout.open(path, data=PRIVATE) as held:
            held.ask("age > 40")
            held.read("age > 60")

        def work(fuse: Fuse, pipe: int, path: Path = path) -> None:
            held = eh.Holdout.open(path, data=PRIVATE)
            reporter = Reporter(pipe)
            reporter.before_shown = reporter.after_shown = fuse.point
            fuse.around(POINTS)
            reporter.watch()
            if mutant is not None:
                mutant(reporter)
            reporter.do(one, held)

        killed, said = until_killed(work, until)
        seen = Seen()
        seen.add(said)
        yield path, seen
        if not killed:
            assert until > 3, "there were no points: nothing was killed"
            return
