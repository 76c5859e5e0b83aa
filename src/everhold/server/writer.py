"""One study behind one writer thread. Whatever asks goes through its queue; readers see what is durable, beside it.

Questions that wait together are answered in one turn (`Holdout.ask_each`): one scan of the rows, one record on the disk,
each as if it had been asked alone, in the order of arrival. An answer's future is filled after the record is durable.

Readers see a round when its answer leaves, on the grid of whoever asked it: nobody learns by looking often how long the
private rows took.
"""

from __future__ import annotations

import asyncio
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.errors import EverholdError, LedgerError, PrecisionExhausted, RequestConflict
from everhold.ledger.codec import kind_asked
from everhold.ledger.reader import LoggedRound, StudyFile, read_study, told_of
from everhold.ledger.store import Head
from everhold.ledger.study import Study
from everhold.mechanism.tolerance import FixedPrecision
from everhold.queries.expression.question import size_of_query
from everhold.queries.request import Request
from everhold.server.grid import slot
from everhold.session.holdout import Holdout
from everhold.session.settings import Settings
from everhold.statistics.rehearsal import Rehearsal, as_answer
from everhold.statistics.shortcuts import Asker

if TYPE_CHECKING:
    from everhold.data.schema import Schema
    from everhold.queries.answer import Answer, Preview
    from everhold.queries.expression import BoundedMean, Expression
    from everhold.queries.query import Query

__all__ = ["Busy", "Caller", "Desked", "Progress", "StudyWriter"]

T = TypeVar("T")

_AT_ONCE = 256  # questions that are answered in one turn
_MOST_WAITING = 20_000
_PREVIEWS = 16  # of a rehearsal, that are made in one turn
_STALLED = 300.0  # seconds
_PIECE = 1_000_000_000  # parts times private rows that are evaluated in one turn: a second or so


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a study stands, as far as it is durable."""

    rounds: int
    surprises: int
    spent: float
    head: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, for the record, and when.

    Attributes:
        who: a name.
        request_id: of the whole question; its parts have `<id>/1`, `<id>/2` ….
        time: of arrival, for the record.
        arrived: the same on the monotonic clock, where the grid begins; None: no grid.
        permit: told how many parts come next; it may refuse them.
    """

    who: str | None = None
    request_id: str | None = None
    time: str | None = None
    arrived: float | None = None
    permit: Callable[[int], None] = lambda _: None

    def request(self, question: str | Query, part: int | None = None) -> Request:
        """One question of this caller."""
        named = self.request_id is not None and part is not None
        return Request(question, f"{self.request_id}/{part}" if named else self.request_id, self.who, self.time)


@dataclass(frozen=True, slots=True)
class _Ask:
    request: Request
    future: Future[Answer]
    arrived: float | None


@dataclass(frozen=True, slots=True)
class _Work:
    do: Callable[[Holdout], Any]
    future: Future[Any]
    arrived: float | None


