"""A gate's page: where it stands, its promotions, and a form for a candidate's outcomes."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from everhold.errors import EverholdError
from everhold.gate.outcome_files import parse_outcomes
from everhold.server.dependencies import GateFor, PageContext, PageContextOf
from everhold.server.errors import HTTPRefusal
from everhold.server.gate_writer import GateWriter
from everhold.server.pages.rendering import PageFault, form_of, render

__all__ = ["router"]

router = APIRouter()


def _about(context: PageContext, gate: GateWriter) -> dict[str, Any]:
    status, file = gate.status(), gate.file()
    return {
        "session": context.signin,
        "here": "studies",
        "name": gate.name,
        "about": context.server.about(gate),
        "status": status,
        "lines": str(status).splitlines(),
        "checks": [one for one in file.log if one.act in ("check", "gain")][::-1],
        "may_ask": context.token.allows("ask", gate.name),
        "checked": None,
        "fault": None,
    }


@router.get("/gates/{name}")
def gate(gate: GateFor.READ, context: PageContextOf) -> Response:
    """Where it stands."""
    return render("gate.html", **_about(context, gate))


@router.post("/gates/{name}/checks")
async def check(gate: GateFor.ASK, context: PageContextOf) -> Response:
    """A file with a candidate's outcomes."""
    form = await form_of(context)
    fault, result, gaps = None, None, None
    try:
        content = form.get("outcomes")
        if not isinstance(content, bytes) or not content:
            raise HTTPRefusal(422, "malformed", "the form has no file. Choose a file with the candidate's outcomes.")
        outcomes = await run_in_threadpool(parse_outcomes, _file_name(form), content, strict=False)
        context.note(checked=len(outcomes.cases))
        caller = context.caller("check")
        gaps = gate.gate.gaps(outcomes)
        result = await gate.check(outcomes, caller, name=_text(form.get("name")), artifact=None)
    except EverholdError as error:
        fault = PageFault.of(error).about_file("This file cannot be checked", "Correct the file and check it again.")
    shown = await run_in_threadpool(_about, context, gate)
    shown |= {"checked": result, "fault": fault, "gaps": gaps}
    return render("gate.html", code=200 if fault is None else fault.status, **shown)


def _file_name(form: dict[str, Any]) -> str:
    """What the uploaded file is called: it says the file's form. Nothing of that name is opened."""
    given = form.get("outcomes.filename")
    return PurePosixPath(given.replace("\\", "/")).name[-100:] or "outcomes" if isinstance(given, str) else "outcomes"


def _text(given: object) -> str | None:
    return given.strip()[:200] or None if isinstance(given, str) else None
