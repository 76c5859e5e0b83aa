"""What is foreseen of a model's score, from public rows alone: held-out predictions, and weights of candidates."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.learn.layout import length
from everhold.learn.metrics import measured

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.learn.metrics import Metric, MetricContext, Output

__all__ = ["Forecast", "Source", "choice_weights", "held_out_forecast", "shrunk"]

Source = Literal["out of bag", "cross-validated", "expected", "prior"]

_WEIGHT_ONE = 2**40  # weights are whole multiples of 1/this


@dataclass(frozen=True, slots=True)
class Forecast:
    """A score that is foreseen for the population, from public facts.

    Attributes:
        value: in the metric's own units.
        rows: how many public rows are behind it.
        source: where it comes from.
    """

    value: float
    rows: int
    source: Source

    def __str__(self) -> str:
        behind = {
            "out of bag": f"out of bag, {self.rows:,} public rows",
            "cross-validated": f"cross-validated on {self.rows:,} public rows",
            "expected": "as given",
            "prior": "the prior alone",
        }[self.source]
        return f"{self.value:.4g} ({behind})"


def held_out_forecast(
    model: Any, metric: Metric, context: MetricContext, X: Any, y: NDArray[Any] | None, folds: int
) -> tuple[Forecast, NDArray[Any]] | None:
    """A model's score on labelled public rows that it was not fitted to, and its output there; None where there is none.

    Out-of-bag predictions where the model keeps them, otherwise cross-validation of an unfitted copy.
    """
    if y is None:
        return None
    for source, predict in (("out of bag", _out_of_bag), ("cross-validated", _cross_validated)):
        out = predict(model, metric.output, context, X, y, folds)
        if out is not None:
            return Forecast(measured(metric, context, out, y), len(y), source), out  # type: ignore[arg-type]
    return None


def _out_of_bag(
    model: Any, output: Output, context: MetricContext, X: Any, _y: NDArray[Any], _folds: int
) -> NDArray[Any] | None:
    """What a forest keeps of the rows that each tree did not see."""
    values = getattr(model, "oob_prediction_", None)
    if output == "values" and values is not None and np.shape(values) == (length(X),):
        return np.asarray(values, dtype=np.float64)
    table = getattr(model, "oob_decision_function_", None)
    if output == "values" or table is None or np.ndim(table) != 2 or len(table) != length(X):
        return None
    if not bool(np.isfinite(table).all()):  # too few trees: some row was in all of them
        return None
    return _as_output(np.asarray(table, dtype=np.float64), np.asarray(model.classes_), output, context)


def _cross_validated(
    model: Any, output: Output, context: MetricContext, X: Any, y: NDArray[Any], folds: int
) -> NDArray[Any] | None:
    if folds < 2 or not (hasattr(model, "fit") and hasattr(model, "get_params")):
        return None
    try:
        from sklearn.base import clone
        from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
    except ImportError:
        return None
    method = "predict" if output in ("labels", "values") else "predict_proba"
    if output == "scores" and not hasattr(model, method):
        method = "decision_function"
    if not hasattr(model, method):
        return None
    split: Any = KFold(folds, shuffle=True, random_state=0)
    if output != "values":
        folds = min(folds, int(np.unique(y, return_counts=True)[1].min()))
        if folds < 2:
            return None
        split = StratifiedKFold(folds, shuffle=True, random_state=0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = np.asarray(cross_val_predict(clone(model), X, y, cv=split, method=method))
    except Exception:  # a model of somebody's own that cannot be fitted again
        return None
    if method == "predict":
        return out if out.shape == y.shape else None
    if out.ndim == 1:  # one number for two classes, of the second
        out = np.stack([-out, out], axis=1)
    return _as_output(np.asarray(out, dtype=np.float64), np.unique(y), output, context)


def _as_output(table: NDArray[np.float64], known: NDArray[Any], output: Output, context: MetricContext) -> NDArray[Any]:
    """Labels, probabilities in the order of the classes, or scores of the positive class."""
    if output == "labels":
        return np.asarray(known[np.argmax(table, axis=1)])
    ordered = np.zeros((len(table), len(context.classes)))
    for index, one in enumerate(context.classes):
        where = np.flatnonzero(known == one)
        if len(where):
            ordered[:, index] = table[:, where[0]]
    if output == "probabilities":
        return ordered
    return np.asarray(ordered[:, np.flatnonzero(context.classes == context.positive)[0]])


def choice_weights(forecasts: Sequence[float | None], rows: float, span: float, better: float) -> list[Fraction]:
    """Public weights of candidates: half of it even, half by how near each forecast is to the best one.

    They sum to at most 1, and a candidate costs at most ln 2 more than with even weights.

    Args:
        forecasts: of the candidates, None where there is none.
        rows: private and public rows behind a comparison of a forecast with the truth.
        span: of the metric.
        better: 1 where larger is better, -1 otherwise.
    """
    count = len(forecasts)
    known = [better * one for one in forecasts if one is not None]
    even = Fraction(_WEIGHT_ONE // (2 * count), _WEIGHT_ONE)
    if not known:
        return [2 * even] * count
    top, spread = max(known), max(0.5 * span / sqrt(rows), 1e-12)
    near = [0.0 if one is None else float(np.exp(-0.5 * ((top - better * one) / spread) ** 2)) for one in forecasts]
    whole = sum(near)
    return [even + Fraction(int(_WEIGHT_ONE * 0.5 * one / whole * (1.0 - 1e-9)), _WEIGHT_ONE) for one in near]


def shrunk(value: float, others: Sequence[float], rows: float, span: float) -> float:
    """A forecast that is one of several, nearer to their mean: the part of their spread that is noise is taken out."""
    if len(others) < 3:
        return value
    mean, spread = float(np.mean(others)), float(np.var(others))
    noise = 0.25 * span * span / rows
    return mean + (value - mean) * max(1.0 - noise / max(spread, 1e-300), 0.0) if spread > 0.0 else value
