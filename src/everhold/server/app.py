"""The application: routes for programs, pages for people, one front door."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from everhold.errors import EverholdError
from everhold.server.api import api
from everhold.server.errors import HTTPRefusal, error_response
from everhold.server.middleware import RequestMiddleware
from everhold.server.pages import SignIn, page_fault, pages
from everhold.server.signins import Sessions
from everhold.server.state import ServerState
from everhold.version import VERSION

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["make_app"]

_ABOUT = """Private rows behind a server: ask any number of questions, each chosen after seeing the earlier answers. Every
answer carries an interval for the population, and all intervals of a study hold together with its confidence.

Send a token with every request: `Authorization: Bearer evh_…`. Every error has one shape. A question that is asked again
under its `request_id` gets the same answer, so retrying is safe."""


def make_app(house: ServerState) -> ASGIApp:
    """The whole server for a house; the house is closed when the server stops."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(house.close)

    app = FastAPI(
        title="everhold", version=VERSION, description=_ABOUT, lifespan=life, docs_url=None, redoc_url=None,
        redirect_slashes=False, openapi_url=None, license_info={"name": "Apache-2.0"},
        openapi_tags=[
            {"name": "ask", "description": "Questions. Each answer is in the ledger before it is told."},
            {"name": "read", "description": "What was told, where a study stands, and how to check it."},
            {"name": "contests", "description": "Submissions and boards."},
            {"name": "tokens", "description": "Who may do what; for custodians."},
        ],
    )  # fmt: skip
    config = house.config
    sessions = Sessions(house.tokens, hours=config.session_hours, secure=config.secure, public_url=config.public_url)
    for kind in (EverholdError, RequestValidationError, HTTPException, SignIn, Exception):
        app.add_exception_handler(kind, _handled)
    app.include_router(api(house))
    app.include_router(pages(house, sessions), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=Path(str(files("everhold.server") / "static"))), name="static")

    @app.get("/health", include_in_schema=False)
    async def health() -> Response:
        """Whether every study can be asked; for whoever watches the server."""
        status = "ok" if house.sound else "degraded"
        return JSONResponse({"status": status}, status_code=200 if house.sound else 503)

    @app.get("/metrics", include_in_schema=False)
    def metrics(request: Request) -> Response:
        """Public values for Prometheus; for auditors and custodians."""
        return PlainTextResponse(_metrics(house, request), media_type="text/plain; version=0.0.4")

    @app.get("/openapi.json", include_in_schema=False)
    def description(request: Request) -> Response:
        """The description of all routes, for whoever is signed in or has a token."""
        if request.state.token is None and sessions.of(request) is None:
            raise HTTPRefusal(401, "unknown_token", "a token is needed, or somebody who is signed in.")
        return JSONResponse(app.openapi())

    return RequestMiddleware(app, house)


_PROGRAMS = ("/v1", "/metrics", "/openapi.json", "/health", "/static")


async def _handled(request: Request, error: Exception) -> Response:
    """For programs in the shape of all errors, for people as a page."""
    path = request.url.path
    if path in _PROGRAMS or path.startswith(tuple(f"{one}/" for one in _PROGRAMS)):
        return error_response(request, error)
    return page_fault(request, error)


def _metrics(house: ServerState, request: Request) -> str:
    token = request.state.token
    if not token.allows("audit"):
        raise HTTPRefusal(
            403, "not_allowed", f"metrics are for auditors and custodians, and this is an {token.scope}'s token."
        )
    lines = []

    def add(name: str, kind: str, about: str, values: list[tuple[dict[str, str], Any]]) -> None:
        lines.append(f"# HELP everhold_{name} {about}")
        lines.append(f"# TYPE everhold_{name} {kind}")
        for labels, value in values:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"everhold_{name}{{{shown}}} {value}")

    seen = {door.name: house.status(door, token) for door in house.seen_by(token)}
    for name, kind, about, key in (
        ("questions_total", "counter", "Questions answered.", "questions"),
        ("surprises_total", "counter", "Surprises among them.", "surprises"),
        ("spent_nats", "gauge", "The price so far.", "spent"),
    ):
        add(name, kind, about, [({"study": study}, status[key]) for study, status in seen.items()])
    counts = sorted(house.counts.items()) if not token.studies else []
    add("http_requests_total", "counter", "Requests by route and status.",
        [({"route": route, "status": status}, count) for (route, status), count in counts])  # fmt: skip
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
