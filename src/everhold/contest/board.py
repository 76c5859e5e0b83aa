"""What a contest shows: its rules, what became of a submission, where everybody stands."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass, fields, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.bounds.privacy import Privacy
from everhold.learn.metrics import METRICS, MetricContext, Task
from everhold.learn.options import TestSetOptions
from everhold.learn.score import Score
from everhold.queries.interval import Interval
from everhold.results import JsonResult, as_frame, axis_around, html_table, interval_bar

if TYPE_CHECKING:
    from everhold.contest.ranks import RankedScore, Standing

__all__ = ["RANKS_SAY", "Board", "Place", "Rules", "State", "Submission"]

RANKS_SAY = (
    'A rank such as "2-5" is a set: with the confidence below, every true rank lies in its set, all at the same time. '
    "Entrants whose sets overlap are tied: the rows do not show who is better."
)
"""What the ranks on a board mean."""

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
        sealed: the part of the rows that nothing is disclosed about before the last ranking.
        sealed_digest: of their labels, with a salt, so that they cannot be exchanged.
        privacy: what is promised about every label (`epsilon`, `delta`, `surprises`); None: nothing.
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
    sealed: float = 0.0
    sealed_digest: str | None = None
    privacy: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """What a file keeps."""
        return {name: value for name, value in asdict(self).items() if name != "privacy" or value is not None}

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
            privacy=None if self.privacy is None else Privacy(**self.privacy),
        )

    @property
    def reveals(self) -> str:
        """What the intervals are about."""
        return (
            f"With probability {self.confidence:g} all intervals and ranks on this board are valid at the same time, "
            "whatever was submitted: each interval covers the expected score over a fresh draw of labels for these rows."
            + ("" if not self.sealed else f" {self.sealed:.0%} of the rows are sealed: only the final ranking uses them.")
            + (
                ""
                if self.privacy is None
                else f" Labels are private, with ε = {self.privacy['epsilon']:g} and δ = "
                f"{self.privacy['delta']:g} for everything that is ever disclosed."
            )
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
    """A line of the board: an entrant's best submission.

    Attributes:
        rank: where it is listed; entrants that share a rank are tied.
        best_rank, worst_rank: the rank set. With the confidence of the board, all true ranks lie in their sets.
        beats: how many others it is certified to be better than.
        others: how many others there are.
        entrant: who sent it.
        value, low, high: its score, with an interval.
        round: when it was scored.
        submissions: how many the entrant has sent.
        when: the time of this one.
    """

    rank: int
    best_rank: int
    worst_rank: int
    beats: int
    others: int
    entrant: str
    value: float
    low: float
    high: float
    round: int
    submissions: int
    when: str

    @classmethod
    def of(cls, standing: Standing, score: RankedScore, others: int, submissions: int, when: str) -> Place:
        """A line from where an entry stands and what it scored."""
        ranks = (standing.rank, standing.best, standing.worst, standing.beats, others)
        return cls(*ranks, standing.name, score.value, score.low, score.high, score.round, submissions, when)

    @property
    def rank_text(self) -> str:
        """The rank set in short: '2' or '2-5'."""
        return str(self.best_rank) if self.best_rank == self.worst_rank else f"{self.best_rank}-{self.worst_rank}"

    @property
    def standing_text(self) -> str:
        """The rank set in words: 'rank 2-5; certified better than 11 of 40 others'."""
        others = f"{self.others:,} other{'' if self.others == 1 else 's'}"
        return f"rank {self.rank_text}; certified better than {self.beats:,} of {others}"


@dataclass(frozen=True, slots=True)
class Board:
    """Where everybody stands. All rank sets and intervals are valid at the same time."""

    rules: Rules
    places: tuple[Place, ...]
    unranked: tuple[tuple[str, str], ...]
    head: str
    price: float
    final: bool = False
    """Whether the contest has ended with its last ranking."""
    privacy: str | None = None
    """What a private contest has spent and has left, in words."""

    def seen_by(self, entrant: str) -> Board:
        """The board as one entrant sees it: what was wrong with the submissions of others is theirs to know."""
        return replace(self, unranked=tuple((who, reason) for who, reason in self.unranked if who == entrant))

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """Everything, ready for JSON; not whole: without what would reveal submissions that the ladder does not show."""
        return {
            "title": self.rules.title,
            "metric": self.rules.metric,
            "larger_is_better": self.rules.larger_is_better,
            "places": [asdict(place) for place in self.places],
            "unranked": [{"entrant": entrant, "reason": reason} for entrant, reason in self.unranked],
            "reveals": self.rules.reveals,
            "final": self.final,
            "head": self.head if whole else None,
            "price": self.price if whole else None,
            "privacy": self.privacy if whole else None,
        }

    def to_csv(self) -> str:
        """The lines of the board as CSV, best first. A data frame takes `board.to_dict()["places"]`."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = [field.name for field in fields(Place)]
        writer.writerow(names)
        writer.writerows([getattr(place, name) for name in names] for place in self.places)
        return out.getvalue()

    def to_frame(self) -> Any:
        """The lines of the board as a table of pandas or Polars, whichever is installed."""
        return as_frame([asdict(place) for place in self.places], [field.name for field in fields(Place)])

    def _repr_html_(self) -> str:
        left, right = axis_around([(place.low, place.high) for place in self.places])
        rows = [
            (
                place.rank_text,
                escape(place.entrant),
                f"<b>{place.value:.4g}</b>",
                str(Interval(place.low, place.high)),
                interval_bar(place.value, place.low, place.high, left, right),
                f"{place.beats:,} of {place.others:,}",
            )
            for place in self.places
        ]
        head = ["rank", "entrant", self.rules.metric, "interval", f"{left:,.4g} to {right:,.4g}", "certified better than"]
        return html_table(head, rows, f"{self.rules.title}{', final' if self.final else ''}")

    def __str__(self) -> str:
        lines = [
            f"{self.rules.title} ({self.rules.metric}){', final' if self.final else ''}",
            "",
            f"{'rank':>9}  {'entrant':<24} {'score':>8}  {'interval':<18} certified better than",
        ]
        lines += [
            f"{place.rank_text:>9}  {place.entrant[:24]:<24} {place.value:>8.4g}  {Interval(place.low, place.high)!s:<18} "
            f"{place.beats:,} of {place.others:,}; {place.submissions:,} "
            f"submission{'' if place.submissions == 1 else 's'}"
            for place in self.places
        ]
        lines += [f"{'–':>9}  {entrant[:24]:<24} {reason}" for entrant, reason in self.unranked]
        said = [] if self.privacy is None else [f"{self.privacy[0].upper()}{self.privacy[1:]}."]
        return "\n".join([*lines, "", RANKS_SAY, self.rules.reveals, *said])

    __repr__ = __str__
