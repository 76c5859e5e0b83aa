"""Where a study stands, in numbers that are functions of public facts, coins and the record."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

from everhold.bounds.privacy import ROW_PARTS
from everhold.queries.disclosed import width_factor
from everhold.session.outlook import next_reading_text

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget
    from everhold.bounds.privacy import PrivacyAccount
    from everhold.ledger.first_record import FirstRecord

__all__ = ["budget_facts", "privacy_facts", "study_facts"]


def budget_facts(budget: Budget, rows: int, *, acts: int, closed: bool) -> dict[str, Any]:
    """What was done beyond rounds, and how wide the next reading is.

    `acts`: choices, bits, verdicts and certificates. `disclosed`: nats of everything disclosed so far. `claim_price`: of the
    next reading or verdict; None once the study is closed. `width`: how many times a plain 95 % interval the next reading's
    interval is. `privacy`: what is promised, spent and left; None where nothing is promised.
    """
    price, account = budget.claim_price(), budget.privacy
    return {
        "acts": acts,
        "closed": closed,
        "disclosed": budget.nats,
        "claim_price": None if closed else price,
        "width": None if closed else width_factor(price),
        "width_text": next_reading_text(budget, rows, closed=closed),
        "privacy": None if account is None else privacy_facts(account, budget.failure_probability),
    }


def privacy_facts(account: PrivacyAccount, failure_probability: float) -> dict[str, Any]:
    """What a private study promises about every row, what of it is spent and what is left.

    `reading_noise_rows`: how many rows noise may have moved the next reading, on either side.
    """
    promise = account.terms.promise
    return {
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "surprises": promise.surprises,
        "surprises_charged": account.surprises,
        "releases_charged": account.releases,
        "bits_charged": account.bits,
        "share_left": account.share_left,
        "surprises_left": account.surprises_left,
        "readings_left": account.readings_left,
        "reading_noise_rows": account.terms.shaken_parts(failure_probability, account.charges + 1) / ROW_PARTS,
        "text": account.text,
    }


def study_facts(first: FirstRecord, *, rounds: int, surprises: int, price: float, head: str) -> dict[str, Any]:
    """The facts that every interface shows of a study.

    `sampling_half_width`: the sampling error of a share near one half at this price; the tolerance comes on top.
    """
    return {
        "rounds": rounds,
        "surprises": surprises,
        "rows": first.rows,
        "unit": first.unit,
        "confidence": float(first.settings["confidence"]),
        "price": price,
        "sampling_half_width": sqrt(price / (2.0 * first.rows)),
        "prior": first.prior,
        "created": first.created,
        "head": head,
    }
