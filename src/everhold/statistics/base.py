"""A statistic is a value that says how to ask for itself: a generator of linear questions, run by one driver.

`steps` yields batches of linear questions, is sent their answers, and returns the result. Nothing in it knows who answers:
a holdout, a rehearsal on the public side, a server's writer, or a replay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.queries.expression import BoundedMean, Expression
    from everhold.statistics.declared import Declared
    from everhold.statistics.finding import Finding, Shares

__all__ = ["Statistic", "Steps", "arun", "run"]

Batch = Sequence["Expression | BoundedMean"]
Steps = Generator[Batch, "Sequence[Answer]", "Answer | Finding | Shares"]


class Statistic(Protocol):
    """What people ask for.

    Attributes:
        name: what it is called in every interface.
    """

    name: ClassVar[str]

    def steps(self, declared: Declared) -> Steps:
        """How to ask for it, given the declared columns."""


def run(steps: Steps, ask: Callable[[Batch], Sequence[Answer]]) -> Answer | Finding | Shares:
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
        result: Answer | Finding | Shares = done.value
        return result


async def arun(steps: Steps, ask: Callable[[Batch], Awaitable[Sequence[Answer]]]) -> Answer | Finding | Shares:
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
        result: Answer | Finding | Shares = done.value
        return result
