"""Where the product meets the machine: every call that changes a file, waits, draws coins, locks, or starts a thread.

Nothing of the product is replaced. These are the functions of the operating system and of libraries that it calls, for the
time of one run, so that a write which somebody adds to the product tomorrow is simulated too.
"""

from __future__ import annotations

import atexit
import errno
import os
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol
from unittest.mock import patch

from anyio._backends._asyncio import AsyncIOBackend

from everhold.clock import running_on
from everhold.ledger import open_files
from everhold.ledger.open_files import OpenFiles
from everhold.session import study
from tests.simulation.disk import Disk
from tests.simulation.sqlite_files import FULL, simulated_files
from tests.simulation.time_and_threads import CURRENT, Crew, Killed, Process, SimulatedLock, SimulatedRLock

if TYPE_CHECKING:
    from datetime import datetime

_REAL = {
    name: getattr(os, name)
    for name in ("open", "close", "write", "fsync", "ftruncate", "fdopen", "replace", "link", "unlink", "mkdir", "getpid")
}
_WRITING = os.O_WRONLY | os.O_RDWR


class Machine(Protocol):
    """What a run decides."""

    disk: Disk
    crew: Crew
    coins: random.Random

    def step(self, process: Process, what: str, name: str) -> int:
        """A program is about to change the disk: 0, or the error that it meets. May kill the process."""

    def failed(self, error: BaseException) -> None:
        """The simulator itself has a fault."""

    def now(self) -> datetime:
        """The time of day."""


