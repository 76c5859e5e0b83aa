"""A prior whose rows are there already: kept by a study, or laid out by a test set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from everhold.priors.pool import Pool

if TYPE_CHECKING:
    import numpy as np

    from everhold.data.table import RowTable

__all__ = ["FixedPrior", "StudyKind"]

StudyKind = Literal["study", "gate", "labels"]


class FixedPrior:
    """Rows, their density and a line about where they come from.

    Args:
        pool: the rows.
        density: λ, where one is known.
        description: one line for people.
        exempt_from_overlap: whether the overlap check is left out: done already, or not needed.
        kind: what a study of it is: 'gate', 'labels' where features are public and only labels are hidden, or 'study'.
    """

    fresh = False

    def __init__(
        self,
        pool: Pool,
        density: float | None,
        description: str,
        *,
        exempt_from_overlap: bool = False,
        kind: StudyKind = "study",
    ) -> None:
        self.kind = kind
        self._pool = pool
        self.density = density
        self.exempt_from_overlap = exempt_from_overlap
        self._description = description

    @property
    def table(self) -> RowTable:
        """The rows."""
        return self._pool.rows

    def pool(self, rng: np.random.Generator) -> Pool:
        """The rows with their weights."""
        return self._pool

    def draw(self, rng: np.random.Generator, size: int) -> Pool:
        """`size` rows with replacement, by weight."""
        chosen = rng.choice(self._pool.size, size=size, p=self._pool.weights)
        return Pool(self._pool.rows.take(chosen), None, float(size))

    def describe(self) -> str:
        """One line for people."""
        return self._description

    def __repr__(self) -> str:
        return f"FixedPrior({self._description})"
