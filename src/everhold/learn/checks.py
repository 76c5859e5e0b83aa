"""Checks of what a test set is given: the reference, predictions, and a study that exists already.

What a message says of predictions is a function of the predictions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.data.fingerprint import fingerprint_rows
from everhold.errors import PriorError, QuestionError
from everhold.learn.layout import length, part_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.learn.metrics import Metric, MetricContext
    from everhold.priors.pool import Pool
    from everhold.session.holdout import Holdout

__all__ = ["checked_predictions", "made_with", "reference_parts", "require_rows_alone"]

_ASKED_AGAIN = 200  # public rows that a model is asked about a second time


def reference_parts(given: Any) -> tuple[Any, NDArray[Any] | None]:
    """The features of a reference, and its labels if it has any."""
    if isinstance(given, list) and len(given) == 2 and hasattr(given[0], "shape"):
        given = tuple(given)
    if not isinstance(given, tuple):
        return given, None
    if len(given) != 2 or length(given[0]) != len(given[1]):
        raise PriorError(
            "the reference is a tuple, but not features with one label for each row. Expected reference=X_train, or "
            "reference=(X_train, y_train)."
        )
    return given[0], np.asarray(given[1])


def checked_predictions(given: Any, size: int, metric: Metric, context: MetricContext, what: str) -> NDArray[Any]:
    """Predictions of the right shape and kind."""
    array = np.asarray(given)
    shape = (size, len(context.classes)) if metric.output == "probabilities" else (size,)
    if array.shape != shape:
        raise QuestionError(f"{what} gave predictions of shape {array.shape}. Expected {shape}. Nothing was charged.")
    if metric.output != "labels":
        if array.dtype.kind not in "buif":
            raise QuestionError(f"{what} gave {array.dtype} where numbers are needed. Nothing was charged.")
        if not bool(np.isfinite(array).all()):
            raise QuestionError(f"{what} gave predictions that are not finite numbers. Nothing was charged.")
        return array
    if not bool(np.isin(array, context.classes).any()):
        raise QuestionError(
            f"{what} never predicts any of the classes {context.classes.tolist()[:10]}, but for instance "
            f"{array[:1].tolist()}. Expected labels of the same kind. Nothing was charged."
        )
    return array


def require_rows_alone(predict: Callable[[Any], Any], public: Any, whole: NDArray[Any]) -> None:
    """Refuse a model whose prediction for a row depends on other rows: asked again about some, it must say the same."""
    size = min(length(public), _ASKED_AGAIN)
    again = np.asarray(predict(part_of(public, 0, size, 2)))
    before = whole[0:size:2]
    if before.dtype.kind in "f" and again.shape == before.shape and again.dtype.kind in "buif":
        same = np.isclose(before, again, rtol=1e-5, atol=1e-6, equal_nan=True)
    else:
        same = before == again if again.shape == before.shape else np.zeros(1, bool)
    if np.mean(same) < 0.98:
        raise QuestionError(
            "the model says something else of the same public rows when it is asked again about every other one. "
            "Expected a fixed function of one row at a time. Nothing was charged."
        )


def made_with(holdout: Holdout, pool: Pool, settings: Mapping[str, Any]) -> str | None:
    """How an existing study was made, where this differs from what is asked for now; None where it is the same."""
    public = holdout.public
    if public.pool is None:
        return "something else than a test set"
    if public.pool.rows.size != pool.rows.size or set(public.pool.rows) != set(pool.rows):
        return "other public rows"
    declared = public.schema.conform(pool.rows, what="the reference")
    if fingerprint_rows(public.pool.rows, b"public") != fingerprint_rows(declared, b"public"):
        return "other public rows"
    weights = [np.ones(pool.rows.size) if given is None else given for given in (public.pool.weights, pool.weights)]
    if not np.allclose(weights[0] / weights[0].sum(), weights[1] / weights[1].sum(), rtol=1e-9, atol=0.0):
        return "another prior"
    for name, value in settings.items():
        if getattr(holdout.settings, name) != value:
            return f"{name} = {getattr(holdout.settings, name)!r}"
    return None
