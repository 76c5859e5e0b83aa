"""The same questions on the public side alone: nothing is spent, no private row is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from everhold.queries.answer import Answer
from everhold.statistics.shortcuts import Asker

if TYPE_CHECKING:
    from everhold.data.schema import Schema
    from everhold.queries.answer import Preview
    from everhold.queries.expression import BoundedMean, Expression

__all__ = ["Rehearsal", "as_answer"]


def as_answer(preview: Preview) -> Answer:
    """What a quiet answer would be."""
    return Answer(preview.sketch, preview.low, preview.high, False, 0, preview.spent, preview.scale)


class Rehearsal(Asker):
    """Answers as they would be if every part were quiet: what the sketch says, with the interval it would carry."""

    def __init__(self, preview: Callable[[Expression | BoundedMean], Preview], schema: Schema) -> None:
        self._preview = preview
        self._schema = schema

    def try_out(self, question: str) -> Preview:
        """What the public side says of a question, and what a surprise would cost."""
        return self._preview(self._yes_no(question))

    def _declared(self) -> Schema:
        return self._schema

    def _ask_parts(self, queries: Sequence[Expression | BoundedMean]) -> list[Answer]:
        return [as_answer(self._preview(query)) for query in queries]

    def __repr__(self) -> str:
        return "Rehearsal(ask on the public side: nothing is spent)"
