"""One study behind one writer thread. Whatever asks goes through its queue; readers see what is durable, beside it.

Questions that wait together are answered in one turn (`Holdout.ask_each`): one scan of the rows, one record on the disk,
each as if it had been asked alone, in the order of arrival. An answer's future is filled after the record is durable.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.errors import EverholdError, LedgerError
from everhold.holdout import Holdout
from everhold.ledger.reading import StudyFile, Told, read_study, told_of
from everhold.ledger.store import Head
from everhold.ledger.study import Study
from everhold.mechanism.tolerance import FixedPrecision
from everhold.queries.expression import Expression
from everhold.queries.request import Request
from everhold.questions.asker import Asker
from everhold.questions.rehearsal import Rehearsal
from everhold.settings import Settings

if TYPE_CHECKING:
    from everhold.data.schema import Schema
    from everhold.queries.answer import Answer
    from everhold.queries.expression import Graded

__all__ = ["Busy", "Desk", "Desked", "Standing"]

T = TypeVar("T")

_AT_ONCE = 256  # questions that are answered in one turn
_MOST_WAITING = 20_000


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a study stands, as far as it is durable."""

    rounds: int
    surprises: int
    spent: float
    head: str


@dataclass(frozen=True, slots=True)
class _Ask:
    request: Request
    future: Future[Answer]


@dataclass(frozen=True, slots=True)
class _Work:
    do: Callable[[Holdout], Any]
    future: Future[Any]


class Desk:
    """A study that many may ask at once.

    Args:
        path: of the study.
        data: the private rows, where they are not at the place that the key file remembers.
    """

    def __init__(self, path: Path, *, data: str | None = None) -> None:
        self.path = path
        self.name = path.stem
        self._holdout = Holdout.open(path, data=data)
        try:
            file = read_study(path)
        except BaseException:
            self._holdout.close()
            raise
        self.study: Study = file.study
        self._told = list(file.told)
        self.standing = self._stands()
        self._waiting: queue.Queue[_Ask | _Work | None] = queue.Queue(_MOST_WAITING)
        self._closed = False
        self._thread = Thread(target=self._write, name=f"writer of {self.name}", daemon=True)
        self._thread.start()

    # asking --------------------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Future[Answer]:
        """A question in the queue; the future is filled when its answer is durable."""
        item = _Ask(request, Future())
        self._put(item)
        return item.future

    def do(self, work: Callable[[Holdout], T]) -> Future[T]:
        """Something else to do with the holdout, in its turn."""
        future: Future[T] = Future()
        self._put(_Work(work, future))
        return future

    def asker(self, who: str, request_id: str | None) -> Desked:
        """Derived questions, whose parts go through the queue; others may come between them."""
        return Desked(self, who, request_id)

    @property
    def rehearsal(self) -> Rehearsal:
        """The same questions on the public side alone."""
        return Rehearsal(lambda query: self.do(lambda held: held.try_out(query)).result(), self.schema)

    def _put(self, item: _Ask | _Work) -> None:
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
    def told(self) -> Sequence[Told]:
        """All rounds that are durable. It grows at its end only."""
        return self._told

    @property
    def broken(self) -> bool:
        """Whether a record could not be written, so that nothing more is told until the study is opened again."""
        return self._holdout._broken

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
        """The study as its file would be read, as far as it is durable, without reading it."""
        standing = self.standing
        return StudyFile(
            self.path, self.study, tuple(self._told[: standing.rounds]), Head.parse(standing.head), standing.spent
        )

    def _stands(self) -> Standing:
        held = self._holdout
        return Standing(held.rounds, held.surprises, held.spent, held.head)

    # the writer ----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        going = True
        while going:
            item = self._waiting.get()
            asks: list[_Ask] = []
            while item is not None:
                if isinstance(item, _Ask):
                    asks.append(item)
                if isinstance(item, _Work) or len(asks) >= _AT_ONCE:
                    self._answer(asks)
                    asks = []
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
            found = self._holdout.ask_each([one.request for one in asks])
            self._publish()
        except BaseException as error:  # nothing is told to anybody
            for one in asks:
                one.future.set_exception(error)
            return
        for one, answer in zip(asks, found, strict=True):
            if isinstance(answer, EverholdError):
                one.future.set_exception(answer)
            else:
                one.future.set_result(answer)

    def _run(self, item: _Work) -> None:
        if not item.future.set_running_or_notify_cancel():
            return
        try:
            found = item.do(self._holdout)
        except BaseException as error:
            if not self.broken:
                self._publish()  # a batch may have been refused on its way
            item.future.set_exception(error)
            return
        self._publish()
        item.future.set_result(found)

    def _publish(self) -> None:
        """Let readers see what has become durable."""
        journal = self._holdout.journal
        for number in range(len(self._told) + 1, len(journal) + 1):
            past = journal[number]
            self._told.append(told_of(past, journal.circumstance(number), yes_no=isinstance(past.question, Expression)))
        if self.standing.rounds != len(self._told) or self.standing.head != self._holdout.head:
            self.standing = self._stands()

    def close(self) -> None:
        """Answer what waits, then give up the study."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()
        while True:  # what came between the last look and the end
            try:
                left = self._waiting.get_nowait()
            except queue.Empty:
                break
            if left is not None:
                left.future.set_exception(LedgerError("the server is stopping. Ask again when it is back."))
        self._holdout.close()

    def __repr__(self) -> str:
        return f"Desk({self.name}, {self.standing.rounds:,} questions)"


class Busy(EverholdError):
    """More waits than the queue holds."""


class Desked(Asker):
    """Derived questions of one caller."""

    def __init__(self, desk: Desk, who: str, request_id: str | None) -> None:
        self._desk, self._who, self._id = desk, who, request_id
        self._asked = 0

    def _declared(self) -> Schema:
        return self._desk.schema

    def _ask_parts(self, queries: Sequence[Expression | Graded]) -> list[Answer]:
        futures = []
        for query in queries:
            self._asked += 1
            request_id = None if self._id is None else f"{self._id}/{self._asked}"
            futures.append(self._desk.ask(Request(query, request_id, self._who)))
        return [future.result() for future in futures]
