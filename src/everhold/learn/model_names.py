"""What models are called: as they print, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

__all__ = ["in_a_line", "model_name", "params_of", "short_name"]


def params_of(model: Any) -> dict[str, Any] | None:
    """Of a scikit-learn estimator."""
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
    """A model in a line; one with parameters as it prints, a pipeline by its steps.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model_name(make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3)))
    'StandardScaler() → DecisionTreeClassifier(max_depth=3)'
    """
    kind = str(getattr(model, "__name__", None) or type(model).__name__)
    if params is None and not hasattr(model, "get_params"):
        return kind
    try:
        steps = [step for _, step in getattr(model, "steps", ())]
        return _cut(" → ".join(_printed(step) for step in steps) if steps else _printed(model))
    except Exception:
        return kind


def _printed(model: Any) -> str:
    """A model as it prints; one that holds transformers by its class, because they print long."""
    return type(model).__name__ if hasattr(model, "transformers") else " ".join(repr(model).split())


def short_name(model: Any, params: dict[str, Any] | None, first: Mapping[str, Any] | None) -> str:
    """A model as it prints; one that prints long by what differs from the first of its kind, or from the defaults."""
    text = model_name(model, params)
    if not text.endswith("...") or params is None or (first is None and hasattr(model, "steps")):
        return text
    base = _defaults(model, params) if first is None else _plain_params(first)
    differing = [f"{key}={value}" for key, value in _plain_params(params).items() if base.get(key) != value]
    return _cut(f"{type(model).__name__}({', '.join(differing)})") if differing else text


def in_a_line(name: str) -> str:
    """A name as a record can hold it."""
    said = " ".join(name.encode("utf-8", "replace").decode().split())
    return said if len(said) <= 240 else f"{said[:237]}..."
