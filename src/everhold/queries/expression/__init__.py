"""Questions as text, `age > 40 AND smoker`: parsed, checked and evaluated by everhold alone.

The language and its semantics: docs/reference/expressions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from everhold.errors import QuestionError
from everhold.queries.expression.canonical import canonical, named, text_of
from everhold.queries.expression.columns import kind_of
from everhold.queries.expression.extent import out_of_range
from everhold.queries.expression.parser import ASKED, Limits, Words, parse
from everhold.queries.expression.question import BoundedMean, Expression
from everhold.queries.expression.tree import Logic, Null

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from everhold.queries.expression.tree import Kind, Node

__all__ = [
    "BoundedMean",
    "Expression",
    "bounded_mean",
    "columns_of",
    "conjunction",
    "expression",
    "number",
    "question_of",
]


def columns_of(rows: Mapping[str, NDArray[Any]]) -> dict[str, Kind]:
    """The columns that expressions may use, with their kinds."""
    kinds = {name: kind_of(column) for name, column in rows.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def expression(
    text: str, columns: Mapping[str, Kind], words: Mapping[str, Words] | None = None, *, limits: Limits = ASKED
) -> Expression:
    """Parse and check a yes/no question against the public columns, and the words that are listed for them.

    >>> expression("NOT (smoker AND age<=40)", {"age": "number", "smoker": "boolean"}).name
    '((40.0 < "age") OR (NOT "smoker"))'
    """
    question = question_of(parse(text, columns, "boolean", words, limits=limits))
    if isinstance(question.tree, Null):
        raise QuestionError("this is missing on every row, so it is never yes. Expected something that some rows have.")
    return question


def number(
    text: str,
    columns: Mapping[str, Kind],
    words: Mapping[str, Words] | None = None,
    *,
    dates: bool = False,
    limits: Limits = ASKED,
) -> Node:
    """Parse and check an expression with numbers, or with `dates` too; yes and no are 1 and 0 where a number is asked for.

    >>> text_of(number("bmi / 2", {"bmi": "number"}))
    '("bmi" / 2.0)'
    """
    return canonical(parse(text, columns, "ordered" if dates else "number", words, limits=limits))


def question_of(tree: Node) -> Expression:
    """A yes/no question from its tree."""
    return Expression(*named(tree))


def conjunction(*parts: Node) -> Node:
    """All of them."""
    return canonical(parts[0] if len(parts) == 1 else Logic("and", parts))


def bounded_mean(
    tree: Node, low: float, high: float, *, given: Node | None = None, reverse: bool = False
) -> BoundedMean:
    """A question about the mean of a number between two ends, named by all that matters."""
    if (fault := out_of_range(tree)) is not None:
        raise QuestionError(fault)
    ends = f"{high!r} DOWN TO {low!r}" if reverse else f"{low!r} TO {high!r}"
    name = f"MEAN {text_of(tree)} FROM {ends}"
    if given is not None:
        name += f" GIVEN {text_of(given)}"
    return BoundedMean(tree, low, high, name, given, reverse)
