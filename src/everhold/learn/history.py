"""The scores that a test set has returned in this process: a list that is also a table and a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from typing import Any

from everhold.learn.score import Score
from everhold.results import Tabular, html_table

__all__ = ["History", "ScoredModel"]


@dataclass(frozen=True, slots=True)
class ScoredModel:
    """One score.

    Attributes:
        act: 'score', 'read', 'difference', 'winner' or 'close'.
        model: the model, in words.
        score: what was returned.
    """

    act: str
    model: str
    score: Score


class History(list[ScoredModel], Tabular):
    """Scores in the order in which they were returned. `test.holdout.findings()` is the record of all that was asked."""

    __slots__ = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """A line for each score."""
        return [
            {
                "number": number,
                "act": entry.act,
                "model": entry.model,
                "metric": entry.score.metric,
                "value": entry.score.value,
                "low": entry.score.low,
                "high": entry.score.high,
                "source": entry.score.source,
                "forecast_only": entry.score.source == "forecast only",
                "surprise": entry.score.surprise,
                "round": entry.score.round,
                "price": entry.score.price,
            }
            for number, entry in enumerate(self, 1)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "kind": "history",
            "scores": [{"act": entry.act, "model": entry.model, **entry.score.to_dict()} for entry in self],
        }

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def _repr_html_(self) -> str:
        rows = [
            [escape(text) for text in (str(n), entry.act, entry.model, entry.score.metric, entry.score.value_text,
                                       str(entry.score.interval), entry.score.source)]
            for n, entry in enumerate(self, 1)
        ]  # fmt: skip
        return html_table(["", "act", "model", "metric", "value", "interval", ""], rows)

    def plot(self, ax: Any = None) -> Any:
        """A forest plot of the scores, which should have one metric. Needs matplotlib (`everhold[plot]`)."""
        from everhold.plots import forest

        names = [f"{entry.act}: {entry.model}" for entry in self]
        return forest([entry.score for entry in self], labels=names, title=self[-1].score.metric if self else "", ax=ax)
