"""Answers: a value, an interval for the population, and the price."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.queries.interval import Interval
from everhold.results import (
    JsonResult,
    axis_around,
    ends_from,
    html_table,
    interval_bar,
    interval_html,
    number_or_null,
)

if TYPE_CHECKING:
    from everhold.queries.grid import Scale
    from everhold.queries.query import Query
    from everhold.queries.round_act import ActKind

__all__ = ["NO_FORECAST", "NO_ROWS", "Answer", "Preview", "source_word", "unseen_text"]

NO_ROWS = "no such rows: that is measured on the private rows, and charged"
NO_FORECAST = "no forecast, because the public side has no such rows: read it"


@dataclass(frozen=True, slots=True)
class Answer(JsonResult):
    """The answer to one question.

    All intervals of one session are simultaneously valid with the session's confidence, however the questions were
    chosen. Every field is a function of public facts, coins and what was disclosed.

    Attributes:
        value: a share in [0, 1] for yes/no questions, a mean in [-1, 1] for numbers.
        low, high: ends of the interval for the population value.
        surprise: whether the public sketch was off by more than the tolerance, so that the answer uses the private data.
        round: the number of the question in its session; asking a named question again returns the first number.
        price: the price in nats that this interval's width was computed with.
        scale: 'share' or 'mean'.
        act: 'ask' (a forecast that the private rows agree with, unless it is a surprise), 'read' or 'close' (the private
            rows' own value).
    """

    value: float
    low: float
    high: float
    surprise: bool
    round: int
    price: float
    scale: Scale
    act: ActKind = "ask"

    @property
    def interval(self) -> Interval:
        """The interval for the population value."""
        return Interval(self.low, self.high)

    @property
    def kind_text(self) -> str:
        """What the value is, in words."""
        if self.act != "ask":
            return "private reading"
        if self.value != self.value:
            return NO_ROWS if self.surprise else NO_FORECAST
        return "surprise: measured on the private rows" if self.surprise else "forecast that the private rows agree with"

    def as_share(self) -> Answer:
        """The same answer as a share of yes, where a mean counts yes as 1 and no as -1."""
        if self.scale == "share":
            return self
        low, high = 0.5 * (1.0 + self.low), 0.5 * (1.0 + self.high)
        return replace(self, value=0.5 * (1.0 + self.value), low=low, high=high, scale="share")

    def as_asked(self, query: Query | None) -> Answer:
        """The same answer as its question is read: a yes/no question has a share."""
        return self.as_share() if query is not None and query.yes_no else self

    def on(self, scale: Scale) -> Answer:
        """The same answer on a scale: as a share, or as it is."""
        return self.as_share() if scale == "share" else self

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        seen = self.value == self.value
        kind = source_word(seen=seen, surprise=self.surprise, read=self.act != "ask")
        value = f"{self.value:.4g} in" if seen else f"{unseen_text(surprise=self.surprise, read=self.act != 'ask')};"
        return f"{value} {self.interval} (round {self.round}, {kind}, {self.price:.1f} nats)"

    def __repr__(self) -> str:
        return f"Answer({self})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "kind": "answer",
            "value": number_or_null(self.value),
            "low": self.low,
            "high": self.high,
            "surprise": self.surprise,
            "round": self.round,
            "price": self.price,
            "scale": self.scale,
            "act": self.act,
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Answer:
        """The same again, equal to the bit.

        >>> answer = Answer(0.1, 0.05, 0.30000000000000004, False, 3, 5.1, "share")
        >>> Answer.from_json(answer.to_json()) == answer
        True
        """
        value, low, high = ends_from(given)
        act = given.get("act", "ask")
        return cls(value, low, high, given["surprise"], given["round"], float(given["price"]), given["scale"], act)

    def _repr_html_(self) -> str:
        bottom = 0.0 if self.scale == "share" else -1.0
        notes = f"{self.kind_text} · round {self.round:,} · {self.price:.1f} nats"
        unseen = unseen_text(surprise=self.surprise, read=self.act != "ask")
        value = f"<b>{self.value:.4g}</b> in" if self.value == self.value else f"<b>{unseen}</b>;"
        return interval_html(f"{value} {self.interval}", self, bottom, 1.0, notes)


@dataclass(frozen=True, slots=True)
class Preview(JsonResult):
    """What the public side alone predicts for a question. It costs nothing and does not use the private data.

    Attributes:
        prior: the value under the prior itself.
        sketch: the value under the current sketch; this is the answer unless the question is a surprise.
        low, high: the interval of a quiet answer to the question, asked now.
        tolerance: how far the private mean may be from the sketch before it counts as a surprise.
        scale: 'share' or 'mean'.
        price: the price in nats of an ask's interval.
        surprise_costs: how many nats more than a quiet answer a surprise would add to all later prices, at least.
        read_low, read_high: the interval of a reading, asked now, if it finds the forecast.
        read_price: the price in nats of a reading's interval.
        read_costs: how many nats a reading would add to all later prices, if it finds the forecast.
    """

    prior: float
    sketch: float
    low: float
    high: float
    tolerance: float
    scale: Scale
    price: float
    surprise_costs: float
    read_low: float = -1.0
    read_high: float = 1.0
    read_price: float = 0.0
    read_costs: float = 0.0

    def as_share(self) -> Preview:
        """The same preview on the scale of shares, [0, 1]."""
        if self.scale == "share":
            return self
        names = ("prior", "sketch", "low", "high", "read_low", "read_high")
        moved = {name: 0.5 * (1.0 + getattr(self, name)) for name in names}
        return replace(self, **moved, tolerance=0.5 * self.tolerance, scale="share")

    def as_asked(self, query: Query) -> Preview:
        """The same preview as its question is read: a yes/no question has a share."""
        return self.as_share() if query.yes_no else self

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"kind": "preview", **{name: getattr(self, name) for name in self.__slots__}}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Preview:
        """The same again, equal to the bit."""
        numbers = {name: float(value) for name, value in given.items() if name not in ("kind", "scale")}
        return cls(**numbers, scale=given["scale"])

    @property
    def interval(self) -> Interval:
        """The interval of a quiet answer."""
        return Interval(self.low, self.high)

    @property
    def read_interval(self) -> Interval:
        """The interval of a reading that finds the forecast."""
        return Interval(self.read_low, self.read_high)

    def __str__(self) -> str:
        return (
            f"ask: {_near_zero(self.sketch):.4g} in {self.interval} if quiet, prior {_near_zero(self.prior):.4g}, tolerance "
            f"{self.tolerance:.4g}; a surprise would cost at least {self.surprise_costs:.1f} nats more than a quiet answer. "
            f"read: about {self.read_interval}, and at least {self.read_costs:.1f} nats for all later intervals"
        )

    def __repr__(self) -> str:
        return f"Preview({self})"

    def _repr_html_(self) -> str:
        left, right = axis_around([(self.low, self.high)], 0.0 if self.scale == "share" else -1.0, 1.0)
        shown = [
            ("ask, if quiet", self.sketch, self.interval, f"a surprise costs at least {self.surprise_costs:.1f} nats more"),
            (
                "read, if as foreseen",
                self.sketch,
                self.read_interval,
                f"at least {self.read_costs:.1f} nats for later intervals",
            ),
        ]
        rows = [
            (name, f"{value:.4g} in {ends}", interval_bar(value, ends.low, ends.high, left, right), costs)
            for name, value, ends, costs in shown
        ]
        return html_table(["preview", "foreseen", f"{left:,.4g} to {right:,.4g}", "costs"], rows)


def source_word(*, seen: bool, surprise: bool, read: bool) -> str:
    """Where a value comes from, in a word or two.

    >>> source_word(seen=True, surprise=False, read=False), source_word(seen=True, surprise=False, read=True)
    ('forecast', 'private reading')
    """
    if surprise:
        return "surprise" if seen else "charged"
    if read:
        return "private reading"
    return "forecast" if seen else "no such public rows"


def unseen_text(*, surprise: bool, read: bool) -> str:
    """What stands in place of a value."""
    return "no such rows seen" if surprise or read else "no forecast"


def _near_zero(value: float) -> float:
    """Without what rounding leaves of 0, for people.

    >>> _near_zero(-3.331e-16), _near_zero(0.25)
    (0.0, 0.25)
    """
    return 0.0 if abs(value) < 1e-12 else value
