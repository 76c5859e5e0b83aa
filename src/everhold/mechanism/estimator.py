"""Estimators of the sketch's answer u = E_π[h φ]: over a fixed pool of public rows, or fresh draws every round.

Both give u as an exact fraction of whole numbers. Over a pool it is the sketch's answer, without error; fresh draws
add an error, which is kept well below the tolerance and is independent of all earlier questions.
Estimators have no session state: they read a sketch and return the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING, Protocol

import numpy as np

from everhold.bounds.elementary import ln
from everhold.errors import QuestionError
from everhold.mechanism.basis import Basis
from everhold.mechanism.rules.rule import from_grid, to_grid
from everhold.mechanism.sketch import Draws, Masses, Sketch, basis_on, masses_on, unchanged
from everhold.queries.expression.question import Evaluated
from everhold.queries.grid import VALUE_ONE, GridValues
from everhold.queries.protocol import SketchValue
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everhold.mechanism.rules.rule import Constraint, Rule
    from everhold.queries.query import Query

__all__ = [
    "Draws",
    "Estimator",
    "FreshEstimator",
    "Look",
    "PoolEstimator",
    "PublicEstimate",
    "past_values",
    "prepared_on",
    "second_moment",
]

_MOMENT_ROWS = 2**14  # a second moment is foreseen from at least so many rows
_PROBES = 2048  # rows for the identity of a question, if every round draws new rows


@dataclass(frozen=True, slots=True, eq=False)
class PublicEstimate:
    """The sketch's answer to one question, with the question's values on the public rows used for it."""

    forecast: SketchValue
    values: GridValues


class Estimator(Protocol):
    """The public side of a mechanism."""

    @property
    def fresh(self) -> bool:
        """Whether every round draws new rows."""

    @property
    def draws(self) -> float:
        """The number of independent public draws; infinite where there are always more."""

    def start(self) -> Sketch:
        """The sketch before the first surprise."""

    def estimate(self, sketch: Sketch, query: Query, t: int, purpose: str) -> PublicEstimate:
        """The sketch's answer; `purpose` gives previews and answers different coins."""

    def look(self, sketch: Sketch, queries: Sequence[Query]) -> Look | None:
        """Several linear questions on the public rows at once; None if every round draws new rows."""

    def prior(self, query: Query) -> float:
        """The answer under the prior itself, before any surprise."""

    def prepare(self, query: Query) -> Query:
        """The question, evaluated once where public rows are fixed."""

    def identity(self, query: Query) -> str:
        """A digest of the question's values on fixed public rows."""

    def fit(
        self,
        sketch: Sketch,
        queries: Sequence[Query],
        values: Sequence[GridValues],
        constraints: Sequence[Constraint],
        t: int,
    ) -> tuple[int, ...]:
        """New coefficients on their grid, from one refit for all questions of a batch.

        `queries` and `values` are the new questions and their values; `constraints` are all constraints so far, those of the
        new questions last. There are 1 + len(constraints) coefficients.
        """

    def learn(self, sketch: Sketch, queries: Sequence[Query], values: Sequence[GridValues], fit: tuple[int, ...]) -> Sketch:
        """The sketch with these questions and these coefficients."""


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Several linear questions on fixed public rows, with the sketch there."""

    values: tuple[GridValues, ...]
    masses: Masses
    draws: float


def _estimate(values: GridValues, masses: Masses, draws: float) -> PublicEstimate:
    numerator = masses.dot(values)
    denominator = masses.per * VALUE_ONE
    clipped = max(-denominator, min(denominator, numerator))
    second = 0
    if values.scale == "mean":
        second = second_moment(values.array, masses.values, _nearest(clipped * VALUE_ONE, denominator), masses.per)
    return PublicEstimate(SketchValue(values.scale, clipped, denominator, draws, second), values)


def second_moment(steps: NDArray[np.float64], masses: NDArray[np.float64], centre: int, per: int) -> int:
    """Σ mass·(x - centre)² / per, rounded up to whole steps², the same on every machine; at least 0.

    Squares are rounded up to multiples of 2⁸, so that their sum with masses is exact: in float64 below 2²⁹ of mass, as
    64-bit whole numbers below 2³⁸.
    """
    if (every := len(steps) // _MOMENT_ROWS) > 1 and (whole := int(masses[::every].sum())) > 0:  # a forecast: a part will do
        steps, masses, per = steps[::every], masses[::every], whole
    off = steps - centre
    off *= off
    off *= 2.0**-8
    squares = np.ceil(off, out=off)
    if per < 2**29:
        total = int(np.einsum("i,i->", squares, masses))
    else:
        total = int(np.einsum("i,i->", squares.astype(np.int64), masses.astype(np.int64)))
    return max(-(-(total << 8) // per), 0)


def _nearest(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def _prior_mean(query: Query, draws: Draws) -> float:
    values = query.on_reference(draws.rows, draws.size)
    return float(draws.normal_weights().dot(_signed(values)))


def prepared_on(query: Query, draws: Draws) -> Query:
    """A question with its values on fixed public rows. Whatever is wrong with it is found here."""
    if isinstance(query, Evaluated):
        return query
    return Evaluated(query, query.on_reference(draws.rows, draws.size, verify=True).pack().unpack)


def past_values(query: Query, draws: Draws) -> GridValues:
    """Values of a past question on new rows; 0 if it fails on them, so that it cannot fail the current question."""
    try:
        return query.on_reference(draws.rows, draws.size)
    except QuestionError:
        return GridValues("mean", np.zeros(draws.size))


def _signed(values: GridValues) -> NDArray[np.float64]:
    """A question's values as numbers in [-1, 1]."""
    return np.where(values.array, 1.0, -1.0) if values.scale == "share" else values.array / VALUE_ONE


