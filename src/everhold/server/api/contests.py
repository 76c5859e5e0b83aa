"""Contests: submissions, rules, boards, duels and the end."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response

from everhold.contest.board import Submission
from everhold.server.contest_schemas import BoardOut, ContestOut, DuelOut, RankingPreviewOut, SubmissionOut
from everhold.server.dependencies import ContestFor, ContextOf, StateOf, TokenOf
from everhold.server.errors import HTTPRefusal
from everhold.server.request_schemas import DuelBody

__all__ = ["require_scored", "router"]

router = APIRouter(tags=["contests"])

_REFUSED = {
    "malformed": (422, "malformed"),
    "too large": (413, "too_large"),
    "too soon": (429, "too_many"),
    "closed": (409, "closed"),
}
_CSV = {"schema": {"type": "string"}, "example": "id,prediction\n0,1\n1,0\n"}


def require_scored(submission: Submission) -> None:
    """A submission that was not scored is an error, with all that is known of it."""
    if submission.state in _REFUSED:
        status, code = _REFUSED[submission.state]
        raise HTTPRefusal(status, code, f"{submission.reason} Nothing was charged.", details=submission.to_dict())


@router.post(
    "/contests/{name}/submissions",
    summary="Submit predictions",
    response_model=SubmissionOut,
    openapi_extra={"requestBody": {"required": True, "content": {"text/csv": _CSV}}},
)
async def submit(contest: ContestFor.ASK, context: ContextOf) -> Response:
    """CSV with an id and a prediction for every row; the entrant is the token's name."""
    predictions = await context.request.body()
    context.server.require_live(context.token)
    context.note(submitted=len(predictions))
    submission = await contest.submit(context.token.name, predictions, arrived=context.arrived)
    require_scored(submission)
    return JSONResponse(submission.to_dict())


@router.get("/contests/{name}", summary="The rules", response_model=ContestOut)
def rules(contest: ContestFor.READ) -> Response:
    """What is scored and how, and what the rows are called."""
    kept = contest.contest.rules
    shown = {key: value for key, value in asdict(kept).items() if key != "seed"}
    more = {"larger_is_better": kept.larger_is_better, "reveals": kept.reveals, "ids": contest.contest.ids}
    return JSONResponse({**shown, **more})


@router.get("/contests/{name}/board", summary="The board", response_model=BoardOut)
def board(contest: ContestFor.READ, token: TokenOf, server: StateOf) -> Response:
    """Where everybody stands: intervals that are valid at the same time.

    `unranked` has the token's own entrant, if nothing of it was scored yet; what others sent is theirs to know.
    """
    return JSONResponse(contest.board().seen_by(token.name).to_dict(whole=server.sees_all(contest, token)))


_Entrant = Annotated[str, Query(max_length=100, description="An entrant on the board.")]


@router.get("/contests/{name}/duel", summary="What a duel would cost", response_model=RankingPreviewOut)
def preview_duel(contest: ContestFor.MANAGE, first: _Entrant, second: _Entrant) -> Response:
    """From public facts alone: nothing is recorded or disclosed. For custodians."""
    return JSONResponse(contest.preview(first, second).to_dict())


@router.post("/contests/{name}/duel", summary="Certify that one entrant is better than another", response_model=DuelOut)
async def duel(contest: ContestFor.MANAGE, context: ContextOf, body: DuelBody) -> Response:
    """By the rows on which the submissions that count differ. Costs all later intervals 0.7 nats, whatever comes out.

    A contest with sealed rows has no duels. For custodians. It is recorded before it is returned.
    """
    context.note(duel=[body.first, body.second])
    better = await contest.duel(context.caller("duel", body.request_id), body.first, body.second)
    return JSONResponse({"first": body.first, "second": body.second, "better": better})


@router.get("/contests/{name}/finish", summary="What the last ranking would cost", response_model=RankingPreviewOut)
def preview_finish(contest: ContestFor.MANAGE) -> Response:
    """From public facts alone: nothing is recorded or disclosed. For custodians."""
    return JSONResponse(contest.preview().to_dict())


@router.post("/contests/{name}/finish", summary="End the contest", response_model=BoardOut)
async def finish(contest: ContestFor.MANAGE, context: ContextOf) -> Response:
    """The last ranking: duels of all entrants at once, final ranks and scores. Nothing can be submitted afterwards.

    Sent again, the same board is returned. For custodians. It is recorded before it is returned.
    """
    context.note(finish=True)
    board = await contest.finish(context.caller("finish"))
    return JSONResponse(board.seen_by(context.token.name).to_dict())
