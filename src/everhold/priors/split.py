"""Split one table: a random part of its rows becomes the public reference, and the rest stays private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import DataError, SettingError, require_number

if TYPE_CHECKING:
    from everhold.data.source import Source

__all__ = ["Split"]


@dataclass(frozen=True, slots=True)
class Split:
    """Make some rows public, so that the others can answer any number of questions.

    The session's coins choose the part; with a unit column, whole units stay together. Anybody may see the rows of the
    public part; the other rows stay private.

    The rows must be independent draws; intervals are then for the population that they are drawn from. If they are a simple
    random sample without replacement from a finite population, intervals are for its members outside the public part
    (docs/theory/validity.md, "Which population").

    Args:
        fraction: the share of rows (or of units) to make public, strictly between 0 and 1.
    """

    fraction: float = 0.5

    def __post_init__(self) -> None:
        require_number(self.fraction, "the fraction")
        if not 0.0 < self.fraction < 1.0:
            raise SettingError(f"the public fraction is {self.fraction!r}. Expected a number strictly between 0 and 1.")

    def divide(self, rows: Source, rng: np.random.Generator, unit: str | None = None) -> tuple[Source, Source]:
        """The public and the private rows."""
        if unit is None:
            return rows.divide(self._drawn(rows.size, rng))
        if unit not in rows.names:
            raise DataError(f"the table has no column {unit!r} to group rows by (unit=). Expected one of its columns.")
        units = rows.units(unit)
        return rows.divide(self._drawn(len(units), rng)[units.codes])

    def _drawn(self, count: int, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        public = round(self.fraction * count)
        if not 0 < public < count:
            raise DataError(
                f"a split of {count:,} rows at {self.fraction:g} leaves one side without rows. Expected more rows, or "
                "another fraction."
            )
        marks = np.zeros(count, dtype=np.bool_)
        marks[rng.permutation(count)[:public]] = True
        return marks
