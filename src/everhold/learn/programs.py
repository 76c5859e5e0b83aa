"""Learning by statistical queries: programs that yield questions φ(x, y) in [-1, 1] and receive the answers.

A program never sees a labelled row. It knows public features, asks about the labels, and returns a model. Estimators run
these programs with an oracle (`learn.estimators`), and games run them against mechanisms (`games`).

Kearns, *Efficient Noise-Tolerant Learning from Statistical Queries* (J. ACM 1998).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

__all__ = ["LearnerProgram", "Linear", "Model", "Phi", "Range", "Tree", "boosting", "decision_tree", "halfspace", "logistic"]

Phi = Callable[[Any, Any], Any]
"""A question about features and labels of many rows, with values in [-1, 1]."""

LearnerProgram = Generator[Phi, float, "Model"]
"""Yields questions, receives answers, returns a model."""


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """Scales features to [-1, 1] by a range that is fixed from public rows."""

    low: Vector
    high: Vector

    @classmethod
    def of(cls, features: Matrix) -> Range:
        """The range of public features."""
        return cls(features.min(axis=0), features.max(axis=0))

    def __call__(self, x: Any) -> Matrix:
        """Features in [-1, 1]; values beyond the public range are clipped."""
        if bool(np.all(self.low == -1.0) and np.all(self.high == 1.0)):
            return np.asarray(np.clip(x, -1.0, 1.0))
        spread = np.where(self.high > self.low, self.high - self.low, 1.0)
        scaled = 2.0 * (np.asarray(x, dtype=np.float64) - self.low) / spread - 1.0
        return np.clip(np.where(self.high > self.low, scaled, 0.0), -1.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A score w·x + b over features in [-1, 1]."""

    range: Range
    weights: Vector
    bias: float = 0.0

    def score(self, x: Any) -> Vector:
        """Positive where the label is likelier to be 1."""
        return np.asarray(self.range(x) @ self.weights + self.bias)


@dataclass(frozen=True, slots=True)
class Tree:
    """A decision tree: a leaf with a score, or a test whether a feature is at most a threshold."""

    value: float
    feature: int = -1
    threshold: float = 0.0
    below: Tree | None = None
    above: Tree | None = None

    def score(self, x: Any) -> Vector:
        """Positive where the label is likelier to be 1."""
        rows = np.asarray(x, dtype=np.float64)
        if self.below is None or self.above is None:
            return np.full(len(rows), self.value)
        left = rows[:, self.feature] <= self.threshold
        return np.where(left, self.below.score(rows), self.above.score(rows))

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return 1 if self.below is None or self.above is None else self.below.leaves + self.above.leaves


Model = Linear | Tree


def _gradient(
    range_: Range, weights: Vector, bias: float, pull: Callable[[Vector], Vector]
) -> Generator[Phi, float, Vector]:
    """E[y pull(y·score) (x, 1)]: one question for every feature and one for the bias."""
    answers = np.empty(len(weights) + 1)
    for j in range(len(weights) + 1):

        def phi(x: Any, y: Any, j: int = j) -> Vector:
            scaled = range_(x)
            margins = y * (scaled @ weights + bias)
            return np.asarray(y * pull(margins) * (scaled[:, j] if j < len(weights) else 1.0))

        answers[j] = yield phi
    return answers


def _logistic_gradient(range_: Range, weights: Vector, bias: float, *, first: bool) -> Generator[Phi, float, Vector]:
    """E[y (x, 1) / (1 + e^margin)]. In the first step every row counts 1/2; asking for whole rows is twice as precise."""
    if first:
        return 0.5 * (yield from _gradient(range_, weights, bias, np.ones_like))
    return (yield from _gradient(range_, weights, bias, lambda m: 1.0 / (1.0 + np.exp(np.clip(m, -500.0, 500.0)))))


def halfspace(features: Matrix, *, steps: int = 10, margin: float = 0.1) -> LearnerProgram:
    """A linear threshold: label correlations first, then corrections from rows within the margin or on the wrong side.

    Args:
        features: public rows.
        steps: corrections, each with a question for every feature.
        margin: rows further than this on the right side are not corrected, in units of the largest weight.
    """
    scale, d = Range.of(features), features.shape[1]
    first = yield from _gradient(scale, np.zeros(d), 0.0, np.ones_like)
    weights, bias = first[:-1], float(first[-1])
    for step in range(steps):
        size = max(float(np.abs(weights).max()), 1e-9)
        weights, bias = weights / size, bias / size
        moves = yield from _gradient(scale, weights, bias, lambda m: (m <= margin).astype(np.float64))
        rate = 2.0 / (1.0 + step)
        weights, bias = weights + rate * moves[:-1], bias + rate * float(moves[-1])
    return Linear(scale, weights, bias)


