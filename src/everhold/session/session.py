"""One adaptive session: questions in, recorded answers out, one turn at a time.

A session knows private rows, a mechanism and a journal. It does not know where the rows come from, which prior the
mechanism was built on, or whether the journal is a file.
"""

from __future__ import annotations

import os
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Literal
from weakref import ref

from everhold.errors import EverholdError, LedgerError, PrecisionExhausted, QuestionError, RequestConflict
from everhold.ledger.audit import Audit, audit
from everhold.ledger.codec import (
    AskedBy,
    BegunEntry,
    DoneEntry,
    FindingEntry,
    Repeat,
    question_from_dict,
    question_to_dict,
    read_entry,
)
from everhold.ledger.journal import Journal
from everhold.ledger.replay import Analyst, replay
from everhold.ledger.rounds import Begun, Done, Performed, RecordedFinding, Round, to_record
from everhold.ledger.walk import charged, propose, returned, walk
from everhold.queries.act import ASK, Act
from everhold.queries.expression import BoundedMean, Expression, expression
from everhold.queries.expression.groups import GROUPED, QuantileOf
from everhold.queries.expression.program import Batch, Columns, TooSlow
from everhold.queries.expression.question import Evaluated, itself, size_of_query
from everhold.queries.protocol import NOTHING, ActingMechanism, P
from everhold.queries.query import as_query
from everhold.session.names import (
    identity,
    require_batch,
    require_expect,
    require_name,
    require_round,
    require_same,
    require_text,
)
from everhold.statistics import is_statistic

if TYPE_CHECKING:
    from everhold.data.sample import Sample
    from everhold.data.table import Table
    from everhold.ledger.codec import AnyEntry
    from everhold.queries.answer import Answer, Preview
    from everhold.queries.expression.parser import Words
    from everhold.queries.expression.tree import Kind
    from everhold.queries.grid import Scale, Sums
    from everhold.queries.protocol import Mechanism, Outcome
    from everhold.queries.query import Query
    from everhold.queries.request import Request

__all__ = ["Session", "now"]

Known = dict[str | None, "Sums"]
"""Private sums by the name of their question."""

_AT_ONCE = 1024  # questions of a batch that are scanned for together
_LIGHT = 5_000_000  # parts times public rows: what takes less is not worth preparing


def now() -> str:
    """The moment for a record."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, eq=False)
class _Decided(Generic[P]):
    """A round whose cell is known and which is not yet recorded."""

    query: Query
    proposal: P
    cell: Outcome
    identity: str | None
    answer: Answer
    at: AskedBy
    act: Act
    learnt: int


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One reading of a batch that is under way."""

    query: Query
    act: Act
    at: AskedBy


def _linear(query: Query) -> Sequence[Query]:
    """The linear questions that a text question is made of, where they are fixed by the question."""
    if isinstance(query, QuantileOf):
        return ()
    return query.parts if isinstance(query, GROUPED) else (query,)


class _Turn:
    """A question that is being answered."""

    __slots__ = ("__weakref__",)


