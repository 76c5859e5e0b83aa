"""Text questions such as `age > 40 AND smoker`, which everhold parses, checks and evaluates itself.

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
    """Parse a yes/no question and check it against the public columns and their listed words.

    >>> expression("NOT (smoker AND age<=40)", {"age": "number", "smoker": "boolean"}).name
    '((40.0 < "age") OR (NOT "smoker"))'
    """
    question = question_of(parse(text, columns, "boolean", words, limits=limits))
    if isinstance(question.tree, Null):
        raise QuestionError("this is NULL on every row, so it is never yes. Expected a value that some rows have.")
    return question


def number(
    text: str,
    columns: Mapping[str, Kind],
    words: Mapping[str, Words] | None = None,
    *,
    dates: bool = False,
    limits: Limits = ASKED,
) -> Node:
    """Parse and check a numeric expression (or a date, with `dates`); yes and no count as 1 and 0.

    >>> text_of(number("bmi / 2", {"bmi": "number"}))
    '("bmi" / 2.0)'
    """
    return canonical(parse(text, columns, "ordered" if dates else "number", words, limits=limits))


def question_of(tree: Node) -> Expression:
    """The yes/no question of a tree, named by its canonical text."""
    return Expression(*named(tree))


def conjunction(*parts: Node) -> Node:
    """The AND of all parts."""
    return canonical(parts[0] if len(parts) == 1 else Logic("and", parts))


def bounded_mean(tree: Node, low: float, high: float, *, given: Node | None = None, reverse: bool = False) -> BoundedMean:
    """A question for the mean of a number, clipped to a range; its name contains everything that defines it."""
    if (fault := out_of_range(tree)) is not None:
        raise QuestionError(fault)
    ends = f"{high!r} DOWN TO {low!r}" if reverse else f"{low!r} TO {high!r}"
    name = f"MEAN {text_of(tree)} FROM {ends}"
    if given is not None:
        name += f" GIVEN {text_of(given)}"
    return BoundedMean(tree, low, high, name, given, reverse)