def logistic(features: Matrix, *, steps: int = 15, rate: float = 4.0, penalty: float = 1e-3) -> LearnerProgram:
    """Logistic regression by gradient descent: every coordinate of every gradient is a question.

    Args:
        features: public rows.
        steps: gradient steps, each with a question for every feature.
        rate: length of a step.
        penalty: weight of the penalty on squared weights.
    """
    scale, d = Range.of(features), features.shape[1]
    weights, bias = np.zeros(d), 0.0
    for step in range(steps):
        moves = yield from _logistic_gradient(scale, weights, bias, first=step == 0)
        weights = (1.0 - rate * penalty) * weights + rate * moves[:-1]
        bias += rate * float(moves[-1])
    return Linear(scale, weights, bias)


def boosting(features: Matrix, *, stages: int = 20, rate: float = 1.5) -> LearnerProgram:
    """Boosting over single features: each stage asks for the weighted correlation of all, and steps along the best.

    Args:
        features: public rows.
        stages: the number of stages, each with a question for every feature.
        rate: length of a step.
    """
    scale, d = Range.of(features), features.shape[1]
    weights, bias = np.zeros(d), 0.0
    for stage in range(stages):
        edges = yield from _logistic_gradient(scale, weights, bias, first=stage == 0)
        best = int(np.argmax(np.abs(edges)))
        if best < d:
            weights = weights.copy()
            weights[best] += rate * edges[best]
        else:
            bias += rate * float(edges[best])
    return Linear(scale, weights, bias)


def decision_tree(features: Matrix, *, depth: int = 3, cuts: int = 3, least: float = 0.01) -> LearnerProgram:
    """A decision tree: the share of rows at a node is public; the balance of their labels is asked for every possible cut.

    Args:
        features: public rows.
        depth: levels of the tree.
        cuts: candidate thresholds for every feature, at quantiles of the public rows.
        least: a leaf has at least this share of the public rows.
    """
    levels = np.arange(1, cuts + 1) / (cuts + 1)
    candidates = [(j, float(t)) for j in range(features.shape[1]) for t in np.unique(np.quantile(features[:, j], levels))]
    root = yield from _lean(())
    return (yield from _grow(features, (), root, depth, candidates, least))


Path = tuple[tuple[int, float, bool], ...]
"""The path to a node: feature, threshold, and whether the row is at most it."""


def _at(path: Path, x: Any) -> NDArray[np.bool_]:
    rows = np.asarray(x, dtype=np.float64)
    inside = np.ones(len(rows), dtype=bool)
    for feature, threshold, below in path:
        inside &= (rows[:, feature] <= threshold) == below
    return inside


def _lean(path: Path) -> Generator[Phi, float, float]:
    """E[y; the row is at this node]."""
    return (yield lambda x, y: np.where(_at(path, x), y, 0.0))


def _grow(
    features: Matrix, path: Path, lean: float, depth: int, candidates: list[tuple[int, float]], least: float
) -> Generator[Phi, float, Tree]:
    mass = float(_at(path, features).mean())
    leaf = Tree(lean / max(mass, 1e-9))
    if depth == 0 or mass < 2.0 * least:
        return leaf
    best: tuple[float, int, float, float] | None = None
    for feature, threshold in candidates:
        below = (*path, (feature, threshold, True))
        share = float(_at(below, features).mean())
        if not least <= share <= mass - least:
            continue
        part = yield from _lean(below)
        # Gini: a cut explains lean²/mass on either side of it
        gain = part**2 / share + (lean - part) ** 2 / (mass - share)
        if best is None or gain > best[0]:
            best = gain, feature, threshold, part
    if best is None:
        return leaf
    _, feature, threshold, part = best
    sides = [(*path, (feature, threshold, True)), (*path, (feature, threshold, False))]
    left = yield from _grow(features, sides[0], part, depth - 1, candidates, least)
    right = yield from _grow(features, sides[1], lean - part, depth - 1, candidates, least)
    return Tree(leaf.value, feature, threshold, left, right)
