"""What can be done with models and a test set: scores, readings, choices, verdicts, entries and their winner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import chain, count
from math import inf, isfinite, isnan, nan, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import ref

import numpy as np

from everhold.bounds import derived
from everhold.errors import PrivacyError, QuestionError, SettingError, require_number
from everhold.learn.entries import Entries, Entry, SealedEntry, Winner
from everhold.learn.forecasts import Forecast, choice_weights, held_out_forecast, needed_lead, shrunk
from everhold.learn.identity import digest_of
from everhold.learn.metrics import MetricValue, finished
from everhold.learn.score import ModelVerdict, Score, ScoreDifference
from everhold.learn.sides import Outputs, Sides, name_of, question, share_of, title_of
from everhold.progress import progress_bar
from everhold.queries.answer import Answer
from everhold.queries.disclosed import Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.learn.metrics import Metric, MetricContext, Part
    from everhold.queries.disclosed import Choice
    from everhold.queries.query import RowValues
    from everhold.session.holdout import Holdout
    from everhold.session.private_acts import PrivateActs

__all__ = ["Group", "ModelActs", "model_name", "outputs_of"]

_WINNER_SPEND = 0.75
"""What a winner's reading takes of the failure probability for claims if it is the first claim: often it is the only one."""

Way = Callable[[list["RowValues"]], "list[Answer]"]
"""Asks or reads questions, in order."""


class Group(NamedTuple):
    """A group of draws: its text, and which draws of the private and of the public side are in it."""

    text: str
    private: NDArray[np.bool_]
    public: NDArray[np.bool_]


