"""A statistic for every group: `holdout.by("carrier").mean("arr_delay")`. Groups are declared, never looked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from html import escape
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar, cast

from everhold.errors import QuestionError
from everhold.queries.answer import Answer
from everhold.results import axis_around, html_table, interval_bar, moment_text
from everhold.statistics.finding import Finding, LabelledCells, result_from_dict
from everhold.statistics.means import Mean, Ratio, Share
from everhold.statistics.quantiles import Median, Quantile
from everhold.statistics.shortcuts import shortcut
from everhold.statistics.spread import Correlation, Variance
from everhold.statistics.statistic import Statistic

if TYPE_CHECKING:
    from everhold.data.schema import Schema

__all__ = ["By", "GroupTable"]

R = TypeVar("R")
_MOST_GROUPS = 1_000
_LEFT_OUT = "rows with another value, or none, are in no group"
_Group = tuple[str, str]  # its label, and the yes/no question that says who belongs to it


@dataclass(frozen=True, slots=True)
class GroupTable(LabelledCells):
    """A statistic by the values of one or more columns.

    >>> cell = Answer(0.25, 0.2, 0.3, False, 1, 5.0, "share")
    >>> GroupTable("share of smoker", ("city",), (("York",), ("Leeds",)), (cell, cell))
    share of smoker by city
    city  | value | interval
    York  |  0.25 | [0.2, 0.3]
    Leeds |  0.25 | [0.2, 0.3]
    rows with another value, or none, are in no group

    Attributes:
        what: the statistic, in words.
        columns: what it is divided by.
        labels: of the groups, a text for each column.
        cells: their results.
    """

    what: str
    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    cells: tuple[Answer | Finding, ...]

    @staticmethod
    def cell_text(cell: Answer | Finding) -> str:
        """The value for people, in its own units."""
        if isinstance(cell, Finding):
            return cell.value_text
        return f"{cell.value:.4g}" if cell.value == cell.value else "none seen"

    @property
    def title(self) -> str:
        """The statistic and the columns, in words."""
        return f"{self.what} by {' and '.join(self.columns)}"

    @property
    def surprises(self) -> int:
        """How many groups were surprises."""
        return sum(cell.surprise for cell in self.cells)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        cells = [{"label": list(label), **cell.to_dict()} for label, cell in self]
        return {"kind": "groups", "what": self.what, "columns": list(self.columns), "cells": cells}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> GroupTable:
        """The same again, equal to the bit."""
        labels = tuple(tuple(cell["label"]) for cell in given["cells"])
        cells = tuple(cast("Answer | Finding", result_from_dict(cell)) for cell in given["cells"])
        return cls(given["what"], tuple(given["columns"]), labels, cells)

    def to_rows(self) -> list[dict[str, Any]]:
        """A line for each group."""
        return [
            {
                "statistic": self.what,
                **dict(zip(self.columns, label, strict=True)),
                **(
                    cell.ends_in_rows()
                    if isinstance(cell, Finding)
                    else {"value": cell.value, "low": cell.low, "high": cell.high}
                ),
                "act": cell.act,
                "surprise": cell.surprise,
                "round": cell.round,
            }
            for label, cell in self
        ]

    def __repr__(self) -> str:
        marks = (", surprise" if cell.surprise else "" for cell in self.cells)
        rows = [
            (" × ".join(label), self.cell_text(cell), f"{self.ends_text(cell)}{mark}")
            for (label, cell), mark in zip(self, marks, strict=True)
        ]
        head = " × ".join(self.columns)
        wide = max([len(head), *(len(row[0]) for row in rows)])
        value = max([5, *(len(row[1]) for row in rows)])
        lines = [self.title, f"{head:<{wide}} | {'value':>{value}} | interval"]
        lines += [f"{label:<{wide}} | {text:>{value}} | {ends}" for label, text, ends in rows]
        return "\n".join([*lines, *(text for text in (self.source_note, _LEFT_OUT) if text)])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        left, right = axis_around([(cell.low, cell.high) for cell in self.cells])
        rows = [
            (
                *(escape(part) for part in label),
                f"<b>{escape(self.cell_text(cell))}</b>",
                escape(self.ends_text(cell)),
                interval_bar(cell.value, cell.low, cell.high, left, right, "#c2410c" if cell.surprise else "#1d4ed8"),
            )
            for label, cell in self
        ]
        dated = any(isinstance(cell, Finding) and cell.unit == "date" for cell in self.cells)
        ends = [moment_text(end) if dated else f"{end:,.4g}" for end in (left, right)]
        table = html_table([*self.columns, "value", "interval", " to ".join(ends)], rows, self.title)
        notes = ". ".join(text for text in (self.source_note, _LEFT_OUT) if text)
        return f"{table}<small>{escape(notes)}</small>"

    def plot(self, ax: Any = None) -> Any:
        """A forest plot: a line for each group, with its interval. Needs matplotlib (`everhold[plot]`)."""
        from everhold.plots import forest

        return forest({" × ".join(label): cell for label, cell in self}, title=self.title, ax=ax)


class By:
    """Statistics by groups: `holdout.by("carrier").mean("arr_delay")`, `study.by("city", "smoker").median("age")`.

    Groups are the declared categories of a text column, or yes and no of a yes/no column or question. Each group's result
    is a statistic of its own, and all intervals are simultaneously valid.

    Args:
        ask: answers several statistics, in order.
        schema: of the study.
        columns: to divide by.
    """

    def __init__(self, ask: Callable[[Sequence[Statistic[Any]]], list[Any]], schema: Schema, columns: Sequence[str]) -> None:
        if not columns:
            raise QuestionError('by needs a column: by("city").')
        self._ask, self.columns = ask, tuple(columns)
        self._groups = [_groups(column, schema) for column in columns]
        count = 1
        for groups in self._groups:
            count *= len(groups)
        if count > _MOST_GROUPS:
            raise QuestionError(f"there would be {count:,} groups; at most {_MOST_GROUPS:,} are asked at once.")

    def ask(self, statistic: Statistic[R]) -> GroupTable:
        """The statistic for every group."""
        if "given" not in {field.name for field in fields(cast(Any, statistic))}:
            raise QuestionError(f"{statistic.name} has no groups. Expected a statistic with given=, such as eh.Mean.")
        own: str | None = getattr(statistic, "given", None)
        labels: list[tuple[str, ...]] = []
        statistics: list[Statistic[Any]] = []
        for combination in product(*self._groups):
            labels.append(tuple(label for label, _ in combination))
            parts = [*([own] if own else []), *(question for _, question in combination)]
            given = " AND ".join(parts) if len(parts) == 1 else " AND ".join(f"({part})" for part in parts)
            statistics.append(cast("Statistic[Any]", replace(cast(Any, statistic), given=given)))
        cells = tuple(self._ask(statistics))
        return GroupTable(_in_words(statistic, own), self.columns, tuple(labels), cells)

    share = shortcut(Share)
    mean = shortcut(Mean)
    ratio = shortcut(Ratio)
    median = shortcut(Median)
    quantile = shortcut(Quantile)
    variance = shortcut(Variance)
    correlation = shortcut(Correlation)

    def __repr__(self) -> str:
        return f"By({', '.join(self.columns)}: {' × '.join(str(len(groups)) for groups in self._groups)} groups)"


def _groups(column: str, schema: Schema) -> list[_Group]:
    """The groups of a column by what is declared; the private rows are not looked at."""
    name = column.strip('"')
    if name not in schema or schema[name].kind == "boolean":
        quoted = _quoted(name) if name in schema else column
        return [("yes", quoted), ("no", f"NOT ({quoted})")]
    declared = schema[name]
    if declared.kind == "text" and declared.categories:
        return [
            (category, f"{_quoted(name)} = '{category.replace(chr(39), chr(39) * 2)}'") for category in declared.categories
        ]
    what = "has no declared categories" if declared.kind == "text" else f"is a {declared.kind}"
    raise QuestionError(
        f"column {name!r} {what}, so there are no groups to name. Expected a text column with categories, or a yes/no "
        f'question such as "{name} > 40".'
    )


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


def _in_words(statistic: Statistic[Any], given: str | None) -> str:
    """Such as 'mean of bmi given smoker'."""
    about = getattr(statistic, "question", None) or getattr(statistic, "first", "")
    second = getattr(statistic, "second", None)
    level = f" {statistic.level:g}" if hasattr(statistic, "level") else ""
    return f"{statistic.name}{level} of {about}{f' and {second}' if second else ''}{f' given {given}' if given else ''}"
