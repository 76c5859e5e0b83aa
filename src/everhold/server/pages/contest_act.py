"""Duels and the end of a contest, for custodians: a preview first, then the act itself. No script is needed."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from everhold.errors import EverholdError
from everhold.server.contest_writer import ContestWriter
from everhold.server.dependencies import ContestFor, PageContextOf, SignedIn
from everhold.server.pages.rendering import PageFault, form_of, render
from everhold.server.signins import SignIn

__all__ = ["router"]

router = APIRouter()

_LONGEST = 128  # of a request id or an entrant's name that a form carries


def _page(contest: ContestWriter, signin: SignIn, first: str, second: str, *, finishing: bool, **more: Any) -> Response:
    """The act's page, with the preview of what it is about, if that can be had."""
    shown: dict[str, Any] = {
        "session": signin,
        "here": "studies",
        "name": contest.name,
        "board": contest.board(),
        "title": "End the contest" if finishing else "A duel",
        "finishing": finishing,
        "first": first,
        "second": second,
        "preview": None,
        "request_id": secrets.token_urlsafe(12),
        "unsure": False,
        "result": "",
        "fault": None,
    } | more
    if shown["fault"] is None and not shown["result"] and (finishing or (first and second)):
        try:
            shown["preview"] = contest.preview() if finishing else contest.preview(first, second)
        except EverholdError as error:
            shown["fault"] = PageFault.of(error)
    fault = shown["fault"]
    code = fault.status if fault is not None else 422 if shown["unsure"] else 200
    return render("contest_act.html", code=code, **shown)


@router.get("/contests/{name}/finish")
def show_finish(contest: ContestFor.MANAGE, signin: SignedIn) -> Response:
    """What the last ranking would do and cost."""
    return _page(contest, signin, "", "", finishing=True)


@router.post("/contests/{name}/finish")
async def finish(contest: ContestFor.MANAGE, context: PageContextOf) -> Response:
    """End the contest, if the box is ticked."""
    given = await form_of(context)
    if given.get("sure") != "yes":
        return await run_in_threadpool(_page, contest, context.signin, "", "", finishing=True, unsure=True)
    context.note(finish=True)
    try:
        await contest.finish(context.caller("finish"))
    except EverholdError as error:
        return await run_in_threadpool(_page, contest, context.signin, "", "", finishing=True, fault=PageFault.of(error))
    return RedirectResponse(f"/contests/{quote(contest.name, safe='')}", status_code=303)


@router.get("/contests/{name}/duel")
def show_duel(contest: ContestFor.MANAGE, signin: SignedIn, first: str = "", second: str = "") -> Response:
    """Two entrants to choose; once they are chosen, what their duel would do and cost."""
    return _page(contest, signin, first[:_LONGEST], second[:_LONGEST], finishing=False)


@router.post("/contests/{name}/duel")
async def duel(contest: ContestFor.MANAGE, context: PageContextOf) -> Response:
    """Make the duel that was previewed."""
    given = await form_of(context)
    first, second, request_id = (str(given.get(name, ""))[:_LONGEST] for name in ("first", "second", "request_id"))
    context.note(duel=[first, second])
    caller = context.caller("duel", request_id or None)
    more: dict[str, Any] = {}
    try:
        better = await contest.duel(caller, first, second)
        not_shown = f"The rows do not show that {first} is better than {second}."
        more["result"] = f"{first} is certified better than {second}." if better else not_shown
    except EverholdError as error:
        more["fault"] = PageFault.of(error)
    return await run_in_threadpool(_page, contest, context.signin, first, second, finishing=False, **more)
