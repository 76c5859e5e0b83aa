"""A scorer for scikit-learn's searches: a handle that asks the test set and nothing else."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.errors import EverholdError, LedgerError, SearchWarning
from everhold.learn.layout import length
from everhold.learn.metrics import METRICS
from everhold.learn.model_names import model_name
from everhold.learn.versioned_pickle import read_pickle, write_pickle

if TYPE_CHECKING:
    from everhold.learn.testset import TestSet

__all__ = ["Scorer", "SearchStopped"]


class SearchStopped(BaseException):
    """The test set declines to go on. No ordinary exception, because searches turn those into NaN and carry on."""


class Scorer:
    """Enters a fitted estimator and returns its public forecast: `scorer(estimator, X, y)`, where X and y play no part.

    What is returned is not a score: `test.winner()` names the best of all entries and reads it. With `generation_size`,
    after every so many entries the test set is asked which is best so far.

    Larger is better, as scikit-learn wants it: losses are negated. It can be sent to other processes where the test set is
    durable. What is sent is the name of the study's file; the rows wait in a file beside it that only its owner can read,
    and each process takes its turn, and pauses between entries.
    """

    def __init__(self, test: TestSet, metric: str, *, folds: int = 5, generation_size: int | None = None) -> None:
        self._test = test
        self.metric = metric
        self._folds, self._generation_size = folds, generation_size
        self._sign = 1.0 if METRICS[metric].larger_is_better else -1.0
        self._folds_of: dict[str, int] | None = {}  # rows that a candidate was scored on; None once it was warned

    def __call__(self, estimator: Any, X: Any = None, y: Any = None, **_: Any) -> float:
        """The forecast's value, for a search to go by."""
        if X is not None and X is self._test.sides.X:
            warnings.warn(
                "this number is a forecast from public rows, and not a score of the test rows that were given. Ask "
                "test.winner().score, or test.read(model).",
                SearchWarning,
                stacklevel=2,
            )
        try:
            name, part = model_name(estimator), X is not None and length(X) <= 0.9 * length(self._test.sides.public)
            if part:  # several fits of the same parameters have names of their own
                fits = sum(one.name.startswith(f"{name}, fit ") for one in self._test.entries)
                entry = self._test.enter(estimator, self.metric, folds=self._folds, name=f"{name}, fit {fits + 1}")
            else:
                entry = self._test.enter(estimator, self.metric, folds=self._folds)
            self._warn_of_folds(name, X)
            if self._generation_size is not None and entry.number % self._generation_size == 0:
                self._test.winner(self.metric, read=False)
            return self._sign * float(entry)
        except EverholdError as refusal:
            raise SearchStopped(f"the search stops here: {refusal}") from refusal

    def _warn_of_folds(self, name: str, X: Any) -> None:
        """Warn once where a search enters a model for every fold: the same candidate again, on other rows, as many."""
        if self._folds_of is None or X is None or (rows := length(X)) > 0.9 * length(self._test.sides.public):
            return
        if abs(self._folds_of.setdefault(name, -2) - rows) > 1:
            self._folds_of[name] = rows
            return
        self._folds_of = None
        warnings.warn(
            "this search enters a model for every fold of its cross-validation, so that the winner has seen only a part of "
            "the training rows. Use cv=test.cv(X_train): it enters every candidate once, and the scorer cross-validates.",
            SearchWarning,
            stacklevel=3,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Scorer:
        return self  # one test set, however often a search is cloned

    def __reduce__(self) -> tuple[Any, ...]:
        test = self._test
        if test.path is None:
            warnings.warn(
                "this scorer cannot be sent to other processes: its test set is in memory only. Make it durable with "
                "TestSet(…, path='test.everhold'), or search with n_jobs=1.",
                SearchWarning,
                stacklevel=2,
            )
            raise LedgerError(
                "this test set is in memory only, and a scorer cannot be sent to other processes: two records for the same "
                "rows would void the guarantee. Make it durable with TestSet(…, path='test.everhold'), or search with "
                "n_jobs=1."
            )
        test.open_to_processes()
        return _again, (str(test.path), self.metric, self._folds, self._generation_size)

    def __repr__(self) -> str:
        return f"Scorer({self.metric}, {self._test!r})"


_ROWS = "rows 4"  # what `save_rows` writes
_here: dict[str, TestSet] = {}
"""Test sets that this process has taken up, by the path of their study."""


def rows_file(path: Path) -> Path:
    """Where the rows of a test set wait for other processes of its owner."""
    return path.with_name(path.name + ".rows")


def save_rows(path: Path, content: dict[str, Any]) -> None:
    """Write them so that only the owner can read them."""
    write_pickle(rows_file(path), _ROWS, content)


def _again(path: str, metric: str, folds: int, generation_size: int | None) -> Scorer:
    from everhold.learn.testset import TestSet

    if path not in _here:
        try:
            content = read_pickle(rows_file(Path(path)), _ROWS, "Make the scorer again.")
        except FileNotFoundError:
            raise LedgerError(
                f"the rows of {path} are not here: a scorer works on the machine and for the owner of its test set."
            ) from None
        _here[path] = TestSet.from_rows_file(content)
    return Scorer(_here[path], metric, folds=folds, generation_size=generation_size)
