"""Variance and correlation: means of squares and products around public centres, in one batch."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from everhold.bounds import derived
from everhold.errors import QuestionError
from everhold.queries.expression import bounded_mean
from everhold.queries.expression.canonical import canonical
from everhold.queries.expression.composites import spread_of_means
from everhold.queries.expression.tree import Call, Node, Number as NumberNode
from everhold.queries.expression.values import SMALLEST
from everhold.statistics.finding import Finding
from everhold.statistics.linear import cut, mean_of, mean_questions, prior_position, together
from everhold.statistics.parameters import Given, High, Low, Number, Range, Role

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.statistics.declared import DeclaredColumns, Ends
    from everhold.statistics.statistic import QuestionBatch

__all__ = ["Correlation", "Variance"]


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of a number, in squares of its units: its mean, and the mean of squares around a public centre."""

    name: ClassVar[str] = "variance"
    title: ClassVar[str] = "Variance"
    example: ClassVar[Mapping[str, Any]] = {"question": "bmi", "low": 10.0, "high": 60.0}
    question: Number
    _: KW_ONLY
    low: Low = None
    high: High = None
    given: Given = None

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Finding]:
        """Mean and squares."""
        tree, ends = declared.number(self.question, self.low, self.high)
        group = declared.group(self.given, [tree])
        side = _Side.of(declared, declared.filled(tree, ends), ends, group)
        unit = _sq(side.length)
        what = f"variance of {self.question}{declared.cut_to(self.question, ends)}"
        what += "" if self.given is None else f" given {self.given}"
        (value, low, high), parts = yield from _asked(declared, side.trees, side.ranges, group, None)
        least, most = derived.difference((low * unit, high * unit), (0.0, 0.0))
        return Finding(what, value * unit, max(least, 0.0), most, parts)


@dataclass(frozen=True, slots=True)
class Correlation:
    """The correlation of two numbers, over rows that have both."""

    name: ClassVar[str] = "correlation"
    title: ClassVar[str] = "Correlation with"
    example: ClassVar[Mapping[str, Any]] = {"first": "age", "second": "bmi"}
    first: Annotated[str, Role("expression", "First", "A number, such as age.")]
    second: Annotated[str, Role("expression", "Second", "The number that it is correlated with, such as bmi.")]
    _: KW_ONLY
    first_range: Annotated[Range, Role("range", "Range of the first", "The range of the first number.")] = None
    second_range: Annotated[Range, Role("range", "Range of the second", "The range of the second number.")] = None
    given: Given = None

    def __post_init__(self) -> None:
        for name in ("first_range", "second_range"):
            if isinstance(ends := getattr(self, name), list):
                object.__setattr__(self, name, tuple(ends))

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Finding]:
        """Means and squares of both; and of their product, or of their difference where they go together.

        Each number is divided by about its own spread. The variance of x - y is small where x and y go together, and then
        its interval is narrow; otherwise the product is better.
        """
        for ends in (self.first_range, self.second_range):
            if ends is not None and not (isinstance(ends, tuple | list) and len(ends) == 2):
                raise QuestionError(f"a range is a pair such as (10, 60), not {ends!r}.")
        named = ((self.first, self.first_range), (self.second, self.second_range))
        sides = [declared.number(text, *(ends or (None, None))) for text, ends in named]
        group = declared.group(self.given, [tree for tree, _ in sides])
        first, second = (_Side.of(declared, declared.filled(tree, ends), ends, group) for tree, ends in sides)
        pair = _Pair.of(declared, first, second, group)
        trees, ranges = [*first.trees, *second.trees, pair.tree], [*first.ranges, *second.ranges, pair.ends]
        (value, low, high), parts = yield from _asked(declared, trees, ranges, group, pair.sign)
        described = [f"{text}{declared.cut_to(text, ends)}" for (text, _), (_, ends) in zip(named, sides, strict=True)]
        what = f"correlation of {' and '.join(described)}" + ("" if self.given is None else f" given {self.given}")
        return Finding(what, value, low, high, parts)


