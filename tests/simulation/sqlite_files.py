"""SQLite's own files on the simulated disk: a VFS around the usual one, in which writes, syncs and deletions are steps.

SQLite does its work as ever: its locks, its journal, its recovery are the real ones. Only the calls that change a file pass
through here. The library is the one that Python's sqlite3 uses.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int64, c_void_p, memmove, sizeof
from typing import Protocol

OK, IOERR, FULL, CANTOPEN = 0, 10, 13, 14
IOERR_WRITE, IOERR_FSYNC, IOERR_TRUNCATE, IOERR_DELETE = (IOERR | part << 8 for part in (3, 4, 6, 10))
_CREATE, _NEW_JOURNAL = 0x4, 0x800 | 0x4000 | 0x80000  # flags of xOpen: main journal, super-journal, write-ahead log

_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))  # SQLite keeps the pointer to the name
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_Randomness = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
_Sleep = CFUNCTYPE(c_int, c_void_p, c_int)
_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)


class _Vfs(Structure):
    _fields_ = [
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        ("xOpen", c_void_p),
        ("xDelete", c_void_p),
        *((name, c_void_p) for name in ("xAccess", "xFullPathname", "xDlOpen", "xDlError", "xDlSym", "xDlClose")),
        ("xRandomness", c_void_p),
        ("xSleep", c_void_p),
        *((name, c_void_p) for name in ("xCurrentTime", "xGetLastError", "xCurrentTimeInt64")),
        *((name, c_void_p) for name in ("xSetSystemCall", "xGetSystemCall", "xNextSystemCall")),
    ]


class _Methods(Structure):
    _fields_ = [
        ("iVersion", c_int),
        *((name, c_void_p) for name in ("xClose", "xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock")),
        *((name, c_void_p) for name in ("xUnlock", "xCheckReservedLock", "xFileControl", "xSectorSize")),
        *((name, c_void_p) for name in ("xDeviceCharacteristics", "xShmMap", "xShmLock", "xShmBarrier", "xShmUnmap")),
        *((name, c_void_p) for name in ("xFetch", "xUnfetch")),
    ]


class Steps(Protocol):
    """What happens at each change of a file. Each returns an error of SQLite, or 0 to go on."""

    def name_of(self, path: object) -> str | None:
        """The name of a file on the simulated disk; None: another one."""

    def before(self, what: str, name: str, failure: int) -> int:
        """Before a change; `failure`: how SQLite calls it if it fails."""

    def written(self, name: str) -> None:
        """A file was written or cut."""

    def synced(self, name: str, *, folder: bool) -> None:
        """A file was synced, and its folder with it."""

    def created(self, name: str) -> None:
        """A file was made."""

    def remove(self, name: str, really: Callable[[], int], *, sync: bool) -> int:
        """Remove a file, and sync its folder."""

    def sleep(self, seconds: float) -> None:
        """SQLite waits for a lock."""

    def random_bytes(self, size: int) -> bytes:
        """Coins for SQLite: they mark its journals."""


class SimulatedFiles:
    """The VFS. There is one in a process, made when it is first needed; `steps` says what it does, None: nothing."""

    def __init__(self) -> None:
        import _sqlite3

        self.steps: Steps | None = None
        self._library = ctypes.CDLL(_sqlite3.__file__)  # finds SQLite wherever Python's module has it
        self._library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        self._library.sqlite3_vfs_find.argtypes = [c_char_p]
        self._library.sqlite3_randomness.argtypes = [c_int, c_void_p]
        self._library.sqlite3_vfs_register.argtypes = [POINTER(_Vfs), c_int]
        self._usual = self._library.sqlite3_vfs_find(None)
        usual = self._usual.contents
        self._vfs = _Vfs()
        memmove(byref(self._vfs), self._usual, sizeof(_Vfs))
        self._open, self._delete = _Open(usual.xOpen), _Delete(usual.xDelete)
        self._sleep = _Sleep(usual.xSleep)
        self._callbacks = (
            _Open(self._on_open),
            _Delete(self._on_delete),
            _Sleep(self._on_sleep),
            _Randomness(self._on_randomness),
        )
        self._vfs.zName = b"everhold-simulation"
        ours = [ctypes.cast(one, c_void_p).value for one in self._callbacks]
        self._vfs.xOpen, self._vfs.xDelete, self._vfs.xSleep, self._vfs.xRandomness = ours
        self._tables: dict[int, tuple[_Methods, tuple[object, ...]]] = {}
        self._files: dict[int, str] = {}
        self._new_journals: set[int] = set()

    def install(self, steps: Steps) -> None:
        """From here on, every connection of this process uses it."""
        self.steps = steps
        self._library.sqlite3_vfs_register(byref(self._vfs), 1)
        self._library.sqlite3_randomness(0, None)  # from here on it draws from ours

    def remove(self) -> None:
        """The usual one again, for new connections."""
        self.steps = None
        self._library.sqlite3_vfs_register(self._usual, 1)
        self._library.sqlite3_randomness(0, None)

    # called by SQLite ------------------------------------------------------------------------------------------------

    def _on_open(self, _: int, given: int | None, file: int, flags: int, out: object) -> int:
        steps = self.steps
        path = b"" if given is None else ctypes.string_at(given)
        name = None if steps is None else steps.name_of(path)
        if steps is None or name is None:
            return int(self._open(ctypes.cast(self._usual, c_void_p), given, file, flags, out))
        new = bool(flags & _CREATE) and not os.path.exists(path)
        if new and (failure := steps.before("create", name, CANTOPEN)):
            _methods_of(file).value = None
            return failure
        found = int(self._open(ctypes.cast(self._usual, c_void_p), given, file, flags, out))
        if found == OK:
            if new:
                steps.created(name)
            self._files[file] = name
            self._new_journals.discard(file)
            if flags & _CREATE and flags & _NEW_JOURNAL:  # as os_unix.c: also where a killed process left one
                self._new_journals.add(file)
            methods = _methods_of(file)
            methods.value = ctypes.addressof(self._table(methods.value or 0))
        return found

    def _table(self, usual: int) -> _Methods:
        """The functions of a file, with ours in the places of those that change it."""
        if usual not in self._tables:
            real, ours = _Methods.from_address(usual), _Methods()
            memmove(byref(ours), usual, sizeof(_Methods) if real.iVersion >= 3 else 15 * sizeof(c_void_p))
            write, truncate, sync = _Write(real.xWrite), _Truncate(real.xTruncate), _Sync(real.xSync)

            def on_write(file: int, data: int, size: int, offset: int) -> int:
                steps, name = self.steps, self._files[file]
                if steps is None:
                    return IOERR_WRITE
                if failure := steps.before("write", name, IOERR_WRITE):
                    if failure == FULL:
                        write(file, data, size // 2, offset)
                        steps.written(name)
                    return failure
                found = int(write(file, data, size, offset))
                steps.written(name)
                return found

            def on_truncate(file: int, size: int) -> int:
                steps, name = self.steps, self._files[file]
                if steps is None:
                    return IOERR_TRUNCATE
                if failure := steps.before("truncate", name, IOERR_TRUNCATE):
                    return failure
                found = int(truncate(file, size))
                steps.written(name)
                return found

            def on_sync(file: int, flags: int) -> int:
                steps, name = self.steps, self._files[file]
                if steps is None:
                    return IOERR_FSYNC
                if failure := steps.before("sync", name, IOERR_FSYNC):
                    return failure
                steps.synced(name, folder=file in self._new_journals)
                self._new_journals.discard(file)
                return OK

            callbacks = _Write(on_write), _Truncate(on_truncate), _Sync(on_sync)
            ours.xWrite, ours.xTruncate, ours.xSync = (ctypes.cast(one, c_void_p).value for one in callbacks)
            self._tables[usual] = ours, (*callbacks, write, truncate, sync)
        return self._tables[usual][0]

    def _on_delete(self, _: int, path: bytes, sync: int) -> int:
        steps = self.steps
        name = None if steps is None else steps.name_of(path)

        def really() -> int:
            return int(self._delete(ctypes.cast(self._usual, c_void_p), path, 0))

        if steps is None or name is None:
            return int(self._delete(ctypes.cast(self._usual, c_void_p), path, sync))
        return steps.remove(name, really, sync=bool(sync))

    def _on_randomness(self, _: int, size: int, out: int) -> int:
        memmove(out, bytes(size) if self.steps is None else self.steps.random_bytes(size), size)
        return size

    def _on_sleep(self, _: int, microseconds: int) -> int:
        if self.steps is None:
            return int(self._sleep(ctypes.cast(self._usual, c_void_p), microseconds))
        self.steps.sleep(microseconds / 1e6)
        return microseconds


def _methods_of(file: int) -> c_void_p:
    return c_void_p.from_address(file)


_made: list[SimulatedFiles] = []


def simulated_files() -> SimulatedFiles:
    """The one of this process."""
    if not _made:
        _made.append(SimulatedFiles())
    return _made[0]
