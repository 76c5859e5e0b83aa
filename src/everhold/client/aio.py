"""A study behind a server, for asynchronous programs: `await eh.connect_async(url, token).study("patients").ask("…")`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from everhold.client import calls
from everhold.client.calls import ApiCall, CheckOptions, NotScored, predictions_to_csv
from everhold.client.transport import Connection
from everhold.contest.board import Board, Submission
from everhold.contest.ranking_preview import RankingPreview
from everhold.data.schema import Schema
from everhold.gate.outcomes import OutcomeGaps
from everhold.gate.results import CheckResult, GateStatus, TotalGain
from everhold.statistics.means import Difference, Mean, Ratio, Share
from everhold.statistics.quantiles import Median, Quantile
from everhold.statistics.shortcuts import async_shortcut
from everhold.statistics.spread import Correlation, Variance
from everhold.statistics.tables import Histogram, Table

if TYPE_CHECKING:
    import httpx2

    from everhold.ledger.reader import LoggedAct, LoggedQuestion
    from everhold.queries.answer import Answer, Preview
    from everhold.statistics.statistic import Statistic
    from everhold.trial import Trial

__all__ = ["AsyncContest", "AsyncGate", "AsyncServer", "AsyncStudy", "connect_async"]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def connect_async(
    url: str, token: str | None = None, *, timeout: float = 60.0, patience: float = 60.0, verify: bool | str = True
) -> AsyncServer:
    """As `connect`, for asynchronous programs: every method is awaited."""
    return AsyncServer(url, token, timeout=timeout, patience=patience, verify=verify)


def _async_method(build: Callable[Concatenate[str, P], ApiCall[T]]) -> Callable[Concatenate[AsyncStudy, P], Awaitable[T]]:
    """A method that is awaited."""

    @wraps(build)
    async def method(self: AsyncStudy, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._server.send(build(self.name, *args, **kwargs))

    return method


class AsyncServer(Connection):
    """A server, for asynchronous programs."""

    def __init__(self, url: str, token: str | None = None, **options: Any) -> None:
        super().__init__(url, token, **options)
        self._client = self._open_client(self._httpx.AsyncClient)

    def study(self, name: str) -> AsyncStudy:
        """A study."""
        return AsyncStudy(self, name)

    def contest(self, name: str) -> AsyncContest:
        """A contest."""
        return AsyncContest(self, name)

    def gate(self, name: str) -> AsyncGate:
        """A gate."""
        return AsyncGate(self, name)

    async def studies(self) -> list[dict[str, Any]]:
        """All that the token may see."""
        return await self.send(calls.studies())

    async def send(self, call: ApiCall[T]) -> T:
        """Send a call, again where it fails on the way, and return what it says."""
        started, tries = time.monotonic(), 0
        while True:
            outcome: httpx2.Response | Exception
            try:
                outcome = await self._client.request(**self._arguments(call))
            except (self._httpx.RequestError, RuntimeError) as error:
                outcome = error
            response_or_pause = self._response_or_pause(outcome, tries, started)
            if not isinstance(response_or_pause, float):
                return self._read_response(call, response_or_pause)
            await asyncio.sleep(response_or_pause)
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

    @overload
    async def ask(self, question: str, *, expect: float | None = None, request_id: str | None = None) -> Answer: ...

    @overload
    async def ask(self, question: Statistic[R], *, expect: None = None, request_id: str | None = None) -> R: ...

    async def ask(
        self, question: str | Statistic[R], *, expect: float | None = None, request_id: str | None = None
    ) -> Answer | R:
        """As `Holdout.ask`: a yes/no question as text, or a statistic."""
        call = calls.ask(self.name, question, expect=expect, request_id=request_id)
        result: Answer | R = await self._server.send(call)
        return result

    @overload
    async def read(
        self,
        question: str,
        *,
        spend: float | None = None,
        expect: float | None = None,
        request_id: str | None = None,
    ) -> Answer: ...

    @overload
    async def read(
        self,
        question: Statistic[R],
        *,
        spend: float | None = None,
        expect: None = None,
        request_id: str | None = None,
    ) -> R: ...

    async def read(
        self,
        question: str | Statistic[R],
        *,
        spend: float | None = None,
        expect: float | None = None,
        request_id: str | None = None,
    ) -> Answer | R:
        """As `Holdout.read`: the private rows' own value; it widens later intervals."""
        call = calls.read(self.name, question, spend=spend, expect=expect, request_id=request_id)
        result: Answer | R = await self._server.send(call)
        return result

    @overload
    async def try_out(self, question: str) -> Preview: ...

    @overload
    async def try_out(self, question: Statistic[Any]) -> Trial: ...

    async def try_out(self, question: str | Statistic[Any]) -> Preview | Trial:
        """As `Holdout.try_out`: the public side alone, for nothing."""
        preview: Preview | Trial = await self._server.send(calls.try_out(self.name, question))
        return preview

    ask_many = _async_method(calls.ask_many)
    read_many = _async_method(calls.read_many)
    best_of = _async_method(calls.best_of)
    is_better = _async_method(calls.is_better)
    compare = _async_method(calls.compare)
    certify = _async_method(calls.certify)
    close = _async_method(calls.close)
    try_both = _async_method(calls.try_both)
    check = _async_method(calls.check)
    share = async_shortcut(Share)
    mean = async_shortcut(Mean)
    difference = async_shortcut(Difference)
    ratio = async_shortcut(Ratio)
    median = async_shortcut(Median)
    quantile = async_shortcut(Quantile)
    variance = async_shortcut(Variance)
    correlation = async_shortcut(Correlation)
    histogram = async_shortcut(Histogram)
    table = async_shortcut(Table)
    status = _async_method(calls.status)
    audit = _async_method(calls.audit)
    certificate = _async_method(calls.certificate)

    async def log(
        self, *, contains: str | None = None, who: str | None = None, surprises: bool = False
    ) -> AsyncIterator[LoggedQuestion | LoggedAct]:
        """What was asked and done, as people asked it, page by page."""
        after: int | None = 0
        while after is not None:
            call = calls.log_page(self.name, after=after, contains=contains, who=who, surprises=surprises)
            rounds, after = await self._server.send(call)
            for entry in rounds:
                yield entry

    async def schema(self) -> Schema:
        """The declared columns."""
        return Schema.from_toml((await self._server.send(calls.study(self.name)))["schema_toml"])

    async def download(self, path: str | Path) -> Path:
        """The study's file, for `Holdout.audit_file`."""
        path = Path(path)
        data: bytes = await self._server.send(calls.file(self.name))
        path.write_bytes(data)
        return path

    def __repr__(self) -> str:
        return f"AsyncStudy({self.name!r} at {self._server.url})"


