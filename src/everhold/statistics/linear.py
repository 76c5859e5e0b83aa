"""Steps that statistics share: the place of a mean in its range, and a share within a group, by linear questions."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import nan
from typing import TYPE_CHECKING

from everhold.bounds import derived
from everhold.queries.expression import bounded_mean, conjunction, question_of
from everhold.queries.expression.tree import Call, Logic, Node, Number

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.statistics.declared import Declared, Ends
    from everhold.statistics.statistic import Batch

__all__ = ["Part", "cut", "mean_steps", "ratio_steps"]

Part = Generator["Batch", "Sequence[Answer]", tuple[float, "Ends", tuple["Answer", ...]]]
"""Steps of a number between 0 and 1: estimate, interval, parts."""


def ratio_steps(tree: Node, group: Node) -> Part:
    """A/(A + B): yes and given, no and given."""
    no = conjunction(Logic("not", (tree,)), group)
    answers = yield [question_of(conjunction(tree, group)), question_of(no)]
    return _ratio(answers)


def mean_steps(declared: Declared, tree: Node, ends: Ends, group: Node | None) -> Part:
    """The mean's place between the ends."""
    if group is None and not declared.can_be_missing(tree):
        answer = (yield [bounded_mean(tree, *ends)])[0].as_share()
        return answer.value, (answer.low, answer.high), (answer,)
    both = [bounded_mean(tree, *ends, given=group, reverse=reverse) for reverse in (False, True)]
    answers = yield both
    return _ratio([answer.as_share() for answer in answers])


def _ratio(parts: Sequence[Answer]) -> tuple[float, Ends, tuple[Answer, ...]]:
    """A/(A + B) from the answers about A and B; no estimate where no row of the group was seen."""
    a, b = (max(part.value, 0.0) for part in parts)
    low, high = derived.ratio((parts[0].low, parts[0].high), (parts[1].low, parts[1].high))
    value = min(max(a / (a + b), low), high) if a + b > 0.0 else nan
    return value, (low, high), tuple(parts)


def cut(tree: Node, ends: Ends) -> Node:
    """A number cut off at a range."""
    return Call("least", (Call("greatest", (tree, Number(ends[0])), "number"), Number(ends[1])), "number")
