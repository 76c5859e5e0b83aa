"""Acts on the mechanism itself, for many sessions: the production prices, codes and intervals, without a table.

The adversary knows the population and says so in its forecasts; the sketch does not learn (any sketch is valid, and a fit
after every reading would take most of the time). Every question is about fresh fair coins, one for each row, or about a
vote of earlier ones, so that its population share is exactly one half.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from everhold.acts import BestOf, Certify, Close, IsBetter, Read, ReadMany
from everhold.bounds.binomial import mcnemar_refutes
from everhold.bounds.code import Code
from everhold.games.seats import Move, as_move
from everhold.ledger.act_prices import price_act
from everhold.ledger.rounds import ActStart
from everhold.mechanism.estimator import Draws, PoolEstimator
from everhold.mechanism.everhold import Everhold
from everhold.mechanism.rules import Corrective
from everhold.queries.answer import Answer
from everhold.queries.grid import VALUE_ONE, Sums
from everhold.queries.protocol import SketchValue
from everhold.queries.round_act import ASK, RoundAct
from everhold.session.act_questions import checked_spend

DRAWS = 4000.0
HALF = Fraction(1, 2)


class Unlearning(Everhold):
    """Everhold's mechanism over a sketch that never changes."""

    def _taught(self, before, proposal, outcome):
        return before


