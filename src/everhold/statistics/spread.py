"""Variance and correlation: means of squares around a centre that was asked for first."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from everhold.bounds import derived
from everhold.errors import QuestionError
from everhold.queries.expression.canonical import canonical
from everhold.queries.expression.tree import Call, Node
from everhold.queries.expression.tree import Number as NumberNode
from everhold.queries.expression.values import SMALLEST
from everhold.statistics.finding import Finding
from everhold.statistics.linear import cut, mean_steps
from everhold.statistics.parameters import Given, High, Low, Number, Range, Role

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.statistics.declared import Declared, Ends
    from everhold.statistics.linear import Part
    from everhold.statistics.statistic import Batch

__all__ = ["Correlation", "Variance"]


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of a number, in squares of its units. Its mean is asked first, then squares around that."""

    name: ClassVar[str] = "variance"
    title: ClassVar[str] = "Variance"
    example: ClassVar[Mapping[str, Any]] = {"question": "bmi", "low": 10.0, "high": 60.0}
    question: Number
    _: KW_ONLY
    low: Low = None
    high: High = None
    given: Given = None

    def steps(self, declared: Declared) -> Generator[Batch, Sequence[Answer], Finding]:
        """Mean and squares."""
        tree, ends = declared.number(self.question, self.low, self.high)
        group = declared.group(self.given, [tree])
        found = yield from _moments(declared, declared.filled(tree, ends), ends, group)
        span = ends[1] - ends[0]
        what = f"variance of {self.question}{declared.cut_to(self.question, ends)}"
        what += "" if self.given is None else f" given {self.given}"
        low, high = found.spread
        return Finding(what, found.variance * span * span, low * span * span, high * span * span, found.parts)


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

    def steps(self, declared: Declared) -> Generator[Batch, Sequence[Answer], Finding]:
        """The moments of both, then squares of their sum and of their difference.

        On the scale of the ranges, and with each number divided by about its own spread: E(x - c)(y - d) is a quarter of
        E(x + y - …)² - E(x - y - …)², squares whose means lie near 0, where intervals are narrow.
        """
        for ends in (self.first_range, self.second_range):
            if ends is not None and not (isinstance(ends, tuple | list) and len(ends) == 2):
                raise QuestionError(f"a range is a pair such as (10, 60), not {ends!r}.")
        named = ((self.first, self.first_range), (self.second, self.second_range))
        sides = [declared.number(text, *(ends or (None, None))) for text, ends in named]
        group = declared.group(self.given, [tree for tree, _ in sides])
        trees, ranges = [declared.filled(tree, ends) for tree, ends in sides], [ends for _, ends in sides]
        x = yield from _moments(declared, trees[0], ranges[0], group)
        y = yield from _moments(declared, trees[1], ranges[1], group)
        factors, reach = [], []
        for tree, ends, one in zip(trees, ranges, (x, y), strict=True):
            length = (ends[1] - ends[0]) * one.scale
            if length < SMALLEST:
                raise QuestionError("a range is too narrow for a correlation. Expected one of at least 1e-27.")
            factors.append(Call("/", (_shifted(tree, ends, one.shift), NumberNode(length)), "number"))
            reach.append(((ends[0] - one.shift) / length, (ends[1] - one.shift) / length))
        plus = yield from _square(declared, factors, reach, "+", group)
        minus = yield from _square(declared, factors, reach, "-", group)
        product = derived.difference(plus[1], minus[1])
        unit = x.scale * y.scale
        centres = [(one.shift - ends[0]) / (ends[1] - ends[0]) for one, ends in zip((x, y), ranges, strict=True)]
        cov = derived.covariance(
            x.mean, y.mean, (0.25 * product[0] * unit, 0.25 * product[1] * unit), (centres[0], centres[1])
        )
        value = 0.25 * (plus[0] - minus[0]) * unit / sqrt(max(x.variance * y.variance, 1e-12))
        low, high = derived.correlation(cov, x.spread, y.spread)
        said = [f"{text}{declared.cut_to(text, ends)}" for (text, _), ends in zip(named, ranges, strict=True)]
        what = f"correlation of {' and '.join(said)}" + ("" if self.given is None else f" given {self.given}")
        return Finding(what, min(max(value, low), high), low, high, x.parts + y.parts + plus[2] + minus[2])


@dataclass(frozen=True, slots=True)
class _Moments:
    """A number's first two moments.

    Attributes:
        shift: a centre near the mean, in the number's units.
        mean: the mean's interval, as a place in the range.
        variance, spread: estimate and interval on the range's scale.
        parts: what was asked.
    """

    shift: float
    mean: Ends
    variance: float
    spread: Ends
    parts: tuple[Answer, ...]

    @property
    def scale(self) -> float:
        """About one standard deviation, on the range's scale."""
        return max(1e-3, round(sqrt(self.variance), 3))


def _moments(
    declared: Declared, tree: Node, ends: Ends, group: Node | None
) -> Generator[Batch, Sequence[Answer], _Moments]:
    value, mean, parts = yield from mean_steps(declared, tree, ends, group)
    span = ends[1] - ends[0]
    shift = ends[0] + span * (round(value, 3) if value == value else 0.5)
    centre = (shift - ends[0]) / span
    corners = (0.0, max(_sq(ends[0] - shift), _sq(ends[1] - shift)))
    squares = _squared(_shifted(tree, ends, shift))
    around, interval, more = yield from mean_steps(declared, squares, corners, group)
    about = tuple(end / (span * span) for end in derived.rescaled(interval, *corners))
    estimate = corners[1] * around / (span * span) - _sq(value - centre)
    low, high = derived.variance(mean, (about[0], about[1]), centre)
    return _Moments(shift, mean, min(max(estimate, low), high), (low, high), parts + more)


def _square(declared: Declared, factors: list[Call], reach: list[Ends], sign: str, group: Node | None) -> Part:
    """E(x ± y)²."""
    farthest = max(abs(p + q if sign == "+" else p - q) for p in reach[0] for q in reach[1])
    farthest *= farthest
    tree = _squared(Call(sign, (factors[0], factors[1]), "number"))
    value, interval, parts = yield from mean_steps(declared, tree, (0.0, farthest), group)
    return farthest * value, derived.rescaled(interval, 0.0, farthest), parts


def _sq(x: float) -> float:
    """x², correctly rounded on every machine; a power is not."""
    return x * x


def _shifted(tree: Node, ends: Ends, shift: float) -> Node:
    """x - c, x cut off at its range."""
    return Call("-", (cut(tree, ends), NumberNode(shift)), "number")


def _squared(tree: Node) -> Node:
    return canonical(Call("*", (tree, tree), "number"))
