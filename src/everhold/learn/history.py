"""The scores that a test set has returned in this process: a list that is also a table and a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from typing import Any

from everhold.errors import SettingError, did_you_mean
from everhold.learn.score import Score, ScoreDifference
from everhold.results import Tabular, html_table

__all__ = ["History", "ScoredModel"]


_NOTHING = "[]: nothing was scored in this process. test.holdout.findings() has everything that the record holds."


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

    def __repr__(self) -> str:
        if not self:
            return _NOTHING
        return "\n".join(
            f"{number:>4,}  {entry.act:<10} {entry.model}: {entry.score}" for number, entry in enumerate(self, 1)
        )

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
        if not self:
            return f"<p>{escape(_NOTHING)}</p>"
        rows = [
            [escape(text) for text in (str(n), entry.act, entry.model, entry.score.metric, entry.score.value_text,
                                       str(entry.score.interval), entry.score.source)]
            for n, entry in enumerate(self, 1)
        ]  # fmt: skip
        return html_table(["", "act", "model", "metric", "value", "interval", ""], rows)

    def plot(self, ax: Any = None, *, metric: str | None = None) -> Any:
        """A forest plot of the scores, with a panel for each metric. Needs matplotlib (`everhold[plot]`).

        A hollow mark is a forecast, or partly one. Returns the axes, those of the first panel where there are several.

        Args:
            ax: matplotlib's axes to draw one metric in; by default a new figure.
            metric: the only one to draw; all of them when left out.
        """
        from everhold.plots import forest, legend, panels

        if not self:
            raise SettingError("nothing was scored in this process. Expected scores: test.score(model), test.read(model).")
        there = list(dict.fromkeys(entry.score.metric for entry in self))
        if metric is not None and metric not in there:
            raise SettingError(f"no score here is {metric!r}.{did_you_mean(metric, there)} Scores are: {', '.join(there)}.")
        chosen = [entry for entry in self if metric is None or entry.score.metric == metric]
        titles = list(dict.fromkeys(_panel(entry) for entry in chosen))
        if ax is not None and len(titles) > 1:
            raise SettingError(f"ax= has room for one metric, and there are {', '.join(titles)}. Choose one: metric='…'.")
        shown = [[entry for entry in chosen if _panel(entry) == title] for title in titles]
        axes = panels([len(group) for group in shown]) if ax is None else [ax]
        for name, group, panel in zip(titles, shown, axes, strict=True):
            names = [f"{entry.act}: {entry.model}" for entry in group]
            forest([entry.score for entry in group], labels=names, title=name, ax=panel)
        legend(axes[-1], list(dict.fromkeys(entry.score.source for group in shown for entry in group)))
        return axes[0]


def _panel(entry: ScoredModel) -> str:
    """What shares an axis: scores by one metric; differences have an axis of their own."""
    return f"difference in {entry.score.metric}" if isinstance(entry.score, ScoreDifference) else entry.score.metric
