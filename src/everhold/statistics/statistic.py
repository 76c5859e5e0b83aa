"""A statistic is a value that says how to ask for itself: a generator of linear questions, run by a driver.

`steps` yields batches of linear questions, is sent their answers, and returns the result. Nothing in it knows who answers:
a holdout, a rehearsal on the public side, a server's writer, or a replay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.queries.expression import BoundedMean, Expression
    from everhold.queries.expression.composites import Composite
    from everhold.statistics.declared import DeclaredColumns

__all__ = ["QuestionBatch", "Statistic", "Steps", "arun", "run", "run_together"]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

QuestionBatch = Sequence["Expression | BoundedMean | Composite"]
Steps = Generator[QuestionBatch, "Sequence[Answer]", R]


class Statistic(Protocol[R_co]):
    """What people ask for: a frozen dataclass in this folder, found by its `name` in every interface.

    Attributes:
        name: what it is called in every interface.
        title: what people read in a list of statistics.
        example: arguments that show how it is asked for.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    example: ClassVar[Mapping[str, Any]]

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], R_co]:
        """Ask for it, given the declared columns."""


def run(steps: Steps[R], ask: Callable[[QuestionBatch], Sequence[Answer]]) -> R:
    """Ask until the result is there. An error of `ask` is raised where the question was asked."""
    try:
        batch = next(steps)
        while True:
            try:
                answers = ask(batch)
            except BaseException as error:
                steps.throw(error)
                raise
            batch = steps.send(answers)
    except StopIteration as done:
        result: R = done.value
        return result


def run_together(steps: Sequence[Steps[Any]], ask: Callable[[QuestionBatch], Sequence[Answer]]) -> list[Any]:
    """The results of several, whose questions are asked together: the first batch of all, then the second, and so on."""
    waiting: dict[int, QuestionBatch] = {}
    results: list[Any] = [None] * len(steps)

    def go_on(index: int, move: Callable[[], QuestionBatch]) -> None:
        try:
            waiting[index] = move()
        except StopIteration as done:
            waiting.pop(index, None)
            results[index] = done.value

    for index, generator in enumerate(steps):
        go_on(index, lambda generator=generator: next(generator))  # type: ignore[misc]
    while waiting:
        indices, batches = list(waiting), list(waiting.values())
        answers = list(ask([question for batch in batches for question in batch]))
        start = 0
        for index, batch in zip(indices, batches, strict=True):
            own, start = answers[start : start + len(batch)], start + len(batch)
            go_on(index, lambda generator=steps[index], own=own: generator.send(own))  # type: ignore[misc]
    return results


async def arun(steps: Steps[R], ask: Callable[[QuestionBatch], Awaitable[Sequence[Answer]]]) -> R:
    """The same where answers are awaited."""
    try:
        batch = next(steps)
        while True:
            try:
                answers = await ask(batch)
            except BaseException as error:
                steps.throw(error)
                raise
            batch = steps.send(answers)
    except StopIteration as done:
        result: R = done.value
        return result
