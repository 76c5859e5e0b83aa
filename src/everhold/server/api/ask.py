"""Questions: one, several, tried out, and a route for each statistic."""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from everhold.acts import ACTS, sent_question
from everhold.errors import QuestionError
from everhold.server.dependencies import Server, StatisticRequest, StudyFor, TokenOf, statistic_request
from everhold.server.errors import HTTPRefusal
from everhold.server.request_schemas import Ask, AskMany, Body, TryOut, statistic_body
from everhold.server.response_schemas import AnyResult, AskedMany, PreviewOut, TrialOut, result_schema
from everhold.statistics import STATISTICS, statistic
from everhold.statistics.parameters import arguments
from everhold.statistics.statistic import Statistic

__all__ = ["router"]

router = APIRouter(tags=["ask"])


@router.post("/studies/{name}/ask", summary="Ask one question or a statistic", response_model=AnyResult)
async def ask(study: StudyFor.ASK, token: TokenOf, server: Server, body: Ask, request: Request) -> Response:
    """The share of the population that answers yes, or a statistic, with an interval. It is recorded before it is
    returned."""
    if isinstance(body.question, str):
        request.state.note = {"question": body.question}
        caller = server.caller(request.state, token, "ask", body.request_id)
        return JSONResponse((await study.ask(caller, body.question, expect=body.expect)).to_dict())
    if body.expect is not None:
        raise QuestionError("expect is for single questions. Ask a statistic without it.")
    wanted = _statistic(body.question)
    request.state.note = {"asked": wanted.name, **arguments(wanted)}
    caller = server.caller(request.state, token, f"ask_{wanted.name}", body.request_id)
    return JSONResponse((await study.find(caller, wanted)).to_dict())


def _statistic(given: Body) -> Statistic[Any]:
    return cast("Statistic[Any]", sent_question(given.model_dump(exclude_none=True)))


@router.post("/studies/{name}/ask_many", summary="Ask several questions", response_model=AskedMany)
async def ask_many(study: StudyFor.ASK, token: TokenOf, server: Server, body: AskMany, request: Request) -> Response:
    """All are checked before the first is charged, and recorded at once."""
    most = server.config.most_questions
    if len(body.questions) > most:
        raise HTTPRefusal(413, "too_large", f"there are {len(body.questions):,} questions; a batch may have {most:,}.")
    server.rate.require(token.id, len(body.questions) / 10.0)
    request.state.note = {"questions": body.questions}
    caller = server.caller(request.state, token, "ask_many", body.request_id)
    answers = await study.ask_many(caller, body.questions)
    return JSONResponse({"answers": [answer.to_dict() for answer in answers]})


@router.post(
    "/studies/{name}/try_out",
    summary="Try a question on the public side",
    response_model=PreviewOut | TrialOut | AnyResult,
)
async def try_out(study: StudyFor.READ, token: TokenOf, server: Server, body: TryOut, request: Request) -> Response:
    """Costs nothing and reads no private row. A question gives a preview, a statistic the result if nothing surprised, and
    with `both` either gives a trial: what asking and what reading would show."""
    caller = server.caller(request.state, token, "try_out", None)
    question = body.question if isinstance(body.question, str) else _statistic(body.question)
    if body.both:
        found: Any = await study.try_both(caller, question)
    elif isinstance(question, str):
        found = await study.try_out(caller, question)
    else:
        found = await study.rehearse(caller, question)
    return JSONResponse(found.to_dict())


def _add(kind: type[Statistic[Any]]) -> None:
    """The route of a statistic, from its own description."""

    async def find(asked: StatisticRequest, token: TokenOf, server: Server, request: Request) -> Response:
        study, body = asked.study, asked.body
        wanted = statistic(kind.name, body.arguments())
        caller = server.caller(request.state, token, kind.name, body.request_id)
        request.state.note = {"asked": kind.name, **body.arguments()}
        found = await (study.rehearse if body.rehearse else study.find)(caller, wanted)
        return JSONResponse(found.to_dict())

    find.__annotations__["asked"] = statistic_request(statistic_body(kind))
    about = (kind.__doc__ or "").strip()
    router.add_api_route(
        f"/studies/{{name}}/{kind.name}",
        find,
        methods=["POST"],
        summary=about.partition("\n")[0].partition(".")[0],
        description=f"{about}\n\nParts are recorded one by one; the interval is valid whenever theirs are.",
        response_model=result_schema(kind),
        operation_id=kind.name,
    )


for _kind in STATISTICS.values():
    if _kind.name not in ACTS:  # the act has that route; the statistic is asked with POST …/ask
        _add(_kind)
