"""The application: routes for programs, pages for people, one middleware around both."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from everhold.errors import DataError, EverholdError, LedgerError
from everhold.server.api import api
from everhold.server.dependencies import AuditorOf, StateOf
from everhold.server.errors import error_response, refusal_of
from everhold.server.middleware import FOR_PROGRAMS, RequestMiddleware, below
from everhold.server.pages import page_fault, pages
from everhold.server.state import ServerState
from everhold.server.tokens import Token
from everhold.version import VERSION

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["make_app"]

router = APIRouter(include_in_schema=False)

_LOGGER = logging.getLogger("everhold.server")

_ABOUT = """Private rows behind a server: ask any number of questions, each chosen after seeing the earlier answers. Every
answer carries an interval for the population, and all intervals of a study are valid at the same time with its confidence.

Send a token with every request: `Authorization: Bearer evh_…`. Every error has one shape. A question that is asked again
under its `request_id` gets the same answer, so retrying is safe."""


def make_app(server: ServerState) -> ASGIApp:
    """The whole server for its state, which is closed when the server stops."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(server.close)

    app = FastAPI(
        title="everhold",
        version=VERSION,
        description=_ABOUT,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        openapi_url=None,
        license_info={"name": "Apache-2.0"},
        openapi_tags=[
            {"name": "ask", "description": "Questions. Each answer is in the ledger before it is returned."},
            {"name": "read", "description": "What was asked, where a study stands, and how to check it."},
            {"name": "acts", "description": "Readings, choices, comparisons, certificates and the last act."},
            {"name": "gates", "description": "Candidates against an incumbent, one bit each."},
            {"name": "contests", "description": "Submissions and boards."},
            {"name": "tokens", "description": "Who may do what; for custodians."},
        ],
    )
    app.state.server = server
    for kind in (EverholdError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _handled)
    app.include_router(api())
    app.include_router(pages())
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=Path(str(files("everhold.server") / "static"))), name="static")
    return RequestMiddleware(app, server, _respond)


@router.get("/health")
async def health(server: StateOf) -> Response:
    """Whether every study can be asked; for monitoring."""
    healthy = server.healthy
    return JSONResponse({"status": "ok" if healthy else "degraded"}, status_code=200 if healthy else 503)


@router.get("/metrics")
def metrics(token: AuditorOf, server: StateOf) -> Response:
    """Public values for Prometheus; for auditors and custodians."""
    return PlainTextResponse(_metrics(server, token), media_type="text/plain; version=0.0.4")


@router.get("/openapi.json")
def description(request: Request) -> Response:
    """The description of all routes, for people who are signed in or have a token."""
    return JSONResponse(request.app.openapi())


async def _handled(request: Request, error: Exception) -> Response:
    return _respond(request, error)


def _respond(request: Request, error: Exception) -> Response:
    """An error: for programs in the one shape of all errors, for people as a page, for the operator what is behind it."""
    if isinstance(error, LedgerError | DataError) and refusal_of(error).status == 503:
        _LOGGER.error("%s: %s", request.url.path, error)
    if below(request.url.path, FOR_PROGRAMS):
        return error_response(request, error)
    return page_fault(request, error)


def _metrics(server: ServerState, token: Token) -> str:
    lines = []

    def add(name: str, kind: str, about: str, values: list[tuple[dict[str, str], Any]]) -> None:
        lines.append(f"# HELP everhold_{name} {about}")
        lines.append(f"# TYPE everhold_{name} {kind}")
        for labels, value in values:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"everhold_{name}{{{shown}}} {value}")

    statuses = {served.name: server.status(served, token) for served in server.readable_by(token)}
    for name, kind, about, key in (
        ("rounds_total", "counter", "Rounds answered.", "rounds"),
        ("surprises_total", "counter", "Surprises among them.", "surprises"),
        ("price_nats", "gauge", "The price of the next ask.", "price"),
    ):
        add(name, kind, about, [({"study": study}, status[key]) for study, status in statuses.items()])
    private = {study: status["privacy"] for study, status in statuses.items() if status["privacy"] is not None}
    left = [({"study": study}, facts["share_left"]) for study, facts in private.items()]
    add("privacy_share_left", "gauge", "The part of a private study's budget that is left.", left)
    usable = [({"study": served.name}, int(not served.broken)) for served in server.readable_by(token)]
    add("study_usable", "gauge", "1, or 0 where a record could not be written and the server must be restarted.", usable)
    counts = sorted(server.counts.items()) if not token.studies else []
    requests = [({"route": route, "status": status}, count) for (route, status), count in counts]
    add("http_requests_total", "counter", "Requests by route and status.", requests)
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
