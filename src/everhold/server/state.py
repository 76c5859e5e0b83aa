"""Everything a server holds: studies at their desks, contests, tokens, rates, and the record of who asked what."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from math import sqrt
from threading import Lock
from typing import IO, Any

from everhold.errors import EverholdError, SettingError, did_you_mean
from everhold.ledger.audit import Audit
from everhold.ledger.reader import StudyFile
from everhold.queries.query import Query
from everhold.report.certificate import guarantee
from everhold.server.config import Config, StudyAt
from everhold.server.contest_writer import ContestWriter
from everhold.server.errors import HTTPRefusal
from everhold.server.limits import Slots, TokenBucket
from everhold.server.tokens import Token, Tokens
from everhold.server.writer import Caller, StudyWriter
from everhold.session.holdout import Holdout

__all__ = ["Served", "ServerState"]


Served = StudyWriter | ContestWriter
_AT_ONCE = 2_000  # characters of questions that are parsed without a thread


class ServerState:
    """What a server holds, from its start to its stop."""

    def __init__(self, config: Config, *, say: Callable[[str], None] = lambda _: None) -> None:
        if not config.studies:
            raise SettingError(
                "no study was named. Expected one: everhold serve study.everhold, or [[study]] in the file."
            )
        self.config = config
        self.tokens = Tokens(config.tokens)
        self.tokens.all()  # a file that cannot be read is told now
        self.rate = TokenBucket(per_minute=config.requests_per_minute, burst=config.burst)
        strangers = config.anonymous_per_minute
        self.turns = Slots(in_all=16, for_one=4)
        self.strangers = TokenBucket(per_minute=strangers, burst=max(1, strangers // 2))
        self.doors: dict[str, Served] = {}
        self._log: IO[str] | None = None
        self._writing, self._auditing = Lock(), Lock()
        self._audits: dict[str, tuple[StudyFile, Audit]] = {}
        self.counts: dict[tuple[str, str], int] = {}
        try:
            for one in config.studies:
                say(f"Opening {one.path} …")
                self.doors[one.path.stem] = _door(one, config)
            if config.log is not None:
                self._log = config.log.open("a", encoding="utf-8", errors="replace")
        except BaseException:
            self.close()
            raise

    # who and what --------------------------------------------------------------------------------------------------

    def admit(self, secret: str | None, address: str) -> Token:
        """The token that comes with a request, if it is one."""
        token = None if secret is None else self.tokens.find(secret)
        if token is None:
            self.strangers.require(address)
            raise _unknown()
        return token

    def still(self, token: Token) -> Token:
        """The token, if it is still live: a body may have taken its time."""
        found = self.tokens.by_digest(token.digest)
        if found is None:
            raise _unknown()
        return found

    def caller(self, state: Any, token: Token, kind: str, request_id: str | None) -> Caller:
        """Who asks. Request ids are each token's own, and each kind of question's."""

        def permit(questions: int) -> None:
            self.still(token)
            self.rate.require(token.id, questions / 10.0)

        name = None if request_id is None else f"{token.id}:{kind}:{request_id}"
        return Caller(token.name, name, state.time, state.started, permit)

    async def ready(self, desk: StudyWriter, token: Token, questions: Sequence[str]) -> list[Query]:
        """Questions parsed, and large ones evaluated on the public rows, outside the writer's thread.

        What is small altogether is done at once; anything else in a thread, so that the event loop goes on.
        """
        if sum(len(question) for question in questions) > _AT_ONCE:
            return await self.turns.run(token.id, lambda: desk.prepared([desk.parsed(one) for one in questions]))
        parsed = [desk.parsed(question) for question in questions]
        if desk.is_light(parsed):
            return parsed
        return await self.turns.run(token.id, lambda: desk.prepared(parsed))

    def door(self, name: str, token: Token, what: str) -> Served:
        """A study or contest that the token allows to 'ask', 'read', 'audit' or 'manage'."""
        if not token.allows(what, name):
            reach = ", ".join(token.studies) or "all studies"
            raise HTTPRefusal(
                403, "not_allowed", f"this token does not allow that: its scope is {token.scope}, for {reach}."
            )
        found = self.doors.get(name)
        if found is None:
            raise HTTPRefusal(404, "no_such_study", "there is no study of that name here. GET /v1/studies lists them.")
        return found

    def study(self, name: str, token: Token, what: str) -> StudyWriter:
        """A study that can be asked."""
        found = self.door(name, token, what)
        if not isinstance(found, StudyWriter):
            raise HTTPRefusal(
                409, "a_contest", "this is a contest: it takes submissions and shows a board, not questions."
            )
        return found

    def contest(self, name: str, token: Token, what: str) -> ContestWriter:
        """A contest."""
        found = self.door(name, token, what)
        if not isinstance(found, ContestWriter):
            raise HTTPRefusal(409, "no_contest", "this is a study: it takes questions, and has no board.")
        return found

    def seen_by(self, token: Token) -> list[Served]:
        """All that a token may read."""
        return [door for name, door in self.doors.items() if token.allows("read", name)]

    # what is told --------------------------------------------------------------------------------------------------

    @staticmethod
    def sees_all(door: Served, token: Token) -> bool:
        """Whether a token may see what each submission did: with a ladder that is for auditors."""
        return isinstance(door, StudyWriter) or not door.contest.rules.ladder or token.allows("audit", door.name)

    @classmethod
    def status(cls, door: Served, token: Token) -> dict[str, Any]:
        """Where a study stands: public facts, coins and the record."""
        standing = door.standing
        hidden = (
            {} if cls.sees_all(door, token) else dict.fromkeys(("surprises", "spent", "sampling_half_width", "head"))
        )
        study = door.study
        return {
            "name": door.name,
            "kind": "study" if isinstance(door, StudyWriter) else "contest",
            "questions": standing.rounds,
            "surprises": standing.surprises,
            "rows": study.rows,
            "unit": study.unit,
            "confidence": float(study.settings["confidence"]),
            "half_width": study.settings["half_width"],
            "spent": standing.spent,
            "lasts": door.lasts if isinstance(door, StudyWriter) else None,
            "sampling_half_width": sqrt(standing.spent / (2.0 * study.rows)),
            "prior": study.prior,
            "created": study.created,
            "head": standing.head,
            "guarantee": guarantee(study),
            **hidden,
        }

    def audited(self, door: Served) -> tuple[StudyFile, Audit]:
        """The study as it stands, and what a replay of it found; one replay at a time, kept until the study has grown."""
        with self._auditing:
            file = door.file()
            if (kept := self._audits.get(door.name)) is not None and kept[0].head == file.head:
                return kept
            found = Holdout.audit_file(door.path, expect_head=str(file.head))
            if found.ok and found.rounds > len(file.told):  # it has grown meanwhile; what is shown was replayed
                found = replace(found, rounds=len(file.told), surprises=file.surprises)
            self._audits[door.name] = (file, found)
            return file, found

    # tokens --------------------------------------------------------------------------------------------------------

    def tokens_of(self, custodian: Token) -> list[Token]:
        """The tokens that a custodian may see: all, or those for none but the custodian's studies."""
        self._require_custodian(custodian)
        return [one for one in self.tokens.all() if _within(one.studies, custodian.studies)]

    def make_token(
        self, custodian: Token, name: str, scope: str, *, studies: Sequence[str], days: float | None
    ) -> tuple[str, Token]:
        """A new token, which reaches no further than its maker's."""
        self._require_custodian(custodian)
        for study in studies:
            if study not in self.doors or not _within((study,), custodian.studies):
                known = [one for one in self.doors if _within((one,), custodian.studies)]
                raise SettingError(f"there is no study {study[:80]!r} here for this token.{did_you_mean(study, known)}")
        if not _within(tuple(studies), custodian.studies):
            raise SettingError(f"name the studies it is for: {', '.join(custodian.studies)}.")
        return self.tokens.create(name, scope, studies=studies, days=days)

    def revoke_token(self, custodian: Token, which: str) -> Token:
        """Stop a token that a custodian may see."""
        if which not in {one.id for one in self.tokens_of(custodian)}:
            raise HTTPRefusal(404, "no_such_token", "there is no token of that id. GET /v1/tokens lists them.")
        return self.tokens.revoke(which)

    @staticmethod
    def _require_custodian(token: Token) -> None:
        if not token.allows("manage"):
            raise HTTPRefusal(
                403, "not_allowed", f"tokens are a custodian's to manage, and this is an {token.scope}'s."
            )

    @property
    def sound(self) -> bool:
        """Whether every study can be asked."""
        try:
            self.tokens.all()
        except EverholdError:
            return False
        return not any(door.broken or door.stalled for door in self.doors.values())

    # the record of requests ----------------------------------------------------------------------------------------

    def note(self, **facts: Any) -> None:
        """A line: who asked what, and what became of it. No answer, no duration."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts})
        with self._writing:
            out = self._log or sys.stderr
            with suppress(OSError, ValueError):
                out.write(line + "\n")
                out.flush()

    def close(self) -> None:
        """Answer what waits, and give up the studies."""
        for door in self.doors.values():
            with suppress(EverholdError):
                door.close()
        if self._log is not None:
            self._log.close()


def _unknown() -> HTTPRefusal:
    return HTTPRefusal(
        401,
        "unknown_token",
        "a token is needed, and this is none that is live. Send it as 'Authorization: Bearer evh_…'; the custodian of the "
        "data makes tokens.",
        headers={"WWW-Authenticate": 'Bearer realm="everhold"'},
    )


def _within(studies: tuple[str, ...], limits: tuple[str, ...]) -> bool:
    """Whether a token for these studies (none: all) reaches no further than those."""
    return not limits or (bool(studies) and set(studies) <= set(limits))


def _door(one: StudyAt, config: Config) -> Served:
    if one.path.with_name(one.path.name + ".contest.json").exists():
        return ContestWriter(one.path, grid=config.grid_ms / 1000.0)
    return StudyWriter(
        one.path,
        data=one.data,
        grid=config.grid_ms / 1000.0,
        most_questions=config.most_questions,
        question_seconds=config.question_seconds,
    )
