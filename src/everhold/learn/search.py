"""A search: candidates are entered sealed, and the best of them is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, count
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QuestionError
from everhold.learn.entries import Entry, SealedEntry, Winner, number_of
from everhold.learn.forecasts import Forecast, choice_weights, held_out_forecast, needed_lead
from everhold.learn.model_acts import require_expect_possible
from everhold.learn.model_names import params_of, short_name
from everhold.session.private_acts import PrivateActs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.learn.metrics import Metric
    from everhold.learn.model_acts import ModelActs
    from everhold.learn.sides import Outputs
    from everhold.queries.disclosed import Choice
    from everhold.session.holdout import Holdout

__all__ = ["Search"]

_WINNER_SPEND = 0.75
"""What a winner's reading takes of the failure probability for claims if it is the first claim: often it is the only one."""


class Search:
    """The entries of a test set, and the choices among them.

    Args:
        acts: what can be done with models.
    """

    def __init__(self, acts: ModelActs) -> None:
        self._acts = acts
        self.entries, self.sides = acts.entries, acts.sides

    def candidate(
        self, metric: Metric, outputs: Outputs, model: Any, name: str | None, expect: float | None, folds: int
    ) -> SealedEntry:
        """A candidate with its forecast, not numbered yet. Cross-validation takes time, so this needs no turn."""
        if expect is not None:
            require_expect_possible(metric, self.sides.context, expect)
        forecast, held_out = self._forecast(metric, outputs, model, expect, folds)
        if held_out is not None and len(self.sides.public_draws.index) == len(held_out):  # the pool has the rows' own labels
            outputs = replace(outputs, public=held_out)
        params = params_of(model)
        called = name or short_name(model, params, self._first_params(type(model).__name__))
        return SealedEntry(Entry(0, called, metric.name, forecast, params), metric.output, outputs)

    def enter(self, candidate: SealedEntry, model: Any, public: NDArray[Any]) -> Entry:
        """Keep a candidate sealed, in a turn, unless the same model was entered before.

        Args:
            candidate: sealed.
            model, public: itself, and what it predicts of the public rows, to know it again.
        """
        same = self.entries.same_as(candidate.outputs, candidate.entry.metric)
        if same is not None:
            return same.entry
        number = len(self.entries) + 1
        entry = replace(candidate.entry, number=number, name=self._unlike(candidate.entry))
        self.entries.add(SealedEntry(entry, candidate.output, candidate.outputs))
        if candidate.outputs.name is None:
            self._acts.remember(model, number, public)
        return entry

    def _first_params(self, kind: str) -> dict[str, Any] | None:
        """Of the first entry of this kind."""
        return next((one.entry.params for one in self.entries if one.entry.params and one.entry.name.startswith(kind)), None)

    def _unlike(self, entry: Entry) -> str:
        """A name that no other entry for its metric has."""
        taken = {one.entry.name for one in self.entries if one.entry.metric == entry.metric}
        names = chain([entry.name], (f"{entry.name} ({place})" for place in count(2)))
        return next(name for name in names if name not in taken)

    def _forecast(
        self, metric: Metric, outputs: Outputs, model: Any, expect: float | None, folds: int
    ) -> tuple[Forecast, NDArray[Any] | None]:
        """The best forecast that public facts give: the owner's, held-out predictions, or the prior."""
        sides = self.sides
        held_out = held_out_forecast(
            model, metric, sides.context, sides.public, sides.public_labels, folds if expect is None else 0
        )
        if expect is not None:
            return Forecast(float(expect), 0, "expected"), None if held_out is None else held_out[1]
        if held_out is not None:
            return held_out
        if metric.pairs and not self._acts.pairs:
            return Forecast(0.5, 0, "prior"), None
        return Forecast(sides.prior_value(metric, outputs.public), 0, "prior"), None

    def winner(self, holdout: Holdout, metric: Metric, *, read: bool) -> Winner:
        """Choose among what was entered since the last choice and the champion; then read it."""
        judged, champion, earlier = self._so_far(holdout, metric)
        waiting = [
            sealed for sealed in self.entries if sealed.entry.metric == metric.name and sealed.entry.number not in judged
        ]
        if champion is None and not waiting:
            raise QuestionError(
                f"no model was entered for {metric.name}. Enter candidates first: test.enter(model), or "
                "scoring=test.scorer() in a search."
            )
        if waiting:
            before = None if champion is None else self.entries[champion]
            candidates = waiting if before is None else [*waiting, before]
            weights = self._weights(metric, waiting)
            choice = self._choose_generation(holdout, metric, candidates, before, weights, earlier)
            champion, earlier = candidates[choice.index].entry.number, earlier + 1
        best = self.entries[champion]  # type: ignore[index]
        score = None
        if read and not (metric.pairs and not self._acts.pairs):
            spend = _WINNER_SPEND if holdout.budget.spending.claims == 0 else None
            score = self._acts.recorded(holdout, metric, best.outputs.name)
            if score is None:
                score = self._acts.read(
                    holdout, metric, best.identified, None, self._acts.foreseen(metric, best), spend=spend
                )
        return Winner(best.entry, len(judged) + len(waiting), earlier, score)

    def _choose_generation(
        self,
        holdout: Holdout,
        metric: Metric,
        candidates: Sequence[SealedEntry],
        before: SealedEntry | None,
        weights: Sequence[Fraction],
        earlier: int,
    ) -> Choice:
        """The best of those who wait and of the champion so far, who comes last; with privacy, about the best of all."""
        names = [candidate.label for candidate in candidates]
        if isinstance(holdout.acts, PrivateActs):  # the champion is one more candidate, as probable as all others together
            shared = weights if before is None else [*(weight / 2 for weight in weights), Fraction(1, 2)]
            return self._acts.choose_noisily(
                holdout.acts, metric, names, [candidate.outputs for candidate in candidates], shared
            )
        leads = [0.0] * len(weights) if before is None else [*(needed_lead(weight, earlier) for weight in weights), 0.0]
        return holdout.acts.choose(
            names,
            lambda index: self._goodness(metric, candidates[index], before, leads[index]),
            weights,
            criterion=metric.name,
            earlier_choices=earlier,
        )

    def _weights(self, metric: Metric, waiting: Sequence[SealedEntry]) -> list[Fraction]:
        """Public weights of those who wait."""
        sign = 1.0 if metric.larger_is_better else -1.0
        return choice_weights([sealed.own_forecast for sealed in waiting], self._spread(metric, waiting), sign)

    def _goodness(self, metric: Metric, candidate: SealedEntry, champion: SealedEntry | None, lead: float) -> float:
        """A candidate's value on the private rows, minus the lead that it needs over a champion.

        Of 200 neighbours of a champion, some are better on the same rows by luck. To name one of them discloses much and
        gains little.
        """
        private = candidate.outputs.private
        value = self.sides.private_value(metric, private)
        if champion is None or candidate is champion:
            return value
        return value - lead * self.sides.private_error(metric, private, champion.outputs.private)

    def _so_far(self, holdout: Holdout, metric: Metric) -> tuple[set[int], int | None, int]:
        """By the record: entries that were judged, the champion, and how many choices there were."""
        judged: set[int] = set()
        champion, earlier = None, 0
        for past, _ in holdout.session.journal.recorded_acts:
            begun, done = past.begun, past.done
            if begun.kind != "best_of" or begun.options.get("by") != metric.name or done.interrupted:
                continue
            numbers = [number_of(entry["name"]) for entry in begun.asked]
            if None in numbers:
                continue
            judged |= {number for number in numbers if number is not None}
            champion, earlier = numbers[int(done.outcome or 0)], earlier + 1
        return judged, champion, earlier

    def _spread(self, metric: Metric, waiting: Sequence[SealedEntry]) -> float:
        """The standard deviation of a private score less its forecast, as foreseen for the best candidates."""
        public = self.sides.public_draws.independent
        rows = 1.0 / (1.0 / self.sides.private_draws.independent + 1.0 / max(public, 1.0))
        known = sorted(value for sealed in waiting if (value := sealed.own_forecast) is not None)
        one_row = 0.5 * metric.span(self.sides.context)
        if known and metric.name in ("accuracy", "error"):
            tenth = max(len(known) // 10, 1)
            share = float(np.clip(np.mean(known[-tenth:] if metric.larger_is_better else known[:tenth]), 0.02, 0.98))
            one_row = sqrt(share * (1.0 - share))
        elif known and metric.loss is not None:
            one_row = min(one_row, float(np.median(np.abs(known))))
        return one_row / sqrt(rows)
