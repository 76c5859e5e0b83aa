"""Tokens, for custodians."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from everhold.errors import EverholdError
from everhold.server.dependencies import SignedIn, StateOf
from everhold.server.errors import HTTPRefusal
from everhold.server.pages.rendering import PageFault, form_of, render
from everhold.server.signins import SignIn
from everhold.server.state import ServerState

__all__ = ["router"]

router = APIRouter()

_SCOPES = {
    "analyst": "ask and read (analyst)",
    "auditor": "read and audit (auditor)",
    "custodian": "everything (custodian)",
}


def _listed(server: ServerState, signin: SignIn, status: int = 200, **more: Any) -> Response:
    found = sorted(server.tokens_of(signin.token), key=lambda one: (one.state != "live", one.created))
    form = {"name": "", "scope": "analyst", "studies": "", "days": "90"}
    values: dict[str, Any] = {
        "session": signin,
        "here": "tokens",
        "tokens": found,
        "studies": [one.name for one in server.readable_by(signin.token)],
        "scopes": _SCOPES,
        "made": None,
        "secret": "",
        "form": form,
    }
    return render("tokens.html", code=status, **{**values, **more})


@router.get("/tokens")
def tokens(signin: SignedIn, server: StateOf) -> Response:
    """All tokens that a custodian may see."""
    return _listed(server, signin)


@router.post("/tokens")
async def make(signin: SignedIn, server: StateOf, request: Request) -> Response:
    """Make a token; its secret is shown this once."""
    given = await form_of(request, server)
    form = {name: str(given.get(name) or "").strip() for name in ("name", "scope", "studies", "days")}
    try:
        days = float(form["days"]) if form["days"] else None
    except ValueError:
        wrong = HTTPRefusal(422, "malformed", "days is not a number. Expected one, such as 90.")
        return _listed(server, signin, 422, form=form, fault=PageFault.of(wrong))
    try:
        studies = [form["studies"]] if form["studies"] else []
        secret, made = await run_in_threadpool(
            lambda: server.make_token(signin.token, form["name"], form["scope"], studies=studies, days=days)
        )
    except HTTPRefusal:
        raise
    except EverholdError as error:
        return _listed(server, signin, 422, form=form, fault=PageFault.of(error))
    request.state.note = {"made": made.id, "for": made.name, "scope": made.scope}
    return _listed(server, signin, made=made, secret=secret)


@router.post("/tokens/{which}/revoke")
async def revoke(which: str, signin: SignedIn, server: StateOf, request: Request) -> Response:
    """Revoke a token."""
    await form_of(request, server)
    gone = await run_in_threadpool(server.revoke_token, signin.token, which)
    request.state.note = {"revoked": gone.id}
    return RedirectResponse("/tokens", status_code=303)
