"""The HTTP interface for programs: `/v1/…`. Every request carries a token, every error has one shape.

Nothing here decides anything: a question becomes a `Request` for a study's desk, and what the desk tells goes out.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Security
from fastapi.security import HTTPBearer
from starlette.responses import HTMLResponse, JSONResponse, Response

from everhold.client.json_codec import board_out, column_out, found_out, preview_out, submission_out, told_out
from everhold.contest.contest import Submission
from everhold.errors import PrecisionExhausted
from everhold.ledger.store import Store
from everhold.queries.answer import Answer
from everhold.report.certificate import certificate_html, certificate_json
from everhold.server import schemas
from everhold.server.errors import HTTPRefusal
from everhold.server.grid import on_grid
from everhold.server.history import RoundFilter
from everhold.server.state import Served, ServerState
from everhold.server.tokens import Token
from everhold.server.writer import Desked, StudyWriter
from everhold.session.holdout import Holdout

__all__ = ["DERIVED", "api", "may_read_record"]

Name = Annotated[str, Path(max_length=200, description="The study's name: its file's stem.", examples=["patients"])]
_FAULTS: dict[int | str, dict[str, Any]] = {
    400: {"model": schemas.Fault, "description": "The request cannot be read."},
    401: {"model": schemas.Fault, "description": "No token, or none that is live."},
    403: {"model": schemas.Fault, "description": "The token does not allow this."},
    404: {"model": schemas.Fault, "description": "No such study."},
    408: {"model": schemas.Fault, "description": "The body did not come in time."},
    409: {"model": schemas.Fault, "description": "A request id of another question, a used-up promise, a contest."},
    413: {"model": schemas.Fault, "description": "The body is too large."},
    422: {"model": schemas.Fault, "description": "The question is at fault. Nothing was charged."},
    429: {"model": schemas.Fault, "description": "Too many requests; Retry-After says when."},
    503: {"model": schemas.Fault, "description": "The study cannot be asked now."},
}

DERIVED: dict[str, tuple[type[schemas.Quiet], Any, str]] = {
    "share": (
        schemas.Share,
        schemas.AnswerOut | schemas.FindingOut,
        "The share that answers yes, of all or of a group",
    ),
    "mean": (schemas.Mean, schemas.FindingOut, "A mean, in its own units"),
    "median": (schemas.Mean, schemas.FindingOut, "The middle, by about 40 questions"),
    "quantile": (schemas.Quantile, schemas.FindingOut, "A quantile, by about 40 questions"),
    "variance": (schemas.Variance, schemas.FindingOut, "A variance"),
    "correlation": (schemas.Correlation, schemas.FindingOut, "The correlation of two numbers"),
    "difference": (schemas.Difference, schemas.ComparisonOut, "How much more in one group than in another"),
    "compare": (schemas.Compare, schemas.ComparisonOut, "Is the first larger than the second"),
    "histogram": (schemas.Histogram, schemas.SharesOut, "Shares by bins or categories"),
    "table": (schemas.TableOf, schemas.SharesOut, "Shares by one or two columns"),
}
"""The questions made of several, by the name of the method that asks them."""


def api(house: ServerState) -> APIRouter:
    """All routes."""
    router = APIRouter(
        prefix="/v1",
        responses=_FAULTS,
        dependencies=[Security(HTTPBearer(auto_error=False, description="A token, as the custodian made it."))],
    )
    grid = house.config.grid_ms / 1000.0
    _asking(router, house, grid)
    _derived(router, house, grid)
    _reading(router, house)
    _contests(router, house, grid)
    _tokens(router, house)
    return router


def _asking(router: APIRouter, house: ServerState, grid: float) -> None:
    @router.post("/studies/{name}/ask", tags=["ask"], summary="Ask one question", response_model=schemas.AnswerOut)
    async def ask(name: Name, body: schemas.Ask, request: Request) -> Response:
        """The share of the population that answers yes, with an interval. It is recorded before it is told."""
        token = house.still(request.state.token)
        desk = house.study(name, token, "ask")
        request.state.note = {"question": body.question}
        async with on_grid(request.state.started, grid):
            caller = house.caller(request.state, token, "ask", body.request_id)
            query = (await house.ready(desk, token, [body.question]))[0]
            answer = await asyncio.wrap_future(desk.ask(caller.request(query), arrived=caller.arrived))
        await desk.shown(answer.round)
        return JSONResponse(found_out(answer))

    @router.post(
        "/studies/{name}/ask_many", tags=["ask"], summary="Ask several questions", response_model=schemas.AskedMany
    )
    async def ask_many(name: Name, body: schemas.AskMany, request: Request) -> Response:
        """All are checked before the first is charged, and recorded at once."""
        token = house.still(request.state.token)
        desk = house.study(name, token, "ask")
        most = house.config.most_questions
        if len(body.questions) > most:
            raise HTTPRefusal(
                413, "too_large", f"{len(body.questions):,} questions came; {most:,} are allowed in a batch."
            )
        house.rate.require(token.id, len(body.questions) / 10.0)
        request.state.note = {"questions": body.questions}
        async with on_grid(request.state.started, grid):
            caller = house.caller(request.state, token, "ask_many", body.request_id)
            asked = {"request_id": caller.request_id, "who": caller.who, "time": caller.time}
            queries = await house.ready(desk, token, body.questions)
            answers = await _in_pieces(desk, queries, caller.arrived, asked)
        await desk.shown(max(answer.round for answer in answers))
        return JSONResponse({"answers": [found_out(answer) for answer in answers]})

    @router.post(
        "/studies/{name}/try_out", tags=["ask"], summary="Try a question on the public side",
        response_model=schemas.PreviewOut,
    )  # fmt: skip
    async def try_out(name: Name, body: schemas.TryOut, request: Request) -> Response:
        """Costs nothing and touches no private row."""
        token = house.still(request.state.token)
        desk = house.study(name, token, "read")
        async with on_grid(request.state.started, grid):
            query = (await house.ready(desk, token, [body.question]))[0]
            preview = await asyncio.wrap_future(desk.do(lambda held: held.try_out(query)))
        return JSONResponse(preview_out(preview))


async def _in_pieces(
    desk: StudyWriter, queries: list[Any], arrived: float | None, asked: dict[str, Any]
) -> list[Answer]:
    """A batch, piece by piece, so that others get their turn; a refusal carries all answers before it."""
    answers: list[Answer] = []
    for piece in desk.pieces(queries):
        try:
            work = desk.do(partial(_asked, piece, len(answers) + 1, asked), arrived=arrived)
            found: list[Answer] = await asyncio.wrap_future(work)
            answers += found
        except PrecisionExhausted as refusal:
            refusal.answers = [*answers, *refusal.answers]
            raise
    return answers


def _asked(queries: list[Any], first: int, asked: dict[str, Any], held: Holdout) -> list[Answer]:
    return held.ask_many(queries, first=first, **asked)


def _derived(router: APIRouter, house: ServerState, grid: float) -> None:
    for kind, (shape, told, summary) in DERIVED.items():
        handler = _derived_handler(house, grid, kind, shape)
        router.add_api_route(
            f"/studies/{{name}}/{kind}", handler, methods=["POST"], tags=["ask"], summary=summary, response_model=told,
            operation_id=kind,
        )  # fmt: skip


def _derived_handler(house: ServerState, grid: float, kind: str, shape: type[schemas.Quiet]) -> Any:
    async def handler(name: Name, body: schemas.Quiet, request: Request) -> Response:
        token = house.still(request.state.token)
        desk = house.study(name, token, "read" if body.rehearse else "ask")
        arguments = body.arguments()
        request.state.note = {"asked": kind, **arguments}

        caller = house.caller(request.state, token, kind, body.request_id)
        asker = desk.rehearsal(caller) if body.rehearse else desk.asker(caller)
        async with on_grid(request.state.started, grid):
            found = await house.turns.run(token.id, lambda: getattr(asker, kind)(**arguments))
        if isinstance(asker, Desked):
            await desk.shown(max((part.round for part in asker.paid), default=0))
        return JSONResponse(found_out(found))

    handler.__annotations__["body"] = shape
    handler.__doc__ = f"As `Holdout.{kind}`. Parts are recorded one by one; the interval holds whenever theirs do."
    return handler


def may_read_record(house: ServerState, name: str, token: Token) -> Served:
    """The record of a study is for its readers; that of a contest, which holds submissions, for auditors."""
    found = house.door(name, token, "read")
    return found if isinstance(found, StudyWriter) else house.door(name, token, "audit")


def _reading(router: APIRouter, house: ServerState) -> None:
    @router.get("/studies", tags=["read"], summary="All studies", response_model=schemas.StudiesOut)
    def studies(request: Request) -> Response:
        """Those that the token may see."""
        token = house.still(request.state.token)
        return JSONResponse({"studies": [house.status(door, token) for door in house.seen_by(token)]})

    @router.get("/studies/{name}", tags=["read"], summary="A study and its columns", response_model=schemas.StudyOut)
    def study(name: Name, request: Request) -> Response:
        """Where it stands, what can be asked."""
        token = house.still(request.state.token)
        door = house.door(name, token, "read")
        return JSONResponse({**house.status(door, token), **_columns(door)})

    @router.get(
        "/studies/{name}/status", tags=["read"], summary="Where a study stands", response_model=schemas.StatusOut
    )
    def status(name: Name, request: Request) -> Response:
        """Counts, price and head."""
        token = house.still(request.state.token)
        return JSONResponse(house.status(house.door(name, token, "read"), token))

    @router.get("/studies/{name}/log", tags=["read"], summary="The record", response_model=schemas.LogOut)
    def log(
        name: Name,
        request: Request,
        after: Annotated[int, Query(ge=0, le=2**53, description="Rounds later than this.")] = 0,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
        contains: Annotated[str | None, Query(max_length=1_000, description="In the question's text.")] = None,
        who: Annotated[str | None, Query(max_length=200)] = None,
        surprises: Annotated[bool, Query(description="Surprises only.")] = False,
    ) -> Response:
        """What was asked and answered, by pages. Of a contest for auditors: it holds what was submitted."""
        file = may_read_record(house, name, house.still(request.state.token)).file()
        rounds, following = RoundFilter(contains, who, surprises).page(file.told, after, limit)
        return JSONResponse({"rounds": [told_out(one) for one in rounds], "next": following, "total": len(file.told)})

    @router.get(
        "/studies/{name}/certificate", tags=["read"], summary="The certificate",
        response_model=dict[str, Any],
        responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
    )  # fmt: skip
    async def certificate(
        name: Name,
        request: Request,
        page: Annotated[bool, Query(description="As a page that stands alone.")] = False,
    ) -> Response:
        """Audited anew whenever the study has grown."""
        token = house.still(request.state.token)
        door = may_read_record(house, name, token)
        house.rate.require(token.id, 10.0)

        def made() -> Response:
            file, audit = house.audited(door)
            return HTMLResponse(certificate_html(file, audit)) if page else JSONResponse(certificate_json(file, audit))

        return await house.turns.run(token.id, made)

    @router.get("/studies/{name}/audit", tags=["read"], summary="Replay the record", response_model=schemas.AuditOut)
    async def audit(name: Name, request: Request) -> Response:
        """Every byte, every hash, every answer again, without the private rows. For auditors and custodians."""
        token = house.still(request.state.token)
        door = house.door(name, token, "audit")
        house.rate.require(token.id, 10.0)
        file, found = await house.turns.run(token.id, lambda: house.audited(door))
        counts = {"ok": found.ok, "rounds": found.rounds, "surprises": found.surprises}
        return JSONResponse({**counts, "found": str(found), "head": str(file.head)})

    @router.get(
        "/studies/{name}/file", tags=["read"], summary="The study's file", response_class=Response,
        responses={200: {"content": {"application/vnd.sqlite3": {"schema": {"type": "string", "format": "binary"}}}}},
    )  # fmt: skip
    async def file(name: Name, request: Request) -> Response:
        """To audit it elsewhere: it holds no private row. For auditors and custodians."""
        token = house.still(request.state.token)
        door = house.door(name, token, "audit")
        data = await house.turns.run(token.id, lambda: _snapshot(door.path))
        await asyncio.sleep(max(0.0, door.leaves() - time.monotonic()))  # until all that is in it has left
        said = {"Content-Disposition": "attachment; filename=study.everhold"}
        return Response(data, media_type="application/vnd.sqlite3", headers=said)


def _snapshot(place: FilePath) -> bytes:
    store, data = Store.snapshot(place)
    store.close()
    return data


def _columns(door: Served) -> dict[str, Any]:
    schema = door.study.schema
    return {"columns": [column_out(schema[name]) for name in schema], "schema_toml": schema.to_toml()}


_REFUSED = {"malformed": (422, "malformed"), "too large": (413, "too_large"), "too soon": (429, "too_many"),
            "closed": (409, "precision_exhausted")}  # fmt: skip


def require_scored(found: Submission) -> None:
    """A submission that was not scored is an error, with all that is known of it."""
    if found.state in _REFUSED:
        status, code = _REFUSED[found.state]
        raise HTTPRefusal(status, code, f"{found.reason} Nothing was charged.", details=submission_out(found))


def _contests(router: APIRouter, house: ServerState, grid: float) -> None:
    csv = {"requestBody": {"required": True, "content": {"text/csv": {
        "schema": {"type": "string"}, "example": "id,prediction\n0,1\n1,0\n"}}}}  # fmt: skip

    @router.post(
        "/contests/{name}/submissions", tags=["contests"], summary="Submit predictions",
        response_model=schemas.SubmissionOut, openapi_extra=csv,
    )  # fmt: skip
    async def submit(name: Name, request: Request) -> Response:
        """CSV with an id and a prediction for every row; the entrant is the token's name."""
        token = house.still(request.state.token)
        desk = house.contest(name, token, "ask")
        predictions = await request.body()
        house.still(token)
        request.state.note = {"submitted": len(predictions)}
        async with on_grid(request.state.started, grid):
            found = await asyncio.wrap_future(desk.submit(token.name, predictions, arrived=request.state.started))
            require_scored(found)
        return JSONResponse(submission_out(found))

    @router.get("/contests/{name}", tags=["contests"], summary="The rules", response_model=schemas.ContestOut)
    def rules(name: Name, request: Request) -> Response:
        """What is scored and how, and what the rows are called."""
        found = house.contest(name, house.still(request.state.token), "read").contest
        told = {key: value for key, value in asdict(found.rules).items() if key != "seed"}
        better = found.rules.larger_is_better
        return JSONResponse({**told, "larger_is_better": better, "reveals": found.rules.reveals, "ids": found.ids})

    @router.get("/contests/{name}/board", tags=["contests"], summary="The board", response_model=schemas.BoardOut)
    def board(name: Name, request: Request) -> Response:
        """Where everybody stands: intervals that hold together."""
        token = house.still(request.state.token)
        desk = house.contest(name, token, "read")
        return JSONResponse(board_out(desk.board(), whole=house.sees_all(desk, token)))


