"""The line to a server: where it is, who asks, what a response says, when to try again.

A request that fails on the way is sent again under the same request id, until it is answered or patience ends: the server
answers a request once, however often it comes.
"""

from __future__ import annotations

import json
import os
import random
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.client.calls import ApiCall, NotScored, failed
from everhold.errors import AccessDenied, EverholdError, MissingExtra, QuestionError, ServerError

if TYPE_CHECKING:
    import httpx2

__all__ = ["Connection"]

T = TypeVar("T")

_AGAIN = {429, 502, 503, 504}


class Connection:
    """What both clients share: where the server is, who asks, when to try again."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        patience: float = 60.0,
        verify: bool | str = True,
    ) -> None:
        try:
            import httpx2
        except ImportError:
            raise MissingExtra("asking a server", "client") from None
        secret = token if token is not None else os.environ.get("EVERHOLD_TOKEN")
        if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise AccessDenied("a token is needed: connect(url, token), or EVERHOLD_TOKEN in the environment.")
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ServerError(f"the server is at {url!r}. Expected an address such as https://data.example.org.")
        if "@" in url.split("/")[2]:
            raise ServerError("the address holds a name or a password. Expected one such as https://data.example.org.")
        self.url, self._token, self._patience = url.rstrip("/"), secret, patience
        self._options: dict[str, Any] = {
            "base_url": self.url,
            "timeout": timeout,
            "verify": verify if isinstance(verify, bool) else _trusting(verify),
            "headers": {"Authorization": f"Bearer {secret}", "User-Agent": "everhold"},
        }
        self._httpx = httpx2

    def _open_client(self, kind: Callable[..., T]) -> T:
        """A client of the HTTP library, or what is wrong with what was given."""
        try:
            return kind(**self._options)
        except self._httpx.InvalidURL as error:
            raise ServerError(f"the server is at {self.url!r}, which is not an address ({error}).") from None

    def _arguments(self, call: ApiCall[Any]) -> dict[str, Any]:
        given: dict[str, Any] = {"method": call.method, "url": call.path, "params": call.parameters}
        if call.body is not None:
            given |= {"content": _encoded(call.body), "headers": {"Content-Type": "application/json"}}
        if call.content is not None:
            given |= {"content": call.content, "headers": {"Content-Type": "text/csv"}}
        return given

    def _read_response(self, call: ApiCall[T], response: httpx2.Response) -> T:
        """What a response says, or the error that it carries."""
        if call.raw and response.status_code == 200:
            return call.read(response.content)
        given = _json(response)
        if given is None or response.status_code >= 400 or response.status_code < 200:
            raise failed(response.status_code, given)
        try:
            return call.read(given)
        except (KeyError, TypeError, ValueError, AttributeError, EverholdError):
            raise ServerError("the server answered in a form that this everhold does not read. Is it newer?") from None

    def _response_or_pause(
        self, outcome: httpx2.Response | Exception, tries: int, started: float
    ) -> httpx2.Response | float:
        """A response to be read, or how long to wait before the next try. Raises when patience ends."""
        response = None if isinstance(outcome, Exception) else outcome
        if response is not None and response.status_code not in _AGAIN:
            return response
        broken: EverholdError
        if response is not None:
            broken = failed(response.status_code, _json(response))
        elif isinstance(outcome, RuntimeError):
            raise ServerError(f"this connection to {self.url} was closed.") from None
        else:
            kind = type(outcome).__name__
            broken = ServerError(f"{self.url} could not be reached ({kind}). Is the server running?")
        pause = self._pause(tries, started, response)
        if pause is None or isinstance(broken, NotScored):  # a daily limit is not worth waiting for
            raise broken
        return pause

    def _pause(self, tries: int, started: float, response: httpx2.Response | None) -> float | None:
        """Longer each time, and as long as the server asks; None when patience ends."""
        pause = min(0.1 * 2.0**tries, 5.0) * (0.5 + random.random())
        if response is not None and _is_number(asked := response.headers.get("retry-after", "")):
            pause = max(pause, float(asked)) if response.status_code == 429 else pause
        return pause if time.monotonic() + pause - started < self._patience else None


def _encoded(body: dict[str, Any]) -> bytes:
    """JSON, or what is wrong with what was given."""
    try:
        return json.dumps(body, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise QuestionError(f"this cannot be sent to a server ({error}). Expected texts and finite numbers.") from None


def _plain(value: object) -> Any:
    """A number of numpy's as Python's own."""
    if callable(item := getattr(value, "item", None)):
        return item()
    raise TypeError(f"a {type(value).__name__}")


def _trusting(path: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        raise ServerError(f"{path} cannot be read as a certificate ({error}).") from None


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
