"""Quantiles of numbers and dates: in one round, or by bisection where that is not possible."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.errors import QuestionError, require_number
from everhold.queries.expression import question_of
from everhold.queries.expression.groups import quantile_of
from everhold.queries.expression.tree import Column, Logic, Node, Number as NumberNode, Test
from everhold.statistics.finding import Finding
from everhold.statistics.linear import ratio_steps
from everhold.statistics.parameters import Given, High, Level, Low, Number

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.statistics.declared import DeclaredColumns, Ends
    from everhold.statistics.statistic import QuestionBatch

__all__ = ["Median", "Quantile"]

_SECOND = 1e6  # in microseconds: the resolution of quantiles of dates
_HALVINGS = 14  # of the range: 1/16,384 of it


@dataclass(frozen=True, slots=True)
class Median:
    """The middle of a number or a date: the quantile at one half."""

    name: ClassVar[str] = "median"
    title: ClassVar[str] = "Median"
    example: ClassVar[Mapping[str, Any]] = {"question": "bmi", "low": 10.0, "high": 60.0}
    question: Number
    _: KW_ONLY
    low: Low = None
    high: High = None
    given: Given = None

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Finding]:
        """As the quantile."""
        return Quantile(self.question, 0.5, low=self.low, high=self.high, given=self.given).steps(declared)


@dataclass(frozen=True, slots=True)
class Quantile:
    """The smallest t such that a share of at least `level` lies at or below it. Of numbers, or of dates.

    Rows without a value do not count; what lies outside the range counts as its nearest end. One round; with units, or where
    public rows are drawn anew every round, about 40 questions of the form "x <= t".
    """

    name: ClassVar[str] = "quantile"
    title: ClassVar[str] = "Quantile"
    example: ClassVar[Mapping[str, Any]] = {"question": "bmi", "level": 0.9, "low": 10.0, "high": 60.0}
    question: Number
    level: Level
    _: KW_ONLY
    low: Low = None
    high: High = None
    given: Given = None

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Finding]:
        """The estimate first, then the ends of the interval."""
        require_number(self.level, "level")
        if not 0.0 < self.level < 1.0:
            raise QuestionError(f"the level of a quantile lies strictly between 0 and 1, not at {self.level!r}")
        tree, ends = declared.number(self.question, self.low, self.high, dates=True)
        date = tree.kind == "date"
        group = declared.group(self.given, [tree])
        whole = isinstance(tree, Column) and declared.schema[tree.name].whole
        middle = 0.5 * (ends[0] + ends[1]) if date and not declared.can_be_missing(tree) else None
        step = _SECOND if date else 1.0 if whole else None
        called = "median" if self.level == 0.5 else f"{self.level:g} quantile"
        what = f"{called} of {self.question}{declared.cut_to(self.question, ends, date=date)}"
        what += "" if self.given is None else f" given {self.given}"
        if declared.grouped:
            asked = tree if date else declared.filled(tree, ends)
            answer = (yield [quantile_of(asked, *ends, float(self.level), group, step, middle)])[0].as_share()
            value, low, high = (_in_range(position, ends, step) for position in (answer.value, answer.low, answer.high))
            return Finding(what, value, low, high, (answer,), "date" if date else "number")
        search = _Search(tree if date else declared.filled(tree, ends), ends, group, self.level, step, middle)
        seen = yield from search.below(ends[0])
        value = (yield from search.run(0))[1] if seen[0] == seen[0] else nan
        # Q > a where even the upper end lies below the level; Q ≤ b where the lower end reaches it.
        lowest = (yield from search.run(2))[0]
        highest = (yield from search.run(1))[1]
        least = ends[0] if lowest is None else min(lowest, highest)
        parts = tuple(search.parts.values())
        return Finding(what, min(max(value, least), highest), least, highest, parts, "date" if date else "number")


def _in_range(position: float, ends: Ends, step: float | None) -> float:
    """A position within a range in its units; values are multiples of the step, but for the ends."""
    if position != position:
        return nan
    if position in (0.0, 1.0):
        return ends[int(position)]
    t = ends[0] + (ends[1] - ends[0]) * position
    return min(max(t if step is None else round(t / step) * step, ends[0]), ends[1])


@dataclass(slots=True)
class _Search:
    """Bisection over a range, which remembers what it has asked.

    Attributes:
        step: what values are multiples of, where they are.
        middle: what a missing date counts as, in a column that is declared complete.
    """

    tree: Node
    ends: Ends
    group: Node | None
    level: float
    step: float | None
    middle: float | None
    parts: dict[int, Answer] = field(default_factory=dict)
    answered: dict[float, tuple[float, float, float]] = field(default_factory=dict)

    def below(self, t: float) -> Generator[QuestionBatch, Sequence[Answer], tuple[float, float, float]]:
        """The share at or below t among those that count: estimate and interval."""
        if t in self.answered:
            return self.answered[t]
        test: Node = Test("<=", (self.tree, NumberNode(t, self.tree.kind)))
        if self.middle is not None and t >= self.middle:
            test = Logic("or", (test, Test("null", (self.tree,))))
        if self.group is None:
            answer = (yield [question_of(test)])[0]
            self.parts[answer.round] = answer
            self.answered[t] = answer.value, answer.low, answer.high
        else:
            value, ends, parts = yield from ratio_steps(test, self.group)
            self.parts.update({part.round: part for part in parts})
            self.answered[t] = value, *ends
        return self.answered[t]

    def run(self, passed: int) -> Generator[QuestionBatch, Sequence[Answer], tuple[float | None, float]]:
        """Halve the range: `passed` says which number has to pass. The last t that failed, and the first that passed.

        What lies below the range counts as its lower end, so that this end has to be tried like any other; at the upper end
        everything is at or below.
        """
        a, b = self.ends
        if (yield from self.below(a))[passed] >= self.level:
            return None, a
        step = self.step
        for _ in range(_HALVINGS):
            t = 0.5 * (a + b)
            t = t if step is None or not a < round(t / step) * step < b else round(t / step) * step
            if (yield from self.below(t))[passed] >= self.level:
                b = t
            else:
                a = t
            if step is not None and b - a <= step:
                break
        return a, b
