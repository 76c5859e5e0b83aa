"""Privacy accounting: what every private act costs, at one fixed Rényi order, always rounded up.

A private study promises (ε, δ)-differential privacy for everything that it ever discloses, against an analyst who asks any
number of adaptive questions. Neighbouring tables differ in one row (or one unit), and have the same number of rows.

* A *test* is quiet with probability `exp(-e^x)`, `x = (distance beyond the tolerance in rows) / b`. Quiet tests are free.
* A *surprise* ends a run of quiet tests, and releases the total with discrete Gaussian noise of deviation σ rows.
* A *reading* is such a release without a test. A *choice* is made by the exponential mechanism with scale σ.
* A *bit* is a test without a release: "no" is quiet and free, "yes" costs what a surprise costs without its release.

The order α, b and σ are fixed when the study is made; then costs add up (a Rényi filter), whatever the analyst does.
Theorems and proofs: `docs/theory/privacy.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, floor, inf, sqrt

from everhold.bounds.elementary import exp, ln
from everhold.errors import SettingError, require_number, require_whole

__all__ = [
    "COST_ONE",
    "ROW_PARTS",
    "Privacy",
    "PrivacyAccount",
    "PrivacyTerms",
    "chance_nats",
    "converted_epsilon",
    "hazard_divergence",
    "release_divergence",
]

COST_ONE = 2**40
"""Costs are whole multiples of 1/COST_ONE, rounded up, so that their sums are exact."""

ROW_PARTS = 64
"""Scales of noise are whole multiples of 1/ROW_PARTS of a row."""

SAMPLER_DELTA = 2.0**-100
"""The part of δ kept for the samplers: their tables end at 14 deviations (`docs/theory/privacy.md`, "Samplers")."""

_ORDERS = 4  # α is a multiple of 1/4
_ALLOWANCE = 1e-12  # more than floating point loses in one divergence
_POLE = 2.0**-10  # nearer to the pole of the divergence nothing is computed
_WIDEST = 2**15 * ROW_PARTS  # the largest noise that a sampler has a table for
_QUIET_PART, _RELEASE_PART = 0.05, 0.05  # of the intervals' failure probability: for hidden gaps and for released noise


def hazard_divergence(order: float, scale: float) -> float:
    """Rényi divergence of order α of one run of tests that ends in a surprise, for `b = scale` rows; inf at the pole.

    `max over ρ = e^(±1/b) of -ln ρ - ln(α + (1-α)ρ)/(α-1)`: the divergence of two exponential clocks whose rates differ by
    the factor ρ. Not rounded.

    >>> round(hazard_divergence(27.0, 40.0), 4), hazard_divergence(27.0, 26.0)
    (0.0163, inf)
    """
    worst = 0.0
    for ln_rho in (1.0 / scale, -1.0 / scale):
        if ln_rho > 700.0:
            return inf
        s = order + (1.0 - order) * exp(ln_rho)
        if s < _POLE:
            return inf
        worst = max(worst, -ln_rho - ln(s) / (order - 1.0))
    return worst


def release_divergence(order: float, deviation: float) -> float:
    """Rényi divergence of order α of one noisy release, or of one choice: `α/(2σ²)`, σ in rows. Not rounded.

    >>> round(release_divergence(27.0, 80.0), 4)
    0.0021
    """
    return order / (2.0 * deviation * deviation)


def converted_epsilon(divergence: float, order: float, delta: float) -> float:
    """ε at δ from a Rényi divergence of order α, at least 0.

    Canonne, Kamath and Steinke 2020, arXiv:2004.00010, Proposition 12.

    >>> round(converted_epsilon(0.3675, 27.0, 1e-9), 3)
    1.0
    """
    return max(divergence + ln(1.0 - 1.0 / order) - (ln(delta) + ln(order)) / (order - 1.0), 0.0)


def chance_nats(ask: int, surprises_left: int) -> float:
    """-ln of the probability of a surprise by chance that an ask may have: `ln((t + 10) / (0.02 · left))`.

    The tolerance of a private ask follows from it. So chance uses up 2 % of the surprises that are left each time that the
    number of asks grows e-fold, and the tolerance widens as they become few. A choice: validity does not depend on it.

    >>> [round(chance_nats(t, left), 1) for t, left in ((1, 20), (1000, 20), (1000, 1), (1_000_000, 20))]
    [3.3, 7.8, 10.8, 14.7]
    """
    return ln((ask + 10.0) / (0.02 * max(surprises_left, 1)))


@dataclass(frozen=True, slots=True)
class Privacy:
    """The privacy that a study promises for each row (each unit, where rows belong to units).

    Whatever is ever asked, by anybody: no set of outcomes is more than e^ε times as probable, plus δ, with somebody's row
    than with any other row in its place.

    Args:
        epsilon: ε, from 0.05 to 10. Smaller is more private, and makes intervals wider.
        delta: δ, from 1e-15 to 1e-4, and less than one over the number of rows: the probability that nothing is promised.
        surprises: how many surprises the budget pays for, from 1 to 1,000. More make the noise larger. Readings and
            choices are paid from the same budget.

    >>> terms = Privacy(epsilon=1.0, delta=1e-9, surprises=20).terms
    >>> round(terms.test_scale, 1), round(terms.deviation, 1)
    (40.0, 80.0)
    """

    epsilon: float = 1.0
    delta: float = 1e-9
    surprises: int = 20

    def __post_init__(self) -> None:
        require_number(self.epsilon, "epsilon")
        require_number(self.delta, "delta")
        require_whole(self.surprises, "surprises")
        for name, kind in (("epsilon", float), ("delta", float), ("surprises", int)):
            object.__setattr__(self, name, kind(getattr(self, name)))
        if not 0.05 <= self.epsilon <= 10.0:
            raise SettingError(f"epsilon is {self.epsilon!r}. Expected a number from 0.05 to 10; 1 is usual.")
        if not 1e-15 <= self.delta <= 1e-4:
            raise SettingError(f"delta is {self.delta!r}. Expected a number from 1e-15 to 1e-4, far below 1/rows.")
        if not 1 <= self.surprises <= 1_000:
            raise SettingError(f"surprises is {self.surprises!r}. Expected a whole number from 1 to 1,000.")

    @property
    def terms(self) -> PrivacyTerms:
        """Order and noise for this promise: the least noise for which so many surprises fit the budget."""
        return _calibrated(self)


@dataclass(frozen=True, slots=True)
class PrivacyTerms:
    """A promise with the order and the noise that keep it: what a study records.

    Attributes:
        promise: ε, δ and the number of surprises.
        order_quarters: 4α.
        test_parts: b, in 1/64 of a row.
        release_parts: σ, in 1/64 of a row.
    """

    promise: Privacy
    order_quarters: int
    test_parts: int
    release_parts: int

    def __post_init__(self) -> None:
        fits = self.order_quarters > _ORDERS and self.test_parts > 0 and 0 < self.release_parts <= _WIDEST
        if not fits or self.promise.surprises * self.surprise_cost > self.allowance:
            raise SettingError(f"this noise does not keep the promised privacy: {self}.")

    @property
    def order(self) -> float:
        """α."""
        return self.order_quarters / _ORDERS

    @property
    def test_scale(self) -> float:
        """b, in rows."""
        return self.test_parts / ROW_PARTS

    @property
    def deviation(self) -> float:
        """σ, in rows."""
        return self.release_parts / ROW_PARTS

    @property
    def allowance(self) -> int:
        """All that may be spent, in 1/COST_ONE, rounded down: the divergence that converts to ε at δ."""
        delta = self.promise.delta - SAMPLER_DELTA
        extra = -ln(1.0 - 1.0 / self.order) + (ln(delta) + ln(self.order)) / (self.order - 1.0)
        return floor((self.promise.epsilon + extra - _ALLOWANCE) * COST_ONE)

    @property
    def surprise_cost(self) -> int:
        """Of a surprise with its release, in 1/COST_ONE, rounded up."""
        divergence = hazard_divergence(self.order, self.test_scale)
        if divergence == inf:
            return 2**62
        return _up(divergence + release_divergence(self.order, self.deviation))

    @property
    def bit_cost(self) -> int:
        """Of a test that says yes and releases nothing, in 1/COST_ONE, rounded up."""
        divergence = hazard_divergence(self.order, self.test_scale)
        return 2**62 if divergence == inf else _up(divergence)

    @property
    def release_cost(self) -> int:
        """Of a reading of one number, or of a choice, in 1/COST_ONE, rounded up."""
        return _up(release_divergence(self.order, self.deviation))

    @property
    def most_surprises(self) -> int:
        """How many surprises the allowance pays for: as many as promised, or more."""
        return self.allowance // self.surprise_cost

    def hidden_parts(self, failure: float) -> int:
        """How far beyond the tolerance a quiet answer may be, in 1/64 of a row: `b ln ln(K/δ_h)`, once for all rounds.

        Args:
            failure: δ of all intervals of the session, of which this takes its part.
        """
        h = ln(self.most_surprises / (_QUIET_PART * failure))
        return ceil(self.test_parts * max(ln(h), 0.0) * (1.0 + 1e-12)) + 1

    def shaken_parts(self, failure: float, release: int) -> int:
        """How far noise may have moved release number j = 1, 2, …, in 1/64 of a row: `σ sqrt(2 ln(2 j(j+1)/δ_y))`."""
        tail = 2.0 * ln(2.0 * release * (release + 1.0) / (_RELEASE_PART * failure))
        return ceil(self.release_parts * sqrt(tail) * (1.0 + 1e-12)) + 1

    @staticmethod
    def sampling_part(failure: float) -> float:
        """What is left of δ for sampling error."""
        return failure * (1.0 - _QUIET_PART - _RELEASE_PART)

    def to_dict(self) -> dict[str, float | int]:
        """What a record keeps."""
        return {
            "epsilon": self.promise.epsilon,
            "delta": self.promise.delta,
            "surprises": self.promise.surprises,
            "order_quarters": self.order_quarters,
            "test_parts": self.test_parts,
            "release_parts": self.release_parts,
        }

    @classmethod
    def from_dict(cls, kept: dict[str, float | int]) -> PrivacyTerms:
        """From what a record kept; noise that does not keep the promise is refused.

        >>> terms = Privacy(epsilon=2.0).terms
        >>> PrivacyTerms.from_dict(terms.to_dict()) == terms
        True
        """
        names = {"epsilon", "delta", "surprises", "order_quarters", "test_parts", "release_parts"}
        if not isinstance(kept, dict) or set(kept) != names:
            raise ValueError("privacy with unknown or missing entries")
        for name in ("order_quarters", "test_parts", "release_parts"):
            require_whole(kept[name], name)
        promise = Privacy(kept["epsilon"], kept["delta"], int(kept["surprises"]))
        return cls(promise, int(kept["order_quarters"]), int(kept["test_parts"]), int(kept["release_parts"]))


@dataclass(frozen=True, slots=True)
class PrivacyAccount:
    """What of a promise has been spent: a frozen value, a function of the transcript.

    >>> account = PrivacyAccount(Privacy(surprises=3).terms)
    >>> account = account.surprised().surprised().surprised()
    >>> account.affords(account.terms.surprise_cost), account.surprises_left
    (False, 0)
    """

    terms: PrivacyTerms
    surprises: int = 0
    """Surprises, and rounds that were lost while they may have been one."""
    releases: int = 0
    """Readings, choices and the parts of verdicts, made or interrupted."""
    bits: int = 0
    """Bits that were yes, and bits that were interrupted."""

    @property
    def spent(self) -> int:
        """In 1/COST_ONE."""
        terms = self.terms
        tested = self.surprises * terms.surprise_cost + self.bits * terms.bit_cost
        return tested + self.releases * terms.release_cost

    @property
    def left(self) -> int:
        """In 1/COST_ONE."""
        return self.terms.allowance - self.spent

    @property
    def share_left(self) -> float:
        """Of the whole budget."""
        return max(self.left, 0) / self.terms.allowance

    @property
    def left_text(self) -> str:
        """What is left of the whole budget, in words."""
        return f"{100.0 * self.share_left:.0f} % of it is left"

    def percent(self, cost: int) -> str:
        """What an act that costs so much takes of the whole budget."""
        return f"{100.0 * cost / self.terms.allowance:.1f} %"

    @property
    def surprises_left(self) -> int:
        """How many more surprises can be paid for."""
        return max(self.left, 0) // self.terms.surprise_cost

    @property
    def readings_left(self) -> int:
        """How many more readings can be paid for instead."""
        return max(self.left, 0) // self.terms.release_cost

    @property
    def text(self) -> str:
        """What is promised, spent and left, in words.

        >>> print(PrivacyAccount(Privacy().terms, surprises=2).text)
        privacy ε = 1, δ = 1e-09 for everything ever disclosed: 2 surprises and 0 readings and choices charged, 90 % left
        (18 more surprises, or 155 readings)
        """
        promise = self.terms.promise
        surprises = f"{self.surprises:,} surprise{'' if self.surprises == 1 else 's'}"
        if self.bits:
            surprises += f", {self.bits:,} bit{'' if self.bits == 1 else 's'}"
        more = f"{self.surprises_left:,} more surprise{'' if self.surprises_left == 1 else 's'}"
        return (
            f"privacy ε = {promise.epsilon:g}, δ = {promise.delta:g} for everything ever disclosed: {surprises} and "
            f"{self.releases:,} readings and choices charged, {100.0 * self.share_left:.0f} % left ({more}, or "
            f"{self.readings_left:,} readings)"
        )

    @property
    def charges(self) -> int:
        """How many times something was charged."""
        return self.surprises + self.releases + self.bits

    def affords(self, cost: int) -> bool:
        """Whether an act that may cost so much is allowed. To be asked before a row is read."""
        return cost <= self.left

    def surprised(self) -> PrivacyAccount:
        """After one more surprise, or a round that was lost."""
        return replace(self, surprises=self.surprises + 1)

    def released(self, times: int = 1) -> PrivacyAccount:
        """After readings, choices or the parts of a verdict."""
        return replace(self, releases=self.releases + times)

    def said_yes(self) -> PrivacyAccount:
        """After a bit that was yes, or was interrupted. A no is free."""
        return replace(self, bits=self.bits + 1)


def _up(divergence: float) -> int:
    return ceil((divergence + _ALLOWANCE) * COST_ONE)


def _fitting(privacy: Privacy, order_quarters: int) -> int | None:
    """The least b, in 1/64 of a row, for which all surprises fit at this order; None if none does."""

    def fits(test_parts: int) -> bool:
        try:
            PrivacyTerms(privacy, order_quarters, test_parts, 2 * test_parts)
        except SettingError:
            return False
        return True

    low, high = 0, _WIDEST // 2
    if not fits(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


@lru_cache(maxsize=64)
def _calibrated(privacy: Privacy) -> PrivacyTerms:
    """The order with the least noise, σ = 2b: a coarse search over orders, then its neighbourhood."""
    best: tuple[int, int] | None = None
    coarse = sorted({ceil(_ORDERS * (1.0 + 1.25**i)) for i in range(-6, 40)})
    for order in coarse:
        if (found := _fitting(privacy, order)) is not None and (best is None or found < best[0]):
            best = found, order
    if best is None:
        raise SettingError(
            f"no noise of at most {_WIDEST // ROW_PARTS:,} rows keeps this promise: {privacy}. Expected a larger epsilon or "
            "fewer surprises."
        )
    place = coarse.index(best[1])
    near = coarse[max(place - 1, 0)], coarse[min(place + 1, len(coarse) - 1)]
    step = max((near[1] - near[0]) // 64, 1)
    for order in range(near[0], near[1] + 1, step):
        if (found := _fitting(privacy, order)) is not None and found < best[0]:
            best = found, order
    return PrivacyTerms(privacy, best[1], best[0], 2 * best[0])
