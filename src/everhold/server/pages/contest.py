"""A contest's page: the board, and a form for submissions."""

from __future__ import annotations

from typing import Any, NoReturn

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from markupsafe import Markup
from starlette.responses import Response

from everhold.contest.board import RANKS_SAY
from everhold.contest.board_html import board_table
from everhold.errors import EverholdError
from everhold.report.interval_svg import axis_svg
from everhold.server.api.contests import require_scored
from everhold.server.contest_writer import ContestWriter
from everhold.server.dependencies import ContestFor, PageContext, PageContextOf
from everhold.server.errors import HTTPRefusal
from everhold.server.pages.rendering import PageFault, form_of, render

__all__ = ["router"]

router = APIRouter()

_REFUSED = 20  # of an entrant's submissions that were not scored


def _about(context: PageContext, contest: ContestWriter) -> dict[str, Any]:
    board, token = contest.board(), context.token
    return {
        "session": context.signin,
        "here": "studies",
        "name": contest.name,
        "board": board,
        "ranks_say": RANKS_SAY,
        "forecasts": any(place.forecast for place in board.places),
        "table": Markup(board_table(board)),
        "may_ask": token.allows("ask", contest.name),
        "may_manage": token.allows("manage", contest.name),
        "may_audit": token.allows("audit", contest.name),
        "whole": context.server.sees_all(contest, token),
        "refused": contest.refused(token.name)[:_REFUSED],
        "about": context.server.about(contest),
        "submission": None,
        "drawn": "",
    }


@router.get("/contests/{name}")
def contest(contest: ContestFor.READ, context: PageContextOf) -> Response:
    """The board."""
    return render("contest.html", **_about(context, contest))


@router.post("/contests/{name}/submissions")
async def submit(contest: ContestFor.ASK, context: PageContextOf) -> Response:
    """A file with predictions."""
    predictions = (await form_of(context)).get("predictions")
    fault, submission, drawn = None, None, Markup("")
    try:
        if not isinstance(predictions, bytes) or not predictions:
            _no_file()
        context.note(submitted=len(predictions))
        submission = await contest.submit(context.token.name, predictions, arrived=context.arrived)
        require_scored(submission)
        if (score := submission.score) is not None:
            numbers = (score.value, score.low, score.high)
            drawn = Markup(axis_svg(*numbers, bottom=score.bottom, top=score.top))
    except EverholdError as error:
        fault = PageFault.of(error).about_file("This file cannot be scored", "Correct the file and submit it again.")
    shown = await run_in_threadpool(_about, context, contest)
    shown |= {"submission": None if fault else submission, "drawn": drawn, "fault": fault}
    template = "submitted_part.html" if context.request.headers.get("hx-request") else "contest.html"
    return render(template, code=200 if fault is None else fault.status, **shown)


def _no_file() -> NoReturn:
    raise HTTPRefusal(422, "malformed", "the form has no file. Choose a CSV file with your predictions.")
