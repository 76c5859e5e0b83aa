"""The acts of a study: an overview, and a page for each with its form, its preview and its result.

An act is done in two steps. The first shows what it would show and cost; only the second, which repeats exactly what was
previewed, goes to the writer.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from everhold.acts import ACTS, AnyAct, Certify, as_body, questions_of
from everhold.errors import EverholdError
from everhold.ledger.reader import LoggedRound
from everhold.queries.disclosed import Choice
from everhold.server.act_forms import (
    ActForm,
    act_cards,
    fingerprint,
    is_final,
    shown_fields,
    statistic_fields,
    takes_questions,
)
from everhold.server.dependencies import PageContext, PageContextOf, ServedFor, study_for
from everhold.server.forms import AnswerCard
from everhold.server.pages.rendering import PageFault, form_of, render
from everhold.server.pages.study import about_study
from everhold.server.study_writer import StudyWriter
from everhold.session.act_preview import ActPreview
from everhold.session.act_questions import checked_spend

__all__ = ["router"]

router = APIRouter()

_SHOWN = 20  # results of a preview that are shown


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the page of an act shows besides its form.

    Attributes:
        wrong: what is wrong with the form, so that there is no preview.
        sentences: the preview.
        priced: whether these say what later intervals are.
        expected, unshown: the intervals to expect, and how many more there are.
        previewed: which act was previewed; empty: none.
        request_id: under which it will be done.
        changed: whether the form is not the one that was previewed.
        unsure: whether the last act was not confirmed.
        fault, cards: why the act was refused, or what it returned.
        next: the candidate that was chosen, to be read next.
    """

    wrong: PageFault | None = None
    sentences: tuple[str, ...] = ()
    priced: bool = False
    expected: tuple[AnswerCard, ...] = ()
    unshown: int = 0
    previewed: str = ""
    request_id: str = ""
    changed: bool = False
    unsure: bool = False
    fault: PageFault | None = None
    cards: tuple[AnswerCard, ...] = ()
    next: str = ""

    @property
    def status(self) -> int:
        """Of the response."""
        fault = self.fault or self.wrong
        return fault.status if fault is not None else 422 if self.unsure else 200


@router.get("/studies/{name}/acts")
def acts(served: ServedFor.READ, context: PageContextOf) -> Response:
    """Every act: what it does, when to use it, what it costs."""
    if not isinstance(served, StudyWriter):
        return RedirectResponse(f"/{served.kind}s/{quote(served.name, safe='')}", status_code=303)
    return render("acts.html", **about_study(context, served))


def _add(kind: type[AnyAct]) -> None:
    """The page of an act, from its own description."""

    async def show(study: StudyWriter, context: PageContextOf) -> Response:
        form = ActForm.parse(kind, context.request.query_params)
        shown = _Shown()
        if form.complete and form.texts and not study.progress.closed:
            shown = await _preview(context, study, form)
        return await _page(context, study, form, shown)

    async def send(study: StudyWriter, context: PageContextOf) -> Response:
        given = await form_of(context)
        form = ActForm.parse(kind, given)
        if given.get("do") != "yes":
            typing = context.request.headers.get("hx-trigger") == "fields"
            shown = _Shown() if typing and not form.complete else await _preview(context, study, form)
        else:
            shown = await _done(context, study, form, given)
        return await _page(context, study, form, shown)

    for route, method in ((show, "GET"), (send, "POST")):
        route.__annotations__["study"] = study_for(kind.permission)
        router.add_api_route(f"/studies/{{name}}/acts/{kind.name}", route, methods=[method])


for _kind in ACTS.values():
    _add(_kind)


