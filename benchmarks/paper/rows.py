"""(b) Rows needed for a half-width of 0.1 against T: what theorems ask for, and what sessions needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.paper.run import Row, Task
from benchmarks.paper.section import Claim, Section, table
from everhold.bounds import baselines, paper, sample_size
from everhold.games import WORLDS, Game, play

WIDTH = 0.2  # ±0.1 on the share scale
SIZES = tuple(int(500 * 2 ** (k / 2)) for k in range(17))


def theorems(rounds: float) -> list[Row]:
    """Rows that each theorem wants, λ = 1/2, δ = 0.05."""
    wanted: dict[str, Callable[[], float]] = {
        "everhold, 20 surprises": lambda: sample_size.rows_with_surprises(WIDTH, rounds=rounds, surprises=20),
        "everhold, worst case": lambda: sample_size.rows_needed(WIDTH, rounds=rounds, density=0.5),
        "Gaussian noise": lambda: baselines.gaussian_rows(WIDTH, rounds=rounds),
        "Thresholdout, 20 overfits": lambda: baselines.thresholdout_rows(WIDTH, rounds=rounds, budget=20),
        "sample splitting": lambda: baselines.splitting_rows(WIDTH, rounds=rounds),
        "multiplicative weights, 2¹³ points": lambda: baselines.multiplicative_weights_rows(
            WIDTH, rounds=rounds, domain_bits=13
        ),
        "AQA-OGD, corrected": lambda: paper.rows_needed(WIDTH, rounds=rounds, density=0.5, failure_probability=0.05),
        "AQA-OGD, as printed": lambda: paper.rows_needed(
            WIDTH, rounds=rounds, density=0.5, failure_probability=0.05, constants="printed"
        ),
        "questions fixed in advance": lambda: baselines.non_adaptive_rows(WIDTH, rounds=rounds),
    }
    return [{"part": "theorem", "who": who, "rounds": rounds, "needed": float(f())} for who, f in wanted.items()]


def measured(mechanism: str, analyst: str, where: str, rounds: int, seed: int) -> list[Row]:
    """The fewest rows of a grid with which a session kept ±0.1 for all T questions, by its intervals or by its errors."""
    by_intervals = mechanism.startswith(("everhold", "Guess"))

    def good(game: Game) -> bool:
        whole = game.refused is None and game.missed == 0
        return whole and (game.answered_within(0.1) == game.rounds if by_intervals else game.largest_error <= 0.1)

    low, high = -1, len(SIZES)
    while high - low > 1:
        middle = (low + high) // 2
        if good(play(analyst, mechanism, WORLDS[where](seed), rounds, seed, rows=SIZES[middle])):
            high = middle
        else:
            low = middle
    needed = float(SIZES[high]) if high < len(SIZES) else float("inf")
    what = "kept ±0.1" if by_intervals else "errors below 0.1"
    return [
        {
            "part": "measured", "who": mechanism, "analyst": analyst, "world": where, "rounds": rounds, "needed": needed,
            "what": what, "seed": seed,
        }
    ]  # fmt: skip


def tasks(quick: bool) -> list[Task]:
    """T from 10 to a million in theorems, to 10,000 in sessions."""
    made = [Task("rows", theorems, (float(10**k),)) for k in range(1, 7)]
    lengths = (100,) if quick else (100, 1_000, 10_000)
    for t in lengths:
        made += [Task("rows", measured, (name, "SQ boosting", "linear", t, 1)) for name in ("everhold",)]
        names = ("everhold", "empirical mean", "Thresholdout", "Gaussian noise", "Guess and Check, Gaussian")
        made += [Task("rows", measured, (name, "freedman", "labelled", t, 1)) for name in names]
    return made


def _number(value: float) -> str:
    if value == float("inf"):
        return f"more than {SIZES[-1]:,}"
    return f"{value:,.0f}" if value < 1e6 else f"{value:.2e}"


def text(rows: list[Row]) -> str:
    """Both tables."""
    theorem = [row for row in rows if row["part"] == "theorem"]
    lengths = sorted({row["rounds"] for row in theorem})
    by = {(row["who"], row["rounds"]): row["needed"] for row in theorem}
    first = table(
        ["guaranteed", *(f"T = 10^{int(np.log10(t))}" for t in lengths)],
        [[who, *(_number(by[who, t]) for t in lengths)] for who in dict.fromkeys(row["who"] for row in theorem)],
    )
    second = table(
        ["measured", "analyst", "world", "T", "rows", "which means"],
        [
            [row["who"], row["analyst"], row["world"], f"{row['rounds']:,}", _number(row["needed"]), row["what"]]
            for row in rows
            if row["part"] == "measured"
        ],
    )
    return (
        "Rows for ±0.1 on the share scale with 95 % confidence, λ = 1/2. By theorem:\n\n"
        f"{first}\n\nBy sessions, found by halving on a grid with steps of √2, one seed (as many public rows on "
        f"top):\n\n{second}"
    )


def draw(rows: list[Row], axes: Any) -> None:
    """Rows over T."""
    for part, style in (("theorem", "-"), ("measured", "--")):
        mine = [row for row in rows if row["part"] == part and row.get("analyst", "SQ boosting") == "SQ boosting"]
        for who in dict.fromkeys(row["who"] for row in mine):
            points = sorted((row["rounds"], row["needed"]) for row in mine if row["who"] == who)
            bold = who.startswith("everhold")
            label = who if part == "theorem" else f"{who}, measured"
            axes.plot(*np.array(points).T, style, label=label, linewidth=2.5 if bold else 1, marker=".")
    axes.set(xscale="log", yscale="log", xlabel="T, questions", ylabel="rows", title="Rows needed for ±0.1")
    axes.legend(fontsize=6)


def claims(rows: list[Row]) -> list[Claim]:
    """The worst case beats every other guarantee for many questions; sessions need far less."""
    by = {(row["who"], row["rounds"]): row["needed"] for row in rows if row["part"] == "theorem"}
    million = {who: needed for (who, t), needed in by.items() if t == 1e6}
    others = {
        who: needed
        for who, needed in million.items()
        if not who.startswith(("everhold", "questions", "Thresholdout", "AQA-OGD, as"))
    }
    best = min(others, key=lambda who: others[who])
    return [
        Claim(
            "worst-case-rows",
            "for a million questions everhold's worst case needs fewer rows than any proved guarantee without a budget",
            f"{million['everhold, worst case']:,.0f} against {others[best]:,.0f} ({best})",
            million["everhold, worst case"] < others[best],
        ),
    ]


SECTION = Section("rows", "(b) How many rows for ±0.1?", tasks, text, draw, claims)
