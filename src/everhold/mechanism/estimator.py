"""Where the sketch's answer u = E_π[h φ] comes from: a fixed pool of public rows, or fresh draws every round.

Both give u as an exact fraction of whole numbers. Over a pool it is the sketch's answer, without error; fresh draws
leave an error of their own, which is kept well below the tolerance and is independent of everything asked before.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Protocol

import numpy as np

from everhold.bounds.elementary import ln
from everhold.errors import EverholdError, QuestionError
from everhold.mechanism.basis import Basis
from everhold.mechanism.rules.rule import from_grid, to_grid
from everhold.queries.coins import coins
from everhold.queries.grid import MASS_ONE, VALUE_ONE
from everhold.queries.mechanism import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everhold.mechanism.rules.rule import Lesson, Rule
    from everhold.queries.grid import GridValues
    from everhold.queries.query import Query, Rows

__all__ = ["Draws", "Estimate", "Estimator", "FreshEstimator", "PoolEstimator"]

_MOST_MASS = 2**38  # Σ|mass|·VALUE_ONE stays below 2⁵³: sums of masses times values are exact


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Public rows with weights that sum to 1 (None: all equal), and how many independent draws they amount to."""

    rows: Rows
    size: int
    weights: NDArray[np.float64] | None
    draws: float

    def normal_weights(self) -> NDArray[np.float64]:
        """The weights, spelled out."""
        return np.full(self.size, 1.0 / self.size) if self.weights is None else self.weights


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The sketch's answer to one question, with the question's values on the public rows it was made from."""

    reading: Reading
    values: GridValues


class Estimator(Protocol):
    """The public side of a mechanism."""

    def estimate(self, query: Query, round: int) -> Estimate:  # noqa: A002
        """The sketch's answer now. Changes nothing."""

    def prior(self, query: Query) -> float:
        """What the prior itself says, without anything that surprises taught."""

    def fit(self, query: Query, values: GridValues, lessons: Sequence[Lesson], round: int) -> tuple[int, ...]:  # noqa: A002
        """Coefficients that take the last lesson into account, on their grid. Changes nothing."""

    def learn(self, query: Query, values: GridValues, fit: tuple[int, ...]) -> None:
        """Take the question and the fitted coefficients over into the sketch."""


def _masses(rule: Rule, z: NDArray[np.float64], draws: Draws) -> tuple[NDArray[np.float64], int, int]:
    """The sketch's masses on the grid, their total, and what an answer is divided by."""
    h = rule.ratio(z)
    if draws.weights is not None:
        h *= draws.weights * float(draws.size)
    h *= float(MASS_ONE)
    masses = np.rint(h, out=h)
    if float(np.abs(masses).sum()) >= _MOST_MASS:
        raise EverholdError("the sketch has grown too large to be summed exactly; nothing was answered.")
    whole = int(masses.sum())
    return masses, whole, whole if rule.normalised else MASS_ONE * draws.size


def _estimate(values: GridValues, masses: NDArray[np.float64], whole: int, per: int, draws: float) -> Estimate:
    numerator = values.dot(masses, whole)
    denominator = per * VALUE_ONE
    clipped = max(-denominator, min(denominator, numerator))
    return Estimate(Reading(values.scale, clipped, denominator, draws), values)


def _prior_mean(query: Query, draws: Draws) -> float:
    values = query.on_reference(draws.rows, draws.size)
    return float(draws.normal_weights().dot(_signed(values)))


def _signed(values: GridValues) -> NDArray[np.float64]:
    """A question's values as numbers in [-1, 1]."""
    return np.where(values.array, 1.0, -1.0) if values.scale == "share" else values.array / VALUE_ONE


class PoolEstimator:
    """u over a fixed pool: exact, and a dot product a question."""

    def __init__(self, draws: Draws, rule: Rule) -> None:
        self._draws = draws
        self._rule = rule
        self._basis = Basis(draws.normal_weights())
        self._ahead: tuple[GridValues, Basis, NDArray[np.float64] | None] | None = None
        self._moments: NDArray[np.float64] | None = None
        self._theta = np.array([rule.start()])
        self._evaluate()

    @property
    def bytes(self) -> int:
        """Memory that surprises have taken."""
        return self._basis.bytes

    def estimate(self, query: Query, round: int) -> Estimate:  # noqa: A002, ARG002
        """Evaluate the question on the pool."""
        values = query.on_reference(self._draws.rows, self._draws.size, verify=True)
        return _estimate(values, self._masses, self._whole, self._per, self._draws.draws)

    def prior(self, query: Query) -> float:
        """The weighted mean over the pool."""
        return _prior_mean(query, self._draws)

    def fit(self, query: Query, values: GridValues, lessons: Sequence[Lesson], round: int) -> tuple[int, ...]:  # noqa: A002, ARG002
        """Fit on the pool."""
        basis = self._basis.with_one_more(values)
        mass = self._masses / self._per
        if self._moments is None:
            moments = basis.correlate(mass)
        else:
            moments = np.append(self._moments, mass.dot(_signed(values)))
        theta, moments_after = self._rule.fit(basis, lessons, self._theta, mass, moments)
        self._ahead = values, basis, moments_after
        return to_grid(theta)

    def learn(self, query: Query, values: GridValues, fit: tuple[int, ...]) -> None:  # noqa: ARG002
        """Extend the basis and evaluate the new sketch once."""
        if self._ahead is not None and self._ahead[0] is values:
            _, self._basis, self._moments = self._ahead
        else:
            self._basis.append(values)
            self._moments = None
        self._ahead = None
        self._theta = from_grid(fit)
        self._evaluate()

    def _evaluate(self) -> None:
        z = self._basis.combine(self._theta[1:])
        z += self._theta[0]
        self._masses, self._whole, self._per = _masses(self._rule, z, self._draws)


