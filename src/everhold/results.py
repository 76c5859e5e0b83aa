"""Results as JSON and as tables.

JSON is exact in both directions: Python writes floats so that they read back equal, to the bit. JSON has no NaN and no
infinity. A missing estimate is null, and so is an open end of an interval: below where it is `low`, above where it is
`high`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from html import escape
from importlib import import_module
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any, Protocol

from everhold.errors import MissingExtra

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "Estimate",
    "JsonResult",
    "PlainResult",
    "Tabular",
    "as_frame",
    "as_moment",
    "axis_around",
    "counted",
    "ends_from",
    "html_table",
    "interval_bar",
    "interval_html",
    "moment_text",
    "number_or_null",
]


def as_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """A table with these rows: of pandas or Polars, whichever is there; of the one that is in use already where both are."""
    named = list(dict.fromkeys(name for row in rows for name in row)) if columns is None else columns
    values = {column: [row.get(column) for row in rows] for column in named}
    for make in sorted((_pandas, _polars), key=lambda one: one.__name__[1:] not in sys.modules):
        try:
            return make(values)
        except ImportError:
            continue
    raise MissingExtra("to_frame", "frames")


def _pandas(values: dict[str, list[Any]]) -> Any:
    import pandas as pd

    return pd.DataFrame(values)


def _polars(values: dict[str, list[Any]]) -> Any:
    return import_module("polars").DataFrame(values)  # people who use it have it: no extra installs it


class Tabular:
    """`to_frame`, for a class with `to_rows`."""

    __slots__ = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """The lines of the table that `to_frame` makes."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """As a table of pandas or Polars, whichever is installed (`pip install everhold[frames]` installs pandas)."""
        return as_frame(self.to_rows())


class JsonResult(Tabular):
    """`to_json`, `from_json` and `to_frame`, for a class with `to_dict` and `from_dict`."""

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

    def to_rows(self) -> list[dict[str, Any]]:
        """One line: everything that is a single value."""
        return [{name: value for name, value in self.to_dict().items() if not isinstance(value, list | dict)}]

    def _repr_html_(self) -> str:
        return f"<span style='font-variant-numeric:tabular-nums'>{escape(str(self))}</span>"


class PlainResult(Tabular):
    """`to_dict`, `to_json` and `to_frame` of a frozen dataclass that is only written, not read back."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; what is infinite is null."""
        found: dict[str, Any] = _plain(self)
        return found

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def to_rows(self) -> list[dict[str, Any]]:
        """One line: everything that is a single value."""
        return [{name: value for name, value in self.to_dict().items() if not isinstance(value, list | dict)}]

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, float):
        return number_or_null(value)
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


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


def as_moment(micros: float) -> datetime | None:
    """Microseconds since 1970 as a moment; None of what is not finite, or no date.

    >>> as_moment(1_700_000_000_000_000.0).isoformat()
    '2023-11-14T22:13:20'
    """
    try:
        return datetime(1970, 1, 1) + timedelta(microseconds=round(micros))
    except (OverflowError, ValueError):
        return None


def moment_text(micros: float) -> str:
    """The same as text, to the day."""
    moment = as_moment(micros)
    return "" if moment is None else moment.date().isoformat()


def axis_around(intervals: Sequence[tuple[float, float]], bottom: float = -inf, top: float = inf) -> tuple[float, float]:
    """The ends of an axis that shows these intervals well: they take three fifths of it, within the ends of the scale.

    >>> [round(end, 3) for end in axis_around([(0.4, 0.46), (0.43, 0.49)], 0.0, 1.0)]
    [0.37, 0.52]
    """
    low = min((one for one, _ in intervals if isfinite(one)), default=0.0)
    high = max((one for _, one in intervals if isfinite(one)), default=1.0)
    room = (high - low) / 3.0 or abs(high) / 10.0 or 0.5
    return max(low - room, bottom), min(high + room, top)


def interval_bar(value: float, low: float, high: float, left: float, right: float, colour: str = "#1d4ed8") -> str:
    """An interval on an axis from left to right, with a dot at the value, as SVG for a notebook."""

    def at(x: float) -> float:
        return 4.0 + 192.0 * (min(max(x, left), right) - left) / ((right - left) or 1.0)

    dot = f"<circle cx='{at(value):.1f}' cy='8' r='4' fill='{colour}'/>" if value == value else ""
    return (
        f"<svg width='200' height='16' role='img' aria-label='interval from {low:.4g} to {high:.4g}'>"
        "<line x1='4' x2='196' y1='8' y2='8' stroke='#999'/>"
        f"<line x1='{at(low):.1f}' x2='{at(high):.1f}' y1='8' y2='8' stroke='{colour}' stroke-width='5'/>{dot}</svg>"
    )


class Estimate(Protocol):
    """A value with its interval."""

    @property
    def value(self) -> float:
        """The estimate; NaN where there is none."""

    @property
    def low(self) -> float:
        """The lower end."""

    @property
    def high(self) -> float:
        """The upper end."""

    @property
    def surprise(self) -> bool:
        """Whether the private rows surprised."""


def interval_html(said: str, found: Estimate, bottom: float, top: float, notes: str) -> str:
    """A value with its interval, for notebooks: words, an axis around the interval, and where that lies on the scale.

    Args:
        said: value and interval in words, as HTML.
        found: value and interval.
        bottom, top: the ends of the scale; infinite where there are none.
        notes: what else there is to say.
    """
    left, right = axis_around([(found.low, found.high)], bottom, top)
    bar = interval_bar(found.value, found.low, found.high, left, right, "#c2410c" if found.surprise else "#1d4ed8")
    lines = [f"{said} &middot; {escape(notes)}", f"<small>{left:.4g}</small> {bar} <small>{right:.4g}</small>"]
    if isfinite(bottom) and isfinite(top) and (left, right) != (bottom, top):
        first, last = (4.0 + 192.0 * (x - bottom) / (top - bottom) for x in (left, right))
        lines.append(
            f"<small>{bottom:g}</small> <svg width='200' height='8' role='img' aria-label='where that axis lies'>"
            f"<line x1='4' x2='196' y1='4' y2='4' stroke='#ccc'/><line x1='{first:.1f}' x2='{max(last, first + 1.0):.1f}' "
            f"y1='4' y2='4' stroke='#666' stroke-width='3'/></svg> <small>{top:g}</small>"
        )
    return f"<div style='font-family:sans-serif;font-variant-numeric:tabular-nums'>{'<br>'.join(lines)}</div>"


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table for notebooks; the cells are HTML."""
    top = "".join(f"<th style='text-align:left'>{escape(one)}</th>" for one in head)
    body = "".join("<tr>" + "".join(f"<td style='text-align:left'>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    title = f"<caption style='text-align:left'>{escape(caption)}</caption>" if caption else ""
    return (
        f"<table style='font-variant-numeric:tabular-nums'>{title}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    )


def counted(number: int, what: str) -> str:
    """A number of things, in words.

    >>> counted(1, "check"), counted(2_000, "check")
    ('1 check', '2,000 checks')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
