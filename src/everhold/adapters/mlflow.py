"""Scores and verdicts in MLflow: the value, its interval, its price. They were disclosed already; logging adds nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

import mlflow

if TYPE_CHECKING:
    from everhold.gate.results import CheckResult

__all__ = ["Scored", "log_check", "log_score"]


class Scored(Protocol):
    """A number with its interval and its price: a score, a finding, an answer."""

    @property
    def value(self) -> float:
        """The number."""
        ...

    @property
    def low(self) -> float:
        """The lower end."""
        ...

    @property
    def high(self) -> float:
        """The upper end."""
        ...

    @property
    def price(self) -> float:
        """The price in nats."""
        ...


def log_score(score: Scored, name: str | None = None, *, step: int | None = None) -> None:
    """Log a score of a test set, or any answer of a holdout, to the active run.

    Args:
        score: what `test.score`, `test.read`, `test.winner().score`, `holdout.read` and others return.
        name: of the metric; what was asked for when left out. Logged are `name`, `name.low`, `name.high`, `name.nats`.
        step: the training step, as for `mlflow.log_metric`.
    """
    called = _key(name or str(getattr(score, "what", "") or "answer"))
    numbers = {"": score.value, ".low": score.low, ".high": score.high, ".nats": score.price}
    mlflow.log_metrics({f"{called}{part}": float(number) for part, number in numbers.items()}, step=step)


def log_check(result: CheckResult, *, step: int | None = None) -> None:
    """Log the verdict of a gate to the active run: metrics `gate.promoted`, `gate.nats` …, tags with name and reason."""
    shown: dict[str, Any] = result.to_dict()
    numbers = {name: float(shown[name]) for name in ("promoted", "certified", "by", "checks", "promotions")}
    mlflow.log_metrics({f"gate.{name}": number for name, number in (numbers | {"nats": result.price}).items()}, step=step)
    mlflow.set_tags({f"gate.{name}": str(shown[name]) for name in ("name", "verdict", "state", "reason")})


def _key(name: str) -> str:
    """A name that MLflow accepts.

    >>> _key("mean of bmi cut to 10…60")
    'mean of bmi cut to 10-60'
    """
    return re.sub(r"[^\w\-. :/]", "-", name, flags=re.ASCII)
