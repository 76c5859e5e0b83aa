"""The durable ledger: one SQLite file a study, one writer, records chained by their hashes.

A record is durable before anything in it is returned: `append` returns after SQLite has synced the file and its folder. If
that fails nobody knows whether the record is there; the store then refuses everything, and reopening finds out.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from everhold.errors import LedgerBusy, LedgerError
from everhold.ledger import open_files
from everhold.ledger.open_files import FileId, OpenFiles, file_id
from everhold.ledger.safe_files import lock, settle, sync_folder, unlock
from everhold.ledger.sqlite_format import APPLICATION_ID, CREATE, FORMAT, require_ledger

__all__ = ["Head", "Record", "Store"]

_NEXT_ROWS = "SELECT seq, kind, version, body, blob, hash FROM record WHERE seq > ? ORDER BY seq LIMIT ?"
_AT_ONCE = 500
_PATIENCE = 300.0  # seconds that a write waits for readers
_START = b"everhold ledger 1\n".ljust(32, b"\0")


@dataclass(frozen=True, slots=True)
class Record:
    """What is written: a kind, the version of its form, a text and, where there is one, bytes."""

    kind: str
    version: int
    body: str
    blob: bytes | None = None

    def chained(self, before: bytes) -> bytes:
        """SHA-256 over the hash before and all of this, each part with its length."""
        digest = hashlib.sha256(before)
        parts = [self.kind.encode(), str(self.version).encode(), self.body.encode()]
        parts += [b"-"] if self.blob is None else [b"+", self.blob]
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.digest()


@dataclass(frozen=True, slots=True)
class Head:
    """Where a ledger stands: how many records, and the hash of the last, which covers all before it.

    >>> head = Head(12, b"\\x01" * 32)
    >>> str(head)[:9], Head.parse(str(head)) == head
    ('12:010101', True)
    """

    records: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.records}:{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """From its text, as it was printed."""
        count, _, digest = text.strip().partition(":")
        try:
            head = cls(int(count), bytes.fromhex(digest))
        except ValueError:
            head = cls(0, b"")
        if head.records < 1 or len(head.hash) != 32:
            raise LedgerError(
                f"{text!r} is not a ledger head. Expected `<records>:<64 hex digits>`, as printed by `everhold status`."
            )
        return head


class Store:
    """A study's file.

    Made by `Store.create` or `Store.open`; `close` gives up the lock. Reading does not need it.
    """

    def __init__(self, path: Path, *, write: bool, lock: int | None, data: bytes | None = None) -> None:
        self.path = path
        self._write = write
        self._lock = lock
        self._broken = self._closed = self._paused = False
        self._pid = os.getpid()
        mode = "rw" if os.access(path, os.W_OK) else "ro"
        self._file_id = None if data is not None else _file_id(path)
        self._held_by: OpenFiles | None = None
        if self._file_id is not None:
            self._held_by = open_files.OPEN_FILES.hold(self._file_id)
        try:
            self._connect(mode, data)
        except BaseException:
            self._let_go()
            raise
        self._head = Head(0, _START)
        self._length = None if data is None else len(data)

    def _connect(self, mode: str, data: bytes | None) -> None:
        path = self.path
        if data is None:
            require_ledger(path)
        try:
            address = ":memory:" if data is not None else f"{path.absolute().as_uri()}?mode={mode}"
            self._con = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0)
            try:
                if data is not None:
                    self._con.deserialize(data)
                else:
                    _set_pragmas(self._con)
            except BaseException:
                self._con.close()
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise LedgerError(f"{path} cannot be opened as a study: {error}.") from None

    def _let_go(self) -> None:
        """The connection is closed."""
        if self._held_by is not None and self._file_id is not None:
            users, self._held_by = self._held_by, None
            users.release(self._file_id)

    @classmethod
    def create(cls, path: Path, first: Record, *, before: Callable[[], None] = lambda: None) -> Store:
        """A new file with its first record, which must not exist. It appears whole or not at all.

        `before` is done under the lock, when it is certain that the file is new.
        """
        lock = _locked(path)
        new = path.with_name(f".{path.name}.{os.getpid()}.new")
        try:
            if path.exists():
                raise LedgerError(f"{path} exists already. Open it, or choose another name.")
            before()
            con = sqlite3.connect(new, isolation_level=None)
            try:
                con.execute("PRAGMA page_size = 4096")
                con.execute("PRAGMA auto_vacuum = NONE")
                _set_pragmas(con)
                con.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                con.execute(f"PRAGMA user_version = {FORMAT}")
                con.execute(CREATE)
                con.execute("BEGIN IMMEDIATE")
                _insert(con, 1, first, first.chained(_START))
                con.execute("COMMIT")
            finally:
                con.close()
            settle(new)
            os.link(new, path)  # fails if somebody was faster; the file is complete
            new.unlink()
            sync_folder(path.parent)
        except (OSError, sqlite3.Error) as error:
            new.unlink(missing_ok=True)
            _unlocked(lock)
            raise LedgerError(f"{path} could not be created: {error}.") from None
        except BaseException:
            new.unlink(missing_ok=True)
            _unlocked(lock)
            raise
        store = cls(path, write=True, lock=lock)
        store._head = Head(1, first.chained(_START))
        return store

    @classmethod
    def open(cls, path: Path, *, write: bool) -> Store:
        """An existing file. Writing needs the lock, which one process holds at a time."""
        if not path.is_file():
            raise LedgerError(f"there is no study {path}. Create it first, or check the name.")
        lock = _locked(path) if write else None
        try:
            store = cls(path, write=write, lock=lock)
        except BaseException:
            _unlocked(lock)
            raise
        try:
            store._settle()
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def snapshot(cls, path: Path) -> tuple[Store, bytes]:
        """A study's file as it stands at one moment, and its bytes; somebody may go on asking beside it."""
        reader = cls.open(path, write=False)
        try:
            reader.hold_still()
            data = open_files.OPEN_FILES.read(path)
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            raise LedgerError(f"{path} is damaged: {error}.") from None
        finally:
            reader.close()
        return cls(path, write=False, lock=None, data=data), data

    def hold_still(self) -> None:
        """From here on nobody commits, until this reader is closed."""
        self._con.execute("BEGIN")
        self._con.execute("SELECT 1 FROM record LIMIT 1").fetchone()

    def holds(self, head: Head) -> bool:
        """Whether the ledger had this head once."""
        row = self._con.execute("SELECT hash FROM record WHERE seq = ?", (head.records,)).fetchone()
        return bool(row == (head.hash,))

    def require_one_name(self) -> None:
        """Refuse a file that can be reached by another name: its lock is beside a name, so that it would have two.

        Raises:
            LedgerError: the file has a second name (a hard or symbolic link), or is no longer where it was.
        """
        try:
            status = os.lstat(self.path)
        except OSError as error:
            raise LedgerError(f"{self.path} is not there any more ({error.strerror}). Open it where it is now.") from None
        if stat.S_ISLNK(status.st_mode) or status.st_nlink > 1:
            raise LedgerError(
                f"{self.path} has a second name (a link), and so it would have a second lock. Nothing was read. Remove the "
                "other name, or open it by its own."
            )
        if self._file_id is not None and file_id(status) != self._file_id:
            raise LedgerError(f"{self.path} is another file than the one that was opened. Open the study again.")

    def last(self) -> int:
        """How many records the file has, without reading them."""
        count = self._con.execute("SELECT max(seq) FROM record").fetchone()[0]
        return int(count or 0)

    @property
    def closed(self) -> bool:
        """Whether the file was given up."""
        return self._closed

    @property
    def paused(self) -> bool:
        """Whether another process may write."""
        return self._paused

    def pause(self) -> None:
        """Let another process write; nothing is forgotten here."""
        if self._lock is not None and not self._closed and os.getpid() == self._pid:
            self._paused = True
            _unlocked(self._lock)
            self._lock = None

    def resume(self) -> None:
        """Write again. `new_records` has what other processes wrote meanwhile.

        Raises:
            LedgerBusy: another process is writing.
            LedgerError: the file is not the one it was, or does not contain what was written here.
        """
        if not self._paused:
            return
        taken = _locked(self.path)
        try:
            last = self._con.execute("SELECT hash FROM record WHERE seq = ?", (self._head.records,)).fetchone()
            if _file_id(self.path) != self._file_id or last != (self._head.hash,):
                raise LedgerError(f"{self.path} was changed by somebody else. Open the study again.")
            if self.last() > self._head.records:
                self._settle()
        except sqlite3.Error as error:
            _unlocked(taken)
            raise LedgerError(f"{self.path} is damaged: {error}.") from None
        except BaseException:
            _unlocked(taken)
            raise
        self._lock, self._paused = taken, False

    def _settle(self) -> None:
        """Make durable what this file shows now.

        A process may have been killed after SQLite removed its journal, which is the commit, and before that was synced.
        The pages themselves are synced before. (The file is not opened for that: closing it would end SQLite's locks on it.)
        """
        try:
            sync_folder(self.path.parent)
        except OSError as error:
            if self._write:
                raise LedgerError(f"{self.path} cannot be synced ({error.strerror}). No answer was returned.") from None

    def fail(self) -> None:
        """Return nothing more: something was interrupted between a decision and its record."""
        self._broken = True
        self.close()

    @property
    def head(self) -> Head:
        """Where the ledger stands, after all records were read or appended."""
        return self._head

    @property
    def broken(self) -> bool:
        """Whether a write failed, so that nothing more may be returned."""
        return self._broken

    def records(self) -> Iterator[Record]:
        """All records in order, each checked against the chain."""
        yield from self._records(Head(0, _START))
        if not self._head.records:
            raise LedgerError(f"{self.path} holds no record.")

    def new_records(self) -> Iterator[Record]:
        """The records that follow the head, each checked against the chain."""
        yield from self._records(self._head)

    def _records(self, after: Head) -> Iterator[Record]:
        before, seq, read = after.hash, after.records, 0
        try:
            while True:
                rows, read = self._next_rows(seq, read)  # no lock is held between the pieces
                if not rows:
                    break
                for row in rows:
                    seq += 1
                    record = _checked(row, seq, self.path)
                    before = record.chained(before)
                    if row[5] != before:
                        raise LedgerError(
                            f"record {seq} of {self.path} does not follow from the one before: it was altered."
                        )
                    self._head = Head(seq, before)
                    yield record
        except (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError) as error:
            raise LedgerError(f"{self.path} is damaged after record {seq}: {error}.") from None

    def _next_rows(self, seq: int, read: int) -> tuple[list[tuple[object, ...]], int]:
        """The next records, and how many bytes have been read with them: no more than the file has.

        Pages that are used twice, or chains of them that run in a circle, would give more.
        """
        length = self._length if self._length is not None else self.path.stat().st_size
        self._con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(length, 4096))
        try:
            rows: list[tuple[object, ...]] = []
            for row in self._con.execute(_NEXT_ROWS, (seq, _AT_ONCE)):
                read += sum(len(value) for value in row if isinstance(value, str | bytes))
                if read > length:
                    raise LedgerError(f"{self.path} is damaged after record {seq + len(rows)}: pages are used twice.")
                rows.append(row)
            return rows, read
        finally:
            self._con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000_000)

    def append(self, records: Sequence[Record]) -> None:
        """Make records durable, all or none. Returns when they are."""
        if self._broken or not self._write:
            raise LedgerError(
                f"{self.path} {'could not be written before' if self._broken else 'is open for reading'}: no further "
                "answer is returned. Open the study again; what was recorded is there."
            )
        if self._paused:
            raise LedgerError(f"{self.path} is paused, so that another process may ask. Resume it first.")
        try:
            seq, before = self._head.records, self._head.hash
            _patiently(self._con, "BEGIN IMMEDIATE")
            last = self._con.execute("SELECT seq, hash FROM record ORDER BY seq DESC LIMIT 1").fetchone()
            if last != (seq, before):
                raise LedgerError(f"{self.path} was changed by somebody else. Open the study again.")
            for record in records:
                seq, before = seq + 1, record.chained(before)
                _insert(self._con, seq, record, before)
            _patiently(self._con, "COMMIT")
            self._head = Head(seq, before)
        except BaseException as error:
            # Whether the commit happened is unknown: return nothing, and let reopening find out.
            self._broken = True
            self.close()
            if isinstance(error, sqlite3.Error | OSError):
                raise LedgerError(
                    f"{self.path} could not be written ({error}). No answer was returned. Fix the problem and reopen the "
                    "study."
                ) from None
            raise

    def close(self) -> None:
        """Give up the file and its lock."""
        self._closed = True
        with suppress(sqlite3.Error):
            self._con.close()
        self._let_go()
        if os.getpid() == self._pid:
            _unlocked(self._lock)
        self._lock = None


