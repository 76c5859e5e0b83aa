"""Files that appear whole or not at all, with the number of their format, and locks that end with their process."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from everhold.errors import LedgerError

__all__ = [
    "JSON_FORMAT",
    "UNKNOWN_STAMPS",
    "FileStamps",
    "append_line",
    "exclusive",
    "file_stamp",
    "lock",
    "read_json",
    "settle",
    "sync_folder",
    "to_json",
    "unlock",
    "write_atomic",
]

JSON_FORMAT = 1
"""Of the files beside a study: key, contest, labels, tokens. A change that an older release would misread raises it."""

FileStamps = tuple[tuple[int, int], tuple[int, int]]
"""Time of change and size of a study's file and of one beside it, to find out whether somebody else wrote."""

UNKNOWN_STAMPS: FileStamps = ((-1, -1), (-1, -1))
"""Of no files: what is in memory may not be what they say."""

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def lock(fd: int) -> None:
        """Lock a file for this process alone, or raise OSError at once."""
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

    def unlock(fd: int) -> None:
        """Unlock."""
        with suppress(OSError):
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def lock(fd: int) -> None:
        """Lock a file for this process alone, or raise OSError at once."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(fd: int) -> None:
        """Unlock, also where a forked process still has the file open."""
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)


@contextmanager
def exclusive(path: Path, *, patience: float = 10.0) -> Iterator[None]:
    """One process at a time; waits for the others."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    try:
        while True:
            try:
                lock(fd)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise LedgerError(f"{path} is held by another process.") from None
                time.sleep(0.01)
        try:
            yield
        finally:
            unlock(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file so that it is there with all of its content, or as it was before; `private`: for its owner alone."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o644)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    sync_folder(path.parent)


def append_line(path: Path, line: bytes, *, private: bool = False) -> None:
    """Add a line to a file, which is made if need be, durably. If the last line was cut off, the new one begins after it."""
    new = not path.exists()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600 if private else 0o644)
    try:
        size = os.fstat(fd).st_size
        cut_off = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        left = memoryview((b"\n" if cut_off else b"") + line + b"\n")
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    if new:
        sync_folder(path.parent)


def settle(path: Path) -> None:
    """Make durable what is seen of a file: who wrote it may have been killed before its sync, and a power cut may follow."""
    fd = os.open(path, os.O_RDONLY if sys.platform != "win32" else os.O_RDWR)  # Windows syncs only what may be written
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: a file that was synced can still lose its name in a power failure."""
    if sys.platform == "win32":  # pragma: no cover - Windows has no such thing
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def to_json(content: Mapping[str, Any], *, indent: int | None = None) -> bytes:
    """A file of JSON, with the number of its format first.

    >>> to_json({"key": "00"})
    b'{"format": 1, "key": "00"}'
    """
    return json.dumps({"format": JSON_FORMAT, **content}, ensure_ascii=False, indent=indent).encode()


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file that `to_json` made.

    A format that is not known here is refused; what is not JSON raises ValueError.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError("not an object of JSON")
    if (version := content.pop("format", None)) != JSON_FORMAT or isinstance(version, bool):
        raise LedgerError(
            f"{path} has format {version!r}, and this version of everhold reads format {JSON_FORMAT}. Expected a file that "
            "this version or an older release wrote: update everhold."
        )
    return content


def file_stamp(path: Path) -> tuple[int, int]:
    """Time of change and size of a file; zeros where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_mtime_ns, status.st_size
