"""Past surprising questions on the public rows, packed so that refitting the sketch is cheap.

Eight yes/no questions share one byte per row. `Σ_j θ_j φ_j` over eight of them is then one look-up in a table of 256 sums,
and `Σ_i m_i φ_j(i)` for eight of them one histogram with 256 bins: three to four milliseconds each way for 100 questions
on 100,000 rows, where unpacked matrices take four times as long and thirty times the memory.

A question with values other than -1 and +1 takes one byte per row: the nearest multiple of 65/2¹³, plus a constant that
restores the mean under the prior. The sketch then learns a question that differs from the one asked by at most 0.004 on
each row, with the same mean. Validity does not depend on that; docs/decisions.md shows the effect on quality.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from everhold.queries.grid import MASS_ONE, VALUE_ONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.queries.grid import GridValues

__all__ = ["Basis"]

# Row c has the signs of byte c: bit b set means +1 for the b-th question of the group.
_SIGNS = np.where((np.arange(256)[:, None] >> np.arange(8)[None, :]) & 1, 1.0, -1.0)

_LANES = 8

_STEP = 65.0 / 2.0**13  # ±126 steps reach ±0.9998, and products with a coefficient on its grid are exact


class _Numbers(NamedTuple):
    """A numeric question: `steps · _STEP + shift` on each row."""

    question: int
    steps: NDArray[np.int8]
    shift: float

    def values(self, index: NDArray[np.intp] | slice = slice(None)) -> NDArray[np.float64]:
        return np.asarray(self.steps[index] * _STEP + self.shift)


class Basis:
    """φ_1 … φ_k on P public rows, whose weights sum to 1."""

    def __init__(self, weights: NDArray[np.float64], lanes: NDArray[np.intp] | None = None) -> None:
        self.size = len(weights)
        self.weights = weights
        self._combined: tuple[bytes, NDArray[np.float64]] | None = None
        self._bytes: list[NDArray[np.uint8]] = []
        self._bits: list[list[int]] = []  # the question of each bit of a group
        self._numbers: list[_Numbers] = []
        self._count = 0
        self._means: list[float] = []
        self._lanes = np.arange(self.size) % _LANES * 256 if lanes is None else lanes

    def __len__(self) -> int:
        return self._count

    @property
    def bytes(self) -> int:
        """Memory used by the packed values, in bytes."""
        return sum(group.nbytes for group in self._bytes) + sum(column.steps.nbytes for column in self._numbers)

    def append(self, values: GridValues) -> None:
        """Add a question."""
        j, self._count = self._count, self._count + 1
        array = values.array
        self._means.append(_mean(values, self.weights))
        if values.scale == "mean":
            if not bool(np.all(np.abs(array) == VALUE_ONE)):
                self._numbers.append(self._in_steps(j, array))
                return
            array = array > 0
        if not self._bits or len(self._bits[-1]) == 8:
            self._bytes.append(np.zeros(self.size, np.uint8))
            self._bits.append([])
        self._bytes[-1] |= array.view(np.uint8) << np.uint8(len(self._bits[-1]))
        self._bits[-1].append(j)

    def with_more(self, values: Sequence[GridValues]) -> Basis:
        """A new basis with more questions; it shares the packed values, and this one does not change."""
        more = Basis(self.weights, self._lanes)
        if self._combined is not None:  # a new question counts for nothing yet, so the same sums
            more._combined = self._combined[0] + bytes(8 * len(values)), self._combined[1]
        more._bytes, more._bits = list(self._bytes), [list(members) for members in self._bits]
        more._numbers, more._count, more._means = list(self._numbers), self._count, list(self._means)
        if more._bits and len(more._bits[-1]) < 8:
            more._bytes[-1] = more._bytes[-1].copy()
        for column in values:
            more.append(column)
        return more

    def combine(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """`Σ_j θ_j φ_j` on every row. Exact in any order if θ is on its grid."""
        key = theta.tobytes()
        if self._combined is not None and self._combined[0] == key:
            return self._combined[1].copy()
        result = np.zeros(self.size)
        looked_up = np.empty(self.size)
        for codes, members in zip(self._bytes, self._bits, strict=True):
            table = _SIGNS[:, : len(members)] @ theta[members]
            np.take(table, codes, out=looked_up, mode="clip")
            result += looked_up
        for column in self._numbers:
            if (coefficient := theta[column.question]) != 0.0:
                np.multiply(column.steps, coefficient * _STEP, out=looked_up)
                looked_up += coefficient * column.shift
                result += looked_up
        self._combined = (key, result)
        return result.copy()

    def correlate(self, masses: NDArray[np.float64]) -> NDArray[np.float64]:
        """`Σ_i m_i`, then `Σ_i m_i φ_j(i)` for every question."""
        result = np.empty(1 + self._count)
        result[0] = masses.sum()
        nonzero = masses != 0.0
        index = np.flatnonzero(nonzero) if 2 * np.count_nonzero(nonzero) < self.size else None
        if index is not None:  # a wrong prior has many rows without mass
            masses = masses[index]
        # Neighbours count in different histograms: sums that wait for each other take several times as long.
        lanes = self._lanes[: len(masses)]
        bins = np.empty(len(masses), np.intp)
        for codes, members in zip(self._bytes, self._bits, strict=True):
            np.add(codes if index is None else codes.take(index), lanes, out=bins)
            histogram = np.bincount(bins, weights=masses, minlength=256 * _LANES).reshape(_LANES, 256).sum(axis=0)
            result[[1 + j for j in members]] = histogram @ _SIGNS[:, : len(members)]
        for column in self._numbers:
            steps = float(
                np.einsum("i,i->", masses, (column.steps if index is None else column.steps.take(index)).astype(np.float64))
            )
            result[1 + column.question] = steps * _STEP + result[0] * column.shift
        return result

    def means(self) -> NDArray[np.float64]:
        """The mean of every question under the prior."""
        return np.array(self._means)

    def moments(self, masses: NDArray[np.float64], last: int = 1) -> NDArray[np.float64]:
        """`Σ_i m_i φ_j(i)` for the last questions only, as many as `last`."""
        return np.array([float(np.einsum("i,i->", masses, self._column(j))) for j in range(self._count - last, self._count)])

    def rows(self, index: NDArray[np.intp], kind: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
        """Values on the rows in `index`: a row of ones, then a row for each question."""
        result = np.ones((1 + self._count, len(index)), kind)
        signs = _SIGNS.T.astype(kind)
        for codes, members in zip(self._bytes, self._bits, strict=True):
            picked = codes[index].astype(np.intp)
            for bit, j in enumerate(members):
                np.take(signs[bit], picked, out=result[1 + j], mode="clip")
        for column in self._numbers:
            result[1 + column.question] = column.values(index)
        return result

    def _column(self, j: int) -> NDArray[np.float64]:
        for codes, members in zip(self._bytes, self._bits, strict=True):
            if j in members:
                return _SIGNS[:, members.index(j)][codes]
        return next(column for column in self._numbers if column.question == j).values()

    def _in_steps(self, j: int, array: NDArray[np.float64]) -> _Numbers:
        """One byte per row. The shift is computed from whole numbers, so it is the same on every machine."""
        steps = np.rint(array / (VALUE_ONE * _STEP))
        left = array - steps * (VALUE_ONE * _STEP)  # whole numbers: VALUE_ONE · _STEP is 260
        whole = np.rint(self.weights * (float(self.size) * MASS_ONE))
        shift = int(whole.dot(left)) / max(int(whole.sum()), 1)
        return _Numbers(j, steps.astype(np.int8), round(shift) / VALUE_ONE)


def _mean(values: GridValues, weights: NDArray[np.float64]) -> float:
    """The mean of a question's values in [-1, 1]."""
    mean = float(np.einsum("i,i->", weights, values.array))
    return 2.0 * mean - 1.0 if values.scale == "share" else mean / VALUE_ONE
