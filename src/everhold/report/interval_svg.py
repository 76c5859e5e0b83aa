"""Pictures of an interval on its scale. The page around them sets the colours."""

from __future__ import annotations

from html import escape
from math import ceil, floor, isfinite, log10

from everhold.queries.interval import Interval
from everhold.results import axis_around

__all__ = ["axis_svg", "interval_svg", "nice_ticks"]

_FEWEST = 3  # ticks of an axis


def nice_ticks(left: float, right: float) -> list[str]:
    """Round numbers within an axis, evenly spaced, as text: steps of 1, 2 or 5 times a power of ten.

    >>> nice_ticks(5.91, 18.3)
    ['6', '8', '10', '12', '14', '16', '18']
    >>> nice_ticks(27.04, 27.11)
    ['27.04', '27.06', '27.08', '27.1']
    >>> nice_ticks(-1200.0, 900.0)
    ['-1,000', '-500', '0', '500']
    """
    span = right - left
    if not (isfinite(span) and span > 0.0):
        return []
    power = floor(log10(span))
    for exponent, digit in ((power, 5), (power, 2), (power, 1), (power - 1, 5), (power - 1, 2)):
        step = digit * 10.0**exponent
        first, last = ceil(left / step - 1e-9), floor(right / step + 1e-9)
        if last - first + 1 >= _FEWEST:
            digits = max(0, -exponent)
            shown = (f"{number * step + 0.0:,.{digits}f}" for number in range(first, last + 1))
            return [text.rstrip("0").rstrip(".") if "." in text else text for text in shown]
    return []


def interval_svg(value: float, low: float, high: float, *, bottom: float, top: float, wide: float = 220.0) -> str:
    """A line from bottom to top with the interval on it and a dot at the value, for a row of a table.

    >>> '<circle class="dot" cx="110.0"' in interval_svg(0.5, 0.4, 0.6, bottom=0.0, top=1.0)
    True
    """
    label = f"{_seen(value)}, interval {Interval(low, high)}, on a scale from {bottom:g} to {top:g}"
    drawn = _drawn(value, low, high, bottom, top, wide)
    return _picture(wide, 16, label, drawn)


def axis_svg(
    value: float,
    low: float,
    high: float,
    *,
    bottom: float | None = None,
    top: float | None = None,
    unit: str = "",
    zero: bool = False,
    wide: float = 440.0,
) -> str:
    """An interval on an axis around it, with round numbers below; and where that axis lies on the whole scale.

    Args:
        value, low, high: what is drawn; the value may be NaN.
        bottom, top: the ends of the whole scale, where it has ends.
        unit: after each number, such as " %".
        zero: whether the axis reaches to zero, which is marked: for differences.

    >>> drawn = axis_svg(12.0, 9.0, 15.2, bottom=0.0, top=100.0, unit=" %")
    >>> "on an axis from 6.93 % to 17.3 %" in drawn, "whole scale, from 0 % to 100 %" in drawn
    (True, True)
    """
    ends = (-float("inf") if bottom is None else bottom, float("inf") if top is None else top)
    left, right = axis_around([(low, high)], *ends)
    if zero:
        room = 0.1 * (right - left)
        left, right = min(left, -room), max(right, room)
        left, right = max(left, ends[0]), min(right, ends[1])
    label = f"{_seen(value)}{unit}, interval {Interval(low, high)}{unit}, "
    label += f"on an axis from {left:.3g}{unit} to {right:.3g}{unit}"

    def at(x: float) -> float:
        return 6.0 + (wide - 12.0) * (x - left) / ((right - left) or 1.0)

    parts = []
    if zero and left < 0.0 < right:
        parts.append(f'<line class="zero" x1="{at(0.0):.1f}" x2="{at(0.0):.1f}" y1="0" y2="16"/>')
    parts.append(_drawn(value, low, high, left, right, wide))
    for text in nice_ticks(left, right):
        x = at(float(text.replace(",", "")))
        anchor = "start" if x < 30.0 else "end" if x > wide - 30.0 else "middle"
        x = max(x, 6.0) if anchor == "start" else min(x, wide - 6.0) if anchor == "end" else x
        mark = f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="8" y2="16"/>'
        parts.append(f'{mark}<text class="tick" x="{x:.1f}" y="32" text-anchor="{anchor}">{text}{escape(unit)}</text>')
    tall = 38
    if bottom is not None and top is not None and isfinite(top - bottom) and (left, right) != (bottom, top):
        first, last = (6.0 + (wide - 12.0) * (x - bottom) / ((top - bottom) or 1.0) for x in (left, right))
        tall = 68
        label += f"; below, where that axis lies on the whole scale, from {bottom:,.6g}{unit} to {top:,.6g}{unit}"
        parts.append(
            f'<g class="whole"><line class="axis" x1="6" x2="{wide - 6:g}" y1="46" y2="46"/>'
            f'<line class="part-of-scale" x1="{first:.1f}" x2="{max(last, first + 2.0):.1f}" y1="46" y2="46" '
            f'stroke-width="5"/>'
            f'<text class="tick" x="6" y="63">{bottom:,.6g}{escape(unit)}</text>'
            f'<text class="tick" x="{wide - 6:g}" y="63" text-anchor="end">{top:,.6g}{escape(unit)}</text></g>'
        )
    return _picture(wide, tall, label, "".join(parts))


def _seen(value: float) -> str:
    return f"{value:.4g}" if value == value else "no estimate"


def _picture(wide: float, tall: float, label: str, drawn: str) -> str:
    return (
        f'<svg class="interval" viewBox="0 0 {wide:g} {tall:g}" width="{wide:g}" height="{tall:g}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{drawn}</svg>'
    )


def _drawn(value: float, low: float, high: float, left: float, right: float, wide: float) -> str:
    span = (right - left) or 1.0

    def at(x: float) -> float:
        return 6.0 + (wide - 12.0) * (min(max(x, left), right) - left) / span

    drawn = (
        f'<line class="axis" x1="6" x2="{wide - 6:g}" y1="8" y2="8"/>'
        f'<line class="bar" x1="{at(low):.1f}" x2="{at(high):.1f}" y1="8" y2="8" stroke-width="5"/>'
    )
    # NaN: only the interval, without an estimate
    return drawn + (f'<circle class="dot" cx="{at(value):.1f}" cy="8" r="4.5"/>' if value == value else "")
