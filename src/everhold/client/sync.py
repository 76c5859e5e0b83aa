"""A study behind a server, with the methods of `Holdout`: `eh.connect(url, token).study("patients").ask("age > 40")`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from everhold.client import calls
from everhold.client.calls import ApiCall, CheckOptions, NotScored, predictions_to_csv
from everhold.client.transport import Connection
from everhold.contest.board import Board, Submission
from everhold.contest.ranking_preview import RankingPreview
from everhold.data.schema import Schema
from everhold.errors import EverholdError
from everhold.gate.outcomes import OutcomeGaps
from everhold.gate.results import CheckResult, GateStatus, TotalGain
from everhold.statistics.groups import By
from everhold.statistics.means import Difference, Mean, Ratio, Share
from everhold.statistics.quantiles import Median, Quantile
from everhold.statistics.rehearsal import Rehearsal
from everhold.statistics.shortcuts import shortcut
from everhold.statistics.spread import Correlation, Variance
from everhold.statistics.tables import Histogram, Table

if TYPE_CHECKING:
    import httpx2

    from everhold.ledger.reader import LoggedAct, LoggedQuestion
    from everhold.queries.answer import Answer, Preview
    from everhold.statistics.statistic import Statistic
    from everhold.trial import Trial

__all__ = [
    "RemoteContest",
    "RemoteGate",
    "RemoteScorer",
    "RemoteStudy",
    "Server",
    "connect",
]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


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


class Server(Connection):
    """A server: what it serves, by name."""

    def __init__(self, url: str, token: str | None = None, **options: Any) -> None:
        super().__init__(url, token, **options)
        self._kept = options
        self._client = self._open_client(self._httpx.Client)

    def study(self, name: str) -> RemoteStudy:
        """A study."""
        return RemoteStudy(self, name)

    def contest(self, name: str) -> RemoteContest:
        """A contest."""
        return RemoteContest(self, name)

    def gate(self, name: str) -> RemoteGate:
        """A gate."""
        return RemoteGate(self, name)

    def studies(self) -> list[dict[str, Any]]:
        """All that the token may see, with where it stands."""
        return self.send(calls.studies())

    def send(self, call: ApiCall[T]) -> T:
        """Send a call, again where it fails on the way, and return what it says."""
        started, tries = time.monotonic(), 0
        while True:
            outcome: httpx2.Response | Exception
            try:
                outcome = self._client.request(**self._arguments(call))
            except (self._httpx.RequestError, RuntimeError) as error:
                outcome = error
            response_or_pause = self._response_or_pause(outcome, tries, started)
            if not isinstance(response_or_pause, float):
                return self._read_response(call, response_or_pause)
            time.sleep(response_or_pause)
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
        return _reconnect, (self.url, self._token, self._kept)

    def __repr__(self) -> str:
        return f"Server({self.url})"


def _reconnect(url: str, token: str, options: dict[str, Any]) -> Server:
    return Server(url, token, **options)


def _sync_method(build: Callable[Concatenate[str, P], ApiCall[T]]) -> Callable[Concatenate[RemoteStudy, P], T]:
    """A method that sends a call and waits."""

    @wraps(build)
    def method(self: RemoteStudy, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._server.send(build(self.name, *args, **kwargs))

    return method


class RemoteStudy:
    """A study behind a server. Its answers are those that `Holdout` gives where the rows are."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self.name = server, name
        self._schema: Schema | None = None

    @overload
    def ask(self, question: str, *, expect: float | None = None, request_id: str | None = None) -> Answer: ...

    @overload
    def ask(self, question: Statistic[R], *, expect: None = None, request_id: str | None = None) -> R: ...

    def ask(self, question: str | Statistic[R], *, expect: float | None = None, request_id: str | None = None) -> Answer | R:
        """As `Holdout.ask`: a yes/no question as text, or a statistic."""
        call = calls.ask(self.name, question, expect=expect, request_id=request_id)
        result: Answer | R = self._server.send(call)
        return result

    @overload
    def read(
        self,
        question: str,
        *,
        spend: float | None = None,
        expect: float | None = None,
        request_id: str | None = None,
    ) -> Answer: ...

    @overload
    def read(
        self,
        question: Statistic[R],
        *,
        spend: float | None = None,
        expect: None = None,
        request_id: str | None = None,
    ) -> R: ...

    def read(
        self,
        question: str | Statistic[R],
        *,
        spend: float | None = None,
        expect: float | None = None,
        request_id: str | None = None,
    ) -> Answer | R:
        """As `Holdout.read`: the private rows' own value; it widens later intervals."""
        call = calls.read(self.name, question, spend=spend, expect=expect, request_id=request_id)
        result: Answer | R = self._server.send(call)
        return result

    @overload
    def try_out(self, question: str) -> Preview: ...

    @overload
    def try_out(self, question: Statistic[Any]) -> Trial: ...

    def try_out(self, question: str | Statistic[Any]) -> Preview | Trial:
        """As `Holdout.try_out`: the public side alone, for nothing."""
        preview: Preview | Trial = self._server.send(calls.try_out(self.name, question))
        return preview

    ask_many = _sync_method(calls.ask_many)
    read_many = _sync_method(calls.read_many)
    best_of = _sync_method(calls.best_of)
    is_better = _sync_method(calls.is_better)
    compare = _sync_method(calls.compare)
    certify = _sync_method(calls.certify)
    close = _sync_method(calls.close)
    try_both = _sync_method(calls.try_both)
    check = _sync_method(calls.check)
    share = shortcut(Share)
    mean = shortcut(Mean)
    difference = shortcut(Difference)
    ratio = shortcut(Ratio)
    median = shortcut(Median)
    quantile = shortcut(Quantile)
    variance = shortcut(Variance)
    correlation = shortcut(Correlation)
    histogram = shortcut(Histogram)
    table = shortcut(Table)

    def by(self, *columns: str, read: bool = False) -> By:
        """As `Holdout.by`: statistics by groups; a request for each group, or one for all that are read."""

        def answered(statistics: Sequence[Statistic[Any]]) -> list[Any]:
            return self.read_many(statistics) if read else [self.ask(statistic) for statistic in statistics]

        return By(answered, self.schema, columns)

    status = _sync_method(calls.status)
    audit = _sync_method(calls.audit)
    certificate = _sync_method(calls.certificate)

    @property
    def rehearsal(self) -> Rehearsal:
        """The same questions on the public side alone: nothing is spent."""
        return Rehearsal(
            lambda statistic: self._server.send(calls.rehearse(self.name, statistic)), self.try_out, lambda: self.schema
        )

    def log(
        self, *, contains: str | None = None, who: str | None = None, surprises: bool = False
    ) -> Iterator[LoggedQuestion | LoggedAct]:
        """What was asked and done, as people asked it, page by page."""
        after: int | None = 0
        while after is not None:
            call = calls.log_page(self.name, after=after, contains=contains, who=who, surprises=surprises)
            rounds, after = self._server.send(call)
            yield from rounds

    def download(self, path: str | Path) -> Path:
        """The study's file, for `Holdout.audit_file`: the server need not be believed. Needs an auditor's token."""
        path = Path(path)
        path.write_bytes(self._server.send(calls.file(self.name)))
        return path

    @property
    def schema(self) -> Schema:
        """The declared columns."""
        if self._schema is None:
            self._schema = Schema.from_toml(self._server.send(calls.study(self.name))["schema_toml"])
        return self._schema

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""
        return int(self.status()["rounds"])

    @property
    def surprises(self) -> int:
        """How many of them surprised."""
        return int(self.status()["surprises"])

    @property
    def price(self) -> float:
        """The price of the next ask's interval, in nats."""
        return float(self.status()["price"])

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


