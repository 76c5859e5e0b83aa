"""The ten statistics on fixed seeds: every value, interval and part, to the bit. Made once, before they were rewritten.

python -m tests.statistics.golden      # writes golden.json anew; say why in the commit
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import everhold as eh
from everhold.statistics import STATISTICS

PLACE = Path(__file__).with_name("golden.json")


def people(size: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, size)
    return {
        "age": age,
        "bmi": np.where(rng.random(size) < 0.1, np.nan, rng.normal(24 + 0.05 * age, 4, size)),
        "smoker": rng.random(size) < 0.15 + 0.002 * age,
        "city": np.array(["Hull", "Leeds", "York"])[rng.integers(0, 3, size)],
        "seen": np.datetime64("2023-01-01") + rng.integers(0, 700, size).astype("timedelta64[D]"),
    }


CALLS = [
    ("share", ("smoker",), {}),
    ("share", ("smoker",), {"given": "age > 60"}),
    ("share", ("smoker",), {"given": "age > 500"}),
    ("mean", ("age",), {}),
    ("mean", ("bmi",), {"low": 10, "high": 60, "given": "smoker"}),
    ("mean", ("smoker",), {}),
    ("difference", ("bmi", "smoker", "NOT smoker"), {}),
    ("difference", ("smoker", "city = 'York'", "city = 'Leeds'"), {}),
    ("compare", ("age > 60", "smoker"), {}),
    ("compare", ("age", "bmi"), {"given": "smoker"}),
    ("variance", ("bmi",), {}),
    ("correlation", ("age", "bmi"), {}),
    ("correlation", ("age", "bmi"), {"first_range": (0, 100), "second_range": (10, 60), "given": "smoker"}),
    ("quantile", ("age", 0.9), {}),
    ("median", ("bmi",), {"low": 10, "high": 60}),
    ("median", ("seen",), {}),
    ("histogram", ("age",), {"bins": 4}),
    ("histogram", ("bmi",), {"edges": [10, 20, 30, 60], "given": "smoker"}),
    ("table", ("city", "smoker"), {}),
    ("table", ("city",), {"given": "age > 40"}),
]


def shown(found: object) -> object:
    """A result in full: numbers as Python's shortest exact digits."""
    if isinstance(found, eh.Shares):
        return [found.what, [[list(label), shown(cell)] for label, cell in found]]
    what = getattr(found, "what", None)
    parts = [[part.round, repr(part.value)] for part in getattr(found, "parts", ())]
    return [what, repr(found.value), repr(found.low), repr(found.high), found.surprise, found.round, parts]


def results() -> dict[str, object]:
    """All of them, asked one after the other of one study, and rehearsed."""
    held = eh.Holdout(people(20_000, 0), prior=eh.Reference(people(8_000, 1)), seed=0)
    told = [shown(held.ask(STATISTICS[name](*args, **more))) for name, args, more in CALLS]
    again = [shown(getattr(held.rehearsal, name)(*args, **more)) for name, args, more in CALLS]
    return {"asked": told, "rehearsed": again, "names": [past.name for past in held.journal], "price": repr(held.price)}


def main() -> None:
    PLACE.write_text(json.dumps(results(), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
