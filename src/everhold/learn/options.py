"""What a test set is made with, beside its rows: one value, checked once."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from everhold.bounds.privacy import Privacy
from everhold.errors import DataError, PrivacyError, SettingError
from everhold.learn.layout import LabelPrior
from everhold.learn.metrics import MetricContext, Task
from everhold.ledger.reader import read_study
from everhold.queries.rng import fresh_seed
from everhold.session.settings import OverlapRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TestSetOptions", "checked_labels"]

_ROOM = 0.25  # of the public labels' range, on both sides of it
_MANY_CLASSES = 20  # more of them are probably numbers
_BINS = 16  # how many labels of a regression the prior assumes


@dataclass(frozen=True, slots=True, eq=False)
class TestSetOptions:
    """Everything that `TestSet` takes besides rows, labels and reference; its docstring says what each is.

    A contest's rules make the same value (`contest.board.Rules.options`).

    >>> TestSetOptions(task="ranking")
    Traceback (most recent call last):
    ...
    everhold.errors.SettingError: task is 'ranking'. Expected 'classification' or 'regression'.
    """

    __test__ = False  # not a class of tests, whatever its name begins with

    task: Task = "classification"
    prior: LabelPrior | None = None
    path: Path | None = None
    classes: tuple[Any, ...] | None = None
    low: float | None = None
    high: float | None = None
    positive: Any = None
    least_probability: float = 0.01
    pairs: bool = False
    label: str = "y"
    confidence: float = 0.95
    half_width: float | None = None
    known_rows: int = 0
    seed: int | None = None
    overlap: OverlapRule = "refuse"
    privacy: Privacy | None = None
    register: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        promise = None if self.privacy is None else asdict(self.privacy)
        return values | {"path": None if self.path is None else str(self.path), "privacy": promise}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> TestSetOptions:
        """The same again."""
        path, promise = content["path"], content["privacy"]
        plain = {"path": None if path is None else Path(path), "privacy": None if promise is None else Privacy(**promise)}
        return cls(**content | plain)

    def __post_init__(self) -> None:
        if self.task not in get_args(Task):
            raise SettingError(f"task is {self.task!r}. Expected 'classification' or 'regression'.")
        if self.prior is not None and self.prior not in get_args(LabelPrior):
            raise SettingError(f"prior is {self.prior!r}. Expected one of {', '.join(get_args(LabelPrior))}.")
        if not 0.0 < self.least_probability < 0.5:
            raise SettingError(f"least_probability is {self.least_probability!r}. Expected a number between 0 and 0.5.")
        both = self.low is not None and self.high is not None
        if self.task == "regression" and (both != (self.low is not None or self.high is not None) or not self._ordered):
            raise SettingError(
                f"the declared range of the labels is low={self.low!r}, high={self.high!r}. A regression needs both, the "
                "smaller first."
            )

    def require_privacy(self, reference: object) -> None:
        """Refuse a promise of privacy that a test set cannot keep, before a row is read.

        Only labels can be private: what a model says of a row may depend on all rows that it is given, and those are the
        features.
        """
        if self.privacy is None:
            return
        if not isinstance(self.privacy, Privacy):
            raise SettingError(f"privacy is {self.privacy!r}. Expected eh.Privacy(epsilon=..., delta=..., surprises=...).")
        if reference is not None:
            raise PrivacyError(
                "a test set with a reference keeps its features private, and cannot promise privacy: a model is given all "
                "test rows at once, and what it says of one may depend on all others. Expected public features: leave "
                "reference out, and every label is protected. No row was read."
            )
        if self.path is None:
            raise SettingError(
                "a test set in memory has no budget that anybody could keep: it could be made again. Expected "
                "path='test.everhold' with privacy."
            )
        if self.half_width is not None:
            raise SettingError("a private test set cannot promise a half-width: its noise has no largest value.")

    @property
    def _ordered(self) -> bool:
        return self.low is None or self.high is None or self.low < self.high

    def completed(self, public_labels: NDArray[Any] | None) -> TestSetOptions:
        """With what was left out, from public labels: the prior, and the range of a regression's labels with room."""
        prior: LabelPrior = "labelled" if self.task == "regression" and public_labels is not None else "uniform"
        options = replace(self, prior=self.prior or prior)
        if self.task == "classification" or self.low is not None:
            return options
        if public_labels is None:
            raise SettingError(
                "a regression needs the range of its labels. Expected low=… and high=…, or reference=(X_train, y_train), "
                "from which a range with room is taken."
            )
        labels = np.asarray(public_labels, dtype=np.float64)
        least, most = float(labels.min()), float(labels.max())
        room = max(_ROOM * (most - least), 1e-9 * max(abs(least), abs(most), 1.0))
        return replace(options, low=least - room, high=most + room)

    def with_seed(self) -> TestSetOptions:
        """The same with a seed: the one that was given, that of the study that is there already, or a new one."""
        if self.seed is not None:
            return self
        if self.path is not None and self.path.exists():
            return replace(self, seed=int(read_study(self.path).first_record.settings["seed"]))
        return replace(self, seed=fresh_seed())

    @property
    def holdout_settings(self) -> dict[str, Any]:
        """What the holdout inside is made with."""
        return {
            "confidence": self.confidence,
            "half_width": self.half_width,
            "known_rows": self.known_rows,
            "seed": self.seed,
            "overlap": self.overlap,
        }

    def context(self, public_labels: NDArray[Any] | None) -> MetricContext:
        """What metrics may use. Of the possible labels only public facts say anything: options, or public labels."""
        if self.task == "classification":
            classes = self._possible(public_labels)
            return MetricContext(classes, self._positive(classes), 0.0, 1.0, self.least_probability)
        low, high = float(self.low or 0.0), float(self.high or 0.0)
        edges = np.linspace(low, high, _BINS + 1)
        centre = 0.5
        if public_labels is not None:
            centre = min(max((float(np.mean(np.asarray(public_labels, dtype=np.float64))) - low) / (high - low), 0.0), 1.0)
        return MetricContext(0.5 * (edges[1:] + edges[:-1]), None, low, high, self.least_probability, centre)

    def _possible(self, public_labels: NDArray[Any] | None) -> NDArray[Any]:
        if self.classes is not None:
            values = np.asarray(list(self.classes))
            different, counts = np.unique(values, return_counts=True)
            if len(different) != len(values):
                twice = different[counts > 1][:1].tolist()[0]
                raise SettingError(f"classes has {twice!r} more than once. Expected every possible label once.")
        elif public_labels is not None:
            values = np.unique(public_labels)
        else:
            raise SettingError(
                "which labels can occur is not known from public facts. Expected classes=[0, 1], or "
                "reference=(X_train, y_train)."
            )
        if len(values) < 2:
            raise SettingError(
                f"the classes are {values.tolist()!r}. Expected at least two: classes=[…] with every label that can occur."
            )
        return values

    def _positive(self, classes: NDArray[Any]) -> Any:
        if self.positive is not None and self.positive not in classes.tolist():
            raise SettingError(
                f"positive is {self.positive!r}, which is not among the classes {classes.tolist()!r}. Expected one of them."
            )
        return classes[1] if self.positive is None and len(classes) == 2 else self.positive


def checked_labels(y: Any, rows: int, task: Task, context: MetricContext) -> NDArray[Any]:
    """The test labels, one for each row and all of them possible. A message never shows one: they are private."""
    labels = np.asarray(y)
    if labels.ndim != 1 or rows != len(labels):
        raise DataError(f"X has {rows:,} rows and y has shape {labels.shape}. Expected one label for each row.")
    if task == "classification":
        if not bool(np.isin(labels, context.classes).all()):
            many = len(context.classes) > _MANY_CLASSES and context.classes.dtype.kind in "iuf"
            raise DataError(
                "the test labels hold something that is not among the classes, or none (NaN). Expected classes=[…] with "
                "every label that can occur: they are public."
                + (" If they are numbers, use task='regression'." if many else "")
            )
        return labels
    try:
        labels = labels.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "the test labels are not numbers, and a regression needs numbers. Convert them, or use task='classification'."
        ) from None
    if not bool(np.all((labels >= context.low) & (labels <= context.high))):
        raise DataError(
            "the test labels hold something outside the declared range, or missing. Expected low=… and high=… that hold "
            "every label: they are public."
        )
    return labels
