"""Outcomes of a system on a set of cases: a score between 0 and 1 for each case, or several where it was run several times.

A case that ended with an error, a time-out or no value counts as a failure: it has the score 0. So does, in a candidate's
file, a case without an outcome, or with one that is not a score. What a candidate does on a private case must not decide
whether its check is refused, which would be a free bit about that case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.bounds.gain import STEPS
from everhold.errors import InvalidOutcomes

__all__ = ["Outcomes", "score_of"]

_PASSED = {"pass", "passed", "ok", "success", "true", "correct", "c", "yes", "1"}
_FAILED = {
    "fail", "failed", "failure", "error", "errored", "timeout", "skipped", "xfail", "false", "incorrect", "i", "n", "no",
    "0", "", "null", "none", "nan", "crash", "crashed",
}  # fmt: skip
_PARTLY = {"p": 0.5, "partial": 0.5}


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Every case with the scores of its runs.

    >>> found = Outcomes.of({"case-1": 1, "case-2": [1, 0, None], "case-3": "error"})
    >>> found.pass_fail, (found.steps(["case-1", "case-2", "case-3"]) / STEPS).round(3).tolist()
    (False, [1.0, 0.333, 0.0])
    """

    runs: Mapping[str, tuple[float, ...]]

    @classmethod
    def of(cls, given: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *, strict: bool = True) -> Outcomes:
        """From a mapping of case ids to scores, or from pairs, in which a case may occur once for each run.

        Args:
            given: the scores.
            strict: whether a value that is not a score is an error; else it is a failure.

        Raises:
            InvalidOutcomes: nothing is there, or something is not a score.
        """
        if isinstance(given, Outcomes):
            return given
        pairs = given.items() if isinstance(given, Mapping) else given
        runs: dict[str, tuple[float, ...]] = {}
        for case, value in pairs:
            name = str(case)
            several = value if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else [value]
            scores = tuple(score_of(one, name) if strict else _score_or_failure(one, name) for one in several)
            runs[name] = runs.get(name, ()) + (scores or (0.0,))
        if not runs:
            raise InvalidOutcomes("there are no outcomes. Expected a score for each case: {'case-1': 1, 'case-2': 0, ...}.")
        return cls(runs)

    @property
    def pass_fail(self) -> bool:
        """Whether every case was run once and either passed or failed."""
        return all(scores in ((0.0,), (1.0,)) for scores in self.runs.values())

    @property
    def cases(self) -> list[str]:
        """The ids of all cases."""
        return list(self.runs)

    def steps(self, cases: Sequence[str]) -> NDArray[np.int64]:
        """The mean score of each of these cases, in steps of 1/STEPS; 0 where there is none."""
        runs = [self.runs.get(case, (0.0,)) for case in cases]
        return np.array([round(sum(scores) / len(scores) * STEPS) for scores in runs], dtype=np.int64)

    def passes(self, cases: Sequence[str]) -> NDArray[np.int64]:
        """STEPS for each of these cases that passed in every run, 0 for the others."""
        runs = [self.runs.get(case, (0.0,)) for case in cases]
        return np.array([STEPS if set(scores) == {1.0} else 0 for scores in runs], dtype=np.int64)


def score_of(value: object, case: str) -> float:
    """The score of one run, between 0 and 1.

    >>> [score_of(one, "case") for one in (True, 0.25, "passed", "I", None, float("nan"))]
    [1.0, 0.25, 1.0, 0.0, 0.0, 0.0]
    """
    if value is None:
        return 0.0
    if isinstance(value, bool | np.bool_):
        return float(value)
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _PASSED:
            return 1.0
        if word in _FAILED:
            return 0.0
        if word in _PARTLY:
            return _PARTLY[word]
        try:
            value = float(word)
        except ValueError:
            raise InvalidOutcomes(
                f"case {case!r} has an outcome that is not a score. Expected a number between 0 and 1, pass, fail or error."
            ) from None
    if not isinstance(value, Real):
        raise InvalidOutcomes(
            f"case {case!r} has an outcome of type {type(value).__name__}. Expected a number between 0 and 1, pass or fail."
        )
    number = float(value)
    if not isfinite(number):
        return 0.0
    if not 0.0 <= number <= 1.0:
        raise InvalidOutcomes(
            f"case {case!r} has a score outside 0 to 1. Expected scores between 0 and 1, larger being better: divide by the "
            "largest score there can be, or take 1 less a loss."
        )
    return number


def _score_or_failure(value: object, case: str) -> float:
    try:
        return score_of(value, case)
    except InvalidOutcomes:
        return 0.0
