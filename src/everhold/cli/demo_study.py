"""The demo's study: synthetic patients of this year as private rows, and of last year as the public prior.

`python -m everhold.cli.demo_study out/demo.everhold` creates it once; `make serve` serves it.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

import everhold as eh

__all__ = ["make_demo_study"]

PRIVATE, PUBLIC = 20_000, 8_000
_CITIES = ("York", "Leeds", "Hull", "Whitby")


def _patients(size: int, seed: int, *, smokers: float) -> dict[str, Any]:
    """A table of synthetic patients; the share of smokers differs between the years."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, size)
    smoker = rng.random(size) < smokers * np.where(age > 60, 0.7, 1.1)
    bmi = np.clip(rng.normal(25.0 + 0.03 * (age - 40), 4.0, size), 14.0, 55.0).round(1)
    pressure = np.clip(rng.normal(105.0 + 0.45 * age + 6.0 * smoker, 14.0, size), 80, 220).round()
    return {
        "age": age,
        "smoker": smoker,
        "bmi": bmi,
        "systolic": pressure.astype(int),
        "city": rng.choice(_CITIES, size, p=[0.4, 0.35, 0.2, 0.05]),
    }


def _save(path: Path, table: dict[str, Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))


def make_demo_study(path: Path) -> bool:
    """Create the study and its tables, unless it exists. Returns whether it was created."""
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    private, public = path.with_suffix(".private.csv"), path.with_suffix(".last_year.csv")
    _save(private, _patients(PRIVATE, 1, smokers=0.27))
    _save(public, _patients(PUBLIC, 2, smokers=0.20))
    eh.Holdout.create(path, private, prior=eh.Reference(public)).release()
    return True


if __name__ == "__main__":
    target = Path(sys.argv[1])
    print(f"{'Created' if make_demo_study(target) else 'Found'} {target}: {PRIVATE:,} synthetic private patients.")
