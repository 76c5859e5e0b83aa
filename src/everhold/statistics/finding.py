"""The result of a question that is made of several: a value, an interval that is valid if its parts are, and the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from math import ceil, floor, inf
from typing import TYPE_CHECKING, Any, Literal

from everhold.errors import QuestionError
from everhold.queries.answer import NO_FORECAST, NO_ROWS, Answer, source_word, unseen_text
from everhold.queries.interval import Interval
from everhold.results import JsonResult, as_frame, as_moment, ends_from, html_table, interval_html, number_or_null

if TYPE_CHECKING:
    from typing import Self

    from everhold.queries.round_act import ActKind

__all__ = ["Comparison", "Finding", "LabelledCells", "Result", "Shares", "result_from_dict"]

_REST = {"(missing)", "(other)"}


@dataclass(frozen=True, slots=True)
class Finding(JsonResult):
    """A number made of several answers.

    Its interval is derived from theirs and holds whenever they do: with the session's confidence, together with every
    other interval of the session (docs/theory/derived.md).

    Attributes:
        what: the question in words.
        value: the estimate, in the question's own units; NaN where no row was seen that it could be about.
        low, high: the interval for the population.
        parts: the answers that it was made of.
        unit: 'number', or 'date', where value and ends are microseconds since 1970.
    """

    what: str
    value: float
    low: float
    high: float
    parts: tuple[Answer, ...]
    unit: Literal["number", "date"] = "number"

    @property
    def seen(self) -> bool:
        """Whether there was a row that it could be about. Without one there is an interval, and no estimate."""
        return self.value == self.value

    @property
    def value_text(self) -> str:
        """The estimate for people."""
        if not self.seen:
            return unseen_text(surprise=self.surprise, read=self.read)
        if self.unit == "date":
            return _date(self.value, round, self.high - self.low)
        if self.low == self.high:
            return f"{self.value:,.10g}"
        return f"{round(self.value, self.interval.decimals):,.{max(self.interval.decimals, 0)}f}"

    @property
    def interval_text(self) -> str:
        """The interval for people, rounded outwards."""
        if self.unit == "date":
            width = self.high - self.low
            return f"[{_date(self.low, floor, width)}, {_date(self.high, ceil, width)}]"
        return str(self.interval)

    @property
    def interval(self) -> Interval:
        """The interval for the population value."""
        return Interval(self.low, self.high)

    @property
    def surprise(self) -> bool:
        """Whether any of its parts was a surprise."""
        return any(part.surprise for part in self.parts)

    @property
    def round(self) -> int:
        """The last round it needed."""
        return max((part.round for part in self.parts), default=0)

    @property
    def price(self) -> float:
        """The largest price that any of its parts was computed with."""
        return max((part.price for part in self.parts), default=0.0)

    @property
    def read(self) -> bool:
        """Whether it is a reading: its value is the private rows' own."""
        return bool(self.parts) and all(part.act != "ask" for part in self.parts)

    @property
    def act(self) -> ActKind:
        """How it was asked: 'ask', 'read' or 'close'; 'ask' if any of its parts was."""
        acts = {part.act for part in self.parts}
        return "ask" if "ask" in acts or not acts else "close" if "close" in acts else "read"

    @property
    def kind_text(self) -> str:
        """What the value is, in words."""
        if self.read:
            return "private reading"
        if not self.seen:
            return NO_ROWS if self.surprise else NO_FORECAST
        return "surprise: measured on the private rows" if self.surprise else "forecast that the private rows agree with"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "kind": "finding",
            "what": self.what,
            "value": number_or_null(self.value),
            "low": number_or_null(self.low),
            "high": number_or_null(self.high),
            "unit": self.unit,
            "act": self.act,
            "surprise": self.surprise,
            "round": self.round,
            "price": self.price,
            "parts": [part.to_dict() for part in self.parts],
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Self:
        """The same again, equal to the bit."""
        return cls(given["what"], *ends_from(given), _parts(given), given["unit"])

    def to_rows(self) -> list[dict[str, Any]]:
        """One line: everything that is a single value. Dates are dates."""
        return [row | self.ends_in_rows() for row in JsonResult.to_rows(self)]

    def ends_in_rows(self) -> dict[str, Any]:
        """Value and ends as a table has them."""
        ends = {"value": self.value, "low": self.low, "high": self.high}
        return ends if self.unit == "number" else {name: as_moment(micros) for name, micros in ends.items()}

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        many = "question" if len(self.parts) == 1 else "questions"
        kind = source_word(seen=self.seen, surprise=self.surprise, read=self.read)
        if self.parts and not any(part.round for part in self.parts):
            kind = "rehearsal: public rows alone"
        value = f"{self.value_text} in" if self.seen else f"{self.value_text};"
        return f"{self.what}: {value} {self.interval_text} ({len(self.parts)} {many}, {kind})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def _repr_html_(self) -> str:
        many = f"{self.kind_text} · {len(self.parts)} question{'' if len(self.parts) == 1 else 's'}"
        text = f"<b>{escape(self.value_text)}</b> {'in' if self.seen else 'and'} {escape(self.interval_text)}"
        if self.unit == "date":
            return f"<div style='font-family:sans-serif'>{escape(self.what)}: {text} &middot; {escape(many)}</div>"
        return interval_html(f"{escape(self.what)}: {text}", self, -inf, inf, many)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Finding):
    """A difference, and what it says."""

    @property
    def verdict(self) -> Literal["yes", "no", "cannot tell"]:
        """Whether the first is larger than the second."""
        if self.low > 0.0:
            return "yes"
        return "no" if self.high <= 0.0 else "cannot tell"

    @property
    def verdict_text(self) -> str:
        """The verdict in words."""
        if self.verdict == "no":
            return "the first is smaller" if self.high < 0.0 else "the first is not larger"
        return "the first is larger" if self.verdict == "yes" else "cannot tell which is larger"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {**Finding.to_dict(self), "kind": "comparison", "verdict": self.verdict}

    def to_rows(self) -> list[dict[str, Any]]:
        """One line; the verdict under a name that says what is meant."""
        return [
            {"first_is_larger" if name == "verdict" else name: row[name] for name in row} for row in Finding.to_rows(self)
        ]

    def __str__(self) -> str:
        return f"{self.verdict_text}; {Finding.__str__(self)}"

    def _repr_html_(self) -> str:
        return f"<b>{escape(self.verdict_text)}</b>{Finding._repr_html_(self)}"


