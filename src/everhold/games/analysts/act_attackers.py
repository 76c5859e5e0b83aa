"""Attackers who use acts: each collects what is disclosed about coins of the rows, and claims the coins' vote.

On labels that are pure noise every vote has a population share of exactly one half, and in the sample it is as far off as
was disclosed. Against a mechanism that does not charge for what it discloses these win nearly always.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from everhold.acts import BestOf, Certify, Close, IsBetter, Read, ReadMany
from everhold.games.analysts.overfitters import agrees, random_signs
from everhold.games.play import ANALYSTS, AnalystView
from everhold.games.seats import Asked

__all__ = [
    "ACT_ATTACKS",
    "best_of_batches",
    "bits",
    "late_claims",
    "rider",
    "votes_of_batches",
    "votes_of_readings",
]

Program = Generator[Any, Any, None]


def votes_of_readings(view: AnalystView, readings: int, spend: float | None) -> Program:
    """Reads fresh coins one after the other, keeps the sign of each deviation, and reads the vote."""
    total = np.zeros(view.world.atoms, np.float32)
    for _ in range(readings):
        coins = random_signs(view)
        answer = yield Read(agrees(coins), spend=spend)
        total += np.float32(answer.value - 0.5) * coins
    yield Close([agrees(total)])


def votes_of_batches(view: AnalystView, batches: int, size: int, spend: float | None) -> Program:
    """Batches of readings at one price each, whose cells are fine; each deviation weighs as much as it is."""
    total = np.zeros(view.world.atoms, np.float32)
    for _ in range(batches):
        coins = [random_signs(view) for _ in range(size)]
        answers = yield ReadMany([agrees(signs) for signs in coins], spend=spend)
        for signs, answer in zip(coins, answers, strict=True):
            total += np.float32(answer.value - 0.5) * signs
    yield Close([agrees(total)])


def _edge(view: AnalystView, asks: int, inside: float) -> Generator[Any, Any, tuple[Any, list[int]]]:
    """Asks whose tolerance ends at the population's share, or some deviations beyond: a surprise shows a sign.

    Returns the vote of the coins, and the rounds.
    """
    total = np.zeros(view.world.atoms, np.float32)
    rounds = []
    for _ in range(asks):
        coins = random_signs(view)
        question = agrees(coins)
        forecast = 0.5 - float(view.try_out(question).tolerance) + inside * 0.5 / np.sqrt(view.rows)
        answer = yield Asked(question, 0.5, expect=max(forecast, 0.0))
        rounds.append(answer.round)
        if answer.surprise or not inside:
            total += np.float32(1.0 if answer.surprise else -1.0) * coins
    return agrees(total), rounds


def rider(view: AnalystView, asks: int, inside: float) -> Program:
    """Guesses so that the edge of the tolerance is where the population is; the vote is read in the last act."""
    vote, _ = yield from _edge(view, asks, inside)
    yield Close([vote])


def late_claims(view: AnalystView, asks: int) -> Program:
    """The rider's bits; the vote is *asked* with a right forecast and certified later, as are the first asks."""
    vote, rounds = yield from _edge(view, asks, 0.0)
    answer = yield Asked(vote, 0.5, expect=0.5)
    for number in (answer.round, *rounds[:3]):
        yield Certify(number)


def best_of_batches(view: AnalystView, batches: int, size: int) -> Program:
    """Batches of fresh coins, of each only which is best; the vote of the winners is read."""
    total = np.zeros(view.world.atoms, np.float32)
    for _ in range(batches):
        coins = [random_signs(view) for _ in range(size)]
        choice = yield BestOf([agrees(signs) for signs in coins])
        total += coins[choice.index]
    yield Close([agrees(total)])


def bits(view: AnalystView, pairs: int) -> Program:
    """Whether one coin has more heads than another, many times; the vote of the better ones."""
    total = np.zeros(view.world.atoms, np.float32)
    for _ in range(pairs):
        first, second = random_signs(view), random_signs(view)
        decision = yield IsBetter(agrees(first), agrees(second))
        total += (first - second) if decision else (second - first)
    yield Close([agrees(total)])


ACT_ATTACKS: dict[str, Callable[[AnalystView], Program]] = {
    "votes of readings": lambda view: votes_of_readings(view, view.rounds - 1, 0.01),
    "votes of batches": lambda view: votes_of_batches(view, 3, (view.rounds - 1) // 3, 0.1),
    "edge rider": lambda view: rider(view, view.rounds - 1, 0.0),
    "late claims": lambda view: late_claims(view, max(view.rounds - 5, 1)),
    "best of batches": lambda view: best_of_batches(view, max((view.rounds - 1) // 20, 1), min(20, view.rounds - 1)),
    "bits": lambda view: bits(view, (view.rounds - 1) // 2),
}
"""The attackers by name, for as many questions as a game has."""
for _name, _program in ACT_ATTACKS.items():
    ANALYSTS.add(_name)(_program)
