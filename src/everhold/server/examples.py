"""Questions to start from: one for each column, from its usual value among the public rows."""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.queries.expression.values import iso

if TYPE_CHECKING:
    from everhold.data.schema import ColumnSchema, Schema
    from everhold.data.table import RowTable

__all__ = ["examples"]


def examples(schema: Schema, reference: RowTable, weights: Any = None) -> dict[str, str]:
    """A question about each column, from its usual value among the public rows; no private row has a part in it.

    The usual value is the median of numbers and dates, and the most frequent text. A column whose declared range does not
    contain it, or that has no public values, gets a question from what is declared.
    """
    return {name: _example(schema[name], _usual(schema[name], reference, weights)) for name in schema}


def _usual(column: ColumnSchema, reference: RowTable, weights: Any) -> Any:
    """What is usual in a column of the public rows: a median, or the most frequent text; None where nothing is."""
    if column.kind == "boolean" or column.name not in reference or reference.kind(column.name) != column.kind:
        return None
    encoded = reference.column(column.name)
    there = ~encoded.missing
    if not there.any():
        return None
    values = encoded.values[there]
    weight = np.ones(len(values))
    if weights is not None and len(weights) == len(there):
        weight = np.asarray(weights, dtype=float)[there]
    if column.kind == "text":
        counts = np.bincount(values.astype(np.int64), weights=weight, minlength=len(encoded.words))
        return encoded.words[int(counts.argmax())]
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    return float(values[order][int(np.searchsorted(below, 0.5 * below[-1]))])


def _example(column: ColumnSchema, usual: Any) -> str:
    """A question about a column."""
    name = column.name if column.name.isidentifier() else f'"{column.name}"'
    if column.kind == "boolean":
        return name
    if column.kind == "text":
        word = usual if usual in column.categories else column.categories[0] if column.categories else None
        return f"{name} IS NOT NULL" if word is None else f"{name} = '{word.replace(chr(39), chr(39) * 2)}'"
    if column.kind == "date":
        ends = None if column.low is None or column.high is None else 0.5 * (column.low + column.high)
        moment = ends if usual is None else usual
        return f"{name} IS NOT NULL" if moment is None else f"{name} >= '{iso(moment)[:10]}'"
    if usual is None or not (column.low is None or column.high is None or column.low < usual < column.high):
        usual = 0.0 if column.low is None or column.high is None else 0.5 * (column.low + column.high)
    return f"{name} > {_round(usual, column)}"


def _round(value: float, column: ColumnSchema) -> str:
    """A number that people would type: whole where the column is, else with two digits of the range's size."""
    if column.whole:
        return f"{round(value)}"
    span = abs(value) if column.low is None or column.high is None else column.high - column.low
    digits = 1 - floor(log10(span)) if span > 0.0 else 0
    rounded = round(value, digits)
    return f"{rounded:.{max(digits, 0)}f}".rstrip("0").rstrip(".") if digits > 0 else f"{rounded:.0f}"