class Files:
    """Python's calls on the simulated disk, and SQLite's."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._disk = machine, machine.disk
        self._open_files: dict[int, tuple[str, int]] = {}

    def _before(self, what: str, name: str) -> int:
        """The error of the system that a step meets."""
        process = CURRENT.get()
        if process is None:
            return 0
        if not process.alive:
            raise Killed
        found = self._machine.step(process, what, name)
        if not process.alive:
            raise Killed
        return found

    def _require(self, what: str, name: str) -> None:
        if error := self._before(what, name):
            raise OSError(error, os.strerror(error), name)

    # Python's --------------------------------------------------------------------------------------------------------

    def open(self, path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        """As os.open."""
        name = self._disk.name_of(path)
        if name is None:
            return int(_REAL["open"](path, flags, mode, **more))
        new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
        if new or flags & os.O_TRUNC:
            self._require("create" if new else "truncate", name)
        elif flags & _WRITING and (process := CURRENT.get()) is not None and not process.alive:
            raise Killed
        fd = int(_REAL["open"](path, flags, mode, **more))
        if new:
            self._disk.created(name)
        if new or flags & os.O_TRUNC:
            self._disk.touched(name)
        self._open_files[fd] = name, os.fstat(fd).st_ino
        if (process := CURRENT.get()) is not None:
            process.files.add(fd)
        return fd

    def _known(self, fd: Any) -> str | None:
        known = self._open_files.get(fd) if isinstance(fd, int) else None
        return known[0] if known is not None and os.fstat(fd).st_ino == known[1] else None

    def close(self, fd: int) -> None:
        """As os.close."""
        if (process := CURRENT.get()) is not None and fd in self._open_files:
            process.files.discard(fd)
        self._open_files.pop(fd, None)
        _REAL["close"](fd)

    def fdopen(self, fd: int, *given: Any, **more: Any) -> Any:
        """As os.fdopen: the file object closes it."""
        if (process := CURRENT.get()) is not None:
            process.files.discard(fd)
        return _REAL["fdopen"](fd, *given, **more)

    def write(self, fd: int, data: Any) -> int:
        """As os.write."""
        if (name := self._known(fd)) is None:
            return int(_REAL["write"](fd, data))
        if error := self._before("write", name):
            if error == errno.ENOSPC:
                _REAL["write"](fd, bytes(data)[: len(data) // 2])
            raise OSError(error, os.strerror(error), name)
        found = int(_REAL["write"](fd, data))
        self._disk.touched(name)
        return found

    def ftruncate(self, fd: int, size: int) -> None:
        """As os.ftruncate."""
        if (name := self._known(fd)) is not None:
            self._require("truncate", name)
        _REAL["ftruncate"](fd, size)

    def fsync(self, fd: int) -> None:
        """As os.fsync."""
        if (name := self._known(fd)) is None:
            _REAL["fsync"](fd)
            return
        self._require("sync", name)
        if name == "." or self._disk.names[name].synced is None:
            self._disk.synced_folder(name)
        else:
            self.written(name)
            self._disk.synced(self._disk.names[name], self._content(name))

    def _content(self, name: str) -> bytes:
        return (self._disk.root / name).read_bytes()

    def replace(self, source: Any, target: Any) -> None:
        """As os.replace."""
        old, new = self._disk.name_of(source), self._disk.name_of(target)
        if old is None or new is None:
            _REAL["replace"](source, target)
            return
        self._require("rename", new)
        replaced = self._content(new) if new in self._disk.names else None
        _REAL["replace"](source, target)
        self._disk.renamed(old, new, replaced)

    def link(self, source: Any, target: Any) -> None:
        """As os.link."""
        old, new = self._disk.name_of(source), self._disk.name_of(target)
        if old is not None and new is not None:
            self._require("link", new)
        _REAL["link"](source, target)
        if old is not None and new is not None:
            self._disk.linked(old, new)

    def unlink(self, path: Any, **more: Any) -> None:
        """As os.unlink."""
        name = self._disk.name_of(path)
        if name is None or not os.path.lexists(path):
            _REAL["unlink"](path, **more)
            return
        self._require("remove", name)
        content = self._content(name)
        _REAL["unlink"](path, **more)
        self._disk.removed(name, content)

    def mkdir(self, path: Any, mode: int = 0o777, **more: Any) -> None:
        """As os.mkdir."""
        name = self._disk.name_of(path)
        if name is None or os.path.lexists(path):
            _REAL["mkdir"](path, mode, **more)
            return
        self._require("create", name)
        _REAL["mkdir"](path, mode, **more)
        self._disk.created(name, folder=True)

    # SQLite's --------------------------------------------------------------------------------------------------------

    def name_of(self, path: object) -> str | None:
        """The name of a file on the simulated disk."""
        return self._disk.name_of(path)

    def before(self, what: str, name: str, failure: int) -> int:
        """Before SQLite changes a file."""
        try:
            error = self._before(what, name)
        except Killed:
            return failure
        except BaseException as fault:
            self._machine.failed(fault)
            return failure
        return 0 if not error else FULL if error == errno.ENOSPC and what in ("create", "write") else failure

    def written(self, name: str) -> None:
        """A file was written."""
        self._disk.touched(name)

    def created(self, name: str) -> None:
        """A file was made."""
        self._disk.created(name)
        self._disk.touched(name)

    def synced(self, name: str, *, folder: bool) -> None:
        """A file was synced."""
        self._disk.synced(self._disk.names[name], self._content(name))
        if folder:
            self._disk.synced_folder(name.rpartition("/")[0] or ".")

    def remove(self, name: str, really: Callable[[], int], *, sync: bool) -> int:
        """Remove a file."""
        from tests.simulation.sqlite_files import IOERR_DELETE

        if name not in self._disk.names:
            return really()
        if failure := self.before("remove", name, IOERR_DELETE):
            return failure
        content = self._content(name)
        found = really()
        self._disk.removed(name, content)
        if sync:
            if failure := self.before("sync", name.rpartition("/")[0] or ".", IOERR_DELETE):
                return failure
            self._disk.synced_folder(name.rpartition("/")[0] or ".")
        return found

    def random_bytes(self, size: int) -> bytes:
        """Coins for SQLite."""
        return self._machine.coins.randbytes(size)

    def sleep(self, seconds: float) -> None:
        """SQLite waits for a lock."""
        try:
            self._machine.crew.pause(max(seconds, 0.001))
        except Killed:
            pass
        except BaseException as fault:
            self._machine.failed(fault)


_as_source = study.as_source
_read_once = cache(_as_source)
atexit.register(_read_once.cache_clear)  # DuckDB wants to be closed


def _source(rows: Any, **more: Any) -> Any:
    """Private rows that never change: DuckDB reads each file once in a process."""
    return (_read_once if isinstance(rows, str) else _as_source)(rows, **more)


def _locks() -> Iterator[tuple[Any, str, type]]:
    """Every lock that a module of the product makes."""
    for name, module in list(sys.modules.items()):
        if name.startswith("everhold.") and module is not None:
            for what, ours in (("Lock", SimulatedLock), ("RLock", SimulatedRLock)):
                if getattr(module, what, None) is getattr(threading, what):
                    yield module, what, ours


class _OpenFilesOfEach:
    """Every simulated process has its own."""

    def __init__(self) -> None:
        self._of: dict[Process | None, OpenFiles] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of.setdefault(CURRENT.get(), OpenFiles()), name)


@contextmanager
def simulated(machine: Machine) -> Iterator[Files]:
    """Within this, what the product asks of the machine is answered by the simulation."""
    files, crew = Files(machine), machine.crew
    real_sleep, real_monotonic, real_connect = time.sleep, time.monotonic, sqlite3.connect

    def ours() -> bool:
        return CURRENT.get() is not None

    def sleep(seconds: float) -> None:
        crew.pause(seconds) if ours() else real_sleep(seconds)

    def monotonic() -> float:
        return crew.loop.time() if ours() else real_monotonic()

    def getpid() -> int:
        return process.pid if (process := CURRENT.get()) is not None else int(_REAL["getpid"]())

    def connect(*given: Any, **more: Any) -> sqlite3.Connection:
        found = real_connect(*given, **{**more, "check_same_thread": False})
        if (process := CURRENT.get()) is not None:
            process.connections.append(found)
        return found

    async def in_thread(
        _: object, func: Callable[..., Any], args: tuple[Any, ...], abandon_on_cancel: bool = False, limiter: Any = None
    ) -> Any:
        process = CURRENT.get()
        assert process is not None
        if limiter is None:
            return await crew.run(process, lambda: func(*args))
        async with limiter:
            return await crew.run(process, lambda: func(*args))

    with ExitStack() as stack:
        for name in ("open", "close", "write", "fsync", "ftruncate", "fdopen", "replace", "link", "unlink", "mkdir"):
            stack.enter_context(patch.object(os, name, getattr(files, name)))
        stack.enter_context(patch.object(os, "getpid", getpid))
        stack.enter_context(patch.object(os, "urandom", machine.coins.randbytes))
        stack.enter_context(patch.object(random, "_urandom", machine.coins.randbytes))
        stack.enter_context(patch.object(time, "sleep", sleep))
        stack.enter_context(patch.object(time, "monotonic", monotonic))
        stack.enter_context(patch.object(sqlite3, "connect", connect))
        stack.enter_context(patch.object(AsyncIOBackend, "run_sync_in_worker_thread", classmethod(in_thread)))
        for module, name, lock in _locks():
            stack.enter_context(patch.object(module, name, lock))
        stack.enter_context(running_on(machine.now))
        stack.enter_context(patch.object(SimulatedLock, "crew", crew))
        stack.enter_context(patch.object(open_files, "OPEN_FILES", _OpenFilesOfEach()))
        stack.enter_context(patch.object(study, "as_source", _source))
        simulated_files().install(files)
        try:
            yield files
        finally:
            simulated_files().remove()
