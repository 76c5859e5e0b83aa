"""What gates return: verdicts on candidates, where they stand, the total gain."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

__all__ = ["GateCheckOut", "GatePrivacyOut", "GateStatusOut", "TotalGainOut"]


class GateCheckOut(BaseModel):
    """The verdict on a candidate."""

    kind: Literal["gate_check"]
    verdict: Literal["promote", "keep", "wait"]
    promoted: bool
    state: Literal["promoted", "kept", "screened", "waiting", "same"]
    name: str
    winner: str | None
    by: float
    certified: bool
    checks: int
    promotions: int
    waiting: int
    price: float
    repeated: bool = Field(description="The recorded verdict of an earlier request: these outcomes were not checked.")
    reason: str
    is_incumbent: bool = Field(default=False, description="Whether a candidate of that name is already the incumbent.")


class GatePrivacyOut(BaseModel):
    """What a private gate promises about every sealed case, what of it is spent, and what is left."""

    epsilon: float
    delta: float
    promotions_charged: int = Field(description="Promotions, and checks that were interrupted.")
    releases_charged: int = Field(description="The total gain at the end.")
    share_left: float = Field(description="Of the whole budget.")
    promotions_left: int
    text: str = Field(description="The same in words.")


class GateStatusOut(BaseModel):
    """Where a gate stands."""

    kind: Literal["gate_status"]
    cases: int
    visible: int
    outcomes: Literal["pass", "score"]
    by: float
    certify: Literal["each", "final"]
    generation_size: int
    confidence: float
    checks: int
    promotions: int
    interrupted: int
    waiting: int
    incumbent: str
    price: float
    left: dict[str, int]
    used_up: bool
    finished: bool
    new_budget: str | None
    head: str
    privacy: GatePrivacyOut | None = Field(description="Null where no privacy is promised.")
    step: float | None = Field(description="The smallest gain that matters, where the gate was made for one.")
    smallest: float | None = Field(
        description="A step that the next check certifies with a probability of 80 %; null where there is none."
    )
    left_at_first: dict[str, int] = Field(description="What `left` was before the first check.")
    older: bool = Field(default=False, description="Whether the registry knows a newer copy of this gate.")


class TotalGainOut(BaseModel):
    """How much better the last incumbent of a gate is than the first."""

    kind: Literal["total_gain"]
    gain: float
    low: float
    promotions: int
    price: float
    certified: bool
