"""Checks of what a test set is given: the reference, predictions, and a study that exists already.

What a message says of predictions is a function of the predictions alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.data.fingerprint import fingerprint_rows
from everhold.errors import DataError, PriorError, QuestionError, SchemaWarning
from everhold.learn.layout import length, part_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.learn.metrics import Metric, MetricContext
    from everhold.priors.pool import Pool
    from everhold.session.holdout import Holdout

__all__ = [
    "checked_predictions",
    "made_with",
    "reference_parts",
    "require_rows_alone",
    "require_same_columns",
    "warn_of_many_classes",
]

_MANY_CLASSES = 20  # fewer may well be classes, even of few rows
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
    X, y = given
    if len(_shape(y)) > 1:
        swapped = len(_shape(X)) == 1
        raise PriorError(
            f"the labels of the reference have shape {_shape(y)}. Expected one label for each row, of one dimension: "
            + ("reference=(X_train, y_train), features first." if swapped else "reference=(X_train, y_train.ravel()).")
        )
    return X, np.asarray(y)


def require_same_columns(X: Any, public: Any) -> None:
    """Refuse test features that are written otherwise than the public ones: a model would fail on them without a word.

    What a model does on private rows is not reported, so that a model that misses a column there is wrong everywhere.
    """
    here, there = _shape(X), _shape(public)
    if len(here) != len(there):
        raise DataError(
            f"X has {len(here)} dimensions and the reference {len(there)}: shapes {here} and {there}. Expected features of "
            "one kind on both sides: TestSet(X_test, y_test, reference=(X_train, y_train))."
        )
    mine, theirs = _names(X), _names(public)
    if (mine is None) != (theirs is None):
        named, plain = ("X", "the reference") if theirs is None else ("the reference", "X")
        raise DataError(
            f"{named} has columns with names, and {plain} has none. Expected the same kind on both sides: frames, or "
            "arrays (.to_numpy())."
        )
    if mine is None or theirs is None:
        if here[1:] != there[1:]:
            raise DataError(
                f"X has {_columns(here)} and the reference {_columns(there)}. Expected the same columns in the same order."
            )
        return
    here_too, there_too = set(mine), set(theirs)
    missing, more = [one for one in theirs if one not in here_too], [one for one in mine if one not in there_too]
    if missing or more:
        what = [f"X lacks {_listed(missing)}"] * bool(missing) + [f"the reference lacks {_listed(more)}"] * bool(more)
        raise DataError(
            f"X has {len(mine)} columns and the reference {len(theirs)}: {', and '.join(what)}. Expected the same columns "
            "in the same order."
        )
    if mine != theirs:
        place = next(index for index, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other)
        raise DataError(
            f"X has the columns of the reference in another order: column {place + 1} is {mine[place]!r} in X and "
            f"{theirs[place]!r} in the reference. Expected the same order: X_test[list(X_train.columns)]."
        )


def warn_of_many_classes(labels: NDArray[Any] | None, classes: NDArray[Any]) -> None:
    """Warn where a classification has nearly as many classes as public rows: they are probably numbers."""
    if labels is not None and len(classes) > _MANY_CLASSES and 2 * len(classes) > len(labels):
        warnings.warn(
            f"the {len(labels):,} public labels hold {len(classes):,} classes, nearly one for each row. If they are "
            "numbers, use task='regression'.",
            SchemaWarning,
            stacklevel=4,
        )


def _shape(given: Any) -> tuple[int, ...]:
    """The shape of rows; that of a list or a mapping of columns is their number."""
    shape = getattr(given, "shape", None)
    return (length(given),) if shape is None else tuple(int(size) for size in shape)


def _names(given: Any) -> list[Any] | None:
    if isinstance(given, Mapping):
        return list(given)
    columns = getattr(given, "columns", None)
    return None if columns is None else list(columns)


def _columns(shape: tuple[int, ...]) -> str:
    return f"{shape[1]:,} columns" if len(shape) == 2 else f"rows of shape {shape[1:]}"


def _listed(names: list[Any]) -> str:
    shown = ", ".join(repr(one) for one in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3:,} more"


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
