"""What a contest shows: its rules, what became of a submission, where everybody stands."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from everhold.learn.metrics import METRICS, MetricContext, Task
from everhold.learn.options import TestSetOptions
from everhold.learn.score import Score
from everhold.queries.interval import Interval
from everhold.queries.result import JsonResult

__all__ = ["Board", "Place", "Rules", "State", "Submission"]

State = Literal["scored", "repeated", "malformed", "too large", "too soon", "closed"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What everybody may know of a contest.

    Attributes:
        title: what it is called.
        task, metric: what is scored.
        classes: the possible labels.
        low, high: the range of a regression's labels.
        id_column, prediction_column: of a submission.
        most_bytes: a larger submission is refused.
        max_per_day: submissions of one entrant within 24 hours; None: any number.
        ladder: show an entrant only what is clearly better than its best so far.
        seed, confidence, half_width: as for `eh.Holdout`.
    """

    title: str
    task: Task
    metric: str
    classes: list[Any]
    low: float | None
    high: float | None
    id_column: str
    prediction_column: str
    most_bytes: int
    max_per_day: int | None
    ladder: bool
    seed: int
    confidence: float
    half_width: float | None

    @property
    def larger_is_better(self) -> bool:
        """Which way the metric points."""
        return METRICS[self.metric].larger_is_better

    @property
    def span(self) -> float:
        """What a score of 1 on the scale of shares is worth in the metric's own units."""
        low, high = (0.0, 1.0) if self.low is None or self.high is None else (self.low, self.high)
        return METRICS[self.metric].span(MetricContext(np.empty(0), None, low, high, 0.5))

    def options(self, path: Path) -> TestSetOptions:
        """What the contest's test set is made with; its study is at this path."""
        return TestSetOptions(
            task=self.task,
            path=path.absolute(),
            classes=tuple(self.classes) or None,
            low=self.low,
            high=self.high,
            confidence=self.confidence,
            half_width=self.half_width,
            seed=self.seed,
        )

    @property
    def reveals(self) -> str:
        """What the intervals are about."""
        return (
            f"With probability {self.confidence:g} all intervals on this board are valid at the same time, whatever was "
            "submitted: each interval covers the expected score over a fresh draw of labels for these rows."
        )


@dataclass(frozen=True, slots=True)
class Submission(JsonResult):
    """What became of a submission.

    Attributes:
        entrant: who sent it.
        state: 'scored', 'repeated' (the same predictions were scored before), or why it was not.
        reason: in a sentence.
        score: what is returned; None where it was not scored.
        improved: whether it is the entrant's best so far, beyond doubt.
        row, column: where a malformed one is wrong.
    """

    entrant: str
    state: State
    reason: str
    score: Score | None = None
    improved: bool = False
    row: int | None = None
    column: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        names = ("entrant", "state", "reason", "improved", "row", "column")
        score = None if self.score is None else self.score.to_dict()
        return {**{name: getattr(self, name) for name in names}, "score": score}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Submission:
        """The same again, equal to the bit."""
        score = None if given["score"] is None else Score.from_dict(given["score"])
        more = (given["improved"], given["row"], given["column"])
        return cls(given["entrant"], given["state"], given["reason"], score, *more)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the board: an entrant's best submission."""

    rank: int
    entrant: str
    value: float
    low: float
    high: float
    round: int
    submissions: int
    when: str


@dataclass(frozen=True, slots=True)
class Board:
    """Where everybody stands. A rank is one more than the number of entrants who are better beyond doubt."""

    rules: Rules
    places: tuple[Place, ...]
    unranked: tuple[tuple[str, str], ...]
    head: str
    spent: float

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """Everything, ready for JSON; not whole: without what would reveal submissions that the ladder does not show."""
        return {
            "title": self.rules.title,
            "metric": self.rules.metric,
            "larger_is_better": self.rules.larger_is_better,
            "places": [asdict(place) for place in self.places],
            "unranked": [{"entrant": entrant, "reason": reason} for entrant, reason in self.unranked],
            "reveals": self.rules.reveals,
            "head": self.head if whole else None,
            "spent": self.spent if whole else None,
        }

    def __str__(self) -> str:
        lines = [
            f"{self.rules.title} ({self.rules.metric})",
            "",
            f"{'rank':>4}  {'entrant':<24} {'score':>8}  interval",
        ]
        lines += [
            f"{place.rank:>4}  {place.entrant[:24]:<24} {place.value:>8.4g}  {Interval(place.low, place.high)}  "
            f"{place.submissions:,} submission{'' if place.submissions == 1 else 's'}"
            for place in self.places
        ]
        lines += [f"   –  {entrant[:24]:<24} {reason}" for entrant, reason in self.unranked]
        return "\n".join([*lines, "", self.rules.reveals])

    __repr__ = __str__
