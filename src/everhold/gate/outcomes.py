"""Outcomes of a system on a set of cases: a score between 0 and 1 for each case, or several where it was run several times.

A case that ended with an error, a time-out or no value counts as a failure: it has the score 0. So does, in a candidate's
file, a case without an outcome, or with one that is not a score. What a candidate does on a private case must not decide
whether its check is refused, which would be a free bit about that case.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.bounds.gain import SCORE_ONE
from everhold.errors import InvalidOutcomes

__all__ = ["OutcomeGaps", "Outcomes", "least_check_bytes", "score_of"]

_PASSED = {"pass", "passed", "ok", "success", "true", "correct", "c", "yes", "1"}
_FAILED = {
    "fail", "failed", "failure", "error", "errored", "timeout", "skipped", "xfail", "false", "incorrect", "i", "n", "no",
    "0", "", "null", "none", "nan", "crash", "crashed",
}  # fmt: skip
_PARTLY = {"p": 0.5, "partial": 0.5}
_EMPTY = {"", "null", "none", "nan"}


@dataclass(frozen=True, slots=True)
class OutcomeGaps:
    """What of a file counts as a failure although the system may not have failed: for the evaluator, who has the file.

    A function of the file and of the gate's cases. It says how often something happened on sealed cases, so it must not
    reach the people and programs that make candidates, and it is no part of a verdict.

    Attributes:
        missing: cases without an outcome: not in the file, null, NaN or empty.
        strange: cases with an outcome that is not a score between 0 and 1.
        unclear: at a gate of pass or fail: cases that neither passed nor failed in every run.
        cases: how many there are.
        unsure: the gate's ids are not known here, and names that a program printed may be none of them: more may be missing.
    """

    missing: int
    strange: int
    unclear: int
    cases: int
    unsure: bool = False

    def __bool__(self) -> bool:
        return bool(self.missing or self.strange or self.unclear)

    def __str__(self) -> str:
        parts = [f"{self.missing:,} without an outcome"] if self.missing else []
        parts += [f"{self.strange:,} with one that is not a score"] if self.strange else []
        parts += [f"{self.unclear:,} that neither pass nor fail"] if self.unclear else []
        said = f"of {self.cases:,} cases: {', '.join(parts) or 'every one has an outcome'}"
        return f"{said} (or more: printed names may be no cases)" if self.unsure else said

    def require_none(self) -> None:
        """Refuse a file that has any.

        Raises:
            InvalidOutcomes: it has some, or nobody can say here.
        """
        if self.unsure:
            raise InvalidOutcomes(
                "these outcomes were found in what a program printed, and names that are no cases can hide gaps from those "
                "who do not know the gate's ids. Expected JSON, or CSV with ids before scores, in a file that is called so, "
                "because all outcomes are required (require_all, --require-all). Nothing was charged."
            )
        if self:
            raise InvalidOutcomes(
                f"{self}. Expected a score for every case, because all outcomes are required (require_all, --require-all). "
                "Nothing was charged."
            )


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Every case with the scores of its runs.

    >>> outcomes = Outcomes.of({"case-1": 1, "case-2": [1, 0, None], "case-3": "error"})
    >>> outcomes.pass_fail, (outcomes.on_score_grid(["case-1", "case-2", "case-3"]) / SCORE_ONE).round(3).tolist()
    (False, [1.0, 0.333, 0.0])
    """

    runs: Mapping[str, tuple[float, ...]]
    empty: frozenset[str] = frozenset()
    """Cases of which a run has no outcome: null, NaN, an empty text or list. They count as failures."""
    strange: frozenset[str] = frozenset()
    """Cases of which a run has something that is not a score. They count as failures."""
    printed: bool = False
    """Whether they were found in what a program printed, so that lines of other names mean nothing."""

    @classmethod
    def of(
        cls, given: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *, strict: bool = True, printed: bool = False
    ) -> Outcomes:
        """From a mapping of case ids to scores, or from pairs, in which a case may occur once for each run.

        Args:
            given: the scores.
            strict: whether a value that is not a score is an error, as for an incumbent; else it is a failure, and
                a file without any outcome is one of failures.
            printed: whether they were found in what a program printed.

        Raises:
            InvalidOutcomes: with `strict` nothing is there, or something is not a score; entries that are no pairs.
        """
        if isinstance(given, Outcomes):
            return given
        runs: dict[str, tuple[float, ...]] = {}
        empty, strange = set(), set()
        for case, value in given.items() if isinstance(given, Mapping) else _pairs(given):
            name = str(case)
            run_values = _several(value)
            scores = [score_of(run_value, name) if strict else _score_or_none(run_value, name) for run_value in run_values]
            if None in scores:
                strange.add(name)
            if not scores or any(_is_empty(run_value) for run_value in run_values):
                empty.add(name)
            runs[name] = runs.get(name, ()) + (tuple(score or 0.0 for score in scores) or (0.0,))
        if not runs and strict:
            raise InvalidOutcomes("there are no outcomes. Expected a score for each case: {'case-1': 1, 'case-2': 0, ...}.")
        return cls(runs, frozenset(empty), frozenset(strange), printed)

    @property
    def pass_fail(self) -> bool:
        """Whether every case was run once and either passed or failed."""
        return all(scores in ((0.0,), (1.0,)) for scores in self.runs.values())

    @property
    def cases(self) -> list[str]:
        """The ids of all cases."""
        return list(self.runs)

    def fitting(self, most: int) -> Outcomes:
        """The first of them that take up to so many bytes as JSON. What a program printed must not make a request too large.

        >>> Outcomes.of({"a": 1, "a long name": 0, "b": 1}).fitting(30).cases
        ['a', 'b']
        """
        kept: dict[str, tuple[float, ...]] = {}
        for case, scores in self.runs.items():
            size = len(json.dumps(case)) + sum(len(repr(score)) + 2 for score in scores) + 4
            if size <= most:
                kept[case] = scores
                most -= size
        return replace(self, runs=kept, empty=self.empty & kept.keys(), strange=self.strange & kept.keys())

    def gaps(self, cases: int | Collection[str], *, pass_fail: bool) -> OutcomeGaps:
        """What of the file counts as a failure although the system may not have failed.

        Args:
            cases: the gate's. If only their number is known, all of the file's are taken to be among them.
            pass_fail: whether they pass or fail.

        >>> print(Outcomes.of({"a": 1, "b": None, "c": 2, "d": 0.5}, strict=False).gaps(9, pass_fail=True))
        of 9 cases: 6 without an outcome, 1 with one that is not a score, 1 that neither pass nor fail
        """
        number = cases if isinstance(cases, int) else len(cases)
        mine = self.runs.keys() if isinstance(cases, int) else self.runs.keys() & set(cases)
        bad = self.empty | self.strange
        unclear = sum(set(self.runs[case]) not in ({0.0}, {1.0}) for case in mine - bad) if pass_fail else 0
        missing = max(number - len(mine), 0) + len(mine & (self.empty - self.strange))
        return OutcomeGaps(missing, len(mine & self.strange), unclear, number, self.printed and isinstance(cases, int))

    def on_score_grid(self, cases: Sequence[str]) -> NDArray[np.int64]:
        """The mean score of each of these cases, in steps of 1/SCORE_ONE; 0 where there is none."""
        runs = [self.runs.get(case, (0.0,)) for case in cases]
        return np.array([round(sum(scores) / len(scores) * SCORE_ONE) for scores in runs], dtype=np.int64)

    def passes(self, cases: Sequence[str]) -> NDArray[np.int64]:
        """SCORE_ONE for each of these cases that passed in every run, 0 for the others."""
        runs = [self.runs.get(case, (0.0,)) for case in cases]
        return np.array([SCORE_ONE if set(scores) == {1.0} else 0 for scores in runs], dtype=np.int64)


