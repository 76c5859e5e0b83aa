"""A rival in everhold's socket: what every one of them shares, so that each is one file with its idea alone.

A *policy* says what a rival does with a question: what it reads off the public rows, which private rows it looks at, when
and what it lets out, and what it guarantees. `Rival` is the mechanism made of it: rounds, records, replays and refusals.

The cell of a round holds all that the private rows said, noise included; so a transcript replays without the rows and
without the noise, like everhold's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from everhold.errors import PrecisionExhausted, ReplayError, SettingError, require_whole
from everhold.mechanism.estimator import Draws, prepared_on
from everhold.queries.answer import Answer, Preview
from everhold.queries.grid import VALUE_ONE
from everhold.queries.protocol import QUIET, SketchValue

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.queries.grid import GridValues, Scale
    from everhold.queries.query import Query

__all__ = [
    "ANSWER_ONE",
    "BaselineContext",
    "IntervalAnswer",
    "Policy",
    "Promise",
    "Rival",
    "Turn",
    "around",
    "on_answer_grid",
    "refuse",
]

ANSWER_ONE = 2**20
"""Noisy answers are whole multiples of 1/ANSWER_ONE on the [-1, 1] scale."""


@dataclass(frozen=True, slots=True, eq=False)
class BaselineContext:
    """Where a policy works: n private rows, the public rows, δ."""

    rows: int
    public: Draws
    failure_probability: float


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """What is public of one round.

    Attributes:
        round: its number, the first being 1.
        scale: how the question's answer is read.
        guess: what the policy would answer without the private rows, on the [-1, 1] scale.
        memory: what the policy keeps from round to round.
        site: where it works.
        query, values: the question and its values on the public rows; None where a recorded reading stands for them.
        nats: the price that the answer's interval is computed with, for policies that have one.
    """

    round: int
    scale: Scale
    guess: Fraction
    memory: Any
    site: BaselineContext
    query: Query | None
    values: GridValues | None
    nats: float
    tolerance: float

    @property
    def reading(self) -> SketchValue:
        """The guess, as records keep it."""
        return SketchValue(self.scale, self.guess.numerator, self.guess.denominator, self.site.public.draws)


@dataclass(frozen=True, slots=True)
class Promise:
    """What settings were proved for: at least so many rows, at most so much confidence.

    Attributes:
        rows: n of the theorem.
        failure_probability: its δ.
        half_width: what it then guarantees, on the share scale.
    """

    rows: int
    failure_probability: float
    half_width: float

    def check(self, site: BaselineContext) -> None:
        """Refuse rows that the theorem does not speak of."""
        if site.rows < self.rows or site.failure_probability < self.failure_probability * (1.0 - 1e-12):
            raise SettingError(
                f"these settings are proved for {self.rows:,} rows and δ = {self.failure_probability:g}, and there are "
                f"{site.rows:,} rows and δ = {site.failure_probability:g}. Make them for these."
            )


@dataclass(frozen=True, slots=True)
class IntervalAnswer:
    """What is told: a value and an interval, on the [-1, 1] scale."""

    value: float
    low: float
    high: float


class Policy(Protocol):
    """The idea of a rival. Everything but `decide` is a function of public facts and cells."""

    @property
    def name(self) -> str:
        """What tables call it."""

    @property
    def guarantee(self) -> str:
        """What its intervals rest on, in one line."""

    def begin(self, site: BaselineContext) -> Any:
        """What is remembered before the first round."""

    def allow(self, memory: Any, t: int, site: BaselineContext) -> None:
        """Raise PrecisionExhausted where round t goes beyond what was planned for."""

    def guess(self, memory: Any, values: GridValues, t: int, site: BaselineContext) -> Fraction:
        """What would be answered from the public rows alone."""

    def part(self, t: int, site: BaselineContext) -> NDArray[np.intp] | None:
        """Which private rows round t reads; None: all."""

    def decide(self, turn: Turn, mean: Fraction) -> int | None:
        """What the private rows say, as a whole number, or QUIET. `mean` is over the rows read."""

    def tell(self, turn: Turn, cell: int | None) -> IntervalAnswer:
        """The answer."""

    def learn(self, turn: Turn, cell: int | None) -> Any:
        """What is remembered after the round."""

    def nats(self, memory: Any, t: int, site: BaselineContext) -> float:
        """The price of the next interval; 0 where the guarantee is not made of nats."""

    def tolerance(self, memory: Any, site: BaselineContext) -> float:
        """How far the rows may be from the guess before they speak; 0 where they always do."""


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    memory: Any
    round: int = 0
    spoken: int = 0


class Rival:
    """A mechanism made of a policy.

    Args:
        policy: the idea.
        rows: n, the number of private rows.
        public: the public rows: a prior's pool.
        failure_probability: δ, over all intervals of the session together.

    >>> import numpy as np, everhold as eh
    >>> from everhold.baselines import GaussianNoise, Rival
    >>> public = eh.Reference({"x": np.arange(100) % 2 == 0}).pool(np.random.default_rng(0))
    >>> private = {"x": np.arange(50_000) % 4 == 0}
    >>> holdout = eh.Holdout.with_mechanism(private, lambda n: Rival(GaussianNoise(rounds=10), rows=n, public=public))
    >>> 0.25 in holdout.ask(lambda rows: rows["x"]).interval
    True
    """

    fresh = False
    fit: tuple[int, ...] = ()

    def __init__(self, policy: Policy, *, rows: int, public: Any, failure_probability: float = 0.05) -> None:
        require_whole(rows, "rows")
        if rows < 1:
            raise SettingError(f"the number of private rows is at least 1, not {rows!r}")
        if not 0.0 < failure_probability < 1.0:
            raise SettingError(f"a failure probability lies strictly between 0 and 1, not at {failure_probability!r}")
        self.policy = policy
        self._site = BaselineContext(
            rows, Draws(public.rows, public.size, public.weights, public.draws), failure_probability
        )
        self._state = _State(policy.begin(self._site))

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""
        return self._state.round

    @property
    def surprises(self) -> int:
        """In how many of them the private rows spoke."""
        return self._state.spoken

    @property
    def spent(self) -> float:
        """The price of the next answer's interval, where the policy has one."""
        return self.policy.nats(self._state.memory, self._state.round + 1, self._site)

    def prepare(self, query: Query) -> Query:
        """The question with its values on the public rows."""
        return prepared_on(query, self._site.public)

    def identity(self, query: Query) -> str:
        """The digest of the values on the public rows."""
        return self._values(query).pack().digest

    def propose(self, query: Query | SketchValue) -> Turn:
        """The question on the public rows, or a refusal."""
        state, site, t = self._state, self._site, self._state.round + 1
        self.policy.allow(state.memory, t, site)
        nats, tolerance = self.spent, self.policy.tolerance(state.memory, site)
        if isinstance(query, SketchValue):
            guess = Fraction(query.numerator, query.denominator)
            return Turn(t, query.scale, guess, state.memory, site, None, None, nats, tolerance)
        values = self._values(query, verify=True)
        guess = self.policy.guess(state.memory, values, t, site)
        return Turn(t, values.scale, guess, state.memory, site, query, values, nats, tolerance)

    def part(self, proposal: Turn) -> NDArray[np.intp] | None:
        """Which rows are read."""
        return self.policy.part(proposal.round, self._site)

    def decide(self, proposal: Turn, total: int) -> int | None:
        """What the rows say."""
        part = self.part(proposal)
        read = self._site.rows if part is None else len(part)
        return self.policy.decide(proposal, Fraction(total, VALUE_ONE * read))

    def absorb(self, proposal: Turn, cell: int | None, fit: tuple[int, ...] | None = None) -> None:
        """End the round."""
        state = self._state
        if proposal.round != state.round + 1:
            raise SettingError(f"the proposal is for round {proposal.round}, but round {state.round + 1} comes next.")
        if cell is not QUIET and proposal.values is None:
            raise ReplayError(f"the rows spoke in round {proposal.round}, but its question was not kept.")
        self._state = _State(self.policy.learn(proposal, cell), proposal.round, state.spoken + (cell is not QUIET))

    def skip(self, rounds: int) -> None:
        """Take over so many quiet rounds from a record."""
        self._state = replace(self._state, round=self._state.round + rounds)

    def answer(self, proposal: Turn, cell: int | None) -> Answer:
        """What is told, on the scale of the question."""
        told = self.policy.tell(proposal, cell)
        value, low, high = (min(max(x, -1.0), 1.0) for x in (told.value, told.low, told.high))
        answer = Answer(value, low, high, cell is not QUIET, proposal.round, proposal.nats, "mean")
        return answer.as_share() if proposal.scale == "share" else answer

    def preview(self, query: Query) -> Preview:
        """What the public side says of a question, for nothing."""
        turn = self.propose(query)
        quiet = self.answer(turn, QUIET) if turn.tolerance > 0.0 else None
        prior = float(_mean(self._values(query), self._site.public))
        low, high = (-1.0, 1.0) if quiet is None else (quiet.low, quiet.high)
        t, site = turn.round + 1, self._site
        costs = self.policy.nats(self.policy.learn(turn, 1), t, site) - self.policy.nats(turn.memory, t, site)
        guess = min(max(float(turn.guess), -1.0), 1.0)
        shown = Preview(prior, guess, -1.0, 1.0, turn.tolerance, "mean", self.spent, costs)
        shown = shown.as_share() if turn.scale == "share" else shown
        return shown if quiet is None else replace(shown, low=low, high=high)

    def _values(self, query: Query, *, verify: bool = False) -> GridValues:
        return query.on_reference(self._site.public.rows, self._site.public.size, verify=verify)

    def __repr__(self) -> str:
        return f"Rival({self.policy.name}, {self._site.rows:,} rows)"


