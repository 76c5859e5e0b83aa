"""Values on a grid, so that every sum is exact.

A question's values are whole multiples of 2⁻¹⁵ in [-1, 1]. Their sums are whole numbers, stored without rounding in
float64 or int, so a sum does not depend on the order of rows, on threads, on the linear-algebra library or on the
machine (`docs/theory/exact_arithmetic.md`). So are the sums of their squares, as Python integers. A yes/no question is
stored as booleans that stand for +1 and -1.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from everhold.errors import QuestionError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "MASS_ONE",
    "STEPS",
    "VALUE_ONE",
    "GridValues",
    "PackedValues",
    "Scale",
    "Sums",
    "lenient_sums",
    "on_grid",
    "strict_sums",
]

VALUE_ONE = 2**15
"""Values of a question are whole multiples of 1/VALUE_ONE."""

STEPS = 2 * VALUE_ONE
"""A row's position within its range, in steps: from one end to the other."""
MASS_ONE = 2**12
"""Masses of the sketch (weight times density ratio) are whole multiples of 1/MASS_ONE."""

Scale = Literal["share", "mean"]
"""The scale of an answer: 'share' of yes in [0, 1], or 'mean' in [-1, 1]."""

_EDGE = 1.0 + 2.0**-17  # allows for rounding errors at ±1: anything up to here rounds to ±1 on the grid
_CHUNK = 32_768  # rows at a time: small enough to stay in the processor's cache
_BLOCK = 2**20  # squares of at most 2³², so many at a time, have sums below 2⁵³: exact in float64
_PIECE = 8192  # values at a time in `dot`: too few for BLAS to start threads, which slow each other down


class Sums(NamedTuple):
    """What a question gives on private rows: the exact sums of its values and of their squares.

    >>> Sums.of(np.array([3.0, -4.0])), Sums.yes_no(2, 3) == Sums(VALUE_ONE, 3 * VALUE_ONE**2)
    (Sums(first=-1, second=25), True)
    """

    first: int
    """Σ φ in multiples of 1/VALUE_ONE, for values φ on the [-1, 1] scale."""
    second: int
    """Σ φ² in multiples of 1/VALUE_ONE²."""

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Sums:
        """The sums of whole numbers up to 2¹⁶ in absolute value, exact for any number of them."""
        first = second = 0
        for start in range(0, len(values), _BLOCK):
            block = values[start : start + _BLOCK]
            squares = 0.0
            for start in range(0, len(block), _PIECE):
                piece = block[start : start + _PIECE]
                squares += piece.dot(piece)
            first += int(np.einsum("i->", block))
            second += int(squares)
        return cls(first, second)

    @classmethod
    def yes_no(cls, yes: int, size: int) -> Sums:
        """The sums of a yes/no question: every value is +1 or -1, so every square is 1."""
        return cls((2 * yes - size) * VALUE_ONE, size * VALUE_ONE**2)

    def plus(self, other: Sums) -> Sums:
        """The sums over both sets of rows."""
        return Sums(self.first + other.first, self.second + other.second)

    def centred(self, size: int) -> Sums:
        """From steps of `size` draws, counted from 0 at the low end, to values on the [-1, 1] scale.

        Σ (s - 1)² = Σ s² - 2 Σ s + n.
        """
        first = self.first - VALUE_ONE * size
        return Sums(first, self.second - 2 * VALUE_ONE * self.first + VALUE_ONE**2 * size)


