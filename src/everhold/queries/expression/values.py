"""Convert one value of any Python type to a number, a boolean, a date or a text, as if it were read from a file.

Each value is converted on its own, regardless of other rows: one odd value changes one row and no other.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.queries.expression.tree import Kind

__all__ = [
    "FIRST_MICROS",
    "LARGEST",
    "LAST_MICROS",
    "LONGEST_TEXT",
    "MOMENT",
    "NO",
    "NUMBER",
    "OFFSET",
    "READ",
    "SMALLEST",
    "YES",
    "date_of",
    "is_nothing",
    "iso",
    "number_of",
    "text_of_number",
    "whole_micros",
]

LARGEST, SMALLEST = 1e15, 1e-30
FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000.0, 253_402_300_799_999_968.0
"""Dates of the years 1 to 9999 in microseconds since 1970, as float64; others are missing, on both sides."""
LONGEST_TEXT = 1_000
"""The number of characters of a text that count; the rest is cut off, on both sides."""

NUMBER = r" *[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)? *"
OFFSET = r"[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?"
MOMENT = (
    r" *[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?"
    rf"(Z|{OFFSET})?)? *"
)
"""The formats of numbers and dates in files. Times with a zone are converted to UTC."""
YES, NO = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")

_NUMBER, _MOMENT = re.compile(NUMBER), re.compile(MOMENT)
_EPOCH, _NAN = datetime(1970, 1, 1), float("nan")


def is_nothing(item: object) -> bool:
    """Whether a value means "missing": None, NaN, NaT or pandas' NA.

    >>> is_nothing(None), is_nothing(float("nan")), is_nothing(np.datetime64("NaT")), is_nothing([1]), is_nothing(0)
    (True, True, True, False, False)
    """
    if item is None or type(item).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(item, Decimal):
        return item.is_nan()
    try:
        return bool(item != item)
    except Exception:  # arrays, and anything else that cannot be compared, are values
        return False


def number_of(item: object) -> float:
    """The value as a number, clamped to ±1e15, and 0 below 1e-30 in size; NaN if it is not a number.

    >>> number_of(" 1e3 "), number_of("1_000"), number_of(True), number_of(10**400), number_of(None)
    (1000.0, nan, 1.0, 1000000000000000.0, nan)
    """
    if isinstance(item, str):
        if not _NUMBER.fullmatch(item):
            return _NAN
    elif not isinstance(item, int | float | Decimal | np.number | np.bool_):
        return _NAN
    try:
        value = float(item)
    except OverflowError:
        value = LARGEST if item > 0 else -LARGEST  # type: ignore[operator]
    except (TypeError, ValueError):
        return _NAN
    value = min(max(value, -LARGEST), LARGEST) if value == value else value
    return 0.0 if abs(value) < SMALLEST else value


def truth_of(item: object) -> bool | None:
    """The value as a boolean, from the words that files use or from 1 and 0; None if it is neither.

    >>> truth_of("Yes"), truth_of(0.0), truth_of(2), truth_of("maybe")
    (True, False, None, None)
    """
    if isinstance(item, bool | np.bool_):
        return bool(item)
    if isinstance(item, str):
        word = item.strip(" ").lower()
        return True if word in YES else False if word in NO else None
    if isinstance(item, int | float | Decimal | np.number) and not is_nothing(item):
        return True if item == 1 else False if item == 0 else None
    return None


def date_of(item: object) -> float:
    """The value as microseconds since 1970, in UTC if it has a zone; NaN if it is not a date or time.

    >>> date_of("1970-01-01T01:00:00+01:00"), date_of(date(1970, 1, 2)), date_of("tomorrow")
    (0.0, 86400000000.0, nan)
    """
    if isinstance(item, np.datetime64):
        moments = np.array([item]).astype("datetime64[us]")
        return _NAN if np.isnat(moments[0]) else whole_micros(int(moments.astype(np.int64)[0]))
    if isinstance(item, str):
        if not _MOMENT.fullmatch(item):
            return _NAN
        try:
            item = datetime.fromisoformat(item.strip(" "))
        except ValueError:
            return _NAN
    if not isinstance(item, date) or is_nothing(item):  # pandas' NaT is a date
        return _NAN
    if not isinstance(item, datetime):
        item = datetime(item.year, item.month, item.day)
    try:
        if item.tzinfo is not None:
            item = item.astimezone(UTC).replace(tzinfo=None)
        return whole_micros((item - _EPOCH) // timedelta(microseconds=1))
    except (OverflowError, ValueError):
        return _NAN


def whole_micros(micros: int) -> float:
    """Microseconds since 1970 as a float64; NaN outside the years 1 to 9999.

    >>> whole_micros(253_402_300_799_999_999) == LAST_MICROS, whole_micros(253_402_300_800_000_000)
    (True, nan)
    """
    if not int(FIRST_MICROS) <= micros < 253_402_300_800_000_000:
        return _NAN
    return min(float(micros), LAST_MICROS)


def iso(micros: float) -> str:
    """Microseconds since 1970 as ISO text; only the date if the time is midnight.

    >>> iso(0.0), iso(1e6)
    ('1970-01-01', '1970-01-01 00:00:01')
    """
    moment = _EPOCH + timedelta(microseconds=int(micros))
    return moment.date().isoformat() if micros % 86_400e6 == 0.0 else moment.isoformat(sep=" ")


def text_of(item: object) -> str | None:
    """The value as text; numbers, booleans and dates as a file would show them; None for any other type."""
    if isinstance(item, str):
        return item[:LONGEST_TEXT]
    if isinstance(item, bool | np.bool_):
        return "true" if item else "false"
    if isinstance(item, int | float | Decimal | np.number):
        value = number_of(item)
        return None if value != value else text_of_number(value)
    if isinstance(item, date | np.datetime64) and (micros := date_of(item)) == micros:
        return (_EPOCH + timedelta(microseconds=int(micros))).isoformat(sep=" ")
    return None


def text_of_number(value: float) -> str:
    """A number as text, without a decimal point if it is whole.

    >>> text_of_number(50.0), text_of_number(0.5)
    ('50', '0.5')
    """
    return repr(int(value)) if value == int(value) else repr(value)


READ: dict[Kind, Callable[[Any], Any]] = {"number": number_of, "boolean": truth_of, "date": date_of, "text": text_of}
"""The conversion of a single value to each kind."""
