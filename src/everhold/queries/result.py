"""Results as JSON, exact in both directions: Python writes floats so that they read back equal, to the bit.

JSON has no NaN and no infinity. A missing estimate is null, and so is an open end of an interval: below where it is `low`,
above where it is `high`.
"""

from __future__ import annotations

import json
from html import escape
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    from everhold.queries.interval import Interval

__all__ = ["JsonResult", "ends_from", "interval_html", "number_or_null"]


class JsonResult:
    """`to_json` and `from_json`, for a class with `to_dict` and `from_dict`."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Self:
        """The same again, equal to the bit."""
        raise NotImplementedError

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """From JSON text, equal to the bit."""
        return cls.from_dict(json.loads(text))


def number_or_null(value: float) -> float | None:
    """A number, or null for what JSON cannot write.

    >>> number_or_null(0.1), number_or_null(float("nan"))
    (0.1, None)
    """
    return value if isfinite(value) else None


def ends_from(given: dict[str, Any]) -> tuple[float, float, float]:
    """Value, low and high again.

    >>> ends_from({"value": None, "low": None, "high": 1.0})
    (nan, -inf, 1.0)
    """
    missing = (("value", nan), ("low", -inf), ("high", inf))
    value, low, high = (float(other if given[name] is None else given[name]) for name, other in missing)
    return value, low, high


def interval_html(
    label: str, value: float, interval: Interval, *, bottom: float, top: float, surprise: bool, notes: str
) -> str:
    """A value with its interval as a line of text and a small picture, for notebooks."""

    def at(x: float) -> float:
        return 2.0 + 200.0 * (min(max(x, bottom), top) - bottom) / (top - bottom)

    colour = "#c2410c" if surprise else "#1d4ed8"
    return (
        f"<div style='font-family:sans-serif'>{escape(label)}<b>{value:.4g}</b> in {interval}"
        f"{' &middot; surprise' if surprise else ''} &middot; {escape(notes)}<br>"
        "<svg width='204' height='16' role='img' aria-label='interval'>"
        "<line x1='2' x2='202' y1='8' y2='8' stroke='#999'/>"
        f"<line x1='{at(interval.low):.1f}' x2='{at(interval.high):.1f}' y1='8' y2='8' stroke='{colour}' "
        f"stroke-width='5'/><circle cx='{at(value):.1f}' cy='8' r='4' fill='{colour}'/></svg></div>"
    )
