"""What reading a study returns: where it stands, its log, an audit."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from everhold.server.result_schemas import AnswerOut

__all__ = [
    "ActOut",
    "AuditOut",
    "CellOut",
    "ColumnOut",
    "LogOut",
    "PrivacyOut",
    "QuestionOut",
    "RoundOut",
    "StatusOut",
    "StudiesOut",
    "StudyOut",
]


class RoundOut(AnswerOut):
    """A round of the record."""

    question: str
    time: str
    who: str | None
    request_id: str | None


class EndsOut(BaseModel):
    """A value and its interval."""

    value: float | None
    low: float
    high: float


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
    shown_range: list[float] | None = Field(
        default=None, description="Of given values: what the least and the greatest one stand for, in units of their own."
    )
    estimate: EndsOut | None = Field(
        default=None, description="Value and interval in these units; `value`, `low` and `high` are on the scale of shares."
    )
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
    """Where a study stands. Every number is a function of public facts, coins and the record of what was disclosed."""

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
