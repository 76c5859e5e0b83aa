"""The Ladder (Blum and Hardt 2015, arXiv:1502.04585): a leaderboard that changes only if a submission is clearly better."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from everhold.baselines.mechanism import BaselineContext, BaselineProposal, IntervalAnswer
from everhold.bounds.code import Code, automatic_weight_nats
from everhold.bounds.concentration import confidence_nats, kl_interval
from everhold.bounds.elementary import ln
from everhold.errors import QuestionError, SettingError
from everhold.queries.protocol import QUIET

if TYPE_CHECKING:
    from everhold.queries.grid import GridValues

__all__ = ["Ladder"]


@dataclass(frozen=True, slots=True)
class _Best:
    """The best loss returned so far, as a number of steps, and the price of the improvements."""

    steps: int | None = None
    code: Code = field(default_factory=Code)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Returns the best loss so far, unless the new loss is better by more than a step; then the new one, rounded to steps.

    The returned value is the *best* loss, not that of the question. The interval is for the question asked: its private mean
    is at most a step below the best, or it is known to half a step; by everhold's theorem, with every improvement charged.

    Args:
        step: η, on the share scale; by their theorem about (ln(kn)/n)^(1/3).
        best: the loss to beat for the first submission.
    """

    step: float = 0.01
    best: float = 1.0
    name = "Ladder"
    guarantee = "for the best loss only (Blum and Hardt 2015); improvements charged"

    def __post_init__(self) -> None:
        if not 0.0 < self.step <= 0.5:
            raise SettingError(f"the step is {self.step!r}. Expected a number in (0, 0.5], on the share scale.")

    def begin(self, context: BaselineContext) -> _Best:
        """The state before the first submission."""
        return _Best()

    def allow(self, memory: _Best, t: int, context: BaselineContext) -> None:
        """Never refuses."""

    def _share(self, memory: _Best) -> Fraction:
        return Fraction(self.best) if memory.steps is None else memory.steps * Fraction(self.step)

    def guess(self, memory: _Best, values: GridValues, t: int, context: BaselineContext) -> Fraction:
        """The best loss so far."""
        if values.scale != "share":
            raise QuestionError("the Ladder ranks losses. Expected a yes/no question: whether a prediction is wrong.")
        return 2 * min(self._share(memory), Fraction(1)) - 1

    def rows_read(self, t: int, context: BaselineContext) -> None:
        """None: every answer is over all rows."""

    def decide(self, proposal: BaselineProposal, mean: Fraction) -> int | None:
        """Quiet unless the loss is below the best by more than a step; then its nearest step."""
        loss = (mean + 1) / 2
        if proposal.memory.steps is not None and loss >= self._share(proposal.memory) - Fraction(self.step):
            return QUIET
        return floor(loss / Fraction(self.step) + Fraction(1, 2))

    def tell(self, proposal: BaselineProposal, cell: int | None) -> IntervalAnswer:
        """The best loss so far, with an interval for the loss that was asked."""
        step = Fraction(self.step)
        if cell is QUIET:
            best = self._share(proposal.memory)
            low, high = float(best - step), 1.0
        else:
            best = cell * step
            low, high = float(best - step / 2), float(best + step / 2)
        low, high = kl_interval(min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0), proposal.price / proposal.context.rows)
        return IntervalAnswer(2.0 * min(float(best), 1.0) - 1.0, 2.0 * low - 1.0, 2.0 * high - 1.0)

    def learn(self, proposal: BaselineProposal, cell: int | None) -> _Best:
        """Charge a new best for its round and for its value, one of finitely many steps."""
        memory: _Best = proposal.memory
        if cell is QUIET:
            return memory
        steps = floor(1 / Fraction(self.step) + Fraction(1, 2)) + 1
        return _Best(cell, _before(memory.code, proposal.round).surprised(ln(float(steps))))

    def price(self, memory: _Best, t: int, context: BaselineContext) -> float:
        """The price of the improvements so far, and of an interval with every answer: all of δ is for these."""
        weight = automatic_weight_nats(t, None)
        return confidence_nats(context.failure_probability) + weight + _before(memory.code, t).nats

    def tolerance(self, memory: _Best, context: BaselineContext) -> float:
        """One step, once there is a best loss."""
        return 0.0 if memory.steps is None else 2.0 * self.step


def _before(code: Code, t: int) -> Code:
    """The code before submission t: those since the last improvement were quiet."""
    return code.quiet(t - 1 - code.asks)