@dataclass(frozen=True, slots=True, eq=False)
class GridValues:
    """A question's exact values on the public or the private rows.

    Attributes:
        scale: 'share' for yes/no values, 'mean' for numbers.
        array: booleans for a share; for a mean, whole numbers as float64, in multiples of 1/VALUE_ONE.
    """

    scale: Scale
    array: NDArray[Any]

    def __len__(self) -> int:
        return len(self.array)

    @property
    def total(self) -> int:
        """Sum of the values on the [-1, 1] scale, in multiples of 1/VALUE_ONE."""
        if self.scale == "share":
            return (2 * int(np.count_nonzero(self.array)) - len(self.array)) * VALUE_ONE
        return int(self.array.sum())

    @property
    def sums(self) -> Sums:
        """The sums of the values and of their squares."""
        if self.scale == "share":
            return Sums.yes_no(int(np.count_nonzero(self.array)), len(self.array))
        return Sums.of(self.array)

    def dot(self, masses: NDArray[np.float64], whole: int) -> int:
        """Σ mass·value in multiples of 1/(MASS_ONE·VALUE_ONE), exact; `whole` is Σ mass.

        Exact while Σ|mass| stays below 2⁵³/VALUE_ONE = 2³⁸, that is, below 2²⁶ reference rows. BLAS is avoided: its threads
        slow each other down when another thread is busy, and exact sums need no particular order.
        """
        if self.scale == "share":
            # Σ m (2b - 1) = 2 Σ m b - Σ m
            return (2 * int(np.einsum("i,i->", masses, self.array.astype(np.float64))) - whole) * VALUE_ONE
        return int(np.einsum("i,i->", masses, self.array))

    def pack(self) -> PackedValues:
        """A compact copy: one bit per row if every value is -1 or +1, otherwise two or four bytes per row."""
        array = self.array
        if self.scale == "share":
            return PackedValues(self.scale, "bits", len(array), np.packbits(array).tobytes())
        if bool(np.all(np.abs(array) == VALUE_ONE)):
            return PackedValues(self.scale, "bits", len(array), np.packbits(array > 0).tobytes())
        if array.max() < VALUE_ONE:
            return PackedValues(self.scale, "int16", len(array), array.astype("<i2").tobytes())
        return PackedValues(self.scale, "int32", len(array), array.astype("<i4").tobytes())


@dataclass(frozen=True, slots=True)
class PackedValues:
    """A question's values as bytes: the form that the ledger stores and the sketch is built from.

    >>> values = on_grid(np.array([True, False, True]), 3, "the reference")
    >>> packed = values.pack()
    >>> packed.form, len(packed.data), bool((packed.unpack().array == values.array).all())
    ('bits', 1, True)
    """

    scale: Scale
    form: Literal["bits", "int16", "int32"]
    size: int
    data: bytes

    def unpack(self) -> GridValues:
        """The values, equal to those that were packed."""
        if self.form == "bits":
            bits = np.unpackbits(np.frombuffer(self.data, np.uint8), count=self.size).view(np.bool_)
            if self.scale == "share":
                return GridValues(self.scale, bits)
            return GridValues(self.scale, np.where(bits, float(VALUE_ONE), -float(VALUE_ONE)))
        stored = np.frombuffer(self.data, "<i2" if self.form == "int16" else "<i4")
        return GridValues(self.scale, stored.astype(np.float64))

    @property
    def digest(self) -> str:
        """SHA-256 of the values with their scale, form and count."""
        head = f"everhold values 1 {self.scale} {self.form} {self.size}\n".encode()
        return hashlib.sha256(head + self.data).hexdigest()


def on_grid(values: ArrayLike, size: int, what: str) -> GridValues:
    """Check public values and round them to the grid. Errors show the offending value and row.

    Args:
        values: booleans, or numbers in [-1, 1], one for each row.
        size: the number of rows expected.
        what: where the values come from, for the message: "the reference".

    Raises:
        QuestionError: the shape or type is wrong, or a value is missing or outside [-1, 1].
    """
    array = _checked_array(values, size, what)
    if array.dtype == np.bool_:
        return GridValues("share", array.copy())
    result = np.empty(size)
    for start in range(0, size, _CHUNK):
        chunk = array[start : start + _CHUNK]
        out = result[start : start + _CHUNK]
        if not (chunk.min() >= -_EDGE and chunk.max() <= _EDGE):
            _refuse_public_value(chunk, start, what)
        np.multiply(chunk, float(VALUE_ONE), out=out)
        np.rint(out, out=out)
    return GridValues("mean", result)


