"""Everhold's own mechanism: answers from the sketch, surprises charged by the code, intervals from the price.

Validity (`docs/theory/validity.md`): for any prior, rule, tolerance and analyst, all intervals of a session are
simultaneously valid with probability 1-δ over the private rows, because every returned answer is a function of public
facts, coins and the transcript of surprises, and the transcript is charged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from everhold.bounds.concentration import confidence_nats, hoeffding_width, kl_interval, known_rows_range
from everhold.bounds.description_length import Code
from everhold.errors import ReplayError, SettingError
from everhold.mechanism.rules.rule import Constraint, check_fit
from everhold.mechanism.sketch import Sketch, unchanged
from everhold.mechanism.tolerance import TOLERANCE_ONE, Anytime, Tolerance, ToleranceInputs
from everhold.queries.answer import Answer, Preview
from everhold.queries.grid import VALUE_ONE
from everhold.queries.protocol import QUIET, SketchValue

if TYPE_CHECKING:
    from everhold.mechanism.estimator import Estimator
    from everhold.mechanism.tolerance import Contract
    from everhold.queries.grid import GridValues, Scale
    from everhold.queries.query import Query

__all__ = ["Everhold", "Offer", "interval_ends"]

_QUANTUM = 2.0**-16
"""How far rounding to the grid can move a mean, on the share scale: 2⁻¹⁷ for each row, and the same again for the mean of
the rows of one unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """The public side's proposal for one round."""

    round: int
    query: Query | None
    reading: SketchValue
    values: GridValues | None
    limits: Tolerance
    nats: float

    @property
    def tolerance(self) -> float:
        """τ on the [-1, 1] scale."""
        return self.limits.tau / TOLERANCE_ONE


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """Everything that a round changes, in one value, so that a round ends with one assignment."""

    sketch: Sketch
    round: int = 0
    code: Code = field(default_factory=Code)
    lessons: tuple[Constraint, ...] = ()


