"""Reading a file that SQLite has open here, without ending SQLite's locks.

When a process closes any descriptor of a file, POSIX ends all locks that the process has on it, also those of other
descriptors (sqlite.org/howtocorrupt.html, section 2.2). Another process that comes then takes a commit that is under way
for one that was interrupted, and undoes it. So descriptors of a study's file are closed only when no connection of this
process has the file open.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from threading import Lock

__all__ = ["OPEN_FILES", "FileId", "OpenFiles", "file_id"]

FileId = tuple[int, int]


class OpenFiles:
    """The study files that a process has open."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users: dict[FileId, int] = {}
        self._kept: dict[FileId, list[int]] = {}

    def hold(self, file: FileId) -> OpenFiles:
        """A connection is about to be opened. Returned: whom to tell when it was closed."""
        with self._lock:
            self._users[file] = self._users.get(file, 0) + 1
        return self

    def release(self, file: FileId) -> None:
        """A connection was closed."""
        with self._lock:
            self._users[file] -= 1
            if not self._users[file]:
                del self._users[file]
                for fd in self._kept.pop(file, []):
                    os.close(fd)

    def read(self, path: Path, most: int | None = None) -> bytes:
        """The bytes of a file, or the first of them."""
        if sys.platform == "win32":  # pragma: no cover - locks there belong to a descriptor
            with path.open("rb") as file:
                return file.read(-1 if most is None else most)
        with self._lock:
            if descriptors := self._kept.get(file_id(os.stat(path))):
                return _read(descriptors[0], most)
            fd = os.open(path, os.O_RDONLY)
            try:
                return _read(fd, most)
            finally:
                if (file := file_id(os.fstat(fd))) in self._users:
                    self._kept.setdefault(file, []).append(fd)
                else:
                    os.close(fd)


def file_id(status: os.stat_result) -> FileId:
    """Which file it is, whatever its name."""
    return status.st_dev, status.st_ino


def _read(fd: int, most: int | None) -> bytes:
    size = os.fstat(fd).st_size if most is None else most
    pieces = []
    start = 0
    while start < size and (piece := os.pread(fd, size - start, start)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


OPEN_FILES = OpenFiles()
"""Of this process."""
