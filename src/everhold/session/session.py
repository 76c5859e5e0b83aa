"""One adaptive session: questions in, recorded answers out, one turn at a time.

A session knows private rows, a mechanism and a journal. It does not know where the rows come from, which prior the
mechanism was built on, or whether the journal is a file.
"""

from __future__ import annotations

import os
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic
from weakref import ref

from everhold.errors import EverholdError, LedgerError, PrecisionExhausted, QuestionError, RequestConflict
from everhold.ledger.audit import Audit, audit
from everhold.ledger.codec import AskedBy, FindingEntry, Repeat, read_entry
from everhold.ledger.journal import Journal
from everhold.ledger.replay import Analyst, replay
from everhold.ledger.rounds import RecordedFinding, Round, to_record
from everhold.ledger.walk import walk
from everhold.queries.expression import BoundedMean, Expression, expression
from everhold.queries.expression.program import Batch, Columns, TooSlow
from everhold.queries.expression.question import Evaluated, size_of_query
from everhold.queries.protocol import P
from everhold.queries.query import as_query
from everhold.session.names import identity, require_batch, require_name, require_round, require_same, require_text
from everhold.statistics import is_statistic

if TYPE_CHECKING:
    from everhold.data.sample import Sample
    from everhold.data.table import Table
    from everhold.ledger.codec import Entry
    from everhold.queries.answer import Answer, Preview
    from everhold.queries.expression.parser import Words
    from everhold.queries.expression.tree import Kind
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Mechanism
    from everhold.queries.query import Query
    from everhold.queries.request import Request

