"""One study behind one writer thread: many may ask at once.

Questions that wait together are answered in one turn (`Holdout.ask_each`): one scan of the rows, one record on the disk,
each as if it had been asked alone, in the order of arrival. An act beyond asking has a turn of its own. Everything here
that depends on private rows leaves on the grid, so that no route can forget it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from everhold.acts import Certify, CompareTwo
from everhold.errors import (
    EverholdError,
    LedgerError,
    PrecisionExhausted,
    RequestConflict,
    after_charge,
)
from everhold.ledger.reader import StudyFile, read_study
from everhold.ledger.store import Head
from everhold.mechanism.tolerance import FixedPrecision
from everhold.queries.expression.question import size_of_query
from everhold.queries.request import Request
from everhold.server.examples import examples
from everhold.server.job_queue import Job, JobQueue, OwnThread, StartRunner
from everhold.server.released import RecordSoFar, ReleasedView, StudyProgress
from everhold.server.try_outs import TryOuts
from everhold.session.act_preview import ActPreview, charge_text, how_read, prices_after
from everhold.session.act_questions import checked_spend
from everhold.session.holdout import Holdout
from everhold.session.settings import Settings
from everhold.statistics import require_no_expect
from everhold.statistics.statistic import QuestionBatch, Statistic, arun
from everhold.trial import Trial, as_statistic

if TYPE_CHECKING:
    from everhold.acts import AnyAct
    from everhold.data.schema import Schema
    from everhold.ledger.first_record import FirstRecord
    from everhold.queries.answer import Answer, Preview
    from everhold.queries.query import Query
    from everhold.server.caller import Caller
    from everhold.server.limits import Slots
    from everhold.server.time_grid import TimeGrid

__all__ = ["StudyWriter"]

R = TypeVar("R")
T = TypeVar("T")

_PIECE = 1_000_000_000  # parts times private rows that are evaluated in one turn: a second or so


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
        grid: TimeGrid | Callable[[FirstRecord], TimeGrid],
        slots: Slots,
        data: str | None = None,
        most_questions: int = 1_000,
        question_seconds: float = 20.0,
        charges_each: int | None = None,
        start: StartRunner = OwnThread,
    ) -> None:
        self.path, self.name = path, path.stem
        self._slots = slots
        self._holdout = Holdout.open(path, data=data)
        self.ended_at_opening = self._holdout.session.recorder.ended_at_opening
        try:
            self._holdout.session.limit_charges(charges_each, path)
            file = read_study(path)
        except BaseException:
            self._holdout.release()
            raise
        self.first_record: FirstRecord = file.first_record
        self._grid = grid = grid(file.first_record) if callable(grid) else grid
        self._record = RecordSoFar(path, file.first_record, self._holdout, known=file)
        self._released = ReleasedView(self._record.update(), grid)
        self._last_head = self._holdout.head
        self._public = TryOuts(
            self._holdout,
            file.first_record.rows,
            slots=slots,
            queued=self._queued,
            most_questions=most_questions,
            question_seconds=question_seconds,
        )
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
        async with self._leaving(caller):
            query = (await self._public.parsed(caller, [question]))[0]
            answer = await self._queued_request(caller.request(query, expect=expect), caller)
        await self._wait_for_round(answer.round)
        return answer

    async def ask_many(self, caller: Caller, questions: Sequence[str]) -> list[Answer]:
        """Answers in order. All questions are checked before the first is charged."""
        async with self._leaving(caller):
            queries = await self._public.parsed(caller, questions)
            answers: list[Answer] = []
            for piece in self._pieces(queries):
                work = partial(self._holdout.session.ask_parts, piece, caller.asked_by, first=len(answers) + 1)
                try:
                    answers += await self._queued(work, caller)
                except PrecisionExhausted as refusal:
                    refusal.answers = [*answers, *refusal.answers]
                    raise
        return answers

    async def _ask_statistic(self, caller: Caller, statistic: Statistic[R]) -> R:
        """Its parts go through the queue, and other questions may come between them."""
        try:
            async with self._leaving(caller):
                with self._slots.room(caller.key):
                    result = await arun(statistic.steps(self._public.declared), partial(self._ask_parts, caller))
                    await self._queued(partial(self._holdout.record_finding, statistic, result, caller.asked_by), caller)
        finally:
            await self._wait_for_round(max((answer.round for answer in caller.paid), default=0))
        return result

    async def act(self, caller: Caller, act: AnyAct) -> Any:
        """An act, in a turn of its own. What is wrong with it is found on the public side, before that turn."""
        async with self._leaving(caller):
            with self._slots.room(caller.key):
                await self._public.count_parts(caller, act)
                return await self._queued(partial(self._holdout.acts.do, act, caller.asked_by), caller)

    async def try_act(self, caller: Caller, act: AnyAct) -> ActPreview:
        """What an act would show and cost. No private row is read, and nothing is charged."""
        async with self._leaving(caller):
            with self._slots.room(caller.key):
                await self._queued(self._holdout.require_open, caller)
                parts, new = await self._public.count_parts(caller, act)
                acts = self._holdout.acts
                if isinstance(act, CompareTwo):
                    new = 2 if acts.is_paired(act.first, act.second) else parts  # pairs: both numbers on which they differ
                await self._queued(partial(acts.require_possible, act, new, caller.asked_by.who), caller)
                if isinstance(act, Certify):
                    spend = checked_spend(act.spend)
                    await self._queued(partial(self._holdout.acts.require_narrower, act.round, spend), caller)
                read = how_read(act, parts)
                results, nats = ([], []) if read is None else await self._public.as_read(caller, act, read)
        budget = self.progress.budget
        charge = charge_text(act, budget.privacy, new)
        return ActPreview(tuple(results), budget.claim_price(), prices_after(act, budget, nats), charge)

    @overload
    async def try_out(self, caller: Caller, question: str) -> Preview: ...

    @overload
    async def try_out(self, caller: Caller, question: Statistic[Any]) -> Trial: ...

    async def try_out(self, caller: Caller, question: str | Statistic[Any]) -> Preview | Trial:
        """As `Holdout.try_out`: a preview of a yes/no question; of a statistic a trial, as `try_both` gives it."""
        if not isinstance(question, str):
            return await self.try_both(caller, question)
        async with self._leaving(caller):
            query = (await self._public.parsed(caller, [question]))[0]
            return await self._queued(partial(self._holdout.session.try_out, query), caller)

    async def rehearse(self, caller: Caller, statistic: Statistic[R]) -> R:
        """As `Holdout.rehearsal`: a statistic's result if no part of it were a surprise."""
        async with self._leaving(caller):
            with self._slots.room(caller.key):
                return await self._public.rehearse(caller, statistic)

    async def try_both(self, caller: Caller, question: object) -> Trial:
        """What ask and read would show of a question or a statistic."""
        statistic = as_statistic(question)
        async with self._leaving(caller):
            with self._slots.room(caller.key):
                previews, asked, read = await self._public.try_both(caller, statistic)
                refused = await self._queued(
                    partial(self._holdout.session.ask_refusal, caller.asked_by.who, previews.names), caller
                )
        return previews.trial(asked, read, self.progress.budget.privacy, refused)

    async def _ask_parts(self, caller: Caller, batch: QuestionBatch) -> list[Answer]:
        """Ask the parts of a statistic, and note what was paid for them."""
        caller.permit(len(batch))
        queries = await self._public.evaluated(caller, batch)
        requests = [caller.request(query, len(caller.paid) + part) for part, query in enumerate(queries, 1)]
        outcomes: list[Answer | EverholdError] = []
        if len(requests) == 1:  # beside the questions of others
            outcomes.append(await self._or_error(requests[0], caller))
        else:
            for piece in self._pieces(queries):
                next_requests = requests[len(outcomes) : len(outcomes) + len(piece)]
                outcomes += await self._queued(partial(self._holdout.ask_each, next_requests), caller)
        answers = [outcome for outcome in outcomes if not isinstance(outcome, EverholdError)]
        caller.paid.extend(answers)
        if refused := [outcome for outcome in outcomes if isinstance(outcome, EverholdError)]:
            raise _with_paid_parts(refused[0], caller.paid)
        return answers

    async def _or_error(self, request: Request, caller: Caller) -> Answer | EverholdError:
        try:
            return await self._queued_request(request, caller)
        except EverholdError as error:
            if isinstance(error, LedgerError) and not isinstance(error, RequestConflict):
                raise
            return error

    def put(self, work: Request | Callable[[], T], arrived: float | None = None) -> Future[Any]:
        """A question, or something else to do with the study, in the queue; off the grid, for this process alone."""
        return self._jobs.put(work, arrived)

    async def _queued(self, work: Callable[[], T], caller: Caller) -> T:
        """Do something in a turn of the writer. What comes of it may depend on everything that is recorded then."""

        def noted() -> T:
            try:
                return work()
            finally:
                caller.seen = max(caller.seen, self._durable_records)

        result: T = await asyncio.wrap_future(self.put(noted, caller.arrived))
        return result

    async def _queued_request(self, request: Request, caller: Caller) -> Answer:
        """The answer to one question. It leaves with its round; a refusal may depend on everything that is recorded."""
        try:
            answer: Answer = await asyncio.wrap_future(self.put(request, caller.arrived))
        except EverholdError:
            caller.seen = max(caller.seen, self._durable_records)
            raise
        return answer

    @property
    def _durable_records(self) -> int:
        return Head.parse(self._holdout.head).records

    @asynccontextmanager
    async def _leaving(self, caller: Caller) -> AsyncIterator[None]:
        """Leave on the grid, with a result or an error, and not before what it may depend on has left."""
        try:
            async with self._grid.release(caller.arrived):
                yield
        finally:
            await self._wait_until(lambda: self.progress.records >= caller.seen)

    def _pieces(self, queries: Sequence[Query]) -> list[list[Query]]:
        """A batch cut into pieces of some seconds' work at the most, so that others get their turn in between."""
        pieces: list[list[Query]] = [[]]
        left = _PIECE
        for query in queries:
            work = size_of_query(query) * self.first_record.rows
            if pieces[-1] and work > left:
                pieces.append([])
                left = _PIECE
            pieces[-1].append(query)
            left -= work
        return pieces

    # reading -------------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The declared columns."""
        return self.first_record.schema

    @cached_property
    def examples(self) -> dict[str, str]:
        """A question about each column, from usual values of the public rows."""
        return examples(self.first_record.schema, self.first_record.reference, self.first_record.weights)

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
        settings = Settings.from_dict(self.first_record.settings)
        policy = settings.tolerance_policy()
        if not isinstance(policy, FixedPrecision):
            return None
        rows = self.first_record.rows - settings.known_rows
        return policy.lasts(rows=rows, draws=self.first_record.draws, known_shift=2.0 * settings.known_rows / rows)

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
                work += size_of_query(job.work.question) * self.first_record.rows
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
            try:
                outcomes = self._holdout.ask_each([job.work for job in asks])
            finally:
                if not self.broken:
                    self._publish([job.arrived for job in asks])
        except BaseException as error:  # nobody gets an answer
            for job in asks:
                job.future.set_exception(error)
            return
        for job, outcome in zip(asks, outcomes, strict=True):
            if isinstance(outcome, EverholdError):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)

    def _run(self, job: Job[Any]) -> None:
        try:
            try:
                result = job.work()
            finally:
                if not self.broken:
                    self._publish([job.arrived])  # also where a batch was refused on its way
        except BaseException as error:
            job.future.set_exception(error)
            return
        job.future.set_result(result)

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


def _with_paid_parts(refusal: EverholdError, paid: list[Answer]) -> EverholdError:
    """A refusal says what was paid for before it."""
    if isinstance(refusal, PrecisionExhausted):
        refusal.answers = list(paid)
    elif isinstance(refusal, RequestConflict) and paid:
        return after_charge(refusal, f"{len(paid)} parts of this one were answered, and stay recorded.")
    return refusal
