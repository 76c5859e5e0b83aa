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

__all__ = ["FORECASTS_SAY", "RANKS_SAY", "Board", "FinalScore", "Place", "Rules", "State", "Submission"]

RANKS_SAY = (
    'A rank such as "2-5" is a set: with the confidence of this board, every true rank lies in its set, all at the same '
    "time. Entrants whose sets overlap are tied: the rows do not show who is better."
)
"""What the ranks on a board mean."""

FORECASTS_SAY = (
    "A score marked 'forecast' was not measured: it was foreseen from earlier scores, and the labels agree with it only as "
    "far as its interval says. The final ranking measures every score that counts."
)
"""What a forecast on a board is. A private contest has no final ranking, and its board says the first sentence."""

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

    @property
    def of_order(self) -> str:
        """What the order of submissions changes; empty where it changes nothing."""
        if self.half_width is not None:
            return ""
        wider = "Later submissions have wider intervals."
        return wider if self.privacy is not None else f"{wider} The final ranking treats all entrants alike."

    @property
    def of_counting(self) -> str:
        """Which submission of an entrant counts, on the board and in the final ranking."""
        last = "the last one that was clearly better than those before" if self.ladder else "the last one that was scored"
        return f"One submission of each entrant counts: {last}, or an earlier one that the entrant has sent again since."

    @property
    def of_forecasts(self) -> str:
        """What a forecast on the running board is."""
        return FORECASTS_SAY if self.privacy is None else FORECASTS_SAY.partition(". ")[0] + "."


