"""The front door: every request gets an id, a token check where one is needed, a limit on its body, and a line in the log.

It stands before all routes, so that whoever has no token is sent away before a body is read.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
import traceback
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from everhold.errors import EverholdError
from everhold.server.contest_writer import ContestWriter
from everhold.server.errors import HTTPRefusal, fault, http_error_of
from everhold.server.state import ServerState

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["RequestMiddleware"]

_MOST_OF_ONE = 200  # requests of one token, or of one address without a token, at once
_MOST_SUBMITTING = 3  # submissions of one at once: each is held in memory
_STRANGERS_SECONDS, _STRANGERS_BYTES = 15.0, 10_000  # for whoever has not signed in yet
_SEND_SECONDS = 120.0
_ID = re.compile(r"[\x21-\x7e]{1,128}")
_SUBMISSION = re.compile(r"/(?:v1/)?contests/([^/]+)/submissions")
_CSP = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class RequestMiddleware:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, house: ServerState) -> None:
        self.app, self.house = app, house
        self._active: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request's way in and out."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        state = scope.setdefault("state", {})
        state["started"] = time.monotonic()
        state["time"] = _now()
        state["request_id"] = given if _ID.fullmatch(given) else secrets.token_hex(8)
        state["token"], state["note"] = None, {}
        passing = _Exchange(self.house, scope, receive, send, _limit(self.house, scope["path"]))
        passing.whole = not _has_body(headers)
        counted: list[str] = []
        try:
            self._check(scope, headers, passing)
            self._count(scope, counted)
            await self.app(scope, passing.receive, passing.send)
        except EverholdError as refusal:
            status, code, message, _, more = http_error_of(refusal)
            await passing.refuse(status, code, message, more)
        except ClientDisconnect:
            passing.status = 499
        except TimeoutError:
            passing.status = passing.status or 408
        except asyncio.CancelledError:  # the server stops, and waits no longer
            said = "the server is stopping. Ask again under the same request id when it is back."
            await passing.refuse(503, "unavailable", said, {"Retry-After": "5"})
        except Exception as error:
            # What an unforeseen error says may hold anything: the log gets its kind and place alone.
            frames = traceback.extract_tb(error.__traceback__)[-6:]
            place = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
            state["note"] = {"unforeseen": type(error).__name__, "at": place}
            await passing.refuse(
                500, "unforeseen", "something unforeseen happened. Nothing that was not recorded was told.", {}
            )
        finally:
            for key in counted:
                self._active[key] -= 1
                if not self._active[key]:
                    del self._active[key]
            self._log(scope, passing.status)

    def _check(self, scope: Scope, headers: Headers, passing: _Exchange) -> None:
        path = scope["path"]
        if (
            path == "/v1"
            or path.startswith("/v1/")
            or path == "/metrics"
            or (path == "/openapi.json" and _bearer(headers))
        ):
            token = self.house.admit(_bearer(headers), _address(scope))
            scope["state"]["token"] = token
            self.house.rate.require(token.id)
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 18:
            raise HTTPRefusal(400, "malformed", "Content-Length is no number.")
        if int(length) > passing.most:
            raise HTTPRefusal(413, "too_large", f"the body has {int(length):,} bytes; {passing.most:,} are allowed.")

    def _count(self, scope: Scope, counted: list[str]) -> None:
        """So many at once for one token or address; static files and health do not count."""
        path, token = scope["path"], scope["state"]["token"]
        if path.startswith("/static/") or path == "/health":
            return
        whose = _address(scope) if token is None else token.id
        limits = {whose: _MOST_OF_ONE}
        if _SUBMISSION.fullmatch(path):
            limits[f"{whose} submits"] = _MOST_SUBMITTING
        for key, most in limits.items():
            if self._active[key] >= most:
                raise HTTPRefusal(
                    429, "too_many", "too many requests at once. Wait for one of them.", headers={"Retry-After": "1"}
                )
            self._active[key] += 1
            counted.append(key)

    def _log(self, scope: Scope, status: int) -> None:
        state, route = scope["state"], scope.get("route")
        where = getattr(route, "path", "?")
        key = (str(where), str(status))
        self.house.counts[key] = self.house.counts.get(key, 0) + 1
        if scope["path"].startswith(("/static/", "/health")) and status < 400:
            return
        token = state["token"]
        self.house.note(
            request_id=state["request_id"],
            client=_address(scope),
            token=None if token is None else token.id,
            who=None if token is None else token.name,
            method=scope["method"],
            path=scope["path"][:300],
            status=status,
            **state["note"],
        )


class _Exchange:
    """One request on its way: its body counted, its response given the headers that every response has."""

    def __init__(self, house: ServerState, scope: Scope, receive: Receive, send: Send, most: int) -> None:
        self._house, self._scope, self._receive, self._send = house, scope, receive, send
        self.most, self._came = most, 0
        patience = _STRANGERS_SECONDS if scope["path"] == "/sign-in" else house.config.body_seconds
        self.whole, self._deadline = False, time.monotonic() + min(patience, house.config.body_seconds)
        self.status = 0

    async def receive(self) -> Message:
        """A part of the body; too much of it is refused."""
        if self.whole:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "the body did not come in time.") from None
        self.whole = not message.get("more_body", False)
        if message["type"] == "http.request":
            self._came += len(message.get("body", b""))
            if self._came > self.most:
                raise HTTPException(413, f"more than {self.most:,} bytes came, which is what a body may have.")
        return message

    async def send(self, message: Message) -> None:
        """A part of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            static = self._scope["path"].startswith("/static/") and self.status == 200
            headers["X-Request-ID"] = self._scope["state"]["request_id"]
            headers["Cache-Control"] = "public, max-age=86400" if static else "no-store"
            headers["X-Content-Type-Options"] = "nosniff"
            headers["X-Frame-Options"] = "DENY"
            headers["Referrer-Policy"] = "same-origin"
            headers["Content-Security-Policy"] = _CSP
            if not self.whole:  # what is left of the body is not read: the connection ends with the response
                headers["Connection"] = "close"
            if self._house.config.secure:
                headers["Strict-Transport-Security"] = "max-age=31536000"
        async with asyncio.timeout(_SEND_SECONDS):  # whoever does not read is not waited for
            await self._send(message)

    async def refuse(self, status: int, code: str, message: str, headers: dict[str, str]) -> None:
        """An error in the shape of all errors, if nothing was sent yet."""
        if self.status == 0:
            response = fault(self._scope["state"]["request_id"], status, code, message, headers=headers)
            await response(self._scope, self._receive, self.send)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _bearer(headers: Headers) -> str | None:
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" and secret.strip() else None


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _address(scope: Scope) -> str:
    client: Any = scope.get("client")
    return str(client[0]) if client else "?"


def _limit(house: ServerState, path: str) -> int:
    if path == "/sign-in":
        return min(_STRANGERS_BYTES, house.config.max_body_bytes)
    if (found := _SUBMISSION.fullmatch(path)) is not None:
        door = house.doors.get(found[1])
        if isinstance(door, ContestWriter):
            return max(house.config.max_body_bytes, door.contest.rules.most_bytes + 100_000)
    return house.config.max_body_bytes
