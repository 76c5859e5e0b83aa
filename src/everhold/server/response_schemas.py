"""What is returned: a model for every response, with examples."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from typing import Any, Literal, Union, get_args, get_type_hints

from pydantic import BaseModel, Field

from everhold.acts import AnyAct
from everhold.queries.answer import Answer
from everhold.statistics.declared import DeclaredColumns
from everhold.statistics.finding import Comparison, Finding, Shares
from everhold.statistics.statistic import Statistic

__all__ = [
    "ActOut",
    "AnswerOut",
    "AskedMany",
    "AuditOut",
    "BoardOut",
    "CellOut",
    "ChoiceOut",
    "ColumnOut",
    "ComparisonOut",
    "ContestOut",
    "DecisionOut",
    "Fault",
    "FindingOut",
    "GateCheckOut",
    "GateStatusOut",
    "LogOut",
    "PlaceOut",
    "PreviewOut",
    "QuestionOut",
    "ResultsOut",
    "RoundOut",
    "ScoreOut",
    "SharesOut",
    "StatusOut",
    "StudiesOut",
    "StudyOut",
    "SubmissionOut",
    "TokenMade",
    "TokenOut",
    "TokensOut",
    "TotalGainOut",
    "TrialOut",
    "VerdictOut",
    "act_schema",
    "result_schema",
]


def act_schema(kind: type[AnyAct]) -> Any:
    """What an act returns."""
    return _RETURNED_BY[kind.name]


def result_schema(kind: type[Statistic[Any]]) -> Any:
    """What a statistic returns, from the type of its steps."""
    hints = get_type_hints(kind.steps, globalns={**vars(sys.modules[kind.__module__]), **_RESULTS, **_LATER})
    found = get_args(hints["return"])[2]
    schemas = [_SCHEMAS[one] for one in (get_args(found) or (found,))]
    return Union[tuple(schemas)]  # noqa: UP007


class _ResultOut(BaseModel):
    value: float | None = Field(description="The estimate; null where no row was seen that it could be about.")
    low: float | None = Field(description="Lower end of the interval for the population; null: open.")
    high: float | None = Field(description="Upper end; null: open.")
    surprise: bool = Field(
        description="Whether the sketch was off by more than the tolerance: the answer uses private data."
    )
    round: int = Field(description="The number of the question in its study.")
    price: float = Field(description="The price in nats that the interval was computed with.")


class AnswerOut(_ResultOut):
    """An answer."""

    kind: Literal["answer"]
    scale: Literal["share", "mean"]
    act: Literal["ask", "read", "close"] = Field(
        description="'ask': a forecast that the private rows agree with, or a surprise; else the private rows' own value."
    )


class FindingOut(_ResultOut):
    """A number made of several answers."""

    kind: Literal["finding"]
    what: str
    unit: Literal["number", "date"]
    parts: list[AnswerOut]


class ComparisonOut(_ResultOut):
    """A difference, and what it says."""

    kind: Literal["comparison"]
    what: str
    unit: Literal["number", "date"]
    verdict: Literal["yes", "no", "cannot tell"]
    parts: list[AnswerOut]


class _AnswerCell(AnswerOut):
    label: list[str]


class _FindingCell(FindingOut):
    label: list[str]


class SharesOut(BaseModel):
    """Shares by one or two columns."""

    kind: Literal["shares"]
    what: str
    cells: list[_AnswerCell | _FindingCell]


AnyResult = AnswerOut | FindingOut | ComparisonOut | SharesOut
"""What a question or a statistic returns."""


class AskedMany(BaseModel):
    """Answers, in order."""

    answers: list[AnswerOut]


class PreviewOut(BaseModel):
    """What the public side alone says of a question."""

    kind: Literal["preview"]
    prior: float
    sketch: float
    low: float
    high: float
    tolerance: float
    scale: Literal["share", "mean"]
    price: float
    surprise_costs: float
    read_low: float
    read_high: float
    read_price: float
    read_costs: float = Field(description="Nats that a reading adds to all later prices, if it finds the forecast.")


class TrialOut(BaseModel):
    """What asking and what reading would show, and what each costs."""

    kind: Literal["trial"]
    ask: AnyResult
    read: AnyResult
    price: float
    surprise_costs: float
    read_costs: float
    charge: str = Field(description="What a private study's budget would pay, in words; empty where nothing is promised.")


class ResultsOut(BaseModel):
    """Results, in order."""

    results: list[AnyResult]


class ChoiceOut(BaseModel):
    """Which one is largest on the private rows."""

    kind: Literal["choice"]
    index: int = Field(description="Its place in the list, the first being 0.")
    candidates: int
    disclosed: float = Field(description="Everything disclosed so far, in nats.")
    noisy: bool = Field(default=False, description="Whether noise was used, in a private study: it is about the largest.")


class DecisionOut(BaseModel):
    """One bit."""

    kind: Literal["decision"]
    yes: bool
    disclosed: float = Field(description="Everything disclosed so far, in nats.")
    noisy: bool = Field(default=False, description="Whether noise was used, in a private study: near the margin, either.")


class VerdictOut(BaseModel):
    """A certified verdict."""

    kind: Literal["verdict"]
    outcome: Literal["first", "second", "neither"]
    verdict: Literal["yes", "no", "cannot tell"]
    price: float


class RoundOut(AnswerOut):
    """A round of the record."""

    question: str
    time: str
    who: str | None
    request_id: str | None


class CellOut(BaseModel):
    """A cell of a table."""

    label: list[str]
    value: float | None
    low: float
    high: float


class QuestionOut(BaseModel):
    """A question as it was asked: a round, or a statistic with its parts."""

    number: int = Field(description="Its place in the log.")
    kind: Literal["answer", "finding", "shares"]
    question: str
    value: float | None
    low: float | None
    high: float | None
    surprise: bool
    round: int
    price: float
    time: str
    who: str | None
    request_id: str | None
    parts: list[RoundOut] = Field(description="The rounds that a statistic was made of.")
    scale: Literal["share", "mean"] | None = None
    act: Literal["ask", "read", "close"] | None = None
    statistic: str | None = None
    arguments: dict[str, Any] | None = None
    unit: Literal["number", "date"] | None = None
    cells: list[CellOut] | None = None
    after: int | None = None


class ActOut(BaseModel):
    """An act that is not made of rounds: a choice, a bit, a verdict, a certificate."""

    number: int = Field(description="Its place in the log.")
    kind: Literal["act"]
    act: str
    question: str
    candidates: list[str] = Field(description="Of a choice, what it was made among.")
    result: dict[str, Any] | None = Field(description="What was returned; null where the act was interrupted.")
    round: int = Field(description="The last round before it.")
    price: float
    surprise: bool
    time: str
    who: str | None
    request_id: str | None
    parts: list[RoundOut] = Field(description="None.")


class LogOut(BaseModel):
    """A page of the log."""

    questions: list[QuestionOut | ActOut]
    next: int | None = Field(description="Give it as `after` for the next page; null at the end.")
    total: int = Field(description="All questions of the study.")


class ColumnOut(BaseModel):
    """A declared column."""

    name: str
    kind: str
    low: float | str | None
    high: float | str | None
    whole: bool
    categories: list[str]
    missing: bool


class PrivacyOut(BaseModel):
    """What a private study promises about every row, what of it is spent, and what is left."""

    epsilon: float
    delta: float
    surprises: int = Field(description="How many surprises the whole budget pays for.")
    surprises_charged: int
    releases_charged: int = Field(description="Readings, choices and parts of verdicts that were charged.")
    bits_charged: int = Field(description="Bits that were yes, or were interrupted.")
    share_left: float = Field(description="Of the whole budget.")
    surprises_left: int
    readings_left: int = Field(description="How many readings could be paid for instead of surprises.")
    text: str = Field(description="The same in words.")


class StatusOut(BaseModel):
    """Where a study stands. Every number is a function of public facts, coins and the record of surprises."""

    name: str
    kind: Literal["study", "contest", "gate"]
    rounds: int
    surprises: int | None = Field(description="Null where a contest keeps it from entrants.")
    rows: int
    unit: str | None
    confidence: float
    half_width: float | None
    price: float | None
    budget: float | None = Field(description="The price at which a promised precision is used up; null: never.")
    sampling_half_width: float | None
    acts: int = Field(description="Choices, bits, verdicts and certificates.")
    closed: bool = Field(description="Whether the last act was made.")
    disclosed: float | None = Field(description="Nats of everything disclosed so far.")
    claim_price: float | None = Field(description="The price in nats of the next reading or verdict.")
    width: float | None = Field(description="How many times a plain 95 % interval the next reading's interval is.")
    width_text: str | None = Field(description="The same in words.")
    privacy: PrivacyOut | None = Field(description="Null where no privacy is promised.")
    prior: str
    created: str
    head: str | None
    guarantee: str
    title: str = Field(description="What the custodian calls it; empty where nothing was said.")
    description: str
    custodian: str = Field(description="Who holds the private rows.")
    contact: str = Field(description="How to reach them.")


class StudyOut(StatusOut):
    """A study: where it stands, and its declared columns."""

    columns: list[ColumnOut]
    schema_toml: str


class StudiesOut(BaseModel):
    """The studies that a token may see."""

    studies: list[StatusOut]


class AuditOut(BaseModel):
    """What a replay without the private rows found."""

    ok: bool
    rounds: int
    surprises: int
    found: str
    head: str


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
    round: int
    submissions: int
    when: str


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


class ScoreOut(_ResultOut):
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
    note: str = Field(description="What the order of submissions changes; empty without a score.")
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
    is_incumbent: bool = False


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
    older: bool = False


class TotalGainOut(BaseModel):
    """How much better the last incumbent of a gate is than the first."""

    kind: Literal["total_gain"]
    gain: float
    low: float
    promotions: int
    price: float
    certified: bool


class TokenOut(BaseModel):
    """What is known of a token; never its secret."""

    id: str
    name: str
    scope: Literal["custodian", "analyst", "auditor"]
    studies: list[str]
    created: str
    expires: str | None
    revoked: str | None
    state: Literal["live", "expired", "revoked"]


class TokenMade(TokenOut):
    """A new token, with its secret, this once."""

    token: str


class TokensOut(BaseModel):
    """Tokens."""

    tokens: list[TokenOut]


class _FaultBody(BaseModel):
    code: str = Field(description="In a word, for programs.")
    message: str = Field(description="What is wrong, what was expected, what to do; for people.")
    request_id: str = Field(description="Of this HTTP request, as in the X-Request-ID header and the server's log.")
    details: dict[str, Any] = Field(description="More, where there is more.")


class Fault(BaseModel):
    """Every error has this shape."""

    error: _FaultBody


_RETURNED_BY: dict[str, Any] = {
    "read": AnyResult,
    "read_many": ResultsOut,
    "best_of": ChoiceOut,
    "is_better": DecisionOut,
    "compare": VerdictOut,
    "certify": AnswerOut,
    "close": ResultsOut,
}
_SCHEMAS = {Answer: AnswerOut, Finding: FindingOut, Comparison: ComparisonOut, Shares: SharesOut}
_RESULTS = {one.__name__: one for one in _SCHEMAS}
_LATER = {"QuestionBatch": list, "DeclaredColumns": DeclaredColumns, "Generator": Generator, "Sequence": Sequence}