def _asked(
    declared: DeclaredColumns, trees: Sequence[Node], ranges: Sequence[Ends], group: Node | None, sign: int | None
) -> Generator[QuestionBatch, Sequence[Answer], tuple[derived.Position, tuple[Answer, ...]]]:
    """A variance (sign None) or a correlation, in one round where that is possible; else from every mean."""
    if declared.composites:
        answer = (yield [spread_of_means(trees, ranges, group, sign)])[0]
        position = (answer.value, answer.low, answer.high)
        if sign is None:
            value, low, high = (0.5 * (1.0 + end) * ranges[1][1] for end in position)
            return (value, low, high), (answer,)
        return position, (answer,)
    questions = [mean_questions(declared, tree, ends, group) for tree, ends in zip(trees, ranges, strict=True)]
    answers = yield from together(*questions)
    means = [mean_of(part) for part in answers]
    positions = [(value, *ends) for value, ends, _ in means]
    parts = tuple(part for _, _, used in means for part in used)
    if sign is None:
        return derived.variance_from(positions, ranges), parts
    return derived.correlation_from(positions, ranges, sign), parts


@dataclass(frozen=True, slots=True)
class _Side:
    """One number, shifted to a public centre and divided by about its spread.

    Attributes:
        tree: (x - c)/length.
        reach: the ends of that.
    """

    number: Node
    ends: Ends
    tree: Node
    reach: Ends
    length: float

    @classmethod
    def of(cls, declared: DeclaredColumns, tree: Node, ends: Ends, group: Node | None) -> _Side:
        """Centre and spread from the prior."""
        span = ends[1] - ends[0]
        shift = ends[0] + span * prior_position(declared, tree, ends, group)
        shifted = _shifted(tree, ends, shift)
        farthest = max(_sq(ends[0] - shift), _sq(ends[1] - shift))
        if farthest < SMALLEST:
            raise QuestionError("a range is too narrow for a variance. Expected one of at least 1e-13.")
        squares = declared.prior(bounded_mean(_squared(shifted), 0.0, farthest, given=group))
        inside = 1.0 if group is None else max(_inside(declared, tree, ends, group), 1e-9)
        length = float(f"{max(sqrt(max(farthest * squares / inside, 0.0)), span / 1024.0):.2g}")
        scaled = Call("/", (shifted, NumberNode(length)), "number")
        return cls(tree, ends, scaled, ((ends[0] - shift) / length, (ends[1] - shift) / length), length)

    @property
    def trees(self) -> tuple[Node, Node]:
        """The number and its square."""
        return canonical(self.tree), _squared(self.tree)

    @property
    def ranges(self) -> tuple[Ends, Ends]:
        """Their ranges."""
        return self.reach, (0.0, self.farthest)

    @property
    def farthest(self) -> float:
        """The largest square."""
        return max(_sq(self.reach[0]), _sq(self.reach[1]))


@dataclass(frozen=True, slots=True)
class _Pair:
    """How two numbers go together: their product, or the square of their sum or difference.

    Attributes:
        sign: 0 for the product; 1 where they rise together, so that their difference is small; -1 where one falls.
    """

    sign: int
    tree: Node
    ends: Ends

    @classmethod
    def of(cls, declared: DeclaredColumns, first: _Side, second: _Side, group: Node | None) -> _Pair:
        """By the prior: a strong correlation is measured by the difference."""
        corners = [p * q for p in first.reach for q in second.reach]
        product = canonical(Call("*", (first.tree, second.tree), "number"))
        ends = min(corners), max(corners)
        up, down = (declared.prior(bounded_mean(product, *ends, given=group, reverse=r)) for r in (False, True))
        about = (ends[0] + (ends[1] - ends[0]) * up / (up + down)) if up + down > 0.0 else 0.0
        if abs(about) < 0.6:
            return cls(0, product, ends)
        sign = 1 if about > 0.0 else -1
        tree = _squared(Call("-" if sign > 0 else "+", (first.tree, second.tree), "number"))
        sums = [p - sign * q for p in first.reach for q in second.reach]
        return cls(sign, tree, (0.0, max(_sq(total) for total in sums)))


def _inside(declared: DeclaredColumns, tree: Node, ends: Ends, group: Node | None) -> float:
    """The share of the public rows in a group."""
    return sum(declared.prior(bounded_mean(tree, *ends, given=group, reverse=r)) for r in (False, True))


def _sq(x: float) -> float:
    """x², correctly rounded on every machine; a power is not."""
    return x * x


def _shifted(tree: Node, ends: Ends, shift: float) -> Node:
    """x - c, x cut off at its range."""
    return Call("-", (cut(tree, ends), NumberNode(shift)), "number")


def _squared(tree: Node) -> Node:
    return canonical(Call("*", (tree, tree), "number"))
