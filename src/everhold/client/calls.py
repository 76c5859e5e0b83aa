"""What can be asked of a server, each as a value: where to send it, what to send, how to read what comes back.

Built once here, sent by the client that waits and by the one that does not.
"""

from __future__ import annotations

import csv
import hashlib
import io
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar
from urllib.parse import quote

from everhold import acts
from everhold.acts import AnyAct, as_body, as_sent, result_from
from everhold.contest.board import Board, Submission
from everhold.contest.ranking_preview import RankingPreview
from everhold.errors import (
    AccessDenied,
    EverholdError,
    GateUsedUp,
    HoldoutClosed,
    InvalidOutcomes,
    PrecisionExhausted,
    PrivacyUsedUp,
    QuestionError,
    RequestConflict,
    ServerError,
    SettingError,
)
from everhold.gate.outcome_files import read_outcomes
from everhold.gate.outcomes import OutcomeGaps, Outcomes, least_check_bytes
from everhold.gate.results import CheckResult, GateStatus, TotalGain
from everhold.ledger.audit import Audit
from everhold.ledger.reader import LoggedAct, LoggedQuestion, logged_from_dict
from everhold.queries.answer import Answer, Preview
from everhold.queries.disclosed import Choice, Decision, Verdict
from everhold.statistics import is_statistic, require_no_expect
from everhold.statistics.finding import result_from_dict
from everhold.statistics.statistic import Statistic
from everhold.trial import Trial

__all__ = ["ApiCall", "NotScored", "failed"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[T]):
    """One request, which may be sent again: what asks carries a request id."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: dict[str, Any] | None = None
    content: bytes | None = None
    raw: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)


def _at(study: str, path: str = "", *, kind: str = "studies") -> str:
    if not isinstance(study, str) or study in ("", ".", ".."):
        raise ServerError(f"there is no study {study!r}. Expected the name of one.")
    return f"/v1/{kind}/{quote(study, safe='')}{path}"


def _text(question: object) -> str:
    if is_statistic(question):
        raise QuestionError('a statistic is asked by itself: study.ask(eh.Mean("age")). Here only single questions fit.')
    return str(as_sent(question))


def _identified(request_id: str | None) -> str:
    return secrets.token_hex(12) if request_id is None else request_id


# questions ------------------------------------------------------------------------------------------------------------


def ask(
    study: str, question: str | Statistic[Any], *, expect: float | None = None, request_id: str | None = None
) -> ApiCall[Any]:
    """As `Holdout.ask`, for a question given as text, or a statistic."""
    require_no_expect(question, expect)
    body: dict[str, Any] = {"question": as_sent(question), "request_id": _identified(request_id)}
    if expect is not None:
        body["expect"] = expect
    return ApiCall("POST", _at(study, "/ask"), result_from_dict, body)


def ask_many(study: str, questions: Iterable[str], *, request_id: str | None = None) -> ApiCall[list[Answer]]:
    """As `Holdout.ask_many`."""
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise QuestionError("ask_many takes a list of questions; for a single one there is ask.")
    body = {"questions": [_text(question) for question in questions], "request_id": _identified(request_id)}
    if not body["questions"]:
        raise QuestionError("there is no question. Expected a list of them.")
    return ApiCall(
        "POST", _at(study, "/ask_many"), lambda given: [Answer.from_dict(answer) for answer in given["answers"]], body
    )


def try_out(study: str, question: str | Statistic[Any]) -> ApiCall[Any]:
    """As `Holdout.try_out`: the public side alone, for nothing."""
    if is_statistic(question):
        return try_both(study, question)
    return ApiCall("POST", _at(study, "/try_out"), Preview.from_dict, {"question": as_sent(question)})


def rehearse(study: str, statistic: Statistic[Any]) -> ApiCall[Any]:
    """As `Holdout.rehearsal`: a statistic's result if no part of it were a surprise."""
    return ApiCall("POST", _at(study, "/try_out"), result_from_dict, {"question": as_sent(statistic)})


def try_both(study: str, question: str | Statistic[Any]) -> ApiCall[Trial]:
    """What asking and what reading would show, and what each costs: the public side alone, for nothing."""
    return ApiCall("POST", _at(study, "/try_out"), Trial.from_dict, {"question": as_sent(question), "both": True})