def least_check_bytes(cases: int) -> int:
    """So large may a check be at every server: ids and some scores. Of what was printed, clients send no more."""
    return max(1_000_000, 400 * cases)


def score_of(value: object, case: str) -> float:
    """The score of one run, between 0 and 1.

    >>> [score_of(value, "case") for value in (True, 0.25, "passed", "I", None, float("nan"))]
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
    try:
        number = float(value)
    except OverflowError:  # a whole number of some hundred digits
        number = 2.0
    if not isfinite(number):
        return 0.0
    if not 0.0 <= number <= 1.0:
        raise InvalidOutcomes(
            f"case {case!r} has a score outside 0 to 1. Expected scores between 0 and 1, larger being better: divide by the "
            "largest score there can be, or take 1 less a loss."
        )
    return number


def _score_or_none(value: object, case: str) -> float | None:
    """The score; None where it is none. Whatever a value does, it is not the candidate that decides what is refused."""
    try:
        return score_of(value, case)
    except Exception:
        return None


def _pairs(given: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Cases with scores. An entry that is None is left out: its case has no outcome."""
    for pair in given:
        if pair is None:
            continue
        try:
            case, value = pair
        except (TypeError, ValueError):
            raise InvalidOutcomes(
                f"an entry is of type {type(pair).__name__}. Expected {{case: score}}, or pairs of a case and its score. "
                "Nothing was charged."
            ) from None
        yield case, value


def _several(value: Any) -> Sequence[Any]:
    """The scores of all runs."""
    if isinstance(value, np.ndarray):
        return [value.item()] if value.ndim == 0 else list(value)
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]


def _is_empty(value: object) -> bool:
    """Whether nothing was found out: no value, or one that is no number. An error is an outcome: a failure."""
    if isinstance(value, str):
        return value.strip().lower() in _EMPTY
    try:
        return value is None or (isinstance(value, Real) and not isfinite(value))
    except OverflowError:  # a whole number of some hundred digits
        return False
