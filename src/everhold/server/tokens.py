"""Tokens: who may do what with which studies.

A token is 256 random bits with a prefix that tells people and scanners what it is. It is shown once; the file keeps its
SHA-256 alone. (Slow password hashes protect secrets that people choose; nobody guesses 256 bits.) A change of the file is
seen at the next look: a revoked token stops at once.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from everhold.acts import Permission
from everhold.clock import utc_now
from everhold.errors import LedgerError, SettingError
from everhold.ledger.safe_files import exclusive, read_json, to_json, write_atomic

__all__ = ["PREFIX", "Scope", "Token", "Tokens"]

Scope = Literal["custodian", "analyst", "auditor"]
"""custodian: everything; analyst: ask, try, read; auditor: read and audit, never ask."""

PREFIX = "evh_"
_ALLOWED: dict[Permission, frozenset[Scope]] = {
    "ask": frozenset(("custodian", "analyst")),
    "read": frozenset(("custodian", "analyst", "auditor")),
    "audit": frozenset(("custodian", "auditor")),
    "manage": frozenset(("custodian",)),
}


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token.

    Attributes:
        id: a short public name for it, to revoke it by.
        name: whom it is for.
        scope: what it allows.
        studies: the studies it is limited to, by name; empty: all.
        created, expires, revoked: times in UTC; None: never.
        digest: SHA-256 of the secret.
    """

    id: str
    name: str
    scope: Scope
    studies: tuple[str, ...]
    created: str
    expires: str | None
    revoked: str | None
    digest: str

    def live(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < datetime.fromisoformat(self.expires))

    def allows(self, permission: Permission, study: str | None = None) -> bool:
        """Whether it allows to 'ask', 'read', 'audit' or 'manage', of a study or in general."""
        return self.scope in _ALLOWED[permission] and (study is None or not self.studies or study in self.studies)

    @property
    def state(self) -> str:
        """In a word."""
        if self.revoked is not None:
            return "revoked"
        return "live" if self.live(utc_now()) else "expired"

    def shown(self) -> dict[str, Any]:
        """The public fields: everything but the digest."""
        public = {name: value for name, value in asdict(self).items() if name != "digest"}
        return {**public, "studies": list(self.studies), "state": self.state}


class Tokens:
    """A file of tokens, for the owner alone.

    >>> import tempfile
    >>> tokens = Tokens(Path(tempfile.mkdtemp()) / "tokens.json")
    >>> secret, token = tokens.create("ann", "analyst", studies=["patients"], days=30)
    >>> tokens.find(secret).name, tokens.find(secret).allows("ask", "patients"), tokens.find(secret).allows("manage")
    ('ann', True, False)
    >>> _ = tokens.revoke(token.id)
    >>> tokens.find(secret) is None
    True
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.path = Path(path)
        self._clock = clock
        self._kept: tuple[tuple[int, int, int] | None, tuple[Token, ...]] = (None, ())

    def all(self) -> tuple[Token, ...]:
        """All tokens, revoked and expired ones too, as the file has them now."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be read ({error.strerror}).") from None
        mark = (status.st_mtime_ns, status.st_ino, status.st_size)
        seen, tokens = self._kept
        if mark != seen:
            tokens = self._load()
            self._kept = (mark, tokens)
        return tokens

    def find(self, secret: str) -> Token | None:
        """The live token that this is the secret of. Takes as long for a wrong one as for a right one."""
        return self.by_digest(hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest())

    def by_digest(self, digest: str) -> Token | None:
        """The live token with this digest."""
        now, known = self._clock(), None
        for token in self.all():
            if hmac.compare_digest(token.digest, digest):
                known = token
        return known if known is not None and known.live(now) else None

    def create(self, name: str, scope: str, *, studies: Sequence[str] = (), days: float | None = None) -> tuple[str, Token]:
        """A new token: its secret, which is shown this once, and what is kept of it."""
        if scope not in get_args(Scope):
            raise SettingError(f"the scope is one of {', '.join(get_args(Scope))}, not {scope!r}.")
        if not isinstance(name, str) or not 0 < len(name) <= 100 or not name.isprintable():
            raise SettingError("a token is for somebody: a name of up to 100 printable letters.")
        if days is not None and not 0.0 < days <= 36_500.0:
            raise SettingError(f"a token lasts up to 36,500 days, not {days!r}.")
        if several := [study for study in studies if "," in study]:
            raise SettingError(f"{several[0]!r} is not the name of one study. Name each by itself: --study a --study b.")
        now = self._clock()
        secret = PREFIX + secrets.token_urlsafe(32)
        token = Token(
            id=secrets.token_hex(4),
            name=name,
            scope=scope,  # type: ignore[arg-type]
            studies=tuple(studies),
            created=now.isoformat(timespec="seconds"),
            expires=None if days is None else (now + timedelta(days=days)).isoformat(timespec="seconds"),
            revoked=None,
            digest=hashlib.sha256(secret.encode()).hexdigest(),
        )
        with self._changing() as tokens:
            tokens.append(token)
        return secret, token

    def revoke(self, which: str) -> Token:
        """Stop a token, by its id."""
        with self._changing() as tokens:
            for index, token in enumerate(tokens):
                if token.id == which:
                    tokens[index] = replace(token, revoked=self._clock().isoformat(timespec="seconds"))
                    return tokens[index]
        raise SettingError(f"there is no token {which!r}. List them to see their ids.")

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens, to be changed; written whole or not at all, by one at a time."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(self.path.with_name(self.path.name + ".lock")):
                tokens = list(self.all())
                yield tokens
                kept = to_json({"tokens": [asdict(token) for token in tokens]}, indent=1)
                write_atomic(self.path, kept, private=True)
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be written ({error.strerror}).") from None

    def _load(self) -> tuple[Token, ...]:
        try:
            kept = read_json(self.path)["tokens"]
            tokens = tuple(Token(**{**entry, "studies": tuple(entry["studies"])}) for entry in kept)
            for token in tokens:
                token.live(self._clock())  # its times can be read
            return tokens
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LedgerError(f"{self.path} cannot be read as a file of tokens ({error}).") from None

    def __repr__(self) -> str:
        return f"Tokens({sum(token.state == 'live' for token in self.all())} live)"
