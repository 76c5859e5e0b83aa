"""Which tolerance policy: sessions over good, shifted, wrong and small priors.

Each session asks 2,000 questions: single columns, conjunctions of up to four, exclusive-ors, and linear scores that
climb towards the highest answer so far. What counts is the half-width of a quiet answer about a share of one half after
the last round, (τ + w)/2 on the share scale: surprises widen w, a large tolerance widens τ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import Line
from everhold.mechanism.rules import Rule

COLUMNS = 16


@dataclass(frozen=True)
class World:
    """Where the private rows come from, and where the reference does."""

    name: str
    rows: int
    pool: int
    prior: str


WORLDS = (
    World("good", 2_000, 2_000, "good"),
    World("good, large", 20_000, 20_000, "good"),
    World("small", 5_000, 500, "good"),
    World("shifted", 2_000, 2_000, "shifted"),
    World("shifted, large", 20_000, 20_000, "shifted"),
    World("wrong", 500, 500, "wrong"),
    World("wrong, mid", 5_000, 5_000, "wrong"),
    World("wrong, large", 20_000, 20_000, "wrong"),
)


def draw(kind: str, size: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Rows of 16 booleans: a mixture of three classes; 'shifted' changes its weights, 'wrong' is independent coins."""
    if kind == "wrong":
        return rng.random((size, COLUMNS)) < 0.5
    profiles = np.random.default_rng(12345).beta(0.7, 0.9, size=(3, COLUMNS))
    weights = [0.5, 0.3, 0.2] if kind == "good" else [0.3, 0.3, 0.4]
    classes = rng.choice(3, p=weights, size=size)
    return rng.random((size, COLUMNS)) < profiles[classes]


def questions(rng: np.random.Generator, rounds: int) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """What kind of question, and its random numbers."""
    for _ in range(rounds):
        yield str(rng.choice(["and", "xor", "score", "climb"], p=[0.4, 0.2, 0.2, 0.2])), rng.standard_normal(COLUMNS)


def evaluate(kind: str, numbers: NDArray[np.float64], rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The question's values on some rows."""
    if kind == "and":
        width = 1 + int(abs(numbers[0]) * 2.0) % 4
        picked = np.argsort(numbers)[:width]
        wanted = numbers[(picked + 3) % COLUMNS] > 0
        result: NDArray[np.bool_] = (rows[:, picked] == wanted).all(axis=1)
        return result
    if kind == "xor":
        picked = np.argsort(numbers)[:2]
        return rows[:, picked[0]] ^ rows[:, picked[1]]
    return (rows * 2.0 - 1.0) @ numbers > 0.0


def session(
    world: World, rule: Rule | str, tolerance: eh.Anytime, seed: int, rounds: int = 2000
) -> tuple[int, float, float]:
    """Surprises, final half-width on the share scale, and the mean half-width over the session's answers."""
    rng = np.random.default_rng(seed)
    sample = draw("good", world.rows, rng)
    reference = draw(world.prior, world.pool, rng)
    holdout = eh.Holdout(world.rows, prior=eh.Reference(world.pool), rule=rule, tolerance=tolerance, seed=seed)  # type: ignore[arg-type]
    direction, best, widths = np.zeros(COLUMNS), 0.0, []
    for kind, numbers in questions(rng, rounds):
        given = direction + 0.3 * numbers if kind == "climb" else numbers
        answer = holdout.ask(eh.Values(sample=evaluate(kind, given, sample), reference=evaluate(kind, given, reference)))
        widths.append(answer.interval.half_width)
        if kind == "climb" and answer.value > best:
            direction, best = given / np.linalg.norm(given), answer.value
    middle = np.arange(world.rows) % 2 == 0
    last = holdout.try_out(eh.Values(sample=middle, reference=np.arange(world.pool) % 2 == 0))
    return holdout.surprises, last.interval.half_width, float(np.mean(widths))


POLICIES = tuple(eh.Anytime(share, deviations, cells) for share, deviations, cells in (
    (0.6, None, 0.25), (0.3, 4.0, 0.25), (0.5, 4.0, 0.25), (0.6, 4.0, 0.25), (0.7, 4.0, 0.25), (1.0, 4.0, 0.25),
    (0.6, 4.0, 1.0), (0.6, 3.0, 0.25), (0.6, 5.0, 0.25),
))  # fmt: skip


def run() -> list[Line]:
    """A row a policy: surprises and final half-width in every world, and the geometric mean of the half-widths."""
    print(f"\n  {'share noise Δ/τ':<17}" + "".join(f"{world.name:>17}" for world in WORLDS) + f"{'mean':>9}")
    means = {}
    for policy in POLICIES:
        shown, widths = [], []
        for world in WORLDS:
            results = [session(world, "corrective", policy, seed) for seed in (1, 2)]
            surprises = float(np.mean([result[0] for result in results]))
            width = float(np.mean([result[1] for result in results]))
            widths.append(width)
            shown.append(f"{surprises:>7.1f}  ±{width:.4f}")
        means[policy] = float(np.exp(np.mean(np.log(widths))))
        deviations = "auto" if policy.deviations is None else f"{policy.deviations:g}"
        label = f"{policy.share:<5g} {deviations:<5} {policy.cells:<5g}"
        print(f"  {label:<17}" + "".join(f"{cell:>17}" for cell in shown) + f"{means[policy]:>9.4f}", flush=True)
    chosen, best = means[eh.Anytime()], min(means.values())
    return [
        Line(
            "the default tolerance over the best of those tried, mean half-width over eight worlds",
            f"{chosen / best:.3f}",
            "1.05",
            chosen <= 1.05 * best,
        )
    ]
