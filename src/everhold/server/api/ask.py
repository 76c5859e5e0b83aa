"""Questions: one, several, tried out, and a route for each statistic."""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from everhold.acts import ACTS, sent_question
from everhold.results import JsonResult
from everhold.server.dependencies import ContextOf, RequestContext, StatisticRequest, StudyFor, statistic_request
from everhold.server.errors import HTTPRefusal
from everhold.server.request_schemas import AskBody, AskManyBody, Body, TryOutBody, statistic_body
from everhold.server.result_schemas import AnyResult, AskedMany, PreviewOut, TrialOut, result_schema
from everhold.server.study_writer import StudyWriter
from everhold.statistics import STATISTICS, statistic
from everhold.statistics.parameters import arguments
from everhold.statistics.statistic import Statistic

__all__ = ["router"]

router = APIRouter(tags=["ask"])


async def _answered(
    study: StudyWriter,
    context: RequestContext,
    question: str | Statistic[Any],
    request_id: str | None,
    *,
    expect: float | None = None,
) -> Response:
    """The one way of an ask, a question or a statistic, whatever route it came by."""
    if isinstance(question, str):
        kind = "ask"
        context.note(question=question)
    else:
        kind = question.name
        context.note(asked=question.name, **arguments(question))
    result = await study.ask(context.caller(kind, request_id), question, expect=expect)
    return JSONResponse(result.to_dict())


async def _tried(
    study: StudyWriter, context: RequestContext, question: str | Statistic[Any], *, both: bool = False
) -> Response:
    """The one way of a question or a statistic on the public side."""
    caller = context.caller("try_out")
    result: JsonResult
    if both:
        result = await study.try_both(caller, question)
    elif isinstance(question, str):
        result = await study.try_out(caller, question)
    else:
        result = await study.rehearse(caller, question)
    return JSONResponse(result.to_dict())


@router.post("/studies/{name}/ask", summary="Ask one question or a statistic", response_model=AnyResult)
async def ask(study: StudyFor.ASK, context: ContextOf, body: AskBody) -> Response:
    """The share of the population that answers yes, or a statistic, with an interval. It is recorded before it is
    returned."""
    return await _answered(study, context, _question(body.question), body.request_id, expect=body.expect)


def _question(given: str | Body) -> str | Statistic[Any]:
    if isinstance(given, str):
        return given
    return cast("Statistic[Any]", sent_question(given.model_dump(exclude_none=True)))


@router.post("/studies/{name}/ask_many", summary="Ask several questions", response_model=AskedMany)
async def ask_many(study: StudyFor.ASK, context: ContextOf, body: AskManyBody) -> Response:
    """All are checked before the first is charged, and recorded at once."""
    most = context.server.config.most_questions
    if len(body.questions) > most:
        raise HTTPRefusal(413, "too_large", f"there are {len(body.questions):,} questions; a batch may have {most:,}.")
    context.server.rate.require(context.token.id, len(body.questions) / 10.0)
    context.note(questions=body.questions)
    answers = await study.ask_many(context.caller("ask_many", body.request_id), body.questions)
    return JSONResponse({"answers": [answer.to_dict() for answer in answers]})


@router.post(
    "/studies/{name}/try_out",
    summary="Try a question on the public side",
    response_model=PreviewOut | TrialOut | AnyResult,
)
async def try_out(study: StudyFor.READ, context: ContextOf, body: TryOutBody) -> Response:
    """Costs nothing and reads no private row. A question gives a preview, a statistic the result if nothing surprised, and
    with `both` either gives a trial: what asking and what reading would show."""
    return await _tried(study, context, _question(body.question), both=body.both)


def _add(kind: type[Statistic[Any]]) -> None:
    """The route of a statistic, from its own description."""

    async def ask_statistic(asked: StatisticRequest, context: ContextOf) -> Response:
        wanted = statistic(kind.name, asked.body.arguments())
        if asked.body.rehearse:
            return await _tried(asked.study, context, wanted)
        return await _answered(asked.study, context, wanted, asked.body.request_id)

    ask_statistic.__annotations__["asked"] = statistic_request(statistic_body(kind))
    about = (kind.__doc__ or "").strip()
    router.add_api_route(
        f"/studies/{{name}}/{kind.name}",
        ask_statistic,
        methods=["POST"],
        summary=about.partition("\n")[0].partition(".")[0],
        description=f"{about}\n\nParts are recorded one by one; the interval is valid whenever theirs are.",
        response_model=result_schema(kind),
        operation_id=kind.name,
    )


for _kind in STATISTICS.values():
    if _kind.name not in ACTS:  # the act has that route; the statistic is asked with POST …/ask
        _add(_kind)
