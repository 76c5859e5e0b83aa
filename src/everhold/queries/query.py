"""Questions: one value for each row, on the public and on the private side.

A question is a callable over a mapping of columns, or the values themselves (`Values`). Both become a `Query`, which can
be evaluated on public rows, with full error messages, and on private rows, where nothing leaves but two exact sums.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from everhold.errors import QuestionError, did_you_mean
from everhold.queries.grid import GridValues, Scale, Sums, lenient_sums, on_grid, strict_sums
from everhold.queries.interrupts import interrupts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Query", "RowFunction", "RowValues", "Rows", "Values", "as_query"]

Rows = Mapping[str, "NDArray[Any]"]
"""A table as questions see it: a mapping from column name to array, one entry (or one matrix row) for each row."""


@runtime_checkable
class Query(Protocol):
    """A question that can be evaluated on public and on private rows."""

    @property
    def name(self) -> str | None:
        """A public identity: asking the same name again returns the recorded answer. None: every call is a new round."""

    @property
    def repeatable(self) -> bool:
        """Whether it can be evaluated on newly drawn rows, and again in a replay."""

    @property
    def text(self) -> bool:
        """Whether it was given as text, so that engines evaluate it and its canonical text is its name."""

    @property
    def yes_no(self) -> bool:
        """Whether it is a yes/no question given as text: its answer is a share, also where units average it."""

    def on_reference(self, rows: Rows, size: int, *, verify: bool = False) -> GridValues:
        """Values on public rows. Errors are reported in full (QuestionError).

        `verify` also checks that the question gives the same values when it is evaluated again.
        """

    def on_sample(self, rows: Rows, size: int, scale: Scale) -> Sums:
        """The exact sums of its values and of their squares on private rows, on the [-1, 1] scale."""


@dataclass(frozen=True, slots=True, eq=False)
class RowFunction:
    """A vectorised callable: `lambda rows: rows["age"] > 40`. For trusted code only, in process only.

    Booleans give a share in [0, 1], numbers in [-1, 1] give a mean in [-1, 1]. The value of a row may depend on that row
    alone: the guarantee does not cover a callable that combines several private rows.

    On private rows no error is reported. If the callable raises, the rows are halved until each failing row is on its
    own; it then counts as no (a share) or 0 (a mean), like a missing value.
    """

    function: Callable[[Rows], ArrayLike]
    name: str | None = None
    repeatable: bool = field(default=True, init=False)
    text: bool = field(default=False, init=False)
    yes_no: bool = field(default=False, init=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowFunction) and self.function is other.function and self.name == other.name

    def __hash__(self) -> int:
        return hash((id(self.function), self.name))

    def on_reference(self, rows: Rows, size: int, *, verify: bool = False) -> GridValues:
        """Evaluate the callable. `verify` calls it twice, to reject one that is not a function of a single row."""
        first = on_grid(self._call(rows), size, "the reference")
        if verify:
            self._require_steady(first, rows, size)
        return first

    def _require_steady(self, first: GridValues, rows: Rows, size: int) -> None:
        """Evaluate again on every other row; the values must be the same, except for rounding at a threshold."""
        part = slice(0, size, 2) if size > 1 else slice(0, size)
        half = {name: column[part] for name, column in rows.items()}
        try:
            second = on_grid(self.function(half), len(range(*part.indices(size))), "a part of the reference")
            differing = _differing(first, second, part)
        except Exception:
            differing = size
        if differing > size // 1000:
            raise QuestionError(
                "the callable returned different values in a second call, on every other row of the reference. "
                "Expected a fixed function of one row at a time: draw random numbers before asking, not inside the "
                "question, and take means, medians or ranks from the public reference beforehand."
            )

    def on_sample(self, rows: Rows, size: int, scale: Scale) -> Sums:
        """Sums over private rows; never raises and never warns, whatever the rows contain."""
        try:
            with interrupts() as signals, np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sums = lenient_sums(self.function(rows), size, scale)
        except BaseException as error:  # it must not be reported: it depends on private rows
            if signals.seen and isinstance(error, KeyboardInterrupt):
                raise
            sums = None
        if sums is not None:
            return sums
        if size <= 1:
            return Sums.yes_no(0, size) if scale == "share" else Sums(0, 0)
        half = size // 2
        first = {name: column[:half] for name, column in rows.items()}
        second = {name: column[half:] for name, column in rows.items()}
        return self.on_sample(first, half, scale).plus(self.on_sample(second, size - half, scale))

    def _call(self, rows: Rows) -> Any:
        try:
            return self.function(rows)
        except KeyError as error:
            missing = str(error.args[0]) if error.args else "?"
            raise QuestionError(
                f"there is no column {missing!r}.{did_you_mean(missing, rows)} The columns are: {', '.join(rows) or 'none'}."
            ) from error
        except Exception as error:
            raise QuestionError(
                f"the callable raised {type(error).__name__} on the public reference: {error}. Nothing was charged. "
                "Use holdout.try_out(...) to test it until it runs."
            ) from error


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A question given by its values on both sides, for callers who hold the private rows.

    Errors in `sample` are reported without values or positions; the caller already has the data. Code that builds values
    from untrusted output must convert them to booleans, or clip them, first.

    Args:
        sample: booleans, or numbers in [-1, 1], one for each private row. Optional for `try_out`.
        reference: the same question on the public reference rows, of the same kind.
        name: a public identity; asking the same name again returns the recorded answer instead of a new round.
        title: what the record shows people, a public fact; it tells no question from another.
        shown_range: the numbers that the least and the greatest value (-1 and 1) stand for, so that the record shows answers
            in units of people's own. Like a title, it tells no question from another.
    """

    sample: ArrayLike | None = field(default=None, kw_only=True, repr=False)
    reference: ArrayLike = field(kw_only=True, repr=False)
    name: str | None = field(default=None, kw_only=True)
    title: str | None = field(default=None, kw_only=True)
    shown_range: tuple[float, float] | None = field(default=None, kw_only=True)
    repeatable: bool = field(default=False, init=False)
    text: bool = field(default=False, init=False)
    yes_no: bool = field(default=False, init=False)

    def on_reference(self, rows: Rows, size: int, *, verify: bool = False) -> GridValues:
        """The given reference values, checked."""
        return on_grid(self.reference, size, "Values(reference=...)")

    def on_sample(self, rows: Rows, size: int, scale: Scale) -> Sums:
        """The exact sums of the given sample values, checked."""
        if self.sample is None:
            raise QuestionError("Values(sample=...) is missing. It is required, except for try_out.")
        own_scale, sums = strict_sums(self.sample, size, "Values(sample=...)")
        if own_scale != scale:
            kinds = {"share": "booleans", "mean": "numbers"}
            raise QuestionError(
                f"Values(sample=...) has {kinds[own_scale]} but Values(reference=...) has {kinds[scale]}. Expected the same "
                "type on both sides: convert one of them."
            )
        return sums


