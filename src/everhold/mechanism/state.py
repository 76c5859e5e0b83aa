"""Everything that a round of everhold's mechanism changes, in one value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget
    from everhold.mechanism.measures.measure import Precision
    from everhold.mechanism.rules.rule import Constraint
    from everhold.mechanism.sketch import Sketch
    from everhold.queries.grid import GridValues
    from everhold.queries.query import Query

__all__ = ["Batch", "ForecastErrors", "Lessons", "State"]

_LARGEST_SQUARE = 400.0  # of one forecast's error: 20 foreseen standard deviations


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Readings that share a price and all else: they were fixed before the first was read."""

    price: float
    left: int
    precision: Precision
    misfit: float


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """Questions that the sketch is to learn at the end of their act."""

    queries: tuple[Query, ...] = ()
    values: tuple[GridValues, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    def most_telling(self, most: int) -> Lessons:
        """At most so many of them, those whose forecasts were farthest off: a refit takes time with each."""
        if len(self.queries) <= most:
            return self
        distances = [abs(constraint.target - constraint.sketch) / constraint.slack for constraint in self.constraints]
        farthest = sorted(sorted(range(len(distances)), key=lambda index: (-distances[index], index))[:most])
        queries, values, constraints = (
            tuple(items[index] for index in farthest) for items in (self.queries, self.values, self.constraints)
        )
        return Lessons(queries, values, constraints)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ForecastErrors:
    """How far off forecasts have been, in foreseen standard deviations, as far as that was disclosed."""

    count: int = 0
    squares: float = 0.0

    def after(self, deviation: float | None) -> ForecastErrors:
        """With one more; None where nothing was disclosed of it."""
        if deviation is None:
            return self
        return ForecastErrors(self.count + 1, self.squares + min(deviation * deviation, _LARGEST_SQUARE))

    @property
    def misfit(self) -> float:
        """Their root mean square, shrunk towards 1, and at least that."""
        return max(sqrt((2.0 + self.squares) / (2.0 + self.count)), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Everything that a round changes, in one value, so that a round ends with one assignment."""

    sketch: Sketch
    budget: Budget
    round: int = 0
    constraints: tuple[Constraint, ...] = ()
    batch: Batch | None = None
    taught: Lessons = field(default_factory=Lessons)
    closed: bool = False
    forecast_errors: ForecastErrors = field(default_factory=ForecastErrors)

    @property
    def misfit(self) -> float:
        """How far off forecasts have been; in a batch, before the first of its readings."""
        return self.forecast_errors.misfit if self.batch is None else self.batch.misfit

    def after_quiet(self, asks: int) -> State:
        """The state after quiet asks: only the clock and the budget change."""
        return replace(self, budget=self.budget.quiet(asks), round=self.round + asks)
