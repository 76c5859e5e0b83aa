"""Metrics as programs of linear questions.

A metric yields *parts*: functions of a model's output and the label, row by row, with values in [0, 1]. It receives their
answers and returns a value with an interval that is valid whenever those of the parts are (`docs/theory/derived.md`). So
every score uses the private rows only through means of numbers in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from math import fsum, log
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.bounds import derived
from everhold.errors import SettingError, did_you_mean
from everhold.queries.answer import Answer

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["METRICS", "Metric", "MetricContext", "MetricValue", "Part", "find", "finished", "measured"]

Output = Literal["labels", "probabilities", "scores", "values"]
Task = Literal["classification", "regression"]
Part = Callable[[Any, Any], Any]
"""A function from a model's output and the labels of many rows to values in [0, 1], or to booleans."""
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class MetricContext:
    """What a metric may use. All of it is public.

    Attributes:
        classes: the possible labels of a classification.
        positive: the class for precision, recall and F1; None: the mean over all classes.
        low, high: the declared range of a regression's labels.
        least: the log loss counts smaller probabilities as this.
        centre: about where the mean of a regression's labels lies, as a share of the range.
    """

    classes: NDArray[Any]
    positive: Any
    low: float
    high: float
    least: float
    centre: float = 0.5

    def positives(self) -> list[Any]:
        """The classes to average over."""
        return list(self.classes) if self.positive is None else [self.positive]

    def scaled(self, values: Any) -> NDArray[np.float64]:
        """A regression's numbers scaled to [0, 1]; numbers outside the range count as its nearest end."""
        scaled = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        return np.clip(scaled, 0.0, 1.0)

    def off(self, out: Any, y: Any) -> NDArray[np.float64]:
        """The error of a prediction as a share of the range; 1 if it is not a number."""
        return np.nan_to_num(np.abs(self.scaled(out) - self.scaled(y)), nan=1.0)

    def of_label(self, probabilities: Any, y: Any) -> NDArray[np.float64]:
        """The model's probability for the label."""
        table = np.clip(np.nan_to_num(np.asarray(probabilities, dtype=np.float64), nan=0.0), 0.0, 1.0)
        probability = np.zeros(len(table))
        for k, label in enumerate(self.classes):
            probability = np.where(y == label, table[:, k], probability)
        return probability


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A metric's value and interval, and the range of possible values."""

    value: float
    low: float
    high: float
    bottom: float = 0.0
    top: float = 1.0


MetricProgram = Generator[tuple[Part, ...], "Sequence[Answer]", MetricValue]
"""Yields the parts that it needs, receives their answers, and returns the value."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric and how to ask for it.

    Attributes:
        name: its name.
        task: 'classification' or 'regression'.
        output: the output of a model that it uses.
        program: the questions that compute it.
        larger_is_better: whether larger values are better.
        loss: for metrics that are plain means, the part; its difference compares two models.
        pairs: whether it uses pairs of rows.
        span: the value of 1 on the scale of the parts, in the metric's own units.
    """

    name: str
    task: Task
    output: Output
    program: Callable[[MetricContext], MetricProgram]
    larger_is_better: bool = True
    loss: Callable[[MetricContext], Part] | None = None
    pairs: bool = False
    span: Callable[[MetricContext], float] = lambda _: 1.0


def _mean(part: Part) -> MetricProgram:
    (answer,) = yield (part,)
    return MetricValue(answer.value, answer.low, answer.high)


def _ratio(part: Part, rest: Part, weight: float = 1.0) -> MetricProgram:
    """A/(A + weight·B), from E[A] and E[B]."""
    a, b = yield part, rest
    low, high = derived.ratio((a.low, a.high), (weight * b.low, weight * b.high))
    whole = a.value + weight * b.value
    value = a.value / whole if whole > 0.0 else low  # division by 0: the worst value
    return MetricValue(min(max(value, low), high), low, high)


def _average(programs: list[MetricProgram]) -> MetricProgram:
    """The mean of several metrics, each of which asks once."""
    batches = [next(program) for program in programs]
    answers = yield tuple(part for batch in batches for part in batch)
    values, start = [], 0
    for program, batch in zip(programs, batches, strict=True):
        values.append(finished(program, answers[start : start + len(batch)]))
        start += len(batch)
    k = len(values)
    ends = sum(value.low for value in values) / k, sum(value.high for value in values) / k
    return MetricValue(sum(value.value for value in values) / k, max(ends[0] - 1e-15, 0.0), min(ends[1] + 1e-15, 1.0))


