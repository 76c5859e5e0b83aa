"""Statistical-query boosting over 60 features: how many surprises each rule needs.

An SQ learner boosts single features for 40 stages: at each stage it asks for all 60 weighted correlations and for the
accuracy of what it has, 2,440 adaptive questions. Features are known, labels are not (λ = 1/2). The corrective rule is
compared with the gradient rule with the paper's step, started at 0, and with Polyak's step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import Line
from everhold.bounds.concentration import hoeffding_width
from everhold.mechanism.rules import Corrective, Entropic, Gradient, Rule
from everhold.mechanism.tolerance import TOLERANCE_ONE, Tolerance, ToleranceInputs

FEATURES, STAGES = 60, 40


@dataclass(frozen=True)
class Constant:
    """A tolerance that stays what it is, for comparing rules on the same footing."""

    tau: float
    cells: float = 0.25

    def tolerance(self, at: ToleranceInputs) -> Tolerance:
        """τ and Δ."""
        tau = int(self.tau * TOLERANCE_ONE)
        return Tolerance(tau, int(tau * self.cells))

    def describe(self) -> str:
        """One line for people."""
        return f"constant tolerance {self.tau:g}"


def world(target: str, size: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Uniform ±1 features and labels by a linear threshold of 15 of them, or by a tree over seven."""
    x = np.where(rng.random((size, FEATURES)) < 0.5, -1.0, 1.0)
    if target == "linear":
        weights = np.linspace(1.0, 0.3, 15)
        y = np.where(x[:, :15] @ weights >= 0.0, 1.0, -1.0)
    else:
        left = np.where(x[:, 1] > 0, x[:, 3], np.where(x[:, 4] > 0, 1.0, x[:, 5]))
        right = np.where(x[:, 2] > 0, 1.0, x[:, 6])
        y = np.where(x[:, 0] > 0, right, left)
    return x, y


def session(
    rule: Rule, target: str, rows: int, pool: int, tau: float, seed: int, cells: float = 0.25
) -> tuple[int, float, float, float]:
    """Surprises, final w on the [-1, 1] scale, and the learner's accuracy: the last answer and on the private rows."""
    rng = np.random.default_rng(seed)
    x, y = world(target, rows, rng)
    features, _ = world(target, pool, rng)
    held = eh.Holdout(rows, prior=eh.Reference(2 * pool), rule=rule, tolerance=Constant(tau, cells), seed=seed)
    coefficients, answer = np.zeros(FEATURES), None
    for _ in range(STAGES):
        # The weight of an example at margin m = y·F(x) is 1/(1 + e^m): at most 1, so w·y·x_j stays in [-1, 1].
        private = y / (1.0 + np.exp(y * (x @ coefficients)))
        scores = features @ coefficients
        public = 1.0 / (1.0 + np.exp(scores)), -1.0 / (1.0 + np.exp(-scores))
        edges = np.empty(FEATURES)
        for j in range(FEATURES):
            asked = np.concatenate([public[0] * features[:, j], public[1] * features[:, j]])
            edges[j] = held.ask(eh.Values(sample=private * x[:, j], reference=asked)).value
        best = int(np.argmax(np.abs(edges)))
        coefficients[best] += 1.5 * edges[best]
        positive = features @ coefficients > 0.0
        right = (x @ coefficients > 0.0) == (y > 0.0)
        answer = held.ask(eh.Values(sample=right, reference=np.concatenate([positive, ~positive])))
    if answer is None:
        raise ValueError("no stage was played")
    return held.surprises, hoeffding_width(held.price, rows), answer.value, float(np.mean(right))


def run() -> list[Line]:
    """The table, and the promise: a quarter of the surprises and 0.6 of the width of the paper's step."""
    rules: dict[str, Callable[[], Rule]] = {
        "paper's step": lambda: Gradient(step="paper", start_at=0.0),
        "Polyak's step": Gradient,
        "entropic": Entropic,
        "corrective": lambda: Corrective(cap=2.0),
    }
    print(f"\n  {'n':>8} {'τ':>6}  {'target':<7} {'rule':<14} {'surprises':>9} {'final w':>8} {'answer':>8} {'on S':>6}")
    lines = []
    for rows, pool, tau in ((20_000, 10_000, 0.085), (200_000, 50_000, 0.030)):
        for target in ("linear", "tree"):
            got = {name: session(rule(), target, rows, pool, tau, 1) for name, rule in rules.items()}
            for name, (surprises, width, told, own) in got.items():
                print(f"  {rows:>8,} {tau:>6}  {target:<7} {name:<14} {surprises:>9} {width:>8.3f} {told:>8.3f} {own:>6.3f}")
            (k, w, *_), (k_paper, w_paper, *_) = got["corrective"], got["paper's step"]
            lines.append(
                Line(
                    f"boosting, {target}, n = {rows:,}: corrective over the paper's step",
                    f"{k / k_paper:.2f} of the surprises, {w / w_paper:.2f} of the width",
                    "0.25 and 0.6",
                    k <= 0.25 * k_paper and w <= 0.6 * w_paper,
                )
            )
    return lines
