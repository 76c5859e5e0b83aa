"""Statistical-query learners as scikit-learn estimators.

`fit(X, y)` treats the features as public and the labels as private: the labels are in a holdout, which the learner asks.
`fit_oracle(oracle, features)` learns labels through an oracle: an `eh.SQOracle`, or anything that answers `ask(phi)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from everhold.errors import MissingExtra
from everhold.learn import programs
from everhold.oracle import SQOracle
from everhold.priors.labels import Labels
from everhold.session.holdout import Holdout

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtra("learning with scikit-learn", "learn") from None

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.answer import Answer

__all__ = ["Oracle", "SQBoosting", "SQDecisionTree", "SQHalfspace", "SQLogisticRegression"]


class Oracle(Protocol):
    """Answers questions φ(x, y) about labelled rows."""

    def ask(self, phi: programs.Phi, /) -> Answer:
        """The population value of φ."""


class _Anytime:
    """An oracle that never refuses: intervals widen instead."""

    def __init__(self, holdout: Holdout) -> None:
        self.holdout = holdout

    def ask(self, phi: programs.Phi, /) -> Answer:
        """The population value of φ, from the holdout."""
        return self.holdout.ask(lambda rows: np.clip(phi(rows["x"], rows["y"].astype(np.float64)), -1.0, 1.0))


class _SQClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier for two classes, learnt by questions. Subclasses add the program."""

    def _program(self, features: NDArray[np.float64]) -> programs.LearnerProgram:
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from labelled rows: their features are public, and their labels are used only through questions.

        Args:
            X: features, one row each.
            y: two classes.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
        if len(self.classes_) < 2:
            raise ValueError("This learner needs two classes; the labels have only one class.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        labels = np.where(codes == 1, 1, -1)
        oracle: SQOracle | _Anytime
        if self.tolerance is None:
            prior = Labels({"x": X}, label="y", classes=[-1, 1])
            # The features are public here, and only labels are private.
            holdout = Holdout({"x": X, "y": labels}, prior=prior, confidence=self.confidence, seed=seed, overlap="allow")
            oracle = _Anytime(holdout)
        else:
            oracle = SQOracle(
                features=X, sample=(X, labels), tolerance=self.tolerance, confidence=self.confidence, seed=seed
            )
        self._learn(oracle, X)
        self.n_surprises_, self.nats_ = oracle.holdout.surprises, oracle.holdout.price
        return self

    def fit_oracle(self, oracle: Oracle, features: Any, *, classes: Any = (-1, 1)) -> Any:
        """Learn labels that only the oracle knows.

        Args:
            oracle: answers φ(x, y) with y in {-1, 1}.
            features: public rows without labels.
            classes: the names of the labels -1 and 1.
        """
        X = validate_data(self, features, dtype=np.float64)
        self.classes_ = np.asarray(list(classes))
        if self.classes_.shape != (2,):
            raise ValueError("Expected two classes: the names of the labels -1 and 1.")
        self._learn(oracle, X)
        return self

    def _learn(self, oracle: Oracle, features: NDArray[np.float64]) -> None:
        program = self._program(features)
        self.n_questions_ = 0
        try:
            phi = next(program)
            while True:
                answer = oracle.ask(phi)
                self.n_questions_ += 1
                phi = program.send(float(answer))
        except StopIteration as done:
            self.model_ = done.value

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """A score for every row, positive for the second class."""
        check_is_fitted(self)
        return self.model_.score(validate_data(self, X, dtype=np.float64, reset=False))  # type: ignore[no-any-return]

    def predict(self, X: Any) -> NDArray[Any]:
        """The more likely class of every row."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0.0).astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class SQHalfspace(_SQClassifier):
    """A linear threshold learnt by questions: correlations, then corrections near the boundary.

    Args:
        steps: corrections; each asks one question per feature.
        margin: corrections use rows nearer to the boundary than this.
        tolerance: the precision of every answer, on the [-1, 1] scale; the fit ends with PrecisionExhausted if it is not
            possible. None: as precise as the rows allow.
        confidence: probability that all answers are simultaneously valid: for new labels of the same features with `fit`,
            for the oracle's population with `fit_oracle`.
        random_state: the seed of the holdout's coins.
    """

    def __init__(
        self,
        steps: int = 10,
        margin: float = 0.1,
        tolerance: float | None = None,
        confidence: float = 0.95,
        random_state: Any = None,
    ) -> None:
        self.steps = steps
        self.margin = margin
        self.tolerance = tolerance
        self.confidence = confidence
        self.random_state = random_state

    def _program(self, features: NDArray[np.float64]) -> programs.LearnerProgram:
        return programs.halfspace(features, steps=self.steps, margin=self.margin)


class SQLogisticRegression(_SQClassifier):
    """Logistic regression learnt by questions: one for every coordinate of every gradient.

    Args:
        steps: gradient steps; each asks one question per feature.
        rate: length of a step.
        penalty: weight of the penalty on squared weights.
        tolerance, confidence, random_state: as for `SQHalfspace`.
    """

    def __init__(
        self,
        steps: int = 15,
        rate: float = 4.0,
        penalty: float = 1e-3,
        tolerance: float | None = None,
        confidence: float = 0.95,
        random_state: Any = None,
    ) -> None:
        self.steps = steps
        self.rate = rate
        self.penalty = penalty
        self.tolerance = tolerance
        self.confidence = confidence
        self.random_state = random_state

    def _program(self, features: NDArray[np.float64]) -> programs.LearnerProgram:
        return programs.logistic(features, steps=self.steps, rate=self.rate, penalty=self.penalty)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of both classes."""
        second = 1.0 / (1.0 + np.exp(-np.clip(self.decision_function(X), -500.0, 500.0)))
        return np.stack([1.0 - second, second], axis=1)


class SQBoosting(_SQClassifier):
    """Boosting over single features learnt by questions: each stage takes a step along the most useful feature.

    Args:
        stages: the number of stages; each asks one question per feature.
        rate: length of a step.
        tolerance, confidence, random_state: as for `SQHalfspace`.
    """

    def __init__(
        self,
        stages: int = 20,
        rate: float = 1.5,
        tolerance: float | None = None,
        confidence: float = 0.95,
        random_state: Any = None,
    ) -> None:
        self.stages = stages
        self.rate = rate
        self.tolerance = tolerance
        self.confidence = confidence
        self.random_state = random_state

    def _program(self, features: NDArray[np.float64]) -> programs.LearnerProgram:
        return programs.boosting(features, stages=self.stages, rate=self.rate)


class SQDecisionTree(_SQClassifier):
    """A decision tree learnt by questions: one for every candidate cut at every node.

    Args:
        depth: levels of the tree.
        cuts: candidate thresholds for every feature.
        least: a leaf has at least this share of the rows.
        tolerance, confidence, random_state: as for `SQHalfspace`.
    """

    def __init__(
        self,
        depth: int = 3,
        cuts: int = 3,
        least: float = 0.01,
        tolerance: float | None = None,
        confidence: float = 0.95,
        random_state: Any = None,
    ) -> None:
        self.depth = depth
        self.cuts = cuts
        self.least = least
        self.tolerance = tolerance
        self.confidence = confidence
        self.random_state = random_state

    def _program(self, features: NDArray[np.float64]) -> programs.LearnerProgram:
        return programs.decision_tree(features, depth=self.depth, cuts=self.cuts, least=self.least)