__all__ = ["Session", "now"]

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
    cell: int | None
    identity: str | None
    answer: Answer
    at: AskedBy


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
        self._kinds = dict(sample.kinds if kinds is None else kinds)
        self._words = dict(words or {})
        self._journal = Journal() if journal is None else journal
        self._lock = RLock()
        self._process = os.getpid()
        self._asking: Callable[[], _Turn | None] = lambda: None
        self._decided: _Decided[P] | None = None

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
    def transcript(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Z: every surprise's round, cell and fit. With the coins and the questions it replays the whole session."""
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
        query = as_query(question, name=name)
        require_name(query)
        self.sample.check(query)
        return query

    def ask(
        self, question: object, *, name: str | None = None, request_id: str | None = None, who: str | None = None
    ) -> Answer:
        """Answer one question: text, a callable over columns, or `eh.Values`. `Holdout.ask` says more."""
        query = self.query(question, name)
        at = AskedBy(now(), require_text(who or self.who, "who"), require_text(request_id, "request_id"))
        with self._turn():
            found = self._answers([(query, at)])[0]
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

    def _answers(self, asked: Sequence[tuple[Query, AskedBy]], *, stop: bool = False) -> list[Answer | EverholdError]:
        """Answers in order, for a turn, without flushing; a refusal stands in its place, and may be the last."""
        found: list[Answer | EverholdError] = []
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            evaluated, sums = self._scan([query for query, _ in some])
            for query, at in some:
                name = query.name if query.text else None
                try:
                    found.append(self._answer(evaluated.get(name, query), at, sums.get(name)))
                except (QuestionError, RequestConflict, PrecisionExhausted) as refusal:
                    if self._decided is not None:  # the private sum was seen: this cannot be reported as a refusal
                        raise
                    found.append(refusal)
                    if stop:
                        return found
        return found

    def _scan(self, queries: Sequence[Query]) -> tuple[dict[str | None, Query], dict[str | None, Sums]]:
        """The batch's text questions that are new, evaluated on both sides at once; by name."""
        new = {query.name: query for query in queries if query.text and self._journal.named(query.name) is None}
        if len(new) < 2:
            return {}, {}
        sums: dict[str | None, Sums] = dict(zip(new, self.sample.sums_of(list(new.values())), strict=True))
        ready: dict[str | None, Query] = {name: query for name, query in new.items() if isinstance(query, Evaluated)}
        texts = [query for query in new.values() if isinstance(query, Expression | BoundedMean)]
        if self.public_rows is not None and texts:
            ready |= {query.name: query for query in self._evaluated(texts, None)}
        return ready, sums

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

    def _answer(self, query: Query, at: AskedBy, sums: Sums | None) -> Answer:
        """Answer one query without flushing. `sums`: the private sums, if a scan of the batch already computed them."""
        mechanism = self.mechanism
        if (earlier := self._journal.requested(at.request)) is not None:
            require_round(mechanism, query, earlier, at.request)
            return earlier.answer
        if (earlier := self._journal.named(query.name)) is not None:
            require_same(mechanism, query, earlier)
            self._journal.repeat(earlier.number, at)
            return earlier.answer
        proposal = mechanism.propose(query)
        known = identity(mechanism, query, proposal)
        part = mechanism.part(proposal)
        if sums is None or part is not None:
            sums = self.sample.sums(query, proposal.reading.scale, part)
        cell = mechanism.decide(proposal, sums.first)
        # From here on the round is charged, whatever happens: an interrupted one is ended before the next.
        answer = mechanism.answer(proposal, cell)
        answer = answer.as_share() if query.yes_no else answer
        self._decided = _Decided(query, proposal, cell, known, answer, at)
        return self._settle(self._decided)

    def _settle(self, decided: _Decided[P]) -> Answer:
        """End the decided round: learn, record, and only then return. Ends it later if it is interrupted on the way."""
        query, proposal, cell = decided.query, decided.proposal, decided.cell
        if self.mechanism.rounds < proposal.round:
            self.mechanism.absorb(proposal, cell)
        if len(self._journal) < proposal.round:
            fit = None if cell is None else self.mechanism.fit
            kept = to_record(query, proposal, surprise=cell is not None, whole=self.mechanism.fresh)
            done = Round(decided.answer, cell, fit, proposal.reading, kept, query.name, decided.identity)
            self._journal.commit(done, decided.at)
        elif self._journal[proposal.round].answer is not decided.answer:
            if (store := self._journal.store) is not None:
                store.fail()
            raise LedgerError(f"round {proposal.round} is recorded already, with another answer. Open the study again.")
        self._decided = None
        return decided.answer

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
                if self._decided is not None:
                    self._settle(self._decided)
                self._journal.flush()
                yield
            except EverholdError:
                if self._decided is None and self._journal.waiting and not self.broken:
                    self._journal.flush()  # what was decided before the error is recorded, though nobody sees it now
                raise
            except BaseException:
                # In memory an interrupted round is ended before the next. In a file nobody knows how far it got.
                store = self._journal.store
                if store is not None and (self._decided is not None or self._journal.waiting):
                    store.fail()
                raise
            finally:
                del turn

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

    def try_out(self, question: object) -> Preview:
        """What the public side alone says of a question: costs nothing, reads no private row, shows errors in full."""
        with self._turn():
            query = self.query(question)
            preview = self.mechanism.preview(query)
            return preview.as_share() if query.yes_no else preview

    def audit(self) -> Audit:
        """Replay the record in memory without the private rows, bit for bit."""
        with self._turn():
            return audit(self.first_state(), self._journal)

    def replay(self, questions: Analyst | Iterable[object]) -> list[Answer]:
        """Every answer again from the transcript, the coins and the questions (or the analyst's program), without data."""
        with self._turn():
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
            except BaseException:  # half of what was recorded is taken over: nothing may be answered from that
                store.fail()
                raise

    def restore(self, entries: Iterable[Entry | Repeat | FindingEntry], where: object) -> None:
        """Take over what is recorded. Quiet rounds only count; surprises teach the sketch what they taught it then."""

        def rounds() -> Iterator[Round]:
            for entry in entries:
                if isinstance(entry, Repeat):
                    self._journal.restore_request(entry.asked_by.request, entry.number)
                elif isinstance(entry, FindingEntry):
                    self._journal.restore_finding(entry.finding, entry.asked_by)
                else:
                    self._journal.restore(entry.round, entry.asked_by)
                    yield entry.round

        for past, found in walk(self.mechanism, rounds(), every=False):
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
            f"Session({self.size:,} private rows, questions: {self.rounds:,}, surprises: {self.surprises:,}, "
            f"{self.spent:.1f} nats spent)"
        )
