"""What contests return: boards, submissions, duels."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from everhold.server.result_schemas import AnswerOut, NumberOut

__all__ = [
    "BoardOut",
    "ContestOut",
    "DuelOut",
    "FinalScoreOut",
    "PlaceOut",
    "RankingPreviewOut",
    "ScoreOut",
    "SubmissionOut",
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
