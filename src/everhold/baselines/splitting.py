"""Sample splitting: fresh rows for every question, until the rows are used up."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from everhold.baselines.mechanism import BaselineContext, BaselineProposal, IntervalAnswer, public_mean, refuse
from everhold.bounds.elementary import ln
from everhold.errors import SettingError, require_whole
from everhold.mechanism.intervals import interval_ends
from everhold.queries.grid import VALUE_ONE
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.grid import GridValues

__all__ = ["Splitting"]


@lru_cache(maxsize=8)
def _rows_of_round(rows: int, seed: int) -> NDArray[np.intp]:
    """The rows in a random order, independent of their content."""
    return np.asarray(stream_rng(seed, "splitting").permutation(rows), dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Splitting:
    """⌊n/T⌋ rows for each of T questions.

    No earlier answer depends on the rows of a question, so its interval is that of a question fixed in advance, with δ/T
    each (Chernoff's bound and a union bound).

    The rows are assigned at random, so their order in the table does not matter.

    Args:
        rounds: T, the number of questions to divide the rows among.
        seed: the seed of the random order.
    """

    rounds: int
    seed: int = 0
    name = "sample splitting"
    guarantee = "fresh rows for every question, union bound"

    def __post_init__(self) -> None:
        require_whole(self.rounds, "rounds")
        if self.rounds < 1:
            raise SettingError(f"the number of rounds is {self.rounds!r}. Expected at least 1.")

    def begin(self, context: BaselineContext) -> None:
        """None: it keeps no state."""

    def allow(self, memory: None, t: int, context: BaselineContext) -> None:
        """Refuse once the rows are used up."""
        if t > min(self.rounds, context.rows):
            raise refuse(f"the rows are divided among {min(self.rounds, context.rows):,} questions.", asked=2.0)

    def guess(self, memory: None, values: GridValues, t: int, context: BaselineContext) -> Fraction:
        """The mean of the public rows; the answer does not depend on it."""
        return public_mean(values, context)

    def rows_read(self, t: int, context: BaselineContext) -> NDArray[np.intp]:
        """The t-th share of the rows."""
        each = self._each(context)
        return _rows_of_round(context.rows, self.seed)[(t - 1) * each : t * each]

    def _each(self, context: BaselineContext) -> int:
        return max(context.rows // self.rounds, 1)

    def decide(self, proposal: BaselineProposal, mean: Fraction) -> int:
        """The total over the share."""
        return int(mean * VALUE_ONE * self._each(proposal.context))

    def tell(self, proposal: BaselineProposal, cell: int | None) -> IntervalAnswer:
        """The mean of the share, with an interval for T questions together."""
        each = self._each(proposal.context)
        centre = float(Fraction(cell or 0, VALUE_ONE * each))
        low, high = interval_ends(centre, 0.0, nats=proposal.price, rows=each, known_rows=0, scale=proposal.scale)
        return IntervalAnswer(centre, *((2.0 * low - 1.0, 2.0 * high - 1.0) if proposal.scale == "share" else (low, high)))

    def learn(self, proposal: BaselineProposal, cell: int | None) -> None:
        """None: it keeps no state."""

    def price(self, memory: None, t: int, context: BaselineContext) -> float:
        """`ln(2T/δ)`."""
        return ln(2.0 * self.rounds / context.failure_probability)

    def tolerance(self, memory: None, context: BaselineContext) -> float:
        """0: every answer uses the private data."""
        return 0.0
