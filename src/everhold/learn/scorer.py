"""A scorer for scikit-learn's searches: a handle that asks the test set and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.errors import LedgerError, PrecisionExhausted
from everhold.learn.metrics import METRICS

if TYPE_CHECKING:
    from everhold.learn.testset import TestSet

__all__ = ["Scorer", "SearchStopped"]


class SearchStopped(BaseException):
    """The test set declines to go on. No ordinary exception, because searches turn those into NaN and carry on."""


class Scorer:
    """Scores a fitted estimator on the test set: `scorer(estimator, X, y)`, where X and y play no part.

    Larger is better, as scikit-learn wants it: losses are negated. It can be sent to other processes where the test set is
    durable; each of them opens the study for one score and gives it up again.
    """

    def __init__(self, test: TestSet, metric: str) -> None:
        self._test = test
        self.metric = metric
        self._sign = 1.0 if METRICS[metric].larger_is_better else -1.0

    def __call__(self, estimator: Any, X: Any = None, y: Any = None, **_: Any) -> float:
        """The score's value, for a search to rank by."""
        try:
            return self._sign * float(self._test.score(estimator, self.metric))
        except PrecisionExhausted as refusal:
            raise SearchStopped(f"the search stops here: {refusal}") from refusal

    def __reduce__(self) -> tuple[Any, ...]:
        test = self._test
        if test._path is None:
            raise LedgerError(
                "this test set is in memory only, and a scorer cannot be sent to other processes: two records for the same "
                "rows would void the guarantee. Make it durable with TestSet(…, path='test.everhold'), or search with "
                "n_jobs=1."
            )
        test._shared = True
        test.release()
        return _again, (_State(test), self.metric)

    def __repr__(self) -> str:
        return f"Scorer({self.metric}, {self._test!r})"


class _State:
    """A test set on its way to another process: everything but the open file."""

    def __init__(self, test: TestSet) -> None:
        self.kept = {**vars(test), "_held": None, "exhausted": None}

    def restore(self) -> TestSet:
        """The same test set, which will open the study for each score."""
        from everhold.learn.testset import TestSet

        test = TestSet.__new__(TestSet)
        test.__dict__.update(self.kept)
        return test


def _again(state: _State, metric: str) -> Scorer:
    return Scorer(state.restore(), metric)