class RemoteContest:
    """A contest behind a server. The entrant is whom the token is for."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self.name = server, name
        self._rules: dict[str, Any] | None = None

    @property
    def rules(self) -> dict[str, Any]:
        """Title, metric, columns, limits, and what the rows are called (`ids`)."""
        if self._rules is None:
            self._rules = self._server.send(calls.contest(self.name))
        return self._rules

    def submit(self, predictions: Any) -> Submission:
        """Submit predictions: one for each of `rules['ids']` in that order, or a CSV file as `Path`, bytes or text."""
        if not isinstance(predictions, bytes | str | Path):
            predictions = predictions_to_csv(self.rules, list(predictions))
        try:
            return self._server.send(calls.submit(self.name, predictions))
        except NotScored as refusal:
            return Submission.from_dict(refusal.submission)

    def board(self) -> Board:
        """Where everybody stands: as `Contest.board`."""
        return self._server.send(calls.board(self.name))

    def preview(self, first: str | None = None, second: str | None = None) -> RankingPreview:
        """What `finish()`, or with two names `duel(first, second)`, would do and cost. For custodians."""
        return self._server.send(calls.preview_ranking(self.name, first, second))

    def duel(self, first: str, second: str, *, request_id: str | None = None) -> bool:
        """Whether the first entrant is certified better than the second: as `Contest.duel`. For custodians."""
        return self._server.send(calls.duel(self.name, first, second, request_id))

    def finish(self) -> Board:
        """End the contest, and return its final board: as `Contest.finish`. For custodians."""
        return self._server.send(calls.finish(self.name))

    def scorer(self, features: Any) -> RemoteScorer:
        """For scikit-learn's searches: `scorer(estimator, X, y)` submits the estimator's predictions for `features`.

        Args:
            features: the contest's public features, a row for each of `rules['ids']`.
        """
        return RemoteScorer(self, features)

    def __repr__(self) -> str:
        return f"RemoteContest({self.name!r} at {self._server.url})"


class RemoteGate:
    """A gate behind a server."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self.name = server, name

    def check(self, candidate: object, **options: Unpack[CheckOptions]) -> CheckResult:
        """Is the candidate better than the incumbent? As for `Gate.check`; of an artifact only its digest is sent."""
        outcomes = calls.outcomes_of(candidate, options)
        status = self.status() if outcomes.printed or options.get("require_all") else None
        return self._server.send(calls.check_candidate(self.name, outcomes, options, status))

    def gaps(self, candidate: object, *, scorer: str | None = None) -> OutcomeGaps:
        """What of a candidate's file counts as a failure: as `Gate.gaps`. Nothing of the file is sent."""
        return calls.gaps(candidate, scorer, self.status())

    def decide(self, *, request_id: str | None = None) -> CheckResult:
        """Check the candidates that wait, although their generation is not full."""
        return self._server.send(calls.decide(self.name, request_id))

    def finish(self) -> TotalGain:
        """The last act: the total gain. Needs a custodian's token."""
        return self._server.send(calls.finish_gate(self.name))

    def status(self) -> GateStatus:
        """Where it stands."""
        return self._server.send(calls.gate(self.name))

    def __repr__(self) -> str:
        return f"RemoteGate({self.name!r} at {self._server.url})"


class RemoteScorer:
    """Scores a fitted estimator by a contest's answers. It can be sent to other processes: it holds no private row."""

    def __init__(self, contest: RemoteContest, features: Any) -> None:
        self.contest, self._features = contest, features

    def __call__(self, estimator: Any, X: Any = None, y: Any = None, **_: Any) -> float:
        """The score's value, larger being better, for a search to rank by."""
        from everhold.learn.scorer import SearchStopped

        try:
            submission = self.contest.submit(estimator.predict(self._features))
        except EverholdError as refusal:
            raise SearchStopped(f"the search stops here: {refusal}") from refusal
        if submission.score is None:
            raise SearchStopped(f"the search stops here: {submission.state}: {submission.reason}")
        return submission.score.value if self.contest.rules["larger_is_better"] else -submission.score.value

    def __repr__(self) -> str:
        return f"RemoteScorer({self.contest!r})"
