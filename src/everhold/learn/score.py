"""What is returned of a model: a score, or the difference between two."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import exp, isfinite
from typing import TYPE_CHECKING, Any, Literal

from everhold.queries.answer import Answer
from everhold.results import JsonResult, ends_from, interval_html, number_or_null
from everhold.statistics.finding import Finding

if TYPE_CHECKING:
    from typing import Self

    from everhold.queries.disclosed import Verdict

__all__ = ["ModelVerdict", "Score", "ScoreDifference"]


@dataclass(frozen=True, slots=True, repr=False)
class Score(Finding):
    """A metric's value with an interval for the population, in the metric's own units.

    Attributes:
        bottom, top: the range that it can lie in.
    """

    bottom: float = 0.0
    top: float = 1.0

    @classmethod
    def of_share(cls, answer: Answer, metric: str, span: float) -> Score:
        """A metric that is a plain mean: a share of its span."""
        value, low, high = (span * end for end in (answer.value, answer.low, answer.high))
        return cls(metric, value, low, high, (answer,), bottom=0.0, top=span)

    @property
    def metric(self) -> str:
        """Which metric."""
        return self.what

    @property
    def title(self) -> str:
        """The metric in words: a log loss with the least probability that it counts."""
        clipped = self.metric == "log_loss" and self.bottom == 0.0 and isfinite(self.top)
        return f"{self.metric} (probabilities at least {exp(-self.top):.2g})" if clipped else self.metric

    @property
    def is_forecast(self) -> bool:
        """Whether the private rows measured none of its parts, or not all: such a score does not rank models."""
        return self.forecast_parts > 0

    @property
    def forecast_parts(self) -> int:
        """How many of its parts are forecasts that the private rows do not contradict. The others are measured."""
        return sum(part.act == "ask" and not part.surprise for part in self.parts)

    @property
    def source(self) -> str:
        """Where its value comes from: 'private reading', 'surprise', 'partly forecast' or 'forecast only'."""
        if not self.parts:
            return "known beforehand"
        if self.read:
            return "private reading"
        forecasts = self.forecast_parts
        if not forecasts:
            return "surprise" if self.seen else "charged"
        return "partly forecast" if forecasts < len(self.parts) else "forecast only"

    @property
    def value_text(self) -> str:
        """The value for people: two digits of the interval's width, because a reading's value is the middle of a cell."""
        if not self.seen:
            return "no such rows seen"
        decimals = self.interval.decimals - 1
        return f"{round(self.value, decimals) + 0.0:,.{max(decimals, 0)}f}"

    @property
    def kind_text(self) -> str:
        """What the value is, in words."""
        if self.source == "partly forecast":
            measured = len(self.parts) - self.forecast_parts
            return f"partly forecast: {measured} of {len(self.parts)} questions measured on the private rows"
        return Finding.kind_text.fget(self)  # type: ignore[attr-defined,no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        ends = {"bottom": number_or_null(self.bottom), "top": number_or_null(self.top)}
        return {**Finding.to_dict(self), "kind": "score", "metric": self.metric, **ends}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Self:
        """The same again, equal to the bit."""
        return cls(given["metric"], *ends_from(given), **cls.fields_from(given))

    @staticmethod
    def fields_from(given: dict[str, Any]) -> dict[str, Any]:
        """Everything but its name and its ends, from JSON."""
        bottom, top = ends_from({"value": None, "low": given["bottom"], "high": given["top"]})[1:]
        parts = tuple(Answer.from_dict(part) for part in given["parts"])
        return {"parts": parts, "unit": given["unit"], "bottom": bottom, "top": top}

    def __str__(self) -> str:
        asked = "" if len(self.parts) < 2 else f"{len(self.parts)} questions, "
        mark = f", {self.source}" if self.parts else ""
        value = f"{self.value_text} in" if self.seen else f"{self.value_text};"
        return f"{self.title} {value} {self.interval} ({asked}round {self.round}{mark}, {self.price:.1f} nats)"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def _repr_html_(self) -> str:
        notes = f"round {self.round:,} · {self.price:.1f} nats{f' · {self.source}' if self.is_forecast else ''}"
        text = f"{escape(self.title)} <b>{escape(self.value_text)}</b>{' in' if self.seen else ';'} {self.interval}"
        return interval_html(text, self, self.bottom, self.top, notes)


@dataclass(frozen=True, slots=True, repr=False)
class ScoreDifference(Score):
    """The difference between two models, and what it says of the first."""

    larger_is_better: bool = True

    @property
    def verdict(self) -> Literal["better", "worse", "cannot tell"]:
        """Whether the first model is better than the second."""
        low, high = (self.low, self.high) if self.larger_is_better else (-self.high, -self.low)
        if low > 0.0:
            return "better"
        return "worse" if high < 0.0 else "cannot tell"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        more = {"verdict": self.verdict, "larger_is_better": self.larger_is_better}
        return {**Score.to_dict(self), "kind": "score difference", **more}

    @staticmethod
    def fields_from(given: dict[str, Any]) -> dict[str, Any]:
        """Everything but its name and its ends, from JSON."""
        return {**Score.fields_from(given), "larger_is_better": given["larger_is_better"]}

    def __str__(self) -> str:
        return f"{self.verdict}: {Score.__str__(self)}"

    @property
    def title(self) -> str:
        """What it is a difference of."""
        return f"difference in {Score.title.fget(self)}"  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        return f"<b>{self.verdict}</b>{Score._repr_html_(self)}"


@dataclass(frozen=True, slots=True)
class ModelVerdict(JsonResult):
    """Which of two models is better in the population, certified. Valid at the same time as every interval.

    Attributes:
        metric: by which.
        verdict: of the first model: 'better', 'worse', or 'cannot tell' where the private rows do not show it.
        price: the price in nats that it was judged at.
    """

    metric: str
    verdict: Literal["better", "worse", "cannot tell"]
    price: float

    @classmethod
    def of(cls, larger: Verdict, metric: str, larger_is_better: bool) -> ModelVerdict:
        """From which value is larger."""
        first: Literal["first", "second"] = "first" if larger_is_better else "second"
        if larger.outcome == "neither":
            return cls(metric, "cannot tell", larger.price)
        return cls(metric, "better" if larger.outcome == first else "worse", larger.price)

    def __str__(self) -> str:
        sentence = {
            "better": "the first model is better",
            "worse": "the first model is worse",
            "cannot tell": "cannot tell: the private rows do not show which is better",
        }[self.verdict]
        return f"{sentence} ({self.metric}, judged at {self.price:.1f} nats)"

    def __repr__(self) -> str:
        return f"ModelVerdict({self})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"kind": "model verdict", "metric": self.metric, "verdict": self.verdict, "price": self.price}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> ModelVerdict:
        """The same again, equal to the bit."""
        return cls(given["metric"], given["verdict"], float(given["price"]))