class StudyWriter:
    """A study that many may ask at once.

    Args:
        path: of the study.
        data: the private rows, where they are not at the place that the key file remembers.
        grid: in seconds; rounds are shown at whole multiples of it after their question came.
        most_questions: of one batch or table.
        question_seconds: how long a question may take on the public rows.
    """

    def __init__(
        self,
        path: Path,
        *,
        data: str | None = None,
        grid: float = 0.0,
        most_questions: int = 1_000,
        question_seconds: float = 20.0,
    ) -> None:
        self.path = path
        self._seconds = question_seconds
        self.name = path.stem
        self.most_questions = most_questions
        self._grid = grid
        self._holdout = Holdout.open(path, data=data)
        try:
            file = read_study(path)
        except BaseException:
            self._holdout.close()
            raise
        self.study: Study = file.study
        self._told = list(file.told)
        self._shown = self._stands()
        self._coming: deque[tuple[float, Progress]] = deque()
        self._showing, self._putting = Lock(), Lock()
        self._waiting: queue.Queue[_Ask | _Work | None] = queue.Queue(_MOST_WAITING)
        self._closed = False
        self._since: float | None = None  # when the writer began what it does now
        self._thread = Thread(target=self._write, name=f"writer of {self.name}", daemon=True)
        self._thread.start()

    # asking --------------------------------------------------------------------------------------------------------

    def ask(self, request: Request, *, arrived: float | None = None) -> Future[Answer]:
        """A question in the queue; the future is filled when its answer is durable."""
        item = _Ask(request, Future(), arrived)
        self._put(item)
        return item.future

    def do(self, work: Callable[[Holdout], T], *, arrived: float | None = None) -> Future[T]:
        """Something else to do with the holdout, in its turn."""
        future: Future[T] = Future()
        self._put(_Work(work, future, arrived))
        return future

    def parsed(self, question: str | Query) -> Query:
        """A question checked against the public columns; in any thread."""
        return self._holdout.parsed(question)

    def is_light(self, queries: Sequence[Query]) -> bool:
        """Whether they are so small together that the writer may evaluate them on the public rows beside others."""
        return self._holdout.is_light(queries)

    def pieces(self, queries: Sequence[str | Query]) -> list[list[str | Query]]:
        """A batch cut into pieces of some seconds' work at the most, so that others get their turn in between."""
        pieces: list[list[str | Query]] = [[]]
        left = _PIECE
        for query in queries:
            work = size_of_query(query) * self.study.rows
            if pieces[-1] and work > left:
                pieces.append([])
                left = _PIECE
            pieces[-1].append(query)
            left -= work
        return pieces

    def prepared(self, queries: Sequence[Query]) -> list[Query]:
        """Large questions evaluated on the public rows, within a time limit; for a thread that is not the writer's."""
        return self._holdout.prepared(queries, seconds=self._seconds)

    def asker(self, caller: Caller) -> Desked:
        """Derived questions, whose parts go through the queue; others may come between them."""
        return Desked(self, caller)

    def rehearsal(self, caller: Caller) -> Rehearsal:
        """The same questions on the public side alone."""
        return _Rehearsed(self, caller)

    def _put(self, item: _Ask | _Work) -> None:
        with self._putting:
            if self._closed:
                raise LedgerError("the server is stopping. Ask again under the same request id when it is back.")
            try:
                self._waiting.put_nowait(item)
            except queue.Full:
                raise Busy("too many questions wait. Ask again later, under the same request id.") from None

    # reading -------------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The declared columns."""
        return self.study.schema

    @property
    def standing(self) -> Progress:
        """Where the study stands, as far as its answers have left."""
        with self._showing:
            return self._advance()

    def _advance(self) -> Progress:
        now = time.monotonic()
        while self._coming and self._coming[0][0] <= now:
            self._shown = self._coming.popleft()[1]
        return self._shown

    def leaves(self) -> float:
        """When all that is durable now will have left, on the monotonic clock."""
        with self._showing:
            return self._coming[-1][0] if self._coming else time.monotonic()

    async def shown(self, number: int) -> None:
        """Until readers can see a round: whoever has its answer shall find it in the record."""
        while self.standing.rounds < number and not self.broken:
            await asyncio.sleep(max(0.001, min(self.leaves() - time.monotonic(), 1.0)))

    @property
    def told(self) -> Sequence[LoggedRound]:
        """All rounds whose answers have left."""
        return self._told[: self.standing.rounds]

    @property
    def broken(self) -> bool:
        """Whether a record could not be written, so that nothing more is told until the study is opened again."""
        return self._holdout._broken

    @property
    def stalled(self) -> bool:
        """Whether the writer has been at one turn for minutes."""
        since = self._since
        return since is not None and time.monotonic() - since > _STALLED

    @property
    def lasts(self) -> float | None:
        """The price in nats at which a promised precision will be used up; None where nothing was promised."""
        settings = Settings.from_dict(self.study.settings)
        contract = settings.contract()
        if not isinstance(contract, FixedPrecision):
            return None
        rows = self.study.rows - settings.known_rows
        return contract.lasts(rows=rows, draws=self.study.draws, known=2.0 * settings.known_rows / rows)

    def file(self) -> StudyFile:
        """The study as its file would be read, as far as its answers have left, without reading it."""
        standing = self.standing
        told = tuple(self._told[: standing.rounds])
        return StudyFile(self.path, self.study, told, Head.parse(standing.head), standing.spent)

    def _stands(self) -> Progress:
        held = self._holdout
        return Progress(held.rounds, held.surprises, held.spent, held.head)

    # the writer ----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        going = True
        while going:
            item = self._waiting.get()
            asks: list[_Ask] = []
            work = 0
            while item is not None:
                if isinstance(item, _Ask):
                    asks.append(item)
                    work += size_of_query(item.request.question) * self.study.rows
                if isinstance(item, _Work) or len(asks) >= _AT_ONCE or work > _PIECE:
                    self._answer(asks)
                    asks, work = [], 0
                if isinstance(item, _Work):
                    self._run(item)
                try:
                    item = self._waiting.get_nowait()
                except queue.Empty:
                    break
            else:
                going = False
            self._answer(asks)

    def _answer(self, asks: list[_Ask]) -> None:
        asks = [one for one in asks if one.future.set_running_or_notify_cancel()]
        if not asks:
            return
        try:
            self._since = time.monotonic()
            found = self._holdout.ask_each([one.request for one in asks])
            self._publish([one.arrived for one in asks])
        except BaseException as error:  # nothing is told to anybody
            for one in asks:
                one.future.set_exception(error)
            return
        finally:
            self._since = None
        for one, answer in zip(asks, found, strict=True):
            if isinstance(answer, EverholdError):
                one.future.set_exception(answer)
            else:
                one.future.set_result(answer)

    def _run(self, item: _Work) -> None:
        if not item.future.set_running_or_notify_cancel():
            return
        try:
            self._since = time.monotonic()
            try:
                found = item.do(self._holdout)
            finally:
                self._since = None
                if not self.broken:
                    self._publish([item.arrived])  # also where a batch was refused on its way
        except BaseException as error:
            item.future.set_exception(error)
            return
        item.future.set_result(found)

    def _publish(self, arrived: Sequence[float | None]) -> None:
        """Let readers see what has become durable, once the last of its answers leaves."""
        journal, head = self._holdout.journal, self._holdout.head
        for number in range(len(self._told) + 1, len(journal) + 1):
            past = journal[number]
            self._told.append(told_of(past, journal.circumstance(number), kind_asked(past)))
        with self._showing:
            self._advance()
            last = self._coming[-1][1] if self._coming else self._shown
            if last.head == head:
                return
            now = time.monotonic()
            leaves = max((slot(one, now, self._grid) for one in arrived), default=now)
            if self._coming:
                leaves = max(leaves, self._coming[-1][0])
            self._coming.append((leaves, self._stands()))

    def close(self) -> None:
        """Answer what waits, then give up the study. Where the writer takes too long, `serve.run` ends the process."""
        with self._putting:
            if self._closed:
                return
            self._closed = True
        self._waiting.put(None)
        self._thread.join()
        self._holdout.close()

    def __repr__(self) -> str:
        return f"StudyWriter({self.name}, {self.standing.rounds:,} questions)"


