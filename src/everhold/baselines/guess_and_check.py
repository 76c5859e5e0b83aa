"""Guess and Check: guess from one part, check on the other.

Rogers, Roth, Smith, Srebro, Thakkar and Woodworth 2020, PMLR 108:2830-2840.

This is the baseline closest to everhold: the checking rows reveal only a short record of failed guesses, and a union bound
over records makes every answer valid. It learns nothing from a failure, and the half-width is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, sqrt
from typing import TYPE_CHECKING

from everhold.baselines.mechanism import BaselineContext, BaselineProposal, IntervalAnswer, around, public_mean, refuse
from everhold.bounds.concentration import binary_kl
from everhold.bounds.elementary import ln, ln_binomial
from everhold.errors import SettingError
from everhold.queries.protocol import QUIET
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from everhold.queries.grid import GridValues

__all__ = ["GuessAndCheck"]

_PI_SQUARED_SIXTH = 1.6449340668482264
_NO_ANSWER = -1
"""The cell of a failed guess that could not be answered; it ends the session."""


@dataclass(frozen=True, slots=True)
class _Failures:
    """The number of failed guesses, the price of their answers in nats, and whether one could not be answered."""

    count: int = 0
    nats: float = 0.0
    over: bool = False


@dataclass(frozen=True, slots=True)
class GuessAndCheck:
    """Guesses are means of the public rows, with or without Gaussian noise; each is checked on the private rows.

    Round t with f failures before it has `β_t = β · c_{t-1} · c_f / (C(t-1, f) Π k_i)`, `c_x = 6/(π²(x+1)²)`, k_i the number
    of values that the answer to the i-th failure can have. A guess g passes if both g - τ and g + τ are outside the Chernoff
    interval of the private mean at level β_t/2. After a failed guess, the answer is the private mean rounded to multiples of
    γ, the largest that `τ ≥ γ + sqrt(ln(2/β_t)/(2n))` allows. If there is none, that question gets the trivial interval, and
    the session ends.

    Args:
        half_width: τ, on the share scale.
        deviation: standard deviation of the guesses' noise on the share scale; 0 guesses the plain mean of the public rows.
        seed: the seed of the noise.
    """

    half_width: float = 0.1
    deviation: float = 0.0
    seed: int = 0
    guarantee = "every failed guess charged (Rogers et al. 2020)"

    def __post_init__(self) -> None:
        if not 0.0 < self.half_width < 1.0:
            raise SettingError(f"the half-width is {self.half_width!r}. Expected a number between 0 and 1 (share scale).")
        if not self.deviation >= 0.0:
            raise SettingError(f"the deviation of the noise is {self.deviation!r}. Expected at least 0.")

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"Guess and Check ({'Gaussian' if self.deviation else 'empirical'})"

    def begin(self, context: BaselineContext) -> _Failures:
        """No failure yet."""
        return _Failures()

    def price(self, memory: _Failures, t: int, context: BaselineContext) -> float:
        """`ln(2/β_t)`."""
        series = 2.0 * ln(_PI_SQUARED_SIXTH) + 2.0 * ln(float(t)) + 2.0 * ln(memory.count + 1.0)
        return ln(2.0 / context.failure_probability) + series + ln_binomial(t - 1, memory.count) + memory.nats

    def _step(self, memory: _Failures, t: int, context: BaselineContext) -> Fraction:
        """γ on the share scale, on a grid of 2⁻³⁰, rounded down; at most 0 if none is possible."""
        left = self.half_width - sqrt(self.price(memory, t, context) / (2.0 * context.rows))
        return Fraction(floor(left * 2**30 - 1), 2**30)

    def allow(self, memory: _Failures, t: int, context: BaselineContext) -> None:
        """Refuse once a failed guess could not be answered."""
        if memory.over:
            raise refuse(
                f"±{self.half_width:g} is not possible for another question after {memory.count:,} failed guesses.",
                asked=2.0 * self.half_width,
            )

    def guess(self, memory: _Failures, values: GridValues, t: int, context: BaselineContext) -> Fraction:
        """The mean of the public rows, with noise, on a grid."""
        mean = public_mean(values, context)
        if self.deviation == 0.0:
            return mean
        noisy = float(mean) + float(stream_rng(self.seed, "guess", t).normal(0.0, 2.0 * self.deviation))
        return Fraction(round(min(max(noisy, -1.0), 1.0) * 2**20), 2**20)

    def rows_read(self, t: int, context: BaselineContext) -> None:
        """None: every answer is over all rows."""

    def decide(self, proposal: BaselineProposal, mean: Fraction) -> int | None:
        """Quiet if the private rows' interval is within τ of the guess; otherwise their rounded mean."""
        guess, v, n = (proposal.guess + 1) / 2, float((mean + 1) / 2), proposal.context.rows
        radius = proposal.price / n
        if all(self._beyond(v, float(guess) + side * self.half_width, radius, side) for side in (-1, 1)):
            return QUIET
        step = self._step(proposal.memory, proposal.round, proposal.context)
        return _NO_ANSWER if step <= 0 else floor((mean + 1) / (2 * step) + Fraction(1, 2))

    @staticmethod
    def _beyond(v: float, end: float, radius: float, side: int) -> bool:
        """Whether the private mean v excludes a population mean at or beyond `end`."""
        if not 0.0 < end < 1.0:
            return True  # no mean can be there
        return (v - end) * side < 0.0 and binary_kl(v, end) >= radius

    def tell(self, proposal: BaselineProposal, cell: int | None) -> IntervalAnswer:
        """The guess, or the rounded private mean; ±τ either way."""
        if cell == _NO_ANSWER:
            return IntervalAnswer(float(proposal.guess), -1.0, 1.0)
        if cell is QUIET:
            value = float(proposal.guess)
        else:
            value = float(2 * self._step(proposal.memory, proposal.round, proposal.context) * cell - 1)
        value = min(max(value, -1.0), 1.0)
        return around(value, 2.0 * self.half_width, proposal)

    def learn(self, proposal: BaselineProposal, cell: int | None) -> _Failures:
        """Charge for a failure and for its answer."""
        memory: _Failures = proposal.memory
        if cell is QUIET:
            return memory
        step = self._step(memory, proposal.round, proposal.context)
        if cell == _NO_ANSWER or step <= 0:
            return replace(memory, count=memory.count + 1, over=True)
        values = floor(1 / step + Fraction(1, 2)) + 1  # multiples of γ that a mean can be nearest to
        return _Failures(memory.count + 1, memory.nats + ln(float(values)))

    def tolerance(self, memory: _Failures, context: BaselineContext) -> float:
        """How far the private mean may be from a guess that is certain to pass."""
        return 2.0 * self.half_width
