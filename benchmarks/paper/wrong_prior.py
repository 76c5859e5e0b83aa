"""(g) A wrong prior: λ misjudged, a shifted reference, an overfitted one. Validity stays, the price rises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.paper.run import Row, Task
from benchmarks.paper.section import Claim, Section, game_row, table
from everhold.games import GameTerms, World, play
from everhold.games.mechanisms.own import everhold
from everhold.games.worlds.made import dense
from everhold.session.holdout import Holdout

SEEDS = 12
SHIFTS = (0.0, 0.5, 1.0, 2.0)
SIZES = (500, 2_000, 8_000, 32_000)


def misjudged(claimed: float | None, rounds: int, rows: int, seed: int) -> list[Row]:
    """The population is 1/4-dense, and the owner says something else."""

    def misjudged_density(at: GameTerms) -> Holdout:
        return everhold(at, density=claimed)

    game = play("fixed random", misjudged_density, dense(seed, 0.25), rounds, seed, rows=rows)
    return [game_row(game, part="λ misjudged", setting="not said" if claimed is None else f"λ = {claimed:g}", seed=seed)]


def shifted_world(seed: int, shift: float) -> World:
    """The reference leans away from the population: atoms weigh e^(-shift · score)."""
    world = dense(seed, 0.5)
    score = world.rows["x"][:, :6].sum(axis=1)
    weights = np.exp(-shift * score.astype(np.float64) / 2.0)
    return replace(world, prior_weights=weights / weights.sum(), density=None)


def shifted(shift: float, rounds: int, rows: int, seed: int) -> list[Row]:
    """A reference that is drawn from elsewhere."""
    world = shifted_world(seed, shift)
    game = play("fixed random", "everhold", world, rounds, seed, rows=rows)
    row = game_row(game, part="reference shifted", setting=f"shift {shift:g}, χ² = {world.chi_square:.1f}", seed=seed)
    return [{**row, "shift": shift}]


def overfitted(size: int, rounds: int, rows: int, seed: int) -> list[Row]:
    """An analyst who knows the reference row by row and asks for what is peculiar to it."""
    game = play("pool overfitter", "everhold", dense(seed, 1.0), rounds, seed, rows=rows, reference=size)
    return [game_row(game, part="reference overfitted", setting=f"{size:,} public rows", size=size, seed=seed)]


def tasks(quick: bool) -> list[Task]:
    """A dozen seeds each."""
    seeds = range(2 if quick else SEEDS)
    rounds, rows = (150, 1_000) if quick else (600, 4_000)
    sizes = SIZES[:2] if quick else SIZES
    made = [Task("wrong_prior", misjudged, (claim, rounds, rows, s)) for claim in (None, 0.25, 0.5, 0.95) for s in seeds]
    made += [Task("wrong_prior", shifted, (shift, rounds, rows, s)) for shift in SHIFTS for s in seeds]
    return made + [Task("wrong_prior", overfitted, (size, min(rounds, 200), rows, s)) for size in sizes for s in seeds]


def _groups(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        setting = row["setting"].split(",")[0] if row["part"] == "reference shifted" else row["setting"]
        groups.setdefault((row["part"], setting), []).append(row)
    return groups


def _mean(rows: list[Row], what: str) -> float:
    return float(np.mean([row[what] for row in rows]))


def text(rows: list[Row]) -> str:
    """Sessions missed, surprises and price."""
    body = [
        [
            part, setting, len(group), sum(row["missed"] > 0 for row in group), f"{_mean(group, 'surprises'):.1f}",
            f"{_mean(group, 'price'):.0f}", f"±{_mean(group, 'half_width'):.3f}",
        ]
        for (part, setting), group in _groups(rows).items()
    ]  # fmt: skip
    head = ["what is wrong", "how", "sessions", "sessions with a miss", "surprises", "nats", "widest interval"]
    return (
        f"Whole sessions at n = {rows[0]['rows']:,}; means over the seeds. λ is 1/4 in the first part; an owner "
        f"who claims more "
        f"makes the sketch's cap too small.\n\n{table(head, body)}"
    )


def draw(rows: list[Row], axes: Any) -> None:
    """Price for each kind of wrong."""
    groups = _groups(rows)
    names = [f"{part}: {setting}" for part, setting in groups]
    axes.barh(range(len(names)), [_mean(group, "price") for group in groups.values()], color="#1d4ed8")
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.invert_yaxis()
    axes.set(xlabel="price at the end, nats", title="A wrong prior costs; it does not mislead")


def claims(rows: list[Row]) -> list[Claim]:
    """No session misses; the price rises with the shift."""
    missed = sum(row["missed"] > 0 for row in rows)
    groups = _groups(rows)
    right = _mean(groups["reference shifted", "shift 0"], "price")
    worst = _mean(groups["reference shifted", f"shift {SHIFTS[-1]:g}"], "price")
    return [
        Claim(
            "wrong-prior-valid",
            "however wrong the prior, all intervals of a session are simultaneously valid (5 % may miss)",
            f"{missed} of {len(rows)} sessions missed", missed <= 0.05 * len(rows),
        ),
        Claim(
            "wrong-prior-costs", "a shifted reference costs more nats than a right one", f"{worst:.0f} against {right:.0f}",
            worst > right,
        ),
    ]  # fmt: skip


SECTION = Section("wrong_prior", "(g) What if the prior is wrong?", tasks, text, draw, claims)
