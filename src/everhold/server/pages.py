"""Pages for people: rendered on the server, working without scripts, better with them.

A page asks as a program does: its questions go to the study's desk. What fails keeps what was typed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from everhold.client.json_codec import told_out
from everhold.contest.board_html import board_table
from everhold.errors import EverholdError
from everhold.report.certificate import certificate_html, certificate_json, cite
from everhold.report.figure import session_svg
from everhold.report.interval_svg import interval_svg
from everhold.server.api import may_read_record, require_scored
from everhold.server.errors import HTTPRefusal, http_error_of
from everhold.server.forms import KINDS, AnswerCard, QuestionForm, bar, described, example, vocabulary
from everhold.server.grid import on_grid
from everhold.server.history import RoundFilter, as_csv
from everhold.server.writer import StudyWriter
from everhold.version import VERSION

if TYPE_CHECKING:
    from everhold.ledger.audit import Audit
    from everhold.ledger.reader import StudyFile
    from everhold.server.contest_writer import ContestWriter
    from everhold.server.signins import Session, Sessions
    from everhold.server.state import Served, ServerState

__all__ = ["SignIn", "page_fault", "pages"]

_PAGE = 50
_RECENT = 8
_DRAWN = 400
_LOCAL = re.compile(r"/(?:[A-Za-z0-9_~.%-][A-Za-z0-9_~.%/-]*)?")
_SCOPES = {
    "analyst": "ask and read (analyst)",
    "auditor": "read and audit (auditor)",
    "custodian": "everything (custodian)",
}
_TITLES = {400: "That cannot be read", 401: "Who are you?", 403: "Not allowed", 404: "Nothing here", 409: "Not possible",
           413: "Too large", 422: "The question is at fault", 429: "Too many at once", 503: "Not now"}  # fmt: skip
_THEN = {
    422: "Nothing was charged. Your text is still in the box: change it and ask again.",
    409: "Nothing was charged for this.",
    429: "Wait a moment, then go on.",
    503: "What was recorded is safe. Tell the custodian, and try again later.",
}

_templates = Environment(
    loader=FileSystemLoader(str(files("everhold.server") / "templates")),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals.update(version=VERSION, bar=bar)


@dataclass(frozen=True, slots=True)
class _Fault:
    title: str
    message: str
    place: str
    then: str
    status: int

    @classmethod
    def of(cls, error: Exception) -> _Fault:
        status, _, message, _, _ = http_error_of(error)
        if status == 404:
            message = "there is no page or study at this address, or it has another name."
        said, _, place = (message[:1].upper() + message[1:]).partition("\n")
        return cls(_TITLES.get(status, "Something went wrong"), said, place, _THEN.get(status, ""), status)


class SignIn(Exception):
    """Somebody has to sign in first."""


def _render(template: str, /, *, code: int = 200, **values: Any) -> HTMLResponse:
    values = {"session": None, "here": "", "fault": None, "oob": False, **values}
    return HTMLResponse(_templates.get_template(template).render(**values), status_code=code)


def page_fault(request: Request, error: Exception) -> Response:
    """An error as a page."""
    if isinstance(error, SignIn):
        to = "/sign-in?next=" + quote(request.url.path, safe="/")
        if request.headers.get("hx-request"):
            return Response(status_code=401, headers={"HX-Redirect": to})
        return RedirectResponse(to, status_code=303)
    fault = _Fault.of(error)
    headers = error.headers if isinstance(error, HTTPRefusal) else {}
    name = "answer.html" if request.headers.get("hx-request") else "fault.html"
    found = _render(name, code=fault.status, fault=fault, found=None, request_id=request.state.request_id)
    found.headers.update(headers)
    return found


def _local(path: str) -> str:
    """Where to go after signing in: a page of this server, or its first."""
    return path if _LOCAL.fullmatch(path) and not path.startswith("//") else "/"


class _Pages:
    """The routes' common ground."""

    def __init__(self, house: ServerState, sessions: Sessions) -> None:
        self.house, self.sessions = house, sessions
        self.grid = house.config.grid_ms / 1000.0

    def session(self, request: Request) -> Session:
        """Whoever is signed in, or the way to signing in."""
        found = self.sessions.of(request)
        if found is None:
            raise SignIn
        request.state.token = found.token
        self.house.rate.require(found.token.id)
        return found

    async def form(self, request: Request) -> tuple[Session, dict[str, Any]]:
        """What a page of this server sent, or a refusal."""
        session = self.session(request)
        async with request.form(max_files=1, max_fields=50) as form:
            given = {name: value if isinstance(value, str) else await value.read() for name, value in form.items()}
        csrf = given.get("csrf")
        self.sessions.require_form(request, session, csrf if isinstance(csrf, str) else None)
        self.house.still(session.token)  # the body may have taken its time
        return session, given

    def url(self, request: Request) -> str:
        """How people reach this server."""
        return self.house.config.public_url or str(request.base_url).rstrip("/")

    def about(self, desk: StudyWriter, session: Session, request: Request) -> dict[str, Any]:
        """What a study's page shows beside the answer."""
        status, file = self.house.status(desk, session.token), desk.file()
        schema = desk.schema
        columns = [
            {
                "name": name,
                "kind": schema[name].kind,
                "declared": described(schema[name]),
                "example": example(schema[name]),
            }
            for name in schema
        ]
        drawn = session_svg(file.told, lasts=status["lasts"], most_drawn=_DRAWN) if file.told else ""
        return {
            "session": session,
            "here": "studies",
            "status": status,
            "columns": columns,
            "words": vocabulary(schema),
            "figure": Markup(drawn),
            "recent": list(reversed(file.told[-_RECENT:])),
            "kinds": KINDS,
            "may_ask": session.token.allows("ask", desk.name),
            "url": self.url(request),
        }


