"""A model of the labels, for the prior of a test set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import MissingExtra, PriorError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.learn.metrics import MetricContext, Task

__all__ = ["label_chances"]


def label_chances(public: Any, public_labels: Any, context: MetricContext, task: Task) -> NDArray[np.float64]:
    """Cross-validated label probabilities on the public rows, one column per label, none below 2 % of equal shares."""
    k = len(context.classes)
    try:
        return _cross_validated(public, public_labels, context, task, k)
    except ImportError:
        raise MissingExtra("prior='baseline'", "learn") from None
    except (TypeError, ValueError) as error:
        raise PriorError(
            f"the baseline model cannot be fitted to the reference ({error}). Expected numeric features: convert them, or "
            "use prior='uniform'."
        ) from None


def _cross_validated(public: Any, public_labels: Any, context: MetricContext, task: Task, k: int) -> NDArray[np.float64]:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.model_selection import cross_val_predict

    if task == "classification":
        model = HistGradientBoostingClassifier(max_iter=60, random_state=0)
        fewest = int(np.unique(public_labels, return_counts=True)[1].min())
        predicted = cross_val_predict(model, public, public_labels, cv=max(2, min(5, fewest)), method="predict_proba")
        present = np.unique(public_labels)
        chances = np.zeros((len(predicted), k))
        for j, label in enumerate(context.classes):
            index = np.flatnonzero(present == label)
            if len(index):
                chances[:, j] = predicted[:, index[0]]
    else:
        values = cross_val_predict(HistGradientBoostingRegressor(max_iter=60, random_state=0), public, public_labels, cv=5)
        spread = max(
            float(np.std(np.asarray(public_labels, dtype=np.float64) - values)), (context.high - context.low) / (2 * k)
        )
        chances = np.exp(-0.5 * ((context.classes[None, :] - values[:, None]) / spread) ** 2) + 1e-12
    chances = np.clip(chances, 0.02 / k, None)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))
