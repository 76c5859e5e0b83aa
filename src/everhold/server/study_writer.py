"""One study behind one writer thread: many may ask at once.

Questions that wait together are answered in one turn (`Holdout.ask_each`): one scan of the rows, one record on the disk,
each as if it had been asked alone, in the order of arrival. An act beyond asking has a turn of its own. Everything here
that depends on private rows leaves on the grid, so that no route can forget it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from everhold import acts
from everhold.errors import (
    EverholdError,
    LedgerError,
    PrecisionExhausted,
    QuestionError,
    RequestConflict,
    after_charge,
)
from everhold.ledger.reader import StudyFile, read_study
from everhold.ledger.store import Head
from everhold.mechanism.tolerance import FixedPrecision
from everhold.queries.expression.question import size_of_query
from everhold.queries.request import AskedBy, Request
from everhold.queries.round_act import RoundAct
from everhold.server.examples import examples
from everhold.server.job_queue import Job, JobQueue, OwnThread, StartRunner
from everhold.server.released import RecordSoFar, ReleasedView, StudyProgress
from everhold.session.act_preview import ActPreview, charge_text, how_read, prices_after
from everhold.session.act_questions import checked_spend
from everhold.session.caps import Caps
from everhold.session.holdout import Holdout
from everhold.session.settings import Settings
from everhold.statistics import require_no_expect
from everhold.statistics.declared import DeclaredColumns
from everhold.statistics.rehearsal import as_answer
from everhold.statistics.statistic import QuestionBatch, Statistic, arun
from everhold.trial import Previews, Trial, as_reading, as_statistic

if TYPE_CHECKING:
    from everhold.acts import AnyAct
    from everhold.data.schema import Schema
    from everhold.ledger.study import Study
    from everhold.queries.answer import Answer, Preview
    from everhold.queries.query import Query
    from everhold.server.limits import Slots
    from everhold.server.time_grid import TimeGrid
    from everhold.statistics.finding import Result

__all__ = ["Caller", "StudyWriter"]

R = TypeVar("R")
T = TypeVar("T")

_PREVIEWS = 16  # of a rehearsal, that are made in one turn
_PIECE = 1_000_000_000  # parts times private rows that are evaluated in one turn: a second or so
_MOST_WORK = 100 * _PIECE  # of one act, which is done in one turn
_SHORT = 2_000  # characters of questions that are parsed without a thread


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, for the record, and when.

    Attributes:
        key: whose limits count.
        asked_by: for the record: the time of arrival, a name, and the request id of the whole question.
        arrived: when it came, on the grid's clock; None: no grid.
        permit: is called with the number of questions that come next; it may refuse them.
        paid: answers to parts that were recorded, also where a later one was refused.
    """

    key: str = ""
    asked_by: AskedBy = field(default_factory=AskedBy)
    arrived: float | None = None
    permit: Callable[[int], None] = lambda _: None
    paid: list[Answer] = field(default_factory=list)

    def request(self, question: str | Query, part: int | None = None, expect: float | None = None) -> Request:
        """One question of this caller."""
        return Request(question, self.asked_by if part is None else self.asked_by.part(part), expect)