class Session(Generic[P]):
    """Private rows that answer any number of adaptive questions, by any mechanism.

    Args:
        sample: the private rows.
        build: makes the mechanism in its first state, each time the same.
        kinds: names and kinds of the columns that questions given as text may use; the sample's own when left out.
        words: the declared categories of text columns, so that misspelled ones are found.
        public_rows: fixed public rows that the mechanism works on, so that batches of text are evaluated in one scan.
        journal: where rounds are recorded; in memory when left out.

    Attributes:
        sample: the private rows.
        mechanism: as it stands now.
        who: a name that is recorded with the following questions, unless they carry one of their own.
        when: the time that is recorded with the following acts; the moment itself where it is None.
    """

    def __init__(
        self,
        sample: Sample,
        build: Callable[[], Mechanism[P]],
        *,
        kinds: Mapping[str, Kind] | None = None,
        words: Mapping[str, Words] | None = None,
        public_rows: Table | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.sample = sample
        self.first_state = build
        self.mechanism: Mechanism[P] = build()
        self.public_rows = public_rows
        self.who: str | None = None
        self.when: str | None = None
        self._kinds = dict(sample.kinds if kinds is None else kinds)
        self._words = dict(words or {})
        self._journal = Journal() if journal is None else journal
        self._lock = RLock()
        self._process = os.getpid()
        self._asking: Callable[[], _Turn | None] = lambda: None
        self._decided: _Decided[P] | None = None
        self._reading: list[_Part] = []

    # where it stands -----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """n, the number of private rows. Public."""
        return self.sample.size

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""
        self._require_sound()
        return self.mechanism.rounds

    @property
    def surprises(self) -> int:
        """How many of them surprised."""
        self._require_sound()
        return self.mechanism.surprises

    @property
    def spent(self) -> float:
        """The price so far in nats: the next answer's interval will be computed with it."""
        self._require_sound()
        return self.mechanism.spent

    @property
    def journal(self) -> Journal:
        """The record of all rounds."""
        self._require_sound()
        return self._journal

    @property
    def transcript(self) -> dict[int, tuple[Outcome, tuple[int, ...] | None]]:
        """Z: what every round disclosed, and its fit. With the coins and the questions it replays a session of asks."""
        self._require_sound()
        return self._journal.transcript()

    @property
    def broken(self) -> bool:
        """Whether a record could not be written, so that nothing more is returned until the study is opened again."""
        return self._journal.store is not None and self._journal.store.broken

    @property
    def usable(self) -> bool:
        """Whether it can be asked: in the process that opened it, neither broken nor closed."""
        store = self._journal.store
        return os.getpid() == self._process and (store is None or not (store.broken or store.closed))

    def _require_sound(self) -> None:
        """A round that was decided and not recorded must not show, not even as a number."""
        if self.broken:
            self._journal.require_open()

    # questions -----------------------------------------------------------------------------------------------------

    def query(self, question: object, name: str | None = None) -> Query:
        """A question, checked against the public columns where it is text. Reads no row; any thread may call it."""
        if isinstance(question, str):
            if name is not None:
                raise QuestionError("a question given as text is known by its text, and takes no other name.")
            return expression(question, self._kinds, self._words)
        if is_statistic(question) or (isinstance(question, type) and hasattr(question, "steps")):
            raise QuestionError(
                'a statistic is asked by itself: holdout.ask(eh.Mean("age")). Here only single questions fit.'
            )
        if isinstance(question, GROUPED):
            return question
        query = as_query(question, name=name)
        require_name(query)
        self.sample.check(query)
        return query

    def ask(
        self,
        question: object,
        *,
        name: str | None = None,
        request_id: str | None = None,
        who: str | None = None,
        expect: float | None = None,
    ) -> Answer:
        """Answer one question: text, a callable over columns, or `eh.Values`. `Holdout.ask` says more."""
        query = self.query(question, name)
        time = self.when or now()
        at = AskedBy(time, require_text(who or self.who, "who"), require_text(request_id, "request_id"))
        act = ASK if expect is None else Act(expect=require_expect(expect))
        with self._turn():
            found = self._answers([(query, at)], act=act)[0]
            if isinstance(found, EverholdError):
                raise found
            self._journal.flush()
            return found

    def ask_many(
        self,
        questions: Iterable[object],
        *,
        request_id: str | None = None,
        who: str | None = None,
        time: str | None = None,
        first: int = 1,
    ) -> list[Answer]:
        """Answer several questions in order. `Holdout.ask_many` says more."""
        who = require_text(who or self.who, "who")
        require_text(request_id, "request_id")
        if callable(questions) or not isinstance(questions, Iterable) or isinstance(questions, str):
            raise QuestionError("ask_many takes a list of questions; for a single one there is ask.")
        queries = [self.query(question) for question in questions]
        requests = [None if request_id is None else f"{request_id}/{first + place}" for place in range(len(queries))]
        with self._turn():
            queries = [self._checked(query) for query in queries]
            require_batch(self.mechanism, self._journal, queries, requests)
            asked = [(query, AskedBy(time or now(), who, one)) for query, one in zip(queries, requests, strict=True)]
            found = self._answers(asked, stop=True)
            self._journal.flush()
            answers = [one for one in found if not isinstance(one, EverholdError)]
            if found and isinstance(refusal := found[-1], EverholdError):
                if isinstance(refusal, PrecisionExhausted):
                    refusal.answers = list(answers)
                raise refusal
        return answers

    def _checked(self, query: Query) -> Query:
        """A question of a batch, evaluated once on the public rows; given values are checked on both sides."""
        if query.text or self._journal.named(query.name) is not None:
            return query
        query = self.mechanism.prepare(query)
        if self.mechanism.fresh or not query.repeatable:
            proposal = self.mechanism.propose(query)
            if not query.repeatable:
                self.sample.sums(query, proposal.reading.scale)
        return query

    def ask_each(self, requests: Sequence[Request]) -> list[Answer | EverholdError]:
        """Answer questions of several people in one turn: one scan, one record, each as if it were asked alone.

        An error of one stands in its place, and the others are answered all the same. Only a record that cannot be written
        is raised: then nobody gets an answer.
        """
        asked = [self._requested(request) for request in requests]
        with self._turn():
            answers = self._answers([one for one in asked if not isinstance(one, EverholdError)])
            self._journal.flush()
        following = iter(answers)
        return [one if isinstance(one, EverholdError) else next(following) for one in asked]

    def _requested(self, request: Request) -> tuple[Query, AskedBy] | EverholdError:
        try:
            who, request_id = require_text(request.who, "who"), require_text(request.request_id, "request_id")
            return self.query(request.question), AskedBy(request.time or now(), who, request_id)
        except QuestionError as error:
            return error

    def _answers(
        self, asked: Sequence[tuple[Query, AskedBy]], *, stop: bool = False, act: Act = ASK
    ) -> list[Answer | EverholdError]:
        """Answers in order, for a turn, without flushing; a refusal stands in its place, and may be the last."""
        found: list[Answer | EverholdError] = []
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            evaluated, sums = self._scan([query for query, _ in some])
            for query, at in some:
                name = query.name if query.text else None
                try:
                    found.append(self._answer(evaluated.get(name, query), at, sums, act))
                except (QuestionError, RequestConflict, PrecisionExhausted) as refusal:
                    if self._decided is not None:  # the private sum was seen: this cannot be reported as a refusal
                        raise
                    found.append(refusal)
                    if stop:
                        return found
        return found

    def _scan(self, queries: Sequence[Query]) -> tuple[dict[str | None, Query], Known]:
        """The batch's text questions that are new, evaluated on both sides at once; by name."""
        new = {query.name: query for query in queries if query.text and self._journal.named(query.name) is None}
        linear = {part.name: part for query in new.values() for part in _linear(query)}
        if len(linear) < 2 or getattr(self.mechanism, "closed", False):
            return {}, {}
        sums: Known = dict(zip(linear, self.sample.sums_of(list(linear.values())), strict=True))
        ready: dict[str | None, Query] = {name: query for name, query in new.items() if isinstance(query, Evaluated)}
        texts = [query for query in new.values() if isinstance(query, Expression | BoundedMean)]
        if self.public_rows is not None and texts:
            ready |= {query.name: query for query in self._evaluated(texts, None)}
        return ready, sums

    def sums(self, needs: Sequence[Query], scale: Scale, part: Any = None, known: Known | None = None) -> list[Sums]:
        """The private sums of linear questions: texts in one scan, where they are not known yet."""
        known = {} if known is None or part is not None else known
        if part is not None or not all(need.text for need in needs):
            return [self.sample.sums(need, scale, part) for need in needs]
        missing = [need for need in needs if need.name not in known]
        if len(missing) < 2:
            return [known[need.name] if need.name in known else self.sample.sums(need, scale, part) for need in needs]
        found = dict(zip((need.name for need in missing), self.sample.sums_of(missing), strict=True))
        return [known[need.name] if need.name in known else found[need.name] for need in needs]

    def _evaluated(self, texts: Sequence[Expression | BoundedMean], until: float | None) -> list[Evaluated]:
        """Text questions on the fixed public rows, in one scan."""
        rows = self.public_rows
        if rows is None:
            raise QuestionError("there are no fixed public rows.")
        values = Batch(texts, Columns(rows)).values(rows.row_count, until=until)
        return [
            Evaluated.from_scan(query, found, rows.row_count, rows.units)
            for query, found in zip(texts, values, strict=True)
        ]

    def prepared(self, queries: Sequence[Query], *, seconds: float) -> list[Query]:
        """Text questions with their values on the public rows, so that asking them is quick. Any thread may call it.

        Small questions are returned as they are. No private row is read.

        Raises:
            QuestionError: it takes longer than so many seconds.
        """
        if self.is_light(queries):
            return list(queries)
        return [self._prepared(query, seconds) for query in queries]

    def _prepared(self, query: Query, seconds: float) -> Query:
        if not isinstance(query, Expression | BoundedMean) or self.public_rows is None:
            return query
        try:
            return self._evaluated([query], clock.monotonic() + seconds)[0]
        except TooSlow:
            raise QuestionError(
                f"the question takes longer than {seconds:g} s on the public rows. Expected a smaller one."
            ) from None

    def is_light(self, queries: Sequence[Query]) -> bool:
        """Whether questions are so small together that they need not be prepared: by sizes and the number of public rows."""
        rows = 0 if self.public_rows is None else self.public_rows.row_count
        return sum(size_of_query(query) for query in queries if not isinstance(query, Evaluated)) * rows <= _LIGHT

    # one turn ------------------------------------------------------------------------------------------------------

    def _answer(self, query: Query, at: AskedBy, known: Known, act: Act = ASK) -> Answer:
        """Answer one query without flushing. `known`: private sums that a scan of the batch already computed."""
        mechanism = self.mechanism
        if (earlier := self._journal.requested(at.request)) is not None:
            require_round(mechanism, query, earlier, at.request)
            return earlier.answer
        earlier = self._journal.named(query.name) if act.kind == "ask" else self._journal.read_as(query.name)
        if earlier is not None:
            require_same(mechanism, query, earlier)
            self._journal.repeat(earlier.number, at)
            return earlier.answer
        proposal = propose(mechanism, query, act)
        return self._decide(query, proposal, at, act, known)

    def _decide(self, query: Query, proposal: P, at: AskedBy, act: Act, known: Known) -> Answer:
        """Read the private sums that a proposal needs, and end the round."""
        mechanism = self.mechanism
        named = identity(mechanism, query, proposal)
        sums = self.sums(mechanism.needs(proposal), proposal.reading.scale, mechanism.part(proposal), known)
        cell = mechanism.decide(proposal, sums)
        # From here on the round is charged, whatever happens: an interrupted one is ended before the next.
        answer = mechanism.answer(proposal, cell)
        answer = answer.as_share() if query.yes_no else answer
        self._decided = _Decided(query, proposal, cell, named, answer, at, act, len(mechanism.fit))
        return self._settle(self._decided)

    def _settle(self, decided: _Decided[P]) -> Answer:
        """End the decided round: learn, record, and only then return. Ends it later if it is interrupted on the way."""
        query, proposal, cell = decided.query, decided.proposal, decided.cell
        if self.mechanism.rounds < proposal.round:
            self.mechanism.absorb(proposal, cell)
        if len(self._journal) < proposal.round:
            fit = self.mechanism.fit if len(self.mechanism.fit) > decided.learnt else None
            kept = to_record(query, proposal, surprise=cell is not None, whole=self.mechanism.fresh)
            done = Round(
                decided.answer,
                cell,
                fit,
                proposal.reading,
                kept,
                query.name,
                decided.identity,
                decided.act,
                self.mechanism.cost(proposal, cell),
                self.mechanism.counts(proposal, cell),
            )
            self._journal.commit(done, decided.at)
        elif self._journal[proposal.round].answer is not decided.answer:
            if (store := self._journal.store) is not None:
                store.fail()
            raise LedgerError(f"round {proposal.round} is recorded already, with another answer. Open the study again.")
        self._decided = None
        return decided.answer

    # readings ------------------------------------------------------------------------------------------------------

    def read_many(
        self,
        questions: Sequence[object],
        *,
        kind: Literal["read", "close"] = "read",
        share: Fraction | None = None,
        expects: Sequence[float | None] | None = None,
        request_id: str | None = None,
        who: str | None = None,
        time: str | None = None,
        first: int = 1,
    ) -> list[Answer]:
        """Read several questions at one price: all are fixed before the first is read. `Holdout.read_many` says more."""
        who = require_text(who or self.who, "who")
        require_text(request_id, "request_id")
        queries = [self.query(question) for question in questions]
        guesses = [None] * len(queries) if expects is None else [require_expect(one) for one in expects]
        ids = [None if request_id is None else f"{request_id}/{first + place}" for place in range(len(queries))]
        ats = [AskedBy(time or now(), who, one) for one in ids]
        with self._turn():
            mechanism = self.acting()
            require_batch(self.mechanism, self._journal, queries, ids)
            for one in ids:
                if (earlier := self._journal.requested(one)) is not None and earlier.act.kind == "ask":
                    raise RequestConflict(
                        f"request id {one!r} belongs to an ask (round {earlier.number}). Expected a new id for a reading. "
                        "Nothing was charged."
                    )
            wanted = self.to_read(queries, ats, kind)
            made: dict[int, int] = {}
            if wanted:
                parts = [
                    _Part(
                        self.mechanism.prepare(queries[place]),
                        Act(kind, len(wanted), number, share, guesses[place]),
                        ats[place],
                    )
                    for number, place in enumerate(wanted, 1)
                ]
                offers = [mechanism.propose(part.query, replace(part.act, place=1)) for part in parts]
                for part, offer in zip(parts, offers, strict=True):
                    if not part.query.text and not part.query.repeatable:  # what is wrong with given values is reported
                        self.sample.sums(part.query, offer.reading.scale)
                options = {
                    "share": None if share is None else str(share),
                    "expect": [part.act.expect for part in parts],
                    "requests": [part.at.request for part in parts],
                }
                asked = tuple(question_to_dict(itself(part.query)) for part in parts)
                self._journal.begin(Begun(kind, asked, options), AskedBy(ats[0].time, who, request_id))
                self._journal.flush()
                made = {place: len(self._journal) + number for number, place in enumerate(wanted, 1)}
                self._reading = parts
                self._read_parts(self.needed(offers))
            answers: list[Answer] = []
            for place, at in enumerate(ats):
                past = self._journal[made[place]] if place in made else self._journal.requested(at.request)
                past = past or self._journal.read_as(queries[place].name)
                if past is None:
                    raise LedgerError("a reading is not where it was recorded. Open the study again.")
                self._journal.repeat(past.number, at)
                answers.append(past.answer)
            self._journal.flush()
            return answers

    def _read_parts(self, known: Known) -> None:
        """Read the parts of a batch that are left, and make all of them durable together."""
        while self._reading:
            part = self._reading[0]
            self._decide(part.query, propose(self.mechanism, part.query, part.act), part.at, part.act, known)
            self._reading = self._reading[1:]
        self._journal.flush()

    def to_read(self, queries: Sequence[Query], ats: Sequence[AskedBy], kind: str) -> list[int]:
        """The places of questions that have to be read now: each once, and none that was read before."""
        seen: set[str] = set()
        found: list[int] = []
        for place, (query, at) in enumerate(zip(queries, ats, strict=True)):
            earlier = self._journal.read_as(query.name)
            if earlier is not None:
                require_same(self.mechanism, query, earlier)
            done = earlier is not None and (kind == "read" or earlier.act.kind == "close")
            if done or self._journal.requested(at.request) is not None or query.name in seen:
                continue
            found.append(place)
            if query.name is not None:
                seen.add(query.name)
        return found

    def needed(self, offers: Sequence[Any]) -> Known:
        """The private sums of all text questions that several proposals need, in one scan."""
        needs = {need.name: need for offer in offers for need in self.mechanism.needs(offer) if need.text}
        return dict(zip(needs, self.sample.sums_of(list(needs.values())), strict=True)) if needs else {}

    def acting(self) -> ActingMechanism:
        """The mechanism, for acts beyond asks."""
        if not isinstance(self.mechanism, ActingMechanism):
            raise QuestionError("this mechanism answers asks only: it has no readings, selections or verdicts.")
        return self.mechanism

    # acts that are not made of rounds ------------------------------------------------------------------------------

    def perform(
        self,
        begun: Begun,
        decide: Callable[[], int | bool | str | None],
        *,
        request_id: str | None,
        who: str | None,
        time: str | None = None,
    ) -> dict[str, Any]:
        """Do an act: record that it begins, read the private rows, charge, record how it ended, and only then return.

        Args:
            begun: everything that is fixed beforehand.
            decide: reads the private rows and returns what is disclosed. It must not raise for anything in them.
        """
        time = time or self.when or now()
        at = AskedBy(time, require_text(who or self.who, "who"), require_text(request_id, "request_id"))
        with self._turn():
            if (earlier := self._journal.performed_as(at.request)) is not None:
                if earlier.begun != begun:
                    raise RequestConflict(
                        f"request id {at.request!r} belongs to another act. Expected a new id for a new act. Nothing was "
                        "charged."
                    )
                return earlier.done.result
            if self._journal.requested(at.request) is not None:
                raise RequestConflict(
                    f"request id {at.request!r} belongs to a question. Expected a new id for a new act. Nothing was charged."
                )
            mechanism = self.acting()
            mechanism.require_open()
            self._journal.begin(begun, at)
            self._journal.flush()
            outcome = decide()
            price, budget = charged(mechanism.budget, begun, outcome)
            result = returned(mechanism, begun, outcome, price, list(self._journal))
            mechanism.pay(budget)
            if begun.kind == "close":
                mechanism.shut()
            self._journal.end(Done(outcome, result), at)
            self._journal.flush()
            return result

    def finish_pending(self) -> None:
        """End an act that was interrupted: what began is read, where its questions are text, and charged in any case."""
        if (pending := self._journal.pending) is None:
            return
        begun, at = pending
        if begun.kind in ("read", "close"):
            self._finish_reading(begun, at)
        else:
            self._interrupt(begun, at)

    def _interrupt(self, begun: Begun, at: AskedBy) -> None:
        """Charge an act that cannot be ended, and record that nothing came of it."""
        mechanism = self.acting()
        mechanism.pay(charged(mechanism.budget, begun, None, interrupted=True)[1])
        self._journal.end(Done(None, {}, interrupted=True), at)
        self._journal.flush()

    def _finish_reading(self, begun: Begun, at: AskedBy) -> None:
        """Readings are recorded together, so that none of a pending batch was recorded."""
        questions = [question_from_dict(one, self._kinds) for one in begun.asked]
        share = None if begun.options["share"] is None else Fraction(begun.options["share"])
        if any(query is None for query in questions):
            self._interrupt(begun, at)
            return
        queries = [query for query in questions if query is not None]
        kind: Literal["read", "close"] = "close" if begun.kind == "close" else "read"
        expects, requests = begun.options["expect"], begun.options["requests"]
        self._reading = [
            _Part(
                query,
                Act(kind, len(queries), place + 1, share, expects[place]),
                AskedBy(at.time, at.who, requests[place]),
            )
            for place, query in enumerate(queries)
        ]
        self._read_parts({})

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One question at a time, in the process that opened the session, after anything that was interrupted."""
        with self._lock:
            if os.getpid() != self._process:
                raise LedgerError(
                    "this holdout was opened in another process, and asking here would fork its record. Ask where it was "
                    "opened, or open it after the processes have parted."
                )
            if self._asking() is not None:
                raise QuestionError("a question cannot ask the holdout while it is being answered: ask beforehand.")
            self._journal.require_open()
            # The thread that holds the lock is in a turn as long as this object lives, whatever interrupts what follows.
            turn = _Turn()
            try:
                self._asking = ref(turn)
                self._recover()
                self._journal.flush()
                yield
            except BaseException as error:
                # In memory what was interrupted is ended before the next. In a file nobody knows how far it got.
                store = self._journal.store
                under_way = self._decided is not None or self._journal.pending is not None
                if store is not None and (
                    under_way or (self._journal.waiting and not isinstance(error, EverholdError))
                ):
                    store.fail()
                elif isinstance(error, EverholdError) and self._journal.waiting and not under_way and not self.broken:
                    self._journal.flush()  # what was decided before the error is recorded, though nobody sees it now
                raise
            finally:
                del turn

    def _recover(self) -> None:
        """End what was interrupted in memory: a decided round, the rest of a batch of readings, another act."""
        if self._decided is not None:
            self._settle(self._decided)
            if self._reading and self._reading[0].act.place <= self._journal[len(self._journal)].act.place:
                self._reading = self._reading[1:]
        if (pending := self._journal.pending) is None:
            self._reading = []
            return
        begun, at = pending
        if not self._reading or self._reading[0].act.place == 1:
            self._reading = []
            self._interrupt(begun, at)
            return
        while self._reading:  # some of the batch was read: the rest ends without a value
            part = self._reading[0]
            proposal = propose(self.mechanism, part.query, part.act)
            answer = self.mechanism.answer(proposal, NOTHING)
            answer = answer.as_share() if part.query.yes_no else answer
            named = identity(self.mechanism, part.query, proposal)
            learnt = len(self.mechanism.fit)
            self._decided = _Decided(part.query, proposal, NOTHING, named, answer, part.at, part.act, learnt)
            self._settle(self._decided)
            self._reading = self._reading[1:]
        self._journal.flush()

    def note_finding(self, finding: RecordedFinding, at: AskedBy) -> None:
        """Record a statistic and its result, durably, before anybody sees it."""
        with self._turn():
            self._journal.note_finding(finding, at)
            self._journal.flush()

    def make_durable(self, journal: Journal) -> None:
        """Record in this journal from now on. Only before the first question."""
        if len(self._journal):
            raise LedgerError("a session that has answered questions cannot change its record.")
        self._journal = journal

    # the public side, and the past ---------------------------------------------------------------------------------

    def try_out(self, question: object, *, parts: int = 1) -> Preview:
        """What the public side alone says of a question: costs nothing, reads no private row, shows errors in full.

        `parts`: how many would be read together.
        """
        with self._turn():
            query = self.query(question)
            preview = self.mechanism.preview(query) if parts == 1 else self.acting().preview(query, parts=parts)
            return preview.as_share() if query.yes_no else preview

    def audit(self) -> Audit:
        """Replay the record in memory without the private rows, bit for bit."""
        with self._turn():
            return audit(self.first_state(), self._journal.in_order())

    def replay(self, questions: Analyst | Iterable[object]) -> list[Answer]:
        """Every answer again from the transcript, the coins and the questions (or the analyst's program), without data."""
        with self._turn():
            if self._journal.performed or any(past.act != ASK for past in self._journal):
                raise QuestionError(
                    "replay takes the questions of a session of plain asks, and this one has other acts. Expected "
                    "holdout.audit(), which replays every act from the record."
                )
            readings = [record.reading for record in self._journal]
            return replay(self.first_state(), self.transcript, questions, readings=readings, read=self.query)

    def pause(self) -> None:
        """Let another process ask; this one goes on after `resume`. Without a file there is nothing to do."""
        with self._lock:
            if self._asking() is not None or self._decided is not None or self._journal.waiting:
                raise LedgerError("a holdout cannot be paused while it answers. Pause it before or afterwards.")
            if (store := self._journal.store) is not None and not store.broken:
                store.pause()

    def resume(self) -> None:
        """Ask again here, after taking over what other processes have recorded meanwhile.

        Raises:
            LedgerBusy: another process is asking.
        """
        with self._lock:
            if (store := self._journal.store) is None or not store.paused:
                return
            if os.getpid() != self._process:
                raise LedgerError(
                    "this holdout was opened in another process. Open it here after the processes have parted."
                )
            store.resume()
            try:
                entries = (read_entry(record, self._kinds, parse="surprises") for record in store.new_records())
                self.restore(entries, store.path)
                self.finish_pending()
            except BaseException:  # half of what was recorded is taken over: nothing may be answered from that
                store.fail()
                raise

    def restore(self, entries: Iterable[AnyEntry], where: object) -> None:
        """Take over what is recorded. Quiet asks only count; what disclosed something teaches what it taught then."""

        def record() -> Iterator[Round | Performed]:
            for entry in entries:
                if isinstance(entry, Repeat):
                    self._journal.restore_request(entry.asked_by.request, entry.number)
                elif isinstance(entry, FindingEntry):
                    self._journal.restore_finding(entry.finding, entry.asked_by)
                elif isinstance(entry, BegunEntry):
                    self._journal.restore_begun(entry.begun, entry.asked_by)
                elif isinstance(entry, DoneEntry):
                    yield self._journal.restore_done(entry.done)
                else:
                    self._journal.restore(entry.round, entry.asked_by)
                    yield entry.round

        for past, found in walk(self.mechanism, record(), every=False):
            if found is not None and found.proposal.reading != past.reading:
                raise LedgerError(f"round {past.number} of {where} does not replay: audit it.")

    def __reduce__(self) -> tuple[Any, ...]:
        raise LedgerError(
            "a holdout cannot be copied or pickled: two records for the same rows would void the guarantee."
        )

    def __repr__(self) -> str:
        if self.broken:
            return f"Session({self.size:,} private rows, interrupted: open the study again)"
        return (
            f"Session({self.size:,} private rows, rounds: {self.rounds:,}, surprises: {self.surprises:,}, "
            f"{self.spent:.1f} nats spent)"
        )
