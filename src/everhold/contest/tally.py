"""What a ledger says of a contest, counted round by round, so that a submission costs the same however many came before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everhold.contest.board import Place
from everhold.contest.ranks import Entry, standings
from everhold.learn.score import Score

if TYPE_CHECKING:
    from everhold.contest.board import Rules
    from everhold.ledger.reader import LoggedRound

__all__ = ["MARK", "Entrant", "Tally", "beyond_doubt"]

MARK = "submission"


def beyond_doubt(one: Score, other: Score, sign: float) -> bool:
    """Whether the first is better: the intervals do not overlap."""
    return one.low > other.high if sign > 0 else one.high < other.low


@dataclass(slots=True)
class Entrant:
    """An entrant's submissions so far.

    Attributes:
        sent: how many were scored.
        times: when, in order.
        shown: the scores that the entrant may know, with their times: with the ladder only clear improvements.
        best: the best of those.
    """

    sent: int = 0
    times: list[str] = field(default_factory=list)
    shown: list[tuple[Score, str]] = field(default_factory=list)
    best: tuple[Score, str] | None = None


class Tally:
    """Entrants and their scores, by the ledger alone."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.sign = 1.0 if rules.larger_is_better else -1.0
        self.entrants: dict[str, Entrant] = {}
        self.names: dict[str, int] = {}
        self.rounds = 0

    def add(self, rounds: Iterable[LoggedRound]) -> None:
        """Count the rounds that follow."""
        for one in rounds:
            self.rounds += 1
            if one.who is None or one.name is None or not one.name.startswith(MARK):
                continue
            self.names.setdefault(one.name, one.round)
            score = Score.of_share(one.answer.as_share(), self._rules.metric, self._rules.span)
            mine = self.entrants.setdefault(one.who, Entrant())
            mine.sent += 1
            mine.times.append(one.time)
            # What was shown before was a clear improvement each time, so that the last one is the one to beat.
            if not self._rules.ladder or not mine.shown or beyond_doubt(score, mine.shown[-1][0], self.sign):
                mine.shown.append((score, one.time))
                if mine.best is None or self.sign * score.value > self.sign * mine.best[0].value:
                    mine.best = score, one.time

    def places(self) -> list[Place]:
        """The board's lines, with rank sets from the intervals."""
        best = {name: one.best for name, one in self.entrants.items() if one.best is not None}
        entries = [Entry(name, score.value, score.low, score.high, score.round) for name, (score, _) in best.items()]
        return [
            Place.of(
                standing,
                best[standing.name][0],
                len(best) - 1,
                self.entrants[standing.name].sent,
                best[standing.name][1],
            )
            for standing in standings(entries, larger_is_better=self._rules.larger_is_better)
        ]
