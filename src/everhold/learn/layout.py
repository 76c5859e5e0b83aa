"""The draws of a test set on both sides: single rows, or pairs of rows."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.data.source import as_source
from everhold.data.table import RowTable
from everhold.errors import DataError, EverholdError, QuestionError
from everhold.priors.pool import Pool
from everhold.queries.interrupts import interrupts
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "MOST_COLUMNS",
    "LabelPrior",
    "Layout",
    "columns_of",
    "length",
    "part_of",
    "pool_of",
    "predicted",
    "predicted_in_private",
    "private_layout",
    "public_layout",
    "row_digests",
]

LabelPrior = Literal["uniform", "baseline", "labelled"]

MOST_COLUMNS = 256
"""Features of wider tables are not stored as columns, so their subgroups cannot be asked."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The draws of one side: the feature row of each draw (or the two rows), and its label.

    Attributes:
        index: shape (draws,) or (draws, 2).
        labels: the same shape.
        weights: the weights of the draws; None: equal.
        independent: how many independent draws they are worth.
    """

    index: NDArray[np.intp]
    labels: NDArray[Any]
    weights: NDArray[np.float64] | None
    independent: float

    def evaluate(self, part: Callable[[Any, Any], Any], output: Any, *, pairs: bool) -> NDArray[Any]:
        """A part's value for every draw; for a part of single rows, the mean over the two rows of a pair."""
        if self.index.ndim == 1:
            return np.asarray(part(output[self.index], self.labels))
        if pairs:
            return np.asarray(part(output[self.index], self.labels))
        both = [np.asarray(part(output[self.index[:, side]], self.labels[:, side]), dtype=np.float64) for side in (0, 1)]
        return 0.5 * (both[0] + both[1])


