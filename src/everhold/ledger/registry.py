"""Which private rows already have a study, whatever it is called and wherever its file lies.

A budget belongs to rows. A second study of the same rows would start with a full one, and an older copy of a study would
answer again what was answered. So every durable study is entered in a registry in the user's data folder, by keyed digests
of its rows, with the newest head of those whose copies matter. The registry holds no row: without its key, which is another
file, nobody can test a guess about one. Digests that rows or cells may share are sealed with the key: which are equal, and
how often each occurs, would say what few-valued columns contain.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from everhold.clock import utc_now
from everhold.data.likeness import Cells, Likeness, Placed, named_if_enough
from everhold.data.overlap import compare, compare_counts
from everhold.errors import LedgerError
from everhold.ledger.safe_files import sync_folder, write_atomic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HOME", "KnownStudy", "Registry", "RowDigests", "TableFacts", "data_folder"]

HOME = "EVERHOLD_HOME"
"""The environment variable that names another folder for the registry."""

_MOST = 4096  # of a large set of rows, those with the smallest digests are compared
_LARGELY = 0.1  # two sets overlap if they share this part of the smaller one
_NONCE = 16  # bytes
_PATIENCE = 60.0  # seconds to wait for another process that is writing
_SCHEMA = """
CREATE TABLE IF NOT EXISTS study (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, path TEXT NOT NULL, created TEXT NOT NULL, rows INTEGER NOT NULL,
    key TEXT NOT NULL, reason TEXT, records INTEGER NOT NULL, head TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS row_digests (study TEXT NOT NULL, kind TEXT NOT NULL, sealed BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS row_digests_of_study ON row_digests (study);
CREATE TABLE IF NOT EXISTS charged (study TEXT PRIMARY KEY, charges INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS likeness (study TEXT NOT NULL, value TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS likeness_by_value ON likeness (value);
CREATE TABLE IF NOT EXISTS runs (study TEXT NOT NULL, part INTEGER NOT NULL, value TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS runs_by_value ON runs (value);
CREATE INDEX IF NOT EXISTS runs_of_study ON runs (study);
CREATE TABLE IF NOT EXISTS cells (study TEXT NOT NULL, total INTEGER NOT NULL, sealed BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS cells_of_study ON cells (study);
CREATE TABLE IF NOT EXISTS values_at (study TEXT PRIMARY KEY, columns INTEGER NOT NULL, sealed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS held (study TEXT PRIMARY KEY, private INTEGER NOT NULL, in_database INTEGER NOT NULL);
"""
_NOTHING = Likeness()
_TABLES = ("row_digests", "charged", "likeness", "runs", "cells", "values_at", "held")

RowDigests = Mapping[str, "NDArray[np.uint64]"]
"""Keyed digests of a study's rows by what they are made of, the most telling first: 'expected' (a case's id and its expected
result), 'ids', 'rows', 'files'. Two studies are compared by the first that both have."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What else a study's table is recognised by.

    Attributes:
        rows: how many it has.
        likeness: digests of the whole table, of columns, and of places.
        private: whether the study promises privacy. Then another one's losses add to its own.
        in_database: whether the rows are in a database, where none of these digests is computed.
    """

    rows: int
    likeness: Likeness = _NOTHING
    private: bool = False
    in_database: bool = False

    def may_be(self, rows: int, private: bool, in_database: bool) -> bool:
        """Whether nothing but the number of rows can be compared, and a promise of privacy hangs on it."""
        return self.rows == rows and (self.private or private) and (self.in_database or in_database)


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
        unsure: whether only the number of rows is the same: one of both is in a database, and cannot be compared.
        columns: of the table that was looked up, those that largely agree, if it was recognised by them.
        private: whether it promises privacy.
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
    unsure: bool = False
    columns: tuple[str, ...] = ()
    private: bool = False


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
            try:
                return bytes.fromhex(path.read_text(encoding="ascii"))
            except FileNotFoundError:
                if self.exists:
                    raise ValueError("the key of existing studies is gone") from None
            self._make_folder()
            new = path.with_name(f".registry.key.{os.getpid()}.{secrets.token_hex(4)}")
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(32))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was first
                os.link(new, path)
            new.unlink()
            return bytes.fromhex(path.read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise LedgerError(
                f"the registry in {self.folder} cannot be used ({type(error).__name__}). Expected a folder that can be "
                f"written, with its own registry.key: set {HOME} to another folder, or restore that file."
            ) from None

    def _make_folder(self) -> None:
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(self.folder.parent)

    def _make_private(self, path: Path) -> None:
        """For the owner alone, also where it was made otherwise. Nothing is opened: closing it would end SQLite's locks."""
        try:
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
            return
        except FileNotFoundError:
            pass
        made = path.with_name(f".registry.{os.getpid()}.{secrets.token_hex(4)}")
        os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with suppress(FileExistsError):  # another process was first
            os.link(made, path)
        made.unlink()

    def copy_to(self, folder: Path) -> list[Path]:
        """Copy the registry and its key as they stand, also while others use it."""
        copies = [folder / "registry.sqlite", folder / "registry.key"]
        write_atomic(copies[1], self.key.hex().encode("ascii"), private=True)
        with self._open() as db:
            write_atomic(copies[0], db.serialize(), private=True)
        return copies

    def digests(self, rows: Iterable[str]) -> NDArray[np.uint64]:
        """A keyed digest of each text."""
        key = self.key
        digests = [hashlib.blake2b(row.encode("utf-8", "surrogatepass"), key=key, digest_size=8).digest() for row in rows]
        return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)

    # studies -------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        path = self.folder / "registry.sqlite"
        try:
            self._make_folder()
            self._make_private(path)
            with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous = EXTRA")
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

    def overlapping(self, digests: RowDigests, table: TableFacts | None = None) -> list[KnownStudy]:
        """The studies whose rows are the same or largely the same, alone or together.

        A tenth of the smaller set is enough, or a tenth of the new set in all studies together. Rows without names of their
        own may be equal by chance, and must be so more often than chance explains. With `table`, also those whose whole
        table or a telling column is the same, or that cannot be compared and have as many rows.
        """
        if not self.exists or not digests:
            return []
        with self._open() as db:
            return self._overlapping(db, digests, table)

    def _overlapping(self, db: sqlite3.Connection, digests: RowDigests, table: TableFacts | None) -> list[KnownStudy]:
        known = self._sharing_rows(db, digests)
        if table is None:
            return known
        found = {one.id for one in known}
        alike, key = _alike(db, self.key, self._key_name(), table.likeness), self._key_name()
        columns = (
            "id, kind, path, created, study.rows, reason, records, head, key, coalesce(private, 0), coalesce(in_database, 0)"
        )
        query = f"SELECT {columns} FROM study LEFT JOIN held ON held.study = study.id ORDER BY created"
        for *row, made_with, private, in_database in db.execute(query).fetchall():
            one = replace(KnownStudy(*row), private=bool(private))
            if one.id in found:
                continue
            if one.id in alike and made_with == key:
                known.append(replace(one, columns=alike[one.id]))
            elif table.may_be(one.rows, bool(private), bool(in_database)):
                known.append(replace(one, common=0.0, unsure=True))
        return known

    def _sharing_rows(self, db: sqlite3.Connection, digests: RowDigests) -> list[KnownStudy]:
        studies: list[KnownStudy] = []
        others: list[tuple[KnownStudy, NDArray[np.uint64]]] = []
        lowest, first = np.uint64(2**64 - 1), np.empty(0, np.uint64)
        columns = "id, kind, path, created, study.rows, reason, records, head, key, coalesce(private, 0)"
        query = f"SELECT {columns} FROM study LEFT JOIN held ON held.study = study.id ORDER BY created"
        for *row, key, private in db.execute(query).fetchall():
            study = replace(KnownStudy(*row), private=bool(private))
            sealed_by_form = dict(db.execute("SELECT kind, sealed FROM row_digests WHERE study = ?", (study.id,)))
            form = next((form for form in digests if form in sealed_by_form), None)  # the first that both have
            if form is None or key != self._key_name():
                continue
            mine, mine_highest = _sampled(digests[form])
            values, counts, their_highest = _unpacked(_unsealed(sealed_by_form[form], self.key))
            highest = min(mine_highest, np.uint64(their_highest))
            ours, theirs = (part[part <= highest] for part in (mine, np.repeat(values, counts)))
            common = ours[np.isin(ours, theirs)]
            share = len(common) / min(len(ours), len(theirs)) if min(len(ours), len(theirs)) else 0.0
            if share >= _LARGELY and (form != "rows" or compare(ours, theirs).beyond_chance):
                studies.append(replace(study, common=min(share, 1.0)))
            elif form != "rows" and len(common):
                others.append((study, common))
                lowest, first = min(lowest, highest), mine
        if not studies and others:  # a set put together from several
            together = np.unique(np.concatenate([common for _, common in others]))
            share = int((together <= lowest).sum()) / max(int((first <= lowest).sum()), 1)
            studies = [replace(study, common=share) for study, _ in others] if share >= _LARGELY else []
        return studies

    def enter(
        self,
        *,
        study: str,
        kind: str,
        path: Path,
        digests: RowDigests,
        reason: str | None = None,
        refuse: bool = False,
        table: TableFacts | None = None,
    ) -> list[KnownStudy]:
        """Enter a new study, and return those with largely the same rows.

        With `refuse`, nothing is entered if there are any and no reason is given. Looking and entering are one step, so that
        of two processes with the same rows one is refused.
        """
        name = self._key_name()
        with self._open() as db:
            known = [entry for entry in self._overlapping(db, digests, table) if entry.id != study]
            if known and refuse and reason is None:
                return known
            now = utc_now().isoformat(timespec="microseconds")
            rows = max((len(values) for values in digests.values()), default=0) if table is None else table.rows
            entry = (study, kind, str(path.absolute()), now, rows, name, reason)
            self._remove(db, study)
            db.execute("INSERT INTO study VALUES (?, ?, ?, ?, ?, ?, ?, 0, '')", entry)
            for form, values in digests.items():
                sampled, highest = _sampled(values)
                packed = _packed(*np.unique(sampled, return_counts=True), int(highest))
                db.execute("INSERT INTO row_digests VALUES (?, ?, ?)", (study, form, _sealed(packed, self.key)))
            if table is not None:
                _enter_table(db, self.key, study, table)
            return known

    def _key_name(self) -> str:
        return hmac.new(self.key, b"name", hashlib.sha256).hexdigest()[:16]

    def _remove(self, db: sqlite3.Connection, study: str) -> None:
        db.execute("DELETE FROM study WHERE id = ?", (study,))
        for table in _TABLES:
            db.execute(f"DELETE FROM {table} WHERE study = ?", (study,))

    def forget(self, study: str) -> None:
        """Take a study out again that could not be made."""
        with self._open() as db:
            self._remove(db, study)

    # heads ---------------------------------------------------------------------------------------------------------------

    def advance(self, study: str, before: str, head: str) -> bool:
        """Note a study's new head, durably, if `before` is still the newest one. False: another copy has gone on."""
        with self._open() as db:
            records = int(head.partition(":")[0])
            done = db.execute(
                "UPDATE study SET records = ?, head = ? WHERE id = ? AND head = ?", (records, head, study, before)
            )
            return done.rowcount == 1

    def newest_head(self, study: str) -> str | None:
        """The newest head that is known of a study, '' before the first; None where the study is not known."""
        if not self.exists:
            return None
        with self._open() as db:
            row = db.execute("SELECT head FROM study WHERE id = ?", (study,)).fetchone()
        return None if row is None else str(row[0])

    def with_head(self, head: str) -> KnownStudy | None:
        """The study whose newest head this is; None where none is known by it."""
        return next((one for one in self.studies() if one.head == head), None)

    # charges to the budget of a private study ----------------------------------------------------------------------------

    def note_charges(self, study: str, charges: int) -> None:
        """Remember durably how often a study that is here was charged, if that is more than was known."""
        with self._open() as db:
            db.execute(
                "INSERT INTO charged SELECT id, ? FROM study WHERE id = ? "
                "ON CONFLICT (study) DO UPDATE SET charges = max(charges, excluded.charges)",
                (charges, study),
            )

    def charges(self, study: str) -> int:
        """The most charges that are known of a study, drawn or recorded; 0 where none is."""
        if not self.exists:
            return 0
        with self._open() as db:
            row = db.execute("SELECT charges FROM charged WHERE study = ?", (study,)).fetchone()
        return 0 if row is None else int(row[0])

    def studies(self) -> Sequence[KnownStudy]:
        """Every study, the oldest first."""
        if not self.exists:
            return []
        with self._open() as db:
            rows = db.execute("SELECT id, kind, path, created, rows, reason, records, head FROM study ORDER BY created")
            return [KnownStudy(*row) for row in rows]


def _enter_table(db: sqlite3.Connection, key: bytes, study: str, table: TableFacts) -> None:
    db.execute("INSERT INTO held VALUES (?, ?, ?)", (study, table.private, table.in_database))
    db.executemany("INSERT INTO likeness VALUES (?, ?)", [(study, value) for value in table.likeness.digests])
    runs = [(study, part, value) for part, values in enumerate(table.likeness.runs) for value in values]
    db.executemany("INSERT INTO runs VALUES (?, ?, ?)", runs)
    for some in table.likeness.cells.values():
        packed = _packed(some.values, some.counts, some.highest)
        db.execute("INSERT INTO cells VALUES (?, ?, ?)", (study, some.rows, _sealed(packed, key)))
    if (placed := table.likeness.placed) is not None:
        lines = np.concatenate([placed.places[None], placed.values]).astype("<u4")
        db.execute("INSERT INTO values_at VALUES (?, ?, ?)", (study, len(placed.values), _sealed(lines.tobytes(), key)))


def _alike(db: sqlite3.Connection, key: bytes, key_name: str, mine: Likeness) -> dict[str, tuple[str, ...]]:
    """The studies that have the same whole table or telling column, in any order, or columns that largely agree: which."""
    found: dict[str, tuple[str, ...]] = {}
    for value in mine.digests:
        for (study,) in db.execute("SELECT study FROM likeness WHERE value = ?", (value,)):
            found[str(study)] = ()
    for one in (_with_cells, _with_runs, _with_places):
        for study, names in one(db, key, key_name, mine).items():
            found.setdefault(study, names)
    return found


def _with_runs(db: sqlite3.Connection, _: bytes, __: str, mine: Likeness) -> dict[str, tuple[str, ...]]:
    pairs: dict[str, set[tuple[int, int]]] = {}
    for part, values in enumerate(mine.runs):
        for value in values:
            for study, other in db.execute("SELECT study, part FROM runs WHERE value = ?", (value,)):
                pairs.setdefault(str(study), set()).add((part, int(other)))
    found = {}
    for study, those in pairs.items():
        (others,) = db.execute("SELECT count(DISTINCT part) FROM runs WHERE study = ?", (study,)).fetchone()
        if names := named_if_enough(those, mine.run_names, mine.run_groups, others):
            found[study] = names
    return found


def _with_places(db: sqlite3.Connection, key: bytes, key_name: str, mine: Likeness) -> dict[str, tuple[str, ...]]:
    found = {}
    query = "SELECT values_at.study, columns, sealed FROM values_at JOIN study ON id = values_at.study WHERE key = ?"
    for study, columns, sealed in [] if mine.placed is None else db.execute(query, (key_name,)).fetchall():
        lines = np.frombuffer(_unsealed(sealed, key), dtype="<u4").reshape(columns + 1, -1)
        if mine.placed is not None and (names := mine.placed.agreeing(Placed(lines[0], lines[1:]))):
            found[str(study)] = names
    return found


def _with_cells(db: sqlite3.Connection, key: bytes, key_name: str, mine: Likeness) -> dict[str, tuple[str, ...]]:
    """Columns of many values of which most occur equally often, more than chance explains."""
    found, others = {}, dict[str, list[Cells]]()
    query = "SELECT cells.study, total, sealed FROM cells JOIN study ON id = cells.study WHERE key = ?"
    for study, rows, sealed in db.execute(query, (key_name,)).fetchall() if mine.cells else []:
        others.setdefault(str(study), []).append(Cells(*_unpacked(_unsealed(sealed, key)), rows))
    names = tuple(mine.cells)
    for study, theirs in others.items():
        shares = {
            (number, other): _same_cells(one, two)
            for number, one in enumerate(mine.cells.values())
            for other, two in enumerate(theirs)
        }
        pairs = {pair for pair, share in shares.items() if share > 0.0}
        enough = {pair for pair in pairs if shares[pair] >= 0.5 and mine.cells[names[pair[0]]].alone}
        alone = tuple(sorted({names[number] for number, _ in enough}))
        if named := named_if_enough(pairs, names, range(len(names)), len(theirs)) or alone:
            found[study] = named
    return found


def _same_cells(one: Cells, two: Cells) -> float:
    """The share of the values of one that the other has too, of that with fewer; 0 where chance explains it."""
    highest = min(one.highest, two.highest)
    mine, theirs = one.up_to(highest), two.up_to(highest)
    fewer = min(len(mine[0]), len(theirs[0]))
    share = len(np.intersect1d(mine[0], theirs[0], assume_unique=True)) / max(fewer, 1)
    beyond = share >= _LARGELY and compare_counts(mine, theirs, (one.rows, two.rows)).beyond_chance
    return share if beyond else 0.0


def _sealed(content: bytes, key: bytes) -> bytes:
    """Content that without the key looks like random bytes, also where it says the same twice."""
    nonce = secrets.token_bytes(_NONCE)
    return nonce + _masked(content, nonce, key)


def _unsealed(sealed: bytes, key: bytes) -> bytes:
    return _masked(sealed[_NONCE:], sealed[:_NONCE], key)


def _masked(content: bytes, nonce: bytes, key: bytes) -> bytes:
    """A keyed stream that is used once: SHAKE256 of the key and a fresh nonce."""
    stream = hashlib.shake_256(b"everhold registry 1 " + hashlib.sha256(key).digest() + nonce).digest(len(content))
    return (np.frombuffer(content, np.uint8) ^ np.frombuffer(stream, np.uint8)).tobytes()


def _packed(values: NDArray[np.uint64], counts: NDArray[np.int64], highest: int) -> bytes:
    """Digests and how often each occurs, in a length that hardly depends on them."""
    lines = np.zeros((1 + (1 << len(values).bit_length()), 2), dtype="<u8")
    lines[0] = highest, len(values)
    lines[1 : 1 + len(values)] = np.column_stack([values, counts.astype(np.uint64)])
    return lines.tobytes()


def _unpacked(packed: bytes) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
    lines = np.frombuffer(packed, dtype="<u8").reshape(-1, 2).astype(np.uint64)
    values = lines[1 : 1 + int(lines[0, 1])]
    return values[:, 0], values[:, 1].astype(np.int64), int(lines[0, 0])


def _sampled(digests: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], np.uint64]:
    """The smallest digests, and the largest up to which none is left out. The same rows are chosen from every table."""
    ordered = np.sort(digests)
    if len(ordered) <= _MOST:
        return ordered, np.uint64(2**64 - 1)
    highest = ordered[_MOST - 1]
    return ordered[ordered <= highest], highest
