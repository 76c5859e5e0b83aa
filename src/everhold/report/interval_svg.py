"""A picture of an interval on its scale. The page around it sets the colours."""

from __future__ import annotations

from html import escape

from everhold.queries.interval import Interval

__all__ = ["interval_svg"]


def interval_svg(
    value: float, low: float, high: float, *, bottom: float, top: float, wide: float = 220.0, ticks: int = 0
) -> str:
    """A line from bottom to top with the interval on it and a dot at the value; `ticks` adds numbers below it.

    >>> '<circle class="dot" cx="110.0"' in interval_svg(0.5, 0.4, 0.6, bottom=0.0, top=1.0)
    True
    """
    span = (top - bottom) or 1.0

    def at(x: float) -> float:
        return 6.0 + (wide - 12.0) * (min(max(x, bottom), top) - bottom) / span

    seen = f"{value:.4g}" if value == value else "no estimate"
    said = escape(f"{seen}, interval {Interval(low, high)}, on a scale from {bottom:g} to {top:g}", quote=True)
    high_px = 38 if ticks else 16
    parts = [
        f'<svg class="interval" viewBox="0 0 {wide:g} {high_px}" width="{wide:g}" height="{high_px}" role="img" '
        f'aria-label="{said}"><line class="axis" x1="6" x2="{wide - 6:g}" y1="8" y2="8"/>'
        f'<line class="bar" x1="{at(low):.1f}" x2="{at(high):.1f}" y1="8" y2="8" stroke-width="5"/>'
    ]
    if value == value:  # NaN: only the interval, without an estimate
        parts.append(f'<circle class="dot" cx="{at(value):.1f}" cy="8" r="4.5"/>')
    for index in range(ticks):
        x = bottom + span * index / (ticks - 1)
        anchor = "start" if index == 0 else "end" if index == ticks - 1 else "middle"
        parts.append(
            f'<line class="axis" x1="{at(x):.1f}" x2="{at(x):.1f}" y1="8" y2="16"/>'
            f'<text class="tick" x="{at(x):.1f}" y="32" text-anchor="{anchor}">{x:g}</text>'
        )
    return "".join([*parts, "</svg>"])
