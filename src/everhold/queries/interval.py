"""An interval of population values."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from everhold.errors import SettingError

__all__ = ["Interval"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval; `x in interval` works.

    >>> interval = Interval(0.25, 0.5)
    >>> 0.3 in interval, 0.6 in interval, interval.half_width
    (True, False, 0.125)
    >>> interval
    [0.25, 0.5]
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise SettingError(f"an interval needs low ≤ high, not low={self.low!r} and high={self.high!r}")

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float):
            try:
                value = float(value)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                return False
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low

    @property
    def half_width(self) -> float:
        """Half of the length."""
        return 0.5 * (self.high - self.low)

    def overlaps(self, other: Interval) -> bool:
        """Whether the two intervals have a point in common."""
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        # Rounded outwards: what is printed holds whenever the interval does.
        low, high = floor(self.low * 1e4) / 1e4, ceil(self.high * 1e4) / 1e4
        return f"[{low:.4g}, {high:.4g}]"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<span style='font-variant-numeric:tabular-nums'>{self}</span>"
