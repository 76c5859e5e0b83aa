"""A loop that changes a program, measures it, and keeps the change if the gate promotes it.

The program is a small classifier of noisy points, and the loop changes its settings at random. Beside it runs the usual
loop, which keeps every change whose score on the same cases is higher. Fresh cases, which nobody has in practice, say how
much of each gain is true. With this many cases the usual loop's number may be close, but it cannot know that; the gate's
claim is certified.

    python examples/autoresearch_loop.py                    # some seconds
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np

import everhold as eh

FEATURES, CASES = 40, 5_000


def world(rng: np.random.Generator, cases: int) -> tuple[np.ndarray, np.ndarray]:
    """Cases: ten features say something about the answer, thirty say nothing."""
    x = rng.normal(size=(cases, FEATURES))
    return x, x[:, :10].sum(axis=1) + rng.normal(0, 4, cases) > 0


def outcomes(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> dict[str, int]:
    """What the evaluator writes: every case, passed or failed."""
    return {f"case-{k}": int(right) for k, right in enumerate((x @ weights > 0) == y)}


def mean(passed: dict[str, int]) -> float:
    """The share of cases that pass."""
    return sum(passed.values()) / len(passed)


def change(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An idea: another weight for some of the features."""
    return np.where(rng.random(FEATURES) < 0.1, rng.normal(0.5, 1, FEATURES), weights)


def main(folder: Path, rounds: int = 150, seed: int = 3) -> dict[str, float]:
    """Both loops, with the same ideas. Returns claimed and true gains."""
    rng = np.random.default_rng(seed)
    sealed, fresh = world(rng, CASES), world(rng, 200_000)
    first = rng.normal(0.2, 1, FEATURES)
    gate = eh.Gate.create(folder / "gate.everhold", outcomes(first, *sealed), certify="final", name="the first program")
    plain = gated = first
    best = mean(outcomes(first, *sealed))
    for t in range(rounds):
        seed_of_idea = int(rng.integers(2**31))
        candidate = change(plain, np.random.default_rng(seed_of_idea))
        score = mean(outcomes(candidate, *sealed))
        if score > best:
            plain, best = candidate, score
        candidate = change(gated, np.random.default_rng(seed_of_idea))
        if gate.check(outcomes(candidate, *sealed), name=f"idea {t + 1}").promoted:
            gated = candidate
    told = gate.finish()
    start = mean(outcomes(first, *fresh))
    found = {
        "plain, claimed": best - mean(outcomes(first, *sealed)),
        "plain, true": mean(outcomes(plain, *fresh)) - start,
        "gate, at least": told.low,
        "gate, true": mean(outcomes(gated, *fresh)) - start,
    }
    print(f"{rounds} ideas, {CASES:,} cases; the gate promoted {told.promotions} of them.")
    print(f"Plain loop: says {found['plain, claimed']:+.3f}; true {found['plain, true']:+.3f}.")
    print(f"Gate:       says {told.gain:+.3f}, certified at least {told.low:+.3f}; true {found['gate, true']:+.3f}.")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=150)
    with tempfile.TemporaryDirectory() as place:
        os.environ["EVERHOLD_HOME"] = place  # made-up cases do not belong in your registry of real ones
        main(Path(place), parser.parse_args().rounds)
