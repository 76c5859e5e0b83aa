"""The paper's mechanism to the letter: Algorithm 1 (AQA-OGD) with Algorithm 2 as its estimator.

The sketch is a multiset G of gradients ∓λε q/16 over the seed space {0,1}ⁿ, never enumerated: each round draws B fresh
seeds and averages. It works for any n; its time depends on |G| and the rounds, not on N = 2ⁿ. `constants="corrected"`
corrects errors in print (`docs/theory/errata.md`). Intervals are everhold's: the same sequential code charges the
transcript, so they are valid at any sample size, also below the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from everhold.bounds.code import Code, automatic_weight_nats
from everhold.bounds.concentration import confidence_nats
from everhold.bounds.elementary import ln
from everhold.bounds.paper import Constants, estimator_draws, update_cap
from everhold.data.source import as_table
from everhold.errors import (
    PrecisionExhausted,
    QuestionError,
    ReplayError,
    SettingError,
    require_number,
    require_whole,
)
from everhold.mechanism.basis import Basis
from everhold.mechanism.estimator import Draws, past_values
from everhold.mechanism.intervals import interval_ends
from everhold.queries.answer import Answer, Preview
from everhold.queries.grid import VALUE_ONE, GridValues
from everhold.queries.protocol import QUIET, SketchValue
from everhold.queries.rng import stream_rng
from everhold.queries.round_act import ASK, RoundAct, require_ask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everhold.queries.grid import Sums
    from everhold.queries.protocol import Outcome
    from everhold.queries.query import Query

__all__ = ["MOST_DRAWS", "AqaOgd", "PaperProposal"]

MOST_DRAWS = 2**26
"""The largest number of seeds a round; more raise an error that shows their number."""

_CHUNK = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class PaperProposal:
    """The estimate û/λ for one round."""

    round: int
    query: Query | None
    forecast: SketchValue
    values: GridValues | None
    tolerance: float
    price: float


class AqaOgd:
    """Algorithm 1 over a sampler of the prior.

    Args:
        rows: M, the number of private rows.
        draw: fresh rows g(seed) for uniform seeds: `draw(rng, size)` returns a table, or is a prior's own `draw`.
        accuracy: ε on the [-1, 1] scale.
        density: λ.
        rounds: T, fixed in advance as in the paper.
        failure_probability: δ.
        seed: the seed of the coins.
        constants: 'corrected': the cap is tested before adding (erratum 4), answers are clipped to [-1, 1] (erratum 8),
            and the mechanism refuses once the cap is used up. 'printed': the cap may be exceeded by one, answers may leave
            [-1, 1], and it continues to answer from an unchecked sketch, with the trivial interval.
        draws: 'corrected': B from the known |G| (erratum 1). 'printed': the B that the paper means; an error with its
            size if it exceeds MOST_DRAWS.

    A holdout can use it like any mechanism:

    >>> import everhold as eh
    >>> coins = eh.BitSampler(lambda bits: {"x": bits[:, 0] == 1}, bits=64)
    >>> private = {"x": np.arange(5000) % 10 > 0}
    >>> holdout = eh.Holdout.with_mechanism(
    ...     private, lambda n: eh.AqaOgd(rows=n, draw=coins.draw, accuracy=0.4, density=0.5, rounds=100)
    ... )
    >>> answer = holdout.ask(lambda rows: rows["x"])
    >>> answer.surprise, 0.9 in answer.interval
    (True, True)
    """

    def __init__(
        self,
        *,
        rows: int,
        draw: Callable[[np.random.Generator, int], Any],
        accuracy: float,
        density: float,
        rounds: int,
        failure_probability: float = 0.05,
        seed: int = 0,
        constants: Constants = "corrected",
        draws: Constants = "corrected",
    ) -> None:
        for value, name in ((rows, "rows"), (rounds, "rounds"), (seed, "seed")):
            require_whole(value, name)
        for number, name in (
            (accuracy, "accuracy"),
            (density, "density"),
            (failure_probability, "failure_probability"),
        ):
            require_number(number, name)
        if rows < 1:
            raise SettingError(f"the number of private rows is {rows!r}. Expected at least 1.")
        if constants not in get_args(Constants) or draws not in get_args(Constants):
            raise SettingError(f"constants is {constants!r} and draws is {draws!r}. Expected 'printed' or 'corrected'.")
        self._n = rows
        self._draw = draw
        self._accuracy = Fraction(accuracy)
        self._density = density
        self._horizon = rounds
        self._failure = failure_probability
        self._seed = seed
        self._constants: Constants = constants
        self._draws: Constants = draws
        self._cap = update_cap(accuracy, density)
        self._confidence_nats = confidence_nats(failure_probability)
        self._cells = 2 * floor(2 / self._accuracy + Fraction(1, 2)) + 1  # multiples of ε/2 that v can round to
        self._code = Code()
        self._round = 0
        self._updates = 0
        self._gradients: dict[Query, int] = {}  # net sign of each question, also if it is asked again
        if (size := self._size(1)) > MOST_DRAWS:
            raise SettingError(
                f"the estimator as printed would draw {size:,} seeds a round (B = 0.5 ε⁻² T² |ln(δ/2T)|), more than "
                f"{MOST_DRAWS:,}. Use draws='corrected', which needs ½|G|² ln(4T/δ)."
            )

    @property
    def fresh(self) -> bool:
        """True: every round draws new seeds, so the record stores every question in full."""
        return True

    @property
    def closed(self) -> bool:
        """False: there is no last act."""
        return False

    @property
    def fit(self) -> tuple[int, ...]:
        """Empty: G follows from the rounds, cells and forecasts."""
        return ()

    def prepare(self, query: Query) -> Query:
        """The question as it is: every round has seeds of its own."""
        return query

    def identity(self, query: Query) -> str:
        """A digest of the question's values on seeds drawn only for this purpose."""
        drawn = _as_draws(self._draw(stream_rng(self._seed, "probe"), 2048))
        return query.on_reference(drawn.rows, drawn.size).pack().digest

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""
        return self._round

    @property
    def surprises(self) -> int:
        """|G|, the number of updates."""
        return self._updates

    @property
    def price(self) -> float:
        """The price in nats of the next answer's interval."""
        return self._confidence_nats + automatic_weight_nats(self._round + 1, None) + self._code.nats

    @property
    def exhausted(self) -> bool:
        """Whether the cap on updates is used up, so that answers are no longer checked."""
        if self._constants == "printed":
            return self._updates > self._cap
        return self._updates + 1 > self._cap

    def propose(self, query: Query | SketchValue, act: RoundAct = ASK) -> PaperProposal:
        """û/λ by Algorithm 2, with seeds drawn only for this round."""
        require_ask(act)
        if self.exhausted and self._constants == "corrected":
            raise PrecisionExhausted(
                f"all {self._cap:,} updates that ε = {float(self._accuracy):g} and λ = {self._density:g} allow are used "
                "up; further answers would come from an unchecked sketch. Answers returned so far stay valid.",
                asked=float(self._accuracy),
                left=0.0,
                needed=float(self._accuracy) / 2,
                more_rows=0,
            )
        t = self._round + 1
        if t > self._horizon:
            raise PrecisionExhausted(
                f"all {self._horizon:,} planned rounds (rounds=…) are used, and the paper's guarantee does not cover more. "
                "Begin with a larger rounds=….",
                asked=float(self._accuracy),
                left=0.0,
                needed=float(self._accuracy) / 2,
                more_rows=None,
            )
        tolerance = float(self._accuracy) / 2
        if isinstance(query, SketchValue):
            return PaperProposal(t, None, query, None, tolerance, self.price)
        forecast, values = self._estimate(query, t, "aqa-ogd")
        return PaperProposal(t, query, forecast, values, tolerance, self.price)

    def rows_read(self, proposal: PaperProposal) -> None:
        """None: the total is over all rows."""

    def needs(self, proposal: PaperProposal) -> tuple[Query, ...]:
        """The question itself."""
        return () if proposal.query is None else (proposal.query,)

    def decide(self, proposal: PaperProposal, sums: Sequence[Sums]) -> int | None:
        """Line 7: an update when |û - λv| > λε/2 and the cap allows; its cell is v rounded to a multiple of ε/2."""
        if self.exhausted:
            return QUIET
        v = Fraction(sums[0].first, VALUE_ONE * self._n)
        u = Fraction(proposal.forecast.numerator, proposal.forecast.denominator)
        if abs(u - v) <= self._accuracy / 2:
            return QUIET
        return floor(v / (self._accuracy / 2) + Fraction(1, 2))

    def absorb(
        self,
        proposal: PaperProposal,
        outcome: Outcome,
        fit: tuple[int, ...] | None = None,
    ) -> None:
        """Line 9: G ← G ∪ {-λε s q/16}. The sign follows from û and the rounded answer (erratum 6)."""
        if proposal.round != self._round + 1:
            raise SettingError(f"the proposal is for round {proposal.round}, but the next round is {self._round + 1}.")
        if outcome is not QUIET:
            outcome = _whole(outcome)
            query = proposal.query
            if query is None:
                raise ReplayError(f"round {proposal.round} was a surprise, but its question was not recorded.")
            u = Fraction(proposal.forecast.numerator, proposal.forecast.denominator)
            sign = 1 if u > outcome * self._accuracy / 2 else -1
            self._gradients[query] = self._gradients.get(query, 0) - sign
            self._updates += 1
            self._code = self._code.surprised(ln(float(self._cells)))
        else:
            self._code = self._code.quiet()
        self._round += 1

    def charge(self, proposal: PaperProposal, outcome: Outcome) -> float:
        """0: it keeps its own account."""
        return 0.0

    def counts(self, proposal: PaperProposal, outcome: Outcome) -> None:
        """None: nothing of it can be certified later."""

    def skip(self, rounds: int) -> None:
        """Count `rounds` quiet rounds read from a record."""
        self._round += rounds
        self._code = self._code.quiet(rounds)

    def answer(self, proposal: PaperProposal, outcome: Outcome) -> Answer:
        """û/λ, or v rounded to a multiple of ε/2; the interval by everhold's price."""
        if outcome is QUIET:
            centre, slack = proposal.forecast.value, float(self._accuracy) / 2
        else:
            centre, slack = float(_whole(outcome) * self._accuracy / 2), float(self._accuracy) / 4
        if self.exhausted and outcome is QUIET:
            low, high = 0.0, 1.0  # an unchecked answer has no guarantee
        else:
            low, high = interval_ends(centre, slack, nats=proposal.price, rows=self._n, known_rows=0, scale="share")
        if self._constants == "corrected":
            centre = min(max(centre, -1.0), 1.0)
        return Answer(
            value=0.5 * (1.0 + centre),
            low=low,
            high=high,
            surprise=outcome is not QUIET,
            round=proposal.round,
            price=proposal.price,
            scale="share",
        )

    def preview(self, query: Query) -> Preview:
        """What the public side alone predicts for a question, free of charge."""
        forecast, values = self._estimate(query, self._round + 1, "preview")
        tolerance = float(self._accuracy) / 2
        quiet = self.answer(PaperProposal(self._round + 1, query, forecast, values, tolerance, self.price), QUIET)
        prior = float(np.mean(values.array))
        costs = self._code.surprised(ln(float(self._cells))).nats - self._code.quiet().nats
        return Preview(prior, quiet.value, quiet.low, quiet.high, tolerance / 2, "share", self.price, costs)

    def _size(self, gradients: int) -> int:
        return estimator_draws(
            gradients,
            accuracy=float(self._accuracy),
            density=self._density,
            rounds=self._horizon,
            failure_probability=self._failure,
            constants=self._draws,
        )

    def _estimate(self, query: Query, t: int, purpose: str) -> tuple[SketchValue, GridValues]:
        """û/λ = (ε/16) Σ_k q(i_k) Σ_j (-s_j) q_j(i_k) / B, in whole numbers."""
        if not query.repeatable:
            raise QuestionError(
                "AqaOgd draws fresh seeds every round. Expected a callable that can be evaluated on them, not "
                "eh.Values(...)."
            )
        left = size = max(self._size(self._updates), 1) if self._updates else _CHUNK // 16
        if size > MOST_DRAWS:
            raise SettingError(
                f"{self._updates:,} updates need {size:,} seeds a round, more than {MOST_DRAWS:,}. Use a larger accuracy=."
            )
        rng = stream_rng(self._seed, purpose, t)
        past = [(q, net) for q, net in self._gradients.items() if net != 0]
        signs = np.array([float(net) for _, net in past])
        total, verify = 0, True
        while left:
            rows = min(left, _CHUNK)
            drawn = _as_draws(self._draw(rng, rows))
            if drawn.weights is not None or drawn.size != rows:
                raise SettingError("AqaOgd needs a sampler of single rows: draw(rng, size) with size rows and no weights.")
            values = query.on_reference(drawn.rows, rows, verify=verify)
            if values.scale != "share":
                raise QuestionError(
                    "AqaOgd answers yes/no questions, but this one returns numbers. Ask it through "
                    "eh.SQOracle(..., route='boolean'), or use the everhold mechanism."
                )
            if past:
                basis = Basis(np.broadcast_to(1.0 / rows, rows))
                for earlier, _ in past:
                    basis.append(past_values(earlier, drawn))
                y = basis.combine(signs)
                total += 2 * int(values.array.astype(np.float64).dot(y)) - int(y.sum())
            left -= rows
            verify = False
            if not self._updates:
                break
        u = self._accuracy / 16 * Fraction(total, size)
        if self._constants == "corrected":
            u = max(Fraction(-1), min(Fraction(1), u))
        return SketchValue("share", u.numerator, u.denominator, float(size)), values


def _as_draws(drawn: Any) -> Draws:
    """The result of a sampler, a prior's pool or a plain table, as `Draws`."""
    if hasattr(drawn, "rows") and hasattr(drawn, "weights"):
        return Draws.of(drawn)
    table = as_table(drawn, what="what draw(rng, size) returned")
    return Draws(table, table.size, None, float(table.size))


def _whole(outcome: Outcome) -> int:
    """The paper's mechanism discloses whole numbers only."""
    if not isinstance(outcome, int):
        raise ReplayError(f"a surprise of AQA-OGD discloses a whole number, not {outcome!r}.")
    return outcome
