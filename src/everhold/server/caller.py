"""Who asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everhold.queries.request import AskedBy, Request

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.queries.query import Query

__all__ = ["Caller"]


@dataclass(slots=True)
class Caller:
    """Who asks, for the record, and when.

    Attributes:
        key: whose limits count.
        asked_by: for the record: the time of arrival, a name, and the request id of the whole question.
        arrived: when it came, on the grid's clock; None: no grid.
        permit: is called with the number of questions that come next; it may refuse them.
        paid: answers to parts that were recorded, also where a later one was refused.
        seen: on how many records of the ledger a result or an error may depend: it leaves after them.
    """

    key: str = ""
    asked_by: AskedBy = field(default_factory=AskedBy)
    arrived: float | None = None
    permit: Callable[[int], None] = lambda _: None
    paid: list[Answer] = field(default_factory=list)
    seen: int = 0

    def request(self, question: str | Query, part: int | None = None, expect: float | None = None) -> Request:
        """One question of this caller."""
        return Request(question, self.asked_by if part is None else self.asked_by.part(part), expect)