class ModelActs:
    """Everything about models, in turns of a test set.

    Args:
        sides: the rows.
        entries: candidates that wait.
        pairs: whether draws are pairs of rows.
    """

    def __init__(self, sides: Sides, entries: Entries, *, pairs: bool) -> None:
        self.sides = sides
        self.entries = entries
        self._pairs = pairs
        self._asked: list[tuple[tuple[object, ...], list[ref[Any]], list[NDArray[Any]]]] = []
        self._in_hand: list[tuple[ref[Any], int, NDArray[Any]]] = []

    def titled(self, outputs: Outputs, model: Any, name: str | None = None) -> Outputs:
        """The same with the name that the record shows: one that was given, that of its entry, or the model as it prints."""
        number = self._number_of(outputs, model)
        if name is None:
            name = model_name(model) if number is None else self.entries[number].label
        return replace(outputs, title=_shown(name), entry=number)

    def _number_of(self, outputs: Outputs, model: Any) -> int | None:
        """The entry of a model, by what identifies it; of a model of its owner's code, by the object itself."""
        if outputs.name is not None:
            return next((one.entry.number for one in self.entries if one.outputs.name == outputs.name), None)
        known = [(number, public) for model_, number, public in self._in_hand if model_() is model]
        return next((number for number, public in reversed(known) if np.array_equal(public, outputs.public)), None)

    def asked_before(self, what: tuple[object, ...], models: Sequence[Any], outputs: Sequence[Outputs]) -> bool:
        """Whether the same objects of somebody's own code were asked about in the same way: that is charged again.

        Whether they are still the same models is checked by what they say of public rows; what they say of private rows is
        not a public fact.
        """
        if all(one.name is not None for one in outputs):
            return False
        known = any(
            past == what
            and all(one() is model for one, model in zip(refs, models, strict=True))
            and all(np.array_equal(one, out.public) for one, out in zip(publics, outputs, strict=True))
            for past, refs, publics in self._asked
            if len(refs) == len(models)
        )
        if not known:
            with suppress(TypeError):  # what cannot be referred to weakly is not known again
                self._asked.append((what, [ref(model) for model in models], [out.public for out in outputs]))
        return known

    def require_pairs(self, metric: Metric) -> None:
        """AUC has an interval only where rows are paired."""
        positive = self.sides.context.positive
        if metric.pairs and (not self._pairs or positive is None):
            raise SettingError(
                f"{metric.name} is about pairs of rows, one of them positive: make the test set with pairs=True"
                f"{'' if positive is not None else ' and positive=…'}. A choice by {metric.name} needs no pairs: "
                f"test.best_of(models, {metric.name!r})."
            )

    # scores and readings -------------------------------------------------------------------------------------------

    def ask(self, holdout: Holdout, metric: Metric, outputs: Outputs, group: Group | None, expect: float | None) -> Score:
        """A score as an ask: the forecast, where the private rows agree with it."""
        guess = self._guess(metric, group, expect)
        return self._score(metric, outputs, group, lambda asked: [holdout.ask(query, expect=guess) for query in asked])

    def read(
        self,
        holdout: Holdout,
        metric: Metric,
        outputs: Outputs,
        group: Group | None,
        expect: float | None,
        *,
        spend: float | None = None,
    ) -> Score:
        """A score as a reading; that of a winner that was read is returned again."""
        if group is None and (known := self._won(holdout, metric, outputs)) is not None:
            return known
        if expect is None and group is None and (same := self._entered(metric, outputs)) is not None:
            expect = self._foreseen(metric, same)
        guess = self._guess(metric, group, expect)
        if guess is not None:
            return self._score(
                metric, outputs, None, lambda asked: [holdout.read(query, expect=guess, spend=spend) for query in asked]
            )
        return self._score(metric, outputs, group, lambda asked: holdout.read_many(asked, spend=spend))

    def _entered(self, metric: Metric, outputs: Outputs) -> SealedEntry | None:
        """The entry of a model for a metric, by public facts: what identifies it, or the object that was entered."""
        same = self.entries.same_as(outputs, metric.name)
        if same is None and outputs.entry is not None and self.entries[outputs.entry].entry.metric == metric.name:
            same = self.entries[outputs.entry]
        return same

    def _won(self, holdout: Holdout, metric: Metric, outputs: Outputs) -> Score | None:
        """The winner's score, if a model is an entry that was read as the winner."""
        same = self.entries.same_as(outputs, metric.name)
        return None if same is None else self._recorded(holdout, metric, _identity(same))

    def _recorded(self, holdout: Holdout, metric: Metric, model: str | None) -> Score | None:
        """The reading of a model that is in the record."""
        program = metric.program(self.sides.context)
        count = len(next(program))
        past = [holdout.journal.read_as(name_of(metric, model, part)) for part in range(1, count + 1)]
        parts = [share_of(one.answer) for one in past if one is not None]
        return _score_of(metric, finished(program, parts), parts) if len(parts) == count else None

    def close(self, holdout: Holdout, metric: Metric, models: Sequence[Outputs]) -> list[Score]:
        """All scores in the last act."""
        self.require_pairs(metric)
        programs = [metric.program(self.sides.context) for _ in models]
        asked = [self.sides.questions(metric, next(program), out) for program, out in zip(programs, models, strict=True)]
        answers = [share_of(answer) for answer in holdout.close([query for batch in asked for query in batch])]
        scores, start = [], 0
        for program, batch in zip(programs, asked, strict=True):
            parts = answers[start : start + len(batch)]
            scores.append(_score_of(metric, finished(program, parts), parts))
            start += len(batch)
        return scores

    def _guess(self, metric: Metric, group: Group | None, expect: float | None) -> float | None:
        """What is foreseen of the only part of a plain mean, on the scale of its question."""
        if expect is None:
            return None
        if group is not None:
            raise SettingError("expect= is for the score of all rows. Leave it out where given= names a group.")
        if metric.loss is None:
            raise SettingError(
                f"expect= is for metrics that are plain means, and {metric.name} is made of several. Leave it out."
            )
        require_expected(metric, self.sides.context, expect)
        share = min(max(expect / metric.span(self.sides.context), 0.0), 1.0)
        return share if metric.name in ("accuracy", "error") and not self._pairs else 2.0 * share - 1.0

    def _score(self, metric: Metric, outputs: Outputs, group: Group | None, way: Way) -> Score:
        self.require_pairs(metric)
        program = metric.program(self.sides.context)
        metric_parts = next(program)
        if group is None:
            parts = [share_of(answer) for answer in way(self.sides.questions(metric, metric_parts, outputs))]
            return _score_of(metric, finished(program, parts), parts)
        parts, means = self._within(metric, metric_parts, outputs, group, way)
        found = finished(program, means)
        if any(isnan(mean.value) for mean in means):  # nobody is in the group: there is an interval, and no estimate
            found = replace(found, value=nan)
        return _score_of(metric, found, parts)

    def _within(
        self, metric: Metric, metric_parts: Sequence[Part], outputs: Outputs, group: Group, way: Way
    ) -> tuple[list[Answer], list[Answer]]:
        """What was asked, and means over the rows of a group, each from two questions."""
        asked = []
        for number, part in enumerate(metric_parts, 1):
            values = self.sides.values(part, outputs, pairs=False)
            for side, side_values in (
                ("of", values),
                ("the rest", [1.0 - np.asarray(value, np.float64) for value in values]),
            ):
                inside = [
                    np.where(mask, value, 0.0)
                    for value, mask in zip(side_values, (group.private, group.public), strict=True)
                ]
                name = None
                if outputs.name is not None:
                    name = f"{metric.name} of model {outputs.name}, part {number}, {side} given {group.text}"
                title = f"{title_of(metric, outputs, number if len(metric_parts) > 1 else None)}, {side} given {group.text}"
                asked.append(question(inside[0], inside[1], name, title))
        answers = [share_of(answer) for answer in way(asked)]
        return answers, [_mean_within(answers[index], answers[index + 1]) for index in range(0, len(answers), 2)]

    # choices and verdicts ------------------------------------------------------------------------------------------

    def best_of(
        self, holdout: Holdout, metric: Metric, models: Sequence[Outputs], weights: Sequence[float] | None
    ) -> Choice:
        """Which model is best on the private rows, and nothing else."""
        names = [f"model {index}: {one.title}" for index, one in enumerate(models, 1)]
        given = [Fraction(weight) for weight in weights] if weights is not None else [Fraction(1, len(models))] * len(models)
        if len(given) != len(models):
            raise QuestionError(f"weights has {len(given)} numbers for {len(models)} models. Expected one for each.")
        if min(given) <= 0:
            raise QuestionError(f"weights contains {float(min(given)):g}. Expected a positive number for each model.")
        if sum(given) > 1 + Fraction(1, 10**9):
            raise QuestionError(f"weights have the sum {float(sum(given)):g}. Expected at most 1.")
        whole = max(sum(given), Fraction(1))
        if holdout.privacy is not None:
            return self._choose_noisily(holdout, metric, names, models, [one / whole for one in given])
        shares = [weight / whole for weight in given]
        known = [one.name for one in models]
        again = None if None in known else f"best by {metric.name}: {digest_of(*known, *names, *map(str, shares))}"
        if (earlier := holdout.journal.requested_act(again)) is not None and earlier.done.interrupted:
            again = None
        return holdout.acts.choose(
            names,
            lambda index: self.sides.private_value(metric, models[index].private),
            shares,
            criterion=metric.name,
            asked_by=holdout.session.stamp(again, None),
        )

    def _choose_noisily(
        self, holdout: Holdout, metric: Metric, names: Sequence[str], models: Sequence[Outputs], weights: Sequence[Fraction]
    ) -> Choice:
        """By the sum of a plain mean, which one label moves by at most one row."""
        if metric.loss is None:
            raise PrivacyError(
                f"a private test set cannot choose by {metric.name}: one label can move it without a useful limit. "
                "Expected a plain mean: accuracy, error, brier, log_loss, mean_absolute_error or mean_squared_error. "
                "Nothing was charged."
            )
        loss = metric.loss(self.sides.context)
        goods = []
        for one in models:
            private, public = (np.asarray(side, np.float64) for side in self.sides.values(loss, one, pairs=False))
            good = (private, public) if metric.larger_is_better else (1.0 - private, 1.0 - public)
            goods.append(question(*good, None))
        return cast("PrivateActs", holdout.acts).choose_sum(names, goods, weights, criterion=metric.name)

    def compare(self, holdout: Holdout, metric: Metric, first: Outputs, second: Outputs) -> ModelVerdict:
        """Whether the first model is better in the population, certified."""
        loss = _loss(metric, self.sides)
        recognised = first.name is not None and second.name is not None
        again = f"{metric.name} of {first.name} against {second.name}" if recognised else None
        if recognised and first.name == second.name:
            return ModelVerdict(metric.name, "cannot tell", 0.0)
        mirrored = f"{metric.name} of {second.name} against {first.name}" if recognised else None
        if (earlier := holdout.journal.requested_act(mirrored)) is not None and not earlier.done.interrupted:
            return ModelVerdict.of(Verdict.from_dict(earlier.done.result), metric.name, not metric.larger_is_better)
        if metric.name in ("accuracy", "error") and not self._pairs and self._coins():
            firsts, seconds = (
                question(*self.sides.values(loss, one, pairs=False), None, title_of(metric, one)) for one in (first, second)
            )
            larger = holdout.compare(firsts, seconds, request_id=again)
        else:
            larger = holdout.acts.compare_difference(self.sides.difference(metric, first, second), again)
        return ModelVerdict.of(larger, metric.name, metric.larger_is_better)

    def _coins(self) -> bool:
        """Whether McNemar's test is proved: identically distributed rows, or two classes."""
        return not self.sides.transductive or len(self.sides.context.classes) == 2

    def difference(self, holdout: Holdout, metric: Metric, first: Outputs, second: Outputs) -> ScoreDifference:
        """How much better the first model is, read."""
        _loss(metric, self.sides)
        asked = self.sides.difference(metric, first, second)
        answers: tuple[Answer, ...] = ()
        mirrored = holdout.journal.read_as(self.sides.difference(metric, second, first).name)
        if first.name is not None and first.name == second.name:
            answer = Answer(0.0, 0.0, 0.0, False, 0, 0.0, "mean", "read")  # of a model and itself: known
        elif mirrored is not None:
            past = mirrored.answer
            answer = replace(past, value=0.0 - past.value, low=0.0 - past.high, high=0.0 - past.low)
            answers = (answer,)
        else:
            answer = holdout.read(asked)
            answers = (answer,)
        worth = metric.span(self.sides.context)
        value, low, high = (worth * number for number in (answer.value, answer.low, answer.high))
        return ScoreDifference(
            metric.name,
            value,
            low,
            high,
            answers,
            bottom=-worth,
            top=worth,
            larger_is_better=metric.larger_is_better,
        )

    # entries -------------------------------------------------------------------------------------------------------

    def candidate(
        self, metric: Metric, outputs: Outputs, model: Any, name: str | None, expect: float | None, folds: int
    ) -> SealedEntry:
        """A candidate with its forecast, not numbered yet. Cross-validation takes time, so this needs no turn."""
        if expect is not None:
            require_expected(metric, self.sides.context, expect)
        forecast, held_out = self._forecast(metric, outputs, model, expect, folds)
        if held_out is not None and len(self.sides.public_draws.index) == len(held_out):  # the pool has the rows' own labels
            outputs = replace(outputs, public=held_out)
        params = _params(model)
        return SealedEntry(
            Entry(0, name or self._short_name(model, params), metric.name, forecast, params), metric.output, outputs
        )

    def _short_name(self, model: Any, params: dict[str, Any] | None) -> str:
        """A model as it prints; one that prints long by what differs from the first entry of its kind."""
        text = model_name(model, params)
        if not text.endswith("...") or params is None:
            return text
        plain = _plain_params(params)
        kind = type(model).__name__
        first = next(
            (one.entry.params for one in self.entries if one.entry.params and one.entry.name.startswith(kind)), None
        )
        base = _defaults(model, params) if first is None else _plain_params(first)
        differing = [f"{key}={value}" for key, value in plain.items() if base.get(key) != value]
        return _cut(f"{kind}({', '.join(differing)})") if differing else text

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
            with suppress(TypeError):  # what cannot be referred to weakly is not known again
                self._in_hand.append((ref(model), number, public))
        return entry

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
        if metric.pairs and not self._pairs:
            return Forecast(0.5, 0, "prior"), None
        return Forecast(sides.prior_value(metric, outputs.public), 0, "prior"), None

    def winner(self, holdout: Holdout, metric: Metric, *, read: bool) -> Winner:
        """Choose among what was entered since the last choice and the champion; then read it."""
        judged, champion, generation = self._so_far(holdout, metric)
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
            choice = self._choose_generation(holdout, metric, candidates, before, weights, generation)
            champion, generation = candidates[choice.index].entry.number, generation + 1
        best = self.entries[champion]  # type: ignore[index]
        score = None
        if read and not (metric.pairs and not self._pairs):
            spend = _WINNER_SPEND if holdout.budget.spending.claims == 0 else None
            score = self._recorded(holdout, metric, best.outputs.name)
            if score is None:
                score = self.read(holdout, metric, _named(best), None, self._foreseen(metric, best), spend=spend)
        return Winner(best.entry, len(judged) + len(waiting), generation, score)

    def _choose_generation(
        self,
        holdout: Holdout,
        metric: Metric,
        candidates: Sequence[SealedEntry],
        before: SealedEntry | None,
        weights: Sequence[Fraction],
        generation: int,
    ) -> Choice:
        """The best of those who wait and of the champion so far, who comes last; with privacy, about the best of all."""
        names = [candidate.label for candidate in candidates]
        if holdout.privacy is not None:  # the champion is one more candidate, as probable as all others together
            shared = weights if before is None else [*(weight / 2 for weight in weights), Fraction(1, 2)]
            return self._choose_noisily(holdout, metric, names, [candidate.outputs for candidate in candidates], shared)
        leads = [0.0] * len(weights) if before is None else [*(needed_lead(weight, generation) for weight in weights), 0.0]
        return holdout.acts.choose(
            names,
            lambda index: self._goodness(metric, candidates[index], before, leads[index]),
            weights,
            criterion=metric.name,
            earlier_choices=generation,
        )

    def _weights(self, metric: Metric, waiting: Sequence[SealedEntry]) -> list[Fraction]:
        """Public weights of those who wait."""
        sign = 1.0 if metric.larger_is_better else -1.0
        return choice_weights([_known(sealed) for sealed in waiting], self._spread(metric, waiting), sign)

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
        champion, generation = None, 0
        for past, _ in holdout.session.journal.recorded_acts:
            begun, done = past.begun, past.done
            if begun.kind != "best_of" or begun.options.get("by") != metric.name or done.interrupted:
                continue
            numbers = [_number(entry["name"]) for entry in begun.asked]
            if None in numbers:
                continue
            judged |= {number for number in numbers if number is not None}
            champion, generation = numbers[int(done.outcome or 0)], generation + 1
        return judged, champion, generation

    def _spread(self, metric: Metric, waiting: Sequence[SealedEntry]) -> float:
        """The standard deviation of a private score less its forecast, as foreseen for the best candidates."""
        public = self.sides.public_draws.independent
        rows = 1.0 / (1.0 / self.sides.private_draws.independent + 1.0 / max(public, 1.0))
        known = sorted(value for sealed in waiting if (value := _known(sealed)) is not None)
        one_row = 0.5 * metric.span(self.sides.context)
        if known and metric.name in ("accuracy", "error"):
            tenth = max(len(known) // 10, 1)
            share = float(np.clip(np.mean(known[-tenth:] if metric.larger_is_better else known[:tenth]), 0.02, 0.98))
            one_row = sqrt(share * (1.0 - share))
        elif known and metric.loss is not None:
            one_row = min(one_row, float(np.median(np.abs(known))))
        return one_row / sqrt(rows)

    def _forecast_span(self, metric: Metric) -> float:
        """The span of a metric; of an error, what its forecasts are about."""
        span = metric.span(self.sides.context)
        values = self.entries.forecasts(metric.name)
        return span if metric.larger_is_better or not values else min(span, 4.0 * float(np.median(np.abs(values))))

    def _foreseen(self, metric: Metric, best: SealedEntry) -> float | None:
        """The forecast of an entry's reading: shrunk, because it is one of several."""
        forecast = best.entry.forecast
        if metric.loss is None or forecast.source == "prior":
            return None
        if forecast.source == "expected":
            return forecast.value
        return shrunk(forecast.value, self.entries.forecasts(metric.name), forecast.rows, self._forecast_span(metric))


def _known(sealed: SealedEntry) -> float | None:
    """A forecast that says something of one candidate among others."""
    return None if sealed.entry.forecast.source == "prior" else sealed.entry.forecast.value


def _named(sealed: SealedEntry) -> Outputs:
    """An entry's outputs, recognised by its number."""
    return Outputs(sealed.outputs.private, sealed.outputs.public, _identity(sealed), _shown(sealed.label))


def _identity(sealed: SealedEntry) -> str:
    return f"{sealed.outputs.name or ''}entry {sealed.entry.number}"


def _shown(name: str) -> str:
    """A name as a record can hold it, in a line."""
    said = " ".join(name.encode("utf-8", "replace").decode().split())
    return said if len(said) <= 240 else f"{said[:237]}..."


def _number(label: str | None) -> int | None:
    """The number of an entry, from what the record calls it."""
    head, _, _ = (label or "").partition(":")
    word, _, number = head.partition(" ")
    return int(number) if word == "entry" and number.isdigit() else None


def _score_of(metric: Metric, value: MetricValue, parts: Sequence[Answer]) -> Score:
    return Score(metric.name, value.value, value.low, value.high, tuple(parts), bottom=value.bottom, top=value.top)


def _mean_within(inside: Answer, rest: Answer) -> Answer:
    low, high = derived.ratio((inside.low, inside.high), (rest.low, rest.high))
    whole = inside.value + rest.value
    value = min(max(inside.value / whole, low), high) if whole > 0.0 else nan
    surprise = inside.surprise or rest.surprise
    return Answer(value, low, high, surprise, rest.round, rest.price, "share", act=rest.act)


def _loss(metric: Metric, sides: Sides) -> Part:
    if metric.loss is None:
        raise SettingError(
            f"{metric.name} is not a mean over rows, so two models cannot be compared by it. Expected 'accuracy', "
            "'error', 'brier', 'log_loss', 'mean_absolute_error' or 'mean_squared_error'."
        )
    return metric.loss(sides.context)


def require_expected(metric: Metric, context: MetricContext, expect: object) -> None:
    """Refuse a forecast that the metric cannot have, such as 92 for 0.92."""
    require_number(expect, "expect")
    value = float(cast(float, expect))
    low, high = (0.0, metric.span(context)) if metric.name != "r2" else (-inf, 1.0)
    if not (isfinite(value) and low <= value <= high):
        percent = f": {value / 100.0:g}, not {value:g}" if high == 1.0 and 1.0 < value <= 100.0 else ""
        raise SettingError(
            f"expect is {expect!r}. Expected a number from {low:g} to {high:.4g}, which {metric.name} can have{percent}."
        )


def _params(model: Any) -> dict[str, Any] | None:
    try:
        return dict(model.get_params()) if hasattr(model, "get_params") else None
    except Exception:
        return None


def _plain_params(params: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as they print, without models and lists of them."""
    return {
        key: " ".join(repr(value).split())
        for key, value in params.items()
        if not hasattr(value, "get_params") and key not in ("steps", "transformers", "estimators", "transformer_list")
    }


def _defaults(model: Any, params: Mapping[str, Any]) -> dict[str, str]:
    """What each part of a model has where nobody set it."""
    found: dict[str, str] = {}
    for prefix, part in [("", model), *((f"{key}__", value) for key, value in params.items())]:
        with suppress(Exception):
            found |= {f"{prefix}{key}": repr(value) for key, value in type(part)().get_params(deep=False).items()}
    return found


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."


def model_name(model: Any, params: dict[str, Any] | None = None) -> str:
    """A model in a line; one with parameters as it prints."""
    kind = getattr(model, "__name__", None) or type(model).__name__
    if params is None and not hasattr(model, "get_params"):
        return str(kind)
    try:
        text = " ".join(repr(model).split())
    except Exception:
        return str(kind)
    return _cut(text)


def outputs_of(acts: ModelActs, metric: Metric, models: Iterable[Any], names: Sequence[str] | None = None) -> list[Outputs]:
    """Predictions of several models."""
    if isinstance(models, Mapping):
        raise QuestionError(
            "the models are a dict. Expected a list, and their names: list(models.values()), names=list(models)."
        )
    if hasattr(models, "predict") or callable(models) or not isinstance(models, Iterable):
        raise QuestionError(f"a {type(models).__name__} is given where a list of models is needed. Expected [model].")
    given = list(models)
    if not given:
        raise QuestionError("there are no models. Expected a list of fitted models.")
    if names is not None and (isinstance(names, str) or len(names) != len(given)):
        raise QuestionError(f"names is {names!r}. Expected a list with one name for each of the {len(given)} models.")
    called: Sequence[str | None] = names or [None] * len(given)
    with progress_bar("Predicting", len(given)) as bar:
        return [
            acts.titled(acts.sides.outputs(model, metric), model, name)
            for model, name in zip(bar.over(given), called, strict=True)
        ]
