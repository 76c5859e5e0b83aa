"""What the sketch foresees of a question of groups, pairs or spreads, from its linear parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from everhold.mechanism.estimator import second_moment
from everhold.mechanism.measures.measure import position_of
from everhold.mechanism.measures.spreads import combined
from everhold.queries.expression.composites import GroupDifference, GroupMean, GroupShare, PairedShares, SpreadOf
from everhold.queries.grid import STEPS, VALUE_ONE, GridValues
from everhold.queries.protocol import SketchValue

if TYPE_CHECKING:
    from everhold.mechanism.estimator import Look
    from everhold.queries.expression.composites import Composite
    from everhold.queries.grid import Scale

__all__ = ["composite_forecast", "group_means", "paired_shares", "side_forecast"]

_LEAST_GROUP = 2.0**-20


def composite_forecast(values: Sequence[GridValues], look: Look, query: Composite) -> SketchValue:
    """What the sketch foresees: the value, the size of the group and its second moment."""
    if isinstance(query, PairedShares):
        up, down = (_steps_of(value, look) for value in values)
        per = look.masses.per * STEPS
        return SketchValue("mean", min(max(up - down, -per), per), per, look.draws)
    if isinstance(query, SpreadOf):
        means = group_means(values, look)
        positions = [(float(position_of(mean)),) * 3 for mean in means]
        value = Fraction(combined(query, positions)[0]) * 2 - 1
        return SketchValue("mean", value.numerator, value.denominator, means[0].draws, 0, means[0].group)
    if isinstance(query, GroupDifference):
        first, second = (side_forecast(values[i : i + 2], look, query.low is not None) for i in (0, 2))
        d = Fraction(first.numerator, 2 * first.denominator) - Fraction(second.numerator, 2 * second.denominator)
        return SketchValue("mean", d.numerator, d.denominator, min(first.draws, second.draws))
    return replace(side_forecast(values, look, isinstance(query, GroupMean)), scale=_scale(query))


def group_means(values: Sequence[GridValues], look: Look) -> tuple[SketchValue, ...]:
    """Every mean of a variance or correlation, over the rows of its group."""
    down, first, *rest = values
    means = [side_forecast((first, down), look, True)]
    member = first.array + down.array + STEPS == STEPS
    count = np.where(member, float(VALUE_ONE), -float(VALUE_ONE))
    for number in rest:
        complement = GridValues("mean", np.where(member, -number.array, count))
        means.append(side_forecast((number, complement), look, True))
    return tuple(means)


def _steps_of(values: GridValues, look: Look) -> int:
    """Σ mass · steps, at least 0."""
    masses = look.masses
    return max(masses.dot(values) + VALUE_ONE * masses.whole, 0)


def paired_shares(look: Look) -> tuple[float, float]:
    """The two shares that a paired question compares."""
    first, second = (_steps_of(values, look) / (look.masses.per * STEPS) for values in look.values)
    return min(first, 1.0), min(second, 1.0)


def side_forecast(values: Sequence[GridValues], look: Look, number: bool) -> SketchValue:
    """The mean of one group by its two questions."""
    masses = look.masses
    up, down = (_steps_of(value, look) for value in values)
    group = min(max((up + down) / (masses.per * STEPS), 1.0 / look.draws, _LEAST_GROUP), 1.0)
    draws = max(look.draws * group, 1.0)
    if up + down == 0:
        return SketchValue("mean", 0, 1, draws, VALUE_ONE * VALUE_ONE, group)
    second = 0
    if number:
        steps = values[0].array + VALUE_ONE
        member = steps + values[1].array + VALUE_ONE == STEPS
        centre = (2 * up * STEPS + (up + down)) // (2 * (up + down))
        second = second_moment(steps[member], masses.values[member], centre, max((up + down) // STEPS, 1))
    return SketchValue("mean", up - down, up + down, draws, second, group)


def _scale(query: Composite) -> Scale:
    return "share" if isinstance(query, GroupShare) else "mean"
