"""A study behind a server, with the methods of `Holdout`: `eh.connect(url, token).study("patients").ask("age > 40")`.

A request that fails on the way is sent again under the same request id, until it is answered or patience ends: the server
answers a request once, however often it comes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from everhold.data.schema import Schema
from everhold.errors import AccessDenied, EverholdError, MissingExtra, QuestionError, ServerError
from everhold.serve import calls
from everhold.serve.calls import Call, NotScored, as_csv, failed
from everhold.serve.wire import submission_in

if TYPE_CHECKING:
    import httpx2

    from everhold.learn.contest import Submission
    from everhold.ledger.reading import Told

__all__ = [
    "AsyncContest",
    "AsyncServer",
    "AsyncStudy",
    "RemoteContest",
    "RemoteRehearsal",
    "RemoteScorer",
    "RemoteStudy",
    "Server",
    "connect",
    "connect_async",
]

P = ParamSpec("P")
T = TypeVar("T")

_AGAIN = {429, 502, 503, 504}
_REFUSED = {"malformed", "too large", "too soon", "closed"}


def connect(
    url: str, token: str | None = None, *, timeout: float = 60.0, patience: float = 60.0, verify: bool | str = True
) -> Server:
    """A server.

    Args:
        url: such as "https://data.example.org".
        token: as its custodian made it; the environment's EVERHOLD_TOKEN when left out.
        timeout: seconds to wait for one response.
        patience: seconds to keep trying when the server cannot be reached or is busy.
        verify: whether to check the server's certificate, or the path of one to trust.
    """
    return Server(url, token, timeout=timeout, patience=patience, verify=verify)


def connect_async(
    url: str, token: str | None = None, *, timeout: float = 60.0, patience: float = 60.0, verify: bool | str = True
) -> AsyncServer:
    """The same for asynchronous programs: every method is awaited."""
    return AsyncServer(url, token, timeout=timeout, patience=patience, verify=verify)


class _Line:
    """What both clients share: where the server is, who asks, when to try again."""

    def __init__(self, url: str, token: str | None, *, timeout: float, patience: float, verify: bool | str) -> None:
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

    def _made(self, kind: Callable[..., T]) -> T:
        """A client of the HTTP library, or what is wrong with what was given."""
        try:
            return kind(**self._options)
        except self._httpx.InvalidURL as error:
            raise ServerError(f"the server is at {self.url!r}, which is no address ({error}).") from None

    def _arguments(self, call: Call[Any]) -> dict[str, Any]:
        given: dict[str, Any] = {"method": call.method, "url": call.path, "params": call.parameters}
        if call.body is not None:
            given |= {"content": _encoded(call.body), "headers": {"Content-Type": "application/json"}}
        if call.content is not None:
            given |= {"content": call.content, "headers": {"Content-Type": "text/csv"}}
        return given

    def _settled(self, call: Call[T], response: httpx2.Response) -> T:
        """What a response says, or the error that it tells."""
        if call.raw and response.status_code == 200:
            return call.read(response.content)
        told = _json(response)
        if told is None or response.status_code >= 400 or response.status_code < 200:
            raise failed(response.status_code, told)
        try:
            return call.read(told)
        except (KeyError, TypeError, ValueError, AttributeError, EverholdError):
            raise ServerError("the server answered in a form that this everhold does not read. Is it newer?") from None

    def _pause(self, tries: int, started: float, response: httpx2.Response | None) -> float | None:
        """How long to wait before the next try; None when patience ends."""
        pause = min(0.1 * 2.0**tries, 5.0) * (0.5 + random.random())
        if response is not None and _is_number(asked := response.headers.get("retry-after", "")):
            pause = max(pause, float(asked)) if response.status_code == 429 else pause
        return pause if time.monotonic() + pause - started < self._patience else None

    def _unreached(self, error: Exception) -> ServerError:
        return ServerError(f"{self.url} could not be reached ({type(error).__name__}). Is the server running?")


class Server(_Line):
    """A server: what it serves, by name."""

    def __init__(self, url: str, token: str | None = None, **options: Any) -> None:
        super().__init__(url, token, **{"timeout": 60.0, "patience": 60.0, "verify": True, **options})
        self._kept = options
        self._client = self._made(self._httpx.Client)

    def study(self, name: str) -> RemoteStudy:
        """A study."""
        return RemoteStudy(self, name)

    def contest(self, name: str) -> RemoteContest:
        """A contest."""
        return RemoteContest(self, name)

    def studies(self) -> list[dict[str, Any]]:
        """All that the token may see, with where it stands."""
        return self._send(calls.studies())

    def _send(self, call: Call[T]) -> T:
        started, tries = time.monotonic(), 0
        while True:
            response = None
            try:
                response = self._client.request(**self._arguments(call))
                if response.status_code not in _AGAIN:
                    return self._settled(call, response)
            except (self._httpx.RequestError, RuntimeError) as error:
                if isinstance(error, RuntimeError):
                    raise ServerError(f"this connection to {self.url} was closed.") from None
                broken: EverholdError = self._unreached(error)
            else:
                broken = failed(response.status_code, _json(response))
            pause = self._pause(tries, started, response)
            if pause is None or _is_final(response):
                raise broken
            time.sleep(pause)
            tries += 1

    def close(self) -> None:
        """Give up connections."""
        self._client.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if (client := getattr(self, "_client", None)) is not None:
            client.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.url, self._token, self._kept)

    def __repr__(self) -> str:
        return f"Server({self.url})"


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


def _again(url: str, token: str, options: dict[str, Any]) -> Server:
    return Server(url, token, **options)


def _trusting(place: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=place)
    except OSError as error:
        raise ServerError(f"{place} cannot be read as a certificate ({error}).") from None


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _is_final(response: httpx2.Response | None) -> bool:
    """A submission that came too soon is told at once: waiting a day is not for a program to do."""
    told = _json(response) if response is not None else None
    fault = told.get("error") if isinstance(told, dict) else None
    details = fault.get("details") if isinstance(fault, dict) else None
    return isinstance(details, dict) and details.get("state") in _REFUSED


def _now(build: Callable[Concatenate[str, P], Call[T]]) -> Callable[Concatenate[RemoteStudy, P], T]:
    """A method that sends a call and waits."""

    @wraps(build)
    def method(self: RemoteStudy, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._server._send(build(self.name, *args, **kwargs))

    return method


def _later(build: Callable[Concatenate[str, P], Call[T]]) -> Callable[Concatenate[AsyncStudy, P], Awaitable[T]]:
    """A method that is awaited."""

    @wraps(build)
    async def method(self: AsyncStudy, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._server._send(build(self.name, *args, **kwargs))

    return method


def _trial(build: Callable[Concatenate[str, P], Call[T]]) -> Callable[Concatenate[RemoteRehearsal, P], T]:
    """A method that asks the public side alone."""

    @wraps(build)
    def method(self: RemoteRehearsal, /, *args: P.args, **kwargs: P.kwargs) -> T:
        kwargs["rehearse"] = True
        return self._study._server._send(build(self._study.name, *args, **kwargs))

    return method


class RemoteStudy:
    """A study behind a server. Its answers are those that `Holdout` gives where the rows are."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self.name = server, name
        self._schema: Schema | None = None

    ask = _now(calls.ask)
    ask_many = _now(calls.ask_many)
    try_out = _now(calls.try_out)
    check = _now(calls.check)
    share = _now(calls.share)
    mean = _now(calls.mean)
    median = _now(calls.median)
    quantile = _now(calls.quantile)
    variance = _now(calls.variance)
    correlation = _now(calls.correlation)
    difference = _now(calls.difference)
    compare = _now(calls.compare)
    histogram = _now(calls.histogram)
    table = _now(calls.table)
    status = _now(calls.status)
    audit = _now(calls.audit)
    certificate = _now(calls.certificate)

    @property
    def rehearsal(self) -> RemoteRehearsal:
        """The same questions on the public side alone: nothing is spent."""
        return RemoteRehearsal(self)

    def log(self, *, contains: str | None = None, who: str | None = None, surprises: bool = False) -> Iterator[Told]:
        """What was asked and answered, page by page."""
        after: int | None = 0
        while after is not None:
            call = calls.log_page(self.name, after=after, contains=contains, who=who, surprises=surprises)
            rounds, after = self._server._send(call)
            yield from rounds

    def download(self, path: str | Path) -> Path:
        """The study's file, for `Holdout.audit_file`: the server need not be believed. Needs an auditor's token."""
        place = Path(path)
        place.write_bytes(self._server._send(calls.file(self.name)))
        return place

    @property
    def schema(self) -> Schema:
        """The declared columns."""
        if self._schema is None:
            self._schema = Schema.from_toml(self._server._send(calls.study(self.name))["schema_toml"])
        return self._schema

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""
        return int(self.status()["questions"])

    @property
    def surprises(self) -> int:
        """How many of them surprised."""
        return int(self.status()["surprises"])

    @property
    def spent(self) -> float:
        """The price so far in nats."""
        return float(self.status()["spent"])

    @property
    def size(self) -> int:
        """The number of private rows."""
        return int(self.status()["rows"])

    @property
    def head(self) -> str:
        """Where the ledger stands."""
        return str(self.status()["head"])

    def __repr__(self) -> str:
        return f"RemoteStudy({self.name!r} at {self._server.url})"


