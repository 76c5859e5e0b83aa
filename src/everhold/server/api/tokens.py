"""Tokens, for custodians."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import JSONResponse, Response

from everhold.server.dependencies import ContextOf, StateOf, TokenOf
from everhold.server.request_schemas import TokenBody
from everhold.server.response_schemas import TokenMade, TokenOut, TokensOut

__all__ = ["router"]

router = APIRouter(tags=["tokens"])


@router.get("/tokens", summary="All tokens", response_model=TokensOut)
def listed(token: TokenOf, server: StateOf) -> Response:
    """For custodians; never their secrets. A custodian of some studies sees the tokens of those."""
    return JSONResponse({"tokens": [known.shown() for known in server.tokens_of(token)]})


@router.post("/tokens", summary="Make a token", response_model=TokenMade, status_code=201)
def make(context: ContextOf, body: TokenBody) -> Response:
    """The secret is returned this once."""
    secret, made = context.server.make_token(context.token, body.name, body.scope, studies=body.studies, days=body.days)
    context.note(**{"made": made.id, "for": made.name, "scope": made.scope})
    return JSONResponse({**made.shown(), "token": secret}, status_code=201)


@router.delete("/tokens/{token_id}", summary="Revoke a token", response_model=TokenOut)
def revoke(context: ContextOf, token_id: Annotated[str, Path(max_length=200)]) -> Response:
    """A revoked token is refused from the next request on."""
    gone = context.server.revoke_token(context.token, token_id)
    context.note(revoked=gone.id)
    return JSONResponse(gone.shown())
