"""The protocol of engines: they evaluate checked questions on rows, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.queries.expression.question import TextQuestion
    from everhold.queries.grid import Sums

__all__ = ["Engine"]


class Engine(Protocol):
    """Rows with exact, whole-number results.

    An engine sees typed trees only, never an analyst's text. Whatever the rows contain, it does not fail and reveals
    nothing but two sums for each question. All engines agree on every row (tests/engines is the conformance suite).
    """

    @property
    def size(self) -> int:
        """The number of draws: rows, or units if rows belong together. It is public."""

    def sums(self, questions: Sequence[TextQuestion]) -> list[Sums]:
        """The sums of the steps of each question (0 to STEPS per draw) and of their squares, exact, in one scan.

        The value of a unit is the mean of its rows' steps, rounded to a whole step; the square is of that.
        """

    def steps(self, question: TextQuestion) -> NDArray[np.float64]:
        """The steps of each draw. Only for the conformance suite: nothing else may read single rows."""
