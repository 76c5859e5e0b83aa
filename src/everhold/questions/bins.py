"""Bins and categories as yes/no questions with labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from everhold.errors import QuestionError, require_number, require_whole
from everhold.queries.expression import conjunction
from everhold.queries.expression.canonical import canonical
from everhold.queries.expression.tree import Column as ColumnNode
from everhold.queries.expression.tree import Logic, Node, Number, Test, Text

if TYPE_CHECKING:
    from everhold.data.schema import ColumnSchema

__all__ = ["bins_of", "label_tests"]

_MOST_BINS = 1000


def bins_of(tree: Node, ends: tuple[float, float], bins: int, edges: Sequence[float] | None) -> list[tuple[str, Node]]:
    """Labels and tests of the bins of a number."""
    if edges is not None:
        for edge in edges:
            require_number(edge, "an edge")
            if not abs(edge) <= 1e15:
                raise QuestionError(f"an edge is {edge!r}. Expected numbers of at most 1e15 in size.")
        if len(edges) < 2 or any(not a < b for a, b in pairwise(edges)):
            raise QuestionError(
                f"the edges are {list(edges)!r}. Expected at least two, each larger than the one before."
            )
        return [
            (f"{a:.12g} to {b:.12g}", _between(tree, float(a), float(b), last=place == len(edges) - 2))
            for place, (a, b) in enumerate(pairwise(edges))
        ]
    require_whole(bins, "bins")
    if not 2 <= bins <= _MOST_BINS:
        raise QuestionError(f"a histogram has 2 to {_MOST_BINS} bins, not {bins!r}")
    inner = [ends[0] + (ends[1] - ends[0]) * place / bins for place in range(1, bins)]
    first = (f"below {inner[0]:.12g}", canonical(Test("<", (tree, Number(inner[0])))))
    last = (f"{inner[-1]:.12g} or more", canonical(Test("<=", (Number(inner[-1]), tree))))
    middle = [(f"{a:.12g} to {b:.12g}", _between(tree, a, b, last=False)) for a, b in pairwise(inner)]
    return [first, *middle, last]


def _between(tree: Node, a: float, b: float, *, last: bool) -> Node:
    return conjunction(Test("<=", (Number(a), tree)), Test("<=" if last else "<", (tree, Number(b))))


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
    if not column.closed:
        words = tuple(Text(word) for word in column.categories)
        tests.append(("(other)", canonical(Logic("not", (Test("in", (node, *words)),)))))
    if column.missing or column.closed:
        tests.append(("(missing)", Test("null", (node,))))
    return tests
