"""Contests: submissions, rules, boards."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from everhold.contest.board import Submission
from everhold.server.dependencies import ContestFor, Server, TokenOf
from everhold.server.errors import HTTPRefusal
from everhold.server.response_schemas import BoardOut, ContestOut, SubmissionOut

__all__ = ["require_scored", "router"]

router = APIRouter(tags=["contests"])

_REFUSED = {
    "malformed": (422, "malformed"),
    "too large": (413, "too_large"),
    "too soon": (429, "too_many"),
    "closed": (409, "precision_exhausted"),
}
_CSV = {"schema": {"type": "string"}, "example": "id,prediction\n0,1\n1,0\n"}


def require_scored(found: Submission) -> None:
    """A submission that was not scored is an error, with all that is known of it."""
    if found.state in _REFUSED:
        status, code = _REFUSED[found.state]
        raise HTTPRefusal(status, code, f"{found.reason} Nothing was charged.", details=found.to_dict())


@router.post(
    "/contests/{name}/submissions",
    summary="Submit predictions",
    response_model=SubmissionOut,
    openapi_extra={"requestBody": {"required": True, "content": {"text/csv": _CSV}}},
)
async def submit(contest: ContestFor.ASK, token: TokenOf, server: Server, request: Request) -> Response:
    """CSV with an id and a prediction for every row; the entrant is the token's name."""
    predictions = await request.body()
    server.require_live(token)
    request.state.note = {"submitted": len(predictions)}
    found = await contest.submit(token.name, predictions, arrived=request.state.started)
    require_scored(found)
    return JSONResponse(found.to_dict())


@router.get("/contests/{name}", summary="The rules", response_model=ContestOut)
def rules(contest: ContestFor.READ) -> Response:
    """What is scored and how, and what the rows are called."""
    kept = contest.contest.rules
    shown = {key: value for key, value in asdict(kept).items() if key != "seed"}
    more = {"larger_is_better": kept.larger_is_better, "reveals": kept.reveals, "ids": contest.contest.ids}
    return JSONResponse({**shown, **more})


@router.get("/contests/{name}/board", summary="The board", response_model=BoardOut)
def board(contest: ContestFor.READ, token: TokenOf, server: Server) -> Response:
    """Where everybody stands: intervals that are valid at the same time."""
    return JSONResponse(contest.board().to_dict(whole=server.sees_all(contest, token)))
