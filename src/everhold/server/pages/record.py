"""The history of a study and its certificate."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from everhold.ledger.audit import Audit
from everhold.ledger.reader import StudyFile
from everhold.report.certificate import certificate_html, certificate_json, cite
from everhold.server.act_forms import round_links
from everhold.server.dependencies import PageContext, PageContextOf, RecordedOf
from everhold.server.log import LogFilter, log_to_csv
from everhold.server.pages.rendering import render
from everhold.server.state import Served
from everhold.server.study_writer import StudyWriter

__all__ = ["router"]

router = APIRouter()

_PAGE = 50


def _filter(request: Request) -> LogFilter:
    given = request.query_params
    return LogFilter(given.get("contains") or None, given.get("who") or None, given.get("surprises") == "true")


def _download(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename={name}"}


@router.get("/studies/{name}/history")
def history(served: RecordedOf, context: PageContextOf, page: int = 1) -> Response:
    """What was asked, the latest first, with parts underneath."""
    asked, wanted, token = served.file().log, _filter(context.request), context.token
    questions = wanted.all(asked)
    questions.reverse()
    pages = max(1, -(-len(questions) // _PAGE))
    page = min(max(page, 1), pages)
    given = {"contains": wanted.contains or "", "who": wanted.who or ""}
    given |= {"surprises": "true"} if wanted.surprises else {}
    return render(
        "history.html",
        session=context.signin,
        here="studies",
        status=(status := context.server.status(served, token)),
        round_acts=() if status["closed"] or not isinstance(served, StudyWriter) else round_links(token, served.name),
        wanted=wanted,
        questions=questions[(page - 1) * _PAGE : page * _PAGE],
        count=len(questions),
        total=len(asked),
        page=page,
        pages=pages,
        people=sorted({question.who for question in asked if question.who}),
        query=urlencode(given, errors="replace"),
    )


@router.get("/studies/{name}/history.csv")
def history_csv(served: RecordedOf, request: Request) -> Response:
    """The same as CSV."""
    questions = _filter(request).all(served.file().log)
    return PlainTextResponse(log_to_csv(questions), media_type="text/csv", headers=_download("history.csv"))


@router.get("/studies/{name}/history.json")
def history_json(served: RecordedOf, request: Request) -> Response:
    """The same as JSON."""
    questions = _filter(request).all(served.file().log)
    return JSONResponse([question.to_dict() for question in questions], headers=_download("history.json"))


@router.get("/studies/{name}/certificate")
def certificate(served: RecordedOf, context: PageContextOf) -> Response:
    """The certificate's page, which has the study audited."""
    status = context.server.status(served, context.token)
    return render("certificate.html", session=context.signin, here="studies", status=status)


async def _replayed(context: PageContext, served: Served, make: Callable[[StudyFile, Audit], Response]) -> Response:
    server, whose = context.server, context.token.id
    server.rate.require(whose, 10.0)
    return await server.slots.run(whose, lambda: make(*server.audited(served)))


@router.get("/studies/{name}/certificate/audited")
async def audited(served: RecordedOf, context: PageContextOf) -> Response:
    """The result of the audit, as a part of the page."""

    def shown(file: StudyFile, audit: Audit) -> Response:
        return render(
            "audited.html",
            audit=audit,
            cite=cite(file),
            head=str(file.head),
            name=served.name,
            place=shlex.quote(served.path.name),
        )

    return await _replayed(context, served, shown)


@router.get("/studies/{name}/certificate/page")
async def certificate_page(served: RecordedOf, context: PageContextOf) -> Response:
    """The certificate, as a page that stands alone."""

    def shown(file: StudyFile, audit: Audit) -> Response:
        return HTMLResponse(certificate_html(file, audit, context.server.about(served)))

    return await _replayed(context, served, shown)


@router.get("/studies/{name}/certificate.json")
async def certificate_data(served: RecordedOf, context: PageContextOf) -> Response:
    """The certificate, for programs."""

    def written(file: StudyFile, audit: Audit) -> Response:
        text = json.dumps(certificate_json(file, audit, context.server.about(served)), ensure_ascii=False, indent=1)
        return PlainTextResponse(text, media_type="application/json", headers=_download("certificate.json"))

    return await _replayed(context, served, written)
