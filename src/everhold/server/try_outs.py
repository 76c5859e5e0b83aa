"""The public side of a study behind a server: questions are parsed, evaluated and tried there before they are asked.

No private row is read here, and nothing is charged. What takes long runs in a thread; what needs the study itself waits for
a turn of its writer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.acts import questions_of, questions_to_try
from everhold.errors import QuestionError
from everhold.queries.expression.question import size_of_query
from everhold.queries.round_act import RoundAct
from everhold.statistics.rehearsal import as_answer
from everhold.statistics.statistic import QuestionBatch, Statistic, arun
from everhold.trial import Previews, as_reading, as_statistic

if TYPE_CHECKING:
    from everhold.acts import AnyAct
    from everhold.queries.answer import Answer, Preview
    from everhold.queries.query import Query
    from everhold.server.caller import Caller
    from everhold.server.limits import Slots
    from everhold.session.holdout import Holdout
    from everhold.statistics.declared import DeclaredColumns
    from everhold.statistics.finding import Result

__all__ = ["TryOuts"]

R = TypeVar("R")
T = TypeVar("T")

_TRIED_AT_ONCE = 16  # questions that are tried in one turn of the writer
_MOST_WORK = 100_000_000_000  # parts times private rows of one act, which is done in one turn
_SHORT = 2_000  # characters of questions that are parsed without a thread


class TryOuts:
    """What can be known of questions and acts without a private row.

    Args:
        holdout: the study.
        rows: how many private rows it has.
        slots: for work that takes a thread.
        queued: does something in a turn of the writer.
        most_questions: of one batch or table.
        question_seconds: how long a question may take on the public rows.
    """

    def __init__(
        self,
        holdout: Holdout,
        rows: int,
        *,
        slots: Slots,
        queued: Callable[[Callable[[], Any], Caller], Awaitable[Any]],
        most_questions: int,
        question_seconds: float,
    ) -> None:
        self._holdout, self._rows = holdout, rows
        self._slots, self._queued = slots, queued
        self._most, self._seconds = most_questions, question_seconds

    @property
    def declared(self) -> DeclaredColumns:
        """The declared columns, for statistics."""
        return self._holdout.declared(self._most)

    async def parsed(self, caller: Caller, questions: Sequence[str]) -> list[Query]:
        """Questions parsed, and large ones evaluated on the public rows, outside the writer's thread.

        What is small altogether is done at once; anything else in a thread, so that the event loop goes on.
        """
        session = self._holdout.session
        if sum(len(question) for question in questions) > _SHORT:
            queries = await self._slots.run(caller.key, lambda: [session.query(question) for question in questions])
        else:
            queries = [session.query(question) for question in questions]
        return await self.evaluated(caller, queries)

    async def evaluated(self, caller: Caller, queries: Sequence[Query]) -> list[Query]:
        """The same questions, evaluated on the public rows outside the writer's thread; small ones as they are."""
        scanner = self._holdout.session.scanner
        if scanner.is_light(queries):
            return list(queries)
        return await self._slots.run(caller.key, lambda: scanner.prepare(queries, seconds=self._seconds))

    async def rehearse(self, caller: Caller, statistic: Statistic[R]) -> R:
        """A statistic's result if no part of it were a surprise."""
        return await arun(statistic.steps(self.declared), partial(self._rehearsed, caller))

    async def try_both(self, caller: Caller, statistic: Statistic[Any]) -> tuple[Previews, Any, Any]:
        """What ask and what read would show of a statistic, after the previews that both are made of."""
        previews = Previews()

        async def tried(answers: Callable[[QuestionBatch], list[Answer]], batch: QuestionBatch) -> list[Answer]:
            new = previews.missing(batch)
            caller.permit(len(new))
            read = RoundAct("read", parts=len(batch))
            made = await self._in_turns(caller, new, partial(_previews, self._holdout, read))
            previews.by_name |= {query.name: preview for query, preview in zip(new, made, strict=True)}
            return answers(batch)

        asked = await arun(statistic.steps(self.declared), partial(tried, previews.asked))
        return previews, asked, await arun(statistic.steps(self.declared), partial(tried, previews.read))

    async def as_read(self, caller: Caller, act: AnyAct, read: RoundAct) -> tuple[list[Result], list[float]]:
        """What an act that reads would show if it found the forecasts, and what each of its parts would disclose."""
        nats: list[float] = []

        async def tried(batch: Sequence[Query]) -> list[Answer]:
            previews = await self._in_turns(caller, batch, partial(_previews, self._holdout, read))
            nats.extend(preview.read_costs for preview in previews)
            return [as_reading(preview) for preview in previews]

        questions = questions_of(act)
        texts = [question for question in questions if isinstance(question, str)]
        answers = iter(await tried(await self.parsed(caller, texts)))
        return [
            next(answers) if isinstance(question, str) else await arun(as_statistic(question).steps(self.declared), tried)
            for question in questions
        ], nats

    async def count_parts(self, caller: Caller, act: AnyAct) -> tuple[int, int]:
        """Count the parts of an act, and those that no reading has in the record yet; and try them all.

        A closed study returns what is recorded.
        """
        questions = questions_to_try(act)
        if await self._queued(lambda: self._holdout.closed, caller):
            caller.permit(max(1, len(questions)))
            return 0, 0
        parts, work = 0, 0
        names: list[str | None] = []

        def count(queries: Sequence[Query]) -> None:
            nonlocal parts, work
            parts += len(queries)
            names.extend(query.name for query in queries)
            work += sum(size_of_query(query) for query in queries) * self._rows
            if work > _MOST_WORK:
                raise QuestionError(
                    "this act would take minutes on the private rows, and others wait meanwhile. Expected fewer or shorter "
                    "questions. Nothing was charged."
                )

        async def rehearsed(batch: QuestionBatch) -> list[Answer]:
            count(batch)
            return await self._rehearsed(caller, batch)

        texts = [question for question in questions if isinstance(question, str)]
        caller.permit(len(texts))
        count(await self.parsed(caller, texts))
        for question in questions:
            if not isinstance(question, str):
                await arun(as_statistic(question).steps(self.declared), rehearsed)
        return parts, await self._queued(partial(_unread, self._holdout, names), caller)

    async def _rehearsed(self, caller: Caller, batch: QuestionBatch) -> list[Answer]:
        """The parts of a statistic, as they would be answered if nothing surprised."""
        caller.permit(len(batch))
        return await self._in_turns(caller, batch, partial(_forecasts, self._holdout))

    async def _in_turns(
        self, caller: Caller, queries: Sequence[Query], work: Callable[[Sequence[Query]], list[T]]
    ) -> list[T]:
        """Do something with questions, some of them in each turn of the writer, so that others get theirs in between."""
        results: list[T] = []
        for start in range(0, len(queries), _TRIED_AT_ONCE):
            evaluated = await self.evaluated(caller, queries[start : start + _TRIED_AT_ONCE])
            results += await self._queued(partial(work, evaluated), caller)
        return results


def _unread(holdout: Holdout, names: Sequence[str | None]) -> int:
    journal = holdout.session.journal
    return sum(1 for name in dict.fromkeys(names) if journal.narrowest_reading(name) is None)


def _forecasts(holdout: Holdout, queries: Sequence[Query]) -> list[Answer]:
    return [as_answer(holdout.try_out(query)) for query in queries]


def _previews(holdout: Holdout, read: RoundAct, queries: Sequence[Query]) -> list[Preview]:
    return [holdout.session.try_out(query, read=read) for query in queries]
