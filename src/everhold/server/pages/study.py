"""A study's page: ask, try while typing, see the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from everhold.acts import Read
from everhold.errors import EverholdError
from everhold.queries.disclosed import width_factor
from everhold.report.figure import session_svg
from everhold.server.act_forms import act_links, round_links
from everhold.server.dependencies import PageContext, PageContextOf, ServedFor, StudyFor
from everhold.server.forms import FIELDS, KINDS, AnswerCard, QuestionForm, described, vocabulary
from everhold.server.pages.rendering import PageFault, form_of, render
from everhold.server.study_writer import StudyWriter
from everhold.statistics.statistic import Statistic
from everhold.trial import Trial

if TYPE_CHECKING:
    pass

__all__ = ["about_study", "router"]

router = APIRouter()

_RECENT = 8
_DRAWN = 400
_NARROW = 360  # pixels of a narrow screen's picture


def about_study(context: PageContext, study: StudyWriter) -> dict[str, Any]:
    """What a study's page shows beside the answer."""
    server, token = context.server, context.token
    status, file, schema = server.status(study, token), study.file(), study.schema
    columns = [
        {"name": name, "kind": column.kind, "declared": described(column), "example": study.examples[name]}
        for name, column in ((name, schema[name]) for name in schema)
    ]
    drawn = session_svg(file.rounds, budget=status["budget"], most_drawn=_DRAWN) if file.rounds else ""
    narrow = session_svg(file.rounds, budget=status["budget"], most_drawn=_DRAWN, wide=_NARROW) if file.rounds else ""
    public = server.config.public_url
    return {
        "session": context.signin,
        "here": "studies",
        "status": status,
        "columns": columns,
        "vocabulary": vocabulary(schema),
        "figure": Markup(drawn),
        "narrow_figure": Markup(narrow),
        "recent": list(reversed(file.log[-_RECENT:])),
        "kinds": KINDS,
        "fields": list(FIELDS.values()),
        "may_ask": token.allows("ask", study.name),
        "acts": act_links(token, study.name),
        "round_acts": () if status["closed"] else round_links(token, study.name),
        "url": public.rstrip("/") if public is not None else str(context.request.base_url).rstrip("/"),
    }


@router.get("/studies/{name}")
def study(served: ServedFor.READ, context: PageContextOf, question: str = "", kind: str = "share") -> Response:
    """The question box, the figure, the last questions, the columns."""
    if not isinstance(served, StudyWriter):
        return RedirectResponse(f"/{served.kind}s/{quote(served.name, safe='')}", status_code=303)
    form = QuestionForm(kind if kind in KINDS else "share", question)
    return render("study.html", **about_study(context, served), form=form, found=None)


@router.get("/studies/{name}/check")
async def check(study: StudyFor.READ, context: PageContextOf) -> Response:
    """What the public side says of a question while it is typed."""
    form = QuestionForm.parse(context.request.query_params)
    if not form.question:
        return render("check.html", said=[])
    caller = context.caller(form.kind)
    try:
        wanted = form.statistic()
        trial = await study.try_both(caller, wanted)
    except EverholdError as error:
        return render("check.html", fault=PageFault.of(error))
    return render("check.html", said=_previewed(trial, wanted, form.question, study))


@router.post("/studies/{name}/ask")
async def ask(study: StudyFor.ASK, context: PageContextOf) -> Response:
    """The answer to the question box."""
    form = QuestionForm.parse(await form_of(context))
    context.note(asked=form.kind, act=form.act, question=form.question)
    caller = context.caller(form.kind)
    card, fault = None, None
    try:
        wanted = form.statistic()
        result = await (study.act(caller, Read(wanted)) if form.act == "read" else study.ask(caller, wanted))
        card = AnswerCard.of(result, wanted, form.question, schema=study.schema)
    except EverholdError as error:
        fault = _paid(PageFault.of(error), len(caller.paid))
    about = await run_in_threadpool(about_study, context, study)
    template = "answered.html" if context.request.headers.get("hx-request") else "study.html"
    return render(template, code=200 if fault is None else fault.status, **about, form=form, found=card, fault=fault)


def _paid(fault: PageFault, parts: int) -> PageFault:
    """A question of several parts may be refused after some of them were answered."""
    if not parts:
        return fault
    many = "part was" if parts == 1 else "parts were"
    return replace(fault, then=f"{parts} {many} answered before that, and stand in the history.")


def _previewed(trial: Trial, asked: Statistic[Any], question: str, study: StudyWriter) -> list[str]:
    """What asking and what reading would show, and what each costs."""
    ask, read = (AnswerCard.of(result, asked, question, schema=study.schema) for result in (trial.ask, trial.read))
    if trial.refused:
        return [f"Cannot be asked: {trial.refused}."]
    if ask.cells:
        first = f"Can be asked: {len(ask.cells)} shares. Ask: {ask.cells[0][0]} {ask.cells[0][2]}, …, if nothing surprises"
        second = f"Read: {read.cells[0][0]} {read.cells[0][2]}, …"
    else:
        first = f"Can be asked. Ask: {ask.value}, {ask.between} if nothing surprises"
        second = f"Read: about {read.between}"
    now, then = width_factor(trial.price), width_factor(trial.price + trial.read_costs)
    return [
        f"{first}; almost free (a surprise costs at least {trial.surprise_costs:.1f} nats).",
        f"{second}; later asks are then {then:.2f} instead of {now:.2f} times a plain 95 % interval, or "
        f"wider (at least {trial.read_costs:.1f} nats).",
        *([f"{trial.charge[0].upper()}{trial.charge[1:]}."] if trial.charge else []),
    ]
