"""A study asked in every way, over private rows that live in one place or another: the same bytes, or it is a fault."""

from __future__ import annotations

import datetime as dt

import numpy as np

import everhold as eh

TYPES = {"age": "int", "bmi": "float8", "smoker": "bool", "city": "text", "seen": "timestamp", "patient": "text"}
CITIES = ["Oslo", "Århus", "ÅRHUS", "York", "it's", None]
SCHEMA = eh.Schema(
    (
        eh.ColumnSchema("age", "number", 0.0, 110.0, whole=True),
        eh.ColumnSchema("bmi", "number", 10.0, 60.0),
        eh.ColumnSchema("smoker", "boolean"),
        eh.ColumnSchema("city", "text", categories=("Oslo", "York", "it's"), others="missing"),
        eh.ColumnSchema("seen", "date"),
    )
)


def patients(size: int, seed: int, smokers: float = 0.2) -> dict[str, list]:
    """Columns of Python's own values, with missing ones."""
    rng = np.random.default_rng(seed)
    first = dt.datetime(2019, 1, 1)
    return {
        "age": rng.integers(18, 90, size).tolist(),
        "bmi": [None if one < 14 else float(one) for one in rng.normal(26, 5, size).round(2)],
        "smoker": [bool(one) if one < 2 else None for one in rng.choice([1, 0, 2], size, p=[smokers, 0.95 - smokers, 0.05])],
        "city": [CITIES[one] for one in rng.integers(0, len(CITIES), size)],
        "seen": [
            first + dt.timedelta(minutes=int(one), microseconds=int(one) % 7) for one in rng.integers(0, 2_000_000, size)
        ],
        "patient": [None if one == 0 else f"p{one}" for one in rng.integers(0, size // 2, size)],
    }


def rows_of(columns: dict[str, list]):
    return zip(*columns.values(), strict=True)


def play(holdout: eh.Holdout) -> list[str]:
    """Every kind of act; what was printed, to the bit."""
    shown = [
        repr(holdout.ask(text)) for text in ("age > 40", "smoker", "city = 'Oslo' OR lower(city) = 'york'", "bmi IS NULL")
    ]
    shown += [repr(one) for one in holdout.ask_many(["hour(seen) < 6", "ln(bmi) > 3.3 AND smoker", "age % 7 = 3"])]
    shown.append(repr(holdout.mean("bmi", low=10, high=60, given="smoker")))
    shown.append(repr(holdout.quantile("bmi", 0.9, low=10, high=60)))
    shown.append(repr(holdout.read("smoker AND age > 60")))
    shown += [repr(one) for one in holdout.read_many(["weekday(seen) = 0", eh.Share("smoker", given="age > 60")])]
    shown.append(repr(holdout.best_of(["age > 30", "age > 50", "smoker"])))
    shown.append(repr(holdout.is_better("smoker", "age > 80", by=0.01)))
    return shown


def close(holdout: eh.Holdout, *, units: bool = False) -> list[str]:
    """The last act; with units, a median takes several steps."""
    last = eh.Mean("bmi", low=10, high=60) if units else eh.Median("bmi", low=10, high=60)
    return [repr(one) for one in holdout.close([last, "age > 70"])]
