"""Shares and means, of all or of a group; their differences, comparisons and ratios."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf, nan
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from everhold.bounds import derived
from everhold.errors import QuestionError
from everhold.queries.expression.canonical import canonical
from everhold.queries.expression.composites import group_difference, paired_shares
from everhold.queries.expression.disjoint import are_disjoint
from everhold.queries.expression.tree import Call, Case, Node, Number as NumberNode
from everhold.statistics.finding import Comparison, Finding
from everhold.statistics.linear import cut, mean_of, mean_questions, mean_steps, share_questions, share_steps, together
from everhold.statistics.parameters import Condition, Given, High, Low, Number, Range, Role

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.statistics.declared import DeclaredColumns, Ends
    from everhold.statistics.statistic import QuestionBatch

__all__ = ["Compare", "Difference", "Mean", "Ratio", "Share"]


@dataclass(frozen=True, slots=True)
class Share:
    """The share of the population that answers yes, of all or of those for whom `given` is true.

    With `given`, rows for which the question is neither true nor false do not count.
    """

    name: ClassVar[str] = "share"
    title: ClassVar[str] = "Share"
    example: ClassVar[Mapping[str, Any]] = {"question": "smoker", "given": "age > 40"}
    question: Condition
    _: KW_ONLY
    given: Given = None

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Answer | Finding]:
        """One question, or two."""
        asked = declared.yes_no(self.question)
        if self.given is None:
            answers = yield [asked]
            return answers[0]
        value, ends, parts = yield from share_steps(declared, asked.tree, declared.yes_no(self.given).tree)
        return Finding(f"share of {self.question} given {self.given}", value, *ends, parts)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a number, in its own units.

    Attributes:
        question: a column or an expression, "bmi" or "ln(income)".
        low, high: the range that is considered; what lies outside counts as its nearest end. The schema's own range for a
            column when left out. The interval's width is proportional to it.
        given: only rows for which this is true.

    Rows without a number do not count.
    """

    name: ClassVar[str] = "mean"
    title: ClassVar[str] = "Mean"
    example: ClassVar[Mapping[str, Any]] = {"question": "bmi", "low": 10.0, "high": 60.0, "given": "smoker"}
    question: Number
    _: KW_ONLY
    low: Low = None
    high: High = None
    given: Given = None

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Finding]:
        """The position of the mean within the range, then in its own units."""
        tree, ends = declared.number(self.question, self.low, self.high)
        group = None if self.given is None else declared.yes_no(self.given).tree
        mean = yield from mean_steps(declared, declared.filled(tree, ends), ends, group)
        what = f"mean of {self.question}{declared.cut_to(self.question, ends)}"
        return _in_units(what + ("" if self.given is None else f" given {self.given}"), mean, ends)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more of something there is in one group than in another: a share, or a mean in its own units.

    Attributes:
        question: a yes/no question, or a number.
        first, second: the groups, as yes/no questions.
        low, high: the range of a number.
    """

    name: ClassVar[str] = "difference"
    title: ClassVar[str] = "Difference of groups"
    example: ClassVar[Mapping[str, Any]] = {
        "question": "smoker",
        "first": "city = 'York'",
        "second": "city = 'Leeds'",
    }
    question: Annotated[str, Role("expression", "Question", "A yes/no question, or a number such as bmi.")]
    first: Annotated[str, Role("expression", "First group", "The first group, a yes/no question.")]
    second: Annotated[str, Role("expression", "Second group", "The second group, a yes/no question.")]
    _: KW_ONLY
    low: Low = None
    high: High = None

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Comparison]:
        """The two groups, in one batch."""
        groups = [declared.yes_no(group).tree for group in (self.first, self.second)]
        if self.low is None and self.high is None and declared.is_yes_no(self.question):
            tree, cut_to, ends = declared.yes_no(self.question).tree, "", (0.0, 1.0)
            batches = [share_questions(declared, tree, group) for group in groups]
        else:
            tree, ends = declared.number(self.question, self.low, self.high)
            cut_to, tree = declared.cut_to(self.question, ends), declared.filled(tree, ends)
            batches = [mean_questions(declared, tree, ends, group) for group in groups]
        what = f"{self.question}{cut_to}: {self.first} minus {self.second}"
        if declared.in_one_round(*groups) and are_disjoint(*groups):
            span = None if cut_to == "" and ends == (0.0, 1.0) and declared.is_yes_no(self.question) else ends
            answer = (yield [group_difference(tree, span, groups[0], groups[1])])[0]
            length = ends[1] - ends[0]
            low, high = derived.difference((answer.low * length, answer.high * length), (0.0, 0.0))
            return Comparison(what, answer.value * length, max(low, -length), min(high, length), (answer,))
        answers = yield from together(*batches)
        first, second = (_in_units("", mean_of(part), ends) for part in answers)
        ends = derived.difference((first.low, first.high), (second.low, second.high))
        return Comparison(what, first.value - second.value, *ends, first.parts + second.parts)


@dataclass(frozen=True, slots=True)
class Compare:
    """Is the first larger than the second: yes, no, or cannot tell.

    Two yes/no questions are compared by their shares, two numbers by their means, on the same rows and by a single question
    about the difference, which is narrower than two intervals side by side.
    """

    name: ClassVar[str] = "compare"
    title: ClassVar[str] = "Is it larger than"
    example: ClassVar[Mapping[str, Any]] = {"first": "smoker", "second": "age > 80"}
    first: Annotated[str, Role("expression", "First", "A yes/no question, or a number such as bmi.")]
    second: Annotated[str, Role("expression", "Second", "What it is compared with, of the same kind.")]
    _: KW_ONLY
    low: Low = None
    high: High = None
    given: Given = None

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Comparison]:
        """The mean of the difference."""
        group = None if self.given is None else declared.yes_no(self.given).tree
        if declared.is_yes_no(self.first) and declared.is_yes_no(self.second):
            if self.low is not None or self.high is not None:
                raise QuestionError("two yes/no questions are compared without a range. Leave low and high out.")
            trees = [declared.yes_no(text).tree for text in (self.first, self.second)]
            what = f"is {self.first} larger than {self.second}"
            if declared.composites and group is None:
                answer = (yield [paired_shares(trees[0], trees[1])])[0]
                return Comparison(what, answer.value, answer.low, answer.high, (answer,))
            first, second = (_as_number(tree) for tree in trees)
            ends, cuts = (-1.0, 1.0), ("", "")
        else:
            (first, a), (second, b) = (declared.number(text, self.low, self.high) for text in (self.first, self.second))
            first, second = cut(declared.filled(first, a), a), cut(declared.filled(second, b), b)
            ends, cuts = (a[0] - b[1], a[1] - b[0]), (declared.cut_to(self.first, a), declared.cut_to(self.second, b))
        tree = canonical(Call("-", (first, second), "number"))
        value, interval, parts = yield from mean_steps(declared, tree, ends, group)
        what = f"is {self.first}{cuts[0]} larger than {self.second}{cuts[1]}"
        what += "" if self.given is None else f" given {self.given}"
        return Comparison(what, ends[0] + (ends[1] - ends[0]) * value, *derived.rescaled(interval, *ends), parts)


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of two means, over rows that have both numbers.

    The interval is the range of x/y over the two means' intervals. Where the second mean may be 0 it is open on both sides.
    """

    name: ClassVar[str] = "ratio"
    title: ClassVar[str] = "Ratio to"
    example: ClassVar[Mapping[str, Any]] = {"first": "bmi", "second": "age"}
    first: Annotated[str, Role("expression", "First", "A number, such as cost.")]
    second: Annotated[str, Role("expression", "Second", "The number whose mean it is divided by, such as visits.")]
    _: KW_ONLY
    first_range: Annotated[Range, Role("range", "Range of the first", "The range of the first number.")] = None
    second_range: Annotated[Range, Role("range", "Range of the second", "The range of the second number.")] = None
    given: Given = None

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Finding]:
        """The two means over the same rows, then the corners of their intervals."""
        named = ((self.first, self.first_range), (self.second, self.second_range))
        sides = [declared.number(text, *(ends or (None, None))) for text, ends in named]
        group = declared.group(self.given, [tree for tree, _ in sides])
        answers = yield from together(
            *(mean_questions(declared, declared.filled(tree, ends), ends, group) for tree, ends in sides)
        )
        x, y = (_in_units("", mean_of(part), ends) for part, (_, ends) in zip(answers, sides, strict=True))
        low, high = -inf, inf
        if y.low > 0.0 or y.high < 0.0:
            corners = [a / b for a in (x.low, x.high) for b in (y.low, y.high)]
            low, high = derived.difference((min(corners), max(corners)), (0.0, 0.0))  # outwards by the rounding error
        value = min(max(x.value / y.value, low), high) if y.value else nan
        described = [f"{text}{declared.cut_to(text, ends)}" for (text, _), (_, ends) in zip(named, sides, strict=True)]
        what = f"ratio of the means of {' and '.join(described)}" + ("" if self.given is None else f" given {self.given}")
        return Finding(what, value, low, high, x.parts + y.parts)


def _in_units(what: str, mean: tuple[float, Ends, tuple[Answer, ...]], ends: Ends) -> Finding:
    """A position within a range, in the range's own units."""
    value, interval, parts = mean
    return Finding(what, ends[0] + (ends[1] - ends[0]) * value, *derived.rescaled(interval, *ends), parts)


def _as_number(tree: Node) -> Node:
    """1 for yes, 0 for all else."""
    return Case(((tree, NumberNode(1.0)),), NumberNode(0.0), "number")