class FreshEstimator:
    """u over rows drawn anew every round: an analyst who knows everything but the seed cannot overfit them.

    Rows are drawn in doubling numbers until the estimate's empirical-Bernstein error (Maurer and Pontil 2009) is below
    `accuracy`, or `most` rows have been drawn. Coins are keyed by the seed and the round.

    Args:
        draw: draws public rows from the prior: `draw(rng, size)`.
        rule: how surprises teach the sketch.
        seed: of the coins.
        accuracy: error aimed at, on the [-1, 1] scale.
        failure_probability: of one round's estimate to be further off than `accuracy`.
        fit_rows: how many rows a refit is done on.
    """

    def __init__(
        self,
        draw: Callable[[np.random.Generator, int], Draws],
        rule: Rule,
        *,
        seed: int,
        accuracy: float,
        failure_probability: float = 1e-4,
        fit_rows: int = 50_000,
        first: int = 2048,
        most: int = 2**20,
    ) -> None:
        self._draw = draw
        self._rule = rule
        self._seed = seed
        self._accuracy = accuracy
        self._nats = ln(2.0 / failure_probability)
        self._fit_rows = fit_rows
        self._first, self._most = first, most
        self._theta = np.array([rule.start()])
        self._queries: list[Query] = []

    def estimate(self, query: Query, round: int) -> Estimate:  # noqa: A002
        """Draw, evaluate, double until it is accurate enough. The stop depends on public coins alone."""
        if not query.repeatable:
            raise QuestionError(
                "the prior draws fresh rows every round, so the question must be a callable that can be evaluated on "
                "them; eh.Values(...) gives its values on fixed rows only. Use a prior with a pool (size=...) for it."
            )
        size = self._first
        while True:
            draws = self._draw(coins(self._seed, "fresh", round, size), size)
            values = query.on_reference(draws.rows, draws.size, verify=size == self._first)
            masses, whole, per = _masses(self._rule, self._z(draws), draws)
            if size >= self._most or self._error(values, masses, per, draws) <= self._accuracy:
                return _estimate(values, masses, whole, per, draws.draws)
            size *= 2

    def prior(self, query: Query) -> float:
        """The weighted mean over rows drawn for this purpose."""
        return _prior_mean(query, self._draw(coins(self._seed, "prior"), self._fit_rows))

    def fit(self, query: Query, values: GridValues, lessons: Sequence[Lesson], round: int) -> tuple[int, ...]:  # noqa: A002, ARG002
        """Fit on rows drawn for this refit alone."""
        draws = self._draw(coins(self._seed, "fit", round), self._fit_rows)
        basis = self._basis([*self._queries, query], draws)
        masses, _, per = _masses(self._rule, self._z(draws), draws)
        mass = masses / per
        theta, _ = self._rule.fit(basis, lessons, self._theta, mass, basis.correlate(mass))
        return to_grid(theta)

    def learn(self, query: Query, values: GridValues, fit: tuple[int, ...]) -> None:  # noqa: ARG002
        """Keep the question: it will be evaluated on every round's rows."""
        self._queries.append(query)
        self._theta = from_grid(fit)

    def _z(self, draws: Draws) -> NDArray[np.float64]:
        z = self._basis(self._queries, draws).combine(self._theta[1:])
        z += self._theta[0]
        return z

    @staticmethod
    def _basis(queries: Sequence[Query], draws: Draws) -> Basis:
        basis = Basis(draws.normal_weights())
        for past in queries:
            basis.append(past.on_reference(draws.rows, draws.size))
        return basis

    def _error(self, values: GridValues, masses: NDArray[np.float64], per: int, draws: Draws) -> float:
        """Empirical Bernstein: sqrt(2 V ln(2/δ)/m) + 7 R ln(2/δ)/(3 (m-1)), over the independent draws."""
        terms = _signed(values) * masses * (draws.size / per)
        m = int(draws.draws)
        if draws.size > m:  # every draw stands once for each label: sum over the labels first
            terms = terms.reshape(-1, m).mean(axis=0)
        # Moments in whole numbers, so that every machine stops at the same draw.
        whole = np.rint(np.clip(terms, -4096.0, 4096.0) * 256.0).astype(np.int64)
        first, second = int(whole.sum()), int((whole * whole).sum())
        variance = (second - first * first / m) / (m - 1) / 65536.0
        spread = float(np.abs(terms).max())
        return sqrt(2.0 * max(variance, 0.0) * self._nats / m) + 14.0 * spread * self._nats / (3.0 * (m - 1))
