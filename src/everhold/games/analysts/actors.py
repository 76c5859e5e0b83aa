"""Analysts who use acts: they explore with asks and read what they report, or choose in generations and read the winner.

A mechanism without an act is asked every question that the act is about.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.acts import BestOf, Close, ReadMany
from everhold.games.analysts.honest import fixed_random
from everhold.games.play import ANALYSTS, AnalystView
from everhold.queries.query import Rows

__all__ = ["asks_then_reads", "generations"]

REPORTED = 5
GENERATION = 50


@ANALYSTS.add("asks, then reads")
def asks_then_reads(view: AnalystView) -> Generator[Any, Any, None]:
    """Asks many questions, and reads the five whose answers are furthest from a half: what it would write down."""
    asked: list[tuple[float, int, Any]] = []
    program = fixed_random(view)
    for _ in range(max(view.rounds - REPORTED, 1)):
        question = next(program)
        answer = yield question
        asked.append((abs(answer.value - 0.5), len(asked), question))
    chosen = sorted(asked, key=lambda item: (-item[0], item[1]))[:REPORTED]
    yield ReadMany([question for _, _, question in chosen])


@ANALYSTS.add("generations")
def generations(view: AnalystView) -> Generator[Any, Any, None]:
    """Searches for a linear model: fifty changes of the best so far in each generation; the last winner is read.

    The champion takes part again, so that no generation ends with a worse one.
    """
    best = view.rng.standard_normal(view.world.features).astype(np.float32)
    width = 1.0
    for _ in range((view.rounds - 1) // GENERATION):
        changes = view.rng.standard_normal((GENERATION - 1, len(best))).astype(np.float32)
        models = [best, *(best + np.float32(width) * change for change in changes)]
        choice = yield BestOf([_right(model) for model in models])
        best, width = models[choice.index], 0.8 * width
    yield Close([_right(best)])


def _right(weights: NDArray[np.float32]) -> Callable[[Rows], NDArray[np.bool_]]:
    """Whether a linear model is right about a row."""
    return lambda rows: (rows["x"] @ weights > 0.0) == (rows["y"] > 0)
