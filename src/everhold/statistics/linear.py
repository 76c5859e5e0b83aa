"""Steps that statistics share: the position of a mean in its range, and a share within a group, by linear questions."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import nan
from typing import TYPE_CHECKING

from everhold.bounds import derived
from everhold.queries.expression import bounded_mean
from everhold.queries.expression.composites import group_mean, group_share
from everhold.queries.expression.tree import Call, Node, Number

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.statistics.declared import DeclaredColumns, Ends
    from everhold.statistics.statistic import QuestionBatch

__all__ = [
    "Part",
    "cut",
    "mean_of",
    "mean_questions",
    "mean_steps",
    "prior_position",
    "share_questions",
    "share_steps",
    "together",
]

Part = Generator["QuestionBatch", "Sequence[Answer]", tuple[float, "Ends", tuple["Answer", ...]]]
"""Steps of a number between 0 and 1: estimate, interval, parts."""


def share_steps(declared: DeclaredColumns, tree: Node, group: Node) -> Part:
    """The share of yes within a group, in one round where that is possible."""
    answers = yield share_questions(declared, tree, group)
    return mean_of(answers)


def share_questions(declared: DeclaredColumns, tree: Node, group: Node) -> QuestionBatch:
    """The questions that a share within a group is made of: one, or two where groups take two."""
    asked = group_share(tree, group)
    return [asked] if declared.composites else asked.parts


def mean_questions(declared: DeclaredColumns, tree: Node, ends: Ends, group: Node | None) -> QuestionBatch:
    """The questions that the position of a mean between the ends is made of: one, or two where groups take two."""
    if group is None and not declared.can_be_missing(tree):
        return [bounded_mean(tree, *ends)]
    if declared.composites:
        return [group_mean(tree, *ends, group)]
    return [bounded_mean(tree, *ends, given=group, reverse=reverse) for reverse in (False, True)]


def mean_of(answers: Sequence[Answer]) -> tuple[float, Ends, tuple[Answer, ...]]:
    """The position of a mean, from the answers to its questions."""
    answers = [answer.as_share() for answer in answers]
    if len(answers) == 1:
        return answers[0].value, (answers[0].low, answers[0].high), tuple(answers)
    return _ratio(answers)


def mean_steps(declared: DeclaredColumns, tree: Node, ends: Ends, group: Node | None) -> Part:
    """The mean's position between the ends."""
    answers = yield mean_questions(declared, tree, ends, group)
    return mean_of(answers)


def together(*batches: QuestionBatch) -> Generator[QuestionBatch, Sequence[Answer], list[Sequence[Answer]]]:
    """Several lists of questions, asked as one."""
    answers = yield [question for batch in batches for question in batch]
    by_batch, start = [], 0
    for batch in batches:
        by_batch.append(answers[start : start + len(batch)])
        start += len(batch)
    return by_batch


def prior_position(declared: DeclaredColumns, tree: Node, ends: Ends, group: Node | None) -> float:
    """The position of a mean on the public side, to three digits: a public centre."""
    up, down = (declared.prior(bounded_mean(tree, *ends, given=group, reverse=reverse)) for reverse in (False, True))
    return round(up / (up + down), 3) if up + down > 0.0 else 0.5


def _ratio(parts: Sequence[Answer]) -> tuple[float, Ends, tuple[Answer, ...]]:
    """A/(A + B) from the answers about A and B; no estimate where no row of the group was seen."""
    a, b = (max(part.value, 0.0) for part in parts)
    low, high = derived.ratio((parts[0].low, parts[0].high), (parts[1].low, parts[1].high))
    value = min(max(a / (a + b), low), high) if a + b > 0.0 else nan
    return value, (low, high), tuple(parts)


def cut(tree: Node, ends: Ends) -> Node:
    """A number cut off at a range."""
    return Call("least", (Call("greatest", (tree, Number(ends[0])), "number"), Number(ends[1])), "number")
