"""Baselines with everhold's protocol. The shared parts are here, so that each baseline is one file with only its idea.

A *policy* defines what a baseline does with a question: its guess from the public rows, which private rows it reads, when
and how the answer uses them, and its guarantee. `BaselineMechanism` makes a mechanism of a policy: rounds, records, replays,
refusals.

The cell of a round contains everything that depends on the private rows, noise included, so a transcript replays without
the rows and without the noise, like everhold's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from everhold.errors import PrecisionExhausted, ReplayError, SettingError, require_whole
from everhold.mechanism.estimator import Draws, prepared_on
from everhold.queries.answer import Answer, Preview
from everhold.queries.grid import VALUE_ONE
from everhold.queries.protocol import QUIET, SketchValue
from everhold.queries.round_act import ASK, RoundAct, require_ask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.queries.grid import GridValues, Scale, Sums
    from everhold.queries.protocol import Outcome
    from everhold.queries.query import Query

__all__ = [
    "ANSWER_ONE",
    "BaselineContext",
    "BaselineMechanism",
    "BaselineProposal",
    "IntervalAnswer",
    "Policy",
    "Promise",
    "around",
    "on_answer_grid",
    "refuse",
]

ANSWER_ONE = 2**20
"""Noisy answers are whole multiples of 1/ANSWER_ONE on the [-1, 1] scale."""


@dataclass(frozen=True, slots=True, eq=False)
class BaselineContext:
    """What a policy can use: the number n of private rows, the public rows, δ."""

    rows: int
    public: Draws
    failure_probability: float


@dataclass(frozen=True, slots=True, eq=False)
class BaselineProposal:
    """The public part of one round.

    Attributes:
        round: its number, starting at 1.
        scale: the scale of the question's answer.
        guess: the policy's answer without the private rows, on the [-1, 1] scale.
        memory: the policy's state before the round.
        context: the context of the policy.
        query, values: the question and its values on the public rows; None if a recorded forecast replaces them.
        price: the price used for the answer's interval, for policies that have one.
    """

    round: int
    scale: Scale
    guess: Fraction
    memory: Any
    context: BaselineContext
    query: Query | None
    values: GridValues | None
    price: float
    tolerance: float

    @property
    def forecast(self) -> SketchValue:
        """The guess, in the form that records store."""
        return SketchValue(self.scale, self.guess.numerator, self.guess.denominator, self.context.public.independent)


@dataclass(frozen=True, slots=True)
class Promise:
    """What settings are proved for: at least this many rows, and at least this failure probability.

    Attributes:
        rows: n of the theorem.
        failure_probability: its δ.
        half_width: the guaranteed half-width, on the share scale.
    """

    rows: int
    failure_probability: float
    half_width: float

    def check(self, context: BaselineContext) -> None:
        """Raise SettingError for rows or a δ that the theorem does not cover."""
        if context.rows < self.rows or context.failure_probability < self.failure_probability * (1.0 - 1e-12):
            raise SettingError(
                f"these settings are proved for {self.rows:,} rows and δ = {self.failure_probability:g}, but there are "
                f"{context.rows:,} rows and δ = {context.failure_probability:g}. Compute the settings for these."
            )


@dataclass(frozen=True, slots=True)
class IntervalAnswer:
    """The answer of a policy: a value and an interval, on the [-1, 1] scale."""

    value: float
    low: float
    high: float


class Policy(Protocol):
    """The idea of a baseline. Everything except `decide` is a function of public facts and cells."""

    @property
    def name(self) -> str:
        """Its name in tables."""

    @property
    def guarantee(self) -> str:
        """The basis of its intervals, in one line."""

    def begin(self, context: BaselineContext) -> Any:
        """The state before the first round."""

    def allow(self, memory: Any, t: int, context: BaselineContext) -> None:
        """Raise PrecisionExhausted if round t is beyond the plan."""

    def guess(self, memory: Any, values: GridValues, t: int, context: BaselineContext) -> Fraction:
        """The answer from the public rows alone."""

    def rows_read(self, t: int, context: BaselineContext) -> NDArray[np.intp] | None:
        """Indices of the private rows that round t reads; None: all rows."""

    def decide(self, proposal: BaselineProposal, mean: Fraction) -> int | None:
        """The data-dependent part of the answer as a whole number, or QUIET. `mean` is over the rows that are read."""

    def tell(self, proposal: BaselineProposal, cell: int | None) -> IntervalAnswer:
        """The value and interval to return."""

    def learn(self, proposal: BaselineProposal, cell: int | None) -> Any:
        """The state after the round."""

    def price(self, memory: Any, t: int, context: BaselineContext) -> float:
        """The price of the next interval; 0 if the guarantee is not counted in nats."""

    def tolerance(self, memory: Any, context: BaselineContext) -> float:
        """How far the private mean may be from the guess before the answer uses it; 0 if it always does."""


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    memory: Any
    round: int = 0
    surprises: int = 0


class BaselineMechanism:
    """The mechanism of a policy.

    Args:
        policy: the idea of the baseline.
        rows: n, the number of private rows.
        public: the public rows: a prior's pool.
        failure_probability: δ, for all intervals of the session together.

    >>> import numpy as np, everhold as eh
    >>> from everhold.baselines import BaselineMechanism, GaussianNoise
    >>> public = eh.Reference({"x": np.arange(100) % 2 == 0}).pool(np.random.default_rng(0))
    >>> private = {"x": np.arange(50_000) % 4 == 0}
    >>> policy = GaussianNoise(rounds=10)
    >>> holdout = eh.Holdout.with_mechanism(private, lambda n: BaselineMechanism(policy, rows=n, public=public))
    >>> 0.25 in holdout.ask(lambda rows: rows["x"]).interval
    True
    """

    fresh = closed = False
    fit: tuple[int, ...] = ()

    def __init__(self, policy: Policy, *, rows: int, public: Any, failure_probability: float = 0.05) -> None:
        require_whole(rows, "rows")
        if rows < 1:
            raise SettingError(f"the number of private rows is {rows!r}. Expected at least 1.")
        if not 0.0 < failure_probability < 1.0:
            raise SettingError(
                f"the failure probability is {failure_probability!r}. Expected a number strictly between 0 and 1."
            )
        self.policy = policy
        self._context = BaselineContext(rows, Draws.of(public), failure_probability)
        self._state = _State(policy.begin(self._context))

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""
        return self._state.round

    @property
    def surprises(self) -> int:
        """How many of the answers used the private data."""
        return self._state.surprises

    @property
    def price(self) -> float:
        """The price in nats of the next answer's interval, if the policy has one."""
        return self.policy.price(self._state.memory, self._state.round + 1, self._context)

    def prepare(self, query: Query) -> Query:
        """The question with its values on the public rows."""
        return prepared_on(query, self._context.public)

    def identity(self, query: Query) -> str:
        """The digest of the values on the public rows."""
        return self._values(query).pack().digest

    def propose(self, query: Query | SketchValue, act: RoundAct = ASK) -> BaselineProposal:
        """Evaluate the question on the public rows, or raise PrecisionExhausted."""
        require_ask(act)
        state, context, t = self._state, self._context, self._state.round + 1
        self.policy.allow(state.memory, t, context)
        price, tolerance = self.price, self.policy.tolerance(state.memory, context)
        if isinstance(query, SketchValue):
            guess = Fraction(query.numerator, query.denominator)
            return BaselineProposal(t, query.scale, guess, state.memory, context, None, None, price, tolerance)
        values = self._values(query, verify=True)
        guess = self.policy.guess(state.memory, values, t, context)
        return BaselineProposal(t, values.scale, guess, state.memory, context, query, values, price, tolerance)

    def rows_read(self, proposal: BaselineProposal) -> NDArray[np.intp] | None:
        """Indices of the private rows that the round reads; None: all rows."""
        return self.policy.rows_read(proposal.round, self._context)

    def needs(self, proposal: BaselineProposal) -> tuple[Query, ...]:
        """The question itself."""
        return () if proposal.query is None else (proposal.query,)

    def decide(self, proposal: BaselineProposal, sums: Sequence[Sums]) -> int | None:
        """The data-dependent part of the answer as a whole number, or QUIET."""
        rows_read = self.rows_read(proposal)
        read = self._context.rows if rows_read is None else len(rows_read)
        return self.policy.decide(proposal, Fraction(sums[0].first, VALUE_ONE * read))

    def absorb(self, proposal: BaselineProposal, outcome: Outcome, fit: tuple[int, ...] | None = None) -> None:
        """End the round and update the policy's state."""
        cell = _cell(outcome)
        state = self._state
        if proposal.round != state.round + 1:
            raise SettingError(f"the proposal is for round {proposal.round}, but the next round is {state.round + 1}.")
        if cell is not QUIET and proposal.values is None:
            raise ReplayError(f"round {proposal.round} used the private data, but its question was not recorded.")
        self._state = _State(self.policy.learn(proposal, cell), proposal.round, state.surprises + (cell is not QUIET))

    def charge(self, proposal: BaselineProposal, outcome: Outcome) -> float:
        """0: it keeps its own account."""
        return 0.0

    def counts(self, proposal: BaselineProposal, outcome: Outcome) -> None:
        """None: nothing of it can be certified later."""

    def skip(self, rounds: int) -> None:
        """Count `rounds` quiet rounds read from a record."""
        self._state = replace(self._state, round=self._state.round + rounds)

    def answer(self, proposal: BaselineProposal, outcome: Outcome) -> Answer:
        """The answer to return, on the scale of the question."""
        cell = _cell(outcome)
        reply = self.policy.tell(proposal, cell)
        value, low, high = (min(max(x, -1.0), 1.0) for x in (reply.value, reply.low, reply.high))
        answer = Answer(value, low, high, cell is not QUIET, proposal.round, proposal.price, "mean")
        return answer.as_share() if proposal.scale == "share" else answer

    def preview(self, query: Query) -> Preview:
        """What the public side alone predicts for a question, free of charge."""
        proposal = self.propose(query)
        quiet = self.answer(proposal, QUIET) if proposal.tolerance > 0.0 else None
        prior = float(_mean(self._values(query), self._context.public))
        low, high = (-1.0, 1.0) if quiet is None else (quiet.low, quiet.high)
        t, context = proposal.round + 1, self._context
        costs = self.policy.price(self.policy.learn(proposal, 1), t, context) - self.policy.price(
            proposal.memory, t, context
        )
        guess = min(max(float(proposal.guess), -1.0), 1.0)
        shown = Preview(prior, guess, -1.0, 1.0, proposal.tolerance, "mean", self.price, costs)
        shown = shown.as_share() if proposal.scale == "share" else shown
        return shown if quiet is None else replace(shown, low=low, high=high)

    def _values(self, query: Query, *, verify: bool = False) -> GridValues:
        return query.on_reference(self._context.public.rows, self._context.public.size, verify=verify)

    def __repr__(self) -> str:
        return f"BaselineMechanism({self.policy.name}, {self._context.rows:,} rows)"


