"""Where entries stand: rank sets from certified comparisons, and an order in which a wider interval gains nothing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.bounds.ranks import closure, rank_sets

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RankedScore", "Standing", "standings"]


@dataclass(frozen=True, slots=True)
class RankedScore:
    """What is ranked: a score with its interval, and when it came; a forecast is a score that was not measured."""

    name: str
    value: float
    low: float
    high: float
    round: int
    forecast: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an entry stands.

    Attributes:
        name: of the entry.
        rank: as it is listed; entries that share a rank are tied. It lies in the rank set, and never falls down the list.
        best, worst: the rank set. All sets are valid at the same time, with the confidence of the board.
        beats: how many others it is certified to be better than.
    """

    name: str
    rank: int
    best: int
    worst: int
    beats: int


def standings(
    entries: Sequence[RankedScore], *, larger_is_better: bool, duels: NDArray[np.bool_] | None = None
) -> list[Standing]:
    """Rank sets, in the order of the board.

    One entry is certified better than another if their intervals do not overlap, if a duel says so, or if both follow
    from these. The list keeps that order. Else the better value comes first; at the same value the narrower interval, then
    the earlier submission. An entry counts as valued no worse than what it is certified to beat.

    Args:
        entries: scores whose intervals are valid at the same time.
        larger_is_better: which way the scores point.
        duels: `duels[i, j]`: entry i is certified better than entry j; valid at the same time as the intervals.
    """
    sign = 1.0 if larger_is_better else -1.0
    own = [(-sign * entry.value, entry.high - entry.low, entry.round) for entry in entries]
    if duels is None or not duels.any():
        sets = _interval_sets(entries, larger_is_better)
        order = sorted(range(len(entries)), key=lambda index: own[index])
    else:
        apart = _apart(entries, larger_is_better)
        better = closure(apart | duels)
        sets = rank_sets(better)
        keys = [min([own[index], *(own[j] for j in np.flatnonzero(better[index]))]) for index in range(len(entries))]
        order = sorted(range(len(entries)), key=lambda index: (keys[index], sets[index][0], own[index]))
    found, rank = [], 1
    for index in order:
        best, worst = sets[index]
        rank = max(rank, best)
        found.append(Standing(entries[index].name, rank, best, worst, len(entries) - worst))
    return found


def _apart(entries: Sequence[RankedScore], larger_is_better: bool) -> NDArray[np.bool_]:
    low, high = (np.array([getattr(entry, end) for entry in entries]) for end in ("low", "high"))
    apart: NDArray[np.bool_] = low[:, None] > high if larger_is_better else high[:, None] < low
    return apart


def _interval_sets(entries: Sequence[RankedScore], larger_is_better: bool) -> list[tuple[int, int]]:
    """The same as `rank_sets` where only intervals are compared, for many entries: two sorted lists."""
    lows, highs = (sorted(getattr(entry, end) for entry in entries) for end in ("low", "high"))
    count = len(entries)
    above = [count - bisect_right(lows, entry.high) for entry in entries]
    below = [bisect_left(highs, entry.low) for entry in entries]
    if not larger_is_better:
        above, below = below, above
    return [(1 + up, count - down) for up, down in zip(above, below, strict=True)]
