"""A question of somebody, to be answered beside those of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.queries.query import Query

__all__ = ["Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, under which id, by whom.

    Attributes:
        question: text, or what was made of it.
        request_id: asked again under the same id, the same answer is given.
        who: a name for the record.
        time: what the record says of when; the moment of the answer when left out.
    """

    question: str | Query
    request_id: str | None = None
    who: str | None = None
    time: str | None = None
