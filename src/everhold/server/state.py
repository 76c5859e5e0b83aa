"""Everything a server holds: studies and contests with their writers, tokens, rates, and the record of who asked what."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import IO, Any

from everhold.acts import AnyAct, Permission, questions_of
from everhold.clock import timestamp
from everhold.errors import EverholdError, SettingError, did_you_mean
from everhold.gate.audit import GateAudit
from everhold.ledger.audit import Audit
from everhold.ledger.reader import StudyFile
from everhold.queries.request import AskedBy
from everhold.report.certificate import AboutStudy, guarantee
from everhold.report.facts import budget_facts, study_facts
from everhold.server.caller import Caller
from everhold.server.config import Config, StudyAt
from everhold.server.contest_writer import ContestWriter
from everhold.server.errors import HTTPRefusal
from everhold.server.gate_writer import GateWriter
from everhold.server.job_queue import OwnThread, StartRunner
from everhold.server.limits import Slots, TokenBucket
from everhold.server.signins import SignIns
from everhold.server.study_writer import StudyWriter
from everhold.server.time_grid import TimeGrid
from everhold.server.tokens import Token, Tokens
from everhold.session.study import require_head
from everhold.session.study_audit import audit_study

__all__ = ["Served", "ServerState"]


Served = StudyWriter | ContestWriter | GateWriter
_GRID_MS, _REMOTE_GRID_MS = 50, 1_000  # a database takes from milliseconds to seconds for a question
_PRICES = ("disclosed", "claim_price", "width", "width_text")


class ServerState:
    """What a server holds, from its start to its stop.

    Args:
        config: its settings.
        say: is called with what happens while it starts.
        clock: seconds that only rise, for rates and for the grid.
        grid: when answers leave; by the configuration when left out.
        start: makes what runs the turns of each writer.
    """

    def __init__(
        self,
        config: Config,
        *,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        grid: TimeGrid | None = None,
        start: StartRunner = OwnThread,
    ) -> None:
        if not config.studies:
            raise SettingError("no study was named. Expected one: everhold serve study.everhold, or [[study]] in the file.")
        self.config = config
        self.tokens = Tokens(config.tokens)
        self.tokens.all()  # a file that cannot be read is reported now
        self.clock = clock
        self._given_grid, self._start = grid, start
        self.grid = self._grid(config.grid_ms, _GRID_MS)
        self.rate = TokenBucket(per_minute=config.requests_per_minute, burst=config.burst, clock=clock)
        anonymous = config.anonymous_per_minute
        self.slots = Slots(in_all=16, for_one=4)
        self.anonymous = TokenBucket(per_minute=anonymous, burst=max(1, anonymous // 2), clock=clock)
        self.signins = SignIns(
            self.tokens, hours=config.session_hours, secure=config.secure, public_url=config.public_url, clock=clock
        )
        self.served: dict[str, Served] = {}
        self._about: dict[str, AboutStudy] = {}
        self._log: IO[str] | None = None
        self._writing, self._auditing = Lock(), Lock()
        self._audits: dict[str, tuple[StudyFile, Audit]] = {}
        self.counts: Counter[tuple[str, str]] = Counter()  # of requests, by route and status
        try:
            for place in config.studies:
                say(f"Opening {place.path} …")
                self.served[place.path.stem] = served = self._opened(place)
                if isinstance(served, StudyWriter) and served.ended_at_opening is not None:
                    say(served.ended_at_opening)
                self._about[place.path.stem] = AboutStudy(
                    place.title, place.custodian, place.contact, description=place.description
                )
            if config.log is not None:
                self._log = config.log.open("a", encoding="utf-8", errors="replace")
        except BaseException:
            self.close()
            raise

    def _grid(self, step_ms: int | None, default: int) -> TimeGrid:
        """The grid of a study; a test's own stands for all."""
        if self._given_grid is not None:
            return self._given_grid
        return TimeGrid((default if step_ms is None else step_ms) / 1000.0, clock=self.clock)

    def _opened(self, place: StudyAt) -> Served:
        if place.expect_head is not None:
            require_head(place.path, place.expect_head)
        own = self.config.grid_ms if place.grid_ms is None else place.grid_ms
        if place.path.with_name(place.path.name + ".contest.json").exists():
            return ContestWriter(
                place.path, grid=self._grid(own, _GRID_MS), charges_each=place.charges_each, start=self._start
            )
        if place.path.with_name(place.path.name + ".gate.json").exists():
            return GateWriter(place.path, grid=self._grid(own, _GRID_MS), charges_each=place.charges_each, start=self._start)
        return StudyWriter(
            place.path,
            grid=lambda study: self._grid(own, _REMOTE_GRID_MS if study.binding == "table" else _GRID_MS),
            slots=self.slots,
            data=place.data,
            most_questions=self.config.most_questions,
            question_seconds=self.config.question_seconds,
            charges_each=place.charges_each,
            start=self._start,
        )

    # who and what --------------------------------------------------------------------------------------------------

    def admit(self, secret: str | None, address: str) -> Token:
        """The token that comes with a request, if it is one."""
        token = None if secret is None else self.tokens.find(secret)
        if token is None:
            self.anonymous.require(address)
            raise _unknown()
        return token

    def require_live(self, token: Token) -> Token:
        """The token, if it is still live: a body may have taken its time."""
        known = self.tokens.by_digest(token.digest)
        if known is None:
            raise _unknown()
        return known

    def caller(self, state: Any, token: Token, kind: str, request_id: str | None) -> Caller:
        """Who asks. Request ids are each token's own, and each kind of question's."""

        def permit(questions: int) -> None:
            self.require_live(token)
            self.rate.require(token.id, questions / 10.0)

        name = None if request_id is None else f"{token.id}:{kind}:{request_id}"
        return Caller(token.id, AskedBy(state.time, token.name, name), state.started, permit)

    def require_few(self, act: AnyAct) -> None:
        """Refuse an act with too many questions."""
        if (many := len(questions_of(act))) > self.config.most_questions:
            most = self.config.most_questions
            raise HTTPRefusal(413, "too_large", f"there are {many:,} questions; an act may have {most:,}.")

    def find(self, name: str, token: Token, permission: Permission) -> Served:
        """A study, contest or gate that the token allows to 'ask', 'read', 'audit' or 'manage'."""
        if not token.allows(permission, name):
            reach = ", ".join(token.studies) or "all studies"
            raise HTTPRefusal(
                403, "not_allowed", f"this token does not allow that: its scope is {token.scope}, for {reach}."
            )
        served = self.served.get(name)
        if served is None:
            raise HTTPRefusal(404, "no_such_study", "there is no study of that name here. GET /v1/studies lists them.")
        return served

    def study(self, name: str, token: Token, permission: Permission) -> StudyWriter:
        """A study that can be asked."""
        served = self.find(name, token, permission)
        if isinstance(served, GateWriter):
            raise HTTPRefusal(409, "a_gate", f"{name} is a gate: it takes outcomes, at POST /v1/gates/{name}/checks.")
        if not isinstance(served, StudyWriter):
            raise HTTPRefusal(
                409,
                "a_contest",
                f"{name} is a contest: it takes submissions, not questions. Expected POST /v1/contests/{name}/submissions; "
                f"its board is at GET /v1/contests/{name}/board.",
            )
        return served

    def contest(self, name: str, token: Token, permission: Permission) -> ContestWriter:
        """A contest."""
        served = self.find(name, token, permission)
        if not isinstance(served, ContestWriter):
            raise HTTPRefusal(
                409,
                "no_contest",
                f"{name} is a study: it takes questions, and has no board. Expected POST /v1/studies/{name}/ask; its status "
                f"is at GET /v1/studies/{name}/status.",
            )
        return served

    def gate(self, name: str, token: Token, permission: Permission) -> GateWriter:
        """A gate."""
        served = self.find(name, token, permission)
        if not isinstance(served, GateWriter):
            raise HTTPRefusal(409, "no_gate", f"{name} is not a gate. GET /v1/studies says what there is.")
        return served

    def readable_by(self, token: Token) -> list[Served]:
        """All that a token may read."""
        return [served for name, served in self.served.items() if token.allows("read", name)]

    # what is shown --------------------------------------------------------------------------------------------------

    @staticmethod
    def sees_all(served: Served, token: Token) -> bool:
        """Whether a token may see what each submission did: with a ladder that is for auditors."""
        if not isinstance(served, ContestWriter):
            return True
        return not served.contest.rules.ladder or token.allows("audit", served.name)

    def about(self, served: Served) -> AboutStudy:
        """What the custodian says of a study: its title, what it is about, who holds the rows, how to reach them."""
        about = self._about.get(served.name, AboutStudy())
        if not about.title and isinstance(served, ContestWriter):
            return replace(about, title=served.contest.rules.title)
        return about

    def status(self, served: Served, token: Token) -> dict[str, Any]:
        """Where a study stands: public facts, coins and the record."""
        at, first = served.progress, served.first_record
        facts = {
            "name": served.name,
            "kind": served.kind,
            **study_facts(first, rounds=at.rounds, surprises=at.surprises, price=at.price, head=at.head),
            **budget_facts(at.budget, first.rows, acts=at.acts, closed=at.closed),
            "half_width": first.settings["half_width"],
            "budget": served.price_limit if isinstance(served, StudyWriter) else None,
            "guarantee": guarantee(first),
            **{name: getattr(self.about(served), name) for name in ("title", "description", "custodian", "contact")},
        }
        if not self.sees_all(served, token):
            facts |= dict.fromkeys(("surprises", "price", "sampling_half_width", "head", *_PRICES))
        return facts

    def audited(self, served: Served) -> tuple[StudyFile, Audit]:
        """The study as it stands, and the result of replaying it; one replay at a time, kept until the study has grown."""
        with self._auditing:
            file = served.file()
            if (kept := self._audits.get(served.name)) is not None and kept[0].head == file.head:
                return kept
            audit = audit_study(served.path, expect_head=str(file.head), records=file.head.records)
            if isinstance(served, GateWriter):
                audit = GateAudit.of(audit, served.gate.rules, file.acts)
            self._audits[served.name] = (file, audit)
            return file, audit

    def record_for(self, name: str, token: Token) -> Served:
        """The record of a study is for its readers; that of a contest, which holds submissions, for auditors."""
        served = self.find(name, token, "read")
        return self.find(name, token, "audit") if isinstance(served, ContestWriter) else served

    # tokens --------------------------------------------------------------------------------------------------------

    def tokens_of(self, custodian: Token) -> list[Token]:
        """The tokens that a custodian may see: all, or those for none but the custodian's studies."""
        self._require_custodian(custodian)
        return [token for token in self.tokens.all() if _within(token.studies, custodian.studies)]

    def make_token(
        self, custodian: Token, name: str, scope: str, *, studies: Sequence[str], days: float | None
    ) -> tuple[str, Token]:
        """A new token, which reaches no further than its maker's."""
        self._require_custodian(custodian)
        for study in studies:
            if study not in self.served or not _within((study,), custodian.studies):
                served = [one for one in self.served if _within((one,), custodian.studies)]
                raise SettingError(f"there is no study {study[:80]!r} here for this token.{did_you_mean(study, served)}")
        if not _within(tuple(studies), custodian.studies):
            raise SettingError(f"name the studies it is for: {', '.join(custodian.studies)}.")
        return self.tokens.create(name, scope, studies=studies, days=days)

    def revoke_token(self, custodian: Token, which: str) -> Token:
        """Stop a token that a custodian may see."""
        if which not in {token.id for token in self.tokens_of(custodian)}:
            raise HTTPRefusal(404, "no_such_token", "there is no token of that id. GET /v1/tokens lists them.")
        return self.tokens.revoke(which)

    @staticmethod
    def _require_custodian(token: Token) -> None:
        if not token.allows("manage"):
            raise HTTPRefusal(403, "not_allowed", f"only custodians manage tokens, and this is an {token.scope}'s token.")

    @property
    def healthy(self) -> bool:
        """Whether every study can be asked."""
        try:
            self.tokens.all()
        except EverholdError:
            return False
        return not any(served.broken or served.stalled for served in self.served.values())

    # the record of requests ----------------------------------------------------------------------------------------

    def note(self, **facts: Any) -> None:
        """A line: who asked what, and what became of it. No answer, no duration."""
        line = json.dumps({"time": timestamp(), **facts})
        with self._writing:
            out = self._log or sys.stderr
            with suppress(OSError, ValueError):
                out.write(line + "\n")
                out.flush()

    def close(self) -> None:
        """Answer what waits, and give up the studies."""
        for served in self.served.values():
            with suppress(EverholdError):
                served.close()
        if self._log is not None:
            self._log.close()


def _unknown() -> HTTPRefusal:
    return HTTPRefusal(
        401,
        "unknown_token",
        "Missing, expired or revoked token. Send a token as 'Authorization: Bearer evh_…'; the custodian of the data makes "
        "tokens.",
        headers={"WWW-Authenticate": 'Bearer realm="everhold"'},
    )


def _within(studies: tuple[str, ...], limits: tuple[str, ...]) -> bool:
    """Whether a token for these studies (none: all) reaches no further than those."""
    return not limits or (bool(studies) and set(studies) <= set(limits))
