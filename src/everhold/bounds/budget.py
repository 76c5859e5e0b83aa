"""The budget of a session: what has been disclosed and what of δ has been spent, and the prices that follow from both.

A frozen value with one method for each thing that can happen. `docs/theory/validity.md` has the theorem behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from everhold.bounds.code import (
    ANSWERED_NATS,
    NOTHING_NATS,
    CheckOutcome,
    Code,
    Spending,
    automatic_price,
    choice_nats,
    claim_price,
    succession_nats,
    verdict_nats,
)
from everhold.bounds.privacy import PrivacyAccount, PrivacyTerms

__all__ = ["Budget"]

_MOST_NATS = 2.0**40
"""The price once all of δ is spent: intervals are whole ranges."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a session may still claim, and at which price.

    >>> budget = Budget(0.05)
    >>> round(budget.claim_price(), 2), round(budget.disclosed(2.5).claimed().claim_price(), 2)
    (4.49, 8.09)
    """

    failure_probability: float
    code: Code = field(default_factory=Code)
    spending: Spending = field(default_factory=Spending)
    sealed: Code = field(default_factory=Code)
    """What was disclosed of sealed rows, which no ask or reading uses. They are independent of all others."""
    privacy: PrivacyAccount | None = None
    """What of a private study's promise has been spent; None where none was made."""

    @classmethod
    def first(cls, failure_probability: float, horizon: int | None, terms: PrivacyTerms | None) -> Budget:
        """The budget of a session that has not begun. With privacy, a part of δ is kept for what noise hides."""
        if terms is None:
            return cls(failure_probability, Code(horizon))
        return cls(terms.sampling_part(failure_probability), Code(horizon), privacy=PrivacyAccount(terms))

    @property
    def nats(self) -> float:
        """ln 1/P of everything disclosed so far."""
        return self.code.nats

    @property
    def ask_price(self) -> float:
        """C of the interval that is printed with the next ask."""
        return automatic_price(self.failure_probability, self.code)

    def claim_price(self, spend: Fraction | None = None, *, parts: int = 1, sides: Literal[1, 2] = 2) -> float:
        """C of the next claim's intervals. Once all of δ is spent it is so large that they are whole ranges."""
        weight = self.spending.next(spend)
        price = claim_price(self.failure_probability, self.code, weight, parts=parts, sides=sides)
        return min(price, _MOST_NATS)

    def quiet(self, asks: int = 1) -> Budget:
        """After quiet asks."""
        return Budget(self.failure_probability, self.code.quiet(asks), self.spending, self.sealed, self.privacy)

    def surprised(self, nats: float) -> Budget:
        """After an ask that was a surprise, whose content costs so much."""
        privacy = None if self.privacy is None else self.privacy.surprised()
        return replace(self, code=self.code.surprised(nats), privacy=privacy)

    def voided(self) -> Budget:
        """After an ask that was lost when it may have been a surprise."""
        return self.surprised(NOTHING_NATS)

    def read(self, nats: float) -> Budget:
        """After a reading whose outcome costs so much."""
        return self.disclosed(nats).released()

    def released(self, times: int = 1) -> Budget:
        """After so many numbers or choices were released with noise, where privacy is promised."""
        return self if self.privacy is None else replace(self, privacy=self.privacy.released(times))

    def said_yes(self) -> Budget:
        """After a noisy test said yes, where privacy is promised."""
        return self if self.privacy is None else replace(self, privacy=self.privacy.said_yes())

    def disclosed(self, nats: float) -> Budget:
        """After any other outcome that costs so much."""
        return replace(self, code=self.code.disclosed(nats))

    def claimed(self, spend: Fraction | None = None) -> Budget:
        """After a claim, whether or not anybody looks at it."""
        return replace(self, spending=self.spending.spend(spend))

    def interrupted(self, releases: int = 1) -> Budget:
        """After an act that ended without a value, and may have released so many."""
        return self.disclosed(NOTHING_NATS).released(releases)

    def interrupted_bit(self) -> Budget:
        """After a bit that nobody saw. It may have been a yes."""
        return self.disclosed(NOTHING_NATS).said_yes()

    def chosen(self, weight: Fraction) -> Budget:
        """After a selection of the candidate that was foreseen with this weight."""
        return self.disclosed(ANSWERED_NATS + choice_nats(weight)).released()

    def succeeded(self, earlier_choices: int, weight: Fraction | None) -> Budget:
        """After a choice that followed others: the candidate with this weight replaces the champion, or none (None)."""
        return self.disclosed(ANSWERED_NATS + succession_nats(earlier_choices, weight))

    def answered(self, yes: bool) -> Budget:
        """After one bit."""
        after = replace(self, code=self.code.disclosed(ANSWERED_NATS).bit(yes))
        return after.said_yes() if yes else after

    def ranking_price(self, spend: Fraction | None, *, sealed: bool) -> float:
        """C of all one-sided verdicts of a ranking together; of sealed rows only what was disclosed of them counts."""
        code = self.sealed if sealed else self.code
        price = claim_price(self.failure_probability, code, self.spending.next(spend), sides=1)
        return min(price, _MOST_NATS)

    def ranked(self, nats: float, spend: Fraction | None, *, sealed: bool) -> Budget:
        """After a ranking whose outcome costs so much. Its part of δ is spent, whatever it shows."""
        if sealed:
            return replace(self, sealed=self.sealed.disclosed(nats)).claimed(spend)
        return self.disclosed(nats).claimed(spend)

    def promotion_price(self, candidates: int = 1) -> float:
        """C of the claim that a gate's next promotion makes: at the node after it, with that promotion in P."""
        after = self.code.checked("promoted", candidates)
        return min(claim_price(self.failure_probability, after, self.spending.next(), sides=1), _MOST_NATS)

    def checked(self, outcome: CheckOutcome, candidates: int = 1, *, certified: bool = True) -> Budget:
        """After a gate's check of so many candidates. A certified promotion is a claim; no other outcome is one.

        With privacy a candidate that is kept out costs nothing; an interrupted check may have been a promotion.
        """
        after = replace(self, code=self.code.checked(outcome, candidates))
        after = after if outcome == "kept" else after.said_yes()
        return after.claimed() if certified and outcome == "promoted" else after

    def judged(self, verdict: Literal["first", "second", "neither"], spend: Fraction | None, parts: int = 1) -> Budget:
        """After a verdict of so many parts. Its part of δ is spent, given or not; with privacy, each part was released."""
        return self.disclosed(ANSWERED_NATS + verdict_nats(verdict)).claimed(spend).released(parts)