def _tokens(router: APIRouter, house: ServerState) -> None:
    @router.get("/tokens", tags=["tokens"], summary="All tokens", response_model=schemas.TokensOut)
    def listed(request: Request) -> Response:
        """For custodians; never their secrets. A custodian of some studies sees the tokens of those."""
        return JSONResponse({"tokens": [one.shown() for one in house.tokens_of(house.still(request.state.token))]})

    @router.post("/tokens", tags=["tokens"], summary="Make a token", response_model=schemas.TokenMade, status_code=201)
    def make(body: schemas.TokenNew, request: Request) -> Response:
        """The secret is told this once."""
        secret, made = house.make_token(
            house.still(request.state.token), body.name, body.scope, studies=body.studies, days=body.days
        )
        request.state.note = {"made": made.id, "for": made.name, "scope": made.scope}
        return JSONResponse({**made.shown(), "token": secret}, status_code=201)

    @router.delete("/tokens/{token_id}", tags=["tokens"], summary="Revoke a token", response_model=schemas.TokenOut)
    def revoke(token_id: Annotated[str, Path(max_length=200)], request: Request) -> Response:
        """It stops at once."""
        gone = house.revoke_token(house.still(request.state.token), token_id)
        request.state.note = {"revoked": gone.id}
        return JSONResponse(gone.shown())
