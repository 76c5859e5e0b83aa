"""A contest's page: the board, and a form for submissions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from markupsafe import Markup
from starlette.responses import Response

from everhold.contest.board import RANKS_SAY
from everhold.contest.board_html import board_table
from everhold.errors import EverholdError
from everhold.report.interval_svg import axis_svg
from everhold.server.api.contests import require_scored
from everhold.server.contest_writer import ContestWriter
from everhold.server.dependencies import ContestFor, Server, SignedIn
from everhold.server.errors import HTTPRefusal
from everhold.server.pages.rendering import PageFault, form_of, render
from everhold.server.signins import SignIn
from everhold.server.state import ServerState

__all__ = ["router"]

router = APIRouter()

_REFUSED = 20  # of an entrant's submissions that were not scored


def _about(server: ServerState, contest: ContestWriter, signin: SignIn) -> dict[str, Any]:
    board = contest.board()
    return {
        "session": signin,
        "here": "studies",
        "name": contest.name,
        "board": board,
        "ranks_say": RANKS_SAY,
        "forecasts": any(place.forecast for place in board.places),
        "table": Markup(board_table(board)),
        "may_ask": signin.token.allows("ask", contest.name),
        "may_manage": signin.token.allows("manage", contest.name),
        "may_audit": signin.token.allows("audit", contest.name),
        "whole": server.sees_all(contest, signin.token),
        "refused": contest.refused(signin.token.name)[:_REFUSED],
        "words": server.words(contest),
        "submission": None,
        "drawn": "",
    }


@router.get("/contests/{name}")
def contest(found: ContestFor.READ, signin: SignedIn, server: Server) -> Response:
    """The board."""
    return render("contest.html", **_about(server, found, signin))


@router.post("/contests/{name}/submissions")
async def submit(contest: ContestFor.ASK, signin: SignedIn, server: Server, request: Request) -> Response:
    """A file with predictions."""
    predictions = (await form_of(request, server)).get("predictions")
    fault, found, drawn = None, None, Markup("")
    try:
        if not isinstance(predictions, bytes) or not predictions:
            _no_file()
        request.state.note = {"submitted": len(predictions)}
        found = await contest.submit(signin.token.name, predictions, arrived=request.state.started)
        require_scored(found)
        if (score := found.score) is not None:
            numbers = (score.value, score.low, score.high)
            drawn = Markup(axis_svg(*numbers, bottom=score.bottom, top=score.top))
    except EverholdError as error:
        fault = PageFault.of(error)
        if fault.status in (413, 422):
            fault = replace(fault, then="Nothing was charged. Correct the file and submit it again.")
    shown = await run_in_threadpool(_about, server, contest, signin)
    shown |= {"submission": None if fault else found, "drawn": drawn, "fault": fault}
    template = "submitted_part.html" if request.headers.get("hx-request") else "contest.html"
    return render(template, code=200 if fault is None else fault.status, **shown)


def _no_file() -> NoReturn:
    raise HTTPRefusal(422, "malformed", "the form has no file. Choose a CSV file with your predictions.")
