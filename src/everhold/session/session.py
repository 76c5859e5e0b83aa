"""One adaptive session: questions in, recorded answers out, one turn at a time.

A session knows private rows, a mechanism and a journal. It does not know where the rows come from, or which prior
the mechanism was built on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from everhold.clock import timestamp
from everhold.errors import EverholdError, LedgerError, PrecisionExhausted, QuestionError, RequestConflict, SettingError
from everhold.ledger.audit import Audit, audit
from everhold.ledger.journal import Journal
from everhold.ledger.replay import Analyst, replay
from everhold.ledger.rounds import RecordedFinding
from everhold.progress import SHOWN_FROM, progress_bar
from everhold.queries.answer import Answer
from everhold.queries.expression import expression
from everhold.queries.expression.composites import COMPOSITES
from everhold.queries.protocol import P
from everhold.queries.query import as_query
from everhold.queries.request import AskedBy, Request
from everhold.queries.round_act import ASK, READ, RoundAct
from everhold.session.caps import Caps
from everhold.session.names import (
    checked_expect,
    require_batch,
    require_name,
    require_round,
    require_same,
    require_text,
    require_title,
)
from everhold.session.private_setup import require_text_question
from everhold.session.recorder import Recorder
from everhold.session.scan import Scanner
from everhold.statistics import is_statistic

if TYPE_CHECKING:
    from everhold.data.sample import Sample
    from everhold.data.table import RowTable
    from everhold.ledger.store import Store
    from everhold.queries.answer import Preview
    from everhold.queries.expression.parser import Words
    from everhold.queries.expression.tree import Kind
    from everhold.queries.protocol import Mechanism, Outcome
    from everhold.queries.query import Query
    from everhold.session.scan import SumsByName
    from everhold.statistics.statistic import Statistic

__all__ = ["Session"]

_AT_ONCE = 1024  # questions of a batch that are scanned for together


class _Ask(NamedTuple):
    """One ask of a turn: a request that was checked."""

    query: Query
    asked_by: AskedBy
    act: RoundAct = ASK


def _ask_expecting(expect: float | None) -> RoundAct:
    return ASK if expect is None else RoundAct(expect=checked_expect(expect))


class Session(Generic[P]):
    """Private rows that answer any number of adaptive questions, by any mechanism.

    Args:
        sample: the private rows.
        build: makes the mechanism in its first state, each time the same.
        kinds: names and kinds of the columns that questions given as text may use; the sample's own when left out.
        words: the declared categories of text columns, so that misspelled ones are found.
        public_rows: fixed public rows that the mechanism works on, so that batches of text are evaluated in one scan.
        journal: where rounds are recorded; in memory when left out.
        texts_only: whether only text is asked, or values that a test set made row by row: a row's value is a function of
            that row, as privacy needs it.
        mechanism: in its first state, where the caller holds it already; made when left out.

    Attributes:
        sample: the private rows.
        mechanism: as it stands now.
        who: a name that is recorded with the following questions, unless they carry one of their own.
        caps: how much of a private study's budget each name may use; None: all of it.
        texts_only: whether only questions given as text, or made row by row, are answered, as in a private study.
        first_state: makes the mechanism as it was before the first question, for replays.
        public_rows: of the prior.
        scanner: evaluates questions on both sides.
        recorder: turns, charges and the record; also a study's life: pausing, resuming, restoring.
    """

    def __init__(
        self,
        sample: Sample,
        build: Callable[[], Mechanism[P]],
        *,
        kinds: Mapping[str, Kind] | None = None,
        words: Mapping[str, Words] | None = None,
        public_rows: RowTable | None = None,
        journal: Journal | None = None,
        texts_only: bool = False,
        mechanism: Mechanism[P] | None = None,
    ) -> None:
        self.sample = sample
        self.texts_only = texts_only
        self.first_state = build
        self.mechanism: Mechanism[P] = build() if mechanism is None else mechanism
        self.public_rows = public_rows
        self.who: str | None = None
        self._caps: Caps | None = None
        self._kinds = dict(sample.kinds if kinds is None else kinds)
        self._words = dict(words or {})
        self.scanner = Scanner(sample, public_rows)
        self.recorder = Recorder(self.mechanism, Journal() if journal is None else journal, self.scanner, self._kinds)

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
    def price(self) -> float:
        """The price of the next ask's interval, in nats."""
        self._require_sound()
        return self.mechanism.price

    @property
    def _journal(self) -> Journal:
        return self.recorder.journal

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
    def store(self) -> Store | None:
        """The study's file, broken or not; None where the record is in memory only."""
        return self._journal.store

    @property
    def broken(self) -> bool:
        """Whether a record could not be written, so that nothing more is returned until the study is opened again."""
        return self.recorder.broken

    @property
    def usable(self) -> bool:
        """Whether it can be asked: in the process that opened it, neither broken nor closed."""
        store = self.store
        return self.recorder.in_own_process and (store is None or not (store.broken or store.closed))

    def _require_sound(self) -> None:
        """Raise if a decided round could not be recorded: not even counts may then show that it happened."""
        if self.broken:
            self._journal.require_open()

    # questions -----------------------------------------------------------------------------------------------------

    def query(self, question: object, name: str | None = None) -> Query:
        """A question, checked against the public columns where it is text. Reads no row; any thread may call it."""
        if self.texts_only:
            require_text_question(question)
        if isinstance(question, str):
            if name is not None:
                raise QuestionError("a question given as text is known by its text, and takes no other name.")
            return expression(question, self._kinds, self._words)
        if is_statistic(question) or (isinstance(question, type) and hasattr(question, "steps")):
            raise QuestionError(
                'a statistic is asked by itself: holdout.ask(eh.Mean("age")). Here only single questions fit.'
            )
        if isinstance(question, COMPOSITES):
            return question
        query = as_query(question, name=name)
        require_name(query)
        require_title(query)
        self.sample.check(query)
        return query

    def stamp(self, request_id: str | None, who: str | None, time: str = "") -> AskedBy:
        """Who asks, for the record; without a time, now."""
        return AskedBy(time or timestamp(), require_text(who or self.who, "who"), require_text(request_id, "request_id"))

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
        query, asked_by, act = self.query(question, name), self.stamp(request_id, who), _ask_expecting(expect)
        with self.recorder.turn():
            answer = self._answer(query, asked_by, act, {})
            self._journal.flush()
            return answer

    def ask_many(
        self, questions: Iterable[object], *, request_id: str | None = None, who: str | None = None
    ) -> list[Answer]:
        """Answer several questions in order. `Holdout.ask_many` says more."""
        return self.ask_parts(questions, self.stamp(request_id, who))

    def ask_parts(self, questions: Iterable[object], asked_by: AskedBy, *, first: int = 1) -> list[Answer]:
        """Answer a part of a larger request, which is recorded as of one time. Its request ids count from `first`."""
        if callable(questions) or not isinstance(questions, Iterable) or isinstance(questions, str):
            raise QuestionError("ask_many takes a list of questions; for a single one there is ask.")
        queries = [self.query(question) for question in questions]
        parts = [asked_by.part(number) for number in range(first, first + len(queries))]
        with self.recorder.turn():
            queries = [self._checked(query) for query in queries]
            require_batch(self.mechanism, self._journal, queries, [part.request_id for part in parts])
            results = self._answers([_Ask(query, part) for query, part in zip(queries, parts, strict=True)], stop=True)
            self._journal.flush()
            answers = [result for result in results if not isinstance(result, EverholdError)]
            if results and isinstance(refusal := results[-1], EverholdError):
                if isinstance(refusal, PrecisionExhausted):
                    refusal.answers = list(answers)
                raise refusal
        return answers

    def _checked(self, query: Query) -> Query:
        """A question of a batch, evaluated once on the public rows; given values are checked on both sides."""
        if query.text or self._journal.narrowest_answer(query.name) is not None:
            return query
        query = self.mechanism.prepare(query)
        if self.mechanism.fresh or not query.repeatable:
            proposal = self.mechanism.propose(query)
            if not query.repeatable:
                self.sample.sums([query], proposal.forecast.scale)
        return query

    def ask_each(self, requests: Sequence[Request]) -> list[Answer | EverholdError]:
        """Answer questions of several people in one turn: one scan, one record, each as if it were asked alone.

        An error of one stands in its place, and the others are answered all the same. Only a record that cannot be written
        is raised: then nobody gets an answer.
        """
        asked = [self._requested(request) for request in requests]
        with self.recorder.turn():
            answers = self._answers([ask for ask in asked if not isinstance(ask, EverholdError)])
            self._journal.flush()
        following = iter(answers)
        return [ask if isinstance(ask, EverholdError) else next(following) for ask in asked]

    def _requested(self, request: Request) -> _Ask | EverholdError:
        try:
            by = request.asked_by
            asked_by = self.stamp(by.request_id, by.who, by.time)
            return _Ask(self.query(request.question), asked_by, _ask_expecting(request.expect))
        except (QuestionError, SettingError) as error:
            return error

    def _answers(self, asked: Sequence[_Ask], *, stop: bool = False) -> list[Answer | EverholdError]:
        """Answers in order, for a turn, without flushing; a refusal stands in its place, and may be the last."""
        answers: list[Answer | EverholdError] = []
        with progress_bar("Asking", len(asked), least=SHOWN_FROM) as bar:
            for start in range(0, len(asked), _AT_ONCE):
                batch = asked[start : start + _AT_ONCE]
                evaluated, sums = self._scan([ask.query for ask in batch])
                for query, asked_by, act in bar.over(batch):
                    name = query.name if query.text else None
                    try:
                        answers.append(self._answer(evaluated.get(name, query), asked_by, act, sums))
                    except (QuestionError, RequestConflict, PrecisionExhausted) as refusal:
                        if self.recorder.has_decided:  # the private sum was seen: this cannot be reported as a refusal
                            raise
                        answers.append(refusal)
                        if stop:
                            return answers
        return answers

    def _scan(self, queries: Sequence[Query]) -> tuple[dict[str | None, Query], SumsByName]:
        """The batch's text questions that are new, evaluated on both sides at once; by name."""
        if self.mechanism.closed or self.recorder.shield.private:  # a private study reads rows when a question is paid for
            return {}, {}
        return self.scanner.scan(
            {query.name: query for query in queries if query.text and self._journal.narrowest_answer(query.name) is None}
        )

    def _answer(self, query: Query, asked_by: AskedBy, act: RoundAct, scanned: SumsByName) -> Answer:
        """Answer one query without flushing. `scanned`: private sums that a scan of the batch already computed."""
        mechanism = self.mechanism
        if (earlier := self._journal.round_of_request(asked_by.request_id)) is not None:
            require_round(mechanism, query, earlier, asked_by.request_id)
            return earlier.answer
        if (earlier := self._journal.narrowest_answer(query.name)) is not None:
            require_same(mechanism, query, earlier)
            self._journal.add_repeat(earlier.number, asked_by)
            return earlier.answer
        self.require_under_cap(asked_by.who)
        proposal = mechanism.propose(query, act)
        return self.recorder.do_round(query, proposal, asked_by, act, scanned)

    def limit_charges(self, each: int | None, what: object) -> None:
        """Let each name in the record cause so many charges of a private study, called `what` in a refusal; None: any."""
        self._caps = None if each is None else Caps.of(each, self.recorder.privacy, what)

    def require_under_cap(self, who: str | None, charges: int = 1) -> None:
        """Refuse somebody who has used up a part of a private study's budget, before a row is read. Within a turn."""
        if self._caps is not None and (account := self.recorder.privacy) is not None:
            self._caps.require(self._journal, who, account, charges)

    def ask_refusal(self, who: str | None, names: Iterable[str | None]) -> str:
        """Why this name cannot ask these of a private study, by the record alone; empty where it can.

        What is in the record is returned again.
        """
        with self.recorder.turn():  # what is not durable yet is nobody's to see
            if (account := self.recorder.privacy) is None or all(
                self._journal.narrowest_answer(name) is not None for name in names
            ):
                return ""
            if not account.surprises_left:
                readings = f"{account.readings_left:,} reading{'' if account.readings_left == 1 else 's'}"
                return f"the privacy budget pays for no further surprise, which any question may be; it pays for {readings}"
            if self._caps is not None and not self._caps.left(self._journal, who):
                return f"{who or 'this name'} has caused all the surprises, readings and choices that each name may cause"
            return ""

    def record_finding(self, statistic: Statistic[Any], result: Any, asked_by: AskedBy) -> None:
        """Record a statistic whose parts were answered, before its result is returned. One question is its own record."""
        if not isinstance(result, Answer):
            self.recorder.record_finding(RecordedFinding.of(statistic, result), asked_by)

    # the public side, and the past ---------------------------------------------------------------------------------

    def try_out(self, question: object, *, read: RoundAct = READ) -> Preview:
        """What the public side alone says of a question: costs nothing, reads no private row, shows errors in full.

        `read`: how it would be read.
        """
        with self.recorder.turn():
            query = self.query(question)
            plain = read == READ
            preview = self.mechanism.preview(query) if plain else self.recorder.acting_mechanism().preview(query, read=read)
            return preview.as_asked(query)

    def audit(self) -> Audit:
        """Replay the record in memory without the private rows, bit for bit."""
        with self.recorder.turn():
            past = list(self._journal.in_order())
            with progress_bar("Replaying", len(past)) as bar:
                return audit(self.first_state(), bar.over(past))

    def replay(self, questions: Analyst | Iterable[object]) -> list[Answer]:
        """Every answer again from the transcript, the coins and the questions (or the analyst's program), without data."""
        with self.recorder.turn():
            if self._journal.recorded_acts or any(past.act != ASK for past in self._journal):
                raise QuestionError(
                    "replay takes the questions of a session of plain asks, and this one has other acts. Expected "
                    "holdout.audit(), which replays every act from the record."
                )
            forecasts = [record.forecast for record in self._journal]
            return replay(self.first_state(), self.transcript, questions, forecasts=forecasts, as_question=self.query)

    def __reduce__(self) -> tuple[Any, ...]:
        raise LedgerError("a holdout cannot be copied or pickled: two records for the same rows would void the guarantee.")

    def __repr__(self) -> str:
        if self.broken:
            return f"Session({self.size:,} private rows, interrupted: open the study again)"
        return (
            f"Session({self.size:,} private rows, rounds: {self.rounds:,}, surprises: {self.surprises:,}, "
            f"{self.price:.1f} nats)"
        )
