"""One question of a batch, and who asked it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.queries.query import Query

__all__ = ["AskedBy", "Request"]


@dataclass(frozen=True, slots=True)
class AskedBy:
    """When a question came, from whom, and under which request id.

    Attributes:
        time: empty: the time of the answer is recorded.
        who: the name of the caller, for the record.
        request_id: asking again with the same id returns the recorded answer.
    """

    time: str = ""
    who: str | None = None
    request_id: str | None = None

    def part(self, number: int) -> AskedBy:
        """The same for one part of a larger request.

        >>> AskedBy(request_id="monday").part(2).request_id
        'monday/2'
        """
        return self if self.request_id is None else replace(self, request_id=f"{self.request_id}/{number}")


@dataclass(frozen=True, slots=True)
class Request:
    """A question, who asked it, and what they expect.

    Attributes:
        question: text, or a `Query`.
        asked_by: for the record.
        expect: a forecast in place of the sketch's, as for `Holdout.ask`.
    """

    question: str | Query
    asked_by: AskedBy = AskedBy()
    expect: float | None = None
