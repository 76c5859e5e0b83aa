"""What the board of a contest can show with so many rows: public facts only, before anybody submits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from everhold.bounds.binomial import binomial_interval
from everhold.bounds.budget import Budget
from everhold.bounds.privacy import Privacy
from everhold.bounds.private_plan import private_plan
from everhold.bounds.widths import RowCounts, after_surprises
from everhold.contest.duels import duel_method
from everhold.ledger.ranking import RankingPlan

if TYPE_CHECKING:
    from everhold.contest.board import Rules

__all__ = ["ContestOutlook"]

_SURPRISES = {1: 0, 10: 3, 100: 6}  # among the scores before; simulated contests have about as many, large ones more
_ENTRANTS = 10
_SAYS_LITTLE = 0.2


@dataclass(frozen=True, slots=True)
class ContestOutlook:
    """Half-widths of scores near the middle of their range; those near an end are narrower.

    Attributes:
        rows: the rows that the running board is about.
        running: of the first, the tenth and the hundredth score, if all before them were foreseen and if some were not. Of a
            private contest: of the first score, and of the last one that its budget pays for.
        sealed: the rows that only the last ranking uses.
        final: of a score in the last ranking, with ten entrants; None where there is none.
        span: what a score of 1 on the scale of shares is worth.
        private: whether labels are private.
    """

    rows: int
    running: dict[int, tuple[float, float]]
    sealed: int
    final: float | None
    span: float
    private: bool

    @classmethod
    def of(cls, rules: Rules, count: int) -> ContestOutlook:
        """For a contest with so many rows."""
        sealed, delta, span = round(rules.sealed * count), 1.0 - rules.confidence, rules.span
        rows = count - sealed
        if rules.privacy is not None:
            promise = Privacy(**rules.privacy)
            running = {}
            for asks in (1, promise.surprises):
                none, all_of_them = private_plan(
                    rows=rows, reference=rows, asks=asks, privacy=promise, failure_probability=delta
                ).costs[:2]
                running[asks] = min(none.private, 0.5) * span, min((none if asks == 1 else all_of_them).private, 0.5) * span
            return cls(rows, running, 0, None, span, private=True)
        table = RowCounts(rows, rows)
        running = {
            asks: (span * after_surprises(table, asks, 0, delta), span * after_surprises(table, asks, some, delta))
            for asks, some in _SURPRISES.items()
        }
        plan = RankingPlan(
            tuple(range(1, _ENTRANTS + 1)), duel_method(rules), sealed, Fraction(7, 8), sealed=True, last=True
        )
        final = None
        if sealed:
            nats = plan.score_nats(plan.price(Budget(delta)))
            low, high = binomial_interval(sealed // 2, sealed // 2, sealed, nats)
            final = span * 0.5 * (high - low)
        return cls(rows, running, sealed, final, span, private=False)

    @property
    def text(self) -> str:
        """In sentences."""
        said = []
        for asks, (low, high) in self.running.items():
            name = {1: "the first score", 10: "the tenth", 100: "the hundredth"}.get(asks, f"score number {asks}")
            wide = f"±{high:.2g}" if self.private or f"{low:.2g}" == f"{high:.2g}" else f"±{low:.2g} to ±{high:.2g}"
            said.append(f"{name} {wide}")
        text = (
            f"What the running board can show with {self.rows:,} {'open ' if self.sealed else ''}rows, for scores near the "
            f"middle of their range: {', '.join(said)}. It is the wider, the more of the scores before were surprises."
        )
        if self.final is not None:
            text += (
                f" The final ranking has {self.sealed:,} sealed rows: scores of ten entrants ±{self.final:.2g}, however "
                "long the contest ran."
            )
        return text

    @property
    def warning(self) -> str:
        """What to think of first, where these are few rows; empty otherwise."""
        first, last = (list(self.running.values())[place][1] / self.span for place in (0, 1))
        if self.private and last > _SAYS_LITTLE:
            return (
                f"{self.rows:,} rows are few for a private contest: noise and the price of surprises make intervals of "
                f"±{first:.2g} at first and ±{last:.2g} in the end, on a scale from 0 to 1. Take more rows, a larger "
                "epsilon or fewer surprises, or a contest without privacy."
            )
        if not self.private and last > _SAYS_LITTLE:
            return (
                f"{self.rows:,} {'open ' if self.sealed else ''}rows are few: after about ten submissions the running board "
                f"hardly tells entrants apart. {'The final ranking does not suffer. ' if self.sealed else ''}For a board "
                "that stays informative take more rows, or fewer submissions (--max-per-day)."
            )
        return ""
