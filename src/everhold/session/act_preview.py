"""What an act would show and cost, before it is done: from the budget and the public side, without a private row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from everhold.acts import BestOf, Certify, Close, CompareTwo, IsBetter, Read, ReadMany
from everhold.queries.disclosed import width_factor
from everhold.queries.round_act import RoundAct
from everhold.results import PlainResult
from everhold.session.act_questions import checked_spend
from everhold.session.session_acts import candidate_weights

if TYPE_CHECKING:
    from everhold.acts import AnyAct
    from everhold.bounds.budget import Budget
    from everhold.bounds.privacy import PrivacyAccount
    from everhold.statistics.finding import Result

__all__ = ["ActPreview", "charge_text", "how_read", "prices_after"]


@dataclass(frozen=True, slots=True)
class ActPreview(PlainResult):
    """What an act would show and cost.

    Attributes:
        results: what would be read if the private rows agreed with the forecasts; empty where no value is read.
        now: the price in nats of the next reading's interval.
        after: the same after the act, for each outcome that it may have; empty where it is not known, or after the last.
        charge: what a private study's budget pays for it, in words; empty where nothing is promised.
    """

    results: tuple[Result, ...]
    now: float
    after: tuple[float, ...]
    charge: str = ""

    @property
    def cost_text(self) -> str:
        """What it costs later intervals, in words; empty where that is not known.

        >>> ActPreview((), 3.689, (11.4,)).cost_text
        'readings of shares from here on: 2.2 times a plain 95 % interval, instead of 1.0 times'
        """
        if not self.after:
            return ""
        low, high = (f"{width_factor(end(self.after)):.1f}" for end in (min, max))
        then = high if low == high else f"{low} to {high}"
        now = f"{width_factor(self.now):.1f}"
        return f"readings of shares from here on: {then} times a plain 95 % interval, instead of {now} times"


def how_read(act: AnyAct, parts: int) -> RoundAct | None:
    """How an act reads its questions, in so many parts; None where it discloses no values.

    >>> how_read(ReadMany(["smoker", "age > 40"]), 2)
    RoundAct(kind='read', parts=2, part=1, spend=None, expect=None)
    """
    if isinstance(act, Read):
        return RoundAct("read", parts=parts, spend=checked_spend(act.spend), expect=act.expect)
    if isinstance(act, ReadMany):
        return RoundAct("read", parts=parts, spend=checked_spend(act.spend))
    return RoundAct("close", parts=parts, spend=Fraction(1)) if isinstance(act, Close) and parts else None


def charge_text(act: AnyAct, account: PrivacyAccount | None, parts: int) -> str:
    """What a private study's budget pays for an act, in words; empty where nothing is promised.

    `parts`: how many are not in the record already.

    >>> from everhold.bounds.privacy import Privacy, PrivacyAccount
    >>> charge_text(IsBetter("smoker", "age > 80"), PrivacyAccount(Privacy().terms), 2)
    'a yes costs 4.4 % of the privacy budget, a no nothing; 100 % of it is left'
    >>> charge_text(CompareTwo("smoker", "age > 80"), PrivacyAccount(Privacy().terms), 2)
    'it costs 1.2 % of the privacy budget; 100 % of it is left'
    """
    if account is None or isinstance(act, Certify | Close):
        return ""
    terms, left = account.terms, account.left_text
    if isinstance(act, IsBetter):
        return f"a yes costs {account.percent(terms.bit_cost)} of the privacy budget, a no nothing; {left}"
    releases = 1 if isinstance(act, BestOf) else parts
    if not releases:
        return f"it is in the record, and costs nothing; {left}"
    return f"it costs {account.percent(releases * terms.release_cost)} of the privacy budget; {left}"


def prices_after(act: AnyAct, budget: Budget, read_nats: Sequence[float] = ()) -> tuple[float, ...]:
    """The price of the next reading after an act, for each of its outcomes; none where it is not known.

    `read_nats`: what each part of a reading would disclose, if it found the forecast.

    >>> from everhold.bounds.budget import Budget
    >>> [round(price, 1) for price in prices_after(CompareTwo("smoker", "age > 80"), Budget(0.05))]
    [7.0, 6.3]
    """
    after: list[Budget] = []
    if isinstance(act, Read | ReadMany):
        after = [budget.disclosed(sum(read_nats)).claimed(checked_spend(act.spend))]
    elif isinstance(act, BestOf):
        weights = candidate_weights(act.weights, len(act.questions))
        after = [budget.chosen(weight) for weight in (max(weights), min(weights))]
    elif isinstance(act, IsBetter):
        after = [budget.answered(yes) for yes in (True, False)]
    elif isinstance(act, CompareTwo):
        after = [budget.judged(verdict, checked_spend(act.spend)) for verdict in ("first", "neither")]
    elif isinstance(act, Certify):
        after = [budget.claimed(checked_spend(act.spend))]
    return tuple(later.claim_price() for later in after)
