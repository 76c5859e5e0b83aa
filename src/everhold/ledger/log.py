"""What was asked and done in a session, as people asked it: a list that is also a table, JSON and a picture."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from everhold.ledger.logged_act import LoggedAct
from everhold.ledger.reader import LoggedQuestion
from everhold.results import Tabular, html_table

__all__ = ["Log"]

_MOST_LINES = 200


class Log(list[LoggedQuestion | LoggedAct], Tabular):
    """A list of `LoggedQuestion` and `LoggedAct`, in order."""

    __slots__ = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """A line for each question and act; a table has one for each of its cells."""
        return [row for entry in self for row in _rows(entry)]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"kind": "log", "questions": [entry.to_dict() for entry in self]}

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def __repr__(self) -> str:
        shown = self[-_MOST_LINES:]
        lines = [
            f"{entry.number:>4,}  {entry.kind_word:<9} {entry.short}: {entry.value_text} {entry.interval_text}".rstrip()
            for entry in shown
        ]
        return "\n".join(["1 question or act" if len(self) == 1 else f"{len(self):,} questions and acts", *lines])

    def _repr_html_(self) -> str:
        shown = self[-_MOST_LINES:]
        rows = [
            [
                escape(text)
                for text in (
                    f"{entry.number:,}",
                    entry.kind_word,
                    entry.question,
                    entry.value_text,
                    entry.interval_text,
                    f"{entry.price:.1f}",
                    entry.who or "",
                )
            ]
            for entry in shown
        ]
        caption = f"{len(self) - len(shown):,} earlier ones are not shown" if len(self) > len(shown) else ""
        return html_table(["", "act", "question", "value", "interval", "nats", "who"], rows, caption)

    def plot(self, ax: Any = None) -> Any:
        """A forest plot of everything that has an interval. Needs matplotlib (`everhold[plot]`)."""
        from everhold.plots import forest

        shown = [(row, _axis(entry)) for entry in self for row in _rows(entry) if row["low"] is not None]
        names = [f"{row['question']}{'' if row['cell'] is None else ': ' + row['cell']}" for row, _ in shown]
        return forest([_Line(row, axis) for row, axis in shown], labels=names, ax=ax)


class _Line:
    """A line of the table as an estimate. Those with the same `axis` are drawn in one panel."""

    def __init__(self, row: dict[str, Any], axis: str) -> None:
        self.value, self.low, self.high = (float(row[name]) for name in ("value", "low", "high"))
        self.surprise = bool(row["surprise"])
        self.axis, self.unit = axis, axis


def _axis(entry: LoggedQuestion | LoggedAct) -> str:
    """What an entry shares an axis with: shares, dates, or numbers about the same thing."""
    if isinstance(entry, LoggedAct):
        return "share"
    if entry.answer is not None:
        return "share" if entry.answer.scale == "share" else "a mean from -1 to 1"
    if (finding := entry.finding) is None:
        return entry.question
    if finding.unit == "date":
        return "date"
    return (
        "share"
        if finding.cells or finding.statistic == "share"
        else str(finding.arguments.get("question", finding.question))
    )


def _rows(entry: LoggedQuestion | LoggedAct) -> list[dict[str, Any]]:
    surprise = isinstance(entry, LoggedQuestion) and entry.surprise
    ends = (None, None) if entry.interval is None else (entry.interval.low, entry.interval.high)
    line = {
        "number": entry.number,
        "act": entry.act,
        "question": entry.question,
        "cell": None,
        "value": entry.value,
        "low": ends[0],
        "high": ends[1],
        "result": entry.value_text,
        "surprise": surprise,
        "round": entry.round,
        "price": entry.price,
        "time": entry.time,
        "who": entry.who,
    }
    if not isinstance(entry, LoggedQuestion) or entry.finding is None or not entry.finding.cells:
        return [line]
    measured = {(part.answer.low, part.answer.high): part.answer.surprise for part in entry.parts}
    return [
        {
            **line,
            "cell": " × ".join(label),
            "value": value,
            "low": low,
            "high": high,
            "result": f"{value:.4g}",
            "surprise": measured.get((low, high), surprise),
        }
        for label, value, low, high in entry.finding.cells
    ]
