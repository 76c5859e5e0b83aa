"""An interval of population values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, isfinite, log10

from everhold.errors import SettingError

__all__ = ["Interval"]


def _shown(value: float, decimals: int, to: Callable[[Fraction], int]) -> str:
    """The decimal form of a number, rounded down or up to `decimals` digits, without trailing zeros."""
    if not isfinite(value):
        return str(value)
    scale = Fraction(10) ** decimals
    whole = to(Fraction(repr(float(value))) * scale)
    if decimals <= 0:
        return f"{whole * 10**-decimals:,}"
    text = f"{whole // 10**decimals:,}" if whole >= 0 else f"-{-whole // 10**decimals:,}"
    rest = f"{abs(whole) % 10**decimals:0{decimals}d}".rstrip("0")
    return f"{text}.{rest}" if rest else text


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
            raise SettingError(f"an interval needs low ≤ high, not low={self.low!r} and high={self.high!r}.")

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

    @property
    def decimals(self) -> int:
        """Digits to print after the decimal point, for three digits of the width; negative for tens, hundreds …."""
        return 4 if self.width == 0.0 or not isfinite(self.width) else min(max(2 - floor(log10(self.width)), -15), 15)

    def __str__(self) -> str:
        # Rounded outwards, so that the printed interval contains the exact one.
        return f"[{_shown(self.low, self.decimals, floor)}, {_shown(self.high, self.decimals, ceil)}]"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<span style='font-variant-numeric:tabular-nums'>{self}</span>"