class Everhold:
    """Everhold's mechanism: a sketch answers, and an answer uses the private data only if the sketch is off.

    Args:
        rows: n, the number of private rows.
        estimator: the public side: a pool or fresh draws, with the rule that updates the sketch.
        contract: the precision, and when to refuse.
        failure_probability: δ, for all intervals of the session together.
        known_rows: how many of the private rows the analyst may know.
    """

    def __init__(
        self,
        *,
        rows: int,
        estimator: Estimator,
        contract: Contract | None = None,
        failure_probability: float = 0.05,
        known_rows: int = 0,
    ) -> None:
        if rows < 1:
            raise SettingError(f"the number of private rows is {rows!r}. Expected at least 1.")
        if not 0 <= known_rows < rows:
            raise SettingError(
                f"known_rows is {known_rows!r}. Expected a number from 0 to {rows - 1} (one less than the rows)."
            )
        self._n = rows
        self._known = known_rows
        self._estimator = estimator
        self._contract: Contract = contract or Anytime()
        self._confidence_nats = confidence_nats(failure_probability)
        self._state = _State(estimator.start())

    @property
    def fresh(self) -> bool:
        """Whether every round draws new public rows; the record then has to store every question in full."""
        return self._estimator.fresh

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""
        return self._state.round

    @property
    def surprises(self) -> int:
        """How many of them were surprises."""
        return self._state.code.surprises

    @property
    def spent(self) -> float:
        """C in nats: the price used for the interval of the next answer."""
        return self._confidence_nats + self._state.code.nats(self._state.round + 1)

    @property
    def fit(self) -> tuple[int, ...]:
        """The sketch's coefficients, on their grid."""
        return self._state.sketch.fit

    def prepare(self, query: Query) -> Query:
        """The question, evaluated once where public rows are fixed."""
        return self._estimator.prepare(query)

    def identity(self, query: Query) -> str:
        """A digest of the question's values on public rows; it distinguishes unnamed questions."""
        return self._estimator.identity(query)

    def propose(self, query: Query | SketchValue) -> Offer:
        """The sketch's answer and its tolerance for the next round."""
        return self._offer(query, "fresh")

    def _offer(self, query: Query | SketchValue, purpose: str) -> Offer:
        t, nats = self._state.round + 1, self.spent
        if isinstance(query, SketchValue):
            return Offer(t, None, query, None, self._limits(query, nats), nats)
        estimate = self._estimator.estimate(self._state.sketch, query, t, purpose)
        reading = estimate.reading
        return Offer(t, query, reading, estimate.values, self._limits(reading, nats), nats)

    def _limits(self, reading: SketchValue, nats: float) -> Tolerance:
        known = 2.0 * self._known / (self._n - self._known)
        return self._contract.tolerance(
            ToleranceInputs(reading.value, nats, self._n - self._known, reading.draws, known)
        )

    def part(self, proposal: Offer) -> None:
        """None: the total is over all rows."""

    def decide(self, proposal: Offer, total: int) -> int | None:
        """Quiet if |u - v| ≤ τ; otherwise ±j, if the private mean is in the j-th cell beyond τ. In whole numbers."""
        u, per = proposal.reading.numerator, proposal.reading.denominator
        # v - u = difference / whole, exactly
        difference = total * per - u * VALUE_ONE * self._n
        whole = VALUE_ONE * self._n * per
        beyond = abs(difference) * TOLERANCE_ONE - proposal.limits.tau * whole
        if beyond <= 0:
            return QUIET
        j = -(-beyond // (proposal.limits.cell * whole))
        return j if difference > 0 else -j

    def absorb(self, proposal: Offer, cell: int | None, fit: tuple[int, ...] | None = None) -> None:
        """End the round. After a surprise, charge for it and refit the sketch, or take the recorded fit.

        A surprise is charged even if the refit fails; the sketch then does not change, and that is recorded. Otherwise a
        failed refit would leak, uncharged, that the round was a surprise.
        """
        state = self._state
        if proposal.round != state.round + 1:
            raise SettingError(
                f"the proposal is for round {proposal.round}, but the next round is {state.round + 1}. Propose again."
            )
        if cell is QUIET:
            self._state = replace(state, round=state.round + 1)
            return
        query, values = proposal.query, proposal.values
        if query is None or values is None:
            raise ReplayError(f"round {proposal.round} was a surprise, but its question was not recorded.")
        lessons = (*state.lessons, self._lesson(proposal, cell))
        if fit is not None:
            check_fit(fit, len(lessons))
            sketch = self._estimator.learn(state.sketch, [query], [values], fit)
        else:
            try:
                fit = self._estimator.fit(state.sketch, [query], [values], lessons, proposal.round)
                sketch = self._estimator.learn(state.sketch, [query], [values], fit)
            except Exception:
                fit = unchanged(state.sketch)
                sketch = self._estimator.learn(state.sketch, [query], [values], fit)
        self._state = _State(sketch, proposal.round, state.code.after(round=proposal.round, cell=cell), lessons)

    def skip(self, rounds: int) -> None:
        """Count `rounds` quiet rounds read from a record; they change nothing else."""
        self._state = replace(self._state, round=self._state.round + rounds)

    def answer(self, proposal: Offer, cell: int | None) -> Answer:
        """Value and interval: a function of the proposal and the cell."""
        centre, slack = self._centre(proposal, cell)
        scale = proposal.reading.scale
        low, high = interval_ends(centre, slack, nats=proposal.nats, rows=self._n, known_rows=self._known, scale=scale)
        value = min(max(centre, -1.0), 1.0)
        return Answer(
            value=0.5 * (1.0 + value) if scale == "share" else value,
            low=low,
            high=high,
            surprise=cell is not QUIET,
            round=proposal.round,
            spent=proposal.nats,
            scale=scale,
        )

    def preview(self, query: Query) -> Preview:
        """What the public side alone predicts for a question, free of charge."""
        offer = self._offer(query, "preview")
        quiet = self.answer(offer, QUIET)
        prior = self._estimator.prior(query)
        share = quiet.scale == "share"
        return Preview(
            prior=0.5 * (1.0 + prior) if share else prior,
            sketch=quiet.value,
            low=quiet.low,
            high=quiet.high,
            tolerance=offer.tolerance / 2.0 if share else offer.tolerance,
            scale=quiet.scale,
            spent=offer.nats,
            surprise_costs=self._surprise_costs(offer.round),
        )

    def _surprise_costs(self, t: int) -> float:
        """The price after a surprise in the nearest cell now, minus the price after a quiet round."""
        code = self._state.code
        return code.after(round=t, cell=1).nats(t + 1) - code.nats(t + 1)

    def _centre(self, proposal: Offer, cell: int | None) -> tuple[float, float]:
        """a and s: the private mean lies within s of a."""
        limits = proposal.limits
        if cell is QUIET:
            return proposal.reading.value, limits.tau / TOLERANCE_ONE
        step = Fraction(2 * limits.tau + (2 * abs(cell) - 1) * limits.cell, 2 * TOLERANCE_ONE)
        u = Fraction(proposal.reading.numerator, proposal.reading.denominator)
        return float(u + step if cell > 0 else u - step), 0.5 * limits.cell / TOLERANCE_ONE

    def _lesson(self, proposal: Offer, cell: int) -> Constraint:
        centre, slack = self._centre(proposal, cell)
        w = hoeffding_width(proposal.nats, self._n - self._known)
        beyond = (abs(cell) - 1) * 2.0 * slack
        # The part of the cell inside [-1, 1], which contains the private mean.
        low, high = max(centre - slack, -1.0), min(centre + slack, 1.0)
        return Constraint(
            target=0.5 * (low + high),
            slack=max(0.5 * (high - low), 0.125 * slack),
            sketch=proposal.reading.value,
            width=w,
            gap=proposal.tolerance + beyond - w,
            tolerance=proposal.tolerance,
        )


def interval_ends(
    centre: float, slack: float, *, nats: float, rows: int, known_rows: int, scale: Scale
) -> tuple[float, float]:
    """The interval for the population value, given that the private mean is within `slack` of `centre`.

    `x∓ = clip((1 + a ∓ s)/2, 0, 1)`, widened for rows that the analyst knows, then by the kl radius C/n, rounded outwards;
    for numbers also by the rounding error of the grid. On the scale of the answer.
    """
    low = min(max(0.5 * (1.0 + (centre - slack)), 0.0), 1.0)
    high = min(max(0.5 * (1.0 + (centre + slack)), 0.0), 1.0)
    low, high, left = known_rows_range(low, high, rows, known_rows)
    low, high = kl_interval(low, high, nats / left)
    if scale == "share":
        return low, high
    return max(2.0 * (low - _QUANTUM) - 1.0, -1.0), min(2.0 * (high + _QUANTUM) - 1.0, 1.0)
