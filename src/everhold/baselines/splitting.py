"""Sample splitting: fresh rows for every question, and nothing to be afraid of, until the rows are used up."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from everhold.baselines.rival import BaselineContext, IntervalAnswer, Turn, public_mean, refuse
from everhold.bounds.elementary import ln
from everhold.errors import SettingError, require_whole
from everhold.mechanism.everhold import interval_ends
from everhold.queries.grid import VALUE_ONE
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.grid import GridValues

__all__ = ["Splitting"]


@lru_cache(maxsize=8)
def _dealt(rows: int, seed: int) -> NDArray[np.intp]:
    """The rows in an order that has nothing to do with what is in them."""
    return np.asarray(stream_rng(seed, "splitting").permutation(rows), dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Splitting:
    """⌊n/T⌋ rows for each of T questions.

    Every question meets rows that nothing told so far depends on, so its interval is that of a question fixed in advance,
    with δ/T each (Chernoff's bound and a union bound).

    Rows are dealt out by lot, so that they may come in any order.

    Args:
        rounds: T, how many questions the rows are divided among.
        seed: of the lot.
    """

    rounds: int
    seed: int = 0
    name = "sample splitting"
    guarantee = "fresh rows for every question, union bound"

    def __post_init__(self) -> None:
        require_whole(self.rounds, "rounds")
        if self.rounds < 1:
            raise SettingError(f"the number of rounds is at least 1, not {self.rounds!r}")

    def begin(self, site: BaselineContext) -> None:
        """Nothing to remember."""

    def allow(self, memory: None, t: int, site: BaselineContext) -> None:
        """Refuse once the rows are used up."""
        if t > min(self.rounds, site.rows):
            raise refuse(f"the rows were divided among {min(self.rounds, site.rows):,} questions.", asked=2.0)

    def guess(self, memory: None, values: GridValues, t: int, site: BaselineContext) -> Fraction:
        """The public rows' own mean; it plays no part in the answer."""
        return public_mean(values, site)

    def part(self, t: int, site: BaselineContext) -> NDArray[np.intp]:
        """The t-th share of the rows."""
        each = self._each(site)
        return _dealt(site.rows, self.seed)[(t - 1) * each : t * each]

    def _each(self, site: BaselineContext) -> int:
        return max(site.rows // self.rounds, 1)

    def decide(self, turn: Turn, mean: Fraction) -> int:
        """The total over the share."""
        return int(mean * VALUE_ONE * self._each(turn.site))

    def tell(self, turn: Turn, cell: int | None) -> IntervalAnswer:
        """The mean of the share, with an interval for T questions together."""
        each = self._each(turn.site)
        centre = float(Fraction(cell or 0, VALUE_ONE * each))
        low, high = interval_ends(centre, 0.0, nats=turn.nats, rows=each, known_rows=0, scale=turn.scale)
        return IntervalAnswer(centre, *((2.0 * low - 1.0, 2.0 * high - 1.0) if turn.scale == "share" else (low, high)))

    def learn(self, turn: Turn, cell: int | None) -> None:
        """Nothing is learnt."""

    def nats(self, memory: None, t: int, site: BaselineContext) -> float:
        """`ln(2T/δ)`."""
        return ln(2.0 * self.rounds / site.failure_probability)

    def tolerance(self, memory: None, site: BaselineContext) -> float:
        """The rows speak every time."""
        return 0.0
