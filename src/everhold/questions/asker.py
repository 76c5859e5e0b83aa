"""Questions made of linear ones. Whoever can answer a batch of linear questions can answer all of these."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import isfinite, nan, prod
from typing import TYPE_CHECKING

from everhold.bounds import derived
from everhold.errors import QuestionError, require_number
from everhold.queries.expression import Expression, Graded, conjunction, expression, graded, number, question_of
from everhold.queries.expression.canonical import canonical
from everhold.queries.expression.tree import Call, Case, Column, Logic, Node, Number, Test
from everhold.queries.expression.values import LARGEST, SMALLEST, date_of
from everhold.questions.bins import bins_of, label_tests
from everhold.questions.finding import Comparison, Finding, Shares
from everhold.questions.missing import can_be_missing

if TYPE_CHECKING:
    from everhold.data.schema import Schema
    from everhold.queries.answer import Answer

__all__ = ["Asker"]

Ends = tuple[float, float]

_SECOND = 1e6  # in microseconds: how finely quantiles of dates are told apart
_HALVINGS = 14  # of the range, in the search for a quantile: 1/16,384 of it


class Asker:
    """The questions that people ask, on top of `_ask_parts`."""

    _most_cells = 10_000  # of one table

    @abstractmethod
    def _ask_parts(self, queries: Sequence[Expression | Graded]) -> list[Answer]:
        """Answers to linear questions, in order; yes/no as shares, graded ones on the [-1, 1] scale."""

    @abstractmethod
    def _declared(self) -> Schema:
        """The public columns."""

    # shares and means ----------------------------------------------------------------------------------------------

    def share(self, question: str, *, given: str | None = None) -> Answer | Finding:
        """The share of the population that answers yes, of all or of those for whom `given` is true.

        With `given`, rows for which the question is neither true nor false do not count. Made of two questions: yes and
        given, no and given.
        """
        asked = self._yes_no(question)
        if given is None:
            return self._ask_parts([asked])[0]
        return self._ratio(asked.tree, self._yes_no(given).tree, f"share of {question} given {given}")

    def mean(
        self, question: str, *, low: float | None = None, high: float | None = None, given: str | None = None
    ) -> Finding:
        """The mean of a number, in its own units.

        Args:
            question: a column or an expression, "bmi" or "ln(income)".
            low, high: the range that is considered; what lies outside counts as its nearest end. The schema's own range
                for a column when left out. The interval's width is proportional to it.
            given: only rows for which this is true.

        Rows without a number do not count. One question where nothing can be missing and nothing is given, else two.
        """
        tree, ends = self._number(question, low, high)
        group = None if given is None else self._yes_no(given).tree
        value, interval, parts = self._mean(self._filled(tree, ends), ends, group)
        what = f"mean of {question}{self._cut_to(question, ends)}" + ("" if given is None else f" given {given}")
        return Finding(what, ends[0] + (ends[1] - ends[0]) * value, *derived.rescaled(interval, *ends), parts)

    def difference(
        self,
        question: str,
        first: str,
        second: str,
        *,
        low: float | None = None,
        high: float | None = None,
    ) -> Comparison:
        """How much more of something there is in one group than in another: a share, or a mean in its own units.

        >>> # holdout.difference("smoker", "city = 'York'", "city = 'Leeds'")
        """
        groups = [self._yes_no(group) for group in (first, second)]
        what = f"{question}: {first} minus {second}"
        if low is None and high is None and self._is_yes_no(question):
            tree = self._yes_no(question).tree
            one, other = (self._ratio(tree, group.tree, "") for group in groups)
        else:
            tree, ends = self._number(question, low, high)
            what = f"{question}{self._cut_to(question, ends)}: {first} minus {second}"
            found = [self._mean(self._filled(tree, ends), ends, group.tree) for group in groups]
            one, other = (
                Finding("", ends[0] + (ends[1] - ends[0]) * value, *derived.rescaled(interval, *ends), parts)
                for value, interval, parts in found
            )
        ends_of = derived.difference((one.low, one.high), (other.low, other.high))
        return Comparison(what, one.value - other.value, *ends_of, one.parts + other.parts)

    def compare(
        self, first: str, second: str, *, low: float | None = None, high: float | None = None, given: str | None = None
    ) -> Comparison:
        """Is the first larger than the second: yes, no, or cannot tell.

        Two yes/no questions are compared by their shares, two numbers by their means, on the same rows and by a single
        question about the difference, which is narrower than two intervals side by side.
        """
        what = f"is {first} larger than {second}" + ("" if given is None else f" given {given}")
        group = None if given is None else self._yes_no(given).tree
        if self._is_yes_no(first) and self._is_yes_no(second):
            one, other = (_as_number(self._yes_no(text).tree) for text in (first, second))
            ends = (-1.0, 1.0)
        else:
            (one, a), (other, b) = self._number(first, low, high), self._number(second, low, high)
            one, other = _cut(self._filled(one, a), a), _cut(self._filled(other, b), b)
            what = f"is {first}{self._cut_to(first, a)} larger than {second}{self._cut_to(second, b)}"
            what += "" if given is None else f" given {given}"
            ends = (a[0] - b[1], a[1] - b[0])
        tree = canonical(Call("-", (one, other), "number"))
        value, interval, parts = self._mean(tree, ends, group)
        ends_of = derived.rescaled(interval, *ends)
        return Comparison(what, ends[0] + (ends[1] - ends[0]) * value, *ends_of, parts)

    # spread --------------------------------------------------------------------------------------------------------

    def variance(
        self, question: str, *, low: float | None = None, high: float | None = None, given: str | None = None
    ) -> Finding:
        """The variance of a number, in squares of its units. Its mean is asked first, then squares around that."""
        tree, ends = self._number(question, low, high)
        group = self._group(given, [tree])
        _, _, spread, parts = self._moments(self._filled(tree, ends), ends, group)
        span = ends[1] - ends[0]
        what = f"variance of {question}{self._cut_to(question, ends)}" + ("" if given is None else f" given {given}")
        interval = (spread[1][0] * span * span, spread[1][1] * span * span)
        return Finding(what, spread[0] * span * span, *interval, parts)

    def correlation(
        self,
        first: str,
        second: str,
        *,
        first_range: tuple[float, float] | None = None,
        second_range: tuple[float, float] | None = None,
        given: str | None = None,
    ) -> Finding:
        """The correlation of two numbers, over rows that have both."""
        for ends in (first_range, second_range):
            if ends is not None and not (isinstance(ends, tuple | list) and len(ends) == 2):
                raise QuestionError(f"a range is a pair such as (10, 60), not {ends!r}.")
        sides = [
            self._number(text, *(ends or (None, None))) for text, ends in ((first, first_range), (second, second_range))
        ]
        group = self._group(given, [tree for tree, _ in sides])
        trees, ranges = [self._filled(tree, ends) for tree, ends in sides], [ends for _, ends in sides]
        (c, x_mean, x_spread, x_parts), (d, y_mean, y_spread, y_parts) = (
            self._moments(tree, ends, group) for tree, ends in zip(trees, ranges, strict=True)
        )
        spans = [ends[1] - ends[0] for ends in ranges]
        # On the scale of the ranges, and with each number divided by about its own spread:
        # E(x - c)(y - d) = (E(x + y - …)² - E(x - y - …)²)/4, squares whose means lie near 0, where intervals are narrow.
        scales = [max(1e-3, round(spread[0] ** 0.5, 3)) for spread in (x_spread, y_spread)]
        factors: list[Node] = [
            Call("/", (_shifted(tree, ends, shift), Number(span * scale)), "number")
            for tree, ends, shift, span, scale in zip(trees, ranges, (c, d), spans, scales, strict=True)
        ]
        reach = [
            ((ends[0] - shift) / (span * scale), (ends[1] - shift) / (span * scale))
            for ends, shift, span, scale in zip(ranges, (c, d), spans, scales, strict=True)
        ]
        squares = [self._square(factors, reach, sign, group) for sign in ("+", "-")]
        product = derived.difference(squares[0][1], squares[1][1])
        unit = scales[0] * scales[1]
        centres = [(shift - ends[0]) / span for shift, ends, span in zip((c, d), ranges, spans, strict=True)]
        cov = derived.covariance(
            x_mean, y_mean, (0.25 * product[0] * unit, 0.25 * product[1] * unit), (centres[0], centres[1])
        )
        value = 0.25 * (squares[0][0] - squares[1][0]) * unit / (max(x_spread[0] * y_spread[0], 1e-12)) ** 0.5
        low, high = derived.correlation(cov, x_spread[1], y_spread[1])
        parts = x_parts + y_parts + squares[0][2] + squares[1][2]
        named = [f"{text}{self._cut_to(text, ends)}" for text, ends in zip((first, second), ranges, strict=True)]
        what = f"correlation of {' and '.join(named)}" + ("" if given is None else f" given {given}")
        return Finding(what, min(max(value, low), high), low, high, parts)

    # order ---------------------------------------------------------------------------------------------------------

    def quantile(
        self,
        question: str,
        level: float,
        *,
        low: float | None = None,
        high: float | None = None,
        given: str | None = None,
    ) -> Finding:
        """The smallest t such that a share of at least `level` lies at or below it, by bisection. Of numbers, or of dates.

        About 40 questions of the form "x <= t"; quiet ones cost next to nothing. Rows without a value do not count; what
        lies outside the range counts as its nearest end.
        """
        require_number(level, "level")
        if not 0.0 < level < 1.0:
            raise QuestionError(f"the level of a quantile lies strictly between 0 and 1, not at {level!r}")
        tree, ends = self._number(question, low, high, dates=True)
        date = tree.kind == "date"
        group = self._group(given, [tree])
        step = _SECOND if date else 1.0 if isinstance(tree, Column) and self._declared()[tree.name].whole else None
        if not date:
            tree = self._filled(tree, ends)
        parts: dict[int, Answer] = {}
        known: dict[float, tuple[float, float, float]] = {}

        def below(t: float) -> tuple[float, float, float]:
            """The share at or below t among those that count: estimate and interval."""
            if t in known:
                return known[t]
            test = Test("<=", (tree, Number(t, tree.kind)))
            if group is None:
                answer = self._ask_parts([question_of(test)])[0]
                parts[answer.round] = answer
                known[t] = answer.value, answer.low, answer.high
            else:
                found = self._ratio(test, group, "")
                parts.update({part.round: part for part in found.parts})
                known[t] = found.value, found.low, found.high
            return known[t]

        def search(passed: int) -> tuple[float | None, float]:
            """Halve the range: `passed` says which number has to pass. The last t that failed, and the first that passed.

            What lies below the range counts as its lower end, so that this end has to be tried like any other; at the upper
            end everything is at or below.
            """
            a, b = ends
            if below(a)[passed] >= level:
                return None, a
            for _ in range(_HALVINGS):
                t = 0.5 * (a + b)
                t = t if step is None or not a < round(t / step) * step < b else round(t / step) * step
                if below(t)[passed] >= level:
                    b = t
                else:
                    a = t
                if step is not None and b - a <= step:
                    break
            return a, b

        value = search(0)[1] if below(ends[0])[0] == below(ends[0])[0] else nan
        # Q > a where even the upper end lies below the level; Q ≤ b where the lower end reaches it.
        lowest, highest = search(2)[0], search(1)[1]
        least = ends[0] if lowest is None else min(lowest, highest)
        what = f"{level:g} quantile of {question}" + ("" if given is None else f" given {given}")
        return Finding(
            what, min(max(value, least), highest), least, highest, tuple(parts.values()), "date" if date else "number"
        )

    def median(
        self, question: str, *, low: float | None = None, high: float | None = None, given: str | None = None
    ) -> Finding:
        """The middle: the quantile at one half."""
        return self.quantile(question, 0.5, low=low, high=high, given=given)

    # tables --------------------------------------------------------------------------------------------------------

    def histogram(
        self, question: str, *, bins: int = 10, edges: Sequence[float] | None = None, given: str | None = None
    ) -> Shares:
        """Shares by bins of a number, by categories of a text, or by yes and no: one question a bin, in one scan.

        Args:
            question: a column, or an expression with numbers.
            bins: how many equal parts of the schema's range; the outer ones take what lies beyond.
            edges: ends of the bins instead; each holds its left end, the last both, and what lies outside is in none.
            given: only rows for which this is true.
        """
        return self._table(question, [self._labels(question, bins, edges)], given)

    def table(self, first: str, second: str | None = None, *, bins: int = 5, given: str | None = None) -> Shares:
        """Shares by the values of one column, or of two together."""
        columns = [first] if second is None else [first, second]
        return self._table(" × ".join(columns), [self._labels(column, bins, None) for column in columns], given)

    def _table(self, what: str, sides: list[list[tuple[str, Node]]], given: str | None) -> Shares:
        if (many := prod(len(side) for side in sides)) > self._most_cells:
            raise QuestionError(
                f"this table has {many:,} cells, each a question; {self._most_cells:,} are allowed. Take fewer bins, or "
                "ask a part of it."
            )
        pairs: list[tuple[tuple[str, ...], Node]] = [((label,), test) for label, test in sides[0]]
        for side in sides[1:]:
            pairs = [((*labels, label), conjunction(test, other)) for labels, test in pairs for label, other in side]
        labels = tuple(label for label, _ in pairs)
        title = what if given is None else f"{what} given {given}"
        if given is None:
            return Shares(title, labels, tuple(self._ask_parts([question_of(test) for _, test in pairs])))
        group = self._yes_no(given).tree
        whole = self._ask_parts([question_of(group)])[0]
        parts = self._ask_parts([question_of(conjunction(test, group)) for _, test in pairs])
        cells = tuple(
            _within(f"{' × '.join(label)} given {given}", part, whole)
            for label, part in zip(labels, parts, strict=True)
        )
        return Shares(title, labels, cells)

    def _labels(self, question: str, bins: int, edges: Sequence[float] | None) -> list[tuple[str, Node]]:
        schema = self._declared()
        if self._is_yes_no(question):
            tree = self._yes_no(question).tree
            labels = [("yes", tree), ("no", canonical(Logic("not", (tree,))))]
        elif (name := question.strip('"')) in schema and schema[name].kind == "text":
            return label_tests(schema[name])
        elif edges is not None:
            tree = number(self._quoted(question), schema.kinds, schema.words, dates=True)
            labels = bins_of(tree, (0.0, 1.0), bins, edges)
        else:
            tree, ends = self._number(question, None, None, dates=True)
            labels = bins_of(tree, ends, bins, None)
        return [*labels, ("(missing)", Test("null", (tree,)))] if can_be_missing(tree, schema) else labels

    # parts ---------------------------------------------------------------------------------------------------------

    def _yes_no(self, text: str) -> Expression:
        if not isinstance(text, str):
            raise QuestionError(f'a question here is text, such as "age > 40", not {type(text).__name__}.')
        return expression(self._quoted(text), self._declared().kinds, self._declared().words)

    def _quoted(self, text: str) -> str:
        """The bare name of a column that needs quotes in an expression gets them."""
        return f'"{text}"' if text in self._declared() and '"' not in text and not text.isidentifier() else text

    def _is_yes_no(self, text: str) -> bool:
        try:
            self._yes_no(text)
        except QuestionError:
            return False
        return True

    def _number(
        self, text: str, low: float | str | None, high: float | str | None, *, dates: bool = False
    ) -> tuple[Node, Ends]:
        """A number's tree, or a date's, and the range that is considered."""
        if not isinstance(text, str):
            raise QuestionError(f'a question here is text, such as "bmi", not {type(text).__name__}.')
        schema = self._declared()
        tree = number(self._quoted(text), schema.kinds, schema.words, dates=dates)
        declared = schema[tree.name] if isinstance(tree, Column) else None
        if (low is None) != (high is None):
            raise QuestionError("a range has two ends. Expected both low and high, or neither.")
        if tree.kind == "date" and low is not None and high is not None:
            low, high = date_of(low), date_of(high)
            if not low < high:
                raise QuestionError("the range of a date has two ends such as low='2024-01-01' and high='2025-01-01'.")
            return tree, (low, high)
        if low is None or high is None:
            low, high = (None, None) if declared is None else (declared.low, declared.high)
        if isinstance(tree, Case) and low is None and self._is_yes_no(text):
            low, high = 0.0, 1.0
        if low is None or high is None:
            raise QuestionError(
                f"{text!r} has no declared range. Expected low=... and high=..., the ends between which its values are "
                "considered; choose them by what is known of it in public."
            )
        for end, name in ((low, "low"), (high, "high")):
            require_number(end, name)
        low, high = (0.0 if abs(float(end)) < SMALLEST else float(end) for end in (low, high))
        if tree.kind == "number" and not (
            isfinite(low) and isfinite(high) and high - low >= SMALLEST and max(abs(low), abs(high)) <= LARGEST
        ):
            raise QuestionError(f"the range goes from {low!r} to {high!r}. Expected low < high, at most 1e15 in size.")
        return tree, (low, high)

    def _cut_to(self, text: str, ends: Ends) -> str:
        """A mean over a range is one of values that were cut off at its ends: say so, unless they are yes and no."""
        return "" if self._is_yes_no(text) else f" cut to {ends[0]:.12g}…{ends[1]:.12g}"

    def _filled(self, tree: Node, ends: Ends) -> Node:
        """Where nothing may be missing by the schema, a row that breaks it counts as the middle."""
        if can_be_missing(tree, self._declared()):
            return tree
        return canonical(Call("coalesce", (tree, Number(0.5 * (ends[0] + ends[1]))), "number"))

    def _group(self, given: str | None, trees: list[Node]) -> Node | None:
        """The rows that count: those given, and among them those that have all numbers."""
        known = [Logic("not", (Test("null", (tree,)),)) for tree in trees if can_be_missing(tree, self._declared())]
        wanted: list[Node] = [] if given is None else [self._yes_no(given).tree]
        wanted += known
        return conjunction(*wanted) if wanted else None

    def _ratio(self, tree: Node, group: Node, what: str) -> Finding:
        """A/(A + B): yes and given, no and given."""
        no = conjunction(Logic("not", (tree,)), group)
        parts = self._ask_parts([question_of(conjunction(tree, group)), question_of(no)])
        return _share_of(what, parts)

    def _mean(self, tree: Node, ends: Ends, group: Node | None) -> tuple[float, Ends, tuple[Answer, ...]]:
        """The mean's place between the ends: estimate, interval, parts."""
        if group is None and not can_be_missing(tree, self._declared()):
            answer = self._ask_parts([graded(tree, *ends)])[0].as_share()
            return answer.value, (answer.low, answer.high), (answer,)
        both = [graded(tree, *ends, given=group, reverse=reverse) for reverse in (False, True)]
        found = _share_of("", [answer.as_share() for answer in self._ask_parts(both)])
        return found.value, (found.low, found.high), found.parts

    def _square(
        self, factors: list[Node], reach: list[Ends], sign: str, group: Node | None
    ) -> tuple[float, Ends, tuple[Answer, ...]]:
        """E(x ± y)²: estimate, interval, parts."""
        farthest = max(abs(p + q if sign == "+" else p - q) for p in reach[0] for q in reach[1]) ** 2
        tree = _squared(Call(sign, (factors[0], factors[1]), "number"))
        value, interval, parts = self._mean(tree, (0.0, farthest), group)
        return farthest * value, derived.rescaled(interval, 0.0, farthest), parts

    def _moments(
        self, tree: Node, ends: Ends, group: Node | None
    ) -> tuple[float, Ends, tuple[float, Ends], tuple[Answer, ...]]:
        """A centre near the mean in the number's units, the mean's interval and the variance with its own on the range's."""
        value, mean, parts = self._mean(tree, ends, group)
        span = ends[1] - ends[0]
        shift = ends[0] + span * (round(value, 3) if value == value else 0.5)
        centre = (shift - ends[0]) / span
        corners = (0.0, max((ends[0] - shift) ** 2, (ends[1] - shift) ** 2))
        around, interval, more = self._mean(_squared(_shifted(tree, ends, shift)), corners, group)
        about = tuple(end / span**2 for end in derived.rescaled(interval, *corners))
        estimate = corners[1] * around / span**2 - (value - centre) ** 2
        low, high = derived.variance(mean, (about[0], about[1]), centre)
        return shift, mean, (min(max(estimate, low), high), (low, high)), parts + more


