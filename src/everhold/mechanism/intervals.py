"""The interval of an answer whose distance from the private mean is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.bounds.concentration import kl_interval, known_rows_range
from everhold.mechanism.measures.measure import QUANTUM

if TYPE_CHECKING:
    from everhold.queries.grid import Scale

__all__ = ["interval_ends"]


def interval_ends(
    centre: float, slack: float, *, nats: float, rows: int, known_rows: int, scale: Scale
) -> tuple[float, float]:
    """The interval for the population value by Chernoff's bound, given that the private mean is within `slack` of `centre`.

    `x∓ = clip((1 + a ∓ s)/2, 0, 1)`, widened for rows that the analyst knows, then by the kl radius C/n, rounded outwards;
    for numbers also by the rounding error of the grid. On the scale of the answer.
    """
    low = min(max(0.5 * (1.0 + (centre - slack)), 0.0), 1.0)
    high = min(max(0.5 * (1.0 + (centre + slack)), 0.0), 1.0)
    low, high, left = known_rows_range(low, high, rows, known_rows)
    low, high = kl_interval(low, high, nats / left)
    if scale == "share":
        return low, high
    return max(2.0 * (low - QUANTUM) - 1.0, -1.0), min(2.0 * (high + QUANTUM) - 1.0, 1.0)
