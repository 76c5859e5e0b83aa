"""Baselines that return plain means: of all rows, or of a new random part for every question.

They have no published guarantee with explicit constants against adaptive questions. Everhold's theorem
(`docs/theory/validity.md`) applies, with every answer charged in full: an answer is one of finitely many values and costs
the logarithm of their number, so after a few hundred questions the interval is trivial.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

import numpy as np

from everhold.baselines.mechanism import BaselineContext, BaselineProposal, IntervalAnswer, public_mean
from everhold.bounds.concentration import confidence_nats
from everhold.bounds.elementary import ln
from everhold.errors import SettingError
from everhold.mechanism.intervals import interval_ends
from everhold.queries.grid import VALUE_ONE
from everhold.queries.rng import stream_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.grid import GridValues, Scale

__all__ = ["Empirical", "Subsampling"]


@dataclass(frozen=True, slots=True)
class _PriceSoFar:
    """The price of the answers so far, in nats."""

    nats: float = 0.0


def _price(memory: _PriceSoFar, t: int, context: BaselineContext) -> float:
    """`ln(2/δ) + Σ ln(values of an answer) + ln(t(t+1))`: weights 1/(t(t+1)) for the round, equal ones for its answer."""
    return confidence_nats(context.failure_probability) + memory.nats + ln(float(t * (t + 1)))


def _ends(centre: float, slack: float, proposal: BaselineProposal, rows: int) -> tuple[float, float]:
    """Ends on the [-1, 1] scale."""
    low, high = interval_ends(centre, slack, nats=proposal.price, rows=rows, known_rows=0, scale=proposal.scale)
    return (2.0 * low - 1.0, 2.0 * high - 1.0) if proposal.scale == "share" else (low, high)


@dataclass(frozen=True, slots=True)
class Empirical:
    """The mean of the private rows, exact or rounded.

    Args:
        step: answers are rounded to multiples of it, on the share scale; None returns the exact mean.
    """

    step: float | None = None

    def __post_init__(self) -> None:
        if self.step is not None and not 0.0 < self.step <= 0.5:
            raise SettingError(f"the step is {self.step!r}. Expected a number in (0, 0.5], on the share scale.")

    @property
    def name(self) -> str:
        """Its name in tables."""
        return "empirical mean" if self.step is None else f"rounded mean (±{self.step / 2:g})"

    guarantee = "every answer charged in full (everhold's theorem)"

    def begin(self, context: BaselineContext) -> _PriceSoFar:
        """No answer has been charged yet."""
        return _PriceSoFar()

    def allow(self, memory: _PriceSoFar, t: int, context: BaselineContext) -> None:
        """Never refuses."""

    def guess(self, memory: _PriceSoFar, values: GridValues, t: int, context: BaselineContext) -> Fraction:
        """The mean of the public rows; the answer does not depend on it."""
        return public_mean(values, context)

    def rows_read(self, t: int, context: BaselineContext) -> None:
        """None: every answer is over all rows."""

    def decide(self, proposal: BaselineProposal, mean: Fraction) -> int:
        """The total, or the number of the nearest step."""
        if self.step is None:
            return int(mean * VALUE_ONE * proposal.context.rows)
        return floor((mean + 1) / (2 * Fraction(self.step)) + Fraction(1, 2))

    def tell(self, proposal: BaselineProposal, cell: int | None) -> IntervalAnswer:
        """The mean and its interval."""
        if self.step is None:
            centre, slack = float(Fraction(cell or 0, VALUE_ONE * proposal.context.rows)), 0.0
        else:
            centre, slack = float(2 * Fraction(self.step) * (cell or 0) - 1), self.step
        return IntervalAnswer(centre, *_ends(centre, slack, proposal, proposal.context.rows))

    def learn(self, proposal: BaselineProposal, cell: int | None) -> _PriceSoFar:
        """Charge the logarithm of the number of values that the answer could have had."""
        return _PriceSoFar(proposal.memory.nats + ln(float(self._values(proposal.scale, proposal.context.rows))))

    def _values(self, scale: Scale, rows: int) -> int:
        if self.step is not None:
            return floor(1.0 / Fraction(self.step) + Fraction(1, 2)) + 1
        return rows + 1 if scale == "share" else 2 * VALUE_ONE * rows + 1

    def price(self, memory: _PriceSoFar, t: int, context: BaselineContext) -> float:
        """The price so far."""
        return _price(memory, t, context)

    def tolerance(self, memory: _PriceSoFar, context: BaselineContext) -> float:
        """0: every answer uses the private data."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Subsampling:
    """The mean of a random part of the rows, drawn again for every question.

    Blanc, *Subsampling Suffices for Adaptive Data Analysis* (STOC 2023, arXiv:2302.08661): no
    noise is needed if every answer uses few rows.
    The theorem's constants are not published; the interval here is everhold's theorem for the rows that are read.

    Args:
        size: the number of rows for each question.
        seed: the seed of the coins.
    """

    size: int
    seed: int = 0
    guarantee = "rates without constants (Blanc 2023); every answer charged in full here"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingError(f"the size of a part is {self.size!r}. Expected at least 1 row.")

    @property
    def name(self) -> str:
        """Its name in tables."""
        return "subsampling"

    def begin(self, context: BaselineContext) -> _PriceSoFar:
        """No answer has been charged yet."""
        if self.size > context.rows:
            raise SettingError(f"a part has {self.size:,} rows, but there are only {context.rows:,}. Use a smaller size=.")
        return _PriceSoFar()

    def allow(self, memory: _PriceSoFar, t: int, context: BaselineContext) -> None:
        """Never refuses."""

    def guess(self, memory: _PriceSoFar, values: GridValues, t: int, context: BaselineContext) -> Fraction:
        """The mean of the public rows; the answer does not depend on it."""
        return public_mean(values, context)

    def rows_read(self, t: int, context: BaselineContext) -> NDArray[np.intp]:
        """A random part, from the coins of the round."""
        drawn = stream_rng(self.seed, "subsample", t).choice(context.rows, self.size, replace=False, shuffle=False)
        return np.asarray(drawn, dtype=np.intp)

    def decide(self, proposal: BaselineProposal, mean: Fraction) -> int:
        """The total over the part."""
        return int(mean * VALUE_ONE * self.size)

    def tell(self, proposal: BaselineProposal, cell: int | None) -> IntervalAnswer:
        """The mean and its interval."""
        centre = float(Fraction(cell or 0, VALUE_ONE * self.size))
        return IntervalAnswer(centre, *_ends(centre, 0.0, proposal, self.size))

    def learn(self, proposal: BaselineProposal, cell: int | None) -> _PriceSoFar:
        """Charge the logarithm of the number of values that the answer could have had."""
        values = self.size + 1 if proposal.scale == "share" else 2 * VALUE_ONE * self.size + 1
        return _PriceSoFar(proposal.memory.nats + ln(float(values)))

    def price(self, memory: _PriceSoFar, t: int, context: BaselineContext) -> float:
        """The price so far."""
        return _price(memory, t, context)

    def tolerance(self, memory: _PriceSoFar, context: BaselineContext) -> float:
        """0: every answer uses the private data."""
        return 0.0
