"""Thresholdout's published experiment (Dwork et al., Science 2015): n = d = 10,000, the best 500 features.

An analyst has 10,000 training rows and a holdout of 10,000. Features whose correlation with the label is at least 1/√n on
both, with the same sign, are ranked by the training rows; the best k make a voting classifier, whose accuracy is read off
the holdout. A quiet answer of everhold gives no reason to doubt the training rows, so such a feature stays in.
Published for k = 500: without signal the plain holdout reports 63.3 % where the truth is 50 %; with 20 features shifted
by 0.06 it reports 64.8 % where the truth is 52.2 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import Line

ROWS = FEATURES = 10_000
SIGNAL, SHIFT = 20, 0.06
SIZES = (20, 50, 100, 500)


def rows(
    rng: np.random.Generator, signal: bool, size: int = ROWS, features: int = FEATURES
) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Standard normal features, coin-flip labels; with signal the first 20 features lean towards the label."""
    y = np.where(rng.random(size) < 0.5, -1, 1).astype(np.int8)
    x = rng.standard_normal((size, features), dtype=np.float32)
    if signal:
        x[:, :SIGNAL] += np.float32(SHIFT) * y[:, None]
    return x, y


def truth(chosen: NDArray[np.intp], signs: NDArray[np.float32], signal: bool) -> float:
    """Population accuracy of the vote Σ s_j x_j: a normal score, so exact."""
    from scipy.stats import norm

    if not signal:
        return 0.5
    lean = SHIFT * float(signs[chosen < SIGNAL].sum())
    return float(norm.cdf(lean / np.sqrt(len(chosen))))


def experiment(signal: bool, seed: int) -> tuple[list[tuple[int, float, float, eh.Answer, float]], eh.Holdout]:
    """For each k: the plain holdout's report and the truth of its model; everhold's answer and the truth of its model."""
    rng = np.random.default_rng(seed)
    (train, train_y), (hold, hold_y) = rows(rng, signal), rows(rng, signal)
    train_corr = train.T @ train_y.astype(np.float32) / ROWS
    plain_corr = hold.T @ hold_y.astype(np.float32) / ROWS

    # everhold: the same questions as yes/no (does the feature's sign agree with the label?), the training features with
    # both labels as reference.
    held = eh.Holdout(ROWS, prior=eh.Reference(2 * ROWS), density=0.5, seed=seed)
    told = train_corr.astype(np.float64)
    for j in range(FEATURES):
        public = train[:, j] > 0
        answer = held.ask(eh.Values(sample=(hold[:, j] > 0) == (hold_y > 0), reference=np.concatenate([public, ~public])))
        if answer.surprise:  # E[sign(x) y] = 2 share - 1, and E[x y] is sqrt(π/2) times that for a small shift
            told[j] = (2.0 * answer.value - 1.0) * np.sqrt(np.pi / 2.0)

    results = []
    for k in SIZES:
        plain = best(train_corr, plain_corr, k)
        signs = np.sign(train_corr[plain]).astype(np.float32)
        reported = float(np.mean((hold[:, plain] @ signs > 0) == (hold_y > 0)))
        mine = best(train_corr, told, k)
        signs_mine = np.sign(train_corr[mine]).astype(np.float32)
        public = train[:, mine] @ signs_mine > 0
        answer = held.ask(
            eh.Values(sample=(hold[:, mine] @ signs_mine > 0) == (hold_y > 0), reference=np.concatenate([public, ~public]))
        )
        results.append((k, reported, truth(plain, signs, signal), answer, truth(mine, signs_mine, signal)))
    return results, held


def best(train: NDArray[Any], other: NDArray[Any], k: int, size: int = ROWS) -> NDArray[np.intp]:
    """The k features with the largest training correlation among those that both sides see."""
    least = 1.0 / np.sqrt(size)
    agree = (train * other > 0.0) & (np.abs(train) >= least) & (np.abs(other) >= least)
    return np.argsort(np.where(agree, -np.abs(train), 0.0))[: min(k, int(agree.sum()))]


def run() -> list[Line]:
    """Both halves of the experiment, one seed each, printed as a table; the promises for k = 500 and the signal."""
    lines = []
    for signal in (False, True):
        results, held = experiment(signal, 2015)
        print(f"\n  {'with' if signal else 'no'} signal: {held}")
        print("     k   plain: reported  truth    everhold: answer   interval          truth")
        for k, reported, true_plain, answer, true_mine in results:
            print(
                f"  {k:4d}   {100 * reported:13.1f} % {100 * true_plain:5.1f} %   {100 * answer.value:15.1f} %   "
                f"{100 * answer.low:5.1f} to {100 * answer.high:5.1f} %   {100 * true_mine:5.1f} %"
            )
        last = results[-1]
        error = abs(last[3].value - last[4])
        label = "with signal" if signal else "no signal"
        lines.append(
            Line(
                f"Thresholdout's experiment, {label}, k = 500: plain {100 * last[1]:.1f} % against {100 * last[2]:.1f} %; "
                "everhold's error",
                f"{100 * error:.1f} points",
                "2 points",
                error <= 0.02,
            )
        )
        if signal:
            first = results[0]
            lines.append(
                Line(
                    "with signal, k = 20: everhold's interval for the vote",
                    f"{100 * first[3].low:.1f} to {100 * first[3].high:.1f} %, truth {100 * first[4]:.1f} %",
                    "holds the truth and excludes 50 %",
                    first[4] in first[3].interval and first[3].low > 0.5,
                )
            )
    return lines
