"""Who is signed in on the page: a cookie that stands for a token, and a second secret that other sites do not know.

The cookie is random, for this site alone (SameSite=Strict) and out of scripts' reach (HttpOnly). It stands for a token
on the server's side, which is looked up again at every request: a revoked token ends its sessions at once. Every change
needs the second secret, which is in the page and never in a cookie (CSRF).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from everhold.server.errors import HTTPRefusal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from everhold.server.tokens import Token, Tokens

__all__ = ["SignIn", "SignIns"]

_NOT_HERE = "this request was not sent by a page of this server. Load the page again."

_MOST_OF_ONE = 20


@dataclass(frozen=True, slots=True)
class SignIn:
    """Somebody who is signed in."""

    token: Token
    csrf: str


@dataclass(frozen=True, slots=True)
class _StoredSignIn:
    digest: str
    csrf: str
    ends: float


class SignIns:
    """All who are signed in. They are forgotten when the server stops."""

    def __init__(
        self,
        tokens: Tokens,
        *,
        hours: float,
        secure: bool,
        public_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._public = None if public_url is None else urlsplit(public_url).netloc.lower()
        self._tokens, self._seconds, self._clock = tokens, 3600.0 * hours, clock
        self.cookie = "__Host-everhold" if secure else "everhold"
        self._secure = secure
        self._kept: OrderedDict[str, _StoredSignIn] = OrderedDict()

    def start(self, secret: str, response: Response) -> Token | None:
        """Sign in with a token's secret; None if it is not a live one."""
        token = self._tokens.find(secret)
        if token is None:
            return None
        self._tidy(token.digest)
        key = secrets.token_urlsafe(32)
        self._kept[_hashed(key)] = _StoredSignIn(token.digest, secrets.token_urlsafe(32), self._clock() + self._seconds)
        response.set_cookie(
            self.cookie,
            key,
            max_age=int(self._seconds),
            httponly=True,
            secure=self._secure,
            samesite="strict",
            path="/",
        )
        return token

    def _tidy(self, digest: str) -> None:
        """Forget what has ended, and the oldest of one token's that are too many: nobody signs others out."""
        now = self._clock()
        for name in [name for name, stored in self._kept.items() if now > stored.ends]:
            del self._kept[name]
        mine = [name for name, stored in self._kept.items() if stored.digest == digest]
        for name in mine[: max(0, len(mine) - _MOST_OF_ONE + 1)]:
            del self._kept[name]

    def of(self, request: Request) -> SignIn | None:
        """Who a request comes from."""
        name = _hashed(request.cookies.get(self.cookie, ""))
        kept = self._kept.get(name)
        if kept is None:
            return None
        token = self._tokens.by_digest(kept.digest)
        if token is None or self._clock() > kept.ends:
            self._kept.pop(name, None)
            return None
        return SignIn(token, kept.csrf)

    def require_same_site(self, request: Request) -> None:
        """Refuse what a browser says another site has sent."""
        site = request.headers.get("sec-fetch-site", "same-origin")
        origin = request.headers.get("origin")
        here = (request.headers.get("host", "").lower(), self._public)
        elsewhere = origin is not None and urlsplit(origin).netloc.lower() not in here
        if site not in ("same-origin", "none") or elsewhere:
            raise HTTPRefusal(403, "not_from_here", _NOT_HERE)

    def require_form(self, request: Request, signin: SignIn, given: str | None) -> None:
        """Refuse a change that does not come from a page of this server."""
        self.require_same_site(request)
        secret = request.headers.get("x-csrf-token") or given or ""
        if not hmac.compare_digest(secret.encode(), signin.csrf.encode()):
            raise HTTPRefusal(403, "not_from_here", _NOT_HERE)

    def end(self, request: Request, response: Response) -> None:
        """Sign out."""
        self._kept.pop(_hashed(request.cookies.get(self.cookie, "")), None)
        response.delete_cookie(self.cookie, path="/", secure=self._secure, httponly=True, samesite="strict")


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