class RemoteRehearsal:
    """Questions to the public side of a study behind a server."""

    def __init__(self, study: RemoteStudy) -> None:
        self._study = study

    share = _trial(calls.share)
    mean = _trial(calls.mean)
    median = _trial(calls.median)
    quantile = _trial(calls.quantile)
    variance = _trial(calls.variance)
    correlation = _trial(calls.correlation)
    difference = _trial(calls.difference)
    compare = _trial(calls.compare)
    histogram = _trial(calls.histogram)
    table = _trial(calls.table)

    def try_out(self, question: str) -> Any:
        """What the public side says of a question."""
        return self._study.try_out(question)


class RemoteContest:
    """A contest behind a server. The entrant is whom the token is for."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self.name = server, name
        self._rules: dict[str, Any] | None = None

    @property
    def rules(self) -> dict[str, Any]:
        """Title, metric, columns, limits, and what the rows are called (`ids`)."""
        if self._rules is None:
            self._rules = self._server._send(calls.contest(self.name))
        return self._rules

    def submit(self, predictions: Any) -> Submission:
        """Submit predictions: one for each of `rules['ids']` in that order, or a CSV file as `Path`, bytes or text."""
        if not isinstance(predictions, bytes | str | Path):
            predictions = as_csv(self.rules, list(predictions))
        try:
            return self._server._send(calls.submit(self.name, predictions))
        except NotScored as refusal:
            return submission_in(refusal.submission)

    def board(self) -> dict[str, Any]:
        """Where everybody stands."""
        return self._server._send(calls.board(self.name))

    def scorer(self, features: Any) -> RemoteScorer:
        """For scikit-learn's searches: `scorer(estimator, X, y)` submits what the estimator says of `features`.

        Args:
            features: the contest's public features, a row for each of `rules['ids']`.
        """
        return RemoteScorer(self, features)

    def __repr__(self) -> str:
        return f"RemoteContest({self.name!r} at {self._server.url})"


class RemoteScorer:
    """Scores a fitted estimator by a contest's answers. It can be sent to other processes: it holds no private row."""

    def __init__(self, contest: RemoteContest, features: Any) -> None:
        self.contest, self._features = contest, features

    def __call__(self, estimator: Any, X: Any = None, y: Any = None, **_: Any) -> float:
        """The score's value, larger being better, for a search to rank by."""
        from everhold.learn.scorer import SearchStopped

        try:
            found = self.contest.submit(estimator.predict(self._features))
        except EverholdError as refusal:
            raise SearchStopped(f"the search stops here: {refusal}") from refusal
        if found.score is None:
            raise SearchStopped(f"the search stops here: {found.state}: {found.reason}")
        return found.score.value if self.contest.rules["larger_is_better"] else -found.score.value

    def __repr__(self) -> str:
        return f"RemoteScorer({self.contest!r})"