def _mean(values: GridValues, public: Draws) -> Fraction:
    """The mean over the public rows, by weight where they have one."""
    if public.weights is None:
        return Fraction(values.total, VALUE_ONE * public.size)
    numbers = values.array * 2.0 - 1.0 if values.scale == "share" else values.array / VALUE_ONE
    return Fraction(float(public.weights.dot(numbers)))


def public_mean(values: GridValues, site: BaselineContext) -> Fraction:
    """What the public rows say of a question."""
    return _mean(values, site.public)


def on_answer_grid(value: float) -> int:
    """A noisy answer as a cell, kept within [-2, 2]."""
    return round(min(max(value, -2.0), 2.0) * ANSWER_ONE)


def around(value: float, width: float, turn: Turn) -> IntervalAnswer:
    """A value with one half-width to either side, widened by what grids can have moved it."""
    slack = 1.0 / ANSWER_ONE + (2.0**-15 if turn.scale == "mean" else 0.0)
    return IntervalAnswer(value, value - width - slack, value + width + slack)


def refuse(what: str, *, asked: float) -> PrecisionExhausted:
    """The refusal of a rival whose plan is used up."""
    return PrecisionExhausted(
        f"{what} Answers given so far keep their guarantee.", asked=asked, left=0.0, needed=asked, more_rows=None
    )