def _same_objects(first: Sequence[GridValues], second: Sequence[GridValues]) -> bool:
    """Whether these are the very same objects."""
    return len(first) == len(second) and all(a is b for a, b in zip(first, second, strict=True))


class PoolEstimator:
    """u over a fixed pool: exact, and one dot product per question."""

    fresh = False

    def __init__(self, draws: Draws, rule: Rule) -> None:
        self._draws = draws
        self._rule = rule
        self._ahead: tuple[tuple[GridValues, ...], Basis, NDArray[np.float64] | None] | None = (
            None  # passed from fit to learn, to save work
        )

    @property
    def draws(self) -> float:
        """The pool's, by its weights."""
        return self._draws.independent

    def start(self) -> Sketch:
        """The prior itself, as the rule starts."""
        fit = to_grid(np.array([self._rule.start()]))
        basis = Basis(self._draws.normal_weights())
        return Sketch(fit, (), basis, masses_on(self._rule, basis, from_grid(fit), self._draws))

    def estimate(self, sketch: Sketch, query: Query, t: int, purpose: str) -> PublicEstimate:
        """Evaluate the question on the pool."""
        values = query.on_reference(self._draws.rows, self._draws.size, verify=True)
        return _estimate(values, self._masses(sketch), self._draws.independent)

    def look(self, sketch: Sketch, queries: Sequence[Query]) -> Look:
        """Evaluate the questions on the pool."""
        values = tuple(query.on_reference(self._draws.rows, self._draws.size) for query in queries)
        return Look(values, self._masses(sketch), self._draws.independent)

    def prior(self, query: Query) -> float:
        """The weighted mean of the question over the pool."""
        return _prior_mean(query, self._draws)

    def prepare(self, query: Query) -> Query:
        """The question with its values on the pool."""
        return prepared_on(query, self._draws)

    def identity(self, query: Query) -> str:
        """The digest of the values on the pool."""
        return query.on_reference(self._draws.rows, self._draws.size).pack().digest

    def fit(
        self,
        sketch: Sketch,
        queries: Sequence[Query],
        values: Sequence[GridValues],
        constraints: Sequence[Constraint],
        t: int,
    ) -> tuple[int, ...]:
        """Fit on the pool."""
        basis = self._basis(sketch).with_more(values)
        mass = self._masses(sketch).ratio
        if sketch.moments is None:
            moments = basis.correlate(mass)
        else:
            moments = np.append(sketch.moments, basis.moments(mass, len(values)))
        theta, after = self._rule.fit(basis, constraints, sketch.theta, moments)
        self._ahead = tuple(values), basis, after
        return to_grid(theta)

    def learn(self, sketch: Sketch, queries: Sequence[Query], values: Sequence[GridValues], fit: tuple[int, ...]) -> Sketch:
        """Extend the basis and evaluate the new sketch once."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and _same_objects(ahead[0], values):
            basis, moments = ahead[1], ahead[2]
        else:
            basis, moments = self._basis(sketch).with_more(values), None
        return Sketch(fit, (), basis, masses_on(self._rule, basis, from_grid(fit), self._draws), moments)

    @staticmethod
    def _basis(sketch: Sketch) -> Basis:
        if sketch.basis is None:
            raise TypeError("this sketch was not made over a pool")
        return sketch.basis

    @staticmethod
    def _masses(sketch: Sketch) -> Masses:
        if sketch.masses is None:
            raise TypeError("this sketch was not made over a pool")
        return sketch.masses


class FreshEstimator:
    """u over new rows every round: an analyst who knows everything but the seed cannot overfit them.

    The number of rows doubles until the estimate's empirical-Bernstein error (Maurer and Pontil 2009) is below `accuracy`,
    or reaches `most`. Coins are keyed by the seed, the purpose and the round.

    Args:
        draw: draws public rows from the prior: `draw(rng, size)`.
        rule: how a surprise updates the sketch.
        seed: the seed of the coins.
        accuracy: the target error, on the [-1, 1] scale.
        failure_probability: the probability that one round's estimate is off by more than `accuracy`.
        fit_rows: the number of rows for a refit.
    """

    fresh = True
    draws = inf

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

    def start(self) -> Sketch:
        """The prior itself, as the rule starts."""
        return Sketch(to_grid(np.array([self._rule.start()])))

    def estimate(self, sketch: Sketch, query: Query, t: int, purpose: str) -> PublicEstimate:
        """Draw and evaluate, doubling the rows until the error is small enough; this depends on public coins only."""
        if not query.repeatable:
            raise QuestionError(
                "the prior draws fresh rows every round, but eh.Values(...) has values on fixed rows only. Expected a "
                "callable that can be evaluated on new rows, or a prior with a pool (size=...)."
            )
        size = self._first
        while True:
            draws = self._draw(stream_rng(self._seed, purpose, t, size), size)
            values = query.on_reference(draws.rows, draws.size, verify=size == self._first)
            masses = self._evaluate(sketch, draws)
            if size >= self._most or self._error(values, masses, draws) <= self._accuracy:
                return _estimate(values, masses, draws.independent)
            size *= 2

    def look(self, sketch: Sketch, queries: Sequence[Query]) -> None:
        """None: every round has rows of its own."""

    def prior(self, query: Query) -> float:
        """The weighted mean of the question over rows drawn for this purpose."""
        return _prior_mean(query, self._draw(stream_rng(self._seed, "prior"), self._fit_rows))

    def prepare(self, query: Query) -> Query:
        """The question as it is: every round has rows of its own."""
        return query

    def identity(self, query: Query) -> str:
        """The digest of the values on rows drawn only for this purpose."""
        draws = self._draw(stream_rng(self._seed, "probe"), _PROBES)
        return query.on_reference(draws.rows, draws.size).pack().digest

    def fit(
        self,
        sketch: Sketch,
        queries: Sequence[Query],
        values: Sequence[GridValues],
        constraints: Sequence[Constraint],
        t: int,
    ) -> tuple[int, ...]:
        """Fit on rows drawn only for this refit."""
        draws = self._draw(stream_rng(self._seed, "fit", t), self._fit_rows)
        basis = self._basis([*sketch.queries, *queries], draws)
        mass = self._evaluate(sketch, draws).ratio
        theta, _ = self._rule.fit(basis, constraints, sketch.theta, basis.correlate(mass))
        return to_grid(theta)

    def learn(self, sketch: Sketch, queries: Sequence[Query], values: Sequence[GridValues], fit: tuple[int, ...]) -> Sketch:
        """Add the questions to the sketch, to be evaluated on the rows of every later round."""
        learnt = Sketch(fit, (*sketch.queries, *queries))
        if fit != unchanged(sketch, len(queries)):  # raises for what cannot be evaluated, while the old one is in use
            self._evaluate(learnt, self._draw(stream_rng(self._seed, "probe"), _PROBES))
        return learnt

    def _evaluate(self, sketch: Sketch, draws: Draws) -> Masses:
        return masses_on(self._rule, self._basis(sketch.queries, draws), sketch.theta, draws)

    @staticmethod
    def _basis(queries: Sequence[Query], draws: Draws) -> Basis:
        return basis_on([past_values(past, draws) for past in queries], draws)

    def _error(self, values: GridValues, masses: Masses, draws: Draws) -> float:
        """Empirical Bernstein: sqrt(2 V ln(2/δ)/m) + 7 R ln(2/δ)/(3 (m-1)), over the independent draws."""
        terms = _signed(values) * masses.values * (draws.size / masses.per)
        m = int(draws.independent)
        if draws.size > m:  # every draw occurs once for each label: sum over the labels first
            terms = terms.reshape(-1, m).mean(axis=0)
        # Moments in whole numbers, so that every machine stops at the same draw.
        whole = np.rint(np.clip(terms, -4096.0, 4096.0) * 256.0).astype(np.int64)
        first, second = int(whole.sum()), int((whole * whole).sum())
        variance = (second - first * first / m) / (m - 1) / 65536.0
        spread = float(np.abs(terms).max())
        return sqrt(2.0 * max(variance, 0.0) * self._nats / m) + 14.0 * spread * self._nats / (3.0 * (m - 1))