class StudyWriter:
    """A study that many may ask at once.

    Args:
        path: of the study.
        data: the private rows, where they are not at the place that the key file remembers.
        grid: when answers leave, or a function from the opened study to it.
        slots: for work that takes a thread.
        most_questions: of one batch or table.
        question_seconds: how long a question may take on the public rows.
        charges_each: of a private study, how many surprises, readings and choices each name may cause; None: any.
        start: makes what runs the writer's turns.
    """

    kind: Literal["study"] = "study"

    def __init__(
        self,
        path: Path,
        *,
        grid: TimeGrid | Callable[[Study], TimeGrid],
        slots: Slots,
        data: str | None = None,
        most_questions: int = 1_000,
        question_seconds: float = 20.0,
        charges_each: int | None = None,
        start: StartRunner = OwnThread,
    ) -> None:
        self.path, self.name = path, path.stem
        self._slots = slots
        self._most, self._seconds = most_questions, question_seconds
        self._holdout = Holdout.open(path, data=data)
        self.ended_at_opening = self._holdout.session.recorder.ended_at_opening
        try:
            self._holdout.session.caps = Caps.of(charges_each, self._holdout.privacy, path)
            file = read_study(path)
        except BaseException:
            self._holdout.release()
            raise
        self.study: Study = file.study
        self._grid = grid = grid(file.study) if callable(grid) else grid
        self._record = RecordSoFar(path, file.study, self._holdout, known=file)
        self._released = ReleasedView(self._record.update(), grid)
        self._last_head = self._holdout.head
        self._jobs = JobQueue(self.name, self._handle, grid.clock, start)

    # asking --------------------------------------------------------------------------------------------------------

    @overload
    async def ask(self, caller: Caller, question: str, *, expect: float | None = None) -> Answer: ...

    @overload
    async def ask(self, caller: Caller, question: Statistic[R], *, expect: None = None) -> R: ...

    @overload
    async def ask(self, caller: Caller, question: str | Statistic[R], *, expect: float | None = None) -> Any: ...

    async def ask(self, caller: Caller, question: str | Statistic[R], *, expect: float | None = None) -> Any:
        """The answer to a yes/no question, or a statistic. `Holdout.ask` says more."""
        if not isinstance(question, str):
            require_no_expect(question, expect)
            return await self._ask_statistic(caller, question)
        async with self._grid.release(caller.arrived):
            query = (await self._parse_and_evaluate(caller, [question]))[0]
            answer: Answer = await self._queued(caller.request(query, expect=expect), caller)
        await self._wait_for_round(answer.round)
        return answer

    async def ask_many(self, caller: Caller, questions: Sequence[str]) -> list[Answer]:
        """Answers in order. All questions are checked before the first is charged."""
        async with self._grid.release(caller.arrived):
            queries = await self._parse_and_evaluate(caller, questions)
            answers: list[Answer] = []
            for piece in self._pieces(queries):
                work = partial(self._holdout.session.ask_parts, piece, caller.asked_by, first=len(answers) + 1)
                try:
                    answers += await self._queued(work, caller)
                except PrecisionExhausted as refusal:
                    refusal.answers = [*answers, *refusal.answers]
                    raise
        await self._wait_for_round(max(answer.round for answer in answers))
        return answers

    async def _ask_statistic(self, caller: Caller, statistic: Statistic[R]) -> R:
        """Its parts go through the queue, and other questions may come between them."""
        try:
            async with self._grid.release(caller.arrived):
                with self._slots.room(caller.key):
                    found = await arun(statistic.steps(self._declared), partial(self._ask_parts, caller))
                    await self._queued(partial(self._holdout.record_finding, statistic, found, caller.asked_by), caller)
        finally:
            await self._wait_for_round(max((one.round for one in caller.paid), default=0))
        return found

    async def act(self, caller: Caller, wanted: AnyAct) -> Any:
        """An act, in a turn of its own. What is wrong with it is found on the public side, before that turn."""
        async with self._grid.release(caller.arrived):
            with self._slots.room(caller.key):
                await self._check(caller, wanted)
                found, records = await self._queued(partial(self._perform, wanted, caller), caller)
        await self._wait_until(lambda: self.progress.records >= records)
        return found

    async def try_act(self, caller: Caller, wanted: AnyAct) -> ActPreview:
        """What an act would show and cost. No private row is read, and nothing is charged."""
        async with self._grid.release(caller.arrived):
            with self._slots.room(caller.key):
                self._holdout.require_open()
                parts = await self._check(caller, wanted)
                if isinstance(wanted, acts.Certify):
                    spend = checked_spend(wanted.spend)
                    await self._queued(partial(self._holdout.acts.require_narrower, wanted.round, spend), caller)
                read = how_read(wanted, parts)
                results, nats = ([], []) if read is None else await self._as_read(caller, acts.questions_of(wanted), read)
        if isinstance(wanted, acts.Certify):
            await self._wait_for_round(wanted.round)
        budget = self.progress.budget
        charge = charge_text(wanted, budget.privacy, parts)
        return ActPreview(tuple(results), budget.claim_price(), prices_after(wanted, budget, nats), charge)

    async def _as_read(
        self, caller: Caller, questions: Sequence[object], read: RoundAct
    ) -> tuple[list[Result], list[float]]:
        """What a reading would show if it found the forecasts, and what each of its parts would disclose."""
        nats: list[float] = []

        async def tried(batch: Sequence[Query]) -> list[Answer]:
            previews: list[Preview] = []
            for start in range(0, len(batch), _PREVIEWS):
                some = await self._evaluate_off_thread(caller, batch[start : start + _PREVIEWS])
                previews += await self._queued(partial(_preview_each, self._holdout, some, read), caller)
            nats.extend(preview.read_costs for preview in previews)
            return [as_reading(preview) for preview in previews]

        texts = await tried(
            await self._parse_and_evaluate(caller, [question for question in questions if isinstance(question, str)])
        )
        answers = iter(texts)
        return [
            next(answers) if isinstance(question, str) else await arun(as_statistic(question).steps(self._declared), tried)
            for question in questions
        ], nats

    async def _check(self, caller: Caller, wanted: AnyAct) -> int:
        """Count the parts of an act, and try them on the public side. A closed study returns what is recorded."""
        questions = acts.questions_to_try(wanted)
        if self._holdout.closed:
            caller.permit(max(1, len(questions)))
            return 0
        parts, work = 0, 0

        def count(queries: Sequence[Query]) -> None:
            nonlocal parts, work
            parts += len(queries)
            work += sum(size_of_query(query) for query in queries) * self.study.rows
            if work > _MOST_WORK:
                raise QuestionError(
                    "this act would take minutes on the private rows, and others wait meanwhile. Expected fewer or shorter "
                    "questions. Nothing was charged."
                )

        async def rehearsed(batch: QuestionBatch) -> list[Answer]:
            count(batch)
            return await self._rehearse_parts(caller, batch)

        texts = [one for one in questions if isinstance(one, str)]
        caller.permit(len(texts))
        count(await self._parse_and_evaluate(caller, texts))
        for one in questions:
            if not isinstance(one, str):
                await arun(as_statistic(one).steps(self._declared), rehearsed)
        return parts

    def _perform(self, wanted: AnyAct, caller: Caller) -> tuple[Any, int]:
        """In the writer's thread: the result, and how many records there are with it; 0 where there is no new one."""
        holdout, before = self._holdout, self._holdout.head
        found = holdout.acts.do(wanted, caller.asked_by)
        return found, 0 if holdout.head == before else Head.parse(holdout.head).records

    @overload
    async def try_out(self, caller: Caller, question: str) -> Preview: ...

    @overload
    async def try_out(self, caller: Caller, question: Statistic[Any]) -> Trial: ...

    async def try_out(self, caller: Caller, question: str | Statistic[Any]) -> Preview | Trial:
        """As `Holdout.try_out`: a preview of a yes/no question; of a statistic a trial, as `try_both` gives it."""
        if not isinstance(question, str):
            return await self.try_both(caller, question)
        async with self._grid.release(caller.arrived):
            query = (await self._parse_and_evaluate(caller, [question]))[0]
            preview: Preview = await self._queued(partial(self._holdout.try_out, query), caller)
        return preview

    async def rehearse(self, caller: Caller, statistic: Statistic[R]) -> R:
        """As `Holdout.rehearsal`: a statistic's result if no part of it were a surprise."""
        async with self._grid.release(caller.arrived):
            with self._slots.room(caller.key):
                return await arun(statistic.steps(self._declared), partial(self._rehearse_parts, caller))

    async def try_both(self, caller: Caller, question: object) -> Trial:
        """What ask and read would show of a question or a statistic."""
        wanted, previews = as_statistic(question), Previews()

        async def tried(answers: Callable[[QuestionBatch], list[Answer]], batch: QuestionBatch) -> list[Answer]:
            new = previews.missing(batch)
            caller.permit(len(new))
            for start in range(0, len(new), _PREVIEWS):
                some = await self._evaluate_off_thread(caller, new[start : start + _PREVIEWS])
                work = partial(_preview_each, self._holdout, some, RoundAct("read", parts=len(batch)))
                found = await self._queued(work, caller)
                previews.by_name |= {query.name: one for query, one in zip(some, found, strict=True)}
            return answers(batch)

        async with self._grid.release(caller.arrived):
            with self._slots.room(caller.key):
                ask = await arun(wanted.steps(self._declared), partial(tried, previews.asked))
                read = await arun(wanted.steps(self._declared), partial(tried, previews.read))
        return previews.trial(ask, read, self.progress.budget.privacy)

    async def _ask_parts(self, caller: Caller, batch: QuestionBatch) -> list[Answer]:
        """Ask the parts of a statistic, and note what was paid for them."""
        caller.permit(len(batch))
        queries = await self._evaluate_off_thread(caller, batch)
        requests = [caller.request(query, len(caller.paid) + part) for part, query in enumerate(queries, 1)]
        found: list[Answer | EverholdError] = []
        if len(requests) == 1:  # beside the questions of others
            found.append(await self._or_error(requests[0], caller))
        else:
            for piece in self._pieces(queries):
                some = requests[len(found) : len(found) + len(piece)]
                found += await self._queued(partial(self._holdout.ask_each, some), caller)
        answers = [one for one in found if not isinstance(one, EverholdError)]
        caller.paid.extend(answers)
        if refused := [one for one in found if isinstance(one, EverholdError)]:
            raise _with_paid_parts(refused[0], caller.paid)
        return answers

    async def _or_error(self, request: Request, caller: Caller) -> Answer | EverholdError:
        try:
            answer: Answer = await self._queued(request, caller)
            return answer
        except EverholdError as error:
            if isinstance(error, LedgerError) and not isinstance(error, RequestConflict):
                raise
            return error

    async def _rehearse_parts(self, caller: Caller, batch: QuestionBatch) -> list[Answer]:
        """The parts of a statistic, as they would be answered if nothing surprised."""
        caller.permit(len(batch))
        found: list[Answer] = []
        for start in range(0, len(batch), _PREVIEWS):
            some = await self._evaluate_off_thread(caller, batch[start : start + _PREVIEWS])
            found += await self._queued(partial(_rehearse_each, self._holdout, some), caller)
        return found

    def put(self, work: Request | Callable[[], T], arrived: float | None = None) -> Future[Any]:
        """A question, or something else to do with the study, in the queue; off the grid, for this process alone."""
        return self._jobs.put(work, arrived)

    async def _queued(self, work: Request | Callable[[], Any], caller: Caller) -> Any:
        return await asyncio.wrap_future(self.put(work, caller.arrived))

    async def _parse_and_evaluate(self, caller: Caller, questions: Sequence[str]) -> list[Query]:
        """Questions parsed, and large ones evaluated on the public rows, outside the writer's thread.

        What is small altogether is done at once; anything else in a thread, so that the event loop goes on.
        """
        session = self._holdout.session
        if sum(len(question) for question in questions) > _SHORT:
            queries = await self._slots.run(caller.key, lambda: [session.query(one) for one in questions])
        else:
            queries = [session.query(question) for question in questions]
        return await self._evaluate_off_thread(caller, queries)

    async def _evaluate_off_thread(self, caller: Caller, queries: Sequence[Query]) -> list[Query]:
        """The same questions, evaluated on the public rows outside the writer's thread; small ones as they are."""
        session = self._holdout.session
        if session.scanner.is_light(queries):
            return list(queries)
        return await self._slots.run(caller.key, lambda: session.scanner.prepare(queries, seconds=self._seconds))

    def _pieces(self, queries: Sequence[Query]) -> list[list[Query]]:
        """A batch cut into pieces of some seconds' work at the most, so that others get their turn in between."""
        pieces: list[list[Query]] = [[]]
        left = _PIECE
        for query in queries:
            work = size_of_query(query) * self.study.rows
            if pieces[-1] and work > left:
                pieces.append([])
                left = _PIECE
            pieces[-1].append(query)
            left -= work
        return pieces

    @property
    def _declared(self) -> DeclaredColumns:
        return self._holdout.declared(self._most)

    # reading -------------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The declared columns."""
        return self.study.schema

    @cached_property
    def examples(self) -> dict[str, str]:
        """A question about each column, from usual values of the public rows."""
        return examples(self.study.schema, self.study.reference, self.study.weights)

    @property
    def progress(self) -> StudyProgress:
        """Where the study stands, as far as its answers have left."""
        return self._released.current

    def release_time(self) -> float:
        """When all that is durable now will have left, on the grid's clock."""
        return self._released.release_time()

    async def _wait_for_round(self, number: int) -> None:
        """Wait until a round is visible to readers, so that clients read their own writes."""
        await self._wait_until(lambda: self.progress.rounds >= number)

    async def _wait_until(self, shown: Callable[[], bool]) -> None:
        while not shown() and not self.broken:
            await self._grid.until(max(self.release_time(), self._grid.clock() + 0.001))

    @property
    def broken(self) -> bool:
        """Whether a record could not be written, so that nothing more is returned until the study is opened again."""
        return self._holdout.session.broken

    @property
    def waiting(self) -> int:
        """How many questions wait for their turn."""
        return self._jobs.waiting

    @property
    def stalled(self) -> bool:
        """Whether the writer has been at one turn for minutes."""
        return self._jobs.stalled

    @property
    def price_limit(self) -> float | None:
        """The price in nats at which a promised precision will be used up; None where nothing was promised."""
        settings = Settings.from_dict(self.study.settings)
        policy = settings.tolerance_policy()
        if not isinstance(policy, FixedPrecision):
            return None
        rows = self.study.rows - settings.known_rows
        return policy.lasts(rows=rows, draws=self.study.draws, known_shift=2.0 * settings.known_rows / rows)

    def file(self) -> StudyFile:
        """The study as its file would be read, as far as its answers have left, without reading it."""
        return self._record.file_at(self.progress)

    # the writer's thread -------------------------------------------------------------------------------------------

    def _handle(self, jobs: list[Job[Any]]) -> None:
        asks: list[Job[Any]] = []
        work = 0
        for job in jobs:
            if isinstance(job.work, Request):
                asks.append(job)
                work += size_of_query(job.work.question) * self.study.rows
                if work <= _PIECE:
                    continue
            self._answer(asks)
            asks, work = [], 0
            if not isinstance(job.work, Request):
                self._run(job)
        self._answer(asks)

    def _answer(self, asks: list[Job[Any]]) -> None:
        if not asks:
            return
        try:
            found = self._holdout.ask_each([one.work for one in asks])
            self._publish([one.arrived for one in asks])
        except BaseException as error:  # nobody gets an answer
            for one in asks:
                one.future.set_exception(error)
            return
        for one, answer in zip(asks, found, strict=True):
            if isinstance(answer, EverholdError):
                one.future.set_exception(answer)
            else:
                one.future.set_result(answer)

    def _run(self, job: Job[Any]) -> None:
        try:
            try:
                found = job.work()
            finally:
                if not self.broken:
                    self._publish([job.arrived])  # also where a batch was refused on its way
        except BaseException as error:
            job.future.set_exception(error)
            return
        job.future.set_result(found)

    def _publish(self, arrived: Sequence[float | None]) -> None:
        """Let readers see what has become durable, once the last of its answers leaves."""
        progress = self._record.update()
        if progress.head != self._last_head:
            self._last_head = progress.head
            self._released.show(progress, arrived)

    def close(self) -> None:
        """Answer what waits, then release the study."""
        self._jobs.close()
        self._holdout.release()

    def __repr__(self) -> str:
        return f"StudyWriter({self.name}, {self.progress.rounds:,} questions)"


def _rehearse_each(holdout: Holdout, queries: Sequence[Query]) -> list[Answer]:
    return [as_answer(holdout.try_out(query)) for query in queries]


def _preview_each(holdout: Holdout, queries: Sequence[Query], read: RoundAct) -> list[Preview]:
    return [holdout.session.try_out(query, read=read) for query in queries]


def _with_paid_parts(refusal: EverholdError, paid: list[Answer]) -> EverholdError:
    """A refusal says what was paid for before it."""
    if isinstance(refusal, PrecisionExhausted):
        refusal.answers = list(paid)
    elif isinstance(refusal, RequestConflict) and paid:
        return after_charge(refusal, f"{len(paid)} parts of this one were answered, and stay recorded.")
    return refusal
