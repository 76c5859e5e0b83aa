"""One table only: a random part of its rows becomes the public reference, the rest stays private."""

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
    """Give up some rows to be public, so that the others can be asked for ever.

    The part is drawn by the session's coins, whole units together where there is a unit column. Rows of the public part
    may be shown to anybody; the other rows are as private as ever.

    The rows must be independent draws, and intervals are then about the population that they come from. If they are a simple
    random sample without replacement of a finite population, intervals are about those of it who are not public
    (docs/theory/validity.md, "Which population").

    Args:
        fraction: the share of rows (or of units) that becomes public, strictly between 0 and 1.
    """

    fraction: float = 0.5

    def __post_init__(self) -> None:
        require_number(self.fraction, "the fraction")
        if not 0.0 < self.fraction < 1.0:
            raise SettingError(f"the public fraction lies strictly between 0 and 1, not at {self.fraction!r}")

    def divide(self, rows: Source, rng: np.random.Generator, unit: str | None = None) -> tuple[Source, Source]:
        """The public and the private rows."""
        if unit is None:
            return rows.divide(self._drawn(rows.size, rng))
        if unit not in rows.names:
            raise DataError(f"the table has no column {unit!r} to tell units by. Expected one of its columns.")
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