async def _preview(context: PageContext, study: StudyWriter, form: ActForm) -> _Shown:
    """What the act would show and cost, or what is wrong with it."""
    caller = context.caller("try_out")
    try:
        wanted, _ = form.act()
        context.server.require_few(wanted)
        preview = await study.try_act(caller, wanted)
    except EverholdError as error:
        return _Shown(wrong=PageFault.of(error))
    cards = act_cards(wanted, list(preview.results), schema=study.schema) if preview.results else []
    return _Shown(
        sentences=_sentences(study, wanted, preview),
        priced=bool(preview.cost_text),
        expected=tuple(cards[:_SHOWN]),
        unshown=max(0, len(cards) - _SHOWN),
        previewed=fingerprint(wanted),
        request_id=secrets.token_urlsafe(12),
    )


def _round(study: StudyWriter, wanted: AnyAct) -> LoggedRound | None:
    """The earlier round that an act is about, if it has left."""
    number = wanted.round if isinstance(wanted, Certify) else 0
    return next(iter(study.file().rounds[number - 1 : number]), None) if number else None


def _sentences(study: StudyWriter, wanted: AnyAct, preview: ActPreview) -> tuple[str, ...]:
    """A preview in sentences."""
    sentences = []
    if isinstance(wanted, Certify) and (past := _round(study, wanted)) is not None:
        price = study.progress.budget.claim_price(checked_spend(wanted.spend))
        sentences.append(
            f"Round {past.round:,}, {past.question}: {past.value_text} in {past.interval_text}, computed at "
            f"{past.answer.price:.1f} nats. Certified at {price:.1f} nats, the interval is narrower."
        )
    if is_final(type(wanted)):
        many = len(questions_of(wanted))
        read = "Nothing is read" if not many else "1 question is read" if many == 1 else f"{many:,} questions are read"
        sentences.append(f"{read}, then the study is closed: nothing private is read again.")
    if cost := preview.cost_text:
        more = ", if the forecasts fit; wider if they are off" if preview.results else ""
        sentences.append(f"{cost[:1].upper()}{cost[1:]}{more}.")
    if charge := preview.charge:
        sentences.append(f"{charge[:1].upper()}{charge[1:]}.")
    return tuple(sentences)


async def _done(context: PageContext, study: StudyWriter, form: ActForm, given: dict[str, Any]) -> _Shown:
    """The result of an act that was previewed; the preview of anything else."""
    try:
        sent = given.get("request_id")
        wanted, request_id = form.act(sent if isinstance(sent, str) and sent else None)
        context.server.require_few(wanted)
        if given.get("previewed") != fingerprint(wanted):
            return replace(await _preview(context, study, form), changed=True)
        if is_final(form.kind) and given.get("sure") != "yes":
            return replace(await _preview(context, study, form), unsure=True)
        context.note(act=wanted.name, **as_body(wanted))
        caller = context.caller(f"act_{wanted.name}", request_id)
        result = await study.act(caller, wanted)
    except EverholdError as error:
        return _Shown(fault=PageFault.of(error))
    past = _round(study, wanted)
    question = "" if past is None else past.question
    chosen = questions_of(wanted)[result.index] if isinstance(result, Choice) else None
    cards = tuple(act_cards(wanted, result, question, study.schema))
    return _Shown(cards=cards, next=chosen if isinstance(chosen, str) else "")


async def _page(context: PageContext, study: StudyWriter, form: ActForm, shown: _Shown) -> Response:
    """The whole page, or the part of it that changes."""
    kind, part = form.kind, bool(context.request.headers.get("hx-request"))
    values: dict[str, Any] = {"shown": shown, "form": form, "kind": kind, "final": is_final(kind)}
    if part and not (shown.cards or shown.fault):
        preview = render("act_preview.html", code=shown.status, status={"name": study.name}, **values)
        preview.headers["HX-Retarget"] = "#preview"
        return preview
    about = await run_in_threadpool(about_study, context, study)
    values |= {
        "fault": shown.fault,
        "found": None,
        "act_fields": shown_fields(kind),
        "statistic_fields": statistic_fields(kind),
        "takes_questions": takes_questions(kind),
    }
    return render("acted.html" if part else "act.html", code=shown.status, **about, **values)
