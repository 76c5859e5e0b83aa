"""Duels: which of two submissions is better, by the rows on which they differ.

A submission earns a number of points on every row, between 0 and 1: right or wrong, or 1 less its loss. Rows of a contest
are independent and need not be alike. `docs/theory/ranks.md` says which test is valid for which contest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.bounds.binomial import bet_refutes, mcnemar_refutes
from everhold.bounds.fan import TOP, fan_interval, fan_rate
from everhold.bounds.ranks import step_down
from everhold.learn.metrics import find

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.contest.board import Rules
    from everhold.ledger.ranking import DuelMethod, RankingPlan

__all__ = ["Duels", "duel_method"]

_BET_STEPS = 2**10  # a bet's share is a multiple of 2^-10, so that 2θ and 2(1-θ) are exact


def duel_method(rules: Rules) -> DuelMethod:
    """How two submissions are compared: a public fact about the contest.

    With two classes exactly one of two different predictions is right, so McNemar's test is valid though rows differ. With
    more classes it is the public bet on counts, and for numbers Fan's bound.
    """
    if rules.task == "regression":
        return "fan"
    return "mcnemar" if len(rules.classes) == 2 else "bet"


@dataclass(frozen=True, slots=True, eq=False)
class Duels:
    """The duels of a ranking. Bets and rates follow from public facts: predictions, the board, the price.

    Attributes:
        plan: what is recorded before labels are read.
        rules: of the contest.
        predictions: of every entry, in the public order, on the rows that are judged.
        shares: the points of every entry as the public board has them, between 0 and 1.
        price: what the ranking is judged at.
    """

    plan: RankingPlan
    rules: Rules
    predictions: list[NDArray[Any]]
    shares: list[float]
    price: float

    def decide(self, labels: NDArray[Any], path: Path) -> str:
        """What is disclosed. The same work whatever the labels are, except for the number of Holm's steps."""
        points = self._points(labels, path)
        refutes = self._by_sums(points) if self.plan.method == "fan" else self._by_counts(points)
        better = step_down(refutes, len(self.plan.pairs), self.plan.duel_nats(self.price))
        return self.plan.disclosed(better, [int(one) for one in points.sum(axis=1)])

    def _points(self, labels: NDArray[Any], path: Path) -> NDArray[np.int64]:
        """Points of every entry on every row: 0 or 1, or 0 to TOP."""
        loss = find(self.rules.metric, self.rules.task).loss
        part = None if loss is None else loss(self.rules.options(path).context(None))
        rows = [np.asarray(part(one, labels), dtype=np.float64) for one in self.predictions] if part else []
        shares = np.array(rows).reshape(len(self.predictions), len(labels))
        shares = shares if self.rules.larger_is_better else 1.0 - shares
        return np.rint(shares * (TOP if self.plan.method == "fan" else 1)).astype(np.int64)

    def _by_counts(self, points: NDArray[np.int64]) -> Callable[[int, float], bool]:
        exact = points.astype(np.float64)  # counts of rows are exact in floating point, and its product is far quicker
        wins = np.rint(exact @ (1.0 - exact).T).astype(np.int64)
        pairs = self.plan.pairs
        if self.plan.method == "mcnemar":
            return lambda index, nats: mcnemar_refutes(int(wins[pairs[index]]), int(wins.T[pairs[index]]), nats)
        bets = [self._bet(*pair) for pair in pairs]
        return lambda index, nats: bet_refutes(
            int(wins[pairs[index]]), int(wins.T[pairs[index]]), bets[index] / _BET_STEPS, nats
        )

    def _bet(self, first: int, second: int) -> int:
        """The public bet θ: the least share of `first` among the differing rows that would refute, `½ + sqrt(c/2d)`.

        d is foreseen from the rows on which the predictions differ, as if both were right independently of each other.
        """
        differing = int(np.count_nonzero(self.predictions[first] != self.predictions[second]))
        m = min(max(0.5 * (self.shares[first] + self.shares[second]), 0.01), 0.99)
        one_right = 2.0 * m * (1.0 - m)
        alike = m * m + (1.0 - m) * (1.0 - m) / max(len(self.rules.classes) - 1, 1)
        foreseen = max(differing * one_right / (1.0 - alike), 1.0)
        return round(_BET_STEPS * min(0.5 + sqrt(self.price / (2.0 * foreseen)), 0.95))

    def _by_sums(self, points: NDArray[np.int64]) -> Callable[[int, float], bool]:
        pairs, rows = self.plan.pairs, points.shape[1]
        settings = [self._fan_settings(*pair) for pair in pairs]
        sums = []
        for first, second in pairs:
            ahead = points[first] - points[second]
            sums.append((int(ahead.sum()), int((ahead * ahead).sum())))

        def refutes(index: int, nats: float) -> bool:
            (total, squares), (reach, rate) = sums[index], settings[index]
            # x = lead + reach lies in 0 … 2·reach. Rounding moves a lead by up to one step: that much more is needed.
            first, second = total + rows * reach, squares + 2 * reach * total + rows * reach * reach
            low, _ = fan_interval(first, second, rows, centre=reach, rates=(rate, rate), nats=nats, top=2 * reach)
            return low > reach + 1

        return refutes

    def _fan_settings(self, first: int, second: int) -> tuple[int, int]:
        """The public reach, in steps, and rate: errors differ by at most as much as predictions, squares by twice that."""
        rules = self.rules
        one, other = (np.clip(self.predictions[k].astype(np.float64), rules.low, rules.high) for k in (first, second))
        moved = np.abs(one - other) / (float(rules.high or 0.0) - float(rules.low or 0.0))
        most, foreseen = float(moved.max(initial=0.0)), float(np.mean(moved * moved))
        if rules.metric == "mean_squared_error":
            most *= 2.0
            foreseen *= 4.0 * min(max(1.0 - 0.5 * (self.shares[first] + self.shares[second]), 0.001), 1.0)
        reach = min(ceil(most * TOP) + 2, TOP)
        return reach, fan_rate(foreseen * TOP * TOP, reach, self.price, float(len(moved)))
