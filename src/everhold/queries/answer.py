"""Answers: a value, an interval for the population, and the price."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape

from everhold.queries.grid import Scale
from everhold.queries.interval import Interval

__all__ = ["Answer", "Preview"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question.

    All intervals of one session are simultaneously valid with the session's confidence, however the questions were
    chosen. Every field is a function of public facts, coins and the record of surprises.

    Attributes:
        value: a share in [0, 1] for yes/no questions, a mean in [-1, 1] for numbers.
        low, high: ends of the interval for the population value.
        surprise: whether the public sketch was off by more than the tolerance, so that the answer uses the private data.
        round: the number of the question in its session; asking a named question again returns the first number.
        spent: the price in nats that this interval's width was computed with.
        scale: 'share' or 'mean'.
    """

    value: float
    low: float
    high: float
    surprise: bool
    round: int
    spent: float
    scale: Scale

    @property
    def interval(self) -> Interval:
        """The interval for the population value."""
        return Interval(self.low, self.high)

    def as_share(self) -> Answer:
        """The same answer as a share of yes, where a mean counts yes as 1 and no as -1."""
        if self.scale == "share":
            return self
        low, high = 0.5 * (1.0 + self.low), 0.5 * (1.0 + self.high)
        return replace(self, value=0.5 * (1.0 + self.value), low=low, high=high, scale="share")

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        mark = ", surprise" if self.surprise else ""
        return f"{self.value:.4g} in {self.interval} (round {self.round}{mark}, {self.spent:.1f} nats)"

    def __repr__(self) -> str:
        return f"Answer({self})"

    def _drawn(self) -> tuple[str, float, float]:
        """The label before the value in the picture, and the ends of its axis."""
        return ("", 0.0, 1.0) if self.scale == "share" else ("", -1.0, 1.0)

    def _repr_html_(self) -> str:
        label, bottom, top = self._drawn()

        def at(x: float) -> float:
            return 200.0 * (min(max(x, bottom), top) - bottom) / (top - bottom)

        colour = "#c2410c" if self.surprise else "#1d4ed8"
        return (
            f"<div style='font-family:sans-serif'>{escape(label)}<b>{self.value:.4g}</b> in {self.interval}"
            f"{' &middot; surprise' if self.surprise else ''} &middot; round {self.round:,} &middot; "
            f"{self.spent:.1f} nats<br>"
            "<svg width='204' height='16' role='img' aria-label='interval'>"
            "<line x1='2' x2='202' y1='8' y2='8' stroke='#999'/>"
            f"<line x1='{2 + at(self.low):.1f}' x2='{2 + at(self.high):.1f}' y1='8' y2='8' stroke='{colour}' "
            f"stroke-width='5'/><circle cx='{2 + at(self.value):.1f}' cy='8' r='4' fill='{colour}'/></svg></div>"
        )


@dataclass(frozen=True, slots=True)
class Preview:
    """What the public side alone predicts for a question. It costs nothing and does not use the private data.

    Attributes:
        prior: the value under the prior itself.
        sketch: the value under the current sketch; this is the answer unless the question is a surprise.
        low, high: the interval of a quiet answer to the question, asked now.
        tolerance: how far the private mean may be from the sketch before it counts as a surprise.
        scale: 'share' or 'mean'.
        spent: the price in nats so far.
        surprise_costs: the nats that a surprise would add; a quiet answer adds almost nothing.
    """

    prior: float
    sketch: float
    low: float
    high: float
    tolerance: float
    scale: Scale
    spent: float
    surprise_costs: float

    def as_share(self) -> Preview:
        """The same preview on the scale of shares, [0, 1]."""
        if self.scale == "share":
            return self
        low, high = 0.5 * (1.0 + self.low), 0.5 * (1.0 + self.high)
        prior, sketch = 0.5 * (1.0 + self.prior), 0.5 * (1.0 + self.sketch)
        return replace(
            self, prior=prior, sketch=sketch, low=low, high=high, tolerance=0.5 * self.tolerance, scale="share"
        )

    @property
    def interval(self) -> Interval:
        """The interval of a quiet answer."""
        return Interval(self.low, self.high)

    def __str__(self) -> str:
        return (
            f"{self.sketch:.4g} in {self.interval} if quiet, prior {self.prior:.4g}, tolerance {self.tolerance:.4g}; "
            f"a surprise would cost {self.surprise_costs:.1f} nats on top of {self.spent:.1f}"
        )

    def __repr__(self) -> str:
        return f"Preview({self})"
