"""The record of a session: rounds in order, nothing ever taken back. In memory, or in a study's file as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.errors import LedgerError, ReplayError
from everhold.ledger.codec import act_end_record, act_start_record, finding_record, repeat_record, round_record
from everhold.ledger.rounds import RecordedAct
from everhold.queries.request import AskedBy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from everhold.ledger.rounds import ActEnd, ActStart, RecordedFinding, Round
    from everhold.ledger.store import Record, Store
    from everhold.queries.protocol import Outcome

__all__ = ["Journal"]


class Journal:
    """Rounds, dense and rising. An answer that is not in it, flushed, has not been given.

    Args:
        store: the study's file; None keeps the record in memory only.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._rounds: list[Round] = []
        self._named: dict[str, Round] = {}
        self._requests: dict[str, int] = {}
        self._times: list[AskedBy] = []
        self._waiting: list[Record] = []
        self._findings: list[tuple[int, RecordedFinding, AskedBy]] = []
        self._found: set[str] = set()
        self._read: dict[str, Round] = {}
        self._closing: dict[str, Round] = {}
        self._pending: tuple[ActStart, AskedBy] | None = None
        self._acts: list[tuple[RecordedAct, AskedBy]] = []
        self._requested_acts: dict[str, RecordedAct] = {}
        self._when_durable: list[Callable[[Store], None]] = []
        self._when_leaving: list[Callable[[Store], None]] = []

    @property
    def store(self) -> Store | None:
        """The study's file."""
        return self._store

    def add_round(self, round: Round, asked_by: AskedBy | None = None) -> None:  # noqa: A002
        """Add the next round. It is durable after `flush`."""
        asked_by = asked_by or AskedBy()
        if self._store is not None:
            self._waiting.append(round_record(round, asked_by))
        self.restore_round(round, asked_by)

    def restore_round(self, round: Round, asked_by: AskedBy) -> None:  # noqa: A002
        """Add a round that is durable already."""
        if round.number != len(self._rounds) + 1:
            raise ReplayError(f"round {round.number} cannot follow round {len(self._rounds)}.")
        self._rounds.append(round)
        self._times.append(asked_by)
        if round.name is not None:
            if round.act.kind != "ask":
                self._read[round.name] = _narrower(self._read.get(round.name), round)
            if round.act.kind == "close":
                self._closing[round.name] = round
            self._named[round.name] = _narrower(self._named.get(round.name), round)
        if round.act.kind != "ask" and round.act.part == round.act.parts:
            self._pending = None
        if asked_by.request_id is not None:
            self._requests[asked_by.request_id] = round.number

    def add_act_start(self, begun: ActStart, asked_by: AskedBy) -> None:
        """Note that an act is about to read private rows. It must be durable before it does."""
        if self._store is not None:
            self._waiting.append(act_start_record(begun, asked_by))
        self.restore_act_start(begun, asked_by)

    def restore_act_start(self, begun: ActStart, asked_by: AskedBy) -> None:
        """An act that is about to read private rows, durable already."""
        if self._pending is not None:
            raise LedgerError(f"an act {begun.kind!r} begins before {self._pending[0].kind!r} has ended.")
        self._pending = begun, asked_by

    def add_act_end(self, done: ActEnd, asked_by: AskedBy) -> RecordedAct:
        """Note how the act ended. It waits to be written before anything here can return it: an interrupt may come."""
        if self._store is not None:
            self._waiting.append(act_end_record(done, asked_by))
        return self.restore_act_end(done)

    def restore_act_end(self, done: ActEnd) -> RecordedAct:
        """How an act ended, durable already."""
        if self._pending is None:
            raise LedgerError("an act ends that never began.")
        (begun, asked_by), self._pending = self._pending, None
        act = RecordedAct(begun, done, len(self._rounds))
        self._acts.append((act, asked_by))
        if asked_by.request_id is not None and not done.interrupted:
            self._requested_acts[asked_by.request_id] = act
        return act

    @property
    def pending(self) -> tuple[ActStart, AskedBy] | None:
        """An act that began and has not ended."""
        return self._pending

    @property
    def recorded_acts(self) -> Sequence[tuple[RecordedAct, AskedBy]]:
        """Acts that are not made of rounds."""
        return self._acts

    def act_of_request(self, request_id: str | None) -> RecordedAct | None:
        """The act that a request was answered by, if there is one."""
        return None if request_id is None else self._requested_acts.get(request_id)

    def narrowest_reading(self, name: str | None) -> Round | None:
        """The round in which a question of that name was read, if there is one; of several the narrowest."""
        return None if name is None else self._read.get(name)

    def closing_reading(self, name: str | None) -> Round | None:
        """The round in which the last act read a question of that name, if it did."""
        return None if name is None else self._closing.get(name)

    def in_order(self) -> Iterator[Round | RecordedAct]:
        """Rounds and other acts as they happened."""
        acts = iter([*(act for act, _ in self._acts)])
        following = next(acts, None)
        for past in self._rounds:
            while following is not None and following.after < past.number:
                yield following
                following = next(acts, None)
            yield past
        while following is not None:
            yield following
            following = next(acts, None)

    def add_finding(self, finding: RecordedFinding, asked_by: AskedBy) -> None:
        """Add a statistic and its result, after the rounds that it was made of. The same one is recorded once."""
        if finding.key in self._found:
            return
        if self._store is not None:
            self._waiting.append(finding_record(finding, asked_by))
        self.restore_finding(finding, asked_by)

    def restore_finding(self, finding: RecordedFinding, asked_by: AskedBy) -> None:
        """A finding that is durable already."""
        self._findings.append((len(self._rounds), finding, asked_by))
        self._found.add(finding.key)

    @property
    def findings(self) -> Sequence[tuple[int, RecordedFinding, AskedBy]]:
        """Statistics that were asked: how many rounds there were then, what was found, and who asked."""
        return self._findings

    def add_repeat(self, number: int, asked_by: AskedBy) -> None:
        """Note that a request was answered from an earlier round."""
        if asked_by.request_id is None or asked_by.request_id in self._requests or not 1 <= number <= len(self._rounds):
            return
        if self._store is not None:
            self._waiting.append(repeat_record(number, asked_by))
        self._requests[asked_by.request_id] = number

    def restore_repeat(self, request_id: str | None, number: int) -> None:
        """A repeat that is durable already."""
        if request_id is None or not 1 <= number <= len(self._rounds):
            raise LedgerError("a repeat in the ledger belongs to no round.")
        self._requests[request_id] = number

    def flush(self) -> None:
        """Make everything durable that was added. No answer may be returned before this is done.

        Raises:
            LedgerError: it could not be written, now or earlier.
        """
        self.require_open()
        if self._store is not None and self._waiting:
            self._store.append(self._waiting)
            self._waiting = []
            for call in self._when_durable:
                call(self._store)

    def when_durable(self, call: Callable[[Store], None]) -> None:
        """Call this, after what was added before it, whenever something has become durable."""
        self._when_durable.append(call)

    def when_leaving(self, call: Callable[[Store], None]) -> None:
        """Call this before the study is given up or paused."""
        self._when_leaving.append(call)

    def leave(self) -> None:
        """The study is about to be given up or paused, whole."""
        if (store := self._store) is not None and not (store.broken or store.paused or store.closed):
            for call in self._when_leaving:
                call(store)

    def require_open(self) -> None:
        """Refuse to return anything once a record could not be written, or the study was closed or paused."""
        if self._store is None:
            return
        if self._store.broken:
            raise LedgerError(
                f"{self._store.path} could not be written, or was interrupted on the way: no further answer is returned. "
                "Open the study again; what was recorded is there."
            )
        if self._store.paused:
            raise LedgerError(f"{self._store.path} is paused, so that another process may ask. Resume it first.")
        if self._store.closed:
            raise LedgerError(f"{self._store.path} was closed. Open the study again to ask.")

    @property
    def waiting(self) -> bool:
        """Whether something is not durable yet."""
        return bool(self._waiting)

    def narrowest_answer(self, name: str | None) -> Round | None:
        """The round in which a question of that name was answered, if there is one."""
        return None if name is None else self._named.get(name)

    def round_of_request(self, request_id: str | None) -> Round | None:
        """The round that answered a request, if there is one."""
        number = None if request_id is None else self._requests.get(request_id)
        return None if number is None else self._rounds[number - 1]

    def asked_by(self, number: int) -> AskedBy:
        """When round `number` was asked, and by whom."""
        return self._times[number - 1]

    def transcript(self) -> dict[int, tuple[Outcome, tuple[int, ...] | None]]:
        """Z: for every round that disclosed something its outcome, and the coefficients fitted then."""
        return {past.number: (past.outcome, past.fit) for past in self._rounds if past.outcome is not None}

    def __repr__(self) -> str:
        surprises = sum(past.answer.surprise for past in self._rounds)
        return f"Journal(rounds: {len(self._rounds):,}, surprises: {surprises:,})"

    def __len__(self) -> int:
        return len(self._rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self._rounds)

    def __getitem__(self, number: int) -> Round:
        """Round `number`, the first being 1."""
        if not 1 <= number <= len(self._rounds):
            raise IndexError(f"there are rounds 1 to {len(self._rounds)}, not {number}")
        return self._rounds[number - 1]


def _narrower(earlier: Round | None, later: Round) -> Round:
    """Of two answers to one question the narrower one: both are valid, and the last act may be the wider one."""
    if earlier is None or later.answer.high - later.answer.low <= earlier.answer.high - earlier.answer.low:
        return later
    return earlier
