"""What happens to every request before and after its route: an id, a check of who sends it, a limit on its body, a log line.

Nothing is open but a short list of paths. Requests without a token or a sign-in are refused before their body is read, also
where a new route forgets to ask.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from everhold.clock import timestamp
from everhold.errors import EverholdError
from everhold.gate.outcomes import least_check_bytes
from everhold.server.contest_writer import ContestWriter
from everhold.server.errors import HTTPRefusal, fault
from everhold.server.gate_writer import GateWriter
from everhold.server.state import ServerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["FOR_PROGRAMS", "OPEN", "RequestMiddleware", "SignInFirst", "below"]

_MOST_OF_ONE = 200  # requests of one token, or of one address without a token, at once
_MOST_SUBMITTING = 3  # submissions of one at once: each is held in memory
_ANONYMOUS_SECONDS, _ANONYMOUS_BYTES = 15.0, 10_000  # for people who have not signed in yet
_SEND_SECONDS = 120.0
_ID = re.compile(r"[\x21-\x7e]{1,128}")
_SUBMISSION = re.compile(r"/(?:v1/)?(?:contests|gates)/([^/]+)/(?:submissions|checks)")
_CSP = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


OPEN = ("/health", "/sign-in", "/static/")
"""Paths that need neither a token nor a sign-in; one that ends in a slash stands for all below it."""
FOR_PROGRAMS = tuple(path + end for path in ("/v1", "/metrics", "/openapi.json", "/health", "/static") for end in ("", "/"))
"""Paths whose errors are JSON; they never lead to the page for signing in."""
_TOKEN_ONLY = ("/v1", "/v1/", "/metrics")  # never a cookie


class SignInFirst(EverholdError):
    """Somebody has to sign in before this page is shown."""


class RequestMiddleware:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, server: ServerState, respond: Callable[[Request, Exception], Response]) -> None:
        self.app, self.server, self._respond = app, server, respond
        self._active: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request's way in and out."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        state = scope.setdefault("state", {})
        state["started"] = self.server.clock()
        state["time"] = timestamp()
        state["request_id"] = given if _ID.fullmatch(given) else secrets.token_hex(8)
        state["token"], state["signin"], state["note"] = None, None, {}
        exchange = _Exchange(self.server, scope, receive, send, _limit(self.server, scope["path"]))
        exchange.whole = not _has_body(headers)
        counted: list[str] = []
        try:
            self._check(scope, headers, exchange)
            self._count(scope, counted)
            await self.app(scope, exchange.receive, exchange.send)
        except EverholdError as refusal:
            if exchange.status == 0:
                await self._respond(Request(scope), refusal)(scope, receive, exchange.send)
        except ClientDisconnect:
            exchange.status = 499
        except TimeoutError:
            exchange.status = exchange.status or 408
        except asyncio.CancelledError:  # the server stops, and waits no longer
            message = "the server is stopping. Ask again under the same request id when it is back."
            await exchange.refuse(503, "unavailable", message, {"Retry-After": "5"})
        except Exception as error:
            # The text of an unforeseen error may hold anything: the log gets its kind and place alone.
            frames = traceback.extract_tb(error.__traceback__)[-6:]
            frames_at = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
            state["note"] = {"unforeseen": type(error).__name__, "at": frames_at}
            await exchange.refuse(500, "unforeseen", "Internal error. No unrecorded answer was returned.", {})
        finally:
            for key in counted:
                self._active[key] -= 1
                if not self._active[key]:
                    del self._active[key]
            self._log(scope, exchange.status)

    def _check(self, scope: Scope, headers: Headers, exchange: _Exchange) -> None:
        path, state = scope["path"], scope["state"]
        if not below(path, OPEN):
            bearer, address = _bearer(headers), _address(scope)
            if below(path, _TOKEN_ONLY) or (path == "/openapi.json" and bearer is not None):
                state["token"] = self.server.admit(bearer, address)
            else:
                state["signin"] = self.server.signins.of(Request(scope))
                if state["signin"] is None:
                    if below(path, FOR_PROGRAMS):
                        self.server.admit(None, address)
                    raise SignInFirst
                state["token"] = state["signin"].token
            self.server.rate.require(state["token"].id)
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 18:
            raise HTTPRefusal(400, "malformed", "Content-Length is not a number.")
        if int(length) > exchange.most:
            raise HTTPRefusal(413, "too_large", f"the body has {int(length):,} bytes; {exchange.most:,} are allowed.")

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
        self.server.counts[str(where), str(status)] += 1
        if scope["path"].startswith(("/static/", "/health")) and status < 400:
            return
        token = state["token"]
        self.server.note(
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

    def __init__(self, server: ServerState, scope: Scope, receive: Receive, send: Send, most: int) -> None:
        self._server, self._scope, self._receive, self._send = server, scope, receive, send
        self.most, self._came = most, 0
        patience = _ANONYMOUS_SECONDS if scope["path"] == "/sign-in" else server.config.body_seconds
        self.whole, self._deadline = False, server.clock() + min(patience, server.config.body_seconds)
        self.status = 0

    async def receive(self) -> Message:
        """A part of the body; too much of it is refused."""
        if self.whole:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._deadline - self._server.clock())):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "the body did not arrive in time.") from None
        self.whole = not message.get("more_body", False)
        if message["type"] == "http.request":
            self._came += len(message.get("body", b""))
            if self._came > self.most:
                raise HTTPException(413, f"the body is larger than {self.most:,} bytes, which is the limit.")
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
            if self._server.config.secure:
                headers["Strict-Transport-Security"] = "max-age=31536000"
        async with asyncio.timeout(_SEND_SECONDS):  # drop clients that stop reading
            await self._send(message)

    async def refuse(self, status: int, code: str, message: str, headers: dict[str, str]) -> None:
        """An error in the shape of all errors, if nothing was sent yet."""
        if self.status == 0:
            response = fault(self._scope["state"]["request_id"], status, code, message, headers=headers)
            await response(self._scope, self._receive, self.send)


def below(path: str, paths: tuple[str, ...]) -> bool:
    """Whether a path is one of these paths, or below one of them.

    >>> [below(path, ("/v1", "/v1/", "/static/")) for path in ("/v1", "/v1/studies", "/v10", "/static/page.css")]
    [True, True, False, True]
    """
    return any(path == prefix or (prefix.endswith("/") and path.startswith(prefix)) for prefix in paths)


def _bearer(headers: Headers) -> str | None:
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" and secret.strip() else None


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _address(scope: Scope) -> str:
    client: Any = scope.get("client")
    return str(client[0]) if client else "?"


def _limit(server: ServerState, path: str) -> int:
    if path == "/sign-in":
        return min(_ANONYMOUS_BYTES, server.config.max_body_bytes)
    if (match := _SUBMISSION.fullmatch(path)) is not None:
        served = server.served.get(match[1])
        if isinstance(served, ContestWriter):
            return max(server.config.max_body_bytes, served.contest.rules.most_bytes + 100_000)
        if isinstance(served, GateWriter):
            return max(server.config.max_body_bytes, least_check_bytes(served.gate.rules.cases + served.gate.rules.visible))
    return server.config.max_body_bytes
