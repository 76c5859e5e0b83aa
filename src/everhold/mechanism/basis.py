"""Past surprising questions on the public rows, packed so that refitting the sketch is cheap.

Eight yes/no questions share a byte a row. `Σ_j θ_j φ_j` over eight of them is then one look-up in a table of 256 sums,
and `Σ_i m_i φ_j(i)` for eight of them one histogram with 256 bins: three to four milliseconds each way for 100 questions
on 100,000 rows, where unpacked matrices take four times as long and thirty times the memory. Questions with other
values than -1 and +1 keep two bytes a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.queries.grid import VALUE_ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.grid import GridValues

__all__ = ["Basis"]

# Row c holds the signs that byte c stands for: bit b set means +1 for the b-th question of the group.
_SIGNS = np.where((np.arange(256)[:, None] >> np.arange(8)[None, :]) & 1, 1.0, -1.0)


class Basis:
    """φ_1 … φ_k on P public rows, whose weights sum to 1."""

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self.size = len(weights)
        self.weights = weights
        self._gram = np.ones((1, 1))
        self._combined: tuple[bytes, NDArray[np.float64]] | None = None
        self._bytes: list[NDArray[np.uint8]] = []
        self._bits: list[list[int]] = []  # which question each bit of a group stands for
        self._numbers: list[tuple[int, NDArray[Any]]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def bytes(self) -> int:
        """Memory taken by the packed values."""
        return sum(group.nbytes for group in self._bytes) + sum(column.nbytes for _, column in self._numbers)

    def append(self, values: GridValues) -> None:
        """Add a question."""
        j, self._count = self._count, self._count + 1
        array = values.array
        if values.scale == "mean":
            magnitude = np.abs(array)
            if not bool(np.all(magnitude == VALUE_ONE)):
                kind = np.int16 if magnitude.max(initial=0) < VALUE_ONE else np.int32
                self._numbers.append((j, array.astype(kind)))
                return
            array = array > 0
        if not self._bits or len(self._bits[-1]) == 8:
            self._bytes.append(np.zeros(self.size, np.uint8))
            self._bits.append([])
        self._bytes[-1] |= array.view(np.uint8) << np.uint8(len(self._bits[-1]))
        self._bits[-1].append(j)

    def with_one_more(self, values: GridValues) -> Basis:
        """A basis with one more question; this one stays as it is, and the packed values are shared."""
        more = Basis(self.weights)
        more._gram = self._gram
        more._bytes, more._bits = list(self._bytes), [list(members) for members in self._bits]
        more._numbers, more._count = list(self._numbers), self._count
        if more._bits and len(more._bits[-1]) < 8:
            more._bytes[-1] = more._bytes[-1].copy()
        more.append(values)
        return more

    def combine(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """`Σ_j θ_j φ_j` on every row. Exact, whatever the order, when θ is on its grid."""
        key = theta.tobytes()
        if self._combined is not None and self._combined[0] == key:
            return self._combined[1].copy()
        result = np.zeros(self.size)
        looked_up = np.empty(self.size)
        for codes, members in zip(self._bytes, self._bits, strict=True):
            table = _SIGNS[:, : len(members)] @ theta[members]
            np.take(table, codes, out=looked_up, mode="clip")
            result += looked_up
        for j, column in self._numbers:
            if theta[j] != 0.0:
                np.multiply(column, theta[j] / VALUE_ONE, out=looked_up)
                result += looked_up
        self._combined = (key, result)
        return result.copy()

    def correlate(self, masses: NDArray[np.float64]) -> NDArray[np.float64]:
        """`Σ_i m_i`, then `Σ_i m_i φ_j(i)` for every question."""
        result = np.empty(1 + self._count)
        result[0] = masses.sum()
        for codes, members in zip(self._bytes, self._bits, strict=True):
            histogram = np.bincount(codes, weights=masses, minlength=256)
            result[[1 + j for j in members]] = histogram @ _SIGNS[:, : len(members)]
        for j, column in self._numbers:
            result[1 + j] = masses.dot(column.astype(np.float64)) / VALUE_ONE
        return result

    def rows(self, index: NDArray[np.intp]) -> NDArray[np.float64]:
        """Values on some rows: a line of ones, then a line for each question."""
        result = np.ones((1 + self._count, len(index)))
        eight = np.arange(8, dtype=np.uint8)[:, None]
        for codes, members in zip(self._bytes, self._bits, strict=True):
            bits = (codes[index][None, :] >> eight[: len(members)]) & np.uint8(1)
            result[[1 + j for j in members]] = bits * 2.0 - 1.0
        for j, column in self._numbers:
            result[1 + j] = column[index] / VALUE_ONE
        return result

    def gram(self) -> NDArray[np.float64]:
        """E_π[φ_i φ_j], the constant 1 first; grown by one line for each new question."""
        while len(self._gram) < 1 + self._count:
            j = len(self._gram) - 1
            column = self.correlate(self.weights * self._column(j))
            grown = np.empty((j + 2, j + 2))
            grown[:-1, :-1] = self._gram
            grown[-1, :] = grown[:, -1] = column[: j + 2]
            self._gram = grown
        return self._gram

    def _column(self, j: int) -> NDArray[np.float64]:
        for codes, members in zip(self._bytes, self._bits, strict=True):
            if j in members:
                return _SIGNS[:, members.index(j)][codes]
        found: NDArray[np.float64] = next(column for i, column in self._numbers if i == j) / float(VALUE_ONE)
        return found
