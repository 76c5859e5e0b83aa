"""The guard of a private study: a small file beside the key that remembers what was charged, whatever is interrupted.

It holds how often something was charged, the ledger's head, and a mark: "a surprise was drawn and is not yet recorded",
with the name of who asked.
It is written in place, into two slots in turn, so that a full disk or a power cut cannot take it away: the newest slot
with a right checksum counts. `docs/theory/privacy.md#crashes` says what follows from it.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from everhold.errors import LedgerError
from everhold.ledger.safe_files import sync_folder
from everhold.ledger.store import Head

__all__ = ["Guard", "kept_name"]

_MAGIC = b"evhguard"
_MOST_NAME = 400  # bytes of a name
_FORM = struct.Struct(f">8sQQQQ32sH{_MOST_NAME}s")
_SLOT = 512  # a sector: a write of one is whole or not at all on usual disks


def kept_name(who: str | None) -> str:
    """A name as a guard keeps it: of a very long one the beginning.

    >>> kept_name("ann"), kept_name(None), len(kept_name("ö" * 201))
    ('ann', '', 200)
    """
    return (who or "").encode()[:_MOST_NAME].decode(errors="ignore")


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a slot holds."""

    sequence: int
    charges: int
    marked: bool
    head: Head
    who: str = ""

    def to_bytes(self) -> bytes:
        name = self.who.encode()
        body = _FORM.pack(
            _MAGIC, self.sequence, self.charges, self.marked, self.head.records, self.head.hash, len(name), name
        )
        return (body + hashlib.sha256(body).digest()).ljust(_SLOT, b"\0")

    @classmethod
    def read(cls, slot: bytes) -> _Kept | None:
        """What a slot holds; None where it is torn or was never written."""
        body, digest = slot[: _FORM.size], slot[_FORM.size : _FORM.size + 32]
        if len(slot) < _SLOT or hashlib.sha256(body).digest() != digest:
            return None
        magic, sequence, charges, marked, records, head_hash, letters, name = _FORM.unpack(body)
        who = name[:letters].decode(errors="ignore")
        return cls(sequence, charges, bool(marked), Head(records, head_hash), who) if magic == _MAGIC else None


class Guard:
    """The guard of one study. Only the process that has the study's lock writes it.

    Args:
        path: of the guard itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept = self._load()

    @staticmethod
    def path_of(study: Path) -> Path:
        """Beside the study and its key."""
        return study.with_name(study.name + ".spent")

    @classmethod
    def create(cls, study: Path, head: Head) -> Guard:
        """For a new study, with nothing charged. Its full size is written, so that later writes need no room."""
        path = cls.path_of(study)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                os.write(fd, b"\0" * _SLOT + _Kept(1, 0, False, head).to_bytes())
                os.fsync(fd)
            finally:
                os.close(fd)
            sync_folder(path.parent)
        except OSError as error:
            raise LedgerError(f"{path} could not be written ({error.strerror}). Expected a folder that can be.") from None
        return cls(path)

    @classmethod
    def open(cls, study: Path) -> Guard:
        """Of an existing study."""
        return cls(cls.path_of(study))

    def _load(self) -> _Kept:
        try:
            content = self.path.read_bytes()
        except OSError:
            content = b""
        readable = [kept for start in (0, _SLOT) if (kept := _Kept.read(content[start : start + _SLOT])) is not None]
        if not readable:
            raise LedgerError(
                f"{self.path} is missing or cannot be read. It says what a private study has spent; without it nothing may "
                "be asked. Restore it from a backup together with the study. Reading and auditing work without it."
            )
        return max(readable, key=lambda kept: kept.sequence)

    def reload(self) -> None:
        """Take over what another process wrote."""
        self._kept = self._load()

    @property
    def charges(self) -> int:
        """How often something was charged, as far as this file knows."""
        return self._kept.charges

    @property
    def marked(self) -> bool:
        """Whether a surprise was drawn whose record may be missing."""
        return self._kept.marked

    @property
    def marked_by(self) -> str | None:
        """Who asked when it was drawn; None where no name was given."""
        return self._kept.who or None

    @property
    def head(self) -> Head:
        """A head that the ledger had."""
        return self._kept.head

    def mark(self, who: str | None = None) -> None:
        """Note durably that a surprise was drawn, and by whom, before anything else is done with it."""
        self._write(replace(self._kept, marked=True, who=kept_name(who)), sync=True)

    def settle(self, charges: int, head: Head) -> None:
        """Note what is durable in the ledger. Charges are synced; a head alone may be lost, an older one is as good."""
        settled = _Kept(self._kept.sequence, charges, False, head)
        if settled != self._kept:
            self._write(settled, sync=charges != self._kept.charges or self._kept.marked)

    def _write(self, kept: _Kept, *, sync: bool) -> None:
        kept = replace(kept, sequence=self._kept.sequence + 1)
        try:
            fd = os.open(self.path, os.O_WRONLY)
            try:
                os.lseek(fd, _SLOT * (kept.sequence % 2), os.SEEK_SET)
                os.write(fd, kept.to_bytes())
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise LedgerError(
                f"{self.path} could not be written ({error.strerror}). No answer was returned. Fix the problem and reopen "
                "the study."
            ) from None
        self._kept = kept