def check(study: str, question: str | Statistic[Any]) -> ApiCall[None]:
    """As `Holdout.check`: raise what is wrong with a question or statistic, without asking it."""
    return ApiCall("POST", _at(study, "/try_out"), lambda _: None, {"question": as_sent(question)})


# acts -----------------------------------------------------------------------------------------------------------------

Question = str | Statistic[Any]
"""A question as text, or a statistic."""


def act(study: str, wanted: AnyAct, request_id: str | None) -> ApiCall[Any]:
    """An act."""
    body = {**as_body(wanted), "request_id": _identified(request_id)}
    return ApiCall("POST", _at(study, f"/{wanted.name}"), result_from, body)


def read(
    study: str,
    question: Question,
    *,
    spend: float | None = None,
    expect: float | None = None,
    request_id: str | None = None,
) -> ApiCall[Any]:
    """As `Holdout.read`, for a question given as text, or a statistic."""
    return act(study, acts.Read(question, spend=spend, expect=expect), request_id)


def read_many(
    study: str, questions: Iterable[Question], *, spend: float | None = None, request_id: str | None = None
) -> ApiCall[list[Any]]:
    """As `Holdout.read_many`."""
    return act(study, acts.ReadMany(_listed(questions), spend=spend), request_id)


def best_of(
    study: str, questions: Iterable[Question], *, weights: Sequence[float] | None = None, request_id: str | None = None
) -> ApiCall[Choice]:
    """As `Holdout.best_of`."""
    return act(study, acts.BestOf(_listed(questions), weights=weights), request_id)


def is_better(
    study: str, first: Question, second: Question, *, by: float = 0.0, request_id: str | None = None
) -> ApiCall[Decision]:
    """As `Holdout.is_better`."""
    return act(study, acts.IsBetter(first, second, by=by), request_id)


def compare(
    study: str,
    first: Question,
    second: Question,
    *,
    low: float | None = None,
    high: float | None = None,
    given: str | None = None,
    spend: float | None = None,
    request_id: str | None = None,
) -> ApiCall[Verdict]:
    """As `Holdout.compare`: a certified verdict."""
    comparison = acts.CompareTwo(first, second, low=low, high=high, given=given, spend=spend)
    return act(study, comparison, request_id)


def certify(
    study: str, answer: Answer | int, *, spend: float | None = None, request_id: str | None = None
) -> ApiCall[Answer]:
    """As `Holdout.certify`."""
    number = answer if isinstance(answer, int) else answer.round
    return act(study, acts.Certify(number, spend=spend), request_id)


def close(study: str, questions: Iterable[Question], *, request_id: str | None = None) -> ApiCall[list[Any]]:
    """As `Holdout.close`: the last act. Needs a custodian's token."""
    return act(study, acts.Close(_listed(questions, least=0)), request_id)


def _listed(questions: Iterable[Question], *, least: int = 1) -> list[Question]:
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise QuestionError("this act takes a list of questions or statistics.")
    if len(listed := list(questions)) < least:
        raise QuestionError("there is no question. Expected a list of them.")
    return listed


# reading --------------------------------------------------------------------------------------------------------------


def studies() -> ApiCall[list[dict[str, Any]]]:
    """All studies that the token may see."""
    return ApiCall("GET", "/v1/studies", lambda given: list(given["studies"]))


def study(study: str) -> ApiCall[dict[str, Any]]:
    """A study, where it stands, its columns."""
    return ApiCall("GET", _at(study), dict)


def status(study: str) -> ApiCall[dict[str, Any]]:
    """Where a study stands."""
    return ApiCall("GET", _at(study, "/status"), _status_dict)


def _status_dict(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("rounds", "surprises", "price", "rows", "head")} | given


