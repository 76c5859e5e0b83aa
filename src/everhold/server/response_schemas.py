"""What every route may return, an error; and tokens."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

__all__ = [
    "Fault",
    "TokenMade",
    "TokenOut",
    "TokensOut",
]


class TokenOut(BaseModel):
    """What is known of a token; never its secret."""

    id: str
    name: str
    scope: Literal["custodian", "analyst", "auditor"]
    studies: list[str]
    created: str
    expires: str | None
    revoked: str | None
    state: Literal["live", "expired", "revoked"]


class TokenMade(TokenOut):
    """A new token, with its secret, this once."""

    token: str


class TokensOut(BaseModel):
    """Tokens."""

    tokens: list[TokenOut]


class _FaultBody(BaseModel):
    code: str = Field(description="In a word, for programs.")
    message: str = Field(description="What is wrong, what was expected, what to do; for people.")
    request_id: str = Field(description="Of this HTTP request, as in the X-Request-ID header and the server's log.")
    details: dict[str, Any] = Field(description="More, where there is more.")


class Fault(BaseModel):
    """Every error has this shape."""

    error: _FaultBody
