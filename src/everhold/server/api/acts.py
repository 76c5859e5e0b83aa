"""Acts beyond asking: a route for each, from its own description."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from everhold.acts import ACTS, AnyAct, as_body, to_result
from everhold.server.dependencies import ContextOf, study_for
from everhold.server.request_schemas import ActBody, act_body
from everhold.server.result_schemas import act_schema
from everhold.server.study_writer import StudyWriter

__all__ = ["router"]

router = APIRouter(tags=["acts"])


def _add(kind: type[AnyAct]) -> None:
    async def act(study: StudyWriter, context: ContextOf, body: ActBody) -> Response:
        wanted = body.act(kind.name)
        context.server.require_few(wanted)
        context.note(act=kind.name, **as_body(wanted))
        caller = context.caller(f"act_{kind.name}", body.request_id)
        return JSONResponse(to_result(await study.act(caller, wanted)))

    act.__annotations__ |= {"study": study_for(kind.permission), "body": act_body(kind)}
    about = (kind.__doc__ or "").strip()
    who = "custodians" if kind.permission == "manage" else "analysts and custodians"
    router.add_api_route(
        f"/studies/{{name}}/{kind.name}",
        act,
        methods=["POST"],
        summary=about.partition(":")[0].partition(".")[0],
        description=f"{about}\n\n{kind.when}\n\nCosts: {kind.costs}\n\nFor {who}. It is recorded before it is returned.",
        response_model=act_schema(kind),
        operation_id=f"act_{kind.name}",
    )


for _kind in ACTS.values():
    _add(_kind)
