"""What can be asked of a server, each as a value: where to send it, what to send, how to read what comes back.

Built once here, sent by the client that waits and by the one that does not.
"""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

from everhold.client.json_codec import found_in, preview_in, submission_in, told_in
from everhold.contest.contest import Submission
from everhold.errors import (
    AccessDenied,
    EverholdError,
    PrecisionExhausted,
    QuestionError,
    RequestConflict,
    ServerError,
    SettingError,
)
from everhold.ledger.audit import Audit
from everhold.ledger.reader import LoggedRound
from everhold.queries.answer import Answer, Preview
from everhold.statistics.finding import Comparison, Finding, Shares

__all__ = ["Call", "NotScored", "failed"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, which may be sent again: what asks carries a request id."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: dict[str, Any] | None = None
    content: bytes | None = None
    raw: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)


def _at(study: str, what: str = "", *, kind: str = "studies") -> str:
    if not isinstance(study, str) or study in ("", ".", ".."):
        raise ServerError(f"there is no study {study!r}. Expected the name of one.")
    return f"/v1/{kind}/{quote(study, safe='')}{what}"


def _text(question: object, what: str = "a question") -> str:
    if not isinstance(question, str):
        raise QuestionError(
            f'{what} sent to a server is text, such as "age > 40", not {type(question).__name__}: callables and arrays '
            "work in the process that holds the rows."
        )
    return question


def _identified(request_id: str | None) -> str:
    return secrets.token_hex(12) if request_id is None else request_id


# questions ------------------------------------------------------------------------------------------------------------


def ask(study: str, question: str, *, request_id: str | None = None) -> Call[Answer]:
    """As `Holdout.ask`, for a question given as text."""
    body = {"question": _text(question), "request_id": _identified(request_id)}
    return Call("POST", _at(study, "/ask"), lambda told: cast(Answer, found_in(told)), body)


def ask_many(study: str, questions: Iterable[str], *, request_id: str | None = None) -> Call[list[Answer]]:
    """As `Holdout.ask_many`."""
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise QuestionError("ask_many takes a list of questions; for a single one there is ask.")
    body = {"questions": [_text(one) for one in questions], "request_id": _identified(request_id)}
    if not body["questions"]:
        raise QuestionError("no question came. Expected a list of them.")
    return Call(
        "POST", _at(study, "/ask_many"), lambda told: [cast(Answer, found_in(one)) for one in told["answers"]], body
    )


def try_out(study: str, question: str) -> Call[Preview]:
    """As `Holdout.try_out`: the public side alone, for nothing."""
    return Call("POST", _at(study, "/try_out"), preview_in, {"question": _text(question)})


def check(study: str, question: str) -> Call[None]:
    """Raise what is wrong with a question, without asking it."""
    return Call("POST", _at(study, "/try_out"), lambda _: None, {"question": _text(question)})


def _derived(study: str, kind: str, request_id: str | None, rehearse: bool, given: dict[str, Any]) -> Call[Any]:
    body = {name: value for name, value in given.items() if value is not None}
    for name in ("question", "first", "second", "given"):
        if name in body:
            _text(body[name], name)
    body["request_id"] = _identified(request_id)
    if rehearse:
        body["rehearse"] = True
    return Call("POST", _at(study, f"/{kind}"), found_in, body)


def share(
    study: str, question: str, *, given: str | None = None, request_id: str | None = None, rehearse: bool = False
) -> Call[Answer | Finding]:
    """As `Holdout.share`."""
    return _derived(study, "share", request_id, rehearse, {"question": question, "given": given})


def mean(
    study: str, question: str, *, low: float | None = None, high: float | None = None, given: str | None = None,
    request_id: str | None = None, rehearse: bool = False,
) -> Call[Finding]:  # fmt: skip
    """As `Holdout.mean`."""
    asked = {"question": question, "low": low, "high": high, "given": given}
    return _derived(study, "mean", request_id, rehearse, asked)


