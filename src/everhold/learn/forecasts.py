"""What is foreseen of a model's score, from public rows alone: held-out predictions, and weights of candidates."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.bounds.elementary import ln
from everhold.learn.layout import length
from everhold.learn.metrics import measured

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.learn.metrics import Metric, MetricContext, Output

__all__ = ["Forecast", "Source", "choice_weights", "held_out_forecast", "needed_lead", "shrunk"]

Source = Literal["out of bag", "cross-validated", "expected", "prior"]

_WEIGHT_ONE = 2**40  # weights are whole multiples of 1/this
_SCALES = (0.5, 1.0, 2.0)  # of the foreseen distance between forecasts and private scores
_EVIDENCE = 0.4  # the part of a new champion's price that it must show as evidence


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
    for index, label in enumerate(context.classes):
        where = np.flatnonzero(known == label)
        if len(where):
            ordered[:, index] = table[:, where[0]]
    if output == "probabilities":
        return ordered
    return np.asarray(ordered[:, np.flatnonzero(context.classes == context.positive)[0]])


def choice_weights(forecasts: Sequence[float | None], spread: float, better: float) -> list[Fraction]:
    """Public weights of candidates: half of it even, half by how near each forecast is to the best one.

    How far off forecasts are is not known in advance, so nearness is a mixture of three widths: a half, one and two times
    the foreseen one. Guarantee: all weights are positive and sum to at most 1, exactly, and a candidate costs at most ln 2
    more than with even weights (`docs/theory/code.md`).

    Args:
        forecasts: of the candidates, None where there is none.
        spread: the standard deviation of a private score less its forecast, as foreseen.
        better: 1 where larger is better, -1 otherwise.
    """
    count = len(forecasts)
    known = [better * forecast for forecast in forecasts if forecast is not None]
    even = Fraction(_WEIGHT_ONE // (2 * count), _WEIGHT_ONE)
    if not known:
        return [2 * even] * count
    behind = np.array([np.inf if forecast is None else max(known) - better * forecast for forecast in forecasts])
    near = np.zeros(count)
    for scale in _SCALES:
        nearness = np.exp(-0.5 * (behind / max(scale * spread, 1e-12)) ** 2)
        near += nearness / (nearness.sum() * len(_SCALES))
    return [even + Fraction(int(_WEIGHT_ONE * 0.5 * float(share) * (1.0 - 1e-9)), _WEIGHT_ONE) for share in near]


def needed_lead(weight: Fraction, generation: int) -> float:
    """By how many standard errors of the difference a candidate must beat the champion of so many earlier generations.

    To name it costs `c = ln(generation/weight)` nats more than to keep the champion. z standard errors are evidence worth
    z²/2 nats, and two fifths of c are wanted: so luck seldom replaces a champion, and a candidate that is foreseen as good
    needs less.

    >>> round(needed_lead(Fraction(1, 200), 1), 2), round(needed_lead(Fraction(1, 20), 1), 2)
    (2.06, 1.55)
    """
    return sqrt(2.0 * _EVIDENCE * max(ln(generation / float(weight)), 0.0))


def shrunk(value: float, others: Sequence[float], rows: float, span: float) -> float:
    """A forecast that is one of several, nearer to their mean: the part of their spread that is noise is taken out."""
    if len(others) < 3:
        return value
    mean, spread = float(np.mean(others)), float(np.var(others))
    by_chance = 0.25 * span * span / rows
    return mean + (value - mean) * max(1.0 - by_chance / max(spread, 1e-300), 0.0) if spread > 0.0 else value
