"""Writes the kept study of format 1: every kind of act over a small table. Run it only when the format changes."""

import os
import tempfile
from pathlib import Path

import numpy as np

import everhold as eh

KEPT = Path(__file__).parent / "kept" / "format-1.everhold"


def rows(size, seed, shift):
    rng = np.random.default_rng(seed)
    city = rng.choice(["Leeds", "York", "Hull"], size)
    return {
        "age": rng.integers(18, 90, size),
        "bmi": np.round(np.clip(rng.normal(25 + shift * (city == "York"), 4, size), 10, 60), 1),
        "smoker": rng.random(size) < 0.2 + 0.05 * shift * (city == "Hull"),
        "city": city,
    }


def main() -> None:
    """Make the study, and leave its file alone."""
    KEPT.unlink(missing_ok=True)
    private, public = rows(4_000, 0, 4.0), rows(600, 1, 0.0)
    held = eh.Holdout.create(KEPT, private, prior=eh.Reference(public), seed=7, rounds=40)
    held.ask("age > 40", who="ann")
    held.certify(1)
    held.ask("age > 40 AND smoker", expect=0.15)
    held.ask(eh.Mean("bmi", low=10, high=60, given="city = 'York'"))
    held.ask(eh.Difference("bmi", "city = 'York'", "city = 'Leeds'", low=10, high=60), request_id="one")
    held.ask(eh.Quantile("bmi", 0.9, low=10, high=60, given="smoker"))
    held.ask(eh.Table("city", "smoker"))
    held.read("age > 60", spend=0.25)
    held.read_many(["age > 50", eh.Median("age"), eh.Share("smoker", given="city = 'Hull'")])
    held.best_of(["age > 50", "smoker", eh.Share("smoker", given="age > 50")], request_id="two")
    held.is_better(eh.Mean("bmi", low=10, high=60), eh.Mean("age"), by=1.0)
    held.compare("smoker", "age > 80")
    held.close(["age > 70", eh.Mean("bmi", low=10, high=60), eh.Variance("bmi", low=10, high=60)])
    held.release()
    for other in KEPT.parent.glob("format-1.everhold.*"):
        other.unlink()
    print(eh.Holdout.audit_file(KEPT))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:  # no other study of these rows is known there
        os.environ["EVERHOLD_HOME"] = home
        main()
