"""Honest analysts: questions fixed in advance, and statistical-query learners."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from everhold.games.play import ANALYSTS, AnalystView
from everhold.learn import programs
from everhold.queries.answer import Answer

__all__ = ["fixed_random", "learner"]


@ANALYSTS.add("fixed random")
def fixed_random(view: AnalystView) -> Generator[Any, Answer, None]:
    """Conjunctions, parities and half-spaces with random coefficients, chosen before the first answer."""
    d = view.world.features
    for t in range(view.rounds):
        numbers = view.rng.standard_normal(d)
        picked = np.argsort(numbers)[: 1 + t % 3]
        if t % 3 == 0:
            yield lambda rows, p=picked: (rows["x"][:, p] > 0).all(axis=1)
        elif t % 3 == 1:
            yield lambda rows, p=picked: (rows["x"][:, p] > 0).sum(axis=1) % 2 == 1
        else:
            weights = numbers.astype(np.float32)
            yield lambda rows, w=weights: (rows["x"] @ w > 0.0) == (rows["y"] > 0)


def learner(program: programs.LearnerProgram) -> Generator[Any, Answer, None]:
    """A statistical-query learner: its questions, then the accuracy of its model."""
    try:
        phi = next(program)
        while True:
            answer = yield lambda rows, phi=phi: phi(rows["x"], rows["y"].astype(np.float64))
            phi = program.send(float(answer))
    except StopIteration as done:
        model = done.value
        yield lambda rows: (model.score(rows["x"]) > 0.0) == (rows["y"] > 0)


def _features(view: AnalystView) -> Any:
    return np.asarray(view.public["x"], dtype=np.float64)


@ANALYSTS.add("SQ boosting")
def sq_boosting(view: AnalystView) -> Generator[Any, Answer, None]:
    """Boosting over single features, for as many stages as the questions allow."""
    stages = max(1, (view.rounds - 1) // (view.world.features + 1))
    yield from learner(programs.boosting(_features(view), stages=stages))


@ANALYSTS.add("SQ tree")
def sq_tree(view: AnalystView) -> Generator[Any, Answer, None]:
    """A decision tree of depth three."""
    yield from learner(programs.decision_tree(_features(view), depth=3, cuts=1))


@ANALYSTS.add("SQ logistic regression")
def sq_logistic(view: AnalystView) -> Generator[Any, Answer, None]:
    """Gradient descent for logistic regression, for as many steps as the questions allow."""
    steps = max(1, (view.rounds - 1) // (view.world.features + 1))
    yield from learner(programs.logistic(_features(view), steps=steps))
