"""Statistical-query boosting over 60 features: how many surprises each rule needs.

An SQ learner boosts single features for 40 stages: at each stage it asks for all 60 weighted correlations and for the
accuracy of what it has, 2,440 adaptive questions. Features are known, labels are not (λ = 1/2). The corrective rule is
compared with the gradient rule with the paper's step, started at 0, and with Polyak's step.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import everhold as eh
from everhold.bounds.concentration import hoeffding_width
from everhold.mechanism.rules import Rule
from everhold.mechanism.tolerance import TOLERANCE_ONE, Circumstances, Tolerance

FEATURES, STAGES = 60, 40


@dataclass(frozen=True)
class Constant:
    """A tolerance that stays what it is, for comparing rules on the same footing."""

    tau: float
    cells: float = 0.25

    def tolerance(self, at: Circumstances) -> Tolerance:  # noqa: ARG002
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


def booster() -> Generator[object, eh.Answer, float]:
    """The analyst: real-valued questions w·y·x_j, all chosen from earlier answers."""
    coefficients = np.zeros(FEATURES)
    accuracy = 0.0
    for _ in range(STAGES):
        now = coefficients.copy()

        def weight(rows: dict[str, NDArray[np.float64]], now: NDArray[np.float64] = now) -> NDArray[np.float64]:
            result: NDArray[np.float64] = rows["y"] / (1.0 + np.exp(rows["y"] * (rows["x"] @ now)))
            return result

        edges = np.empty(FEATURES)
        for j in range(FEATURES):
            answer = yield lambda rows, j=j, weight=weight: weight(rows) * rows["x"][:, j]
            edges[j] = answer.value
        best = int(np.argmax(np.abs(edges)))
        coefficients[best] += 1.5 * edges[best]
        vote = coefficients.copy()
        answer = yield lambda rows, vote=vote: (rows["x"] @ vote > 0.0) == (rows["y"] > 0.0)
        accuracy = answer.value
    return accuracy


def session(
    rule: Rule, target: str, rows: int, pool: int, tau: float, seed: int, cells: float = 0.25
) -> tuple[int, float, float, float]:
    """Surprises, final half-width w on the [-1, 1] scale, and the learner's accuracy: reported and on fresh rows."""
    rng = np.random.default_rng(seed)
    x, y = world(target, rows, rng)
    features, _ = world(target, pool, rng)
    holdout = eh.Holdout(
        {"x": x, "y": y},
        prior=eh.Labels({"x": features}, classes=[-1.0, 1.0]),
        rule=rule,
        tolerance=Constant(tau, cells),
        seed=seed,
    )
    analyst, answer, reported = booster(), None, 0.0
    try:
        question = next(analyst)
        while True:
            answer = holdout.ask(question)
            question = analyst.send(answer)
    except StopIteration as stop:
        reported = stop.value
    return holdout.surprises, hoeffding_width(holdout.spent, rows), reported, holdout.spent