def finished(program: MetricProgram, answers: Sequence[Answer]) -> MetricValue:
    """The value of a program that asks once, from its answers."""
    try:
        program.send(answers)
    except StopIteration as done:
        value: MetricValue = done.value
        return value
    raise TypeError("a metric asked twice")


def _right(_: MetricContext) -> Part:
    return lambda out, y: np.asarray(out == y)


def _wrong(_: MetricContext) -> Part:
    return lambda out, y: np.asarray(out != y)


def _recall(classes: Iterable[Any]) -> MetricProgram:
    """The mean recall over some classes."""
    return _average(
        [
            _ratio(lambda out, y, k=k: (y == k) & (out == k), lambda out, y, k=k: (y == k) & (out != k))  # type: ignore[misc]
            for k in classes
        ]
    )


def _precision(context: MetricContext) -> MetricProgram:
    """The mean precision over the positive classes."""
    return _average(
        [
            _ratio(lambda out, y, k=k: (out == k) & (y == k), lambda out, y, k=k: (out == k) & (y != k))  # type: ignore[misc]
            for k in context.positives()
        ]
    )


def _f1(context: MetricContext) -> MetricProgram:
    """2TP/(2TP + FP + FN): hits against half of the misses and false alarms."""
    return _average(
        [
            _ratio(
                lambda out, y, k=k: (out == k) & (y == k),  # type: ignore[misc]
                lambda out, y, k=k: (out == k) ^ (y == k),  # type: ignore[misc]
                weight=0.5,
            )
            for k in context.positives()
        ]
    )


def _brier(context: MetricContext) -> Part:
    """Half the squared distance between the probabilities and the label: for two classes (p - y)².

    For more classes scikit-learn reports twice that.
    """

    def part(out: Any, y: Any) -> NDArray[np.float64]:
        given = np.asarray(out, dtype=np.float64)
        table = np.clip(np.nan_to_num(given, nan=0.0), 0.0, 1.0)
        hot = np.stack([np.asarray(y == label) for label in context.classes], axis=1)
        off = np.clip(0.5 * ((table - hot) ** 2).sum(axis=1), 0.0, 1.0)
        return np.where(np.isnan(given).any(axis=1), 1.0, off)  # a missing prediction has the largest error

    return part


def _surprisal(context: MetricContext) -> Part:
    """-ln p of the label, with p at least `least`, as a share of its largest value."""
    top = -log(context.least)
    return lambda out, y: np.clip(-np.log(np.clip(context.of_label(out, y), context.least, 1.0)) / top, 0.0, 1.0)


def _absolute(context: MetricContext) -> Part:
    return context.off


def _squared(context: MetricContext) -> Part:
    return lambda out, y: context.off(out, y) ** 2


def _plain_mean(
    name: str,
    task: Task,
    output: Output,
    loss: Callable[[MetricContext], Part],
    *,
    larger_is_better: bool = False,
    span: Callable[[MetricContext], float] = lambda _: 1.0,
) -> Metric:
    """A metric that is the mean of one part, in units of `span`."""

    def program(context: MetricContext) -> MetricProgram:
        mean, worth = (yield from _mean(loss(context))), span(context)
        return MetricValue(mean.value * worth, mean.low * worth, mean.high * worth, 0.0, worth)

    return Metric(name, task, output, program, larger_is_better, loss, span=span)


def _r2(context: MetricContext) -> MetricProgram:
    """1 - squared error/variance, with squares of the labels around a public centre."""
    centre = context.centre
    error, mean, around = yield (
        _squared(context),
        lambda _, y: context.scaled(y),
        lambda _, y: (context.scaled(y) - centre) ** 2,
    )
    spread = derived.variance((mean.low, mean.high), (around.low, around.high), centre)
    least, most = max(spread[0], 0.0), spread[1]
    low = 1.0 - error.high / least if least > 0.0 else float("-inf")
    high = 1.0 - error.low / most if most > 0.0 else 1.0
    variance = around.value - (mean.value - centre) ** 2
    value = 1.0 - error.value / variance if variance > 0.0 else 0.0
    return MetricValue(min(max(value, low), high), low, min(high, 1.0), -1.0, 1.0)


