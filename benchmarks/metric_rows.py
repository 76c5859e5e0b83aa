"""How many test rows each metric needs for an interval of ±0.05, of a model that is the only entry of a test set."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import exp
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.datasets import make_classification, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import everhold as eh
from benchmarks.promises import Line

METRICS = ("accuracy", "brier", "balanced_accuracy", "f1", "r2", "log_loss", "auc")
SIZES = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000)
MOST, WANTED = SIZES[-1], 0.05


@cache
def world(regression: bool) -> tuple[Any, Any, Any]:
    """Features, labels and a model: 30 % positive with 5 % of wrong labels, or Friedman's first function with noise."""
    rows = MOST + 4_000
    if regression:
        X, y = make_friedman1(n_samples=rows, noise=1.0, random_state=0)
        model: Any = HistGradientBoostingRegressor(max_iter=60, random_state=0)
    else:
        X, y = make_classification(rows, 20, n_informative=5, flip_y=0.1, weights=[0.7], random_state=0)
        model = LogisticRegression(max_iter=500)
    return X, y, model.fit(X[MOST : MOST + 2_000], y[MOST : MOST + 2_000])


def score(metric: str, rows: int) -> eh.Score:
    """The winner's score, of one entry, with 2,000 public rows that the model was not fitted to."""
    regression = metric == "r2"
    X, y, model = world(regression)
    task: Any = "regression" if regression else "classification"
    reference = (X[MOST + 2_000 :], y[MOST + 2_000 :])
    test = eh.TestSet(X[:rows], y[:rows], reference=reference, task=task, pairs=metric == "auc", seed=1)
    test.enter(model, metric, folds=3)
    found = test.winner(metric).score
    assert found is not None
    return found


def delong(rows: int) -> float:
    """The standard error of the model's AUC on its test rows, as DeLong, DeLong and Clarke-Pearson (1988) estimate it."""
    X, y, model = world(False)
    said, labels = model.predict_proba(X[:rows])[:, 1], y[:rows]
    positive, negative = said[labels == 1], said[labels == 0]
    above = np.searchsorted(np.sort(negative), positive) / len(negative)
    below = 1.0 - np.searchsorted(np.sort(positive), negative) / len(positive)
    assert abs(above.mean() - roc_auc_score(labels, said)) < 1e-3
    return float(np.sqrt(above.var() / len(positive) + below.var() / len(negative)))


def run() -> Iterator[Line]:
    """Half-widths by metric and size; the first size with ±0.05, in the table of docs/howto/tune.md."""
    for metric in METRICS:
        widths = {rows: score(metric, rows).interval.half_width for rows in SIZES}
        first = next((rows for rows, width in widths.items() if width <= WANTED), None)
        measured = ", ".join(f"{rows:,}: ±{width:.3f}" for rows, width in widths.items())
        what = f"{metric}, the first size is {first:,}" if first else metric
        yield Line(what, measured, f"±{WANTED:g} with some of these sizes", first is not None)
    own = score("auc", MOST)
    ratio = own.interval.half_width / (float(norm.isf(exp(-own.price))) * delong(MOST))
    yield Line("AUC by pairs, times DeLong's interval", f"{ratio:.1f}", "at most 6", ratio <= 6.0)
