"""The record by pages: filtered, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from everhold.ledger.reader import LoggedRound

__all__ = ["RoundFilter", "as_csv"]


@dataclass(frozen=True, slots=True)
class RoundFilter:
    """Which rounds to show: by the question's text, by who asked, surprises only."""

    contains: str | None = None
    who: str | None = None
    surprises: bool = False

    def keeps(self, one: LoggedRound) -> bool:
        """Whether a round passes."""
        if self.contains and self.contains.casefold() not in one.question.casefold():
            return False
        return (not self.who or one.who == self.who) and (not self.surprises or one.answer.surprise)

    def page(self, told: Sequence[LoggedRound], after: int, limit: int) -> tuple[list[LoggedRound], int | None]:
        """Up to `limit` rounds later than `after`, and where the next page starts."""
        found: list[LoggedRound] = []
        for place in range(min(after, len(told)), len(told)):
            if self.keeps(told[place]):
                if len(found) == limit:
                    return found, found[-1].answer.round
                found.append(told[place])
        return found, None

    def all(self, told: Sequence[LoggedRound]) -> list[LoggedRound]:
        """Every round that passes."""
        return [one for one in told if self.keeps(one)]


_HEAD = ("round", "question", "value", "low", "high", "surprise", "spent", "scale", "time", "who", "request_id")


def as_csv(told: Iterable[LoggedRound]) -> str:
    """Rounds as CSV. A text that a spreadsheet would take for a formula gets a quote before it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEAD)
    for one in told:
        answer = one.answer
        numbers = (repr(answer.value), repr(answer.low), repr(answer.high), answer.surprise, repr(answer.spent))
        texts = (answer.scale, one.time, one.who or "", one.request or "")
        writer.writerow((answer.round, _plain(one.question), *numbers, *(_plain(text) for text in texts)))
    return out.getvalue()


def _plain(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
