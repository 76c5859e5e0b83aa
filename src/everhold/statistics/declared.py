"""Text read against the declared columns: what statistics are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING

from everhold.errors import QuestionError, require_number
from everhold.queries.expression import BoundedMean, Expression, conjunction, expression, number, question_of
from everhold.queries.expression.canonical import canonical
from everhold.queries.expression.tree import Call, Case, Column, Logic, Node, Number, Test
from everhold.queries.expression.values import LARGEST, SMALLEST, date_of, iso
from everhold.statistics.missing import can_be_missing

if TYPE_CHECKING:
    from everhold.data.schema import Schema

__all__ = ["DeclaredColumns", "Ends"]

Ends = tuple[float, float]

_LEAST_PUBLIC_ROWS = 20.0


def _middle(_: BoundedMean | Expression) -> float:
    """The position that is assumed of a mean where no prior is given."""
    return 0.5


@dataclass(frozen=True, slots=True)
class DeclaredColumns:
    """The declared columns, and how large a table may be.

    Attributes:
        schema: the columns.
        most_cells: of one table, each of which is a question.
        composites: whether questions of groups and quantiles are measured in one round; otherwise by linear questions.
        prior: the mean of a linear question on the public side, as a position in its range. It never changes.
        draws: the number of public draws behind it.
    """

    schema: Schema
    most_cells: int = 10_000
    composites: bool = False
    prior: Callable[[BoundedMean | Expression], float] = _middle
    draws: float = inf

    def in_one_round(self, *groups: Node | None) -> bool:
        """Whether these groups are measured together, in one round: the public side needs rows of each, to foresee sizes."""
        return self.composites and all(
            group is None or self.draws * self.prior(question_of(group)) >= _LEAST_PUBLIC_ROWS for group in groups
        )

    def yes_no(self, text: str) -> Expression:
        """A yes/no question."""
        if not isinstance(text, str):
            raise QuestionError(f'a question here is text, such as "age > 40", not {type(text).__name__}.')
        return expression(self.quoted(text), self.schema.kinds, self.schema.words)

    def quoted(self, text: str) -> str:
        """The text, with quotes if it is the bare name of a column that needs them in an expression."""
        return f'"{text}"' if text in self.schema and '"' not in text and not text.isidentifier() else text

    def is_yes_no(self, text: str) -> bool:
        """Whether a text is a yes/no question."""
        try:
            self.yes_no(text)
        except QuestionError:
            return False
        return True

    def number(
        self, text: str, low: float | str | None, high: float | str | None, *, dates: bool = False
    ) -> tuple[Node, Ends]:
        """The tree of a number, or of a date, and the range that is considered."""
        if not isinstance(text, str):
            raise QuestionError(f'a question here is text, such as "bmi", not {type(text).__name__}.')
        tree = number(self.quoted(text), self.schema.kinds, self.schema.words, dates=dates)
        declared = self.schema[tree.name] if isinstance(tree, Column) else None
        if (low is None) != (high is None):
            raise QuestionError("a range has two ends. Expected both low and high, or neither.")
        if tree.kind == "date" and low is not None and high is not None:
            low, high = date_of(low), date_of(high)
            if not low < high:
                raise QuestionError("the range of a date has two ends such as low='2024-01-01' and high='2025-01-01'.")
            return tree, (low, high)
        if low is None or high is None:
            low, high = (None, None) if declared is None else (declared.low, declared.high)
        if isinstance(tree, Case) and low is None and self.is_yes_no(text):
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

    def can_be_missing(self, tree: Node) -> bool:
        """Whether it could be missing on a row that follows the schema."""
        return can_be_missing(tree, self.schema)

    def cut_to(self, text: str, ends: Ends, *, date: bool = False) -> str:
        """For the title of a mean or quantile: that values are cut off at the ends of the range; empty for yes and no."""
        if date:
            return f" cut to {iso(ends[0])}…{iso(ends[1])}"
        return "" if self.is_yes_no(text) else f" cut to {ends[0]:.12g}…{ends[1]:.12g}"

    def filled(self, tree: Node, ends: Ends) -> Node:
        """A number that is never missing by the schema; a row that breaks the schema counts as the middle of the range."""
        if self.can_be_missing(tree):
            return tree
        return canonical(Call("coalesce", (tree, Number(0.5 * (ends[0] + ends[1]))), "number"))

    def group(self, given: str | None, trees: list[Node]) -> Node | None:
        """The rows that count: those given, and among them those that have all numbers."""
        known = [Logic("not", (Test("null", (tree,)),)) for tree in trees if self.can_be_missing(tree)]
        conditions: list[Node] = [] if given is None else [self.yes_no(given).tree]
        conditions += known
        return conjunction(*conditions) if conditions else None
