"""The shapes of HTTP: every body that is taken, every answer that is returned, with examples."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

from everhold.queries.answer import Answer
from everhold.statistics.declared import Declared
from everhold.statistics.finding import Comparison, Finding, Shares
from everhold.statistics.parameters import Form, parameters
from everhold.statistics.statistic import Statistic

__all__ = [
    "AnswerOut",
    "Ask",
    "AskMany",
    "AskedMany",
    "AuditOut",
    "BoardOut",
    "Body",
    "CellOut",
    "ColumnOut",
    "ComparisonOut",
    "ContestOut",
    "Fault",
    "FindingOut",
    "LogOut",
    "PlaceOut",
    "PreviewOut",
    "QuestionOut",
    "RoundOut",
    "ScoreOut",
    "SharesOut",
    "StatisticBody",
    "StatusOut",
    "StudiesOut",
    "StudyOut",
    "SubmissionOut",
    "TokenMade",
    "TokenNew",
    "TokenOut",
    "TokensOut",
    "TryOut",
    "result_schema",
    "statistic_body",
]

Question = Annotated[str, Field(max_length=4_000, description="A yes/no question, such as age > 40 AND smoker.")]
RequestId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=r"^[\x21-\x7e]+$"),
    Field(description="Asked again under the same id, the same answer is returned and nothing is charged."),
]


class Body(BaseModel):
    """Taken as it is: no unknown fields, no numbers in quotes."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _example(**given: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [given]})


class Ask(Body):
    """One question."""

    model_config = _example(question="age > 40 AND smoker", request_id="6f1c2a")
    question: Question
    request_id: RequestId | None = None


class AskMany(Body):
    """Several questions, all of which are checked before the first is charged."""

    model_config = _example(questions=["age > 40", "smoker"], request_id="6f1c2b")
    questions: list[Question] = Field(min_length=1, max_length=100_000)
    request_id: RequestId | None = None


class TryOut(Body):
    """A question for the public side alone."""

    model_config = _example(question="age > 40")
    question: Question


class StatisticBody(Body):
    """What all statistics share."""

    request_id: RequestId | None = None
    rehearse: bool = Field(default=False, description="Ask the public side alone: nothing is spent.")

    def arguments(self) -> dict[str, Any]:
        """The statistic's own arguments."""
        return self.model_dump(exclude={"request_id", "rehearse"}, exclude_none=True)


_Finite = Annotated[float, Field(allow_inf_nan=False)]
_FORMS: dict[Form, Any] = {
    "expression": Annotated[str, Field(max_length=4_000)],
    "end": _Finite | Annotated[str, Field(max_length=40)],
    "real": _Finite,
    "count": Annotated[int, Field(ge=1, le=1_000)],
    "edges": Annotated[list[_Finite | Annotated[str, Field(max_length=40)]], Field(max_length=1_001)],
    "range": Annotated[list[_Finite], Field(min_length=2, max_length=2)],
}


def statistic_body(kind: type[Statistic[Any]]) -> type[StatisticBody]:
    """The body that asks for a statistic, from its own description."""
    fields: dict[str, Any] = {}
    for one in parameters(kind):
        form = _FORMS[one.role.form]
        about = Field(description=one.role.about) if one.required else Field(one.default, description=one.role.about)
        fields[one.name] = (form if one.required else form | None, about)
    made: type[StatisticBody] = create_model(kind.__name__, __base__=StatisticBody, __doc__=kind.__doc__, **fields)
    made.model_config["json_schema_extra"] = {"examples": [dict(kind.example)]}
    return made


def result_schema(kind: type[Statistic[Any]]) -> Any:
    """What a statistic returns, from the type of its steps."""
    hints = get_type_hints(kind.steps, globalns={**vars(sys.modules[kind.__module__]), **_RESULTS, **_LATER})
    found = get_args(hints["return"])[2]
    schemas = [_SCHEMAS[one] for one in (get_args(found) or (found,))]
    return Union[tuple(schemas)]  # noqa: UP007


# returned -------------------------------------------------------------------------------------------------------------


class _Returned(BaseModel):
    value: float | None = Field(description="The estimate; null where no row was seen that it could be about.")
    low: float | None = Field(description="Lower end of the interval for the population; null: open.")
    high: float | None = Field(description="Upper end; null: open.")
    surprise: bool = Field(
        description="Whether the sketch was off by more than the tolerance: the answer uses private data."
    )
    round: int = Field(description="The number of the question in its study.")
    spent: float = Field(description="The price in nats that the interval was computed with.")


class AnswerOut(_Returned):
    """An answer."""

    kind: Literal["answer"]
    scale: Literal["share", "mean"]


class FindingOut(_Returned):
    """A number made of several answers."""

    kind: Literal["finding"]
    what: str
    unit: Literal["number", "date"]
    parts: list[AnswerOut]


class ComparisonOut(_Returned):
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
    spent: float
    surprise_costs: float


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
    spent: float
    time: str
    who: str | None
    request_id: str | None
    parts: list[RoundOut] = Field(description="The rounds that a statistic was made of.")
    scale: Literal["share", "mean"] | None = None
    statistic: str | None = None
    arguments: dict[str, Any] | None = None
    unit: Literal["number", "date"] | None = None
    cells: list[CellOut] | None = None
    after: int | None = None


class LogOut(BaseModel):
    """A page of the log."""

    questions: list[QuestionOut]
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


class StatusOut(BaseModel):
    """Where a study stands. Every number is a function of public facts, coins and the record of surprises."""

    name: str
    kind: Literal["study", "contest"]
    questions: int
    surprises: int | None = Field(description="Null where a contest keeps it from entrants.")
    rows: int
    unit: str | None
    confidence: float
    half_width: float | None
    spent: float | None
    budget: float | None = Field(description="The price at which a promised precision is used up; null: never.")
    sampling_half_width: float | None
    prior: str
    created: str
    head: str | None
    guarantee: str


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

    rank: int
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
    head: str | None = Field(description="Null where a contest keeps it from entrants.")
    spent: float | None


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
    reveals: str
    ids: list[str]


class ScoreOut(_Returned):
    """A metric's value, in its own units."""

    kind: Literal["score"]
    what: str
    metric: str
    unit: Literal["number", "date"]
    bottom: float | None = Field(description="The smallest value that the metric can have.")
    top: float | None = Field(description="The largest.")
    parts: list[AnswerOut]


class SubmissionOut(BaseModel):
    """What became of a submission."""

    entrant: str
    state: Literal["scored", "repeated", "malformed", "too large", "too soon", "closed"]
    reason: str
    improved: bool
    row: int | None
    column: str | None
    score: ScoreOut | None


class TokenNew(Body):
    """A token to make."""

    model_config = _example(name="ann", scope="analyst", studies=["patients"], days=90)
    name: str = Field(min_length=1, max_length=100)
    scope: Literal["custodian", "analyst", "auditor"] = "analyst"
    studies: list[Annotated[str, Field(max_length=200)]] = Field(default_factory=list, max_length=1_000)
    days: float | None = None


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


_SCHEMAS = {Answer: AnswerOut, Finding: FindingOut, Comparison: ComparisonOut, Shares: SharesOut}
_RESULTS = {one.__name__: one for one in _SCHEMAS}
_LATER = {"Batch": list, "Declared": Declared, "Generator": Generator, "Sequence": Sequence}
