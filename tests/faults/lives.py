"""Lives of a process that ends by SIGKILL: it says through a pipe what it saw and when it read private rows."""

from __future__ import annotations

import json
import os
import select
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import everhold as eh
from everhold.data.sample import Sample
from tests.faults.deeds import LAST, PRIVATE, PUBLIC, Deed, deed

CLIENTS = 3

Mutant = Callable[["Reporter"], None]
"""Breaks a promise, in the process that is killed."""


def create(path: Path) -> None:
    """A new study."""
    eh.Holdout.create(path, PRIVATE, prior=eh.Reference(PUBLIC), seed=5, register=False).release()


class Reporter:
    """Writes to the pipe, a line an event: private rows read for a deed, its result seen, nothing left to do."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._now = threading.local()
        self.before_shown: Callable[[], None] = lambda: None
        self.after_shown: Callable[[], None] = lambda: None

    def watch(self) -> None:
        """From here on, report whenever private rows are read."""
        Sample.sums = self._watched(Sample.sums)

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*given: Any) -> Any:
            if (now := getattr(self._now, "deed", None)) is not None:
                self.say("looked", now)
            return real(*given)

        return watched

    def do(self, one: Deed, held: eh.Holdout) -> None:
        """Do a deed, and report its result. What is refused from public facts is not shown."""
        self._now.deed = one
        try:
            found = one.do(held, who=f"client {one.client}")
        except eh.HoldoutClosed:
            raise
        except eh.QuestionError as error:
            if "would not be narrower" not in str(error):
                raise
            self.say("refused", one)
            return
        finally:
            self._now.deed = None
        self.before_shown()
        self.say("shown", one, found)
        self.after_shown()

    def say(self, event: str, one: Deed | None = None, found: object = None) -> None:
        """One line."""
        about = None if one is None else [one.client, one.number, one.kind]
        line = json.dumps([event, about, found]) + "\n"
        with self._lock:
            os.write(self._pipe, line.encode())


def work(path: Path, done: list[int], reporter: Reporter, last: str | None) -> None:
    """Open the study, and do deeds from several threads for as long as the process lives, or until the last act.

    Args:
        path: of the study.
        done: how many deeds each client has done.
        reporter: says what was seen.
        last: the last act, which the first client does at once.
    """
    held = eh.Holdout.open(path, data=PRIVATE)
    reporter.watch()

    def client(number: int) -> None:
        i = done[number]
        try:
            if last is not None and number == 0:
                reporter.do(Deed(0, 0, last), held)
                return
            while True:
                reporter.do(deed(number, i), held)
                i += 1
        except BaseException as error:
            if last is None or not isinstance(error, eh.HoldoutClosed):
                reporter.say("failed", found=traceback.format_exc())

    threads = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reporter.say("end")


def read_pipe(pipe: int, *, lines: int | None = None, seconds: float | None = None) -> bytes:
    """What the pipe holds: so many lines or more, or what comes within so many seconds, or all until it is closed."""
    found = b""
    deadline = None if seconds is None else time.monotonic() + seconds
    while lines is None or (found.count(b"\n") < lines and b'["end"' not in found):
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        ready, _, _ = select.select([pipe], [], [], left)
        chunk = os.read(pipe, 65536) if ready else b""
        if not chunk:
            break
        found += chunk
    return found


class Seen:
    """What all lives of a study showed."""

    def __init__(self) -> None:
        self.shown: dict[Deed, dict[str, Any]] = {}
        self.looked: set[Deed] = set()
        self.refused: set[Deed] = set()

    def add(self, lines: bytes) -> int:
        """Take over what a life said; how many results there were."""
        results = 0
        for line in lines.split(b"\n")[:-1]:
            event, about, found = json.loads(line)
            if event == "end":
                continue
            assert event != "failed", f"a life failed before it was ended: {found}"
            one = Deed(*about)
            if event == "looked":
                self.looked.add(one)
            elif event == "refused":
                self.refused.add(one)
            else:
                results += 1
                assert self.shown.setdefault(one, found) == found, f"{one.request} was answered twice, and not alike"
        return results

    def done(self, client: int) -> int:
        """Where a client goes on."""
        both = [*self.shown, *self.refused]
        return max((one.number + 1 for one in both if one.client == client and one.kind not in LAST), default=0)
