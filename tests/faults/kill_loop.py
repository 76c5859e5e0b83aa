"""Kill the working process at random moments, again and again, and check what the ledger holds afterwards."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

from tests.faults.lives import CLIENTS, Mutant, Reporter, Seen, create, read_pipe, work
from tests.faults.record_check import check


class Loop:
    """A study whose process is killed again and again: what clients saw, and where each of them goes on.

    Args:
        path: of the study, which is made.
        seed: of the moments.
        mutant: breaks a promise in every life, as a control.
    """

    def __init__(self, path: Path, seed: int, mutant: Mutant | None = None) -> None:
        self.path = path
        self.seen = Seen()
        self.kills = self.landed = 0
        self.counted: dict[str, int] = {}
        self._random = random.Random(seed)
        self._mutant = mutant
        create(path)

    def kill_once(self, last: str | None = None) -> None:
        """One life of the working process: opened, used from several threads, killed at a random moment.

        With `last` one of the clients does the last act, while the others go on until they are refused.
        """
        reading, writing = os.pipe()
        ours, theirs = os.pipe()  # the child waits for our end: it never outlives us
        child = os.fork()
        if child == 0:  # pragma: no cover - a life that ends by SIGKILL
            try:
                os.close(reading)
                os.close(theirs)
                reporter = Reporter(writing)
                if self._mutant is not None:
                    self._mutant(reporter)
                work(self.path, [self.seen.done(client) for client in range(CLIENTS)], reporter, last)
                os.read(ours, 1)
            finally:
                os._exit(3)
        os.close(writing)
        os.close(ours)
        said = self._wait_for_the_moment(reading)
        os.kill(child, signal.SIGKILL)
        said += read_pipe(reading)
        _, status = os.waitpid(child, 0)
        os.close(reading)
        os.close(theirs)
        assert os.WIFSIGNALED(status), f"the working process ended by itself: {status}"
        self.kills += 1
        self.landed += bool(self.seen.add(said))

    def _wait_for_the_moment(self, reading: int) -> bytes:
        """A quarter of all lives end while opening; the others after so many events, and a part of the time to the next.

        How long an event takes here is measured in each life: on a slow machine lives are longer, not emptier.
        """
        if self._random.random() < 0.25:
            return read_pipe(reading, seconds=self._random.random() * 0.06)
        said, began = read_pipe(reading, lines=1), time.monotonic()
        said += read_pipe(reading, lines=self._random.randrange(1, 40)) if b'["end"' not in said else b""
        gap = (time.monotonic() - began) / max(said.count(b"\n"), 1)
        return said + read_pipe(reading, seconds=2 * self._random.random() * gap)

    def check(self) -> None:
        """Every promise of `record_check`."""
        self.counted = check(self.path, self.seen.shown, self.seen.looked)

    def kinds(self) -> Counter[str]:
        """How many deeds of each kind were seen."""
        return Counter(one.kind for one in self.seen.shown)