def strict_sums(values: ArrayLike, size: int, what: str) -> tuple[Scale, Sums]:
    """Scale and exact sums of values given as an array. Errors show no value and no position.

    Raises:
        QuestionError: the shape or type is wrong, or a value is missing or outside [-1, 1].
    """
    array = _checked_array(values, size, what)
    if array.dtype == np.bool_:
        return "share", Sums.yes_no(int(np.count_nonzero(array)), size)
    scratch = np.empty(min(size, _CHUNK))
    sums = Sums(0, 0)
    for start in range(0, size, _CHUNK):
        chunk = array[start : start + _CHUNK]
        if not (chunk.min() >= -_EDGE and chunk.max() <= _EDGE):
            raise QuestionError(
                f"{what} has values that are missing or outside [-1, 1]. Expected numbers in [-1, 1]: rescale them by "
                "a range that is fixed in advance, and replace missing values."
            )
        out = scratch[: len(chunk)]
        np.multiply(chunk, float(VALUE_ONE), out=out)
        np.rint(out, out=out)
        sums = sums.plus(Sums.of(out))
    return "mean", sums


def lenient_sums(values: object, size: int, scale: Scale) -> Sums | None:
    """Exact sums of the values that a callable returned on private rows; None if their shape or type is wrong.

    No error may reveal anything about the rows: a missing value counts as no (a share) or 0 (a mean), and values outside
    [-1, 1] are clipped.
    """
    array = np.asarray(values)
    if array.shape != (size,):
        return None
    if scale == "share":
        if array.dtype != np.bool_:
            return None
        return Sums.yes_no(int(np.count_nonzero(array)), size)
    if array.dtype.kind not in "buif":
        return None
    sums = Sums(0, 0)
    for start in range(0, size, _CHUNK):
        chunk = array[start : start + _CHUNK].astype(np.float64)
        np.nan_to_num(chunk, copy=False, nan=0.0, posinf=1.0, neginf=-1.0)
        np.clip(chunk, -1.0, 1.0, out=chunk)
        chunk *= float(VALUE_ONE)
        sums = sums.plus(Sums.of(np.rint(chunk, out=chunk)))
    return sums


def _checked_array(values: ArrayLike, size: int, what: str) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise QuestionError(
            f"{what} has masked values. Expected a plain array: fill the masked places first (masked.filled(False))."
        )
    try:
        array = np.asarray(values)
    except Exception as error:
        raise QuestionError(
            f"{what} could not be read as an array ({type(error).__name__}). Expected one value for each of {size:,} rows."
        ) from None
    if array.shape != (size,):
        raise QuestionError(
            f"{what} has {size:,} rows, but the values have shape {array.shape}. Expected {size:,} values in one "
            "dimension: return one value for each row."
        )
    if array.dtype.kind not in "buif":
        raise QuestionError(
            f"{what} has values of type {array.dtype}. Expected booleans (a yes/no question) or numbers in [-1, 1]; "
            "convert them with .astype(bool) or .astype(float)."
        )
    return array


def _refuse_public_value(chunk: NDArray[np.float64], start: int, what: str) -> None:
    bad = int(np.flatnonzero(~((chunk >= -_EDGE) & (chunk <= _EDGE)))[0])
    value = float(chunk[bad])
    if value != value:
        raise QuestionError(
            f"{what} has a missing value (NaN) in row {start + bad:,}. Expected numbers in [-1, 1] on every row: "
            "replace missing values in the question (np.nan_to_num, for instance)."
        )
    raise QuestionError(
        f"{what} has the value {value:g} in row {start + bad:,}. Expected numbers in [-1, 1]: rescale them by a range "
        "that is fixed in advance, 2 * (x - low) / (high - low) - 1."
    )
