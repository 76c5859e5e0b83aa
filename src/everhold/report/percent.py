"""Lines of a study's record as people read them: shares in per cent, everything else in its own units."""

from __future__ import annotations

from everhold.ledger.reader import LoggedAct, LoggedQuestion, LoggedRound
from everhold.queries.interval import Interval

__all__ = ["in_percent", "shown_cells", "value_and_interval", "with_to"]


def in_percent(interval: Interval) -> str:
    """An interval of shares for people, rounded outwards."""
    return f"{with_to(str(Interval(100.0 * interval.low, 100.0 * interval.high)))} %"


def with_to(interval: str) -> str:
    """An interval in words instead of brackets.

    >>> with_to("[0.2, 0.3]")
    '0.2 to 0.3'
    """
    return interval.strip("[]").replace(", ", " to ")


def value_and_interval(entry: LoggedQuestion | LoggedAct | LoggedRound) -> tuple[str, str]:
    """Value and interval of a line of the log: shares in per cent, everything else as the record has it."""
    if isinstance(entry, LoggedRound) and entry.shown_range is not None:
        return entry.value_text, with_to(entry.interval_text)
    answer = entry.answer if not isinstance(entry, LoggedAct) else entry.certified
    if answer is not None and answer.scale == "share":
        interval = Interval(answer.low, answer.high)
        value = f"{100.0 * answer.value:.{_digits(interval)}f} %" if answer.value == answer.value else entry.value_text
        return value, in_percent(interval)
    if isinstance(entry, LoggedQuestion) and entry.finding is not None and entry.finding.statistic == "share":
        estimate = entry.finding.estimate
        if estimate is not None:
            value = f"{100.0 * estimate.value:.{_digits(estimate.interval)}f} %" if estimate.seen else entry.value_text
            return value, in_percent(estimate.interval)
    return entry.value_text, with_to(entry.interval_text)


def shown_cells(entry: LoggedQuestion) -> list[tuple[str, str, str]]:
    """The cells of a table in the log: label, share and interval in per cent."""
    if entry.finding is None:
        return []
    return [
        (" × ".join(label), "none seen" if value != value else f"{100.0 * value:.1f} %", in_percent(Interval(low, high)))
        for label, value, low, high in entry.finding.cells
    ]


def _digits(interval: Interval) -> int:
    """Decimals of a share in per cent, for three digits of the interval's width."""
    return min(max(interval.decimals - 2, 0), 6)
