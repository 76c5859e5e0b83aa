"""Every error in one shape: `{"error": {"code", "message", "request_id", "details"}}`, with a status that says whose it is.

Messages of everhold's own errors carry public values only; an unforeseen error shows its request id alone.
"""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from everhold.errors import (
    DataError,
    EverholdError,
    GateUsedUp,
    HoldoutClosed,
    InvalidOutcomes,
    LedgerError,
    PrecisionExhausted,
    PrivacyUsedUp,
    QuestionError,
    RequestConflict,
    SettingError,
)
from everhold.queries.answer import Answer
from everhold.server.job_queue import Busy

__all__ = ["HTTPRefusal", "error_response", "fault", "refusal_of"]


class HTTPRefusal(EverholdError):
    """The server declines: who asks, how often, how much, or what is not there."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: dict[str, str] | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code = status, code
        self.headers = headers or {}
        self.details = details or {}


_OWN_ID = re.compile(r"'[0-9a-f]{8}:[a-z_]+:")
_CODES = {
    408: "too_slow",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "not_json",
    400: "malformed",
}
_CLOSED = (
    "this study is closed: its last act was made, and its private rows are not read again. Its log, certificate and audit "
    "stay, and a question that was answered before still returns that answer. Nothing was charged."
)
_SAID = {
    404: "there is nothing at this address. GET /v1/studies lists the studies; /docs describes every address.",
    405: "this address does not take that method. /docs describes every address.",
    400: "the request cannot be read. Expected a JSON object, as /docs describes it.",
}


def fault(
    request_id: str,
    status: int,
    code: str,
    message: str,
    *,
    details: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """The one shape of every error."""
    body = {"error": {"code": code, "message": message, "request_id": request_id, "details": details or {}}}
    return _Ascii(body, status_code=status, headers=headers)


class _Ascii(JSONResponse):
    """Text that people send comes back in messages: escaped, so that lone surrogates can be sent as well."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode("ascii")


def error_response(request: Request, error: Exception) -> JSONResponse:
    """An exception as a response."""
    request_id = getattr(request.state, "request_id", "")
    refusal = refusal_of(error)
    details, headers = refusal.details, refusal.headers
    return fault(request_id, refusal.status, refusal.code, str(refusal), details=details, headers=headers)


def refusal_of(error: Exception) -> HTTPRefusal:
    """Any error as what the server says of it."""
    if isinstance(error, HTTPRefusal):
        return error
    if isinstance(error, RequestValidationError):
        return _malformed(error)
    if isinstance(error, HTTPException):
        status = error.status_code
        code, message = _CODES.get(status, "refused"), _SAID.get(status, str(error.detail))
        return HTTPRefusal(status, code, message, headers=dict(error.headers or {}))
    if isinstance(error, PrecisionExhausted):
        details = {
            "asked": error.asked,
            "left": error.left,
            "needed": error.needed,
            "more_rows": error.more_rows,
            "answers": [answer.to_dict() for answer in error.answers if isinstance(answer, Answer)],
        }
        code = "privacy_used_up" if isinstance(error, PrivacyUsedUp) else "precision_exhausted"
        return HTTPRefusal(409, code, str(error), details=details)
    if isinstance(error, RequestConflict):
        message = _OWN_ID.sub("'", str(error))  # as the caller wrote it
        return HTTPRefusal(409, "request_conflict", message)
    if isinstance(error, GateUsedUp):
        return HTTPRefusal(409, "used_up", str(error))
    if isinstance(error, HoldoutClosed):
        return HTTPRefusal(409, "closed", _CLOSED)
    if isinstance(error, InvalidOutcomes):
        return HTTPRefusal(422, "outcomes", str(error))
    if isinstance(error, QuestionError | SettingError):
        return HTTPRefusal(422, "question" if isinstance(error, QuestionError) else "setting", str(error))
    if isinstance(error, Busy):
        return HTTPRefusal(429, "too_many", str(error), headers={"Retry-After": "1"})
    if isinstance(error, LedgerError):
        message = "This study is temporarily unavailable. Recorded answers are safe. Contact the custodian or retry later."
        return HTTPRefusal(503, "unavailable", message, headers={"Retry-After": "5"})
    if isinstance(error, DataError):  # whatever it is, so that no failure says more than another
        message = (
            "The private rows cannot be read now. No unrecorded answer was returned. Contact the custodian or retry later."
        )
        return HTTPRefusal(503, "unavailable", message, headers={"Retry-After": "5"})
    return HTTPRefusal(500, "unforeseen", "Internal error. No unrecorded answer was returned.")


def _malformed(error: RequestValidationError) -> HTTPRefusal:
    """What is wrong with a body or a parameter, and where; never the input itself."""
    faults = []
    for problem in error.errors()[:10]:
        if problem["type"] == "model_attributes_type" and problem["loc"] == ("body",):
            message = "the body is not a JSON object. Send one, with the header 'Content-Type: application/json'."
            return HTTPRefusal(422, "malformed", message, details={"faults": [{"where": "body", "what": "not an object"}]})
        if problem["type"] == "json_invalid":
            return HTTPRefusal(400, "malformed", "the body is not JSON. Expected an object, as /docs describes it.")
        where = ".".join(str(part) for part in problem["loc"] if part != "body")
        faults.append({"where": where or "body", "what": str(problem["msg"])})
    message = "; ".join(f"{problem['where']}: {problem['what']}" for problem in faults[:3])
    return HTTPRefusal(422, "malformed", f"{message}. /docs describes what is expected.", details={"faults": faults})