def log_page(
    study: str,
    *,
    after: int = 0,
    limit: int = 500,
    contains: str | None = None,
    who: str | None = None,
    surprises: bool = False,
) -> ApiCall[tuple[list[LoggedQuestion | LoggedAct], int | None]]:
    """A page of the record, and where the next one begins."""
    given = {"after": after, "limit": limit, "contains": contains, "who": who, "surprises": surprises or None}
    parameters = {name: value for name, value in given.items() if value is not None}

    def read(page: dict[str, Any]) -> tuple[list[LoggedQuestion | LoggedAct], int | None]:
        return [logged_from_dict(entry) for entry in page["questions"]], page["next"]

    return ApiCall("GET", _at(study, "/log"), read, parameters=parameters)


def audit(study: str) -> ApiCall[Audit]:
    """Have the server replay the record. To check the server as well, download the file and audit that."""
    return ApiCall(
        "GET",
        _at(study, "/audit"),
        lambda given: Audit(given["rounds"], given["surprises"], 0, None if given["ok"] else str(given["found"])),
    )


def certificate(study: str) -> ApiCall[dict[str, Any]]:
    """The certificate with every round."""
    return ApiCall("GET", _at(study, "/certificate"), dict)


def file(study: str) -> ApiCall[bytes]:
    """The study's file, as bytes: it holds no private row, and `Holdout.audit_file` checks it."""
    return ApiCall("GET", _at(study, "/file"), bytes, raw=True)


class CheckOptions(TypedDict, total=False):
    """How a candidate is checked: as for `Gate.check`."""

    name: str | None
    artifact: bytes | str | Path | None
    request_id: str | None
    scorer: str | None
    require_all: bool


# contests -------------------------------------------------------------------------------------------------------------


def contest(name: str) -> ApiCall[dict[str, Any]]:
    """The rules of a contest, and what its rows are called."""
    return ApiCall("GET", _at(name, kind="contests"), dict)


def board(name: str) -> ApiCall[Board]:
    """Where everybody stands."""
    return ApiCall("GET", _at(name, "/board", kind="contests"), Board.from_dict)


def submit(name: str, predictions: bytes | str | Path) -> ApiCall[Submission]:
    """Submit a CSV file: a `Path`, its bytes or its text. Sent again, the same predictions get the same score."""
    content = predictions.read_bytes() if isinstance(predictions, Path) else predictions
    content = content.encode() if isinstance(content, str) else content
    return ApiCall("POST", _at(name, "/submissions", kind="contests"), Submission.from_dict, content=content)


def duel(name: str, first: str, second: str, request_id: str | None) -> ApiCall[bool]:
    """Whether the first entrant is certified better than the second. Sent again under its id, it is not made again."""
    body = {"first": first, "second": second, "request_id": _identified(request_id)}
    return ApiCall("POST", _at(name, "/duel", kind="contests"), lambda given: bool(given["better"]), body)


def finish(name: str) -> ApiCall[Board]:
    """End a contest: the final board."""
    return ApiCall("POST", _at(name, "/finish", kind="contests"), Board.from_dict)


def preview_ranking(name: str, first: str | None, second: str | None) -> ApiCall[RankingPreview]:
    """What a duel, or without names the last ranking, would do and cost."""
    path = "/finish" if first is None and second is None else "/duel"
    parameters = {} if path == "/finish" else {"first": first or "", "second": second or ""}
    return ApiCall("GET", _at(name, path, kind="contests"), RankingPreview.from_dict, parameters=parameters)


def predictions_to_csv(rules: dict[str, Any], predictions: Sequence[Any]) -> str:
    """Predictions in the order of a contest's rows, as its CSV."""
    if len(predictions) != len(rules["ids"]):
        raise QuestionError(
            f"there are {len(rules['ids']):,} rows and {len(predictions):,} predictions. Expected one for each row."
        )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((rules["id_column"], rules["prediction_column"]))
    writer.writerows(
        zip(rules["ids"], (getattr(prediction, "item", lambda o=prediction: o)() for prediction in predictions), strict=True)
    )
    return out.getvalue()


# what went wrong ------------------------------------------------------------------------------------------------------


