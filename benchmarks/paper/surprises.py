"""(c) Surprises and price against T, λ and χ², for the three rules and the paper's step."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.paper.run import Row, Task
from benchmarks.paper.section import Claim, Section, game_row, table
from everhold.bounds.surprises import chi_square_at_most
from everhold.games import play
from everhold.games.worlds.made import dense

RULES = ("everhold", "everhold, gradient", "everhold, entropic", "everhold, paper's step")


def session(mechanism: str, density: float, rounds: int, rows: int, seed: int) -> list[Row]:
    """Random questions about a population that is λ-dense in the prior; surprises by round."""
    game = play("fixed random", mechanism, dense(seed, density), rounds, seed, rows=rows)
    surprised = np.cumsum([answer.surprise for answer in game.answers])
    marks = sorted({min(rounds, round(10 ** (k / 4))) for k in range(4, 25)})
    by_round = {str(t): int(surprised[t - 1]) for t in marks if t <= len(surprised)}
    prices = {str(t): round(game.answers[t - 1].price, 2) for t in marks if t <= len(surprised)}
    row = game_row(game, density=density, chi_square=chi_square_at_most(density), rounds=rounds, seed=seed)
    return [{**row, "by_round": by_round, "prices": prices}]


def tasks(quick: bool) -> list[Task]:
    """λ from 1 down to 1/20."""
    densities = (0.5, 0.1) if quick else (1.0, 0.5, 0.25, 0.1, 0.05)
    rounds, rows = (300, 4_000) if quick else (5_000, 20_000)
    return [Task("surprises", session, (rule, d, rounds, rows, 1)) for d in densities for rule in RULES]


def text(rows: list[Row]) -> str:
    """Surprises and price at the end, by rule and density."""
    densities = sorted({row["density"] for row in rows}, reverse=True)
    by = {(row["mechanism"], row["density"]): row for row in rows}
    body = [
        [
            rule,
            *(
                f"{by[rule, d]['surprises']:,} ({by[rule, d]['price']:.0f} nats, ±{by[rule, d]['half_width']:.3f})"
                for d in densities
            ),
        ]
        for rule in RULES
    ]
    head = ["rule", *(f"λ = {d:g}, χ² ≤ {chi_square_at_most(d):g}" for d in densities)]
    some = rows[0]
    return (
        f"{some['rounds']:,} random questions (conjunctions, parities, half-spaces), n = {some['rows']:,}, a "
        f"population that "
        "is uniform over a share λ of what the prior thinks possible. Surprises, with the price and the widest interval:\n\n"
        f"{table(head, body)}"
    )


def draw(rows: list[Row], axes: Any) -> None:
    """Surprises over T for λ = 1/2 and the smallest."""
    densities = sorted({row["density"] for row in rows}, reverse=True)
    shown = [d for d in densities if d in (0.5, densities[-1])]
    for row in rows:
        if row["density"] in shown:
            points = np.array([(int(t), k) for t, k in row["by_round"].items()])
            style = "-" if row["density"] == 0.5 else "--"
            colour = f"C{RULES.index(row['mechanism'])}"
            axes.plot(*points.T, style, color=colour, label=f"{row['mechanism']}, λ = {row['density']:g}")
    axes.set(xscale="log", xlabel="T, questions", ylabel="surprises", title="Surprises over T")
    axes.legend(fontsize=6)


def claims(rows: list[Row]) -> list[Claim]:
    """The corrective rule surprises least often; no interval misses."""
    by = {(row["mechanism"], row["density"]): row for row in rows}
    densities = sorted({row["density"] for row in rows if row["density"] < 1.0})
    ratios = {d: by["everhold", d]["surprises"] / max(by["everhold, paper's step", d]["surprises"], 1) for d in densities}
    missed = sum(row["missed"] for row in rows)
    return [
        Claim(
            "fewer-surprises",
            "the corrective rule has at most half the surprises of the paper's step, for every λ < 1",
            ", ".join(f"λ = {d:g}: {ratio:.2f}" for d, ratio in ratios.items()),
            all(ratio <= 0.5 for ratio in ratios.values()),
        ),
        Claim("surprise-valid", "no interval misses, whatever λ", f"{missed} missed in {len(rows)} sessions", missed == 0),
    ]


SECTION = Section("surprises", "(c) What do surprises cost?", tasks, text, draw, claims)