class AsyncContest:
    """A contest behind a server, for asynchronous programs."""

    def __init__(self, server: AsyncServer, name: str) -> None:
        self._server, self.name = server, name

    async def rules(self) -> dict[str, Any]:
        """Title, metric, columns, limits, and what the rows are called (`ids`)."""
        return await self._server.send(calls.contest(self.name))

    async def submit(self, predictions: Any) -> Submission:
        """Submit predictions: one for each of the rules' `ids`, or a CSV file as `Path`, bytes or text."""
        if not isinstance(predictions, bytes | str | Path):
            predictions = predictions_to_csv(await self.rules(), list(predictions))
        try:
            return await self._server.send(calls.submit(self.name, predictions))
        except NotScored as refusal:
            return Submission.from_dict(refusal.submission)

    async def board(self) -> Board:
        """Where everybody stands: as `Contest.board`."""
        return await self._server.send(calls.board(self.name))

    async def preview(self, first: str | None = None, second: str | None = None) -> RankingPreview:
        """What `finish()`, or with two names `duel(first, second)`, would do and cost. For custodians."""
        return await self._server.send(calls.preview_ranking(self.name, first, second))

    async def duel(self, first: str, second: str, *, request_id: str | None = None) -> bool:
        """Whether the first entrant is certified better than the second: as `Contest.duel`. For custodians."""
        return await self._server.send(calls.duel(self.name, first, second, request_id))

    async def finish(self) -> Board:
        """End the contest, and return its final board: as `Contest.finish`. For custodians."""
        return await self._server.send(calls.finish(self.name))


class AsyncGate:
    """A gate behind a server, for asynchronous programs."""

    def __init__(self, server: AsyncServer, name: str) -> None:
        self._server, self.name = server, name

    async def check(self, candidate: object, **options: Unpack[CheckOptions]) -> CheckResult:
        """Is the candidate better than the incumbent? As for `RemoteGate.check`."""
        outcomes = calls.outcomes_of(candidate, options)
        status = await self.status() if outcomes.printed or options.get("require_all") else None
        return await self._server.send(calls.check_candidate(self.name, outcomes, options, status))

    async def gaps(self, candidate: object, *, scorer: str | None = None) -> OutcomeGaps:
        """What of a candidate's file counts as a failure: as `Gate.gaps`. Nothing of the file is sent."""
        return calls.gaps(candidate, scorer, await self.status())

    async def decide(self, *, request_id: str | None = None) -> CheckResult:
        """Check the candidates that wait, although their generation is not full."""
        return await self._server.send(calls.decide(self.name, request_id))

    async def finish(self) -> TotalGain:
        """The last act: the total gain. Needs a custodian's token."""
        return await self._server.send(calls.finish_gate(self.name))

    async def status(self) -> GateStatus:
        """Where it stands."""
        return await self._server.send(calls.gate(self.name))

    def __repr__(self) -> str:
        return f"AsyncGate({self.name!r} at {self._server.url})"