def is_range(ends: object) -> bool:
    """Whether these are two plain numbers in order, whose distance is finite.

    >>> is_range((0.0, 100)), is_range((1.0, 1.0)), is_range((-1.7e308, 1.7e308))
    (True, False, False)
    """
    if not isinstance(ends, tuple) or len(ends) != 2 or any(type(end) not in (int, float) for end in ends):
        return False
    low, high = float(ends[0]), float(ends[1])
    return low < high and isfinite(high - low)


@dataclass(frozen=True, slots=True, eq=False)
class RowValues(Values):
    """Values that everhold itself computed, each from its own private row alone, as privacy needs it.

    A test set makes them of public predictions and private labels. Nobody else should: what values given by a user depend
    on cannot be known.
    """


def _differing(first: GridValues, second: GridValues, part: slice) -> int:
    if first.scale != second.scale:
        return len(first)
    if first.scale == "share":
        return int(np.count_nonzero(first.array[part] != second.array))
    return int(np.count_nonzero(np.abs(first.array[part] - second.array) > 1.0))


def as_query(question: object, *, name: str | None = None) -> Query:
    """Convert a question to a `Query`; `name` gives a callable a public identity.

    >>> as_query(lambda rows: rows["age"] > 40).repeatable
    True
    >>> as_query(42)
    Traceback (most recent call last):
    ...
    everhold.errors.QuestionError: a question is text, a callable over columns or eh.Values(...), not int. Write ...
    """
    if name is not None and not isinstance(name, str):
        raise QuestionError(f"a name is text, not {type(name).__name__}.")
    if isinstance(question, RowFunction | Values):
        if question.name is not None and not isinstance(question.name, str):
            raise QuestionError(f"a name is text, not {type(question.name).__name__}.")
        if name is None or question.name == name:
            return question
        if question.name is not None:
            raise QuestionError(
                f"the question is already named {question.name!r} and cannot be asked as {name!r}. Use one name."
            )
        return replace(question, name=name)
    if isinstance(question, Query):
        return question
    if callable(question):
        return RowFunction(question, name)
    raise QuestionError(
        f"a question is text, a callable over columns or eh.Values(...), not {type(question).__name__}. Write "
        '"age > 40", or lambda rows: rows["age"] > 40, or pass the values on both sides.'
    )
