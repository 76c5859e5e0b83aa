"""Nothing is returned before it is recorded, and nothing that was decided is forgotten: turns, charges, crash rules.

Between the moment when private rows are read and the moment when the outcome is durable, an interruption must neither
lose a charge nor show an answer. In memory what was interrupted is ended before the next turn. In a file nobody knows
how far it got: the study is broken until it is opened again, and then the record says what to end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Literal
from weakref import ref

from everhold.errors import DataError, EverholdError, LedgerError, QuestionError, RequestConflict, after_charge
from everhold.ledger.act_prices import act_result, is_last, price_act
from everhold.ledger.codec import (
    ParsedActEnd,
    ParsedActStart,
    ParsedFinding,
    Repeat,
    parse_record,
    question_from_dict,
)
from everhold.ledger.rounds import ActEnd, ActStart, RecordedAct, RecordedFinding, Round, to_record
from everhold.ledger.walk import walk
from everhold.progress import NO_BAR, SHOWN_FROM, Progress, progress_bar
from everhold.queries.expression.question import without_values
from everhold.queries.protocol import NOTHING, ActingMechanism, P
from everhold.queries.request import AskedBy
from everhold.queries.round_act import RoundAct
from everhold.session.names import identity
from everhold.session.shield import PlainShield

if TYPE_CHECKING:
    from everhold.bounds.privacy import PrivacyAccount
    from everhold.ledger.codec import ParsedRecord
    from everhold.ledger.journal import Journal
    from everhold.queries.answer import Answer
    from everhold.queries.expression.tree import Kind
    from everhold.queries.protocol import Mechanism, Outcome
    from everhold.queries.query import Query
    from everhold.session.scan import Scanner, SumsByName
    from everhold.session.shield import PrivacyShield, Shield

__all__ = ["PlannedReading", "Recorder"]


@dataclass(frozen=True, slots=True, eq=False)
class DecidedRound(Generic[P]):
    """A round whose outcome is known and which is not yet recorded."""

    query: Query
    proposal: P
    outcome: Outcome
    identity: str | None
    answer: Answer
    asked_by: AskedBy
    act: RoundAct
    learnt: int


@dataclass(frozen=True, slots=True, eq=False)
class PlannedReading:
    """One reading of a batch: fixed and announced before the first of them is made."""

    query: Query
    act: RoundAct
    asked_by: AskedBy


class _Turn:
    """A question that is being answered."""

    __slots__ = ("__weakref__",)


class Recorder(Generic[P]):
    """Charges and records what a mechanism decides, one turn at a time, and ends what was interrupted.

    Args:
        mechanism: in its first state.
        journal: where everything is recorded.
        scanner: the private rows.
        kinds: of the columns, to read recorded questions.
    """

    def __init__(self, mechanism: Mechanism[P], journal: Journal, scanner: Scanner, kinds: Mapping[str, Kind]) -> None:
        self.mechanism, self.journal = mechanism, journal
        self._acting = mechanism if isinstance(mechanism, ActingMechanism) else None
        self._scanner, self._kinds = scanner, kinds
        self._lock = RLock()
        self._process = os.getpid()
        self._asking: Callable[[], _Turn | None] = lambda: None
        self._decided: DecidedRound[P] | None = None
        self._readings: list[PlannedReading] = []
        self.shield: Shield = PlainShield()
        self.ended_at_opening: str | None = None
        """What opening the study did with what had been interrupted, in a sentence."""

    @property
    def in_own_process(self) -> bool:
        """Whether this is the process that opened the session."""
        return os.getpid() == self._process

    @property
    def has_decided(self) -> bool:
        """Whether a round is decided and not yet recorded."""
        return self._decided is not None

    @property
    def broken(self) -> bool:
        """Whether a record could not be written, so that nothing more is returned until the study is opened again."""
        return self.journal.store is not None and self.journal.store.broken

    # turns ---------------------------------------------------------------------------------------------------------------

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One question at a time, in the process that opened the session, after anything that was interrupted."""
        with self._lock:
            if not self.in_own_process:
                raise LedgerError(
                    "this holdout was opened in another process, and asking here would fork its record. Ask where it was "
                    "opened, or open it after the processes have parted."
                )
            if self._asking() is not None:
                raise QuestionError("a question cannot ask the holdout while it is being answered: ask beforehand.")
            self.journal.require_open()
            # The thread that holds the lock is in a turn as long as this object lives, whatever interrupts what follows.
            turn = _Turn()
            try:
                self._asking = ref(turn)
                self._end_interrupted()
                if self.journal.waiting:
                    self.journal.flush()
                yield
            except BaseException as error:
                # In memory what was interrupted is ended before the next. In a file nobody knows how far it got.
                store = self.journal.store
                under_way = self._decided is not None or self.journal.pending is not None
                if store is not None and (under_way or (self.journal.waiting and not isinstance(error, EverholdError))):
                    store.fail()
                elif isinstance(error, EverholdError) and self.journal.waiting and not under_way and not self.broken:
                    self.journal.flush()  # what was decided before the error is recorded, though nobody sees it now
                raise
            finally:
                del turn

    def _end_interrupted(self) -> None:
        """End what was interrupted in memory: a decided round, the rest of a batch of readings, another act."""
        if self._decided is not None:
            self._record_round(self._decided)
            if self._readings and self._readings[0].act.part <= self.journal[len(self.journal)].act.part:
                self._readings = self._readings[1:]
        if (pending := self.journal.pending) is None:
            self._readings = []
            return
        begun, asked_by = pending
        if not self._readings or self._readings[0].act.part == 1:
            self._readings = []
            self._end_without_result(begun, asked_by)
            return
        while self._readings:  # some of the batch was read: the rest ends without a value
            part = self._readings[0]
            proposal = self.mechanism.propose(part.query, part.act)
            answer = self.mechanism.answer(proposal, NOTHING).as_asked(part.query)
            named = identity(self.mechanism, part.query, proposal)
            learnt = len(self.mechanism.fit)
            self._decided = DecidedRound(part.query, proposal, NOTHING, named, answer, part.asked_by, part.act, learnt)
            self._record_round(self._decided)
            self._readings = self._readings[1:]
        self.journal.flush()

    # rounds --------------------------------------------------------------------------------------------------------------

    def do_round(self, query: Query, proposal: P, asked_by: AskedBy, act: RoundAct, scanned: SumsByName) -> Answer:
        """Read the private sums that a proposal needs, and end the round."""
        mechanism = self.mechanism
        named = identity(mechanism, query, proposal)
        if act.kind == "ask":
            self.shield.require_newest()
        needs, rows_read, who = mechanism.needs(proposal), mechanism.rows_read(proposal), asked_by.who
        sums = self.shield.read(lambda: self._scanner.sums(needs, proposal.forecast.scale, rows_read, scanned), who)
        outcome = self.shield.read(lambda: mechanism.decide(proposal, sums), who)
        with self.shield.charging(act, outcome, who):
            # From here on the round is charged, whatever happens: an interrupted one is ended before the next.
            answer = mechanism.answer(proposal, outcome).as_asked(query)
            self._decided = DecidedRound(query, proposal, outcome, named, answer, asked_by, act, len(mechanism.fit))
            return self._record_round(self._decided)

    def _record_round(self, decided: DecidedRound[P]) -> Answer:
        """End the decided round: learn, record, and only then return. Ends it later if it is interrupted on the way."""
        query, proposal, outcome = decided.query, decided.proposal, decided.outcome
        if self.mechanism.rounds < proposal.round:
            self.mechanism.absorb(proposal, outcome)
        if len(self.journal) < proposal.round:
            fit = self.mechanism.fit if len(self.mechanism.fit) > decided.learnt else None
            recorded = to_record(query, proposal, surprise=outcome is not None, whole=self.mechanism.fresh)
            new_round = Round(
                decided.answer,
                outcome,
                fit,
                proposal.forecast,
                recorded,
                query.name,
                decided.identity,
                decided.act,
                self.mechanism.charge(proposal, outcome),
                self.mechanism.counts(proposal, outcome),
                getattr(without_values(query), "title", None),
                getattr(without_values(query), "shown_range", None),
            )
            self.journal.add_round(new_round, decided.asked_by)
        elif self.journal[proposal.round].answer is not decided.answer:
            if (store := self.journal.store) is not None:
                store.fail()
            raise LedgerError(f"round {proposal.round} is recorded already, with another answer. Open the study again.")
        self._decided = None
        return decided.answer

    def read_batch(
        self, begun: ActStart, asked_by: AskedBy, readings: Sequence[PlannedReading], proposals: Sequence[P]
    ) -> None:
        """Announce readings, make them, and make all of them durable together. Within a turn."""
        self._scanner.sample.require_ready()  # a database that does not answer costs nothing
        self.shield.require_newest()
        self.journal.add_act_start(begun, asked_by)
        self.journal.flush()
        self.shield.announced()
        self._readings = list(readings)
        with progress_bar("Reading", len(readings), least=SHOWN_FROM) as bar:
            with self._under_way(begun, asked_by):
                scanned = self.shield.read(lambda: self.sums_needed(proposals), asked_by.who)
            self._read_the_rest(scanned, proposals[0], bar)

    def _read_the_rest(self, scanned: SumsByName, first: P | None = None, bar: Progress = NO_BAR) -> None:
        """Read the parts of a batch that are left, and make all of them durable together. `first`: the first's proposal."""
        while self._readings:
            part = self._readings[0]
            proposal, first = self.mechanism.propose(part.query, part.act) if first is None else first, None
            self.do_round(part.query, proposal, part.asked_by, part.act, scanned)
            self._readings = self._readings[1:]
            bar.advance()
        self.journal.flush()

    def sums_needed(self, proposals: Sequence[P]) -> SumsByName:
        """The private sums of all text questions that several proposals need, in one scan."""
        needs = (need for proposal in proposals for need in self.mechanism.needs(proposal))
        texts = {need.name: need for need in needs if need.text}
        return dict(zip(texts, self._scanner.sums(list(texts.values()), "mean"), strict=True)) if texts else {}

    # other acts ----------------------------------------------------------------------------------------------------------

    def acting_mechanism(self) -> ActingMechanism[P]:
        """The mechanism, for acts beyond asks."""
        if self._acting is None:
            raise QuestionError("this mechanism answers asks only: it has no readings, selections or verdicts.")
        return self._acting

    def require_acts(self) -> None:
        """Refuse acts beyond asks where the mechanism has none."""
        self.acting_mechanism()

    def do_act(
        self,
        begun: ActStart,
        decide: Callable[[], int | bool | str | None],
        asked_by: AskedBy,
        require: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Do an act: record that it begins, read the private rows, charge, record how it ended, and only then return.

        Args:
            begun: everything that is fixed beforehand.
            asked_by: when it was asked for, by whom, under which request id.
            decide: reads the private rows and returns what is disclosed. It must not raise for anything in them.
            require: refuses the act by what has been disclosed until now; nothing comes between it and the act.
        """
        with self.turn():
            if (earlier := self.journal.act_of_request(asked_by.request_id)) is not None:
                if not earlier.begun.is_same_act(begun):
                    raise RequestConflict(
                        f"request id {asked_by.request_id!r} belongs to another act. Expected a new id for a new act. "
                        "Nothing was charged."
                    )
                return earlier.done.result
            if self.journal.round_of_request(asked_by.request_id) is not None:
                raise RequestConflict(
                    f"request id {asked_by.request_id!r} belongs to a question. Expected a new id for a new act. "
                    "Nothing was charged."
                )
            mechanism = self.acting_mechanism()
            mechanism.require_open()
            self.shield.require_allowed(begun)
            require()
            self._scanner.sample.require_ready()
            self.shield.require_newest()
            self.journal.add_act_start(begun, asked_by)
            self.journal.flush()
            self.shield.announced()
            with self._under_way(begun, asked_by):
                outcome = self.shield.read(decide, asked_by.who)
            price, budget = price_act(mechanism.budget, begun, outcome)
            result = act_result(mechanism, begun, outcome, price, list(self.journal))
            mechanism.pay(budget)
            if is_last(begun):
                mechanism.close()
            self.journal.add_act_end(ActEnd(outcome, result), asked_by)
            self.journal.flush()
            return result

    def record_finding(self, finding: RecordedFinding, asked_by: AskedBy) -> None:
        """Record a statistic and its result, durably, before anybody sees it."""
        with self.turn():
            self.journal.add_finding(finding, asked_by)
            self.journal.flush()

    # an interrupted act --------------------------------------------------------------------------------------------------

    def end_interrupted_act(self) -> None:
        """End an act that was interrupted: what began is read, where its questions are text, and charged in any case."""
        if (pending := self.journal.pending) is None:
            return
        begun, asked_by = pending
        if begun.kind in ("read", "close") and not self.shield.private:  # a private one would draw its noise a second time
            self._read_what_was_announced(begun, asked_by)
        else:
            self._end_without_result(begun, asked_by)

    @contextmanager
    def _under_way(self, begun: ActStart, asked_by: AskedBy) -> Iterator[None]:
        """An act that was announced. If the rows cannot be read, it ends without a result and charged; the study goes on."""
        try:
            yield
        except (DataError, QuestionError) as error:
            self._readings = []
            self._end_without_result(begun, asked_by)
            raise after_charge(error, "The act had begun, so it was charged.") from None

    def _end_without_result(self, begun: ActStart, asked_by: AskedBy) -> None:
        """Charge an act that cannot be ended, and record that nothing came of it."""
        mechanism = self.acting_mechanism()
        mechanism.pay(price_act(mechanism.budget, begun, None, interrupted=True)[1])
        self.journal.add_act_end(ActEnd(None, {}, interrupted=True), asked_by)
        self.journal.flush()

    def _read_what_was_announced(self, begun: ActStart, asked_by: AskedBy) -> None:
        """Readings are recorded together, so that none of a pending batch was recorded."""
        questions = [question_from_dict(asked, self._kinds) for asked in begun.asked]
        spend = None if begun.options["spend"] is None else Fraction(begun.options["spend"])
        if any(query is None for query in questions):
            self._end_without_result(begun, asked_by)
            return
        queries = [query for query in questions if query is not None]
        kind: Literal["read", "close"] = "close" if begun.kind == "close" else "read"
        expects, requests = begun.options["expect"], begun.options["requests"]
        self._readings = [
            PlannedReading(
                query,
                RoundAct(kind, len(queries), index + 1, spend, expects[index]),
                AskedBy(asked_by.time, asked_by.who, requests[index]),
            )
            for index, query in enumerate(queries)
        ]
        self._read_the_rest({})

    # another process, the past -------------------------------------------------------------------------------------------

    def shield_with(self, shield: PrivacyShield) -> None:
        """Charge as a private study does from now on, and what was interrupted before."""
        self.shield = shield
        shield.charge_unrecorded()

    @property
    def privacy(self) -> PrivacyAccount | None:
        """What a private study has spent; None where nothing is promised."""
        return None if self._acting is None else self._acting.budget.privacy

    def make_durable(self, journal: Journal) -> None:
        """Record in this journal from now on. Only before the first question."""
        if len(self.journal):
            raise LedgerError("a session that has answered questions cannot change its record.")
        self.journal = journal

    def pause(self) -> None:
        """Let another process ask; this one goes on after `resume`. Without a file there is nothing to do."""
        with self._lock:
            if self._asking() is not None or self._decided is not None or self.journal.waiting:
                raise LedgerError("a holdout cannot be paused while it answers. Pause it before or afterwards.")
            if (store := self.journal.store) is not None and not store.broken:
                if self.in_own_process:
                    self.journal.leave()
                store.pause()

    def release(self) -> None:
        """Give up the study's file, so that another process may ask."""
        if (store := self.journal.store) is not None:
            if self.in_own_process:
                self.journal.leave()
            store.close()

    def resume(self) -> None:
        """Ask again here, after taking over what other processes have recorded meanwhile.

        Raises:
            LedgerBusy: another process is asking.
        """
        with self._lock:
            if (store := self.journal.store) is None or not store.paused:
                return
            if not self.in_own_process:
                raise LedgerError(
                    "this holdout was opened in another process. Open it here after the processes have parted."
                )
            store.resume()
            try:
                parsed = (parse_record(record, self._kinds, parse="surprises") for record in store.new_records())
                self.restore(parsed, store.path)
                self.shield.reload()
                self.shield.charge_unrecorded()
                self.end_interrupted_act()
            except BaseException:  # half of what was recorded is taken over: nothing may be answered from that
                store.fail()
                raise

    def restore(self, parsed_records: Iterable[ParsedRecord], where: object) -> None:
        """Take over what is recorded. Quiet asks only count; what disclosed something teaches what it taught then."""

        def record() -> Iterator[Round | RecordedAct]:
            for parsed in parsed_records:
                if isinstance(parsed, Repeat):
                    self.journal.restore_repeat(parsed.asked_by.request_id, parsed.number)
                elif isinstance(parsed, ParsedFinding):
                    self.journal.restore_finding(parsed.finding, parsed.asked_by)
                elif isinstance(parsed, ParsedActStart):
                    self.journal.restore_act_start(parsed.begun, parsed.asked_by)
                elif isinstance(parsed, ParsedActEnd):
                    yield self.journal.restore_act_end(parsed.done)
                else:
                    self.journal.restore_round(parsed.round, parsed.asked_by)
                    yield parsed.round

        for past, replayed in walk(self.mechanism, record(), every=False):
            if replayed is not None and replayed.proposal.forecast != past.forecast:
                raise LedgerError(f"round {past.number} of {where} does not replay: audit it.")
