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

from everhold.contest.board import Submission
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
from everhold.ledger.reader import LoggedQuestion
from everhold.queries.answer import Answer, Preview
from everhold.statistics import is_statistic
from everhold.statistics.finding import result_from_dict
from everhold.statistics.parameters import arguments, parameters
from everhold.statistics.statistic import Statistic

__all__ = ["Call", "NotScored", "failed"]

T = TypeVar("T")
R = TypeVar("R")


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
    if is_statistic(question):
        raise QuestionError(
            'a statistic is asked by itself: study.ask(eh.Mean("age")). Here only single questions fit.'
        )
    if not isinstance(question, str):
        raise QuestionError(
            f'{what} sent to a server is text, such as "age > 40", not {type(question).__name__}: callables and arrays '
            "work in the process that holds the rows."
        )
    return question


def _identified(request_id: str | None) -> str:
    return secrets.token_hex(12) if request_id is None else request_id


# questions ------------------------------------------------------------------------------------------------------------


def ask(study: str, question: str | Statistic[Any], *, request_id: str | None = None) -> Call[Any]:
    """As `Holdout.ask`, for a question given as text, or a statistic."""
    if is_statistic(question):
        return find(study, cast("Statistic[Any]", question), request_id=request_id)
    body = {"question": _text(question), "request_id": _identified(request_id)}
    return Call("POST", _at(study, "/ask"), Answer.from_dict, body)


def ask_many(study: str, questions: Iterable[str], *, request_id: str | None = None) -> Call[list[Answer]]:
    """As `Holdout.ask_many`."""
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise QuestionError("ask_many takes a list of questions; for a single one there is ask.")
    body = {"questions": [_text(one) for one in questions], "request_id": _identified(request_id)}
    if not body["questions"]:
        raise QuestionError("there is no question. Expected a list of them.")
    return Call(
        "POST", _at(study, "/ask_many"), lambda given: [Answer.from_dict(one) for one in given["answers"]], body
    )


def try_out(study: str, question: str | Statistic[Any]) -> Call[Any]:
    """As `Holdout.try_out`: the public side alone, for nothing."""
    if is_statistic(question):
        return find(study, cast("Statistic[Any]", question), rehearse=True)
    return Call("POST", _at(study, "/try_out"), Preview.from_dict, {"question": _text(question)})


def check(study: str, question: str) -> Call[None]:
    """Raise what is wrong with a question, without asking it."""
    return Call("POST", _at(study, "/try_out"), lambda _: None, {"question": _text(question)})


def find(study: str, statistic: Statistic[R], *, request_id: str | None = None, rehearse: bool = False) -> Call[R]:
    """As `Holdout.ask` for a statistic; to rehearse it, on the public side alone."""
    body = {**arguments(statistic), "request_id": _identified(request_id)}
    for one in parameters(type(statistic)):
        if one.role.form == "expression" and one.name in body:
            _text(body[one.name], one.name)
    if rehearse:
        body["rehearse"] = True
    return Call("POST", _at(study, f"/{statistic.name}"), lambda given: cast(R, result_from_dict(given)), body)


# reading --------------------------------------------------------------------------------------------------------------


def studies() -> Call[list[dict[str, Any]]]:
    """All studies that the token may see."""
    return Call("GET", "/v1/studies", lambda given: list(given["studies"]))


def study(study: str) -> Call[dict[str, Any]]:
    """A study, where it stands, its columns."""
    return Call("GET", _at(study), dict)


def status(study: str) -> Call[dict[str, Any]]:
    """Where a study stands."""
    return Call("GET", _at(study, "/status"), _standing)


def _standing(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("questions", "surprises", "spent", "rows", "head")} | given


def log_page(
    study: str,
    *,
    after: int = 0,
    limit: int = 500,
    contains: str | None = None,
    who: str | None = None,
    surprises: bool = False,
) -> Call[tuple[list[LoggedQuestion], int | None]]:
    """A page of the record, and where the next one begins."""
    given = {"after": after, "limit": limit, "contains": contains, "who": who, "surprises": surprises or None}
    parameters = {name: value for name, value in given.items() if value is not None}

    def read(page: dict[str, Any]) -> tuple[list[LoggedQuestion], int | None]:
        return [LoggedQuestion.from_dict(one) for one in page["questions"]], page["next"]

    return Call("GET", _at(study, "/log"), read, parameters=parameters)


def audit(study: str) -> Call[Audit]:
    """Have the server replay the record. To check the server as well, download the file and audit that."""
    return Call(
        "GET",
        _at(study, "/audit"),
        lambda given: Audit(given["rounds"], given["surprises"], 0, None if given["ok"] else str(given["found"])),
    )


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
    return Call("POST", _at(name, "/submissions", kind="contests"), Submission.from_dict, content=content)


def as_csv(rules: dict[str, Any], predictions: Sequence[Any]) -> str:
    """Predictions in the order of a contest's rows, as its CSV."""
    if len(predictions) != len(rules["ids"]):
        raise QuestionError(
            f"there are {len(rules['ids']):,} rows and {len(predictions):,} predictions. Expected one for each row."
        )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((rules["id_column"], rules["prediction_column"]))
    writer.writerows(zip(rules["ids"], (getattr(one, "item", lambda o=one: o)() for one in predictions), strict=True))
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
    if code == "precision_exhausted" and {"asked", "left", "needed", "more_rows", "answers"} <= details.keys():
        refusal = PrecisionExhausted(
            message, **{name: details[name] for name in ("asked", "left", "needed", "more_rows")}
        )
        refusal.answers = [Answer.from_dict(one) for one in details["answers"]]
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