def _mean(values: GridValues, public: Draws) -> Fraction:
    """The mean over the public rows, weighted if they have weights."""
    if public.weights is None:
        return Fraction(values.total, VALUE_ONE * public.size)
    numbers = values.array * 2.0 - 1.0 if values.scale == "share" else values.array / VALUE_ONE
    return Fraction(float(public.weights.dot(numbers)))


def public_mean(values: GridValues, context: BaselineContext) -> Fraction:
    """The mean of a question over the public rows."""
    return _mean(values, context.public)


def on_answer_grid(value: float) -> int:
    """A noisy answer as a cell, clipped to [-2, 2]."""
    return round(min(max(value, -2.0), 2.0) * ANSWER_ONE)


def around(value: float, width: float, proposal: BaselineProposal) -> IntervalAnswer:
    """A value with one half-width to either side, widened by the rounding error of the grids."""
    slack = 1.0 / ANSWER_ONE + (2.0**-15 if proposal.scale == "mean" else 0.0)
    return IntervalAnswer(value, value - width - slack, value + width + slack)


def refuse(what: str, *, asked: float) -> PrecisionExhausted:
    """The error of a baseline whose plan is used up."""
    return PrecisionExhausted(
        f"{what} Answers returned so far keep their guarantee.",
        asked=asked / 2.0,
        left=0.0,
        needed=asked / 2.0,
        more_rows=None,
    )


def _cell(outcome: Outcome) -> int | None:
    """A baseline discloses whole numbers only."""
    if not isinstance(outcome, int | None):
        raise ReplayError(f"a baseline's round discloses a whole number, not {outcome!r}.")
    return outcome
