"""(k) What you added: mechanisms and analysts of your own against everybody else."""

from __future__ import annotations

from benchmarks.paper.errors import world
from benchmarks.paper.run import Row, Task
from benchmarks.paper.section import Claim, Section, game_row, table
from everhold.errors import QuestionError
from everhold.games import ANALYSTS, MECHANISMS, play

AGAINST = ("everhold", "empirical mean", "Gaussian noise", "Thresholdout", "Guess and Check, empirical", "AQA-OGD")
BY = ("fixed random", "freedman", "hill climber", "surprise hunter", "SQ boosting", "fingerprinting")


def _mine(register: dict[str, object]) -> list[str]:
    """What was not registered by everhold itself."""
    return [name for name, thing in register.items() if not getattr(thing, "__module__", "").startswith("everhold.")]


def played(analyst: str, mechanism: str, where: str, rounds: int, rows: int, seed: int) -> list[Row]:
    """One game."""
    try:
        game = play(analyst, mechanism, world(where, seed), rounds, seed, rows=rows)
    except QuestionError:
        return []
    return [game_row(game, rounds=rounds, seed=seed)]


def tasks(quick: bool) -> list[Task]:
    """Your mechanisms against the known analysts, your analysts against the known mechanisms, and yours against yours."""
    rounds, rows = (200, 1_000) if quick else (1_000, 5_000)
    mechanisms, analysts = _mine(dict(MECHANISMS)), _mine(dict(ANALYSTS))
    pairs = [(a, c) for c in mechanisms for a in BY] + [(a, c) for a in analysts for c in AGAINST]
    pairs += [(a, c) for a in analysts for c in mechanisms]
    return [
        Task("added", played, (a, c, where, rounds, rows, 1)) for a, c in pairs for where in ("noise", "dense", "linear")
    ]


def text(rows: list[Row]) -> str:
    """One table."""
    head = ["analyst", "mechanism", "world", "answered", "largest error", "half-width returned", "missed", "surprises"]
    body = [
        [
            row["analyst"],
            row["mechanism"],
            row["world"],
            f"{row['answered']:,}" + (", then refused" if row["refused"] else ""),
            f"{row['largest_error']:.3f}",
            "none" if row["half_width"] >= 0.4999 else f"±{row['half_width']:.3f}",
            row["missed"],
            row["surprises"],
        ]
        for row in rows
    ]
    return table(head, body)


def claims(rows: list[Row]) -> list[Claim]:
    """Whatever was added, everhold's intervals hold."""
    mine = [row for row in rows if row["mechanism"].startswith("everhold")]
    missed = sum(row["missed"] for row in mine)
    if not mine:
        return []
    return [Claim("added-valid", "no interval of everhold's misses against what was added", f"{missed} missed", missed == 0)]


SECTION = Section("added", "(k) What you added", tasks, text, None, claims)
