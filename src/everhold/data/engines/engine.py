"""What every engine does: evaluate checked questions on rows, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.queries.expression.question import TextQuestion

__all__ = ["Engine"]


class Engine(Protocol):
    """Rows that answer in whole numbers.

    An engine sees typed trees only, never an analyst's text, and is total: whatever the rows hold, it neither fails nor
    tells. All engines agree on every row (tests/engines: the suite that each of them passes).
    """

    @property
    def size(self) -> int:
        """How many draws: rows, or units where rows belong together. Public."""

    def totals(self, questions: Sequence[TextQuestion]) -> list[int]:
        """For each question the sum of its steps (0 to STEPS a draw), in one scan."""

    def steps(self, question: TextQuestion) -> NDArray[np.float64]:
        """The steps of each draw. For the conformance suite; nothing else may look at single rows."""
