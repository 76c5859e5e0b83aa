"""Priors given by a sampler: a function of random numbers, or of seed bits as in the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.data.source import as_table
from everhold.data.table import RowTable
from everhold.errors import DataError, PriorError, SettingError, require_whole
from everhold.priors.pool import MOST_ROWS, Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["BitSampler", "Sampler"]


class Sampler:
    """A prior given by a sampler.

    Args:
        draw: `draw(rng, size)` returns a table of `size` rows; its only source of randomness must be `rng`.
        size: how many rows to draw once, as the pool; None draws new rows every round (questions must be callables).

    >>> dice = Sampler(lambda rng, size: {"eyes": rng.integers(1, 7, size)}, size=1000)
    >>> dice.pool(np.random.default_rng(0)).size
    1000
    """

    density: float | None = None

    def __init__(self, draw: Callable[[np.random.Generator, int], object], *, size: int | None = 100_000) -> None:
        if not callable(draw):
            raise PriorError(f"draw is of type {type(draw).__name__}. Expected a function draw(rng, size).")
        if size is not None:
            require_whole(size, "the pool's size")
        if size is not None and not 1 <= size <= MOST_ROWS:
            raise SettingError(
                f"the pool's size is {size!r}. Expected a whole number from 1 to {MOST_ROWS:,}, or None for fresh rows."
            )
        self._draw = draw
        self._size = size

    @property
    def fresh(self) -> bool:
        """Whether every round draws new rows."""
        return self._size is None

    def pool(self, rng: np.random.Generator) -> Pool:
        """The fixed pool, drawn once."""
        if self._size is None:
            raise PriorError("this sampler draws fresh rows every round and has no pool. Pass size=... to get one.")
        return self.draw(rng, self._size)

    def draw(self, rng: np.random.Generator, size: int) -> Pool:
        """`size` new rows."""
        try:
            drawn = self._draw(rng, size)
        except Exception as error:
            raise PriorError(f"draw(rng, {size}) raised {type(error).__name__}: {error}") from error
        try:
            table = as_table(drawn, what="what draw(rng, size) returned")
        except DataError as error:
            raise PriorError(str(error)) from None
        if table.size != size:
            raise PriorError(f"draw(rng, {size}) returned {table.size:,} rows. Expected {size:,}.")
        return Pool(table, None, float(size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()})"

    def describe(self) -> str:
        """A one-line description."""
        return "fresh draws every round" if self._size is None else f"{self._size:,} draws from a sampler"


class BitSampler(Sampler):
    """The paper's prior: a function g from n seed bits to rows, seeds uniform over {0,1}ⁿ.

    Args:
        g: takes an array of bits, shape (size, bits), and returns a table of `size` rows; deterministic.
        bits: n, the length of a seed; the seed space has N = 2ⁿ points and is never enumerated.
        size: how many seeds to draw once, as the pool; None draws fresh seeds every round.

    >>> coin = BitSampler(lambda bits: {"heads": bits[:, 0] == 1}, bits=64, size=4)
    >>> coin.seeds(np.random.default_rng(0), 2).shape
    (2, 64)
    """

    def __init__(self, g: Callable[[NDArray[np.uint8]], object], *, bits: int, size: int | None = None) -> None:
        require_whole(bits, "the number of seed bits")
        if bits < 1:
            raise SettingError(f"the number of seed bits is {bits!r}. Expected at least 1.")
        self.bits = bits
        self._g = g
        super().__init__(lambda rng, count: g(self.seeds(rng, count)), size=size)

    def seeds(self, rng: np.random.Generator, size: int) -> NDArray[np.uint8]:
        """`size` uniform seeds, one bit per entry."""
        width = -(-self.bits // 8)
        raw = np.frombuffer(rng.bytes(size * width), np.uint8).reshape(size, width)
        return np.unpackbits(raw, axis=1, count=self.bits)

    def rows(self, seeds: NDArray[np.uint8]) -> RowTable:
        """The rows g(seed) of the given seeds."""
        return as_table(self._g(seeds))

    def describe(self) -> str:
        """A one-line description."""
        return f"{self.bits}-bit seeds, {super().describe()}"
