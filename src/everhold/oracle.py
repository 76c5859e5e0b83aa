"""The statistical-query oracle: known features, unknown labels, φ(x, y) in [-1, 1] answered within a tolerance.

A learner that uses an unknown labelling only through such answers is a statistical-query algorithm (Kearns 1998).
The paper's Theorem DSQ answers [-1, 1]-valued φ by averaging Boolean questions; everhold can also ask φ itself (the
direct route).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, log
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from everhold.data.source import as_table
from everhold.data.table import RowTable
from everhold.errors import (
    DataError,
    PrecisionExhausted,
    PriorError,
    QuestionError,
    SettingError,
    require_number,
    require_whole,
)
from everhold.mechanism.aqa_ogd import AqaOgd
from everhold.mechanism.estimator import Draws
from everhold.priors.labels import Labels
from everhold.priors.pool import Prior
from everhold.priors.reference import Reference
from everhold.priors.sampler import Sampler
from everhold.queries.answer import Answer
from everhold.queries.query import Rows
from everhold.queries.rng import fresh_seed, stream_rng
from everhold.session.holdout import Holdout
from everhold.session.session import Session

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Phi = Callable[[Any, NDArray[Any]], ArrayLike]

__all__ = ["MechanismName", "Route", "SQOracle"]

Route = Literal["direct", "boolean"]
MechanismName = Literal["everhold", "aqa-ogd"]

_FEATURES, _LABEL = "x", "y"


class SQOracle:
    """Answers φ(x, y) in [-1, 1] within `tolerance`, for any number of adaptive questions, or refuses.

    Args:
        features: the public features: rows without labels (a matrix, a mapping of columns or a frame), a sampler
            `draw(rng, size)` of such rows, or a prior.
        sample: the private labelled sample (X, y).
        tolerance: τ of the oracle: with probability `confidence`, all answers are within it of the population values.
        classes: the possible labels.
        confidence: probability that all answers are within the tolerance.
        route: 'direct' asks φ itself; 'boolean' averages yes/no questions sign(φ - U), U uniform, as in the paper.
        rounds: T, required by the Boolean route and by AQA-OGD, which fix it in advance.
        mechanism: 'everhold', or the paper's 'aqa-ogd' (Boolean route only).
        pool: how many feature rows to draw from a sampler; None draws new ones every round.
        seed: the seed of the coins.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], size=(20_000, 5)); y = X[:, 0]
    >>> oracle = SQOracle(features=lambda rng, size: rng.choice([-1.0, 1.0], size=(size, 5)), sample=(X, y),
    ...                   tolerance=0.2, seed=1)
    >>> abs(oracle.ask(lambda x, y: x[:, 0] * y).value - 1.0) <= 0.2
    True
    """

    def __init__(
        self,
        *,
        features: object,
        sample: tuple[object, ArrayLike],
        tolerance: float = 0.1,
        classes: Sequence[Any] = (-1, 1),
        confidence: float = 0.95,
        route: Route = "direct",
        rounds: int | None = None,
        mechanism: MechanismName = "everhold",
        pool: int | None = 50_000,
        seed: int | None = None,
    ) -> None:
        require_number(tolerance, "the tolerance")
        require_number(confidence, "confidence")
        if rounds is not None:
            require_whole(rounds, "rounds")
        if not (isinstance(sample, tuple) and len(sample) == 2):
            raise SettingError("expected sample=(X, y): the features and labels of the private rows.")
        if not 0.0 < tolerance < 2.0:
            raise SettingError(f"the tolerance is {tolerance!r}. Expected a number between 0 and 2, on the [-1, 1] scale.")
        if not 0.0 < confidence < 1.0:
            raise SettingError(f"confidence is {confidence!r}. Expected a number strictly between 0 and 1.")
        if route not in get_args(Route) or mechanism not in get_args(MechanismName):
            raise SettingError(
                f"the route is 'direct' or 'boolean' and the mechanism 'everhold' or 'aqa-ogd', not {route!r} and "
                f"{mechanism!r}"
            )
        if mechanism == "aqa-ogd" and route != "boolean":
            raise SettingError("AQA-OGD answers yes/no questions only. Use route='boolean' with it.")
        if route == "boolean" and (rounds is None or rounds < 1):
            raise SettingError("the Boolean route fixes the number of questions in advance. Pass rounds=...")
        self.tolerance = tolerance
        self.route: Route = route
        self._seed = fresh_seed() if seed is None else seed
        self._asked = 0
        self._horizon = rounds or 1
        self._failure = 1.0 - confidence
        self._columns = isinstance(sample[0], Mapping) or hasattr(sample[0], "columns")
        private = self._private(sample)
        if not bool(np.isin(private[_LABEL], np.array(list(classes))).all()):
            raise DataError(
                f"the sample has labels that are not among the classes {list(classes)!r}. Pass all possible labels, as in "
                "classes=[0, 1]."
            )
        self._batch = 1 if route == "direct" else ceil(8.0 / tolerance**2 * log(4.0 * self._horizon / self._failure))
        inner = tolerance if route == "direct" else tolerance / 2.0
        holdout_confidence = confidence if route == "direct" else 1.0 - self._failure / 2.0
        if mechanism == "aqa-ogd":
            draw = _labelled_draw(self._prior(features, None), classes)
            horizon, failure = self._batch * self._horizon, 1.0 - holdout_confidence
            self.holdout: Session[Any] = Holdout.with_mechanism(
                private,
                lambda n: AqaOgd(
                    rows=n,
                    draw=draw,
                    accuracy=inner,
                    density=1.0 / len(classes),
                    rounds=horizon,
                    failure_probability=failure,
                    seed=self._seed,
                ),
            )
        else:
            self.holdout = Holdout(
                private,
                prior=Labels(self._prior(features, pool), label=_LABEL, classes=classes),
                confidence=holdout_confidence,
                half_width=inner / 2.0,
                seed=self._seed,
                overlap="allow",  # features may be those of the sample: only labels are private
            ).session

    def ask(self, phi: Phi) -> Answer:
        """The population value of φ(x, y), within the tolerance.

        Args:
            phi: vectorised: `phi(x, y)` takes features and labels of many rows and returns numbers in [-1, 1].

        Raises:
            PrecisionExhausted: the sample is too small for another answer with this tolerance.
        """
        if not callable(phi):
            raise QuestionError(f"φ is of type {type(phi).__name__}. Expected a function of (x, y).")

        def numbers(rows: Rows) -> NDArray[np.float64]:
            values = np.asarray(phi(self._features_of(rows), rows[_LABEL]), dtype=np.float64)
            if self.route == "boolean" and not bool(np.all(np.abs(values) <= 1.0)):
                raise ValueError("a value of φ is missing or outside [-1, 1]")
            return values

        if self.route == "direct":
            return self.holdout.ask(numbers)
        if self._asked >= self._horizon:
            raise QuestionError(
                f"all {self._horizon:,} planned questions (rounds={self._horizon}) have been asked. The Boolean route fixes "
                "their number in advance: plan more with rounds=... when you make the oracle, or use route='direct'. "
                "Nothing was charged."
            )
        answer = self._average(numbers)
        self._asked += 1
        if answer.interval.half_width > self.tolerance:
            raise PrecisionExhausted(
                f"the sample is too small: it allows ±{answer.interval.half_width:.3g}, but the tolerance is "
                f"±{self.tolerance:g}.",
                asked=self.tolerance,
                left=0.0,
                needed=answer.interval.half_width,
                more_rows=None,
            )
        return answer

    def __repr__(self) -> str:
        return f"SQOracle(within ±{self.tolerance:g}, {self.route} route, {self.holdout!r})"

    def _average(self, numbers: Callable[[Rows], NDArray[np.float64]]) -> Answer:
        """The mean of B answers to sign(φ - U_j); Hoeffding adds τ/2 for the random thresholds."""
        thresholds = stream_rng(self._seed, "boolean", self.holdout.rounds).uniform(-1.0, 1.0, self._batch)
        answers = [self.holdout.ask(lambda rows, threshold=threshold: numbers(rows) > threshold) for threshold in thresholds]
        slack = self.tolerance / 2.0

        def mean(shares: list[float]) -> float:
            return 2.0 * float(np.mean(shares)) - 1.0

        return Answer(
            value=mean([answer.value for answer in answers]),
            low=max(-1.0, mean([answer.low for answer in answers]) - slack),
            high=min(1.0, mean([answer.high for answer in answers]) + slack),
            surprise=any(answer.surprise for answer in answers),
            round=self._asked + 1,
            price=answers[-1].price,
            scale="mean",
        )

    def _private(self, sample: tuple[object, ArrayLike]) -> RowTable:
        x, y = sample
        columns = dict(as_table(x, what="the sample's features")) if self._columns else {_FEATURES: np.asarray(x)}
        return RowTable({**columns, _LABEL: np.asarray(y)}, what="the labelled sample")

    def _features_of(self, rows: Rows) -> Any:
        if not self._columns:
            return rows[_FEATURES]
        return {name: column for name, column in rows.items() if name != _LABEL}

    def _prior(self, features: object, pool: int | None) -> Prior:
        if isinstance(features, Prior):
            return features
        if callable(features):
            return Sampler(lambda rng, size: self._as_columns(features(rng, size)), size=pool)
        return Reference(self._as_columns(features))

    def _as_columns(self, features: object) -> object:
        if isinstance(features, Mapping) or hasattr(features, "columns"):
            if not self._columns:
                raise PriorError(
                    "the features have named columns, but the sample does not. Expected the same on both sides."
                )
            return features
        if self._columns:
            raise PriorError("the sample has named columns, but the features do not. Expected the same on both sides.")
        return {_FEATURES: np.asarray(features)}


def _labelled_draw(features: Prior, classes: Sequence[Any]) -> Callable[[np.random.Generator, int], Draws]:
    """The paper's g: a feature row and an independent uniform label."""
    labels = np.array(classes)

    def draw(rng: np.random.Generator, size: int) -> Draws:
        pool = features.draw(rng, size)
        columns: dict[str, object] = {**pool.rows, _LABEL: labels[rng.integers(len(labels), size=size)]}
        return Draws(RowTable(columns), size, None, float(size))

    return draw
