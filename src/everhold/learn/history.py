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
                "act": one.act,
                "model": one.model,
                "metric": one.score.metric,
                "value": one.score.value,
                "low": one.score.low,
                "high": one.score.high,
                "forecast_only": one.score.is_forecast,
                "surprise": one.score.surprise,
                "round": one.score.round,
                "price": one.score.price,
            }
            for number, one in enumerate(self, 1)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "kind": "history",
            "scores": [{"act": one.act, "model": one.model, **one.score.to_dict()} for one in self],
        }

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def _repr_html_(self) -> str:
        rows = [
            [escape(text) for text in (str(n), one.act, one.model, one.score.metric, f"{one.score.value:.4g}",
                                       str(one.score.interval), "forecast only" if one.score.is_forecast else "")]
            for n, one in enumerate(self, 1)
        ]  # fmt: skip
        return html_table(["", "act", "model", "metric", "value", "interval", ""], rows)

    def plot(self, ax: Any = None) -> Any:
        """A forest plot of the scores, which should have one metric. Needs matplotlib (`everhold[plot]`)."""
        from everhold.plots import forest

        names = [f"{one.act}: {one.model}" for one in self]
        return forest([one.score for one in self], labels=names, title=self[-1].score.metric if self else "", ax=ax)
