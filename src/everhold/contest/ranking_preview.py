"""What a duel or the last ranking would do and cost, from public facts alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.bounds.binomial import mcnemar_refutes
from everhold.bounds.elementary import ln
from everhold.results import JsonResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.bounds.budget import Budget
    from everhold.ledger.ranking import RankingPlan

__all__ = ["RankingPreview"]


@dataclass(frozen=True, slots=True)
class RankingPreview(JsonResult):
    """A duel, or the last ranking, before it is made. Nothing private is read for it, and nothing is recorded.

    Attributes:
        entrants: who would be compared, in the order of the board.
        rounds: of each entrant, the round of the submission that counts.
        duels: how many pairs that makes.
        rows: on how many rows.
        sealed: whether these are rows of which nothing was disclosed.
        last: whether the contest ends with it.
        price: what one duel is judged at, in nats, before others are refuted.
        cost: by how many nats all later intervals and duels become more expensive; 0 after the last ranking.
        differing: of two entrants, the rows on which their predictions differ; None for the last ranking.
        needed: of these, how many the first must be right on to be certified better; None where that is not known in
            advance (more than two classes, numbers), or where no number is enough.
    """

    entrants: tuple[str, ...]
    rounds: tuple[int, ...]
    duels: int
    rows: int
    sealed: bool
    last: bool
    price: float
    cost: float
    differing: int | None = None
    needed: int | None = None

    @classmethod
    def of(
        cls, plan: RankingPlan, budget: Budget, entrants: tuple[str, ...], predictions: list[NDArray[Any]]
    ) -> RankingPreview:
        """From a plan that is not recorded, and predictions on the rows that it judges, of two entrants or of none."""
        price = plan.price(budget)
        count = len(plan.pairs)
        one_duel = plan.duel_nats(price) + ln(float(max(count, 1)))
        cost = 0.0 if plan.last else plan.charge(budget, plan.disclosed([False] * count, None), interrupted=False).nats
        differing = int(np.count_nonzero(predictions[0] != predictions[1])) if predictions else None
        return cls(
            entrants,
            plan.rounds,
            count,
            plan.rows,
            plan.sealed,
            plan.last,
            one_duel,
            max(cost - budget.nats, 0.0),
            differing,
            _least_wins(differing, one_duel) if plan.method == "mcnemar" and differing is not None else None,
        )

    @property
    def text(self) -> str:
        """In sentences."""
        rows = f"{self.rows:,} {'sealed ' if self.sealed else ''}rows"
        if self.last:
            duels = f"{self.duels:,} duel{'' if self.duels == 1 else 's'}"
            said = (
                f"The last ranking compares {len(self.entrants):,} entrants two by two ({duels}) on {rows}, and shows "
                "everybody's score. The contest ends with it: nothing can be submitted afterwards."
            )
            unseen = "Nothing was disclosed of these rows before, so what the contest has shown costs nothing."
            paid = unseen if self.sealed else "All that the contest has disclosed is part of the price."
            counted = ", ".join(f"{who} (round {number})" for who, number in zip(self.entrants, self.rounds, strict=True))
            return (
                f"{said} {paid} For each entrant the last submission that was scored counts, or an earlier one that was "
                f"sent again since. These count now: {counted}."
            )
        first, second = self.entrants
        said = (
            f"The duel tests whether {first} (round {self.rounds[0]}) is better than {second} (round {self.rounds[1]}), on "
            f"{rows}. All later intervals get a little wider, "
            "whatever comes out, and a part of the failure probability is spent."
        )
        if self.differing is None or (self.needed is None and self.differing):
            return said
        differ = f"Their predictions differ on {self.differing:,} rows"
        if self.needed is None:
            return f"{said} {differ}, so that nothing can be certified."
        return f"{said} {differ}; {first} is certified better if it is right on {self.needed:,} of them or more."

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "kind": "ranking preview",
            **asdict(self),
            "entrants": list(self.entrants),
            "rounds": list(self.rounds),
            "text": self.text,
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> RankingPreview:
        """The same again, equal to the bit."""
        fields = {name: value for name, value in given.items() if name not in ("kind", "text", "entrants", "rounds")}
        return cls(tuple(given["entrants"]), tuple(given["rounds"]), **fields)


def _least_wins(differing: int, nats: float) -> int | None:
    """The least number of wins among so many differing rows that is certified; None where there is none."""
    low, high = differing // 2, differing + 1  # at `high` it is enough, or there is no such number
    while high - low > 1:
        middle = (low + high) // 2
        if mcnemar_refutes(middle, differing - middle, nats):
            high = middle
        else:
            low = middle
    return high if high <= differing else None