def failed(status: int, given: Any) -> EverholdError:
    """The error that a server returned, as the library would raise it."""
    fault = given.get("error") if isinstance(given, dict) else None
    if not isinstance(fault, dict) or not isinstance(fault.get("code"), str):
        return ServerError(f"the server answered with status {status}, and not as an everhold server does.")
    code, message, details = fault["code"], str(fault.get("message")), fault.get("details")
    details = details if isinstance(details, dict) else {}
    if "entrant" in details:
        return NotScored(message, details)
    if code in ("unknown_token", "not_allowed"):
        return AccessDenied(message)
    if (
        code in ("precision_exhausted", "privacy_used_up")
        and {"asked", "left", "needed", "more_rows", "answers"} <= details.keys()
    ):
        kind = PrivacyUsedUp if code == "privacy_used_up" else PrecisionExhausted
        refusal = kind(message, **{name: details[name] for name in ("asked", "left", "needed", "more_rows")})
        refusal.answers = [Answer.from_dict(answer) for answer in details["answers"]]
        return refusal
    kinds: dict[str, type[EverholdError]] = {
        "question": QuestionError,
        "malformed": QuestionError,
        "setting": SettingError,
        "request_conflict": RequestConflict,
        "closed": HoldoutClosed,
        "used_up": GateUsedUp,
        "outcomes": InvalidOutcomes,
    }
    return kinds.get(code, ServerError)(message)


class NotScored(ServerError):
    """A submission that was not scored."""

    def __init__(self, message: str, submission: dict[str, Any]) -> None:
        super().__init__(message)
        self.submission = submission


# gates ----------------------------------------------------------------------------------------------------------------


def gate(name: str) -> ApiCall[GateStatus]:
    """Where a gate stands."""
    return ApiCall("GET", _at(name, kind="gates"), GateStatus.from_dict)


_OTHER_BYTES = 20_000  # of a check beside its outcomes


def outcomes_of(candidate: object, options: CheckOptions) -> Outcomes:
    """A candidate's outcomes: `{case: score}` or a file."""
    return read_outcomes(candidate, scorer=options.get("scorer"), strict=False)


def check_candidate(name: str, outcomes: Outcomes, options: CheckOptions, status: GateStatus | None) -> ApiCall[CheckResult]:
    """Check a candidate's outcomes. Sent again under its id, it gets the recorded verdict.

    Args:
        name: of the gate.
        outcomes: the candidate's.
        options: how it is checked.
        status: where the gate stands, needed if all outcomes are required, or if they were printed: then so much of them is
            sent as every server takes.
    """
    if status is not None and options.get("require_all"):
        gaps(outcomes, None, status).require_none()
    if outcomes.printed:
        cases = 0 if status is None else status.cases + status.visible
        outcomes = outcomes.fitting(least_check_bytes(cases) - _OTHER_BYTES)
    artifact = options.get("artifact")
    content = artifact if isinstance(artifact, bytes) or artifact is None else Path(artifact).read_bytes()
    body = {
        "outcomes": {case: list(runs) if len(runs) > 1 else runs[0] for case, runs in outcomes.runs.items()},
        "printed": outcomes.printed,
        "name": options.get("name"),
        "artifact": None if content is None else hashlib.sha256(content).hexdigest(),
        "request_id": _identified(options.get("request_id")),
    }

    def read(given: dict[str, Any]) -> CheckResult:
        verdict = CheckResult.from_dict(given)
        if options.get("request_id") is None:  # an id of this call alone: sent again, it was about these outcomes
            return replace(verdict, repeated=False)
        return verdict

    return ApiCall("POST", _at(name, "/checks", kind="gates"), read, body)


def gaps(candidate: object, scorer: str | None, status: GateStatus) -> OutcomeGaps:
    """What of a file counts as a failure, by the file and the number of cases. It is not sent."""
    found = read_outcomes(candidate, scorer=scorer, strict=False)
    return found.gaps(status.cases + status.visible, pass_fail=status.outcomes == "pass")


def decide(name: str, request_id: str | None) -> ApiCall[CheckResult]:
    """Check the candidates that wait."""
    return ApiCall(
        "POST", _at(name, "/decide", kind="gates"), CheckResult.from_dict, {"request_id": _identified(request_id)}
    )


def finish_gate(name: str) -> ApiCall[TotalGain]:
    """The last act of a gate."""
    return ApiCall("POST", _at(name, "/finish", kind="gates"), TotalGain.from_dict, {})