def private_layout(labels: NDArray[Any], *, pairs: bool, seed: int) -> Layout:
    """All rows; or random pairs of rows, without the last one if their number is odd."""
    n = len(labels)
    if not pairs:
        return Layout(np.arange(n), labels, None, float(n))
    if n < 2:
        raise DataError("this test set has fewer than two rows, but pairs need at least two.")
    matched = stream_rng(seed, "pairs").permutation(n)[: 2 * (n // 2)].reshape(-1, 2)
    return Layout(matched, labels[matched], None, float(len(matched)))


def public_layout(
    size: int,
    labels: NDArray[Any] | None,
    values: NDArray[Any],
    chances: NDArray[np.float64] | None,
    *,
    pairs: bool,
    seed: int,
) -> Layout:
    """Public rows with their own labels, with every label, or with every label by its probability.

    Args:
        size: the number of public feature rows.
        labels: their own labels; None: every value.
        values: the possible labels.
        chances: the probability of every value for every row; None: equal.
    """
    if labels is None and not pairs:
        k = len(values)
        weights = None if chances is None else (chances.T / size).reshape(-1)
        return Layout(np.tile(np.arange(size), k), np.repeat(values, size), weights, float(size))
    if labels is not None and not pairs:
        return Layout(np.arange(size), labels, None, float(size))
    rng = stream_rng(seed, "public pairs")
    half = rng.permutation(size)[: 2 * (size // 2)].reshape(-1, 2)
    if labels is not None:
        return Layout(half, labels[half], None, float(len(half)))
    copies = max(1, min(len(values) ** 2, 16))
    index = np.tile(half, (copies, 1))
    if len(values) ** 2 <= 16 and chances is None:  # every pair of labels
        grid = np.array([(a, b) for a in range(len(values)) for b in range(len(values))])
        codes = np.repeat(grid, len(half), axis=0)
    else:
        spread = np.full((size, len(values)), 1.0 / len(values)) if chances is None else chances
        steps = np.cumsum(spread, axis=1)[:, :-1]
        codes = (rng.random((*index.shape, 1)) > steps[index]).sum(axis=2)
    return Layout(index, values[codes], None, float(len(half)))


def columns_of(features: Any, what: str) -> dict[str, NDArray[Any]]:
    """Features as columns that questions can name, from frames, mappings and plain matrices; otherwise none."""
    if isinstance(features, np.ndarray):
        if features.ndim != 2 or features.shape[1] > MOST_COLUMNS or features.dtype.kind not in "buif":
            return {}  # texts, images: a question cannot name them
        return {f"x{j}": np.ascontiguousarray(features[:, j]) for j in range(features.shape[1])}
    if hasattr(features, "tocsr") or isinstance(features, Sequence):
        return {}
    try:
        table = as_source(features, what=what, private=True).table()
    except EverholdError:
        return {}
    if len(table) > MOST_COLUMNS:
        return {}
    return {name: table[name] for name in table if table.kind(name) is not None}


def pool_of(columns: dict[str, NDArray[Any]], layout: Layout, label: str) -> Pool:
    """The public side as a prior's rows."""
    if layout.index.ndim == 2:
        return Pool(RowTable(paired(columns, layout)), layout.weights, layout.independent)
    table: dict[str, object] = {name: column[layout.index] for name, column in columns.items()}
    table[label] = layout.labels
    return Pool(RowTable(table), layout.weights, layout.independent)


def paired(columns: dict[str, NDArray[Any]], layout: Layout) -> dict[str, object]:
    """The columns of both rows of every pair."""
    table: dict[str, object] = {"first": layout.labels[:, 0], "second": layout.labels[:, 1]}
    for name, column in columns.items():
        table |= {f"{name} of {which}": column[layout.index[:, side]] for side, which in enumerate(("first", "second"))}
    return table


def row_digests(features: Any) -> NDArray[np.float64]:
    """A number for each row, from its whole content; it distinguishes rows that have no columns."""
    size = length(features)
    digests = np.empty(size)
    for index in range(size):
        row = part_of(features, index, index + 1)
        if hasattr(row, "tocoo"):
            cells = row.tocoo()
            content = repr(sorted(zip(cells.col.tolist(), cells.data.tolist(), strict=True)))
        elif hasattr(row, "to_numpy"):
            content = repr(row.to_numpy().tolist())
        elif isinstance(row, Mapping):
            content = repr({name: np.asarray(column).tolist() for name, column in row.items()})
        else:
            content = repr(np.asarray(row, dtype=object).tolist())
        digests[index] = int.from_bytes(hashlib.sha256(content.encode("utf-8", "replace")).digest()[:6], "big")
    return digests


def length(features: Any) -> int:
    """The number of rows."""
    if isinstance(features, Mapping):
        return len(next(iter(features.values()))) if features else 0
    shape = getattr(features, "shape", None)
    return int(shape[0]) if shape is not None else len(features)


def part_of(features: Any, start: int, stop: int, step: int = 1) -> Any:
    """A slice of the rows, in the same type."""
    if isinstance(features, Mapping):
        return {name: column[start:stop:step] for name, column in features.items()}
    if hasattr(features, "iloc"):
        return features.iloc[start:stop:step]
    return features[start:stop:step]


def predicted(model: Any, features: Any, output: str, classes: NDArray[Any], positive: Any) -> Any:
    """A model's output: labels or values, probabilities in the order of the classes, or scores of the positive class."""
    if isinstance(model, type):
        raise QuestionError(
            f"{model.__name__} is a class. Expected a fitted model: {model.__name__}(...).fit(X_train, y_train). Nothing "
            "was charged."
        )
    if _is_booster(model):
        return _boosted(model, features, output, classes, positive)
    if not hasattr(model, "predict"):
        if not callable(model):
            raise QuestionError(
                f"a {type(model).__name__} cannot predict. Expected a fitted model with predict(X), or a function of X; for "
                "predictions that were made elsewhere there is test.score_predictions(...). Nothing was charged."
            )
        return np.asarray(model(features))
    if output in ("labels", "values"):
        return np.asarray(model.predict(features))
    known = np.asarray(getattr(model, "classes_", classes))
    if output == "scores" and hasattr(model, "decision_function") and len(known) == 2 and positive in known.tolist():
        scores = np.asarray(model.decision_function(features), dtype=np.float64)
        if scores.ndim == 1:
            return scores if known[1] == positive else -scores
    if not hasattr(model, "predict_proba"):
        raise QuestionError(
            f"{type(model).__name__} has no predict_proba, which this metric needs. Expected a model with "
            "probabilities, or a metric of labels, such as 'accuracy'. Nothing was charged."
        )
    table = np.asarray(model.predict_proba(features), dtype=np.float64)
    if table.shape != (length(features), len(known)):
        raise QuestionError(
            f"predict_proba returned shape {table.shape}. Expected {(length(features), len(known))}. Nothing was charged."
        )
    ordered = np.zeros((len(table), len(classes)))
    for k, label in enumerate(classes):
        index = np.flatnonzero(known == label)
        if len(index):
            ordered[:, k] = table[:, index[0]]
    return ordered[:, np.flatnonzero(classes == positive)[0]] if output == "scores" else ordered


def _is_booster(model: Any) -> bool:
    """Whether a model is a Booster of xgboost or lightgbm, which predicts numbers only."""
    kind = type(model)
    return kind.__name__ == "Booster" and kind.__module__.split(".")[0] in ("xgboost", "lightgbm")


def _boosted(model: Any, features: Any, output: str, classes: NDArray[Any], positive: Any) -> Any:
    """A Booster's output: values, or probabilities of the second class or of every class, as it was trained."""
    if type(model).__module__.split(".")[0] == "xgboost":
        features = sys.modules["xgboost"].DMatrix(features)
    predictions = np.asarray(model.predict(features), dtype=np.float64)
    if output == "values":
        return predictions
    if predictions.ndim == 1 and len(classes) == 2 and bool(((predictions >= 0.0) & (predictions <= 1.0)).all()):
        predictions = np.stack([1.0 - predictions, predictions], axis=1)
    if predictions.ndim != 2 or predictions.shape[1] != len(classes):
        raise QuestionError(
            f"the Booster returned shape {predictions.shape} for {len(classes)} classes. Expected probabilities: train it "
            "with an objective such as 'binary:logistic' or 'multi:softprob', or pass a function of X. Nothing was charged."
        )
    if output == "labels":
        return classes[np.argmax(predictions, axis=1)]
    return predictions[:, np.flatnonzero(classes == positive)[0]] if output == "scores" else predictions


def predicted_in_private(predict: Callable[[Any], Any], features: Any, like: NDArray[Any]) -> NDArray[Any]:
    """A model's output on private rows, where errors must not be reported: rows on which it fails have no prediction.

    If the model raises, or returns another shape, the rows are halved until each failing row is on its own. `like` are the
    public predictions, which set the shape and the type.
    """
    size = length(features)
    try:
        with interrupts() as signals, np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predictions = _plain(np.asarray(predict(features)))
        if predictions.shape == (size, *like.shape[1:]) and (
            predictions.dtype.kind in "buif" or like.dtype.kind not in "buif"
        ):
            return predictions
    except BaseException as error:  # any error may be caused by a single row, but for a person's interrupt
        if signals.seen and isinstance(error, KeyboardInterrupt):
            raise
        predictions = np.empty(0)
    if size <= 1:
        nothing: Any = np.nan if like.dtype.kind in "buif" else ""
        return np.full((size, *like.shape[1:]), nothing, dtype=np.float64 if like.dtype.kind in "buif" else object)
    half = size // 2
    parts = [predicted_in_private(predict, part_of(features, a, b), like) for a, b in ((0, half), (half, size))]
    if any(part.dtype == object for part in parts):
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


def _plain(predictions: NDArray[Any]) -> NDArray[Any]:
    """Predictions that compare with labels without an error or a warning: 64-bit numbers, and plain values."""
    if predictions.dtype.kind == "f":
        return predictions.astype(np.float64)
    if predictions.dtype.kind != "O":
        return predictions if predictions.dtype.kind in "buiUM" else np.full(predictions.shape, "", dtype=object)
    items = [
        item if type(item) in (str, int, float, bool) or isinstance(item, np.generic) else "" for item in predictions.ravel()
    ]
    plain = np.empty(predictions.size, dtype=object)
    plain[:] = [item.item() if isinstance(item, np.generic) else item for item in items]
    return plain.reshape(predictions.shape)
