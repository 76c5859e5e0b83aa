"""The paper's mechanism over 2ⁿ points: it finishes at n = 64, and its time does not grow with n."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import CPU, Line
from everhold.mechanism.aqa_ogd import AqaOgd
from everhold.mechanism.estimator import Draws
from everhold.session.session import Session

ROWS, ROUNDS, FEATURES = 20_000, 1_000, 16


def session(bits: int, rounds: int = ROUNDS, seed: int = 3) -> Iterator[Session[Any]]:
    """λ = 1/2, ε = 0.2: the label is the majority of three features, and an analyst learns it by random steps.

    g reads 16 features and a label from places spread over the seed, whatever its length: the same work for every n.
    The analyst follows every answer, so that most early questions surprise.
    """
    places = np.linspace(0, bits - 2, FEATURES).astype(int)

    def g(seeds: NDArray[np.uint8]) -> dict[str, NDArray[np.generic]]:
        return {"x": seeds[:, places].astype(np.float32) - np.float32(0.5), "y": seeds[:, -1] == 1}

    prior = eh.BitSampler(g, bits=bits, size=None)
    drawn = g(prior.seeds(np.random.default_rng(seed), 4 * ROWS))
    right = (drawn["x"][:, :3].sum(axis=1) > 0.0) == drawn["y"]
    private = {name: column[right][:ROWS] for name, column in drawn.items()}

    def draw(rng: np.random.Generator, size: int) -> Draws:
        pool = prior.draw(rng, size)
        return Draws(pool.rows, pool.size, None, pool.draws)

    holdout = eh.Holdout.with_mechanism(
        private,
        lambda n: AqaOgd(rows=n, draw=draw, accuracy=0.2, density=0.5, rounds=rounds, seed=seed),
    )
    direction: NDArray[Any] = np.zeros(FEATURES, np.float32)
    for t in range(rounds):
        step = np.random.default_rng([seed, t]).standard_normal(FEATURES).astype(np.float32)
        weights = direction + np.float32(0.5) * step
        answer = holdout.ask(lambda rows, w=weights: (rows["x"] @ w > 0.0) == rows["y"])
        direction = direction + np.float32(0.5 * (answer.value - 0.5)) * weights
        direction /= np.float32(max(1.0, float(np.linalg.norm(direction))))
        yield holdout


def run() -> list[Line]:
    """Two sessions, question by question in turn: 24 and 64 bits."""
    sessions = {bits: session(bits) for bits in (24, 64)}
    times = dict.fromkeys(sessions, 0.0)
    held: dict[int, Session[Any]] = {}
    for _ in range(ROUNDS):
        for bits, questions in sessions.items():
            started = CPU()
            held[bits] = next(questions)
            times[bits] += CPU() - started
    updates = {bits: one.surprises for bits, one in held.items()}
    ratio = times[64] / times[24]
    return [
        Line(
            "AQA-OGD, λ = 1/2, ε = 0.2, n = 64 bits, T = 1,000",
            f"{held[64].rounds:,} questions in {times[64]:.1f} s, {updates[64]} updates",
            "finishes",
            held[64].rounds == ROUNDS,
        ),
        Line(
            "its time at N = 2⁶⁴ over that at N = 2²⁴",
            f"{ratio:.2f} ({updates[24]} and {updates[64]} updates)",
            "does not grow with N (drawing 64 bits instead of 24: below 3)",
            ratio < 3.0,
        ),
    ]
