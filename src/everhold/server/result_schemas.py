"""What asking, trying and acting return: a model for each, with the one of every statistic and act."""

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
    "AnswerOut",
    "AnyResult",
    "AskedMany",
    "ChoiceOut",
    "ComparisonOut",
    "DecisionOut",
    "FindingOut",
    "NumberOut",
    "PreviewOut",
    "ResultsOut",
    "SharesOut",
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


class NumberOut(BaseModel):
    """A number with its interval."""

    value: float | None = Field(description="The estimate; null where no row was seen that it could be about.")
    low: float | None = Field(description="Lower end of the interval for the population; null: open.")
    high: float | None = Field(description="Upper end; null: open.")
    surprise: bool = Field(
        description="Whether the sketch was off by more than the tolerance: the answer uses private data."
    )
    round: int = Field(description="The number of the question in its study.")
    price: float = Field(description="The price in nats that the interval was computed with.")


class AnswerOut(NumberOut):
    """An answer."""

    kind: Literal["answer"]
    scale: Literal["share", "mean"]
    act: Literal["ask", "read", "close"] = Field(
        description="'ask': a forecast that the private rows agree with, or a surprise; else the private rows' own value."
    )


class FindingOut(NumberOut):
    """A number made of several answers."""

    kind: Literal["finding"]
    what: str
    unit: Literal["number", "date"]
    act: Literal["ask", "read", "close"]
    parts: list[AnswerOut]


class ComparisonOut(NumberOut):
    """A difference, and what it says."""

    kind: Literal["comparison"]
    what: str
    unit: Literal["number", "date"]
    act: Literal["ask", "read", "close"]
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
    refused: str = Field(description="Why an ask would be refused, in words; empty where it would be answered.")


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
