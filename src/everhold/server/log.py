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


def _texts(logged: Logged) -> list[str]:
    """What was asked as people read it, and as the record names it."""
    return [logged.question, *(part.name or "" for part in logged.parts)]


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which questions to show: by their text, by who asked, surprises only."""

    contains: str | None = None
    who: str | None = None
    surprises: bool = False

    def keeps(self, logged: Logged) -> bool:
        """Whether a question passes."""
        if self.contains and not any(self.contains.casefold() in text.casefold() for text in _texts(logged)):
            return False
        return (not self.who or logged.who == self.who) and (not self.surprises or logged.surprise)

    def page(self, asked: Sequence[Logged], after: int, limit: int) -> tuple[list[Logged], int | None]:
        """Up to `limit` questions later than `after`, and where the next page starts."""
        kept: list[Logged] = []
        for index in range(min(after, len(asked)), len(asked)):
            if self.keeps(asked[index]):
                if len(kept) == limit:
                    return kept, kept[-1].number
                kept.append(asked[index])
        return kept, None

    def all(self, asked: Iterable[Logged]) -> list[Logged]:
        """Every question that passes."""
        return [logged for logged in asked if self.keeps(logged)]


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
    for logged in asked:
        ends = logged.interval
        numbers = ("", "", "") if ends is None or logged.value is None else (logged.value, ends.low, ends.high)
        whom = (logged.time, logged.who or "", logged.request_id or "")
        texts = (logged.act, logged.question, logged.value_text)
        writer.writerow(_line(logged.number, "", logged.round, texts, numbers, logged.surprise, logged.price, whom))
        if logged.finding is None:
            continue
        for label, *cell in logged.finding.cells:
            texts = ("", " × ".join(label), "")
            writer.writerow(_line("", logged.number, "", texts, cell, "", "", ("", "", "")))
        for part in logged.parts:
            answer, whom = part.answer, (part.time, part.who or "", part.request_id or "")
            numbers = (part.value, part.interval.low, part.interval.high)
            texts = (answer.act, part.question, part.value_text)
            writer.writerow(_line("", logged.number, answer.round, texts, numbers, answer.surprise, answer.price, whom))
    return out.getvalue()


def _line(
    number: object,
    part_of: object,
    round: object,  # noqa: A002
    texts: Sequence[str],
    numbers: Sequence[object],
    surprise: object,
    price: object,
    whom: Sequence[str],
) -> list[object]:
    values = [repr(value) if isinstance(value, float) else value for value in (*numbers, surprise, price)]
    return [number, part_of, round, *(_plain(text) for text in texts), *values, *(_plain(text) for text in whom)]


def _plain(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