class LabelledCells(JsonResult):
    """What tables of shares and of groups have in common: results by labels, which are values of `columns`."""

    __slots__ = ()
    labels: tuple[tuple[str, ...], ...]
    cells: tuple[Answer | Finding, ...]

    if TYPE_CHECKING:

        @property
        def columns(self) -> tuple[str, ...]:
            """What the labels are values of: a field of one, derived by the other."""

    @staticmethod
    def cell_text(cell: Answer | Finding) -> str:
        """The value of a cell for people."""
        raise NotImplementedError

    @staticmethod
    def ends_text(cell: Answer | Finding) -> str:
        """The interval of a cell for people."""
        return cell.interval_text if isinstance(cell, Finding) else str(cell.interval)

    @property
    def source_note(self) -> str:
        """Which cells were measured, where some were and others are forecasts; empty where all are of one kind."""
        measured = sum(cell.surprise for cell in self.cells)
        if not self.cells or not any(part.round for cell in self.cells for part in _answers_of(cell)):
            return "a rehearsal: public rows alone" if self.cells else ""
        if measured in (0, len(self.cells)):
            return ""
        what = "1 cell was a surprise" if measured == 1 else f"{measured:,} cells were surprises"
        return f"{what}, measured on the private rows; the others are forecasts"

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], Answer | Finding]]:
        return iter(zip(self.labels, self.cells, strict=True))

    def __getitem__(self, label: str | tuple[str, ...]) -> Answer | Finding:
        key = (label,) if isinstance(label, str) else tuple(label)
        for labels, cell in self:
            if labels == key:
                return cell
        raise KeyError(f"{label!r}; there are {', '.join(' × '.join(labels) for labels in self.labels)}")

    def grid(self, value: str = "value") -> Any:
        """Two columns as a grid: a line for each value of the first, a column for each of the second.

        Args:
            value: what stands in the cells: 'value', 'low', 'high', or 'text' for value and interval.
        """
        if len(self.columns) != 2:
            raise QuestionError(f"a grid has two columns, and this is by {len(self.columns)}. Use to_frame().")
        rows: dict[str, dict[str, Any]] = {}
        for (first, second), cell in self:
            shown = f"{self.cell_text(cell)} {self.ends_text(cell)}" if value == "text" else getattr(cell, value)
            rows.setdefault(first, {self.columns[0]: first})[second] = shown
        return as_frame(list(rows.values()))


