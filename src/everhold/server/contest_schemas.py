"""What contests and gates return: boards, submissions, duels, verdicts on candidates."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from everhold.server.result_schemas import AnswerOut, NumberOut

__all__ = [
    "BoardOut",
    "ContestOut",
    "DuelOut",
    "FinalScoreOut",
    "GateCheckOut",
    "GatePrivacyOut",
    "GateStatusOut",
    "PlaceOut",
    "RankingPreviewOut",
    "ScoreOut",
    "SubmissionOut",
    "TotalGainOut",
]


class PlaceOut(BaseModel):
    """A line of the board."""

    rank: int = Field(description="Where it is listed. Entrants that share a rank are tied.")
    best_rank: int = Field(description="The rank set: the best rank that is possible.")
    worst_rank: int = Field(description="The rank set: the worst rank that is possible.")
    beats: int = Field(description="How many others it is certified to be better than.")
    others: int = Field(description="How many others there are.")
    entrant: str
    value: float
    low: float
    high: float
    round: int = Field(description="Of the submission that counts.")
    submissions: int
    when: str
    forecast: bool = Field(description="Whether the score was only foreseen, and not measured.")


class _Unranked(BaseModel):
    entrant: str
    reason: str


class BoardOut(BaseModel):
    """Where everybody stands."""

    title: str
    metric: str
    larger_is_better: bool
    places: list[PlaceOut]
    unranked: list[_Unranked]
    reveals: str
    final: bool = Field(description="Whether the contest has ended with its last ranking.")
    head: str | None = Field(description="Null where a contest keeps it from entrants.")
    price: float | None
    privacy: str | None = Field(description="Of a private contest: what is promised, spent and left, in words.")


class DuelOut(BaseModel):
    """What a duel certified."""

    first: str
    second: str
    better: bool = Field(description="Whether the first is certified better; false: the rows do not show it.")


class RankingPreviewOut(BaseModel):
    """What a duel or the last ranking would do and cost."""

    kind: Literal["ranking preview"]
    entrants: list[str]
    rounds: list[int] = Field(description="Of each entrant, the round of the submission that counts.")
    duels: int
    rows: int = Field(description="How many rows are judged.")
    sealed: bool = Field(description="Whether nothing was disclosed of these rows.")
    last: bool
    price: float = Field(description="What one duel is judged at, in nats.")
    cost: float = Field(description="By how many nats all later intervals become more expensive.")
    differing: int | None = Field(description="Rows on which two entrants' predictions differ.")
    needed: int | None = Field(description="Of these, how many the first must be right on; null where it is not known.")
    text: str = Field(description="The same in sentences.")


class ContestOut(BaseModel):
    """The rules of a contest."""

    title: str
    task: Literal["classification", "regression"]
    metric: str
    larger_is_better: bool
    classes: list[Any]
    low: float | None
    high: float | None
    id_column: str
    prediction_column: str
    most_bytes: int
    max_per_day: int | None
    ladder: bool
    confidence: float
    half_width: float | None
    sealed: float = Field(description="The part of the rows that only the last ranking uses.")
    sealed_digest: str | None
    privacy: dict[str, float] | None = Field(description="What is promised about every label: epsilon, delta, surprises.")
    reveals: str
    ids: list[str]


class ScoreOut(NumberOut):
    """A metric's value, in its own units."""

    kind: Literal["score"]
    what: str
    metric: str
    unit: Literal["number", "date"]
    bottom: float | None = Field(description="The smallest value that the metric can have.")
    top: float | None = Field(description="The largest.")
    parts: list[AnswerOut]


class FinalScoreOut(BaseModel):
    """A score of the last ranking, with its interval."""

    value: float
    low: float
    high: float


class SubmissionOut(BaseModel):
    """What became of a submission."""

    entrant: str
    state: Literal["scored", "repeated", "malformed", "too large", "too soon", "closed"]
    reason: str
    improved: bool
    row: int | None
    column: str | None
    note: str = Field(description="Which submission counts, and what their order changes; empty without a score.")
    counts: bool = Field(description="Whether this is the submission that counts for the entrant now.")
    score: ScoreOut | None
    final: FinalScoreOut | None = Field(description="In the last ranking, where the contest has ended and it was ranked.")


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
    generation: int
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
