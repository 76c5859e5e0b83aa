"""Readings of a group of which the public side has almost no rows, so that nobody can foresee how many private rows it has.

First it is disclosed between which powers of two their number lies. Then the group is measured as if that had been foreseen.
So a new city, or the dates of this year, are read as finely as any other group, and a group without rows costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Protocol

from everhold.bounds.code import ANSWERED_NATS
from everhold.bounds.elementary import ln
from everhold.mechanism.measures.measure import Measure, cell_and_step
from everhold.queries.protocol import NOTHING, QUIET

if TYPE_CHECKING:
    from fractions import Fraction

    from everhold.mechanism.measures.measure import Lesson
    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome
    from everhold.queries.query import Query

__all__ = ["GroupMeasure", "UnforeseenCells", "WithoutForecast"]

_PLACES = 64
"""A step carries the place of the size too: step · 64 + place."""

_LN2 = ln(2.0)


class GroupMeasure(Measure, Protocol):
    """A measure of a group, which can count its rows."""

    def rows_of(self, sums: Sequence[Sums]) -> int:
        """The private rows of the group that count."""


@dataclass(frozen=True, slots=True, eq=False)
class UnforeseenCells:
    """A group's share or mean, after the power of two below the number of its rows.

    The code: 63/64, because the act may be interrupted; 1/2 for a group without rows; else 1/2, each size alike, and the
    code of the measure made for that size.

    Attributes:
        rows: n, the private rows that the analyst does not know.
        made_for: the measure, for a group foreseen to have so many rows.
    """

    rows: int
    made_for: Callable[[float], GroupMeasure]
    _made: dict[int, GroupMeasure] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """Exponents of two, the likeliest first: a preview shows what the first would give."""
        most = max(self.rows, 1).bit_length()
        start = max(most - 4, 0)
        return sorted(range(most), key=lambda exponent: (abs(exponent - start), exponent))

    @property
    def _first(self) -> GroupMeasure:
        return self._of(0)

    def _of(self, place: int) -> GroupMeasure:
        if place not in self._made:
            self._made[place] = self.made_for(1.5 * 2.0 ** self.sizes[place])
        return self._made[place]

    @property
    def needs(self) -> tuple[Query, ...]:
        """The counts, whatever the size."""
        return self._first.needs

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """The size, then the outcome of its measure."""
        count = self._first.rows_of(sums)
        if count == 0:
            return NOTHING
        exponent = min(count.bit_length() - 1, len(self.sizes) - 1)
        place = self.sizes.index(exponent)
        cell, step = cell_and_step(self._of(place).decide(sums))
        return cell, step * _PLACES + place

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private value."""
        return self._first.value(sums)

    def _inner(self, outcome: Outcome) -> tuple[GroupMeasure, tuple[int, int]]:
        cell, both = cell_and_step(outcome)
        step, place = divmod(both, _PLACES)
        return self._of(place), (cell, step)

    def deviation(self, outcome: Outcome) -> float | None:
        """None: a guess that was no forecast says nothing of how good forecasts are."""
        return None

    def charge(self, outcome: Outcome) -> float:
        """A bit for whether there are rows, the size, the cell and the step."""
        if outcome == NOTHING:
            return ANSWERED_NATS + _LN2
        measure, inner = self._inner(outcome)
        return _LN2 + ln(float(len(self.sizes))) + measure.charge(inner)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """As the measure of that size has them."""
        if outcome == NOTHING:
            return self._first.ends(outcome)
        measure, inner = self._inner(outcome)
        return measure.ends(inner)

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """None: the sketch has no rows there to weigh."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class WithoutForecast:
    """Such a group, measured as if it were expected to be as everybody is. That is no estimate of it.

    So a quiet answer has no value, and nothing is learned: not of everybody, and not of how good forecasts are.

    Attributes:
        measure: made for that expectation.
        asked: whether it is an ask.
    """

    measure: Measure
    asked: bool

    @property
    def needs(self) -> tuple[Query, ...]:
        """The measure's."""
        return self.measure.needs

    def decide(self, sums: Sequence[Sums]) -> Outcome:
        """As the measure does; but an ask that allows the whole range is quiet, also if nobody is in the group."""
        return QUIET if self.asked and self.measure.ends(QUIET)[1:] == (0.0, 1.0) else self.measure.decide(sums)

    def value(self, sums: Sequence[Sums]) -> Fraction | None:
        """The private value."""
        return self.measure.value(sums)

    def deviation(self, outcome: Outcome) -> float | None:
        """None: a guess that was no forecast says nothing of how good forecasts are."""
        return None

    def charge(self, outcome: Outcome) -> float:
        """The measure's."""
        return self.measure.charge(outcome)

    def ends(self, outcome: Outcome) -> tuple[float, float, float]:
        """The measure's, without a value where nothing was measured."""
        value, low, high = self.measure.ends(outcome)
        return inf if outcome is QUIET else value, low, high

    def lesson(self, outcome: Outcome) -> Lesson | None:
        """None: the sketch has no rows there to weigh."""
        return None
