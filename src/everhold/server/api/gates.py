"""Gates: is a candidate better than the incumbent? One bit a candidate."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from everhold.gate.outcomes import Outcomes
from everhold.server.dependencies import ContextOf, GateFor
from everhold.server.gate_schemas import GateCheckOut, GateStatusOut, TotalGainOut
from everhold.server.request_schemas import GateBody, GateCheckBody

__all__ = ["router"]

router = APIRouter(tags=["gates"])


@router.post("/gates/{name}/checks", summary="Check a candidate", response_model=GateCheckOut)
async def check(gate: GateFor.ASK, context: ContextOf, body: GateCheckBody) -> Response:
    """Outcomes of a candidate on the gate's cases, by case id. If it is better, it becomes the incumbent."""
    context.note(checked=len(body.outcomes))
    artifact = None if body.artifact is None else body.artifact.encode("utf-8", "surrogatepass")
    caller = context.caller("check", body.request_id)
    outcomes = Outcomes.of(body.outcomes, strict=False, printed=body.printed)
    result = await gate.check(outcomes, caller, name=body.name, artifact=artifact)
    return JSONResponse(result.to_dict())


@router.post("/gates/{name}/decide", summary="Check the candidates that wait", response_model=GateCheckOut)
async def decide(gate: GateFor.ASK, context: ContextOf, body: GateBody) -> Response:
    """Choose among the candidates of a generation that is not full."""
    result = await gate.decide(context.caller("decide", body.request_id))
    return JSONResponse(result.to_dict())


@router.post("/gates/{name}/finish", summary="The total gain: the last act", response_model=TotalGainOut)
async def finish(gate: GateFor.MANAGE, context: ContextOf, body: GateBody) -> Response:
    """How much better the incumbent is than the first one. Nothing is checked afterwards."""
    gain = await gate.finish(context.caller("finish", body.request_id))
    return JSONResponse(gain.to_dict())


@router.get("/gates/{name}", summary="Where a gate stands", response_model=GateStatusOut)
def status(gate: GateFor.READ) -> Response:
    """What was checked, what is left, what the contract is. Public facts only."""
    return JSONResponse(gate.status().to_dict())