class AsyncServer(_Line):
    """A server, for asynchronous programs."""

    def __init__(self, url: str, token: str | None = None, **options: Any) -> None:
        super().__init__(url, token, **{"timeout": 60.0, "patience": 60.0, "verify": True, **options})
        self._client = self._made(self._httpx.AsyncClient)

    def study(self, name: str) -> AsyncStudy:
        """A study."""
        return AsyncStudy(self, name)

    def contest(self, name: str) -> AsyncContest:
        """A contest."""
        return AsyncContest(self, name)

    async def studies(self) -> list[dict[str, Any]]:
        """All that the token may see."""
        return await self._send(calls.studies())

    async def _send(self, call: Call[T]) -> T:
        started, tries = time.monotonic(), 0
        while True:
            response = None
            try:
                response = await self._client.request(**self._arguments(call))
                if response.status_code not in _AGAIN:
                    return self._settled(call, response)
            except (self._httpx.RequestError, RuntimeError) as error:
                if isinstance(error, RuntimeError):
                    raise ServerError(f"this connection to {self.url} was closed.") from None
                broken: EverholdError = self._unreached(error)
            else:
                broken = failed(response.status_code, _json(response))
            pause = self._pause(tries, started, response)
            if pause is None or _is_final(response):
                raise broken
            await asyncio.sleep(pause)
            tries += 1

    async def close(self) -> None:
        """Give up connections."""
        await self._client.aclose()

    async def __aenter__(self) -> AsyncServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncServer({self.url})"