class Busy(EverholdError):
    """More waits than the queue holds."""


class Desked(Asker):
    """Derived questions of one caller.

    Attributes:
        paid: the parts that were answered, also where a later one was refused.
    """

    def __init__(self, desk: StudyWriter, caller: Caller) -> None:
        self._desk, self._caller = desk, caller
        self._most_cells = desk.most_questions
        self._asked = 0
        self.paid: list[Answer] = []

    def _declared(self) -> Schema:
        return self._desk.schema

    def _ask_parts(self, queries: Sequence[Expression | BoundedMean]) -> list[Answer]:
        self._caller.permit(len(queries))
        requests = []
        for query in self._desk.prepared(queries):
            self._asked += 1
            requests.append(self._caller.request(query, self._asked))
        arrived = self._caller.arrived
        if len(requests) == 1:  # beside the questions of others
            found = [_or_error(self._desk.ask(requests[0], arrived=arrived))]
        else:
            found = []
            for piece in self._desk.pieces([one.question for one in requests]):
                some = requests[len(found) : len(found) + len(piece)]
                found += self._desk.do(partial(_each, some), arrived=arrived).result()
        answers = [one for one in found if not isinstance(one, EverholdError)]
        self.paid += answers
        if refused := [one for one in found if isinstance(one, EverholdError)]:
            raise self._explained(refused[0])
        return answers

    def _explained(self, refusal: EverholdError) -> EverholdError:
        """What was paid for before a refusal is told with it."""
        if isinstance(refusal, PrecisionExhausted):
            refusal.answers = list(self.paid)
        elif isinstance(refusal, RequestConflict) and self.paid:
            said = str(refusal).removesuffix(" Nothing was charged.")
            return RequestConflict(f"{said} {len(self.paid)} parts of this one were answered, and stay recorded.")
        return refusal


def _each(requests: Sequence[Request], held: Holdout) -> list[Answer | EverholdError]:
    return held.ask_each(requests)


def _or_error(future: Future[Answer]) -> Answer | EverholdError:
    try:
        return future.result()
    except EverholdError as error:
        if isinstance(error, LedgerError) and not isinstance(error, RequestConflict):
            raise
        return error


def _previewed(queries: Sequence[Query], held: Holdout) -> list[Answer]:
    return [as_answer(held.try_out(query)) for query in queries]


def _tried_out(desk: StudyWriter, query: Query) -> Preview:
    return desk.do(lambda held: held.try_out(query)).result()


class _Rehearsed(Rehearsal):
    """Rehearsals in turns with the questions, some previews at a time."""

    def __init__(self, desk: StudyWriter, caller: Caller) -> None:
        super().__init__(lambda query: _tried_out(desk, desk.prepared([query])[0]), desk.schema)
        self._desk, self._permit = desk, caller.permit
        self._most_cells = desk.most_questions

    def _ask_parts(self, queries: Sequence[Expression | BoundedMean]) -> list[Answer]:
        found: list[Answer] = []
        self._permit(len(queries))
        for start in range(0, len(queries), _PREVIEWS):
            some = self._desk.prepared(queries[start : start + _PREVIEWS])
            found += self._desk.do(partial(_previewed, some)).result()
        return found