def median(
    study: str, question: str, *, low: float | str | None = None, high: float | str | None = None, given: str | None = None,
    request_id: str | None = None, rehearse: bool = False,
) -> Call[Finding]:  # fmt: skip
    """As `Holdout.median`."""
    asked = {"question": question, "low": low, "high": high, "given": given}
    return _derived(study, "median", request_id, rehearse, asked)


def variance(
    study: str, question: str, *, low: float | None = None, high: float | None = None, given: str | None = None,
    request_id: str | None = None, rehearse: bool = False,
) -> Call[Finding]:  # fmt: skip
    """As `Holdout.variance`."""
    asked = {"question": question, "low": low, "high": high, "given": given}
    return _derived(study, "variance", request_id, rehearse, asked)


def quantile(
    study: str, question: str, level: float, *, low: float | str | None = None, high: float | str | None = None,
    given: str | None = None, request_id: str | None = None, rehearse: bool = False,
) -> Call[Finding]:  # fmt: skip
    """As `Holdout.quantile`."""
    asked = {"question": question, "level": level, "low": low, "high": high, "given": given}
    return _derived(study, "quantile", request_id, rehearse, asked)


def difference(
    study: str, question: str, first: str, second: str, *, low: float | None = None, high: float | None = None,
    request_id: str | None = None, rehearse: bool = False,
) -> Call[Comparison]:  # fmt: skip
    """As `Holdout.difference`."""
    asked = {"question": question, "first": first, "second": second, "low": low, "high": high}
    return _derived(study, "difference", request_id, rehearse, asked)


def compare(
    study: str, first: str, second: str, *, low: float | None = None, high: float | None = None,
    given: str | None = None, request_id: str | None = None, rehearse: bool = False,
) -> Call[Comparison]:  # fmt: skip
    """As `Holdout.compare`."""
    asked = {"first": first, "second": second, "low": low, "high": high, "given": given}
    return _derived(study, "compare", request_id, rehearse, asked)


def correlation(
    study: str, first: str, second: str, *, first_range: Sequence[float] | None = None,
    second_range: Sequence[float] | None = None, given: str | None = None, request_id: str | None = None,
    rehearse: bool = False,
) -> Call[Finding]:  # fmt: skip
    """As `Holdout.correlation`."""
    ranges = {"first_range": first_range, "second_range": second_range}
    asked = {name: None if ends is None else list(ends) for name, ends in ranges.items()}
    asked_of = {"first": first, "second": second, "given": given, **asked}
    return _derived(study, "correlation", request_id, rehearse, asked_of)


def histogram(
    study: str, question: str, *, bins: int = 10, edges: Sequence[float] | None = None, given: str | None = None,
    request_id: str | None = None, rehearse: bool = False,
) -> Call[Shares]:  # fmt: skip
    """As `Holdout.histogram`."""
    asked = {"question": question, "bins": bins, "edges": None if edges is None else list(edges), "given": given}
    return _derived(study, "histogram", request_id, rehearse, asked)


def table(
    study: str, first: str, second: str | None = None, *, bins: int = 5, given: str | None = None,
    request_id: str | None = None, rehearse: bool = False,
) -> Call[Shares]:  # fmt: skip
    """As `Holdout.table`."""
    asked = {"first": first, "second": second, "bins": bins, "given": given}
    return _derived(study, "table", request_id, rehearse, asked)


# reading --------------------------------------------------------------------------------------------------------------


def studies() -> Call[list[dict[str, Any]]]:
    """All studies that the token may see."""
    return Call("GET", "/v1/studies", lambda told: list(told["studies"]))


def study(study: str) -> Call[dict[str, Any]]:
    """A study, where it stands, its columns."""
    return Call("GET", _at(study), dict)


def status(study: str) -> Call[dict[str, Any]]:
    """Where a study stands."""
    return Call("GET", _at(study, "/status"), _standing)


