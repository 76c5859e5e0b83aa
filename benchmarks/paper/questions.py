"""(f) How many questions at ±0.1? The columns of Rogers et al. (2020), and everhold with half of the rows as reference."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks.paper.run import Row, Task
from benchmarks.paper.section import Claim, Section, game_row, table
from everhold.baselines import GuessAndCheck
from everhold.bounds import baselines
from everhold.games import GameTerms, World, play
from everhold.games.mechanisms.baselines import baseline_session
from everhold.games.mechanisms.own import everhold
from everhold.games.worlds.made import noise
from everhold.session.holdout import Holdout

PUBLISHED = {10_000: (40, 6), 50_000: (156, 234), 100_000: (288, 935), 1_000_000: (2_227, 77_836)}
STRATEGIES = ("rogers, every 100th", "rogers, squares")


@cache
def world(labelled: bool) -> World:
    """65,536 kinds of rows, labels that are coin flips: Rogers et al.'s independent bits."""
    return replace(noise(1, atoms=2**16, features=1), labelled=labelled)


def columns(rows: int) -> list[Row]:
    """Splitting and Gaussian noise, as published and as proved."""

    def most(width: Any) -> int:
        return baselines.questions_answered(width, 0.2)

    return [
        {
            "part": "theorem",
            "rows": rows,
            "splitting": most(lambda t: baselines.splitting_width(rows, rounds=t, accounting="fair coin")),
            "splitting, proved": most(lambda t: baselines.splitting_width(rows, rounds=t)),
            "Gaussian": most(lambda t: baselines.gaussian_width(rows, rounds=t, transfer="rogers code")),
            "Gaussian, proved": most(lambda t: baselines.gaussian_width(rows, rounds=t)),
        }
    ]


def _everhold(terms: GameTerms) -> Holdout:
    return everhold(terms, half_width=0.1)


def _guess_and_check(deviation: float) -> Any:
    return lambda terms: baseline_session(terms, GuessAndCheck(half_width=0.1, deviation=deviation, seed=terms.seed))


