"""What was asked, by pages: filtered, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from everhold.ledger.reader import LoggedAct, LoggedQuestion

__all__ = ["LogFilter", "Logged", "log_to_csv"]

Logged = LoggedQuestion | LoggedAct
"""A line of the log."""


def _texts(one: Logged) -> list[str]:
    """What was asked as people read it, and as the record names it."""
    return [one.question, *(part.name or "" for part in one.parts)]


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which questions to show: by their text, by who asked, surprises only."""

    contains: str | None = None
    who: str | None = None
    surprises: bool = False

    def keeps(self, one: Logged) -> bool:
        """Whether a question passes."""
        if self.contains and not any(self.contains.casefold() in text.casefold() for text in _texts(one)):
            return False
        return (not self.who or one.who == self.who) and (not self.surprises or one.surprise)

    def page(self, asked: Sequence[Logged], after: int, limit: int) -> tuple[list[Logged], int | None]:
        """Up to `limit` questions later than `after`, and where the next page starts."""
        found: list[Logged] = []
        for index in range(min(after, len(asked)), len(asked)):
            if self.keeps(asked[index]):
                if len(found) == limit:
                    return found, found[-1].number
                found.append(asked[index])
        return found, None

    def all(self, asked: Iterable[Logged]) -> list[Logged]:
        """Every question that passes."""
        return [one for one in asked if self.keeps(one)]


_HEAD = (
    "number",
    "part_of",
    "round",
    "act",
    "question",
    "result",
    "value",
    "low",
    "high",
    "surprise",
    "price",
    "time",
    "who",
    "request_id",
)


def log_to_csv(asked: Iterable[Logged]) -> str:
    """Questions and acts as CSV: a statistic is followed by its parts, and a table by its cells.

    A text that a spreadsheet would take for a formula gets a quote before it.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEAD)
    for one in asked:
        ends = one.interval
        numbers = ("", "", "") if ends is None or one.value is None else (one.value, ends.low, ends.high)
        whom = (one.time, one.who or "", one.request_id or "")
        said = (one.act, one.question, one.value_text)
        writer.writerow(_line(one.number, "", one.round, said, numbers, one.surprise, one.price, whom))
        if one.finding is None:
            continue
        for label, *cell in one.finding.cells:
            said = ("", " × ".join(label), "")
            writer.writerow(_line("", one.number, "", said, cell, "", "", ("", "", "")))
        for part in one.parts:
            answer, whom = part.answer, (part.time, part.who or "", part.request_id or "")
            numbers = (answer.value, answer.low, answer.high)
            said = (answer.act, part.question, part.value_text)
            writer.writerow(_line("", one.number, answer.round, said, numbers, answer.surprise, answer.price, whom))
    return out.getvalue()


def _line(
    number: object,
    part_of: object,
    round: object,  # noqa: A002
    said: Sequence[str],
    numbers: Sequence[object],
    surprise: object,
    price: object,
    whom: Sequence[str],
) -> list[object]:
    values = [repr(one) if isinstance(one, float) else one for one in (*numbers, surprise, price)]
    return [number, part_of, round, *(_plain(text) for text in said), *values, *(_plain(text) for text in whom)]


def _plain(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
