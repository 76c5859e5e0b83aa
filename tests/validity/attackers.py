"""Analysts who know the population and try to make an interval miss it.

Each is a generator: it yields (question on the atoms, true mean) pairs and is sent the answer. The population is uniform
over N atoms with labels y = f(x), so that every truth is known exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

import everhold as eh


@dataclass(frozen=True)
class World:
    """N atoms, labels f, a sample of n of them; the reference is every atom with both labels."""

    f: np.ndarray
    picked: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.picked)

    def truth(self, values: np.ndarray) -> float:
        """Population mean of a question given by its values at y = +1 and y = -1 for each atom."""
        on_label = np.where(self.f > 0, values[0], values[1])
        return float(np.mean(on_label))

    def ask(self, holdout: eh.Holdout, values: np.ndarray) -> eh.Answer:
        """values: shape (2, N), the question at label +1 and -1."""
        private = np.where(self.f > 0, values[0], values[1])[self.picked]
        return holdout.ask(eh.Values(sample=private, reference=np.concatenate([values[0], values[1]])))

    def sketch(self, holdout: eh.Holdout, values: np.ndarray) -> eh.Preview:
        """What the public side says: attackers may look at it for nothing."""
        return holdout.try_out(eh.Values(reference=np.concatenate([values[0], values[1]])))


def make_world(rng: np.random.Generator, *, atoms: int, rows: int) -> World:
    return World(np.where(rng.random(atoms) < 0.5, 1.0, -1.0), rng.integers(atoms, size=rows))


def times_label(g: np.ndarray) -> np.ndarray:
    """The question y·g(x)."""
    return np.stack([g, -g])


Ask = Callable[[np.ndarray], eh.Answer]
Attack = Callable[[World, eh.Holdout, np.random.Generator, int], Generator[np.ndarray, eh.Answer, None]]


def threshold_rider(
    world: World, holdout: eh.Holdout, rng: np.random.Generator, rounds: int
) -> Generator[np.ndarray, eh.Answer, None]:
    """Sits just below the tolerance, so that a surprise reveals which way a random direction errs; then adds these up.

    φ_j = y(αf + (1-α) r_j) with α such that the population lies 2.5 sampling errors of r_j inside the tolerance.
    """
    f, error = world.f, 2.5 / np.sqrt(world.rows)
    found, seen, known = np.zeros_like(f), -1, None
    for _ in range(rounds):
        if holdout.surprises != seen:
            known, seen = world.sketch(holdout, times_label(f)), holdout.surprises
        r = np.where(rng.random(len(f)) < 0.5, 1.0, -1.0)
        preview = world.sketch(holdout, times_label(r))
        # φ(D) - u - τ + 2.5 (1-α)/√n is linear in α: its ends, then its zero.
        at_r = world.truth(times_label(r)) - preview.sketch - preview.tolerance + error
        at_f = 1.0 - known.sketch - preview.tolerance
        if at_r >= 0.0 or at_f <= 0.0:
            continue
        alpha = at_r / (at_r - at_f)
        answer = yield times_label(alpha * f + (1.0 - alpha) * r)
        if answer.surprise:
            # The private mean was above the tolerance: r agrees with f more often in the sample than in the population.
            found += r
    vote = np.where(found >= 0.0, 1.0, -1.0)
    for beta in (0.0, 0.3, -0.3, 0.6, -0.6):
        yield times_label((1.0 - abs(beta)) * vote + beta * f)


def freedman(
    world: World, holdout: eh.Holdout, rng: np.random.Generator, rounds: int
) -> Generator[np.ndarray, eh.Answer, None]:
    """Asks random directions, keeps the sign of each answer, and finishes with the vote of all of them, weighted or not."""
    directions = np.where(rng.random((rounds, len(world.f))) < 0.5, 1.0, -1.0)
    signs = np.empty(rounds)
    weights = np.empty(rounds)
    for j, r in enumerate(directions):
        answer = yield times_label(r)
        excess = answer.value - world.truth(times_label(r))
        signs[j], weights[j] = np.sign(excess) or 1.0, excess
    for combined in (signs @ directions, weights @ directions):
        vote = np.where(combined >= 0.0, 1.0, -1.0)
        yield times_label(vote)
        yield (times_label(vote) > 0.0).astype(bool)


def surprise_hunter(
    world: World, holdout: eh.Holdout, rng: np.random.Generator, rounds: int
) -> Generator[np.ndarray, eh.Answer, None]:
    """Asks whatever the sketch is furthest from knowing, mixes in noise, and bets on everything that ever surprised."""
    f, found = world.f, np.zeros_like(world.f)
    for _ in range(rounds):
        r = np.where(rng.random(len(f)) < 0.5, 1.0, -1.0)
        share = rng.uniform(0.05, 0.5)
        subset = rng.random(len(f)) < share
        g = np.where(subset, f, 0.5 * r)
        answer = yield times_label(g)
        if answer.surprise:
            found += np.sign(answer.value - world.truth(times_label(g))) * (g - share * f)
        if rng.random() < 0.05:
            yield times_label(np.where(found >= 0.0, 1.0, -1.0))
    vote = np.where(found >= 0.0, 1.0, -1.0)
    yield times_label(vote)
    yield times_label(0.5 * vote + 0.5 * f)


ATTACKS: dict[str, Attack] = {
    "threshold rider": threshold_rider,
    "freedman": freedman,
    "surprise hunter": surprise_hunter,
}


def play(world: World, holdout: eh.Holdout, attack: Attack, rng: np.random.Generator, rounds: int) -> tuple[bool, int]:
    """Whether any interval of the session missed its truth, and how many surprises there were."""
    analyst = attack(world, holdout, rng, rounds)
    missed = False
    try:
        values = next(analyst)
        while True:
            answer = world.ask(holdout, values)
            truth = world.truth(values)
            missed |= truth not in answer.interval
            values = analyst.send(answer)
    except (StopIteration, eh.PrecisionExhausted):
        return missed, holdout.surprises


def new_holdout(world: World, *, seed: int, **settings: object) -> eh.Holdout:
    """A holdout over the world's sample; the reference is all atoms with both labels."""
    return eh.Holdout(world.rows, prior=eh.Reference(2 * len(world.f)), seed=seed, **settings)