@dataclass
class Bench:
    """One session over n rows of coins."""

    rng: np.random.Generator
    n: int = 1000
    delta: float = 0.05

    def __post_init__(self) -> None:
        estimator = PoolEstimator(Draws({}, 8, None, 8.0), Corrective())
        self.held = Unlearning(rows=self.n, estimator=estimator, failure_probability=self.delta)
        self.missed = False

    # acts ----------------------------------------------------------------------------------------------------------

    def round(self, sums: Sums, act: RoundAct, forecast: Fraction, scale="share", second: int = 0):
        u = 2 * forecast - 1 if scale == "share" else forecast
        proposal = self.held.propose(SketchValue(scale, u.numerator, u.denominator, DRAWS, second), act)
        outcome = self.held.decide(proposal, [sums])
        answer = self.held.answer(proposal, outcome)
        self.held.absorb(proposal, outcome)
        return proposal, outcome, answer

    def judge(self, answer: Answer, truth: float) -> Answer:
        self.missed |= not answer.low <= truth <= answer.high
        return answer

    def read(self, bits: np.ndarray, *, truth: float = 0.5, **act) -> Answer:
        """A reading of the share of True, in a batch of `parts` if that is given."""
        kind = act.pop("kind", "read")
        count = Sums.yes_no(int(bits.sum()), self.n)
        return self.judge(self.round(count, RoundAct(kind, **act), Fraction(1, 2))[2], truth)

    def last(self, bits: np.ndarray) -> Answer:
        """The last act: as exact as can be, with all that is left of δ."""
        return self.read(bits, kind="close", spend=Fraction(1))

    def ask(self, bits: np.ndarray, forecast: Fraction, *, truth: float = 0.5):
        """An ask with a forecast of the adversary's choice; its interval is a claim too."""
        proposal, outcome, answer = self.round(Sums.yes_no(int(bits.sum()), self.n), ASK, forecast)
        self.judge(answer, truth)
        return proposal, outcome

    def best_of(self, candidates: np.ndarray) -> int:
        """Which column has the most True; `candidates` has a column for each."""
        count = candidates.shape[1]
        best = int(np.argmax(candidates.sum(axis=0)))
        weights = [str(Fraction(1, count))] * count
        begun = ActStart("best_of", ({},) * count, {"weights": weights})
        self.held.pay(price_act(self.held.budget, begun, best)[1])
        return best

    def is_better(self, one: np.ndarray, other: np.ndarray) -> bool:
        yes = bool(one.sum() > other.sum())
        self.held.pay(price_act(self.held.budget, ActStart("is_better", (), {"by": 0.0}), yes)[1])
        return yes

    def verdict_price(self, spend: Fraction | None) -> float:
        return self.held.budget.claim_price(spend, parts=2, sides=1)

    def compare(self, first: np.ndarray, second: np.ndarray, truth: str, spend: Fraction | None = None) -> str:
        """A verdict by the rows on which they differ."""
        nats = self.verdict_price(spend)
        n10, n01 = int((first & ~second).sum()), int((second & ~first).sum())
        verdict = "neither"
        if mcnemar_refutes(n10, n01, nats):
            verdict = "first"
        elif mcnemar_refutes(n01, n10, nats):
            verdict = "second"
        options = {"method": "mcnemar", "parts": 2, "sides": 1, "spend": None if spend is None else str(spend)}
        self.held.pay(price_act(self.held.budget, ActStart("compare", (), options), verdict)[1])
        self.missed |= verdict not in ("neither", truth)
        return verdict

    def certify(self, proposal, outcome, truth: float = 0.5) -> tuple[float, float]:
        """An earlier answer at the price of now."""
        price, budget = price_act(self.held.budget, ActStart("certify", (), {"spend": None}), None)
        least, most = self.held.counts(proposal, outcome)
        ends = self.held.count_interval(least, most, price)
        self.held.pay(budget)
        self.missed |= not ends[0] <= truth <= ends[1]
        return ends

    # programs ------------------------------------------------------------------------------------------------------

    def play(self, program: Callable[[Any], Generator[Any, Any, None]]) -> None:
        """An analyst of `everhold.games`, on labels that are fair coins: every share it asks about is one half."""
        rows = {"i": np.arange(self.n), "y": np.where(self.coins(1)[:, 0], 1, -1)}
        view = SimpleNamespace(
            world=SimpleNamespace(atoms=self.n),
            rng=self.rng,
            rows=self.n,
            try_out=lambda _: SimpleNamespace(tolerance=self.tolerance),
        )
        running, asked, result = program(view), {}, None
        with suppress(StopIteration):
            while True:
                move = as_move(running.send(result))
                bits = [np.asarray(question(rows)) for question in move.questions]
                result = self._act(move, bits, asked)

    def _act(self, move: Move, bits: list[np.ndarray], asked: dict[int, Any]) -> Any:
        act = move.act
        if act is None:
            forecast = HALF if move.asked[0].expect is None else Fraction(move.asked[0].expect)
            proposal, outcome, answer = self.round(Sums.yes_no(int(bits[0].sum()), self.n), ASK, forecast)
            asked[answer.round] = proposal, outcome
            return self.judge(answer, 0.5)
        if isinstance(act, Read):
            return self.read(bits[0], spend=checked_spend(act.spend))
        if isinstance(act, ReadMany):
            spend = checked_spend(act.spend)
            return [self.read(one, parts=len(bits), part=part, spend=spend) for part, one in enumerate(bits, 1)]
        if isinstance(act, BestOf):
            return SimpleNamespace(index=self.best_of(np.stack(bits, axis=1)))
        if isinstance(act, IsBetter):
            return self.is_better(*bits)
        if isinstance(act, Certify):
            return self.certify(*asked[act.round])
        assert isinstance(act, Close)
        return [self.last(one) for one in bits]

    @property
    def tolerance(self) -> float:
        """Of an ask that is foreseen as one half, on the scale of shares."""
        proposal = self.held.propose(SketchValue("share", 0, 1, DRAWS), ASK)
        return float(Fraction(proposal.tolerance) / 2)

    # rows ----------------------------------------------------------------------------------------------------------

    def coins(self, columns: int) -> np.ndarray:
        """Fresh fair coins, one row each."""
        return self.rng.random((self.n, columns)) < 0.5

    def vote(self, coins: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Whether a row's coins agree with the weights on the whole; ties by a fair coin: a share of exactly one half."""
        score = (2.0 * coins - 1.0) @ np.asarray(weights, float)
        return np.where(score == 0.0, self.coins(1)[:, 0], score > 0.0).astype(bool)


@contextmanager
def uncharged():
    """The same mechanism with P = 1 always: what is disclosed costs nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Code, "nats", property(lambda self: 0.0))
        yield


def number_sums(values: np.ndarray) -> Sums:
    """Values on the [-1, 1] scale."""
    return Sums.of(np.rint(values * VALUE_ONE))
