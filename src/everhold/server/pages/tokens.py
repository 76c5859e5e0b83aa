"""Tokens, for custodians."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from everhold.errors import EverholdError
from everhold.server.dependencies import PageContext, PageContextOf
from everhold.server.errors import HTTPRefusal
from everhold.server.pages.rendering import PageFault, form_of, render

__all__ = ["router"]

router = APIRouter()

_SCOPES = {
    "analyst": "ask and read (analyst)",
    "auditor": "read and audit (auditor)",
    "custodian": "everything (custodian)",
}


def _listed(context: PageContext, status: int = 200, **more: Any) -> Response:
    listed = sorted(context.server.tokens_of(context.token), key=lambda token: (token.state != "live", token.created))
    form = {"name": "", "scope": "analyst", "studies": "", "days": "90"}
    values: dict[str, Any] = {
        "session": context.signin,
        "here": "tokens",
        "tokens": listed,
        "studies": [one.name for one in context.server.readable_by(context.token)],
        "scopes": _SCOPES,
        "made": None,
        "secret": "",
        "form": form,
    }
    return render("tokens.html", code=status, **{**values, **more})


@router.get("/tokens")
def tokens(context: PageContextOf) -> Response:
    """All tokens that a custodian may see."""
    return _listed(context)


@router.post("/tokens")
async def make(context: PageContextOf) -> Response:
    """Make a token; its secret is shown this once."""
    given = await form_of(context)
    form = {name: str(given.get(name) or "").strip() for name in ("name", "scope", "studies", "days")}
    try:
        days = float(form["days"]) if form["days"] else None
    except ValueError:
        wrong = HTTPRefusal(422, "malformed", "days is not a number. Expected one, such as 90.")
        return _listed(context, 422, form=form, fault=_fault(wrong))
    try:
        studies = [form["studies"]] if form["studies"] else []
        secret, made = await run_in_threadpool(
            lambda: context.server.make_token(context.token, form["name"], form["scope"], studies=studies, days=days)
        )
    except HTTPRefusal:
        raise
    except EverholdError as error:
        return _listed(context, 422, form=form, fault=_fault(error))
    context.note(**{"made": made.id, "for": made.name, "scope": made.scope})
    return _listed(context, made=made, secret=secret)


@router.post("/tokens/{which}/revoke")
async def revoke(which: str, context: PageContextOf) -> Response:
    """Revoke a token."""
    await form_of(context)
    gone = await run_in_threadpool(context.server.revoke_token, context.token, which)
    context.note(revoked=gone.id)
    return RedirectResponse("/tokens", status_code=303)


def _fault(error: EverholdError) -> PageFault:
    return PageFault.of(error).about_file("This token cannot be made", "Change the form and send it again.")