class AsyncStudy:
    """A study behind a server, for asynchronous programs: `await study.ask("age > 40")`."""

    def __init__(self, server: AsyncServer, name: str) -> None:
        self._server, self.name = server, name

    ask = _later(calls.ask)
    ask_many = _later(calls.ask_many)
    try_out = _later(calls.try_out)
    check = _later(calls.check)
    share = _later(calls.share)
    mean = _later(calls.mean)
    median = _later(calls.median)
    quantile = _later(calls.quantile)
    variance = _later(calls.variance)
    correlation = _later(calls.correlation)
    difference = _later(calls.difference)
    compare = _later(calls.compare)
    histogram = _later(calls.histogram)
    table = _later(calls.table)
    status = _later(calls.status)
    audit = _later(calls.audit)
    certificate = _later(calls.certificate)

    async def log(
        self, *, contains: str | None = None, who: str | None = None, surprises: bool = False
    ) -> AsyncIterator[Told]:
        """What was asked and answered, page by page."""
        after: int | None = 0
        while after is not None:
            call = calls.log_page(self.name, after=after, contains=contains, who=who, surprises=surprises)
            rounds, after = await self._server._send(call)
            for one in rounds:
                yield one

    async def schema(self) -> Schema:
        """The declared columns."""
        return Schema.from_toml((await self._server._send(calls.study(self.name)))["schema_toml"])

    async def download(self, path: str | Path) -> Path:
        """The study's file, for `Holdout.audit_file`."""
        place = Path(path)
        data: bytes = await self._server._send(calls.file(self.name))
        place.write_bytes(data)
        return place

    def __repr__(self) -> str:
        return f"AsyncStudy({self.name!r} at {self._server.url})"


class AsyncContest:
    """A contest behind a server, for asynchronous programs."""

    def __init__(self, server: AsyncServer, name: str) -> None:
        self._server, self.name = server, name

    async def rules(self) -> dict[str, Any]:
        """Title, metric, columns, limits, and what the rows are called (`ids`)."""
        return await self._server._send(calls.contest(self.name))

    async def submit(self, predictions: Any) -> Submission:
        """Submit predictions: one for each of the rules' `ids`, or a CSV file as `Path`, bytes or text."""
        if not isinstance(predictions, bytes | str | Path):
            predictions = as_csv(await self.rules(), list(predictions))
        try:
            return await self._server._send(calls.submit(self.name, predictions))
        except NotScored as refusal:
            return submission_in(refusal.submission)

    async def board(self) -> dict[str, Any]:
        """Where everybody stands."""
        return await self._server._send(calls.board(self.name))
