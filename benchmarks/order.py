"""What the order of acts decides: is the winner of a search better than the incumbent, and what is its score?"""

from __future__ import annotations

import os
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import Line

ORDERS = (
    ("choose", "compare", "winner"),
    ("choose", "difference", "winner"),
    ("winner", "compare"),
    ("winner", "difference"),
    ("choose", "compare", "difference"),
    ("choose", "compare", "close"),
)
MODELS, ROWS, RIGHT, DIFFERS, GAP = 32, 3_000, 0.795, 0.13, 0.022


class Column:
    """A model whose predictions are a column of the features; the incumbent is column 0."""

    def __init__(self, column: int) -> None:
        self.column = column

    def predict(self, X: NDArray[np.int_]) -> NDArray[np.int_]:
        """The column."""
        return X[:, self.column]


def _world(rng: np.random.Generator) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Predictions and labels: model 7 is better than the incumbent by `GAP`, all others by less."""
    labels = rng.integers(0, 2, ROWS)
    right = rng.random(ROWS) < RIGHT
    found = np.empty((ROWS, MODELS + 1), dtype=int)
    found[:, 0] = np.where(right, labels, 1 - labels)
    for model in range(1, MODELS + 1):
        gap = GAP if model == 7 else GAP - 0.002 - 0.015 * ((model * 7919) % 31) / 31
        up = ~right & (rng.random(ROWS) < (DIFFERS + gap) / 2 / (1 - RIGHT))
        down = right & (rng.random(ROWS) < (DIFFERS - gap) / 2 / RIGHT)
        found[:, model] = np.where((right | up) & ~down, labels, 1 - labels)
    return found, labels


def session(seed: int, order: tuple[str, ...]) -> dict[str, float]:
    """One search of 32 models with good forecasts, then these acts: 1 where one says better, and half-widths."""
    rng = np.random.default_rng(seed)
    (public, public_labels), (private, labels) = _world(rng), _world(rng)
    test = eh.TestSet(private, labels, reference=(public, public_labels), seed=seed + 1)
    for model in range(1, MODELS + 1):
        foreseen = float(np.mean(public[:, model] == public_labels))
        test.enter(Column(model), name=str(model), expect=foreseen)
    best = Column(int(test.winner(read=order[0] == "winner").name))
    found: dict[str, float] = {}
    for act in order:
        if act == "winner":
            score = test.winner().score  # the same again where it was read
            found["± winner"] = 0.0 if score is None else score.interval.half_width
        elif act == "compare":
            found["compare"] = test.compare(best, Column(0)).verdict == "better"
        elif act == "difference":
            difference = test.difference(best, Column(0))
            found["difference"] = difference.verdict == "better"
            found["± difference"] = difference.interval.half_width
        elif act == "close":
            found["± close"] = test.close([best, Column(0)])[0].interval.half_width
    return found


def run() -> list[Line]:
    """Every order on the same searches."""
    sessions = int(os.environ.get("EVERHOLD_ORDER_SESSIONS", "100"))
    shares: dict[tuple[str, ...], float] = {}
    lines = []
    for order in ORDERS:
        totals: dict[str, list[float]] = defaultdict(list)
        for seed in range(1000, 1000 + sessions):
            for name, value in session(seed, order).items():
                totals[name].append(value)
        means = {name: float(np.mean(values)) for name, values in totals.items()}
        shares[order] = means.get("compare", means.get("difference", 0.0))
        said = ", ".join(f"{name} {value:.3f}" for name, value in means.items())
        lines.append((order, said))
    first = shares[ORDERS[0]]
    return [
        Line(
            ", ".join(order),
            said,
            "the first order finds as much" if order != ORDERS[0] else "better in most searches",
            first >= shares[order] if order != ORDERS[0] else first > 0.5,
        )
        for order, said in lines
    ]
