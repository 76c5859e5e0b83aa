"""A ranking as it is recorded: entries compared two by two on the same rows, all at once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

from everhold.bounds.binomial import binomial_interval
from everhold.bounds.code import ANSWERED_NATS, NOTHING_NATS
from everhold.bounds.concentration import kl_interval
from everhold.bounds.elementary import ln
from everhold.bounds.fan import TOP

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget
    from everhold.ledger.rounds import ActStart

__all__ = ["DuelMethod", "RankingPlan"]

DuelMethod = Literal["mcnemar", "bet", "fan"]

_INTERVALS = 8
"""One part in so many of a last ranking's failure probability is for the scores, the rest for the duels."""


@dataclass(frozen=True, slots=True)
class RankingPlan:
    """Everything about a ranking that is fixed before private rows are read.

    Entries are numbered in their public order, best first. Of every pair only one question is asked: is the one that is
    foreseen as better certified to be better?

    Attributes:
        rounds: the rounds in which the entries were scored, in their public order.
        method: how two of them are compared.
        rows: how many rows are judged.
        spend: of what is left of the failure probability.
        sealed: whether the rows are sealed ones.
        last: whether nothing follows. Then the scores are disclosed too.
    """

    rounds: tuple[int, ...]
    method: DuelMethod
    rows: int
    spend: Fraction
    sealed: bool
    last: bool

    @classmethod
    def from_record(cls, begun: ActStart) -> RankingPlan:
        """The plan of a recorded act."""
        options = begun.options
        if set(options) != {"method", "rows", "spend", "sealed", "last"} or options["method"] not in (
            "mcnemar",
            "bet",
            "fan",
        ):
            raise ValueError("a ranking with other options than it can have")
        rounds = tuple(entry["round"] for entry in begun.asked)
        kinds = {type(value) for value in (*rounds, options["rows"])} | {entry["kind"] for entry in begun.asked}
        if not kinds <= {int, "entry"} or len(set(rounds)) != len(rounds):
            raise ValueError("a ranking of something else than entries")
        if type(options["sealed"]) is not bool or type(options["last"]) is not bool:
            raise ValueError("a ranking with other options than it can have")
        spend = Fraction(options["spend"])
        return cls(rounds, options["method"], options["rows"], spend, options["sealed"], options["last"])

    @property
    def asked(self) -> tuple[dict[str, Any], ...]:
        """The entries, for the record."""
        return tuple({"kind": "entry", "round": number} for number in self.rounds)

    @property
    def options(self) -> dict[str, Any]:
        """Everything else, for the record."""
        names = ("method", "rows", "sealed", "last")
        return {**{name: getattr(self, name) for name in names}, "spend": str(self.spend)}

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Who is compared with whom, by their places in the public order."""
        return list(combinations(range(len(self.rounds)), 2))

    def price(self, budget: Budget) -> float:
        """What the whole ranking is judged at, in nats."""
        return budget.ranking_price(self.spend, sealed=self.sealed)

    def duel_nats(self, price: float) -> float:
        """What all duels together are judged at."""
        return price + ln(_INTERVALS / (_INTERVALS - 1.0)) if self.last else price

    def score_nats(self, price: float) -> float:
        """What each end of each score's interval is judged at, in a last ranking."""
        return price + ln(2.0 * _INTERVALS * len(self.rounds))

    def charge(self, budget: Budget, outcome: object, *, interrupted: bool) -> Budget:
        """The budget after the ranking: each duel's outcome was foreseen with 1/2. After the last act nothing counts."""
        if interrupted:
            return budget.ranked(NOTHING_NATS, self.spend, sealed=self.sealed)
        self._parse(outcome)
        nats = 0.0 if self.last else ANSWERED_NATS + len(self.pairs) * ln(2.0)
        return budget.ranked(nats, self.spend, sealed=self.sealed)

    def disclosed(self, better: list[bool], sums: list[int] | None) -> str:
        """What is disclosed, as one text."""
        disclosed: dict[str, Any] = {"better": "".join("01"[bit] for bit in better)}
        return json.dumps(disclosed | ({"sums": sums} if self.last else {}), sort_keys=True, separators=(",", ":"))

    def _parse(self, outcome: object) -> tuple[str, list[int]]:
        disclosed = json.loads(outcome) if isinstance(outcome, str) else {}
        if set(disclosed) != ({"better", "sums"} if self.last else {"better"}):
            raise ValueError("an outcome that no ranking has")
        better, sums = str(disclosed["better"]), list(disclosed.get("sums", []))
        most = self.rows * (TOP if self.method == "fan" else 1)
        fine = set(better) <= set("01") and len(better) == len(self.pairs)
        fine = fine and len(sums) == (len(self.rounds) if self.last else 0)
        if not fine or not all(type(total) is int and 0 <= total <= most for total in sums):
            raise ValueError("an outcome that no ranking has")
        return better, sums

    def result(self, outcome: object, price: float) -> dict[str, Any]:
        """What is returned: who is certified better than whom, and in a last ranking everybody's score with its interval."""
        better, sums = self._parse(outcome)
        beaten: list[list[int]] = [[] for _ in self.rounds]
        for (first, second), bit in zip(self.pairs, better, strict=True):
            if bit == "1":
                beaten[first].append(self.rounds[second])
        nats = self.score_nats(price)
        return {
            "kind": "ranking",
            "rounds": list(self.rounds),
            "beaten": beaten,
            "scores": [self._score(total, nats) for total in sums],
            "rows": self.rows,
            "sealed": self.sealed,
            "last": self.last,
            "price": price,
        }

    def _score(self, total: int, nats: float) -> list[float]:
        """A share of points with its interval: exact for counts; for sums of steps, widened by half a step."""
        if self.method != "fan":
            return [total / self.rows, *binomial_interval(total, total, self.rows, nats)]
        value, half = total / (TOP * self.rows), 0.5 / TOP
        low, high = kl_interval(max(value - half, 0.0), min(value + half, 1.0), nats / self.rows)
        return [value, low, high]
