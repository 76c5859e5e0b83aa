"""Signing in and out, the list of studies, the description of the HTTP interface."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from everhold.server.dependencies import PageContextOf, RequestContext, SignedIn, StateOf
from everhold.server.pages.rendering import fields_of, form_of, render

__all__ = ["router"]

router = APIRouter()

_LOCAL = re.compile(r"/(?:[A-Za-z0-9_~.%-][A-Za-z0-9_~.%/-]*)?")


def _local(path: str) -> str:
    """Where to go after signing in: a page of this server, or its first."""
    return path if _LOCAL.fullmatch(path) and not path.startswith("//") else "/"


@router.get("/sign-in")
async def sign_in(request: Request) -> Response:
    """The form for a token."""
    return render("sign_in.html", failed=None, next=_local(request.query_params.get("next", "/")))


@router.post("/sign-in")
async def signed_in(request: Request, server: StateOf) -> Response:
    """Sign in with a token."""
    server.signins.require_same_site(request)
    given = await fields_of(request, files=0)
    secret, to = (str(given.get(name) or "") for name in ("token", "next"))
    response = RedirectResponse(_local(to), status_code=303)
    token = server.signins.start(secret.strip(), response)
    if token is None:
        server.anonymous.require(request.client.host if request.client else "?")
        message = "This token is not valid. It may be incomplete, expired or revoked."
        return render("sign_in.html", code=401, failed=message, next=_local(to))
    server.rate.require(token.id)
    request.state.token = token
    RequestContext(server, token, request).note(signed="in")
    return response


@router.post("/sign-out")
async def sign_out(context: PageContextOf) -> Response:
    """Sign out."""
    await form_of(context)
    response = RedirectResponse("/sign-in", status_code=303)
    context.server.signins.end(context.request, response)
    return response


@router.get("/")
def studies(signin: SignedIn, server: StateOf) -> Response:
    """All studies that the token may see."""
    statuses = [server.status(served, signin.token) for served in server.readable_by(signin.token)]
    return render("studies.html", session=signin, here="studies", studies=statuses)


@router.get("/docs")
def docs() -> Response:
    """The HTTP interface, to try out."""
    return render("docs.html")
