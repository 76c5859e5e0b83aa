"""Quantiles of numbers and dates: in one round, or by bisection where that is not possible."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.errors import QuestionError, require_number
from everhold.queries.expression import bounded_mean, question_of
from everhold.queries.expression.canonical import canonical
from everhold.queries.expression.composites import quantile_of
from everhold.queries.expression.tree import Case, Column, Logic, Node, Number as NumberNode, Test
from everhold.statistics.finding import Finding
from everhold.statistics.parameters import Given, High, Level, Low, Number

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.queries.expression.question import BoundedMean, Expression
    from everhold.statistics.declared import DeclaredColumns, Ends
    from everhold.statistics.statistic import QuestionBatch

__all__ = ["Median", "Quantile"]

_SECOND = 1e6  # in microseconds: the resolution of quantiles of dates
_FINEST = 1.0 / 16_384.0  # of the range: nothing finer is looked for
_END_PARTS = 16  # an end is known to this part of the interval's width
_VALUE_PARTS = 32
_FEW = 3  # after more answers that use the private rows, a quarter of these parts is enough


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
    public rows are drawn anew every round, some 15 to 25 questions of the form "x <= t".
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
        if declared.composites:
            asked = tree if date else declared.filled(tree, ends)
            answer = (yield [quantile_of(asked, *ends, float(self.level), group, step, middle)])[0].as_share()
            value, low, high = (_in_range(position, ends, step) for position in (answer.value, answer.low, answer.high))
            return Finding(what, value, low, high, (answer,), "date" if date else "number")
        search = _Search(tree if date else declared.filled(tree, ends), ends, group, self.level, step, middle)
        value, low, high = yield from search.quantile()
        parts = tuple(search.parts.values())
        return Finding(what, value, low, high, parts, "date" if date else "number")


def _in_range(position: float, ends: Ends, step: float | None) -> float:
    """A position within a range in its units; values are multiples of the step, but for the ends."""
    if position != position:
        return nan
    if position in (0.0, 1.0):
        return ends[int(position)]
    t = ends[0] + (ends[1] - ends[0]) * position
    return min(max(t if step is None else round(t / step) * step, ends[0]), ends[1])


class _Bracket:
    """Where a test on the share at or below t turns from failing to passing, as far as it is known."""

    __slots__ = ("failed", "passed")

    def __init__(self, passed: float) -> None:
        self.failed: float | None = None
        self.passed = passed

    def note(self, t: float, passes: bool) -> None:
        """What was found at t."""
        if passes:
            self.passed = min(self.passed, t)
        else:
            self.failed = t if self.failed is None else max(self.failed, t)

    @property
    def width(self) -> float:
        """Zero where the test passes everywhere."""
        return 0.0 if self.failed is None else self.passed - self.failed


@dataclass(slots=True)
class _Search:
    """A search over a range, by questions of the form "x <= t".

    It ends when the ends of the interval are known to a small part of its width: a question may be a surprise, so the
    fewest are asked that do.

    Attributes:
        step: what values are multiples of, where they are.
        middle: what a missing date counts as, in a column that is declared complete.
        disclosed: how many answers used the private rows.
    """

    tree: Node
    ends: Ends
    group: Node | None
    level: float
    step: float | None
    middle: float | None
    parts: dict[int, Answer] = field(default_factory=dict)
    disclosed: int = 0

    def below(self, t: float) -> Generator[QuestionBatch, Sequence[Answer], tuple[float, float, float]]:
        """The share at or below t, estimate and interval, over all rows: those outside the group count as the level.

        So it reaches the level where the share within the group does, and is one mean instead of a ratio of two.
        """
        test: Node = Test("<=", (self.tree, NumberNode(t, self.tree.kind)))
        if self.middle is not None and t >= self.middle:
            test = Logic("or", (test, Test("null", (self.tree,))))
        if self.group is None:
            return (yield from self._one(question_of(test)))
        yes_or_no = Case(((test, NumberNode(1.0)),), NumberNode(0.0), "number")
        levelled = Case(((self.group, yes_or_no),), NumberNode(self.level), "number")
        return (yield from self._one(bounded_mean(canonical(levelled), 0.0, 1.0)))

    def _one(
        self, query: Expression | BoundedMean
    ) -> Generator[QuestionBatch, Sequence[Answer], tuple[float, float, float]]:
        answer = (yield [query])[0].as_share()
        self.parts[answer.round] = answer
        if answer.surprise or answer.act != "ask":
            self.disclosed += 1
        return answer.value, answer.low, answer.high

    def quantile(self) -> Generator[QuestionBatch, Sequence[Answer], tuple[float, float, float]]:
        """The estimate and its interval.

        Q > t where even the upper end of the share at or below t lies below the level, and Q <= t where the lower end
        reaches it. What lies below the range counts as its lower end, so that this end is tried like any other; at the upper
        end everything is at or below.
        """
        a, b = self.ends
        finest = max(_FINEST * (b - a), self.step or 0.0)
        value, highest, lowest = brackets = (_Bracket(b), _Bracket(b), _Bracket(b))
        if self.group is not None and (yield from self._one(question_of(self.group)))[0] <= 0.0:
            return nan, a, b  # nobody was seen in the group
        t: float | None = a
        while t is not None:
            share = yield from self.below(t)
            for bracket, bound in zip(brackets, share, strict=True):
                bracket.note(t, bound >= self.level)
            width = highest.passed - (a if lowest.failed is None else lowest.failed)
            fine = 1.0 if self.disclosed <= _FEW else 0.25
            goals = (max(width / (fine * part), finest) for part in (_VALUE_PARTS, _END_PARTS, _END_PARTS))
            wide = [bracket for bracket, goal in zip(brackets, goals, strict=True) if bracket.width > goal]
            t = self._middle_of(max(wide, key=lambda bracket: bracket.width)) if wide else None
        low, high = a if lowest.failed is None else min(lowest.failed, highest.passed), highest.passed
        return min(max(value.passed, low), high), low, high

    def _middle_of(self, bracket: _Bracket) -> float:
        """The middle of a bracket that is wider than the step, as a multiple of it."""
        t = bracket.passed - 0.5 * bracket.width
        return t if self.step is None else round(t / self.step) * self.step
