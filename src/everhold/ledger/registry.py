"""Which private rows already have a study, whatever it is called and wherever its file lies.

A budget belongs to rows. A second study of the same rows would start with a full one, and an older copy of a study would
answer again what was answered. So every durable study is entered in a registry in the user's data folder, by keyed digests
of its rows, with the newest head of those whose copies matter. The registry holds no row: without its key nobody can test a
guess about one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from everhold.data.overlap import compare
from everhold.errors import LedgerError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HOME", "KnownStudy", "Registry", "data_folder"]

HOME = "EVERHOLD_HOME"
"""The environment variable that names another folder for the registry."""

_MOST = 4096  # of a large set of rows, those with the smallest digests are compared
_LARGELY = 0.1  # sets of which so much of the smaller one is common overlap
_PATIENCE = 60.0  # seconds to wait for another process that is writing
_SCHEMA = """
CREATE TABLE IF NOT EXISTS study (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, path TEXT NOT NULL, created TEXT NOT NULL, rows INTEGER NOT NULL,
    digests TEXT NOT NULL, highest TEXT NOT NULL, reason TEXT, records INTEGER NOT NULL, head TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS digest (study TEXT NOT NULL, value TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS digest_of_study ON digest (study);
"""


def data_folder() -> Path:
    """Where this user's programs keep data; `EVERHOLD_HOME` names another place."""
    if (home := os.environ.get(HOME)) is not None:
        return Path(home)
    from platformdirs import user_data_path  # here, because few commands need it

    return user_data_path("everhold", appauthor=False)


@dataclass(frozen=True, slots=True)
class KnownStudy:
    """A study in the registry.

    Attributes:
        id: the study's own fingerprint of its rows, under a key of its own.
        kind: 'gate', 'holdout' …
        path: where its file was made.
        created: when.
        rows: how many it has.
        reason: why it has a new budget, where somebody gave a reason.
        records, head: the newest head that is known.
        common: the share of the smaller set of rows that both sets have; 1 for equal sets.
    """

    id: str
    kind: str
    path: str
    created: str
    rows: int
    reason: str | None
    records: int
    head: str
    common: float = 1.0


class Registry:
    """The registry of one user.

    Args:
        folder: where it lies; the user's data folder when left out.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = data_folder() if folder is None else folder

    # digests -------------------------------------------------------------------------------------------------------------

    @property
    def key(self) -> bytes:
        """The registry's own key, made when it is first needed."""
        path = self.folder / "registry.key"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                made = path.with_name(f".registry.key.{os.getpid()}.{secrets.token_hex(4)}")
                fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(fd, "w", encoding="ascii") as file:
                    file.write(secrets.token_hex(32))
                    file.flush()
                    os.fsync(file.fileno())
                try:
                    if not path.exists():
                        os.link(made, path)  # fails if another process was first
                finally:
                    made.unlink()
            key = bytes.fromhex(path.read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise LedgerError(
                f"the registry in {self.folder} cannot be used ({type(error).__name__}). Expected a folder that can be "
                f"written, with its own registry.key: set {HOME} to another folder, or restore that file."
            ) from None
        return key

    def digests(self, rows: Iterable[str]) -> NDArray[np.uint64]:
        """A keyed digest of each text."""
        key = self.key
        found = [hashlib.blake2b(one.encode("utf-8", "surrogatepass"), key=key, digest_size=8).digest() for one in rows]
        return np.frombuffer(b"".join(found), dtype=">u8").astype(np.uint64)

    # studies -------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        path = self.folder / "registry.sqlite"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous = FULL")
                db.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                yield db
                db.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(
                f"the registry {path} cannot be used ({type(error).__name__}: {error}). Expected a file that can be written "
                f"and was made by everhold: restore it from a backup, or set {HOME} to another folder."
            ) from None

    @property
    def exists(self) -> bool:
        """Whether any study was ever entered."""
        return (self.folder / "registry.sqlite").exists()

    def overlapping(self, digests: NDArray[np.uint64], *, ids: bool) -> list[KnownStudy]:
        """The studies whose rows are the same or largely the same.

        Args:
            digests: of the rows, under this registry's key, in any order.
            ids: whether every row has a name of its own. Then a tenth of the smaller set is enough; other rows may be equal
                by chance, and must be so more often than chance explains.
        """
        if not self.exists or not len(digests):
            return []
        with self._open() as db:
            return self._overlapping(db, digests, ids=ids)

    def _overlapping(self, db: sqlite3.Connection, digests: NDArray[np.uint64], *, ids: bool) -> list[KnownStudy]:
        mine, mine_highest = _sampled(digests)
        found = []
        for row in db.execute("SELECT id, kind, path, created, rows, reason, records, head, highest, digests FROM study"):
            if row[9] != _digest_kind(self.key, ids):  # digests of another kind
                continue
            kept = db.execute("SELECT value FROM digest WHERE study = ?", (row[0],)).fetchall()
            theirs = np.array([int(one, 16) for (one,) in kept], dtype=np.uint64)
            highest = min(mine_highest, np.uint64(int(row[8], 16)))
            one, other = mine[mine <= highest], theirs[theirs <= highest]
            smaller = min(len(one), len(other))
            common = int(np.isin(one, other).sum()) if len(one) <= len(other) else int(np.isin(other, one).sum())
            share = common / smaller if smaller else 0.0
            if share >= _LARGELY and (ids or compare(one, other).beyond_chance):
                found.append(replace(KnownStudy(*row[:8]), common=share))
        return found

    def enter(
        self,
        *,
        study: str,
        kind: str,
        path: Path,
        digests: NDArray[np.uint64],
        ids: bool,
        reason: str | None = None,
        refuse: bool = False,
    ) -> list[KnownStudy]:
        """Enter a new study, and return those with largely the same rows.

        With `refuse`, nothing is entered if there are any and no reason is given. Looking and entering are one step, so that
        of two processes with the same rows one is refused.
        """
        sampled, highest = _sampled(digests)
        with self._open() as db:
            known = self._overlapping(db, digests, ids=ids)
            if known and refuse and reason is None:
                return known
            now = datetime.now(UTC).isoformat(timespec="seconds")
            entry = (
                study,
                kind,
                str(path.absolute()),
                now,
                len(digests),
                _digest_kind(self.key, ids),
                f"{highest:016x}",
                reason,
            )
            db.execute("INSERT OR REPLACE INTO study VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, '')", entry)
            db.executemany("INSERT INTO digest VALUES (?, ?)", [(study, f"{one:016x}") for one in sampled.tolist()])
            return known

    def forget(self, study: str) -> None:
        """Take a study out again that could not be made."""
        with self._open() as db:
            db.execute("DELETE FROM study WHERE id = ?", (study,))
            db.execute("DELETE FROM digest WHERE study = ?", (study,))

    # heads ---------------------------------------------------------------------------------------------------------------

    def note_head(self, study: str, head: str) -> None:
        """Remember how far a study has come, durably. Older heads are forgotten."""
        records = int(head.partition(":")[0])
        with self._open() as db:
            db.execute(
                "UPDATE study SET records = ?, head = ? WHERE id = ? AND records <= ?", (records, head, study, records)
            )

    def newest_head(self, study: str) -> str | None:
        """The newest head that is known of a study; None where none is."""
        if not self.exists:
            return None
        with self._open() as db:
            found = db.execute("SELECT head FROM study WHERE id = ?", (study,)).fetchone()
        return found[0] or None if found else None

    def studies(self) -> Sequence[KnownStudy]:
        """Every study, the oldest first."""
        if not self.exists:
            return []
        with self._open() as db:
            rows = db.execute("SELECT id, kind, path, created, rows, reason, records, head FROM study ORDER BY created")
            return [KnownStudy(*row) for row in rows]


def _sampled(digests: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], np.uint64]:
    """The rows with the smallest digests, and up to where none is left out. The same rows are chosen from every table."""
    ordered = np.sort(digests)
    if len(ordered) <= _MOST:
        return ordered, np.uint64(2**64 - 1)
    highest = ordered[_MOST - 1]
    return ordered[ordered <= highest], highest


def _digest_kind(key: bytes, ids: bool) -> str:
    """What kind of digests a study has, under which key."""
    return hmac.new(key, b"ids" if ids else b"rows", hashlib.sha256).hexdigest()[:16]
