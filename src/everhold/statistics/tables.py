"""Shares by bins, categories, or yes and no: one question a cell, in one scan."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import nan, prod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from everhold.bounds import derived
from everhold.errors import QuestionError
from everhold.queries.expression import conjunction, number, question_of
from everhold.queries.expression.canonical import canonical
from everhold.queries.expression.composites import group_share
from everhold.queries.expression.tree import Logic, Node, Test
from everhold.statistics.bins import bins_of, label_tests
from everhold.statistics.finding import Finding, Shares
from everhold.statistics.parameters import Bins, Edges, Given, Role

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.statistics.declared import DeclaredColumns
    from everhold.statistics.statistic import QuestionBatch

__all__ = ["Histogram", "Table"]

Side = list[tuple[str, Node]]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Shares by bins of a number or date, by categories of a text, or by yes and no.

    Attributes:
        question: a column, or an expression with numbers.
        bins: how many equal parts of the schema's range; the outer ones take what lies beyond.
        edges: ends of the bins instead; each holds its left end, the last both, and what lies outside is in none.
        given: only rows for which this is true.
    """

    name: ClassVar[str] = "histogram"
    title: ClassVar[str] = "Histogram"
    example: ClassVar[Mapping[str, Any]] = {"question": "age", "bins": 8}
    question: Annotated[str, Role("expression", "Column", "A column, or an expression with numbers.")]
    _: KW_ONLY
    bins: Bins = 10
    edges: Edges = None
    given: Given = None

    def __post_init__(self) -> None:
        if isinstance(self.edges, list):  # so that it can be a key
            object.__setattr__(self, "edges", tuple(self.edges))

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Shares]:
        """One question a bin."""
        sides = [_labels(declared, self.question, self.bins, self.edges)]
        shown = [edge if isinstance(edge, str) else f"{edge:.12g}" for edge in self.edges or ()]
        ends = f" between {shown[0]} and {shown[-1]}" if shown else ""
        return (yield from _cells(declared, f"{self.question}{ends}", sides, self.given))


@dataclass(frozen=True, slots=True)
class Table:
    """Shares by the values of one column, or of two together."""

    name: ClassVar[str] = "table"
    title: ClassVar[str] = "Table"
    example: ClassVar[Mapping[str, Any]] = {"first": "city", "second": "smoker"}
    first: Annotated[str, Role("expression", "Column", "A column, or a yes/no question.")]
    second: Annotated[str | None, Role("expression", "Second", "A second column, for a table of two.")] = None
    _: KW_ONLY
    bins: Bins = 5
    given: Given = None

    def steps(self, declared: DeclaredColumns) -> Generator[QuestionBatch, Sequence[Answer], Shares]:
        """One question a cell."""
        columns = [self.first] if self.second is None else [self.first, self.second]
        sides = [_labels(declared, column, self.bins, None) for column in columns]
        return (yield from _cells(declared, " × ".join(columns), sides, self.given))


def _cells(
    declared: DeclaredColumns, what: str, sides: list[Side], given: str | None
) -> Generator[QuestionBatch, Sequence[Answer], Shares]:
    if (many := prod(len(side) for side in sides)) > declared.most_cells:
        raise QuestionError(
            f"this table has {many:,} cells, each a question; {declared.most_cells:,} are allowed. Take fewer bins, or "
            "ask a part of it."
        )
    pairs: list[tuple[tuple[str, ...], Node]] = [((label,), test) for label, test in sides[0]]
    for side in sides[1:]:
        pairs = [((*labels, label), conjunction(test, other_test)) for labels, test in pairs for label, other_test in side]
    labels = tuple(label for label, _ in pairs)
    if given is None:
        answers = yield [question_of(test) for _, test in pairs]
        return Shares(what, labels, tuple(answers))
    group = declared.yes_no(given).tree
    if declared.composites:
        answers = yield [group_share(_two_valued(declared, test), group) for _, test in pairs]
        shares = tuple(
            Finding(f"{' × '.join(label)} given {given}", answer.value, answer.low, answer.high, (answer,))
            for label, answer in zip(labels, answers, strict=True)
        )
        return Shares(f"{what} given {given}", labels, shares)
    whole = (yield [question_of(group)])[0]
    answers = yield [question_of(conjunction(test, group)) for _, test in pairs]
    cells = tuple(
        _within(f"{' × '.join(label)} given {given}", part, whole) for label, part in zip(labels, answers, strict=True)
    )
    return Shares(f"{what} given {given}", labels, cells)


def _two_valued(declared: DeclaredColumns, test: Node) -> Node:
    """No where the test is neither true nor false, so that every row of a group counts."""
    if not declared.can_be_missing(test):
        return test
    return canonical(Logic("and", (test, Logic("not", (Test("null", (test,)),)))))


def _within(what: str, part: Answer, whole: Answer) -> Finding:
    """A/G for a part A of G, by A/(A + (G - A))."""
    rest = derived.difference((whole.low, whole.high), (part.low, part.high))
    low, high = derived.ratio((part.low, part.high), rest)
    value = min(max(part.value / whole.value, low), high) if whole.value > 0.0 else nan
    return Finding(what, value, low, high, (part, whole))


def _labels(declared: DeclaredColumns, question: str, bins: int, edges: Sequence[float | str] | None) -> Side:
    """Labels and tests of one side of a table; missing values last."""
    schema = declared.schema
    text = (name := question.strip('"')) in schema and schema[name].kind == "text"
    if edges is not None and (text or declared.is_yes_no(question)):
        raise QuestionError(f"{question!r} has no numbers for edges. Leave them out, or ask about a number.")
    if declared.is_yes_no(question):
        tree = declared.yes_no(question).tree
        labels = [("yes", tree), ("no", canonical(Logic("not", (tree,))))]
    elif text:
        return label_tests(schema[name])
    elif edges is not None:
        tree = number(declared.quoted(question), schema.kinds, schema.words, dates=True)
        labels = bins_of(tree, (0.0, 1.0), bins, edges)
    else:
        tree, ends = declared.number(question, None, None, dates=True)
        labels = bins_of(tree, ends, bins, None)
    return [*labels, ("(missing)", Test("null", (tree,)))] if declared.can_be_missing(tree) else labels
