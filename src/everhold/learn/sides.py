"""Both sides of a test set: what a model is asked about, and how its predictions become questions."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.learn.identity import digest_of, model_digest
from everhold.learn.layout import Layout, length, predicted, predicted_in_private
from everhold.learn.metrics import finished, measured
from everhold.learn.validation import checked_predictions, require_rows_alone
from everhold.queries.answer import Answer
from everhold.queries.query import RowValues

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.learn.metrics import Metric, MetricContext, Part

__all__ = ["Outputs", "Sides", "name_of", "question", "share_of", "title_of"]

_BLOCKS = 10  # parts of the rows that show how much a metric varies


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """A model's output on both sides, and a name by which it is recognised.

    Attributes:
        private: on the private rows.
        public: on the public rows.
        name: from public facts; None: it cannot be recognised, and is asked anew.
        title: what the record calls it, a public fact.
        entry: the number of an entry of the same model, if there is one.
    """

    private: NDArray[Any]
    public: NDArray[Any]
    name: str | None
    title: str = "a model"
    entry: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """The rows of a test set.

    Attributes:
        X, labels: the private rows.
        public, public_labels: the public rows, and their labels where they have any.
        transductive: whether the public rows are the private ones, so that only labels are private.
        context: what metrics may use.
        private_draws, public_draws: the draws on both sides.
        key: known to the owner alone; names of predictions for private rows are made with it.
    """

    X: Any
    labels: NDArray[Any]
    public: Any
    public_labels: NDArray[Any] | None
    transductive: bool
    context: MetricContext
    private_draws: Layout
    public_draws: Layout
    key: Callable[[], bytes]

    def outputs(self, model: Any, metric: Metric) -> Outputs:
        """Predictions for both sides: on public rows every error is raised, on private ones none."""
        digest = "" if self.transductive else model_digest(model)  # computed before the model sees a private row

        def predict(rows: Any) -> Any:
            return predicted(model, rows, metric.output, self.context.classes, self.context.positive)

        public = self.checked(predict(self.public), length(self.public), metric, "the model")
        name = None if digest is None else digest_of(digest, public, self.context)
        if self.transductive:
            return Outputs(public, public, name)
        require_rows_alone(predict, self.public, public)
        return Outputs(predicted_in_private(predict, self.X, public), public, name)

    def given(self, y_pred: Any, reference: Any, metric: Metric) -> Outputs:
        """Predictions that were made elsewhere. Their owner knows whether they are the same as before."""
        private = self.checked(y_pred, length(self.X), metric, "y_pred")
        if self.transductive and reference is None:
            return Outputs(private, private, digest_of("", private, self.context))
        public = self.checked(reference, length(self.public), metric, "reference")
        if self.transductive:
            return Outputs(private, public, digest_of("", private, self.context))
        # The record shows the name. Without a key its readers could test guesses about the private side.
        digest = digest_of(private, public, self.context).encode()
        return Outputs(private, public, hmac.new(self.key(), b"predictions " + digest, hashlib.sha256).hexdigest()[:32])

    def checked(self, given: Any, size: int, metric: Metric, what: str) -> NDArray[Any]:
        """Predictions of the right shape and kind."""
        return checked_predictions(given, size, metric, self.context, what)

    def values(self, part: Part, outputs: Outputs, *, pairs: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """A part's values in [0, 1] for every draw of both sides."""
        return (
            self.private_draws.evaluate(part, outputs.private, pairs=pairs),
            self.public_draws.evaluate(part, outputs.public, pairs=pairs),
        )

    def questions(self, metric: Metric, parts: Sequence[Part], outputs: Outputs) -> list[RowValues]:
        """The questions of a metric about one model."""
        names = [name_of(metric, outputs.name, number) for number in range(1, len(parts) + 1)]
        titles = [title_of(metric, outputs, number if len(parts) > 1 else None) for number in range(1, len(parts) + 1)]
        return [
            question(*self.values(part, outputs, pairs=metric.pairs), name, title, span=self.span_of(metric))
            for part, name, title in zip(parts, names, titles, strict=True)
        ]

    def span_of(self, metric: Metric) -> float:
        """What a part of a metric ranges over, from 0: of a plain mean the metric's own units."""
        return 1.0 if metric.loss is None else metric.span(self.context)

    def difference(self, metric: Metric, first: Outputs, second: Outputs) -> RowValues:
        """The first model's loss minus the second's, row by row, in [-1, 1]."""
        if metric.loss is None:
            raise TypeError(f"{metric.name} has no loss of a row")
        loss = metric.loss(self.context)
        first_losses, second_losses = self.values(loss, first, pairs=False), self.values(loss, second, pairs=False)
        private, public = (
            np.asarray(a, np.float64) - np.asarray(b, np.float64) for a, b in zip(first_losses, second_losses, strict=True)
        )
        recognised = first.name is not None and second.name is not None
        name = f"{metric.name} of {first.name} minus {second.name}" if recognised else None
        title = f"{metric.name} of {first.title}, minus that of {second.title}"
        span = metric.span(self.context)
        return RowValues(
            sample=np.clip(private, -1.0, 1.0),
            reference=np.clip(public, -1.0, 1.0),
            name=name,
            title=title,
            shown_range=(-span, span),
        )

    def private_value(self, metric: Metric, private: NDArray[Any]) -> float:
        """A metric on the private rows themselves, the larger the better. Only for choices, which disclose an index."""
        value = measured(metric, self.context, private, self.labels)
        return value if metric.larger_is_better else -value

    def private_error(self, metric: Metric, private: NDArray[Any], other: NDArray[Any]) -> float:
        """The standard error of a difference of two models on the private rows. Only for choices, like `private_value`."""
        if metric.loss is not None:
            first_losses, second_losses = (
                np.asarray(metric.loss(self.context)(out, self.labels), np.float64) for out in (private, other)
            )
            worth, apart = metric.span(self.context), first_losses - second_losses
        else:  # a metric of several means: by its differences on parts of the rows
            parts = [slice(start, None, _BLOCKS) for start in range(min(_BLOCKS, len(self.labels)))]
            values = [
                [measured(metric, self.context, out[part], self.labels[part]) for part in parts] for out in (private, other)
            ]
            worth, apart = 1.0, np.subtract(values[0], values[1])
        return float(worth * np.std(apart) / np.sqrt(len(apart)))

    def prior_value(self, metric: Metric, public: NDArray[Any]) -> float:
        """The same under the prior: what the public side supposes of labels."""
        program = metric.program(self.context)
        answers = []
        for part in next(program):
            values = np.asarray(self.public_draws.evaluate(part, public, pairs=metric.pairs), dtype=np.float64)
            value = float(np.average(values, weights=self.public_draws.weights))
            answers.append(Answer(value, value, value, False, 0, 0.0, "share"))
        return finished(program, answers).value


def name_of(metric: Metric, model: str | None, part: int) -> str | None:
    """What a question about a model is recognised by."""
    return None if model is None else f"{metric.name} of model {model}, part {part}"


def title_of(metric: Metric, outputs: Outputs, part: int | None = None) -> str:
    """What people read of a question about a model."""
    return f"{metric.name} of {outputs.title}{'' if part is None else f', part {part}'}"


def question(
    sample: NDArray[Any], reference: NDArray[Any], name: str | None, title: str | None = None, *, span: float = 1.0
) -> RowValues:
    """A mean of booleans, or of numbers in [0, 1], which a question has in [-1, 1] and the record shows in [0, span]."""
    if sample.dtype == np.bool_ and reference.dtype == np.bool_:
        return RowValues(sample=sample, reference=reference, name=name, title=title)
    private, public = (np.clip(2.0 * np.asarray(v, dtype=np.float64) - 1.0, -1.0, 1.0) for v in (sample, reference))
    shown = None if title is None else (0.0, span)
    return RowValues(sample=private, reference=public, name=name, title=title, shown_range=shown)


def share_of(answer: Answer) -> Answer:
    """An answer in [0, 1] again."""
    return answer if answer.scale == "share" else answer.as_share()
