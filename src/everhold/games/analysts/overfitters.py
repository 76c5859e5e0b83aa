"""Analysts who overfit a plain holdout, on purpose or not: votes, selection, hill climbing, published experiments.

They use any number of random features of a row: the j-th is a coin flip for each atom of the population.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.games.play import ANALYSTS, AnalystView
from everhold.queries.answer import Answer
from everhold.queries.query import Rows

__all__ = ["agrees", "random_signs"]


def random_signs(view: AnalystView) -> NDArray[np.float32]:
    """A new random feature: -1 or 1 for every atom."""
    size = view.world.atoms
    bits = np.unpackbits(np.frombuffer(view.rng.bytes(-(-size // 8)), np.uint8), count=size)
    return bits.astype(np.float32) * 2.0 - 1.0


def agrees(g: NDArray[Any]) -> Callable[[Rows], NDArray[np.bool_]]:
    """The question whether the sign of g at a row's atom agrees with its label."""
    return lambda rows: (g[rows["i"]] >= 0.0) == (rows["y"] > 0)


def checkpoints(rounds: int) -> set[int]:
    """Rounds in which to check the model: about ten per decade, and the last."""
    marks = {round(10 ** (k / 10)) for k in range(int(10 * log(max(rounds, 2), 10)) + 1)}
    return {mark for mark in marks if mark >= 10} | {rounds}


@ANALYSTS.add("freedman")
def freedman(view: AnalystView) -> Generator[Any, Answer, None]:
    """Asks for each random feature whether it agrees with the label; the features then vote, with the signs of the answers.

    Freedman's paradox as an attack, the first step of a boosting attack: against a plain holdout of n rows, the accuracy of
    the vote after T questions seems too high by about sqrt(T/n).
    """
    total = np.zeros(view.world.atoms, np.float32)
    marks = checkpoints(view.rounds)
    for t in range(1, view.rounds + 1):
        if t in marks and total.any():
            yield agrees(total.copy())
            continue
        r = random_signs(view)
        answer = yield agrees(r)
        total += np.float32(np.sign(answer.value - 0.5) or 1.0) * r


@ANALYSTS.add("hill climber")
def hill_climber(view: AnalystView) -> Generator[Any, Answer, None]:
    """Makes small changes to its predictions and keeps each one that scores better, like an automated search or an agent."""
    size = view.world.atoms
    current, best = random_signs(view), -1.0
    for _ in range(view.rounds):
        changed = np.where(view.rng.random(size) < 0.05, random_signs(view), current)
        answer = yield agrees(changed)
        if answer.value > best:
            current, best = changed, answer.value


@ANALYSTS.add("feature selection")
def feature_selection(view: AnalystView) -> Generator[Any, Answer, None]:
    """Thresholdout's experiment: features that look good on training rows and that the holdout confirms then vote.

    The analyst has its own training sample, as large as the holdout. It keeps features whose correlation with the label is
    at least 1/√n on both, with the same sign; they vote, each with its training correlation.
    """
    train = view.world.draw(view.rng, view.rows)
    y, index, least = train["y"].astype(np.float32), train["i"], view.rows**-0.5
    total = np.zeros(view.world.atoms, np.float32)
    marks = checkpoints(view.rounds)
    for t in range(1, view.rounds + 1):
        if t in marks and total.any():
            yield agrees(total.copy())
            continue
        r = random_signs(view)
        mine = float(np.mean(r[index] * y))
        answer = yield agrees(r)
        theirs = 2.0 * answer.value - 1.0
        if mine * theirs > 0.0 and min(abs(mine), abs(theirs)) >= least:
            total += np.float32(mine) * r


@ANALYSTS.add("ladder boosting")
def ladder_boosting(view: AnalystView) -> Generator[Any, Answer, None]:
    """Blum and Hardt's attack on a leaderboard: random submissions, then the vote of those with a loss up to 1/2."""
    total = np.zeros(view.world.atoms, np.float32)
    for _ in range(view.rounds - 1):
        r = random_signs(view)
        answer = yield lambda rows, r=r: (r[rows["i"]] >= 0.0) != (rows["y"] > 0)
        if answer.value <= 0.5:
            total += r
    yield lambda rows: (total[rows["i"]] >= 0.0) != (rows["y"] > 0)


def rogers(view: AnalystView, adaptive: Callable[[int], bool]) -> Generator[Any, Answer, None]:
    """Rogers et al. (2020): correlations of features with a label, and sometimes the accuracy of their weighted vote.

    Every feature votes with the logarithm of its odds, computed from the answers.
    """
    total = np.zeros(view.world.atoms, np.float32)
    for t in range(1, view.rounds + 1):
        if adaptive(t):
            yield agrees(total.copy())
            continue
        r = random_signs(view)
        answer = yield agrees(r)
        value = min(max(2.0 * answer.value - 1.0, -1.0 + 1e-9), 1.0 - 1e-9)
        total += np.float32(log((1.0 + value) / (1.0 - value))) * r


@ANALYSTS.add("rogers, every 100th")
def rogers_additive(view: AnalystView) -> Generator[Any, Answer, None]:
    """Every hundredth question is adaptive."""
    return rogers(view, lambda t: t % 100 == 0)


@ANALYSTS.add("rogers, squares")
def rogers_squares(view: AnalystView) -> Generator[Any, Answer, None]:
    """Questions number 4, 9, 16 … are adaptive."""
    return rogers(view, lambda t: t > 1 and round(t**0.5) ** 2 == t)
