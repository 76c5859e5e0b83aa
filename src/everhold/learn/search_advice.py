"""Warnings about searches that ask in a way that costs much and finds little."""

from __future__ import annotations

import warnings
from math import inf
from typing import TYPE_CHECKING

from everhold.errors import SearchWarning

if TYPE_CHECKING:
    from everhold.learn.score import Score

__all__ = ["SearchAdvice"]

_OVERLAPPING_SCORES = 20  # so many are worth a warning
_MANY_READINGS = 5  # of different models: more are probably a search


class SearchAdvice:
    """What a test set has seen of a search, to warn once for each metric of many scores, once in all of many readings."""

    def __init__(self) -> None:
        self._overlap: dict[str, tuple[float, float, int]] = {}
        self._rounds: dict[str, set[int]] = {}
        self._warned_of_readings = False

    def after_score(self, score: Score) -> None:
        """Warn where the intervals of many scores overlap."""
        low, high, count = self._overlap.get(score.metric, (-inf, inf, 0))
        low, high, count = max(low, score.low), min(high, score.high), count + 1
        self._overlap[score.metric] = low, high, count
        if count == _OVERLAPPING_SCORES and low <= high:
            warnings.warn(
                f"all {count} intervals overlap, so these scores do not tell the models apart. To find the best of many, "
                "enter them with test.enter(model) and ask test.winner().",
                SearchWarning,
                stacklevel=3,
            )

    def after_reading(self, score: Score) -> None:
        """Warn where many models are read one after the other, as a search would."""
        rounds = self._rounds.setdefault(score.metric, set())
        rounds.add(score.round)
        if len(rounds) == _MANY_READINGS + 1 and not self._warned_of_readings:
            self._warned_of_readings = True
            warnings.warn(
                f"{len(rounds)} models were read one by one, and each reading makes all later intervals wider: the last one "
                f"is {score.interval}. To find the best of many, enter them with test.enter(model) and ask test.winner().",
                SearchWarning,
                stacklevel=3,
            )
