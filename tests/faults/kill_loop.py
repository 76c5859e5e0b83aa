"""Kill the asking process at random moments, again and again, and check what the ledger holds afterwards."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import time
from dataclasses import astuple
from pathlib import Path

import everhold as eh
from everhold.ledger.codec import Repeat, read_entry
from everhold.ledger.store import Store
from everhold.ledger.study import Study
from tests.faults.clients import CLIENTS, ask_for_ever, create


class Loop:
    """The state of a kill loop: what clients saw, and where each of them goes on."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.seen: dict[tuple[int, int], list[object]] = {}
        self.done = [0] * CLIENTS
        self.kills = self.landed = 0
        self._random = random.Random(seed)
        create(path)

    def kill_once(self) -> None:
        """One life of the asking process: opened, asked from several threads, killed at a random moment."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - a life that ends by SIGKILL
            try:
                os.close(reading)
                ask_for_ever(self.path, list(self.done), writing, batches=self.kills % 2 == 1)
            finally:
                os._exit(3)
        os.close(writing)
        seen = self._wait_for_the_moment(reading)
        os.kill(child, signal.SIGKILL)
        seen += _read(reading)
        os.close(reading)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"the asking process ended by itself: {status}"
        self.kills += 1
        self.landed += bool(seen)
        for line in seen.split(b"\n")[:-1]:
            client, i, *answer = json.loads(line)
            assert self.seen.setdefault((client, i), answer) == answer, "a request was answered twice, and not alike"
            self.done[client] = max(self.done[client], i + 1)

    def _wait_for_the_moment(self, reading: int) -> bytes:
        """A quarter of all lives end while opening; the others after so many answers, and a part of the time to the next.

        How long an answer takes here is measured in each life: on a slow machine lives are longer, not emptier.
        """
        if self._random.random() < 0.25:
            return _read(reading, seconds=self._random.random() * 0.06)
        seen, began = _read(reading, lines=1), time.monotonic()
        seen += _read(reading, lines=self._random.randrange(1, 20))
        gap = (time.monotonic() - began) / max(seen.count(b"\n"), 1)
        return seen + _read(reading, seconds=self._random.random() * gap)

    def check(self) -> None:
        """Everything anybody saw is in the ledger, equal; rounds are dense; no request was charged twice; audit passes."""
        store = Store.open(self.path, write=False)
        records = store.records()
        kinds = Study.read(next(records)).schema.kinds
        entries = [read_entry(record, kinds, parse="surprises") for record in records]
        store.close()
        rounds = [entry.round for entry in entries if not isinstance(entry, Repeat)]
        assert [past.number for past in rounds] == list(range(1, len(rounds) + 1))
        requests = [entry.asked_by.request_id for entry in entries if entry.asked_by.request_id is not None]
        assert len(requests) == len(set(requests)), "a request id stands in two records"
        answers = {tuple(_plain(past.answer)) for past in rounds}
        for answer in self.seen.values():
            assert tuple(answer) in answers, "an answer was shown that is not in the ledger"
        found = eh.Holdout.audit_file(self.path)
        assert found.ok, str(found)


def _plain(answer: eh.Answer) -> list[object]:
    return json.loads(json.dumps(astuple(answer)))


def _read(fd: int, *, lines: int | None = None, seconds: float | None = None) -> bytes:
    """What the pipe holds: so many lines or more, or what comes within so many seconds, or all until it is closed."""
    found = b""
    deadline = None if seconds is None else time.monotonic() + seconds
    while lines is None or found.count(b"\n") < lines:
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        ready, _, _ = select.select([fd], [], [], left)
        chunk = os.read(fd, 65536) if ready else b""
        if not chunk:
            break
        found += chunk
    return found
