"""Tokens, for custodians."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import JSONResponse, Response

from everhold.server.dependencies import StateOf, TokenOf
from everhold.server.request_schemas import TokenNew
from everhold.server.response_schemas import TokenMade, TokenOut, TokensOut

__all__ = ["router"]

router = APIRouter(tags=["tokens"])


@router.get("/tokens", summary="All tokens", response_model=TokensOut)
def listed(token: TokenOf, server: StateOf) -> Response:
    """For custodians; never their secrets. A custodian of some studies sees the tokens of those."""
    return JSONResponse({"tokens": [one.shown() for one in server.tokens_of(token)]})


@router.post("/tokens", summary="Make a token", response_model=TokenMade, status_code=201)
def make(token: TokenOf, server: StateOf, body: TokenNew, request: Request) -> Response:
    """The secret is returned this once."""
    secret, made = server.make_token(token, body.name, body.scope, studies=body.studies, days=body.days)
    request.state.note = {"made": made.id, "for": made.name, "scope": made.scope}
    return JSONResponse({**made.shown(), "token": secret}, status_code=201)


@router.delete("/tokens/{token_id}", summary="Revoke a token", response_model=TokenOut)
def revoke(token: TokenOf, server: StateOf, token_id: Annotated[str, Path(max_length=200)], request: Request) -> Response:
    """A revoked token is refused from the next request on."""
    gone = server.revoke_token(token, token_id)
    request.state.note = {"revoked": gone.id}
    return JSONResponse(gone.shown())
