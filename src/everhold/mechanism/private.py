"""Everhold's mechanism for private studies: the same sketch and prices, noisy tests and releases, a privacy account.

Guarantee: everything that it ever discloses is (ε, δ)-differentially private, for any number of adaptive questions, and
all intervals are simultaneously valid with the session's confidence (`docs/theory/privacy.md`). What it cannot pay for
it refuses before a row is read, by the transcript alone.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, sqrt
from typing import TYPE_CHECKING, cast

from everhold.bounds.privacy import ROW_PARTS, PrivacyAccount, chance_nats
from everhold.errors import PrivacyError, PrivacyUsedUp
from everhold.mechanism.everhold import REPLAYED, Everhold, EverholdProposal
from everhold.mechanism.measures.private import PrivateCells, PrivateInputs, PrivateTolerance
from everhold.mechanism.noise import ROW, Noise, SecretNoise, lattice_of
from everhold.mechanism.tolerance import TOLERANCE_ONE, Anytime, Tolerance
from everhold.queries.round_act import ASK
from everhold.results import counted

if TYPE_CHECKING:
    from everhold.bounds.privacy import PrivacyTerms
    from everhold.mechanism.estimator import Estimator
    from everhold.mechanism.measures.measure import MeasureInputs
    from everhold.queries.grid import GridValues
    from everhold.queries.protocol import SketchValue
    from everhold.queries.query import Query
    from everhold.queries.round_act import RoundAct

__all__ = ["PrivateEverhold", "require_affordable"]

_SHARE = 0.3
"""The tolerance as a share of the interval's half-width is half of a plain study's: `benchmarks/private.py` measures it."""
_EVEN = Fraction(-366513, 1_000_000)
"""About ln ln 2: a test at this x is quiet as often as not."""


def require_affordable(account: PrivacyAccount, cost: int, what: str) -> None:
    """Refuse what the privacy budget cannot pay for. A function of the transcript; no row is read.

    Raises:
        PrivacyUsedUp: what is left is less than the act may cost.
    """
    if account.affords(cost):
        return
    promise = account.terms.promise
    raise PrivacyUsedUp(
        f"the privacy budget cannot pay for {what}: of ε = {promise.epsilon:g} (δ = {promise.delta:g}) "
        f"{account.share_left:.1%} is left, after {account.surprises:,} of {counted(promise.surprises, 'surprise')}, "
        f"{account.bits:,} bits and {account.releases:,} readings and choices. Nothing was read or charged, and answers so "
        "far stay valid. Other rows have a budget of their own.",
        asked=promise.epsilon,
        left=account.left / account.terms.allowance,
        needed=cost / account.terms.allowance,
        more_rows=None,
    )


class PrivateEverhold(Everhold):
    """Everhold's mechanism with differential privacy.

    Args:
        rows, estimator, failure_probability, known_rows, horizon, units: as for `Everhold`.
        terms: the promise, with its order and noise.
        policy: the tolerance without the test's noise; by default one that is narrower while many surprises are left.
        noise: where noise is drawn from; the operating system's coins. Only tests and games pass another one.
    """

    def __init__(
        self,
        *,
        rows: int,
        estimator: Estimator,
        terms: PrivacyTerms,
        policy: Anytime | None = None,
        failure_probability: float = 0.05,
        known_rows: int = 0,
        horizon: int | None = None,
        units: bool = False,
        noise: Noise | None = None,
    ) -> None:
        super().__init__(
            rows=rows,
            estimator=estimator,
            policy=policy or Anytime(share=_SHARE),
            failure_probability=terms.sampling_part(failure_probability),
            known_rows=known_rows,
            horizon=horizon,
            units=units,
        )
        self._terms = terms
        self._plain = policy or Anytime(share=_SHARE)
        self._failure = failure_probability
        self._source = noise or SecretNoise(terms)
        self._composites = False  # every statistic is made of linear questions, whose sensitivity is one row
        self._state = replace(self._state, budget=replace(self._state.budget, privacy=PrivacyAccount(terms)))

    @property
    def account(self) -> PrivacyAccount:
        """What of the promise has been spent."""
        account = self._state.budget.privacy
        if account is None:
            raise PrivacyError("this mechanism has lost its privacy account. Open the study again.")
        return account

    @property
    def noise(self) -> Noise:
        """Where noise is drawn from."""
        return self._source

    def noisy_rows(self, rows: int) -> Fraction:
        """A count of rows with released noise."""
        return Fraction(self.noisy_total(rows * ROW), ROW)

    def noisy_total(self, total: int) -> int:
        """A sum in steps, which one row moves by at most `ROW`, rounded down to the lattice, with released noise."""
        lattice = lattice_of(self._terms.release_parts)
        return (total // lattice + self._source.step()) * lattice

    def says_yes(self, beyond: Fraction) -> bool:
        """A noisy test whether a difference of two sums exceeds its margin; `beyond`: by how much it does, in rows.

        A row moves a difference by at most two rows, so the scale is 2b. At the margin both outcomes are equally probable.
        """
        return not self._source.quiet(beyond * ROW_PARTS / (2 * self._terms.test_parts) + _EVEN)

    def propose_part(self, query: Query, act: RoundAct, part: int) -> EverholdProposal:
        """A reading that is one part of a verdict: nothing of it is returned, and noise has a tail bound of its own."""
        proposal = self.propose(query, act)
        cells = cast(PrivateCells, proposal.measure)
        shaken = self._terms.shaken_parts(self._failure, self.account.charges + part)
        return replace(proposal, measure=replace(cells, private=cells.private._replace(shaken=shaken)))

    def propose(self, query: Query | SketchValue, act: RoundAct = ASK) -> EverholdProposal:
        """The forecast, and everything else that is fixed before the private rows are read; or a refusal."""
        if act.kind == "close":
            raise PrivacyError(
                "a private study has no last act: it would read the private rows exactly. Expected a reading: "
                "holdout.read(...). Nothing was charged."
            )
        self.require_open()
        terms = self._terms
        if act.kind == "ask":
            require_affordable(self.account, terms.surprise_cost, "another question, which may be a surprise")
        else:
            left = act.parts - act.part + 1
            require_affordable(self.account, left * terms.release_cost, f"{left:,} reading{'s' if left > 1 else ''}")
        return super().propose(query, act)

    def _linear_proposal(
        self, query: Query | None, forecast: SketchValue, values: GridValues | None, inputs: MeasureInputs, act: RoundAct
    ) -> EverholdProposal:
        asked = query if query is not None else REPLAYED
        private = PrivateInputs(
            self._terms,
            self._source,
            self._terms.hidden_parts(self._failure),
            self._terms.shaken_parts(self._failure, self.account.charges + 1),
        )
        if act.kind != "ask":
            cells = PrivateCells(asked, forecast, inputs, private)
            return self._proposal(query, forecast, cells, inputs, act, values=values)
        limits = self._noisy_tolerance(forecast, inputs)
        measure = PrivateTolerance(asked, forecast, limits, inputs, private)
        return self._proposal(query, forecast, measure, inputs, act, values=values, tolerance=limits.width)

    def _tolerance_at(self, chance: float) -> Anytime:
        """The tolerance without the test's noise, for so small a probability of a surprise by chance."""
        plain = self._plain
        return plain if plain.deviations is not None else replace(plain, deviations=min(max(sqrt(2.0 * chance), 1.0), 4.0))

    def _noisy_tolerance(self, forecast: SketchValue, inputs: MeasureInputs) -> Tolerance:
        """As wide as it must be so that chance causes few surprises (`chance_nats`): by sampling, and by the test's noise.

        A cell is at least half a deviation of the noise wide: finer ones would show noise.
        """
        policy_inputs = self._tolerance_inputs(forecast, inputs)
        chance = chance_nats(policy_inputs.ask, self.account.surprises_left)
        plain = self._tolerance_at(chance).tolerance(policy_inputs)
        row = 2.0 * TOLERANCE_ONE / self._n
        noise_room = ceil(self._terms.test_parts / ROW_PARTS * max(chance, 0.0) * row)
        least = ceil(0.5 * self._terms.release_parts / ROW_PARTS * row)
        return Tolerance(min(plain.tau + noise_room, 2 * TOLERANCE_ONE), min(max(plain.cell, least), 2 * TOLERANCE_ONE))