def _file_id(path: Path) -> FileId:
    """Which file a path leads to."""
    try:
        return file_id(path.stat())
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}.") from None


def _patiently(con: sqlite3.Connection, statement: str) -> None:
    """Run a statement that waits for readers: while they hold the file it is known not to have happened."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            con.execute(statement)
            return
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _set_pragmas(con: sqlite3.Connection) -> None:
    """Durable commits; pages without remains of older ones, so that every byte can be accounted for."""
    con.execute("PRAGMA journal_mode = DELETE")
    con.execute("PRAGMA synchronous = EXTRA")
    con.execute("PRAGMA secure_delete = ON")
    con.execute("PRAGMA trusted_schema = OFF")


def _insert(con: sqlite3.Connection, seq: int, record: Record, digest: bytes) -> None:
    con.execute(
        "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?)",
        (seq, record.kind, record.version, record.body, record.blob, digest),
    )


def _checked(row: tuple[object, ...], seq: int, path: Path) -> Record:
    number, kind, version, body, blob, digest = row
    if (
        number != seq
        or not isinstance(kind, str)
        or not isinstance(version, int)
        or not isinstance(body, str)
        or not (blob is None or isinstance(blob, bytes))
        or not isinstance(digest, bytes)
    ):
        raise LedgerError(f"record {seq} of {path} is missing or damaged.")
    return Record(kind, version, body, blob)


def _locked(path: Path) -> int:
    """The writer's lock, held by the operating system until this process gives it up or ends."""
    lock_path = path.with_name(path.name + ".lock")
    try:
        fd = os.open(lock_path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise LedgerError(f"{lock_path} cannot be made: {error.strerror}. The folder of a study must be writable.") from None
    try:
        lock(fd)
    except OSError:
        try:
            holder = os.read(fd, 64).decode(errors="replace").strip() or "unknown"
        except OSError:  # pragma: no cover - Windows locks what it reads
            holder = "unknown"
        os.close(fd)
        busy = LedgerBusy(
            f"{path} is open for asking elsewhere (process {holder}). One process asks at a time: wait until it is done, "
            "or ask there."
        )
        busy.holder = holder
        raise busy from None
    if sys.platform != "win32":
        with suppress(OSError):  # on a full disk the lock cannot name its holder
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode())
    return fd


def _unlocked(fd: int | None) -> None:
    if fd is not None:
        unlock(fd)
        os.close(fd)
