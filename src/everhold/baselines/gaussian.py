"""Gaussian noise on every answer: the differential-privacy approach to adaptive questions.

With the guarantee of Jung et al. 2020 (doi:10.4230/LIPIcs.ITCS.2020.31) or of Rogers et al. 2020 (PMLR 108:2830-2840).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from everhold.baselines.mechanism import (
    ANSWER_ONE,
    BaselineContext,
    BaselineProposal,
    IntervalAnswer,
    around,
    on_answer_grid,
    public_mean,
    refuse,
)
from everhold.bounds.baselines import NoiseSetting, Transfer, gaussian_noise
from everhold.errors import SettingError, require_whole
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from fractions import Fraction

    from everhold.queries.grid import GridValues

__all__ = ["GaussianNoise"]

_noise = lru_cache(maxsize=64)(gaussian_noise)


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """The mean of all rows plus Gaussian noise; its size gives the narrowest guarantee over T questions.

    Args:
        rounds: T, fixed in advance.
        transfer: the theorem that turns privacy on the sample into accuracy on the population.
        deviation: the noise's standard deviation on the [-1, 1] scale, instead of the computed one; there is no guarantee
            then.
        seed: the seed of the noise. Keep it secret: it allows removing the noise.
    """

    rounds: int
    transfer: Transfer = "jung"
    deviation: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole(self.rounds, "rounds")
        if self.rounds < 1:
            raise SettingError(f"the number of rounds is {self.rounds!r}. Expected at least 1.")

    name = "Gaussian noise"

    @property
    def guarantee(self) -> str:
        """The basis of its intervals, in one line."""
        if self.deviation is not None:
            return "none"
        by = "Jung et al. 2020" if self.transfer == "jung" else "Rogers et al. 2020"
        return f"differential privacy, transferred ({by})"

    def setting(self, context: BaselineContext) -> NoiseSetting:
        """The noise, and its guaranteed half-width."""
        if self.deviation is not None:
            return NoiseSetting(self.deviation, inf)
        return _noise(
            context.rows, rounds=self.rounds, failure_probability=context.failure_probability, transfer=self.transfer
        )

    def begin(self, context: BaselineContext) -> None:
        """None: it keeps no state."""

    def allow(self, memory: None, t: int, context: BaselineContext) -> None:
        """Refuse after T questions."""
        if t > self.rounds:
            raise refuse(f"the noise is set for {self.rounds:,} questions.", asked=min(self.setting(context).width, 2.0))

    def guess(self, memory: None, values: GridValues, t: int, context: BaselineContext) -> Fraction:
        """The mean of the public rows; the answer does not depend on it."""
        return public_mean(values, context)

    def rows_read(self, t: int, context: BaselineContext) -> None:
        """None: every answer is over all rows."""

    def decide(self, proposal: BaselineProposal, mean: Fraction) -> int:
        """The private mean plus noise, on the answer grid."""
        noise = stream_rng(self.seed, "gaussian", proposal.round).normal(0.0, self.setting(proposal.context).deviation)
        return on_answer_grid(float(mean) + noise)

    def tell(self, proposal: BaselineProposal, cell: int | None) -> IntervalAnswer:
        """The noisy answer, with the same half-width for all answers."""
        return around((cell or 0) / ANSWER_ONE, self.setting(proposal.context).width, proposal)

    def learn(self, proposal: BaselineProposal, cell: int | None) -> None:
        """None: it keeps no state."""

    def price(self, memory: None, t: int, context: BaselineContext) -> float:
        """0: its guarantee is not counted in nats."""
        return 0.0

    def tolerance(self, memory: None, context: BaselineContext) -> float:
        """0: every answer uses the private data."""
        return 0.0