@dataclass(frozen=True, slots=True)
class Shares(LabelledCells):
    """Shares by one or two columns.

    >>> from everhold.queries.answer import Answer
    >>> cell = Answer(0.25, 0.2, 0.3, False, 1, 5.0, "share")
    >>> Shares("city", (("York",), ("Leeds",)), (cell, cell))
    city  |  share | interval
    York  | 25.0 % | [0.2, 0.3]
    Leeds | 25.0 % | [0.2, 0.3]
    """

    what: str
    labels: tuple[tuple[str, ...], ...]
    cells: tuple[Answer | Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        cells = [{"label": list(label), **cell.to_dict()} for label, cell in self]
        return {"kind": "shares", "what": self.what, "cells": cells}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Shares:
        """The same again, equal to the bit."""
        labels = tuple(tuple(cell["label"]) for cell in given["cells"])
        cells = tuple((Answer if cell["kind"] == "answer" else Finding).from_dict(cell) for cell in given["cells"])
        return cls(given["what"], labels, cells)

    @staticmethod
    def cell_text(cell: Answer | Finding) -> str:
        """The share for people, in per cent."""
        return _percent(cell)

    @property
    def columns(self) -> tuple[str, ...]:
        """What the labels are values of."""
        named = tuple(self.what.split(" given ", 1)[0].split(" × "))
        return named if len(named) == len(self.labels[0] if self.labels else ()) else ("label",)

    def to_rows(self) -> list[dict[str, Any]]:
        """A line for each cell."""
        numbers = ("value", "low", "high", "act", "surprise", "round")
        names = self.columns
        return [
            {
                **dict(zip(names, label if len(names) == len(label) else (" × ".join(label),), strict=True)),
                **{name: getattr(cell, name) for name in numbers},
            }
            for label, cell in self
        ]

    def plot(self, ax: Any = None) -> Any:
        """A forest plot of the cells. Needs matplotlib (`everhold[plot]`)."""
        from everhold.plots import forest

        return forest({" × ".join(label): cell for label, cell in self.notable()[0]}, title=self.what, ax=ax)

    @property
    def parts(self) -> tuple[Answer, ...]:
        """The answers that it was made of."""
        by_round = {}
        for cell in self.cells:
            for part in _answers_of(cell):
                by_round[part.round] = part
        return tuple(by_round.values())

    @property
    def surprises(self) -> int:
        """How many cells were surprises."""
        return sum(cell.surprise for cell in self.cells)

    def notable(self) -> tuple[list[tuple[tuple[str, ...], Answer | Finding]], str]:
        """The cells worth a line, and a note that replaces cells of missing and other values with a share near 0."""
        rare = [cell for label, cell in self if set(label) & _REST and cell.value < 0.0005]
        shown = [(label, cell) for label, cell in self if not (set(label) & _REST and cell.value < 0.0005)]
        if not rare:
            return shown, ""
        most = ceil(1e4 * max(cell.high for cell in rare)) / 100
        if len(rare) == 1:
            label = next(label for label, cell in self if cell is rare[0])
            return shown, f"{' × '.join(label)}: none seen, at most {most:g} %"
        return shown, f"{len(rare)} cells of missing or other values: none seen, at most {most:g} % each"

    def _grid_html(self) -> str:
        cells, note = self.notable()
        seconds = list(dict.fromkeys(label[1] for label, _ in cells))
        rows: dict[str, dict[str, str]] = {}
        for (first, second), cell in cells:
            rows.setdefault(first, {})[second] = f"<b>{_percent(cell)}</b><br><small>{cell.interval}</small>"
        lines = [[escape(first), *(line.get(second, "") for second in seconds)] for first, line in rows.items()]
        return html_table([self.what, *seconds], lines, ". ".join(text for text in (note, self.source_note) if text))

    def __repr__(self) -> str:
        cells, note = self.notable()
        rows = [
            (" × ".join(label), _percent(cell), f"{cell.interval}{', surprise' if cell.surprise else ''}")
            for label, cell in cells
        ]
        wide = max([len(self.what), *(len(row[0]) for row in rows)])
        share = max([5, *(len(row[1]) for row in rows)])
        lines = [f"{self.what:<{wide}} | {'share':>{share}} | interval"]
        lines += [f"{label:<{wide}} | {value:>{share}} | {interval}" for label, value, interval in rows]
        return "\n".join([*lines, *(text for text in (note, self.source_note) if text)])

    def _repr_html_(self) -> str:
        if len(self.columns) == 2:
            return self._grid_html()
        top = max((cell.high for cell in self.cells), default=1.0) or 1.0
        rows = "".join(
            f"<tr><td>{escape(' × '.join(label))}</td><td style='text-align:right'>{_percent(cell)}</td>"
            f"<td>{cell.interval}</td><td><svg width='204' height='14' role='img' aria-label='share with interval'>"
            f"<rect x='0' y='2' height='10' width='{200 * _drawn(cell) / top:.1f}' fill='#93c5fd'/>"
            f"<line x1='{200 * cell.low / top:.1f}' x2='{200 * cell.high / top:.1f}' y1='7' y2='7' stroke='#1d4ed8' "
            "stroke-width='2'/></svg></td></tr>"
            for label, cell in self.notable()[0]
        )
        head = f"<tr><th>{escape(self.what)}</th><th>share</th><th>interval</th><th></th></tr>"
        notes = ". ".join(text for text in (self.notable()[1], self.source_note) if text)
        return f"<table>{head}{rows}</table><p>{escape(notes)}</p>"


Result = Answer | Finding | Shares


def _answers_of(cell: Answer | Finding) -> tuple[Answer, ...]:
    return (cell,) if isinstance(cell, Answer) else cell.parts


def _parts(given: dict[str, Any]) -> tuple[Answer, ...]:
    return tuple(Answer.from_dict(part) for part in given["parts"])


def result_from_dict(given: dict[str, Any]) -> Result:
    """A result of any kind from JSON, equal to the bit.

    >>> part = Answer(0.1, 0.05, 0.30000000000000004, False, 3, 5.1, "share")
    >>> found = Comparison("is a larger than b", float("nan"), -1.0, 1.0, (part,))
    >>> result_from_dict(found.to_dict()).to_json() == found.to_json()
    True
    """
    kinds: dict[str, type[Answer | Finding | Comparison | Shares]] = {
        "answer": Answer,
        "finding": Finding,
        "comparison": Comparison,
        "shares": Shares,
    }
    return kinds[given["kind"]].from_dict(given)


def _percent(cell: Answer | Finding) -> str:
    return f"{100 * cell.value:.1f} %" if cell.value == cell.value else "none seen"


def _drawn(cell: Answer | Finding) -> float:
    return cell.value if cell.value == cell.value else 0.0


_SECOND, _DAY = 1_000_000, 86_400_000_000


def _date(micros: float, to: Callable[[Any], int], width: float) -> str:
    """A moment to the second, or to the day where the interval is wider than two."""
    step = _DAY if width > 2 * _DAY else _SECOND
    most = int((datetime.max - datetime(1970, 1, 1)).total_seconds()) * _SECOND
    moment = datetime(1970, 1, 1) + timedelta(microseconds=min(to(micros / step) * step, most))
    return moment.isoformat(sep=" ") if step == _SECOND else moment.date().isoformat()
