"""What it costs to begin: an import, the help of the command line; and what the thousandth submission of a contest costs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import everhold as eh
from benchmarks.promises import CPU, Line, in_turn, milliseconds, ratio


def _children() -> float:
    """Seconds of the processor that processes have taken which this one started and which have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _process(*words: str) -> object:
    return subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)


def _imports() -> list[Line]:
    works = {
        "everhold": lambda _: _process("-c", "import everhold"),
        "numpy": lambda _: _process("-c", "import numpy"),
        "help": lambda _: _process("-m", "everhold", "--help"),
        "typer": lambda _: _process("-c", "import typer, rich"),
    }
    times = in_turn(works, turns=9, inner=3, clock=_children)
    importing, helping = ratio(times["everhold"], times["numpy"]), ratio(times["help"], times["typer"])
    return [
        Line(
            "a process that imports everhold over one that imports numpy",
            f"{importing}; {milliseconds(times['everhold'])} and {milliseconds(times['numpy'])}",
            "at most 1.3",
            importing.median <= 1.3,
        ),
        Line(
            "`everhold --help` over a process that imports typer and rich",
            f"{helping}; {milliseconds(times['help'])} and {milliseconds(times['typer'])}",
            "at most 2",
            helping.median <= 2.0,
        ),
    ]


def _submissions(folder: Path, count: int, seed: int) -> float:
    """Processor seconds that so many submissions of twenty entrants take."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, 500)
    place = folder / f"c{count}-{seed}.everhold"
    contest = eh.Contest.create(place, labels, classes=[0, 1], seed=1)
    started = CPU()
    for number in range(count):
        contest.submit(f"entrant {number % 20}", np.where(rng.random(500) < 0.3, 1 - labels, labels))
    taken = CPU() - started
    contest.release()
    return taken


def _contests(folder: Path) -> Line:
    pairs = [(_submissions(folder, 1_000, seed), 10.0 * _submissions(folder, 100, seed)) for seed in range(3)]
    found = ratio([many for many, _ in pairs], [few for _, few in pairs])
    return Line(
        "1,000 submissions to a contest over ten times 100",
        f"{found}; {milliseconds([many / 1_000 for many, _ in pairs])} a submission",
        "at most 1.5",
        found.median <= 1.5,
    )


def run() -> list[Line]:
    """All of them; about half a minute."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_imports(), _contests(Path(folder))]
