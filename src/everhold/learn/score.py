"""What is told of a model: a score, or the difference between two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from everhold.queries.answer import Answer

__all__ = ["Score", "Verdict"]


@dataclass(frozen=True, slots=True, repr=False)
class Score(Answer):
    """A metric's value with an interval for the population, in the metric's own units.

    Attributes:
        metric: which metric.
        parts: the answers that it was made of.
        bottom, top: the range that it can lie in.
    """

    metric: str = "accuracy"
    parts: tuple[Answer, ...] = ()
    bottom: float = 0.0
    top: float = 1.0

    @classmethod
    def of_share(cls, told: Answer, metric: str, span: float) -> Score:
        """A metric that is a plain mean: a share of its span."""
        value, low, high = (span * end for end in (told.value, told.low, told.high))
        return cls(value, low, high, told.surprise, told.round, told.spent, "share", metric, (told,), 0.0, span)

    def __str__(self) -> str:
        asked = "" if len(self.parts) == 1 else f"{len(self.parts)} questions, "
        mark = ", surprise" if self.surprise else ""
        return f"{self.metric} {self.value:.4g} in {self.interval} ({asked}round {self.round}{mark}, {self.spent:.1f} nats)"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def _drawn(self) -> tuple[str, float, float]:
        return f"{self.metric} ", self.bottom, self.top


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Score):
    """The difference between two models, and what it says of the first."""

    larger_is_better: bool = True

    @property
    def verdict(self) -> Literal["better", "worse", "cannot tell yet"]:
        """Whether the first model is better than the second."""
        low, high = (self.low, self.high) if self.larger_is_better else (-self.high, -self.low)
        if low > 0.0:
            return "better"
        return "worse" if high < 0.0 else "cannot tell yet"

    def __str__(self) -> str:
        return f"{self.verdict}: {Score.__str__(self)}"
