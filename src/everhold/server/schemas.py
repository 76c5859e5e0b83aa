"""What goes over the wire, described: every body that is taken, every answer that is given, with examples."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

__all__ = [
    "AnswerOut",
    "Ask",
    "AskMany",
    "AskedMany",
    "AuditOut",
    "BoardOut",
    "Body",
    "ColumnOut",
    "Compare",
    "ComparisonOut",
    "ContestOut",
    "Correlation",
    "Difference",
    "Fault",
    "FindingOut",
    "Histogram",
    "LogOut",
    "Mean",
    "PlaceOut",
    "PreviewOut",
    "Quantile",
    "Quiet",
    "RoundOut",
    "Share",
    "SharesOut",
    "StatusOut",
    "StudiesOut",
    "StudyOut",
    "SubmissionOut",
    "TableOf",
    "TokenMade",
    "TokenNew",
    "TokenOut",
    "TokensOut",
    "TryOut",
    "Variance",
]

Question = Annotated[str, Field(max_length=4_000, description="A yes/no question, such as age > 40 AND smoker.")]
Number = Annotated[str, Field(max_length=4_000, description="A column or an expression with numbers, such as bmi.")]
Given = Annotated[str | None, Field(max_length=4_000, description="Only rows for which this is true.")]
RequestId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=r"^[\x21-\x7e]+$"),
    Field(description="Asked again under the same id, the same answer is given and nothing is charged."),
]
Date = Annotated[str, Field(max_length=40, description="Of a date column: 2024-05-01.")]
Low = Annotated[
    float | Date | None, Field(description="Lower end of the range that is considered; the schema's if left out.")
]
High = Annotated[float | Date | None, Field(description="Upper end of it.")]


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


class Quiet(Body):
    """What derived questions share."""

    request_id: RequestId | None = None
    rehearse: bool = Field(default=False, description="Ask the public side alone: nothing is spent.")

    def arguments(self) -> dict[str, Any]:
        """For the method of the same name."""
        return self.model_dump(exclude={"request_id", "rehearse"}, exclude_none=True)


class Share(Quiet):
    """The share that answers yes, of all or of a group."""

    model_config = _example(question="smoker", given="age > 40")
    question: Question
    given: Given = None


class Mean(Quiet):
    """A mean, or a median."""

    model_config = _example(question="bmi", low=10.0, high=60.0, given="smoker")
    question: Number
    low: Low = None
    high: High = None
    given: Given = None


class Variance(Mean):
    """A variance."""


class Quantile(Mean):
    """A quantile."""

    model_config = _example(question="bmi", level=0.9, low=10.0, high=60.0)
    level: float = Field(description="Strictly between 0 and 1.")


class Difference(Quiet):
    """How much more of something there is in one group than in another."""

    model_config = _example(question="smoker", first="city = 'York'", second="city = 'Leeds'")
    question: Question
    first: Question
    second: Question
    low: Low = None
    high: High = None


class Compare(Quiet):
    """Is the first larger than the second?"""

    model_config = _example(first="smoker", second="age > 80")
    first: Question
    second: Question
    low: Low = None
    high: High = None
    given: Given = None


class Correlation(Quiet):
    """The correlation of two numbers."""

    model_config = _example(first="age", second="bmi")
    first: Number
    second: Number
    first_range: list[float] | None = Field(default=None, min_length=2, max_length=2)
    second_range: list[float] | None = Field(default=None, min_length=2, max_length=2)
    given: Given = None


class Histogram(Quiet):
    """Shares by bins or categories."""

    model_config = _example(question="age", bins=8)
    question: Number
    bins: int = Field(default=10, ge=1, le=1_000)
    edges: list[float] | None = Field(default=None, max_length=1_001)
    given: Given = None


class TableOf(Quiet):
    """Shares by the values of one column, or of two together."""

    model_config = _example(first="city", second="smoker")
    first: Number
    second: Number | None = None
    bins: int = Field(default=5, ge=1, le=1_000)
    given: Given = None


# told -----------------------------------------------------------------------------------------------------------------


class _Told(BaseModel):
    value: float | None = Field(description="The estimate; null where no row was seen that it could be about.")
    low: float = Field(description="Lower end of the interval for the population.")
    high: float = Field(description="Upper end.")
    surprise: bool = Field(description="Whether the public sketch was off and the private rows spoke.")
    round: int = Field(description="The number of the question in its study.")
    spent: float = Field(description="The price in nats that the interval was computed with.")


class AnswerOut(_Told):
    """An answer."""

    kind: Literal["answer"]
    scale: Literal["share", "mean"]


class FindingOut(_Told):
    """A number made of several answers."""

    kind: Literal["finding"]
    what: str
    parts: list[AnswerOut]


class ComparisonOut(_Told):
    """A difference, and what it says."""

    kind: Literal["comparison"]
    what: str
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

    prior: float
    sketch: float
    low: float
    high: float
    tolerance: float
    scale: Literal["share", "mean"]
    spent: float
    surprise_costs: float


class RoundOut(_Told):
    """A round of the record."""

    question: str
    scale: Literal["share", "mean"]
    time: str
    who: str | None
    request_id: str | None


class LogOut(BaseModel):
    """A page of the record."""

    rounds: list[RoundOut]
    next: int | None = Field(description="Give it as `after` for the next page; null at the end.")
    total: int = Field(description="All rounds of the study.")


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
    lasts: float | None = Field(description="The price at which a promised precision is used up; null: never.")
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


class SubmissionOut(BaseModel):
    """What became of a submission."""

    entrant: str
    state: Literal["scored", "repeated", "malformed", "too large", "too soon", "closed"]
    reason: str
    improved: bool
    row: int | None
    column: str | None
    metric: str | None = None
    score: float | None = None
    low: float | None = None
    high: float | None = None
    round: int | None = None
    surprise: bool | None = None
    spent: float | None = None
    top: float | None = Field(default=None, description="The largest value that the metric can have.")


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
    message: str = Field(description="What was expected, what came, what to do; for people.")
    request_id: str = Field(description="Of this HTTP request, as in the X-Request-ID header and the server's log.")
    details: dict[str, Any] = Field(description="More, where there is more.")


class Fault(BaseModel):
    """Every error has this shape."""

    error: _FaultBody
