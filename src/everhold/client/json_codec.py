"""What is told, as JSON and back. Numbers survive the way to the last bit: JSON carries Python's shortest exact digits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from everhold.contest.contest import Board, Submission
from everhold.data.schema import ColumnSchema
from everhold.learn.score import Score
from everhold.ledger.reader import LoggedRound
from everhold.queries.answer import Answer, Preview
from everhold.statistics.finding import Comparison, Finding, Shares

__all__ = [
    "Result",
    "board_out",
    "column_out",
    "found_in",
    "found_out",
    "preview_in",
    "preview_out",
    "submission_in",
    "submission_out",
    "told_in",
    "told_out",
]

Result = Answer | Finding | Shares


def found_out(found: Result) -> dict[str, Any]:
    """An answer, a finding, a comparison or a table, ready for JSON."""
    if isinstance(found, Shares):
        cells = [{"label": list(label), **found_out(cell)} for label, cell in found]
        return {"kind": "shares", "what": found.what, "cells": cells}
    told: dict[str, Any] = {
        "value": found.value if found.value == found.value else None,
        "low": found.low,
        "high": found.high,
        "surprise": found.surprise,
        "round": found.round,
        "spent": found.spent,
    }
    if isinstance(found, Answer):
        return {"kind": "answer", **told, "scale": found.scale}
    parts = [found_out(part) for part in found.parts]
    if isinstance(found, Comparison):
        return {"kind": "comparison", "what": found.what, "verdict": found.verdict, **told, "parts": parts}
    return {"kind": "finding", "what": found.what, **told, "unit": found.unit, "parts": parts}


def found_in(told: dict[str, Any]) -> Result:
    """The same from JSON.

    >>> answer = Answer(0.1, 0.05, 0.30000000000000004, False, 3, 5.1, "share")
    >>> import json
    >>> found_in(json.loads(json.dumps(found_out(answer)))) == answer
    True
    """
    if told["kind"] == "shares":
        labels = tuple(tuple(cell["label"]) for cell in told["cells"])
        return Shares(told["what"], labels, tuple(_cell(cell) for cell in told["cells"]))
    return _cell(told)


def _cell(told: dict[str, Any]) -> Answer | Finding:
    if told["kind"] == "answer":
        return _answer(told)
    kind = Comparison if told["kind"] == "comparison" else Finding
    parts = tuple(_answer(part) for part in told["parts"])
    value = float("nan") if told["value"] is None else float(told["value"])
    return kind(told["what"], value, float(told["low"]), float(told["high"]), parts, told.get("unit", "number"))


def _answer(told: dict[str, Any]) -> Answer:
    value, low, high, spent = (float(told[name]) for name in ("value", "low", "high", "spent"))
    return Answer(value, low, high, told["surprise"], told["round"], spent, told["scale"])


def preview_out(preview: Preview) -> dict[str, Any]:
    """What the public side says."""
    names = ("prior", "sketch", "low", "high", "tolerance", "scale", "spent", "surprise_costs")
    return {name: getattr(preview, name) for name in names}


def preview_in(told: dict[str, Any]) -> Preview:
    """The same from JSON."""
    numbers = {name: float(value) for name, value in told.items() if name != "scale"}
    return Preview(**numbers, scale=told["scale"])


def column_out(column: ColumnSchema) -> dict[str, Any]:
    """A declared column."""
    names = ("name", "kind", "whole", "missing")
    low, high = column.ends_text
    return {
        **{name: getattr(column, name) for name in names},
        "low": low if column.kind == "date" else column.low,
        "high": high if column.kind == "date" else column.high,
        "categories": list(column.categories),
    }


def told_out(one: LoggedRound) -> dict[str, Any]:
    """A round of the record."""
    answer = one.answer
    return {
        "round": answer.round,
        "question": one.question,
        "value": answer.value,
        "low": answer.low,
        "high": answer.high,
        "surprise": answer.surprise,
        "spent": answer.spent,
        "scale": answer.scale,
        "time": one.time,
        "who": one.who,
        "request_id": one.request,
    }


def told_in(told: dict[str, Any]) -> LoggedRound:
    """The same from JSON."""
    return LoggedRound(_answer(told), told["question"], told["time"], told["who"], told["request_id"])


def submission_out(found: Submission) -> dict[str, Any]:
    """What became of a submission."""
    shown: dict[str, Any] = {
        name: getattr(found, name) for name in ("entrant", "state", "reason", "improved", "row", "column")
    }
    if (score := found.score) is not None:
        numbers = ("low", "high", "round", "surprise", "spent", "metric", "top")
        shown |= {"score": score.value, **{name: getattr(score, name) for name in numbers}}
    return shown


def submission_in(told: dict[str, Any]) -> Submission:
    """The same from JSON."""
    score = None
    if told.get("score") is not None:
        span = float(told["top"])
        numbers = (float(told[name]) for name in ("score", "low", "high"))
        value, low, high = numbers
        share = Answer(
            value / span, low / span, high / span, told["surprise"], told["round"], float(told["spent"]), "share"
        )
        score = Score(
            value, low, high, share.surprise, share.round, share.spent, "share", told["metric"], (share,), 0.0, span
        )
    return Submission(
        told["entrant"], told["state"], told["reason"], score, told["improved"], told["row"], told["column"]
    )


def board_out(board: Board, *, whole: bool = True) -> dict[str, Any]:
    """A contest's board; not whole: without what would tell of submissions that the ladder keeps to itself."""
    return {
        "title": board.rules.title,
        "metric": board.rules.metric,
        "larger_is_better": board.rules.larger_is_better,
        "places": [asdict(place) for place in board.places],
        "unranked": [{"entrant": entrant, "reason": reason} for entrant, reason in board.unranked],
        "reveals": board.rules.reveals,
        "head": board.head if whole else None,
        "spent": board.spent if whole else None,
    }
