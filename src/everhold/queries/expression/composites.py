"""Text questions that are measured in one round, though they are not linear: shares and means of a group, quantiles.

Each is answered from exact sums of linear questions (`parts`, `counts`) over the private rows. `docs/theory/one_round.md`
shows why one round is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from everhold.errors import QuestionError
from everhold.queries.expression import bounded_mean, conjunction, question_of
from everhold.queries.expression.canonical import text_of
from everhold.queries.expression.question import BoundedMean, Expression
from everhold.queries.expression.tree import Logic, Node, Number, Test, Truth

if TYPE_CHECKING:
    from everhold.queries.grid import GridValues, Scale, Sums
    from everhold.queries.query import Rows

__all__ = [
    "COMPOSITES",
    "Composite",
    "GroupDifference",
    "GroupMean",
    "GroupShare",
    "OneGroup",
    "PairedShares",
    "QuantileOf",
    "SpreadOf",
    "group_difference",
    "group_mean",
    "group_share",
    "of_everybody",
    "paired_shares",
    "quantile_of",
    "spread_of_means",
]


class _GroupQuestion:
    """What these questions share: they are text, and have no value of a single row."""

    __slots__ = ()

    def on_reference(self, rows: Rows, size: int, *, verify: bool = False) -> GridValues:
        """Refused: it is made of several linear questions."""
        raise QuestionError("this question is not a mean over single rows. Ask it as a statistic.")

    def on_sample(self, rows: Rows, size: int, scale: Scale) -> Sums:
        """Refused: it is made of several linear questions."""
        raise QuestionError("this question is not a mean over single rows. Ask it as a statistic.")


@dataclass(frozen=True, slots=True)
class GroupShare(_GroupQuestion):
    """The share of yes among the rows of a group for which the question is true or false."""

    tree: Node
    given: Node
    name: str
    repeatable: bool = field(default=True, init=False)
    text: bool = field(default=True, init=False)
    yes_no: bool = field(default=True, init=False)

    @property
    def parts(self) -> tuple[Expression, Expression]:
        """Yes and in the group, no and in the group."""
        no = conjunction(Logic("not", (self.tree,)), self.given)
        return question_of(conjunction(self.tree, self.given)), question_of(no)


@dataclass(frozen=True, slots=True)
class GroupMean(_GroupQuestion):
    """The mean of a number over the rows of a group that have one, as a position between two ends."""

    tree: Node
    low: float
    high: float
    given: Node | None
    name: str
    repeatable: bool = field(default=True, init=False)
    text: bool = field(default=True, init=False)
    yes_no: bool = field(default=False, init=False)

    @property
    def parts(self) -> tuple[BoundedMean, BoundedMean]:
        """The position from below and from above: together they count the rows of the group."""
        up, down = (bounded_mean(self.tree, self.low, self.high, given=self.given, reverse=r) for r in (False, True))
        return up, down


@dataclass(frozen=True, slots=True)
class QuantileOf(_GroupQuestion):
    """The smallest value with a share of at least `level` at or below it, as a position between two ends.

    Attributes:
        step: what values are multiples of, where they are.
        middle: what a missing value counts as, in a column that is declared complete.
    """

    tree: Node
    low: float
    high: float
    level: float
    given: Node | None
    step: float | None
    middle: float | None
    name: str
    repeatable: bool = field(default=True, init=False)
    text: bool = field(default=True, init=False)
    yes_no: bool = field(default=False, init=False)

    @property
    def parts(self) -> tuple[BoundedMean, BoundedMean]:
        """The position of every row of the group, for the public side."""
        up, down = (bounded_mean(self.tree, self.low, self.high, given=self.given, reverse=r) for r in (False, True))
        return up, down

    def counts(self, thresholds: Sequence[float]) -> tuple[Expression, ...]:
        """Below each threshold, then at or below each; and the group, where there is one."""
        below = [self._within(self._test("<", t)) for t in thresholds]
        upto = [self._within(self._test("<=", t)) for t in thresholds]
        return tuple(below + upto + ([] if self.given is None else [question_of(self.given)]))

    def _test(self, sign: str, t: float) -> Node:
        test: Node = Test("<=", (self.tree, Number(t, self.tree.kind)))
        if sign == "<":
            test = Test("<", (self.tree, Number(t, self.tree.kind)))
        if self.middle is not None and (t > self.middle if sign == "<" else t >= self.middle):
            test = Logic("or", (test, Test("null", (self.tree,))))
        return test

    def _within(self, test: Node) -> Expression:
        return question_of(test if self.given is None else conjunction(test, self.given))


@dataclass(frozen=True, slots=True)
class GroupDifference(_GroupQuestion):
    """How much larger a share or mean is in one group than in another; the groups have no row in common.

    Attributes:
        low, high: the range of a number; None of a yes/no question.
    """

    tree: Node
    low: float | None
    high: float | None
    first: Node
    second: Node
    name: str
    repeatable: bool = field(default=True, init=False)
    text: bool = field(default=True, init=False)
    yes_no: bool = field(default=False, init=False)

    @property
    def parts(self) -> tuple[Expression | BoundedMean, ...]:
        """Two questions for each group, as for its share or mean alone."""
        parts: list[Expression | BoundedMean] = []
        for group in (self.first, self.second):
            if self.low is None or self.high is None:
                parts += group_share(self.tree, group).parts
            else:
                parts += group_mean(self.tree, self.low, self.high, group).parts
        return tuple(parts)


@dataclass(frozen=True, slots=True)
class PairedShares(_GroupQuestion):
    """How much larger the share of one yes/no question is than that of another, on the same rows."""

    first: Node
    second: Node
    name: str
    repeatable: bool = field(default=True, init=False)
    text: bool = field(default=True, init=False)
    yes_no: bool = field(default=False, init=False)

    @property
    def parts(self) -> tuple[Expression, Expression]:
        """Yes to the first and not to the second, and the other way round."""
        first_alone, second_alone = (
            question_of(conjunction(yes, Logic("or", (Logic("not", (no,)), Test("null", (no,))))))
            for yes, no in ((self.first, self.second), (self.second, self.first))
        )
        return first_alone, second_alone


@dataclass(frozen=True, slots=True)
class SpreadOf(_GroupQuestion):
    """A variance or a correlation, from several means over the rows of a group.

    Attributes:
        trees, ranges: the numbers whose means it is made of, each with its range.
        sign: None of a variance (of E x and E x²); of a correlation what the fifth mean is (`derived.correlation_from`).
    """

    trees: tuple[Node, ...]
    ranges: tuple[tuple[float, float], ...]
    given: Node | None
    sign: int | None
    name: str
    repeatable: bool = field(default=True, init=False)
    text: bool = field(default=True, init=False)
    yes_no: bool = field(default=False, init=False)

    @property
    def parts(self) -> tuple[BoundedMean, ...]:
        """Each mean from below; the first one also from above, which counts the rows of the group."""
        up = [bounded_mean(tree, *ends, given=self.given) for tree, ends in zip(self.trees, self.ranges, strict=True)]
        return bounded_mean(self.trees[0], *self.ranges[0], given=self.given, reverse=True), *up


Composite = GroupShare | GroupMean | QuantileOf | GroupDifference | PairedShares | SpreadOf
COMPOSITES = (GroupShare, GroupMean, QuantileOf, GroupDifference, PairedShares, SpreadOf)
"""All kinds of questions that are measured in one round, though they are not linear."""


OneGroup = GroupShare | GroupMean | QuantileOf | SpreadOf
"""Questions of all rows or of one group."""


def of_everybody(question: OneGroup) -> OneGroup:
    """The same question of all rows. It keeps its name, so it is for the public side alone."""
    if isinstance(question, GroupShare):
        return replace(question, given=Truth(True))
    return replace(question, given=None)


def group_share(tree: Node, given: Node) -> GroupShare:
    """A share within a group; its name contains everything that defines it."""
    return GroupShare(tree, given, f"SHARE OF {text_of(tree)} GIVEN {text_of(given)}")


def group_mean(tree: Node, low: float, high: float, given: Node | None) -> GroupMean:
    """A mean within a group; its name contains everything that defines it."""
    bounded_mean(tree, low, high)  # refuses what is out of range
    where = "" if given is None else f" GIVEN {text_of(given)}"
    return GroupMean(tree, low, high, given, f"MEAN OF {text_of(tree)} FROM {low!r} TO {high!r}{where}")


def quantile_of(
    tree: Node, low: float, high: float, level: float, given: Node | None, step: float | None, middle: float | None
) -> QuantileOf:
    """A quantile; its name contains everything that defines it."""
    bounded_mean(tree, low, high) if tree.kind == "number" else None
    name = f"QUANTILE {level!r} OF {text_of(tree)} FROM {low!r} TO {high!r}"
    name += "" if step is None else f" STEP {step!r}"
    name += "" if middle is None else f" ELSE {middle!r}"
    name += "" if given is None else f" GIVEN {text_of(given)}"
    return QuantileOf(tree, low, high, level, given, step, middle, name)


def group_difference(tree: Node, ends: tuple[float, float] | None, first: Node, second: Node) -> GroupDifference:
    """A difference of two groups without a row in common; its name contains everything that defines it."""
    low, high = ends or (None, None)
    if low is not None and high is not None:
        bounded_mean(tree, low, high)  # refuses what is out of range
    span = "" if ends is None else f" FROM {low!r} TO {high!r}"
    name = f"DIFFERENCE OF {text_of(tree)}{span} GIVEN {text_of(first)} AND {text_of(second)}"
    return GroupDifference(tree, low, high, first, second, name)


def paired_shares(first: Node, second: Node) -> PairedShares:
    """A difference of two shares on the same rows; its name contains everything that defines it."""
    return PairedShares(first, second, f"DIFFERENCE OF {text_of(first)} AND {text_of(second)}")


def spread_of_means(
    trees: Sequence[Node], ranges: Sequence[tuple[float, float]], given: Node | None, sign: int | None
) -> SpreadOf:
    """A variance or a correlation; its name contains everything that defines it."""
    means = ", ".join(f"{text_of(tree)} FROM {low!r} TO {high!r}" for tree, (low, high) in zip(trees, ranges, strict=True))
    kind = "VARIANCE" if sign is None else f"CORRELATION {sign}"
    where = "" if given is None else f" GIVEN {text_of(given)}"
    ends = tuple((float(low), float(high)) for low, high in ranges)
    return SpreadOf(tuple(trees), ends, given, sign, f"{kind} BY {means}{where}")
