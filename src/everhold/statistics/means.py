"""Shares and means, of all or of a group; their differences and comparisons."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, ClassVar

from everhold.bounds import derived
from everhold.queries.expression import bounded_mean, conjunction, question_of
from everhold.queries.expression.canonical import canonical
from everhold.queries.expression.tree import Call, Case, Logic, Node, Number
from everhold.statistics.finding import Comparison, Finding

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.statistics.base import Batch
    from everhold.statistics.declared import Declared, Ends

__all__ = ["Compare", "Difference", "Mean", "Share", "cut", "mean_steps", "ratio_steps"]

Part = Generator["Batch", "Sequence[Answer]", tuple[float, "Ends", tuple["Answer", ...]]]
"""Steps of a number between 0 and 1: estimate, interval, parts."""


@dataclass(frozen=True, slots=True)
class Share:
    """The share of the population that answers yes, of all or of those for whom `given` is true.

    With `given`, rows for which the question is neither true nor false do not count. Made of two questions: yes and given,
    no and given.
    """

    name: ClassVar[str] = "share"
    question: str
    given: str | None = None

    def steps(self, declared: Declared) -> Generator[Batch, Sequence[Answer], Answer | Finding]:
        """One question, or two."""
        asked = declared.yes_no(self.question)
        if self.given is None:
            answers = yield [asked]
            return answers[0]
        value, ends, parts = yield from ratio_steps(asked.tree, declared.yes_no(self.given).tree)
        return Finding(f"share of {self.question} given {self.given}", value, *ends, parts)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a number, in its own units.

    Attributes:
        question: a column or an expression, "bmi" or "ln(income)".
        low, high: the range that is considered; what lies outside counts as its nearest end. The schema's own range for a
            column when left out. The interval's width is proportional to it.
        given: only rows for which this is true.

    Rows without a number do not count. One question where nothing can be missing and nothing is given, else two.
    """

    name: ClassVar[str] = "mean"
    question: str
    low: float | None = None
    high: float | None = None
    given: str | None = None

    def steps(self, declared: Declared) -> Generator[Batch, Sequence[Answer], Finding]:
        """The place of the mean within the range, then in its own units."""
        tree, ends = declared.number(self.question, self.low, self.high)
        group = None if self.given is None else declared.yes_no(self.given).tree
        found = yield from mean_steps(declared, declared.filled(tree, ends), ends, group)
        what = f"mean of {self.question}{declared.cut_to(self.question, ends)}"
        return _in_units(what + ("" if self.given is None else f" given {self.given}"), found, ends)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more of something there is in one group than in another: a share, or a mean in its own units.

    Attributes:
        question: a yes/no question, or a number.
        first, second: the groups, as yes/no questions.
        low, high: the range of a number.
    """

    name: ClassVar[str] = "difference"
    question: str
    first: str
    second: str
    low: float | None = None
    high: float | None = None

    def steps(self, declared: Declared) -> Generator[Batch, Sequence[Answer], Comparison]:
        """The two groups, one after the other."""
        groups = [declared.yes_no(group) for group in (self.first, self.second)]
        found: list[Finding] = []
        if self.low is None and self.high is None and declared.is_yes_no(self.question):
            tree, cut_to = declared.yes_no(self.question).tree, ""
            for group in groups:
                value, ends, parts = yield from ratio_steps(tree, group.tree)
                found.append(Finding("", value, *ends, parts))
        else:
            tree, ends = declared.number(self.question, self.low, self.high)
            cut_to = declared.cut_to(self.question, ends)
            for group in groups:
                part = yield from mean_steps(declared, declared.filled(tree, ends), ends, group.tree)
                found.append(_in_units("", part, ends))
        one, other = found
        ends = derived.difference((one.low, one.high), (other.low, other.high))
        what = f"{self.question}{cut_to}: {self.first} minus {self.second}"
        return Comparison(what, one.value - other.value, *ends, one.parts + other.parts)


@dataclass(frozen=True, slots=True)
class Compare:
    """Is the first larger than the second: yes, no, or cannot tell.

    Two yes/no questions are compared by their shares, two numbers by their means, on the same rows and by a single question
    about the difference, which is narrower than two intervals side by side.
    """

    name: ClassVar[str] = "compare"
    first: str
    second: str
    low: float | None = None
    high: float | None = None
    given: str | None = None

    def steps(self, declared: Declared) -> Generator[Batch, Sequence[Answer], Comparison]:
        """The mean of the difference."""
        group = None if self.given is None else declared.yes_no(self.given).tree
        if declared.is_yes_no(self.first) and declared.is_yes_no(self.second):
            one, other = (_as_number(declared.yes_no(text).tree) for text in (self.first, self.second))
            ends, said = (-1.0, 1.0), ("", "")
        else:
            (one, a), (other, b) = (declared.number(text, self.low, self.high) for text in (self.first, self.second))
            one, other = cut(declared.filled(one, a), a), cut(declared.filled(other, b), b)
            ends, said = (a[0] - b[1], a[1] - b[0]), (declared.cut_to(self.first, a), declared.cut_to(self.second, b))
        tree = canonical(Call("-", (one, other), "number"))
        value, interval, parts = yield from mean_steps(declared, tree, ends, group)
        what = f"is {self.first}{said[0]} larger than {self.second}{said[1]}"
        what += "" if self.given is None else f" given {self.given}"
        return Comparison(what, ends[0] + (ends[1] - ends[0]) * value, *derived.rescaled(interval, *ends), parts)


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


def _in_units(what: str, found: tuple[float, Ends, tuple[Answer, ...]], ends: Ends) -> Finding:
    """A place within a range, in the range's own units."""
    value, interval, parts = found
    return Finding(what, ends[0] + (ends[1] - ends[0]) * value, *derived.rescaled(interval, *ends), parts)


def _as_number(tree: Node) -> Node:
    """1 for yes, 0 for all else."""
    return Case(((tree, Number(1.0)),), Number(0.0), "number")


def cut(tree: Node, ends: Ends) -> Node:
    """A number cut off at a range."""
    return Call("least", (Call("greatest", (tree, Number(ends[0])), "number"), Number(ends[1])), "number")
