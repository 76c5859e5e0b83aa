"""Private multiplicative weights: a weight for every point of an explicit domain.

Hardt and Rothblum 2010, doi:10.1109/FOCS.2010.85.

The sketch is a table of the whole domain, so its time and memory grow with the domain, unlike everhold's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, log, log2, sqrt
from typing import TYPE_CHECKING

import numpy as np

from everhold.baselines.mechanism import (
    ANSWER_ONE,
    BaselineContext,
    BaselineProposal,
    IntervalAnswer,
    Promise,
    around,
    on_answer_grid,
    refuse,
)
from everhold.bounds.baselines import multiplicative_weights_setting
from everhold.errors import SettingError
from everhold.queries.grid import MASS_ONE, VALUE_ONE
from everhold.queries.protocol import QUIET
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.grid import GridValues

__all__ = ["MultiplicativeWeights"]


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """Weights over the domain as whole numbers, their logarithms, and the number of updates."""

    masses: NDArray[np.float64] = field(repr=False)
    logs: NDArray[np.float64] = field(repr=False)
    updates: int

    @property
    def whole(self) -> int:
        """The sum of the masses."""
        return int(self.masses.sum())


def _weights(logs: NDArray[np.float64], updates: int) -> _Weights:
    shares = np.exp(logs - logs.max())
    shares *= len(logs) * MASS_ONE / shares.sum()
    return _Weights(np.rint(shares), logs, updates)


@dataclass(frozen=True, slots=True)
class MultiplicativeWeights:
    """Answers from weights over all public rows, the domain; if they are off, a noisy answer and an update.

    Args:
        rounds: T, fixed in advance.
        threshold: the error that causes an update, on the share scale.
        deviation: scale of the Laplace noise on the threshold, on the share scale; twice that on comparisons.
        answers: scale of the Laplace noise on answers; None: as on the threshold.
        rate: η, the size of an update; None: a quarter of the threshold.
        budget: the largest number of updates; None: `4 ln N/a²`, with a half the threshold.
        promise: the guarantee, and for which rows; None: no guarantee. `proved` sets it.
        domain: the number of points of the guarantee.
        seed: the seed of the noise.
    """

    rounds: int
    threshold: float
    deviation: float
    answers: float | None = None
    rate: float | None = None
    budget: int | None = None
    promise: Promise | None = None
    domain: int | None = None
    seed: int = 0
    name = "multiplicative weights"

    def __post_init__(self) -> None:
        if not (self.threshold > 0.0 and self.deviation >= 0.0):
            raise SettingError("expected a positive threshold and noise of at least 0.")

    @classmethod
    def proved(
        cls, *, rows: int, rounds: int, domain: int, failure_probability: float = 0.05, seed: int = 0
    ) -> MultiplicativeWeights:
        """Settings with the published guarantee, for the smallest half-width that `rows` allow over `domain` points.

        Threshold 2a, rate a/2, `c = 4 ln N/a²` updates; noise by Dwork and Roth's NumericSparse with (ε, δ): scale
        `sqrt(32 c ln(2/δ))/(ε₁n)` on the threshold, twice that on comparisons, and with ε₂ on answers.
        """
        bits = log2(max(domain, 2))
        setting = multiplicative_weights_setting(
            rows, rounds=rounds, domain_bits=bits, failure_probability=failure_probability
        )
        a = setting.accuracy
        updates = max(1, int(4.0 * bits * log(2.0) / a**2))
        root = sqrt(512.0)
        scale = sqrt(32.0 * updates * log(2.0 / setting.delta)) / (setting.epsilon * rows)
        first, second = scale * (root + 1.0) / root, scale * (root + 1.0) / 2.0
        promise = Promise(rows, failure_probability, setting.width / 2.0)
        return cls(rounds, 2.0 * a, first, second, a / 2.0, updates, promise, domain, seed)

    @property
    def guarantee(self) -> str:
        """The basis of its intervals, in one line."""
        if self.promise is None:
            return "none with these settings"
        return "differential privacy over an explicit domain, transferred (Hardt and Rothblum 2010, Jung et al. 2020)"

    def begin(self, context: BaselineContext) -> _Weights:
        """The weights of the prior."""
        if self.promise is not None:
            self.promise.check(context)
            if self.domain is not None and context.public.size > self.domain:
                raise SettingError(
                    f"these settings are proved for {self.domain:,} points, but there are {context.public.size:,}. Use "
                    "MultiplicativeWeights.proved(...) for this domain."
                )
        base = np.zeros(context.public.size) if context.public.weights is None else np.log(context.public.weights + 1e-300)
        return _weights(base, 0)

    def _budget(self, context: BaselineContext) -> int:
        if self.budget is not None:
            return self.budget
        alpha = self.threshold / 2.0
        return max(1, int(4.0 * log(max(context.public.size, 2)) / alpha**2))

    def allow(self, memory: _Weights, t: int, context: BaselineContext) -> None:
        """Refuse after the planned number of rounds or updates."""
        if t > self.rounds:
            raise refuse(f"the settings are for {self.rounds:,} questions.", asked=2.0 * self.threshold)
        if memory.updates >= self._budget(context):
            raise refuse(f"all {memory.updates:,} updates are used up.", asked=2.0 * self.threshold)

    def guess(self, memory: _Weights, values: GridValues, t: int, context: BaselineContext) -> Fraction:
        """The answer of the weights, from a pass over the whole domain."""
        whole = memory.whole
        return Fraction(values.dot(memory.masses, whole), whole * VALUE_ONE)

    def rows_read(self, t: int, context: BaselineContext) -> None:
        """None: every answer is over all rows."""

    def decide(self, proposal: BaselineProposal, mean: Fraction) -> int | None:
        """Quiet if the noisy difference is within the noisy threshold; otherwise the noisy mean."""
        threshold = 2.0 * self.threshold + self._noise("threshold", proposal.memory.updates, self.deviation)
        off = abs(float(mean - proposal.guess)) + self._noise("comparison", proposal.round, 2.0 * self.deviation)
        if off <= threshold:
            return QUIET
        scale = self.deviation if self.answers is None else self.answers
        return on_answer_grid(float(mean) + self._noise("answer", proposal.round, scale))

    def _noise(self, what: str, number: int, scale: float) -> float:
        return 2.0 * float(stream_rng(self.seed, "multiplicative weights", what, number).laplace(0.0, scale))

    def tell(self, proposal: BaselineProposal, cell: int | None) -> IntervalAnswer:
        """The weights' answer or the noisy mean, with the promised half-width."""
        value = float(proposal.guess) if cell is QUIET else cell / ANSWER_ONE
        return around(value, inf if self.promise is None else 2.0 * self.promise.half_width, proposal)

    def learn(self, proposal: BaselineProposal, cell: int | None) -> _Weights:
        """Multiply the weights by exp(±ηφ)."""
        memory: _Weights = proposal.memory
        if cell is QUIET or proposal.values is None:
            return memory
        rate = self.threshold / 4.0 if self.rate is None else self.rate
        values = proposal.values.array * 2.0 - 1.0 if proposal.values.scale == "share" else proposal.values.array / VALUE_ONE
        sign = 1.0 if cell / ANSWER_ONE > float(proposal.guess) else -1.0
        # e^(±ηf) for f = (1 + φ)/2 in [0, 1]: the half that does not depend on φ cancels
        return _weights(memory.logs + sign * 0.5 * rate * values, memory.updates + 1)

    def price(self, memory: _Weights, t: int, context: BaselineContext) -> float:
        """0: its guarantee is not counted in nats."""
        return 0.0

    def tolerance(self, memory: _Weights, context: BaselineContext) -> float:
        """The threshold, without its noise."""
        return 2.0 * self.threshold
