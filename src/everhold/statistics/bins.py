"""Bins and categories as yes/no questions with labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from everhold.errors import QuestionError, require_number, require_whole
from everhold.queries.expression import conjunction
from everhold.queries.expression.canonical import canonical
from everhold.queries.expression.tree import Column as ColumnNode, Logic, Node, Number, Test, Text
from everhold.queries.expression.values import LARGEST, date_of, iso

if TYPE_CHECKING:
    from everhold.data.schema import ColumnSchema

__all__ = ["bins_of", "label_tests"]

_MOST_BINS = 1000
_SECOND, _DAY = 1e6, 86_400e6


def bins_of(tree: Node, ends: tuple[float, float], bins: int, edges: Sequence[float | str] | None) -> list[tuple[str, Node]]:
    """Labels and tests of the bins of a number."""
    date = tree.kind == "date"
    if edges is not None:
        points = [_edge(edge, date) for edge in edges]
        if len(points) < 2 or any(not a < b for a, b in pairwise(points)):
            raise QuestionError(f"the edges are {list(edges)!r}. Expected at least two, each larger than the one before.")
        return [
            (f"{_shown(a, date)} to {_shown(b, date)}", _between(tree, a, b, last=index == len(points) - 2))
            for index, (a, b) in enumerate(pairwise(points))
        ]
    require_whole(bins, "bins")
    bins = int(bins)
    if not 2 <= bins <= _MOST_BINS:
        raise QuestionError(f"a histogram has 2 to {_MOST_BINS} bins, not {bins!r}")
    inner = [ends[0] + (ends[1] - ends[0]) * index / bins for index in range(1, bins)]
    if date:
        step = _DAY if ends[1] - ends[0] >= 2 * bins * _DAY else _SECOND
        inner = sorted({round(edge / step) * step for edge in inner})
    kind = tree.kind
    first = (f"below {_shown(inner[0], date)}", canonical(Test("<", (tree, Number(inner[0], kind)))))
    last = (f"{_shown(inner[-1], date)} or more", canonical(Test("<=", (Number(inner[-1], kind), tree))))
    middle = [(f"{_shown(a, date)} to {_shown(b, date)}", _between(tree, a, b, last=False)) for a, b in pairwise(inner)]
    return [first, *middle, last]


def _between(tree: Node, a: float, b: float, *, last: bool) -> Node:
    low, high = Number(a, tree.kind), Number(b, tree.kind)
    return conjunction(Test("<=", (low, tree)), Test("<=" if last else "<", (tree, high)))


def _edge(edge: float | str, date: bool) -> float:
    if date:
        micros = date_of(edge)
        if micros != micros:
            raise QuestionError(f"an edge is {edge!r}. Expected dates such as '2024-05-01'.")
        return micros
    require_number(edge, "an edge")
    if not abs(float(edge)) <= LARGEST:
        raise QuestionError(f"an edge is {edge!r}. Expected numbers of at most 1e15 in size.")
    return float(edge)


def _shown(edge: float, date: bool) -> str:
    return iso(edge) if date else f"{edge:.12g}"


def label_tests(column: ColumnSchema) -> list[tuple[str, Node]]:
    """Labels and tests of the categories of a text; others and missing ones last."""
    if not column.categories:
        raise QuestionError(
            f"column {column.name!r} is free text without declared categories. Expected a column with some: declare them "
            "in the schema, or ask about single words."
        )
    node = ColumnNode(column.name, "text")
    tests: list[tuple[str, Node]] = [
        (word or "(empty)", canonical(Test("=", (node, Text(word))))) for word in column.categories
    ]
    taken = {label for label, _ in tests}
    if not column.closed:
        words = tuple(Text(word) for word in column.categories)
        tests.append((_free("(other)", taken), canonical(Logic("not", (Test("in", (node, *words)),)))))
    if column.missing or column.closed:
        tests.append((_free("(missing)", taken), Test("null", (node,))))
    return tests


def _free(label: str, taken: set[str]) -> str:
    """A label that no category has."""
    while label in taken:
        label = f"({label})"
    return label