def pages(house: ServerState, sessions: Sessions) -> APIRouter:
    """All pages."""
    router = APIRouter()
    common = _Pages(house, sessions)
    _signing(router, common)
    _study(router, common)
    _record(router, common)
    _contest(router, common)
    _tokens(router, common)
    return router


def _signing(router: APIRouter, common: _Pages) -> None:
    house, sessions = common.house, common.sessions

    @router.get("/sign-in")
    async def sign_in(request: Request) -> Response:
        return _render("sign_in.html", failed=None, next=_local(request.query_params.get("next", "/")))

    @router.post("/sign-in")
    async def signed_in(request: Request) -> Response:
        sessions.require_same_site(request)
        async with request.form(max_files=0, max_fields=10) as given:
            secret, to = (str(given.get(name) or "") for name in ("token", "next"))
        response = RedirectResponse(_local(to), status_code=303)
        token = sessions.start(secret.strip(), response)
        if token is None:
            house.strangers.require(request.client.host if request.client else "?")
            said = "This is no live token. Check that all of it was copied; it may also have ended or been revoked."
            return _render("sign_in.html", code=401, failed=said, next=_local(to))
        house.rate.require(token.id)
        request.state.token, request.state.note = token, {"signed": "in"}
        return response

    @router.post("/sign-out")
    async def sign_out(request: Request) -> Response:
        await common.form(request)
        response = RedirectResponse("/sign-in", status_code=303)
        sessions.end(request, response)
        return response

    @router.get("/")
    def studies(request: Request) -> Response:
        session = common.session(request)
        found = [house.status(door, session.token) for door in house.seen_by(session.token)]
        return _render("studies.html", session=session, here="studies", studies=found)

    @router.get("/docs")
    def docs(request: Request) -> Response:
        common.session(request)
        return _render("docs.html")


def _study(router: APIRouter, common: _Pages) -> None:
    house = common.house

    @router.get("/studies/{name}")
    def study(name: str, request: Request, question: str = "", kind: str = "share") -> Response:
        session = common.session(request)
        door = house.door(name, session.token, "read")
        if not isinstance(door, StudyWriter):
            return RedirectResponse(f"/contests/{quote(name, safe='')}", status_code=303)
        form = QuestionForm(question=question, kind=kind if kind in KINDS else "share")
        return _render("study.html", **common.about(door, session, request), form=form, found=None)

    @router.get("/studies/{name}/check")
    async def check(name: str, request: Request) -> Response:
        session = common.session(request)
        desk = house.study(name, session.token, "read")
        form = QuestionForm.read(request.query_params)
        if not form.question:
            return _render("check.html", said="")
        rehearsal = desk.rehearsal(house.caller(request.state, session.token, form.kind, None))
        try:
            async with on_grid(request.state.started, common.grid):
                found = await house.turns.run(session.token.id, lambda: form.find(rehearsal))
        except EverholdError as error:
            return _render("check.html", fault=_Fault.of(error))
        return _render("check.html", said=_previewed(AnswerCard.of(found, form.question)))

    @router.post("/studies/{name}/ask")
    async def ask(name: str, request: Request) -> Response:
        session, given = await common.form(request)
        desk = house.study(name, session.token, "ask")
        form = QuestionForm.read(given)
        request.state.note = {"asked": form.kind, "question": form.question}
        part = bool(request.headers.get("hx-request"))
        found, fault = None, None
        asker = desk.asker(house.caller(request.state, session.token, form.kind, None))
        async with on_grid(request.state.started, common.grid):
            try:
                told = await house.turns.run(session.token.id, lambda: form.find(asker))
                found = AnswerCard.of(told, form.question)
            except EverholdError as error:
                fault = _paid(_Fault.of(error), len(asker.paid))
        await desk.shown(max((one.round for one in asker.paid), default=0))
        about = await run_in_threadpool(common.about, desk, session, request)
        status = 200 if fault is None else fault.status
        name = "answered.html" if part else "study.html"
        return _render(name, code=status, **about, form=form, found=found, fault=fault)


