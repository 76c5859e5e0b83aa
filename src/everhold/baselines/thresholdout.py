"""Thresholdout: answers from the training set while it agrees.

Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015, arXiv:1506.02629.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log
from typing import TYPE_CHECKING, Literal, get_args

from everhold.baselines.mechanism import (
    ANSWER_ONE,
    BaselineContext,
    BaselineProposal,
    IntervalAnswer,
    Promise,
    around,
    on_answer_grid,
    public_mean,
    refuse,
)
from everhold.bounds.baselines import thresholdout_width
from everhold.errors import SettingError
from everhold.queries.protocol import QUIET
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from everhold.queries.grid import GridValues

__all__ = ["Thresholdout"]

Shape = Literal["laplace", "gaussian"]


@dataclass(frozen=True, slots=True)
class Thresholdout:
    """Answers from the public rows, its training set, unless the private rows differ by more than a noisy threshold.

    Args:
        threshold: T, on the share scale.
        deviation: σ, the scale of the noise, on the share scale: answers get σ, the threshold 2σ, comparisons 4σ.
        budget: B, how many answers may use the private data; None: no limit.
        rounds: the number of questions of the guarantee.
        promise: the guarantee, and for which rows; None: no guarantee. `proved` sets it.
        shape: 'laplace', as it is proved, or 'gaussian', as in the published experiment: noise σ on comparisons and
            answers, none on the threshold itself.
        seed: the seed of the noise.
    """

    threshold: float = 0.04
    deviation: float = 0.01
    budget: int | None = None
    rounds: int | None = None
    promise: Promise | None = None
    shape: Shape = "laplace"
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.threshold > 0.0 and self.deviation > 0.0):
            raise SettingError("expected a positive threshold and positive noise.")
        if self.shape not in get_args(Shape):
            raise SettingError(f"the shape of the noise is {self.shape!r}. Expected 'laplace' or 'gaussian'.")

    @classmethod
    def proved(
        cls, *, rows: int, rounds: int, budget: int, failure_probability: float = 0.05, seed: int = 0
    ) -> Thresholdout:
        """Settings of the theorem: T = 3τ/4, σ = τ/(96 ln(4m/β)), for the smallest τ that `rows` allow."""
        tau = thresholdout_width(rows, rounds=rounds, budget=budget, failure_probability=failure_probability) / 2.0
        sigma = tau / (96.0 * log(4.0 * rounds / failure_probability))
        return cls(0.75 * tau, sigma, budget, rounds, Promise(rows, failure_probability, tau), "laplace", seed)

    name = "Thresholdout"

    @property
    def guarantee(self) -> str:
        """The basis of its intervals, in one line."""
        if self.promise is None:
            return "none with these settings"
        return f"at most {self.budget} questions that overfit the training rows (Dwork et al. 2015)"

    def begin(self, context: BaselineContext) -> int:
        """0: no answer has used the private data yet."""
        if self.promise is not None:
            self.promise.check(context)
        return 0

    def allow(self, memory: int, t: int, context: BaselineContext) -> None:
        """Refuse after the budget or the rounds are used up."""
        if self.budget is not None and memory >= self.budget:
            raise refuse(f"the budget of {self.budget:,} answers that overfit is used up.", asked=2 * self.threshold)
        if self.rounds is not None and t > self.rounds:
            raise refuse(f"the settings are for {self.rounds:,} questions.", asked=2 * self.threshold)

    def guess(self, memory: int, values: GridValues, t: int, context: BaselineContext) -> Fraction:
        """The training set's answer."""
        return public_mean(values, context)

    def rows_read(self, t: int, context: BaselineContext) -> None:
        """None: every answer is over all rows."""

    def _noise(self, what: str, number: int, scale: float) -> float:
        rng = stream_rng(self.seed, "thresholdout", what, number)
        if self.shape == "laplace":
            return 2.0 * float(rng.laplace(0.0, scale * self.deviation))
        return 2.0 * float(rng.normal(0.0, self.deviation))

    def decide(self, proposal: BaselineProposal, mean: Fraction) -> int | None:
        """Quiet within the noisy threshold; otherwise a noisy mean of the private rows, and then a new threshold noise."""
        renewed = self._noise("threshold", proposal.memory, 2.0) if self.shape == "laplace" else 0.0
        threshold = 2.0 * self.threshold + renewed
        if abs(float(mean - proposal.guess)) <= threshold + self._noise("comparison", proposal.round, 4.0):
            return QUIET
        return on_answer_grid(float(mean) + self._noise("answer", proposal.round, 1.0))

    def tell(self, proposal: BaselineProposal, cell: int | None) -> IntervalAnswer:
        """The training set's answer or the noisy one, with the promised half-width."""
        value = float(proposal.guess) if cell is QUIET else cell / ANSWER_ONE
        return around(value, inf if self.promise is None else 2.0 * self.promise.half_width, proposal)

    def learn(self, proposal: BaselineProposal, cell: int | None) -> int:
        """The number of answers that used the private data, after this round."""
        spent: int = proposal.memory
        return spent + (cell is not QUIET)

    def price(self, memory: int, t: int, context: BaselineContext) -> float:
        """0: its guarantee is not counted in nats."""
        return 0.0

    def tolerance(self, memory: int, context: BaselineContext) -> float:
        """The threshold, without its noise."""
        return 2.0 * self.threshold