def _auc(context: MetricContext) -> MetricProgram:
    """The share of pairs with different labels in which the positive row has the higher score; a tie counts half.

    Each pair is one draw. A private row is in at most one pair, so the guarantee is that of n/2 draws.
    """
    positive = context.positive

    def lead(out: Any, y: Any) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        first, second = y[:, 0] == positive, y[:, 1] == positive
        scores = np.asarray(out, dtype=np.float64)
        ahead = np.sign(scores[:, 0] - scores[:, 1]) * np.where(first, 1.0, -1.0)
        ahead = np.where(np.isnan(scores).any(axis=1), -1.0, np.nan_to_num(ahead))  # a missing score loses
        return first ^ second, 0.5 * (1.0 + ahead)

    def won(out: Any, y: Any) -> NDArray[np.float64]:
        differ, half = lead(out, y)
        return np.where(differ, half, 0.0)

    def lost(out: Any, y: Any) -> NDArray[np.float64]:
        differ, half = lead(out, y)
        return np.where(differ, 1.0 - half, 0.0)

    return _ratio(won, lost)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _plain_mean("accuracy", "classification", "labels", _right, larger_is_better=True),
        _plain_mean("error", "classification", "labels", _wrong),
        Metric("balanced_accuracy", "classification", "labels", lambda context: _recall(context.classes)),
        Metric("precision", "classification", "labels", _precision),
        Metric("recall", "classification", "labels", lambda context: _recall(context.positives())),
        Metric("f1", "classification", "labels", _f1),
        _plain_mean("brier", "classification", "probabilities", _brier),
        _plain_mean("log_loss", "classification", "probabilities", _surprisal, span=lambda context: -log(context.least)),
        Metric("auc", "classification", "scores", _auc, pairs=True),
        _plain_mean(
            "mean_absolute_error", "regression", "values", _absolute, span=lambda context: context.high - context.low
        ),
        _plain_mean(
            "mean_squared_error",
            "regression",
            "values",
            _squared,
            span=lambda context: (context.high - context.low) ** 2,
        ),
        Metric("r2", "regression", "values", _r2),
    )
}


_OTHER_NAMES = {
    "acc": "accuracy",
    "accuracy": "accuracy",
    "balanced_acc": "balanced_accuracy",
    "balanced_accuracy": "balanced_accuracy",
    "roc_auc": "auc",
    "roc": "auc",
    "logloss": "log_loss",
    "log": "log_loss",
    "cross_entropy": "log_loss",
    "nll": "log_loss",
    "brier": "brier",
    "f1": "f1",
    "precision": "precision",
    "recall": "recall",
    "zero_one": "error",
    "mae": "mean_absolute_error",
    "mse": "mean_squared_error",
    "rmse": "mean_squared_error",
    "root_mean_squared_error": "mean_squared_error",
    "r2": "r2",
}
"""What else people call metrics."""


def measured(metric: Metric, context: MetricContext, out: Any, y: NDArray[Any]) -> float:
    """A metric's value on labelled rows themselves. AUC is over all pairs of them."""
    if metric.pairs:
        return _auc_of_rows(np.asarray(out, dtype=np.float64), np.asarray(y == context.positive))
    program = metric.program(context)
    parts = next(program)
    answers = []
    for part in parts:
        values = np.asarray(part(out, y))
        total = int(np.count_nonzero(values)) if values.dtype == np.bool_ else fsum(values.tolist())
        value = total / len(values)
        answers.append(Answer(value, value, value, False, 0, 0.0, "share"))
    return finished(program, answers).value


def _auc_of_rows(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """By ranks, ties in the middle; a missing score loses to all others."""
    count = int(positive.sum())
    if count in (0, len(scores)):
        return 0.5
    scores = np.where(np.isnan(scores), -np.inf, scores)
    _, place, times = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - 0.5 * (times - 1))[place]
    missing = positive & np.isneginf(scores)
    won = float(ranks[positive].sum()) - 0.5 * count * (count + 1)
    lost = int(missing.sum()) * int((~positive & np.isneginf(scores)).sum())  # two missing ones: the positive one loses
    return (won - 0.5 * lost) / (count * (len(scores) - count))


def find(name: str, task: Task) -> Metric:
    """The metric of this name, for a task.

    >>> find("accurracy", "classification")
    Traceback (most recent call last):
    ...
    everhold.errors.SettingError: there is no metric 'accurracy' for classification. Did you mean 'accuracy'? Metrics: ...
    """
    known = {key: metric for key, metric in METRICS.items() if metric.task == task}
    if name not in known:
        word = str(name).strip().lower().replace(" ", "_").removeprefix("neg_")
        other = _OTHER_NAMES.get(word, _OTHER_NAMES.get(word.removesuffix("_loss").removesuffix("_score"), word))
        if other in METRICS and other not in known:
            raise SettingError(
                f"{name!r} is for {METRICS[other].task}, and this test set is for {task}. Metrics: {', '.join(known)}."
            )
        root = " It is the root of it." if "root" in word or word == "rmse" else ""
        near = f" Did you mean {other!r}?{root}" if other in known else did_you_mean(str(name), known)
        raise SettingError(f"there is no metric {name!r} for {task}.{near} Metrics: {', '.join(known)}.")
    return known[name]
