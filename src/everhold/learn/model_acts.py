"""What can be done with models and a test set: scores, readings, choices, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import ref

import numpy as np

from everhold.bounds import derived
from everhold.errors import PrivacyError, QuestionError, SettingError, require_number
from everhold.learn.entries import Entries, SealedEntry
from everhold.learn.forecasts import shrunk
from everhold.learn.identity import digest_of
from everhold.learn.metrics import MetricValue, finished
from everhold.learn.model_names import in_a_line, model_name
from everhold.learn.score import ModelVerdict, Score, ScoreDifference
from everhold.learn.sides import Outputs, Sides, name_of, question, share_of, title_of
from everhold.progress import progress_bar
from everhold.queries.answer import Answer
from everhold.queries.disclosed import Verdict
from everhold.session.private_acts import PrivateActs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.learn.metrics import Metric, MetricContext, Part
    from everhold.queries.disclosed import Choice
    from everhold.queries.query import RowValues
    from everhold.session.holdout import Holdout

__all__ = ["Group", "ModelActs", "outputs_of", "require_expect_possible"]

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
        self.pairs = pairs
        self._asked: list[tuple[tuple[object, ...], list[ref[Any]], list[NDArray[Any]]]] = []
        self._in_hand: list[tuple[ref[Any], int, NDArray[Any]]] = []

    def titled(self, outputs: Outputs, model: Any, name: str | None = None) -> Outputs:
        """The same with the name that the record shows: one that was given, that of its entry, or the model as it prints."""
        number = self._number_of(outputs, model)
        if name is None:
            name = model_name(model) if number is None else self.entries[number].label
        return replace(outputs, title=in_a_line(name), entry=number)

    def _number_of(self, outputs: Outputs, model: Any) -> int | None:
        """The entry of a model, by what identifies it; of a model of its owner's code, by the object itself."""
        if outputs.name is not None:
            return next((one.entry.number for one in self.entries if one.outputs.name == outputs.name), None)
        known = [(number, public) for model_, number, public in self._in_hand if model_() is model]
        return next((number for number, public in reversed(known) if np.array_equal(public, outputs.public)), None)

    def remember(self, model: Any, number: int, public: NDArray[Any]) -> None:
        """Know a model of its owner's code again as the entry with this number."""
        with suppress(TypeError):  # what cannot be referred to weakly is not known again
            self._in_hand.append((ref(model), number, public))

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
        if metric.pairs and (not self.pairs or positive is None):
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
            expect = self.foreseen(metric, same)
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
        return None if same is None else self.recorded(holdout, metric, same.identity)

    def recorded(self, holdout: Holdout, metric: Metric, model: str | None) -> Score | None:
        """The reading of a model that is in the record."""
        program = metric.program(self.sides.context)
        count = len(next(program))
        past = [holdout.journal.narrowest_reading(name_of(metric, model, part)) for part in range(1, count + 1)]
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
        require_expect_possible(metric, self.sides.context, expect)
        share = min(max(expect / metric.span(self.sides.context), 0.0), 1.0)
        return share if metric.name in ("accuracy", "error") and not self.pairs else 2.0 * share - 1.0

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
        asked, span = [], self.sides.span_of(metric)
        for number, part in enumerate(metric_parts, 1):
            values = self.sides.values(part, outputs, pairs=False)
            rest = [1.0 - np.asarray(value, np.float64) for value in values]
            plain = title_of(metric, outputs, number if len(metric_parts) > 1 else None)
            for side, side_values, measured in (("of", values, plain), ("the rest", rest, f"{span:g} - {plain}")):
                inside = [
                    np.where(mask, value, 0.0)
                    for value, mask in zip(side_values, (group.private, group.public), strict=True)
                ]
                name = None
                if outputs.name is not None:
                    name = f"{metric.name} of model {outputs.name}, part {number}, {side} given {group.text}"
                title = f"{measured} where {group.text}, else 0, over all rows"
                asked.append(question(inside[0], inside[1], name, title, span=span))
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
        if isinstance(holdout.acts, PrivateActs):
            return self.choose_noisily(holdout.acts, metric, names, models, [one / whole for one in given])
        shares = [weight / whole for weight in given]
        known = [one.name for one in models]
        again = None if None in known else f"best by {metric.name}: {digest_of(*known, *names, *map(str, shares))}"
        if (earlier := holdout.journal.act_of_request(again)) is not None and earlier.done.interrupted:
            again = None
        return holdout.acts.choose(
            names,
            lambda index: self.sides.private_value(metric, models[index].private),
            shares,
            criterion=metric.name,
            asked_by=holdout.session.stamp(again, None),
        )

    def choose_noisily(
        self, acts: PrivateActs, metric: Metric, names: Sequence[str], models: Sequence[Outputs], weights: Sequence[Fraction]
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
        return acts.choose_sum(names, goods, weights, criterion=metric.name)

    def compare(self, holdout: Holdout, metric: Metric, first: Outputs, second: Outputs) -> ModelVerdict:
        """Whether the first model is better in the population, certified."""
        loss = _loss(metric, self.sides)
        recognised = first.name is not None and second.name is not None
        again = f"{metric.name} of {first.name} against {second.name}" if recognised else None
        if recognised and first.name == second.name:
            return ModelVerdict(metric.name, "cannot tell", 0.0)
        mirrored = f"{metric.name} of {second.name} against {first.name}" if recognised else None
        if (earlier := holdout.journal.act_of_request(mirrored)) is not None and not earlier.done.interrupted:
            return ModelVerdict.of(Verdict.from_dict(earlier.done.result), metric.name, not metric.larger_is_better)
        if metric.name in ("accuracy", "error") and not self.pairs and self._coins():
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
        mirrored = holdout.journal.narrowest_reading(self.sides.difference(metric, second, first).name)
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

    def _forecast_span(self, metric: Metric) -> float:
        """The span of a metric; of an error, what its forecasts are about."""
        span = metric.span(self.sides.context)
        values = self.entries.forecasts(metric.name)
        return span if metric.larger_is_better or not values else min(span, 4.0 * float(np.median(np.abs(values))))

    def foreseen(self, metric: Metric, best: SealedEntry) -> float | None:
        """The forecast of an entry's reading: shrunk, because it is one of several."""
        forecast = best.entry.forecast
        if metric.loss is None or forecast.source == "prior":
            return None
        if forecast.source == "expected":
            return forecast.value
        return shrunk(forecast.value, self.entries.forecasts(metric.name), forecast.rows, self._forecast_span(metric))


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


def require_expect_possible(metric: Metric, context: MetricContext, expect: object) -> None:
    """Refuse a forecast that the metric cannot have, such as 92 for 0.92."""
    require_number(expect, "expect")
    value = float(cast(float, expect))
    low, high = (0.0, metric.span(context)) if metric.name != "r2" else (-inf, 1.0)
    if not (isfinite(value) and low <= value <= high):
        percent = f": {value / 100.0:g}, not {value:g}" if high == 1.0 and 1.0 < value <= 100.0 else ""
        raise SettingError(
            f"expect is {expect!r}. Expected a number from {low:g} to {high:.4g}, which {metric.name} can have{percent}."
        )


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
