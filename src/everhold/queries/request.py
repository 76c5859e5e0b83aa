"""One question of a batch, with the caller's name and request id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.queries.query import Query

__all__ = ["Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """A question with its request id and the name of the caller.

    Attributes:
        question: text, or a `Query`.
        request_id: asking again with the same id returns the recorded answer.
        who: the name of the caller, for the record.
        time: the time to record; None: the time of the answer.
        expect: a forecast in place of the sketch's, as for `Holdout.ask`.
    """

    question: str | Query
    request_id: str | None = None
    who: str | None = None
    time: str | None = None
    expect: float | None = None
