"""The HTTP interface for programs: `/v1/…`. Every request carries a token, every error has one shape.

Nothing here decides anything: a question becomes a call of a study's writer, and the writer's answer goes out.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Security
from fastapi.security import HTTPBearer

from everhold.server.api import acts, ask, contests, gates, record, tokens
from everhold.server.response_schemas import Fault

__all__ = ["api"]

_FAULTS: dict[int | str, dict[str, Any]] = {
    status: {"model": Fault, "description": about}
    for status, about in (
        (400, "The request cannot be read."),
        (401, "Missing, expired or revoked token."),
        (403, "The token does not allow this."),
        (404, "No such study."),
        (408, "The body did not arrive in time."),
        (409, "A request id of another question, a used-up promise, a closed study, a contest."),
        (413, "The body is too large."),
        (422, "The question cannot be answered as it was asked. Nothing was charged."),
        (429, "Too many requests; Retry-After says when."),
        (503, "The study is temporarily unavailable."),
    )
}


def api() -> APIRouter:
    """All routes."""
    router = APIRouter(
        prefix="/v1",
        responses=_FAULTS,
        dependencies=[Security(HTTPBearer(auto_error=False, description="A token, as the custodian made it."))],
    )
    for part in (ask, acts, record, contests, gates, tokens):
        router.include_router(part.router)
    return router
