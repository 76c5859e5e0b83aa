"""A small study with surprises, a statistic and a question in odd letters, read back from its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import everhold as eh
from everhold.ledger.reader import StudyFile, read_study


def people(size: int, smokers: float, seed: int) -> dict[str, np.ndarray]:
    """A table."""
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(18, 90, size),
        "smoker": rng.random(size) < smokers,
        "note": rng.choice(["a<b", "plain"], size),
    }


def small_study(folder: Path, **settings: object) -> StudyFile:
    """Four questions and a mean; the private rows have far more smokers than the public ones."""
    place = folder / "small & odd.everhold"
    prior = eh.Reference(people(3_000, 0.2, 2))
    given = {"prior": prior, "seed": 7, **settings}
    with eh.Holdout.create(place, people(4_000, 0.6, 1), **given) as holdout:
        for text in ("smoker", "age > 40", "note = 'a<b'", "smoker AND age > 60"):
            holdout.ask(text, who="ann <ann@example.org>")
        holdout.mean("age")
    return read_study(place)