def _standing(told: dict[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in ("questions", "surprises", "spent", "rows", "head")} | told


def log_page(
    study: str, *, after: int = 0, limit: int = 500, contains: str | None = None, who: str | None = None,
    surprises: bool = False,
) -> Call[tuple[list[LoggedRound], int | None]]:  # fmt: skip
    """A page of the record, and where the next one begins."""
    given = {"after": after, "limit": limit, "contains": contains, "who": who, "surprises": surprises or None}
    parameters = {name: value for name, value in given.items() if value is not None}
    return Call(
        "GET", _at(study, "/log"), lambda told: ([told_in(one) for one in told["rounds"]], told["next"]),
        parameters=parameters,
    )  # fmt: skip


def audit(study: str) -> Call[Audit]:
    """Have the server replay the record. To check the server as well, download the file and audit that."""
    return Call(
        "GET", _at(study, "/audit"),
        lambda told: Audit(told["rounds"], told["surprises"], 0, None if told["ok"] else str(told["found"])),
    )  # fmt: skip


def certificate(study: str) -> Call[dict[str, Any]]:
    """The certificate with every round."""
    return Call("GET", _at(study, "/certificate"), dict)


def file(study: str) -> Call[bytes]:
    """The study's file, as bytes: it holds no private row, and `Holdout.audit_file` checks it."""
    return Call("GET", _at(study, "/file"), bytes, raw=True)


# contests -------------------------------------------------------------------------------------------------------------


def contest(name: str) -> Call[dict[str, Any]]:
    """The rules of a contest, and what its rows are called."""
    return Call("GET", _at(name, kind="contests"), dict)


def board(name: str) -> Call[dict[str, Any]]:
    """Where everybody stands."""
    return Call("GET", _at(name, "/board", kind="contests"), dict)


def submit(name: str, predictions: bytes | str | Path) -> Call[Submission]:
    """Submit a CSV file: a `Path`, its bytes or its text. Sent again, the same predictions get the same score."""
    content = predictions.read_bytes() if isinstance(predictions, Path) else predictions
    content = content.encode() if isinstance(content, str) else content
    return Call("POST", _at(name, "/submissions", kind="contests"), submission_in, content=content)


def as_csv(rules: dict[str, Any], predictions: Sequence[Any]) -> str:
    """Predictions in the order of a contest's rows, as its CSV."""
    if len(predictions) != len(rules["ids"]):
        raise QuestionError(f"there are {len(rules['ids']):,} rows, and {len(predictions):,} predictions came.")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((rules["id_column"], rules["prediction_column"]))
    writer.writerows(zip(rules["ids"], (getattr(one, "item", lambda o=one: o)() for one in predictions), strict=True))
    return out.getvalue()


# what went wrong ------------------------------------------------------------------------------------------------------


def failed(status: int, told: Any) -> EverholdError:
    """The error that a server tells, as the library would raise it."""
    fault = told.get("error") if isinstance(told, dict) else None
    if not isinstance(fault, dict) or not isinstance(fault.get("code"), str):
        return ServerError(f"the server answered with status {status}, and not as an everhold server does.")
    code, message, details = fault["code"], str(fault.get("message")), fault.get("details")
    details = details if isinstance(details, dict) else {}
    if "entrant" in details:
        return NotScored(message, details)
    if code in ("unknown_token", "not_allowed"):
        return AccessDenied(message)
    if code == "precision_exhausted" and {"asked", "left", "needed", "more_rows", "answers"} <= details.keys():
        refusal = PrecisionExhausted(
            message, **{name: details[name] for name in ("asked", "left", "needed", "more_rows")}
        )
        refusal.answers = [found_in(one) for one in details["answers"]]
        return refusal
    kinds: dict[str, type[EverholdError]] = {
        "question": QuestionError,
        "malformed": QuestionError,
        "setting": SettingError,
        "request_conflict": RequestConflict,
    }
    return kinds.get(code, ServerError)(message)


class NotScored(ServerError):
    """A submission that was not scored."""

    def __init__(self, message: str, submission: dict[str, Any]) -> None:
        super().__init__(message)
        self.submission = submission
