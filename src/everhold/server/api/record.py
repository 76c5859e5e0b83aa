"""Reading: where studies stand, what was asked, certificates, audits, the study's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, JSONResponse, Response

from everhold.ledger.store import Store
from everhold.report.certificate import certificate_html, certificate_json
from everhold.server.dependencies import RecordedOf, ServedFor, StateOf, TokenOf
from everhold.server.log import LogFilter
from everhold.server.record_schemas import AuditOut, LogOut, StatusOut, StudiesOut, StudyOut

__all__ = ["router"]

router = APIRouter(tags=["read"])


@router.get("/studies", summary="All studies", response_model=StudiesOut)
def studies(token: TokenOf, server: StateOf) -> Response:
    """Those that the token may see."""
    return JSONResponse({"studies": [server.status(one, token) for one in server.readable_by(token)]})


@router.get("/studies/{name}", summary="A study and its columns", response_model=StudyOut)
def study(served: ServedFor.READ, token: TokenOf, server: StateOf) -> Response:
    """Where it stands, what can be asked."""
    schema = served.first_record.schema
    columns = {"columns": [schema[name].to_dict() for name in schema], "schema_toml": schema.to_toml()}
    return JSONResponse({**server.status(served, token), **columns})


@router.get("/studies/{name}/status", summary="Where a study stands", response_model=StatusOut)
def status(served: ServedFor.READ, token: TokenOf, server: StateOf) -> Response:
    """Counts, price and head."""
    return JSONResponse(server.status(served, token))


@router.get("/studies/{name}/log", summary="What was asked and answered", response_model=LogOut)
def log(
    served: RecordedOf,
    after: Annotated[int, Query(ge=0, le=2**53, description="Questions later in the log than this.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    contains: Annotated[str | None, Query(max_length=1_000, description="In the question's text.")] = None,
    who: Annotated[str | None, Query(max_length=200)] = None,
    surprises: Annotated[bool, Query(description="Surprises only.")] = False,
) -> Response:
    """Questions and acts as people asked them, by pages; statistics with their parts. Of a contest for auditors: it holds
    what was submitted."""
    asked = served.file().log
    questions, following = LogFilter(contains, who, surprises).page(asked, after, limit)
    return JSONResponse(
        {"questions": [question.to_dict() for question in questions], "next": following, "total": len(asked)}
    )


@router.get(
    "/studies/{name}/certificate",
    summary="The certificate",
    response_model=dict[str, Any],
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
)
async def certificate(
    served: RecordedOf,
    token: TokenOf,
    server: StateOf,
    page: Annotated[bool, Query(description="As a page that stands alone.")] = False,
) -> Response:
    """Audited anew whenever the study has grown."""
    server.rate.require(token.id, 10.0)

    def made() -> Response:
        file, audit = server.audited(served)
        about = server.about(served)
        if page:
            return HTMLResponse(certificate_html(file, audit, about))
        return JSONResponse(certificate_json(file, audit, about))

    return await server.slots.run(token.id, made)


@router.get("/studies/{name}/audit", summary="Replay the record", response_model=AuditOut)
async def audit(served: ServedFor.AUDIT, token: TokenOf, server: StateOf) -> Response:
    """Every byte, every hash, every answer again, without the private rows. For auditors and custodians."""
    server.rate.require(token.id, 10.0)
    file, replayed = await server.slots.run(token.id, lambda: server.audited(served))
    counts = {"ok": replayed.ok, "rounds": replayed.rounds, "surprises": replayed.surprises}
    return JSONResponse({**counts, "found": str(replayed), "head": str(file.head)})


@router.get(
    "/studies/{name}/file",
    summary="The study's file",
    response_class=Response,
    responses={200: {"content": {"application/vnd.sqlite3": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def file(served: ServedFor.AUDIT, token: TokenOf, server: StateOf) -> Response:
    """To audit it elsewhere: it holds no private row. For auditors and custodians."""
    data, records = await server.slots.run(token.id, lambda: _snapshot(served.path))
    while served.progress.records < records and not served.broken:  # until all that is in it has left
        await server.grid.until(max(served.release_time(), server.clock() + 0.001))
    headers = {"Content-Disposition": "attachment; filename=study.everhold"}
    return Response(data, media_type="application/vnd.sqlite3", headers=headers)


def _snapshot(path: Path) -> tuple[bytes, int]:
    """The file as it stands, and how many records it has."""
    store, data = Store.snapshot(path)
    try:
        return data, store.last()
    finally:
        store.close()