def asked(who: str, strategy: str, rows: int, rounds: int, seed: int) -> list[Row]:
    """Half of the rows are public, half private; how far a session gets within ±0.1."""
    name, _, known = who.partition(" | ")
    terms: Any = (
        _everhold if name == "everhold" else _guess_and_check(0.0 if name.endswith("empirical") else float(name[-4:]))
    )
    place = world(known == "labels known")
    game = play(strategy, terms, place, rounds, seed, rows=rows // 2, reference=rows // 2)
    row = game_row(game, part="measured", who=who, rounds=rounds, seed=seed, total=rows)
    return [{**row, "within": game.answered_within(0.1)}]


def tasks(quick: bool) -> list[Task]:
    """n = 10,000 to 1,000,000 in all."""
    made = [Task("questions", columns, (n,)) for n in PUBLISHED]
    whos = ["everhold | labels asked for", "everhold | labels known"]
    whos += [f"Guess and Check, {how} | labels known" for how in ("empirical", "noise 0.01", "noise 0.02")]
    whos += ["Guess and Check, empirical | labels asked for"]
    rounds = 1_000 if quick else 20_000
    for strategy in STRATEGIES:
        made += [Task("questions", asked, (who, strategy, 10_000, rounds, 3)) for who in whos]
    if not quick:
        made += [Task("questions", asked, (whos[0], STRATEGIES[0], n, 20_000, 3)) for n in (50_000, 100_000)]
        made += [Task("questions", asked, (whos[0], STRATEGIES[0], 1_000_000, 5_000, 3))]
    return made


def text(rows: list[Row]) -> str:
    """The published columns, and the sessions."""
    first = table(
        ["n", "splitting", "published", "proved for any mean", "Gaussian", "published", "proved"],
        [
            [
                f"{row['rows']:,}", row["splitting"], PUBLISHED[row["rows"]][0], row["splitting, proved"],
                f"{row['Gaussian']:,}", f"{PUBLISHED[row['rows']][1]:,}", f"{row['Gaussian, proved']:,}",
            ]
            for row in rows
            if row["part"] == "theorem"
        ],
    )  # fmt: skip
    second = table(
        ["mechanism", "public half", "strategy", "n in all", "answered within ±0.1", "asked for", "failures", "missed"],
        [
            [
                row["who"].split(" | ")[0], row["who"].split(" | ")[1], row["analyst"], f"{row['total']:,}",
                f"{row['within']:,}", f"{row['rounds']:,}", row["surprises"], row["missed"],
            ]
            for row in rows
            if row["part"] == "measured"
        ],
    )  # fmt: skip
    return (
        "Questions that are guaranteed ±0.1 at β = 0.05. Splitting and Gaussian noise as the program of Rogers et "
        "al. counts "
        "them, with what they published, and as far as it is proved for every question "
        "([why they differ](../theory/baselines.md)):\n\n"
        f"{first}\n\n"
        "The adaptive strategies of Rogers et al. (correlations of features with a label, then the accuracy of "
        "their vote), half "
        "of the rows public, half private, a promise of ±0.1 by everybody. *Labels asked for*: of the public half only the "
        "features are used, with either label equally likely, which is everhold's default for labelled rows and "
        "here exactly "
        "right. *Labels known*: the public half is taken as it is, and the votes overfit it. "
        f"{_said(rows)}\n\n{second}"
    )


def _within(rows: list[Row], who: str, known: str) -> str:
    """How far the mechanism of this name got at n = 10,000, by strategy."""
    found = [
        row["within"]
        for row in rows
        if row["part"] == "measured" and row["total"] == 10_000 and row["who"].startswith(who) and row["who"].endswith(known)
    ]
    if not found:
        return "was not asked"
    return f"{min(found):,} to {max(found):,}" if min(found) < max(found) else f"{max(found):,}"


def _said(rows: list[Row]) -> str:
    return (
        f"With labels asked for everhold answers {_within(rows, 'everhold', 'labels asked for')} questions and "
        f"Guess and Check "
        f"{_within(rows, 'Guess', 'labels asked for')}; with labels known everhold "
        f"{_within(rows, 'everhold', 'labels known')} "
        f"and Guess and Check, by its guesses, {_within(rows, 'Guess', 'labels known')}. What counts here is the "
        f"prior, not who "
        "uses it; as published Guess and Check has the second."
    )


def draw(rows: list[Row], axes: Any) -> None:
    """Questions over n."""
    theorem = [row for row in rows if row["part"] == "theorem"]
    for what in ("splitting", "Gaussian"):
        axes.plot(*np.array([(row["rows"], row[what]) for row in theorem]).T, label=what, marker=".")
    for who, mark in (("everhold | labels asked for", "*"), ("Guess and Check, noise 0.02 | labels known", "s")):
        points = [(row["total"], row["within"]) for row in rows if row["part"] == "measured" and row["who"] == who]
        axes.plot(*np.array(points).T, mark, label=f"{who}, measured", markersize=9 if mark == "*" else 5)
    axes.set(xscale="log", yscale="log", xlabel="n", ylabel="questions", title="Questions answered within ±0.1")
    axes.legend(fontsize=6)


def claims(rows: list[Row]) -> list[Claim]:
    """Columns within 2 %; everhold answers all it is asked."""
    theorem = {row["rows"]: row for row in rows if row["part"] == "theorem"}
    off = [
        abs(theorem[n][what] / value - 1.0)
        for n, values in PUBLISHED.items()
        for what, value in zip(("splitting", "Gaussian"), values, strict=True)
    ]
    sessions = [row for row in rows if row["part"] == "measured" and row["total"] == 10_000]
    mine = [row for row in sessions if row["who"] == "everhold | labels asked for"]
    noisy = [row for row in sessions if "noise" in row["who"]]
    wanted = min(10_000, *(row["rounds"] for row in mine))
    return [
        Claim(
            "columns", "the splitting and Gaussian columns of Rogers et al. within 2 %",
            f"off by at most {100 * max(off):.1f} %",
            max(off) <= 0.02,
        ),
        Claim(
            "ten-thousand",
            f"n = 10,000 in all: with half of the rows as reference, labels asked for, everhold answers at least {wanted:,} "
            "questions within ±0.1 and misses none; Guess and Check as published (noisy guesses, labels known) a few "
            "hundred",
            f"{min(row['within'] for row in mine):,} with {sum(row['missed'] for row in mine)} missed; Guess and Check "
            f"{', '.join(str(row['within']) for row in noisy)}. On equal terms: {_said(rows)}",
            all(row["within"] >= wanted and row["missed"] == 0 for row in mine)
            and max(row["within"] for row in noisy) < 1_000,
        ),
    ]  # fmt: skip


SECTION = Section("questions", "(f) How many questions at ±0.1?", tasks, text, draw, claims)