@dataclass(frozen=True, slots=True)
class FinalScore:
    """A score of the last ranking, with its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} in {Interval(self.low, self.high)}"


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
        final: its score in the last ranking, where the contest has ended and it was ranked.
        note: which submission counts, and what their order changes; beside a score.
        counts: whether this is the submission that counts for the entrant now.
    """

    entrant: str
    state: State
    reason: str
    score: Score | None = None
    improved: bool = False
    row: int | None = None
    column: str | None = None
    final: FinalScore | None = None
    note: str = ""
    counts: bool = False

    def __str__(self) -> str:
        lines = [f"{self.state}: {self.reason}"]
        if self.score is not None:
            seen = f"{self.score.metric} {self.score.value:.4g} in {self.score.interval}"
            lines.append(seen if self.final is None else f"{seen} while the contest ran, and in the end {self.final}")
        return "\n".join([*lines, self.note] if self.note else lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        names = ("entrant", "state", "reason", "improved", "row", "column", "note", "counts")
        score = None if self.score is None else self.score.to_dict()
        final = None if self.final is None else asdict(self.final)
        return {**{name: getattr(self, name) for name in names}, "score": score, "final": final}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Submission:
        """The same again, equal to the bit."""
        score = None if given["score"] is None else Score.from_dict(given["score"])
        more = (given["improved"], given["row"], given["column"])
        final = None if given.get("final") is None else FinalScore(**given["final"])
        last = (final, given.get("note", ""), given.get("counts", False))
        return cls(given["entrant"], given["state"], given["reason"], score, *more, *last)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the board: the submission of an entrant that counts.

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
        forecast: whether the score was only foreseen, and the labels do not contradict it; otherwise it was measured.
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
    forecast: bool = False

    @classmethod
    def of(cls, standing: Standing, score: RankedScore, others: int, submissions: int, when: str) -> Place:
        """A line from where an entry stands and what it scored."""
        return cls(
            standing.rank,
            standing.best,
            standing.worst,
            standing.beats,
            others,
            standing.name,
            score.value,
            score.low,
            score.high,
            score.round,
            submissions,
            when,
            score.forecast,
        )

    @property
    def basis(self) -> str:
        """What the score rests on, in a word."""
        return "forecast" if self.forecast else "measured"

    @property
    def rank_text(self) -> str:
        """The rank set in short: '2' or '2-5'."""
        return str(self.best_rank) if self.best_rank == self.worst_rank else f"{self.best_rank}-{self.worst_rank}"

    @property
    def standing_text(self) -> str:
        """The rank set in words: 'rank 2-5; certified better than 11 of 40 others'."""
        others = f"{self.others:,} other{'' if self.others == 1 else 's'}"
        return f"rank {self.rank_text}; certified better than {self.beats:,} of {others}"


@dataclass(frozen=True, slots=True, repr=False)
class Board(JsonResult):
    """Where everybody stands. All rank sets and intervals are valid at the same time.

    Attributes:
        title, metric, larger_is_better: of the contest.
        reveals: what the intervals are about, which submissions count, and how scores were found.
        places: a line for each entrant, the best first.
        unranked: entrants without a score, with the reason.
        head, price: where the ledger stands, and the price of what comes next; None where a ladder keeps them from entrants.
        final: whether the contest has ended with its last ranking.
        privacy: what a private contest has spent and has left, in words.
        rules: of the contest; None on a board that a server sent.
    """

    title: str
    metric: str
    larger_is_better: bool
    reveals: str
    places: tuple[Place, ...]
    unranked: tuple[tuple[str, str], ...]
    head: str | None
    price: float | None
    final: bool = False
    privacy: str | None = None
    rules: Rules | None = None

    @classmethod
    def of(
        cls,
        rules: Rules,
        places: tuple[Place, ...],
        unranked: tuple[tuple[str, str], ...],
        *,
        head: str,
        price: float,
        final: bool,
        privacy: str | None,
    ) -> Board:
        """A board by its rules. While the contest runs it says what the order of submissions changes."""
        said = [rules.reveals, rules.of_counting]
        if any(place.forecast for place in places):
            said.append(rules.of_forecasts)
        if not final:
            said.append(rules.of_order)
        reveals = " ".join(one for one in said if one)
        about = (rules.title, rules.metric, rules.larger_is_better, reveals)
        return cls(*about, places, unranked, head, price, final, privacy, rules)

    def seen_by(self, entrant: str) -> Board:
        """The board as one entrant sees it: what was wrong with the submissions of others is theirs to know."""
        return replace(self, unranked=tuple((who, reason) for who, reason in self.unranked if who == entrant))

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """Everything but the rules, ready for JSON; not whole: without what would reveal what the ladder does not show."""
        return {
            "title": self.title,
            "metric": self.metric,
            "larger_is_better": self.larger_is_better,
            "places": [asdict(place) for place in self.places],
            "unranked": [{"entrant": entrant, "reason": reason} for entrant, reason in self.unranked],
            "reveals": self.reveals,
            "final": self.final,
            "head": self.head if whole else None,
            "price": self.price if whole else None,
            "privacy": self.privacy if whole else None,
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Board:
        """The same again, without the rules."""
        known = {field.name for field in fields(Place)}
        places = tuple(Place(**{name: one for name, one in line.items() if name in known}) for line in given["places"])
        about = (given["title"], given["metric"], given["larger_is_better"], given["reveals"])
        unranked = tuple((one["entrant"], one["reason"]) for one in given["unranked"])
        return cls(*about, places, unranked, given["head"], given["price"], given["final"], given["privacy"])

    def to_rows(self) -> list[dict[str, Any]]:
        """The lines of the board, best first."""
        return [asdict(place) for place in self.places]

    def to_csv(self) -> str:
        """The lines of the board as CSV, best first."""
        out = io.StringIO()
        writer = csv.DictWriter(out, [field.name for field in fields(Place)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.to_rows())
        return out.getvalue()

    def to_frame(self) -> Any:
        """The lines of the board as a table of pandas or Polars, whichever is installed."""
        return as_frame(self.to_rows(), [field.name for field in fields(Place)])

    def _repr_html_(self) -> str:
        left, right = axis_around([(place.low, place.high) for place in self.places])
        rows = [
            (
                place.rank_text,
                escape(place.entrant),
                f"<b>{place.value:.4g}</b>",
                place.basis,
                str(Interval(place.low, place.high)),
                interval_bar(place.value, place.low, place.high, left, right),
                f"{place.beats:,} of {place.others:,}",
            )
            for place in self.places
        ]
        head = ["rank", "entrant", self.metric, "basis", "interval", "drawn", "certified better than"]
        drawn = f"; drawn from {left:,.4g} to {right:,.4g}" if rows else ""
        return html_table(head, rows, f"{self.title}{', final' if self.final else ''}{drawn}")

    def __str__(self) -> str:
        lines = [
            f"{self.title} ({self.metric}){', final' if self.final else ''}",
            "",
            f"{'rank':>9}  {'entrant':<24} {'score':>8}  {'basis':<8}  {'interval':<18} certified better than",
        ]
        lines += [
            f"{place.rank_text:>9}  {place.entrant[:24]:<24} {place.value:>8.4g}  {place.basis:<8}  "
            f"{Interval(place.low, place.high)!s:<18} {place.beats:,} of {place.others:,}; round {place.round:,} counts, of "
            f"{place.submissions:,} submission{'' if place.submissions == 1 else 's'}"
            for place in self.places
        ]
        lines += [f"{'–':>9}  {entrant[:24]:<24} {reason}" for entrant, reason in self.unranked]
        said = [] if self.privacy is None else [f"{self.privacy[0].upper()}{self.privacy[1:]}."]
        return "\n".join([*lines, "", RANKS_SAY, self.reveals, *said])

    __repr__ = __str__
