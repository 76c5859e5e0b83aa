"""What a ledger says of a contest, counted round by round, so that a submission costs the same however many came before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.contest.board import FinalScore, Place, Submission
from everhold.contest.ranks import RankedScore, Standing, standings
from everhold.learn.score import Score

if TYPE_CHECKING:
    from everhold.contest.board import Rules
    from everhold.ledger.reader import LoggedRound

__all__ = ["MARK", "Entrant", "Tally"]

MARK = "submission"


def _beyond_doubt(one: Score, other: Score, sign: float) -> bool:
    """Whether the first is better: the intervals do not overlap."""
    return one.low > other.high if sign > 0 else one.high < other.low


@dataclass(slots=True)
class Entrant:
    """An entrant's submissions so far.

    Attributes:
        sent: how many were scored.
        times: when, in order.
        shown: the scores that the entrant may know, with their times: with the ladder only clear improvements.
        best: the best of those. It says what is an improvement; what counts is another question (`Tally.counting`).
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
        self.rankings: list[dict[str, Any]] = []
        self.sent_again: Mapping[str, tuple[int, int]] = {}
        """Of each entrant the earlier submission that was sent again last, and after how many rounds, by the log."""

    @property
    def final(self) -> dict[str, Any] | None:
        """The last ranking, if the contest has ended with one."""
        return next((one for one in self.rankings if one["last"]), None)

    def add_rankings(self, results: Iterable[dict[str, Any] | None]) -> None:
        """Take over what rankings returned, all of them; None where one was interrupted."""
        self.rankings = [result for result in results if result is not None]

    def add(self, rounds: Iterable[LoggedRound]) -> None:
        """Count the rounds that follow."""
        for logged in rounds:
            self.rounds += 1
            if logged.who is None or logged.name is None or not logged.name.startswith(MARK):
                continue
            self.names.setdefault(logged.name, logged.round)
            score = Score.of_share(logged.answer.as_share(), self._rules.metric, self._rules.span)
            mine = self.entrants.setdefault(logged.who, Entrant())
            mine.sent += 1
            mine.times.append(logged.time)
            # What was shown before was a clear improvement each time, so that the last one is the one to beat.
            if not self._rules.ladder or not mine.shown or _beyond_doubt(score, mine.shown[-1][0], self.sign):
                mine.shown.append((score, logged.time))
                if mine.best is None or self.sign * score.value > self.sign * mine.best[0].value:
                    mine.best = score, logged.time

    def judge(self, entrant: str, score: Score, *, repeated: bool) -> Submission:
        """What a score that is not counted yet means for its entrant."""
        mine = self.entrants.get(entrant, Entrant())
        best = None if mine.best is None else mine.best[0]
        better = best is None or _beyond_doubt(score, best, self.sign)
        known = any(one.round == score.round for one, _ in mine.shown)
        if self._rules.ladder and repeated and best is None:
            return Submission(
                entrant, "scored", "the same predictions were submitted before: a copy gets no score of its own."
            )
        counting = self.counting(entrant)
        stays = "" if counting is None else f"Your submission of round {counting[0].round} still counts."
        if self._rules.ladder and not known and (repeated or not better):
            return Submission(entrant, "scored", f"not clearly better than your best so far. {stays}")
        marked = " This score is a forecast, not a measurement." if score.is_forecast else ""
        order = self._rules.of_order
        if repeated:
            if known:
                said = f"you sent the same predictions before, in round {score.round}.{marked}"
                note = "They count for you now, until a later submission of yours is scored."
            else:
                said = f"another entrant sent the same predictions before, in round {score.round}: "
                said += f"they do not count for you.{marked}"
                note = stays or "You are not ranked until you send predictions that nobody has sent before."
            if self.final is None:
                return Submission(entrant, "repeated", said, score, note=f"{note} {order}".rstrip(), counts=known)
            if known and counting is not None and counting[0].round != score.round:
                said += f" Your submission of round {counting[0].round} is the one that counted."
            said += " The contest has ended, and its final scores are on the board."
            return Submission(entrant, "repeated", said, score, final=self._final_score(score.round))
        if best is None:
            said = "your first score."
        elif better:
            said = "clearly better than your best so far."
        else:
            said = f"not clearly better than your best score so far, {best.value:.4g} in round {best.round}."
        note = "This submission counts for you now."
        if best is not None:
            note += " To let an earlier one count, send its file again: that is free."
        return Submission(entrant, "scored", said + marked, score, better, note=f"{note} {order}".rstrip(), counts=True)

    def counting(self, entrant: str) -> tuple[Score, str] | None:
        """The submission that counts for an entrant, and its time: the last, or an earlier one that was sent again since.

        Of the entrant's own, and of those that are shown. After the last ranking it is the one that was ranked.
        """
        mine = self.entrants.get(entrant)
        if mine is None or not mine.shown:
            return None
        final = self.final
        if final is not None:
            return next((one for one in mine.shown if one[0].round in final["rounds"]), None)
        last = mine.shown[-1]
        number, after = self.sent_again.get(entrant, (0, 0))
        if after < last[0].round:
            return last
        return next((one for one in mine.shown if one[0].round == number), last)

    def _final_score(self, number: int) -> FinalScore | None:
        """The score in the last ranking of what was scored in this round; None where it was not ranked."""
        final = self.final
        if final is None or number not in final["rounds"]:
            return None
        return FinalScore(*self._in_metric(*final["scores"][final["rounds"].index(number)]))

    def ranked(self) -> list[RankedScore]:
        """What is ranked now, in the order of the board: the submission of every entrant that counts."""
        scores = {score.name: score for score in self._entries()}
        return [scores[standing.name] for standing in self._standings(list(scores.values()))]

    def _entries(self) -> list[RankedScore]:
        found = [(name, self.counting(name)) for name in self.entrants]
        counting = [(name, one[0]) for name, one in found if one is not None]
        final = self.final
        if final is None:
            return [RankedScore(name, one.value, one.low, one.high, one.round, one.is_forecast) for name, one in counting]
        scores = dict(zip(final["rounds"], final["scores"], strict=True))
        return [RankedScore(name, *self._in_metric(*scores[one.round]), one.round) for name, one in counting]

    def _in_metric(self, value: float, low: float, high: float) -> tuple[float, float, float]:
        """Points as shares, in the metric's own units."""
        span = self._rules.span
        if self.sign < 0:
            value, low, high = 1.0 - value, 1.0 - high, 1.0 - low
        return span * value, span * low, span * high

    def _standings(self, entries: list[RankedScore]) -> list[Standing]:
        place = {one.round: number for number, one in enumerate(entries)}
        duels = np.zeros((len(entries), len(entries)), dtype=bool) if self.rankings else None
        for ranking in self.rankings if duels is not None else ():
            if self.final is not None and self.final["sealed"] and not ranking["last"]:
                continue  # about other rows
            for first, beaten in zip(ranking["rounds"], ranking["beaten"], strict=True):
                for second in beaten:
                    if duels is not None and first in place and second in place:
                        duels[place[first], place[second]] = True
        return standings(entries, larger_is_better=self._rules.larger_is_better, duels=duels)

    def places(self) -> list[Place]:
        """The board's lines, with rank sets from intervals and duels."""
        scores = {score.name: score for score in self._entries()}
        lines = []
        for standing in self._standings(list(scores.values())):
            score, entrant = scores[standing.name], self.entrants[standing.name]
            counting = self.counting(standing.name)
            lines.append(Place.of(standing, score, len(scores) - 1, entrant.sent, "" if counting is None else counting[1]))
        return lines