def _share_of(what: str, parts: Sequence[Answer]) -> Finding:
    """A/(A + B) from the answers about A and B."""
    a, b = (max(part.value, 0.0) for part in parts)
    low, high = derived.ratio((parts[0].low, parts[0].high), (parts[1].low, parts[1].high))
    value = min(max(a / (a + b), low), high) if a + b > 0.0 else nan  # no row of the group was seen
    return Finding(what, value, low, high, tuple(parts))


def _within(what: str, part: Answer, whole: Answer) -> Finding:
    """A/G for a part A of G, by A/(A + (G - A))."""
    rest = derived.difference((whole.low, whole.high), (part.low, part.high))
    low, high = derived.ratio((part.low, part.high), rest)
    value = min(max(part.value / whole.value, low), high) if whole.value > 0.0 else nan
    return Finding(what, value, low, high, (part, whole))


def _as_number(tree: Node) -> Node:
    """1 for yes, 0 for all else."""
    return Case(((tree, Number(1.0)),), Number(0.0), "number")


def _cut(tree: Node, ends: Ends) -> Node:
    return Call("least", (Call("greatest", (tree, Number(ends[0])), "number"), Number(ends[1])), "number")


def _shifted(tree: Node, ends: Ends, shift: float) -> Node:
    """x - c, x cut off at its range."""
    return Call("-", (_cut(tree, ends), Number(shift)), "number")


def _squared(tree: Node) -> Node:
    return canonical(Call("*", (tree, tree), "number"))