def _paid(fault: _Fault, parts: int) -> _Fault:
    """A question of several parts may be refused after some of them were answered."""
    if not parts:
        return fault
    many = "part was" if parts == 1 else "parts were"
    return replace(fault, then=f"{parts} {many} answered before that, and stand in the history.")


def _previewed(shown: AnswerCard) -> str:
    if shown.cells:
        return (
            f"Can be asked: {len(shown.cells)} shares. On the public side: {shown.cells[0][0]} {shown.cells[0][1]}, …"
        )
    said = shown.sentence.removeprefix("For the population: ")
    return f"Can be asked. The public side says {shown.value}; if nothing surprises: {said}"


def _record(router: APIRouter, common: _Pages) -> None:
    house = common.house

    def opened(name: str, request: Request) -> tuple[Session, Served]:
        session = common.session(request)
        return session, may_read_record(house, name, session.token)

    async def replayed(name: str, request: Request, render: Callable[[StudyFile, Audit], Response]) -> Response:
        session, door = opened(name, request)
        house.rate.require(session.token.id, 10.0)
        return await house.turns.run(session.token.id, lambda: render(*house.audited(door)))

    def sieve(request: Request) -> RoundFilter:
        given = request.query_params
        return RoundFilter(given.get("contains") or None, given.get("who") or None, given.get("surprises") == "true")

    @router.get("/studies/{name}/history")
    def history(name: str, request: Request, page: int = 1) -> Response:
        session, door = opened(name, request)
        file, wanted = door.file(), sieve(request)
        found = wanted.all(file.told)
        found.reverse()
        count = max(1, -(-len(found) // _PAGE))
        page = min(max(page, 1), count)
        given = {"contains": wanted.contains or "", "who": wanted.who or ""}
        given |= {"surprises": "true"} if wanted.surprises else {}
        return _render(
            "history.html", session=session, here="studies", status=house.status(door, session.token), sieve=wanted,
            rounds=found[(page - 1) * _PAGE : page * _PAGE], count=len(found), page=page, pages=count,
            people=sorted({one.who for one in file.told if one.who}), query=urlencode(given, errors="replace"),
        )  # fmt: skip

    @router.get("/studies/{name}/history.csv")
    def history_csv(name: str, request: Request) -> Response:
        _, door = opened(name, request)
        said = {"Content-Disposition": "attachment; filename=history.csv"}
        return PlainTextResponse(as_csv(sieve(request).all(door.file().told)), media_type="text/csv", headers=said)

    @router.get("/studies/{name}/history.json")
    def history_json(name: str, request: Request) -> Response:
        _, door = opened(name, request)
        said = {"Content-Disposition": "attachment; filename=history.json"}
        return JSONResponse([told_out(one) for one in sieve(request).all(door.file().told)], headers=said)

    @router.get("/studies/{name}/certificate")
    def certificate(name: str, request: Request) -> Response:
        session, door = opened(name, request)
        return _render("certificate.html", session=session, here="studies", status=house.status(door, session.token))

    @router.get("/studies/{name}/certificate/audited")
    async def audited(name: str, request: Request) -> Response:
        def shown(file: StudyFile, found: Audit) -> Response:
            return _render("audited.html", audit=found, cite=cite(file), head=str(file.head), name=name)

        return await replayed(name, request, shown)

    @router.get("/studies/{name}/certificate/page")
    async def certificate_page(name: str, request: Request) -> Response:
        return await replayed(name, request, lambda file, found: HTMLResponse(certificate_html(file, found)))

    @router.get("/studies/{name}/certificate.json")
    async def certificate_data(name: str, request: Request) -> Response:
        said = {"Content-Disposition": "attachment; filename=certificate.json"}

        def written(file: StudyFile, found: Audit) -> Response:
            text = json.dumps(certificate_json(file, found), ensure_ascii=False, indent=1)
            return PlainTextResponse(text, media_type="application/json", headers=said)

        return await replayed(name, request, written)


def _contest(router: APIRouter, common: _Pages) -> None:
    house = common.house

    def about(desk: ContestWriter, session: Session) -> dict[str, Any]:
        board = desk.board()
        return {
            "session": session,
            "here": "studies",
            "name": desk.name,
            "board": board,
            "table": Markup(board_table(board)),
            "may_ask": session.token.allows("ask", desk.name),
            "may_audit": session.token.allows("audit", desk.name),
            "whole": house.sees_all(desk, session.token),
            "submission": None,
            "drawn": "",
        }

    @router.get("/contests/{name}")
    def contest(name: str, request: Request) -> Response:
        session = common.session(request)
        desk = house.contest(name, session.token, "read")
        return _render("contest.html", **about(desk, session))

    @router.post("/contests/{name}/submissions")
    async def submit(name: str, request: Request) -> Response:
        session, given = await common.form(request)
        desk = house.contest(name, session.token, "ask")
        predictions = given.get("predictions")
        fault, found, drawn = None, None, Markup("")
        async with on_grid(request.state.started, common.grid):
            try:
                if not isinstance(predictions, bytes) or not predictions:
                    _no_file()
                request.state.note = {"submitted": len(predictions)}
                found = await asyncio.wrap_future(
                    desk.submit(session.token.name, predictions, arrived=request.state.started)
                )
                require_scored(found)
                if (score := found.score) is not None:
                    numbers = (score.value, score.low, score.high)
                    drawn = Markup(interval_svg(*numbers, bottom=score.bottom, top=score.top, wide=560.0, ticks=5))
            except EverholdError as error:
                fault = _Fault.of(error)
                if fault.status in (413, 422):
                    fault = replace(fault, then="Nothing was charged. Mend the file and submit it again.")
        shown = await run_in_threadpool(about, desk, session)
        shown |= {"submission": None if fault else found, "drawn": drawn, "fault": fault}
        template = "submitted_part.html" if request.headers.get("hx-request") else "contest.html"
        return _render(template, code=200 if fault is None else fault.status, **shown)


def _no_file() -> NoReturn:
    raise HTTPRefusal(422, "malformed", "no file came. Choose a CSV file with your predictions.")


def _tokens(router: APIRouter, common: _Pages) -> None:
    house = common.house

    def listed(session: Session, status: int = 200, **more: Any) -> Response:
        found = sorted(house.tokens_of(session.token), key=lambda one: (one.state != "live", one.created))
        studies = [door.name for door in house.seen_by(session.token)]
        form = {"name": "", "scope": "analyst", "studies": "", "days": "90"}
        values = {"made": None, "secret": "", "form": form, **more}
        return _render(
            "tokens.html", code=status, session=session, here="tokens", tokens=found, studies=studies, scopes=_SCOPES,
            **values,
        )  # fmt: skip

    @router.get("/tokens")
    def tokens(request: Request) -> Response:
        return listed(common.session(request))

    @router.post("/tokens")
    async def make(request: Request) -> Response:
        session, given = await common.form(request)
        form = {name: str(given.get(name) or "").strip() for name in ("name", "scope", "studies", "days")}
        try:
            days = float(form["days"]) if form["days"] else None
        except ValueError:
            return listed(session, 422, form=form, fault=_Fault.of(HTTPRefusal(422, "malformed", "days is a number.")))
        try:
            studies = [form["studies"]] if form["studies"] else []
            secret, made = await run_in_threadpool(
                lambda: house.make_token(session.token, form["name"], form["scope"], studies=studies, days=days)
            )
        except HTTPRefusal:
            raise
        except EverholdError as error:
            return listed(session, 422, form=form, fault=_Fault.of(error))
        request.state.note = {"made": made.id, "for": made.name, "scope": made.scope}
        return listed(session, made=made, secret=secret)

    @router.post("/tokens/{which}/revoke")
    async def revoke(which: str, request: Request) -> Response:
        session, _ = await common.form(request)
        gone = await run_in_threadpool(house.revoke_token, session.token, which)
        request.state.note = {"revoked": gone.id}
        return RedirectResponse("/tokens", status_code=303)
