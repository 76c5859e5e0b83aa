"""Where a gate stands: a function of its contract and its record."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from everhold.bounds.gain import STEPS
from everhold.bounds.gate_power import GateTest, promotions_left
from everhold.bounds.private_gain import noisy_power
from everhold.gate.judge import most_nats
from everhold.gate.results import GateStatus

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget
    from everhold.bounds.privacy import PrivacyLedger
    from everhold.gate.entries import WaitingCandidates
    from everhold.gate.rules import GateRules
    from everhold.ledger.reader import StudyFile

__all__ = ["affords_promotion", "gate_status", "promotion_price", "used_up"]


def gate_status(found: StudyFile, rules: GateRules, waiting: WaitingCandidates) -> GateStatus:
    """From the study's file and the contract."""
    checks, promotions, interrupted = found.budget.code.checks
    done = [one for one in found.acts if one.act == "check"]
    promoted = [one.result["name"] for one in done if one.result and one.result["promoted"]]
    return GateStatus(
        cases=rules.cases,
        visible=rules.visible,
        outcomes=rules.outcomes,
        by=rules.by / STEPS,
        certify=rules.certify,
        generation=rules.generation,
        confidence=rules.confidence,
        checks=checks,
        promotions=promotions,
        interrupted=interrupted,
        waiting=waiting.count_after(sum(one.result["candidates"] for one in done if one.result)),
        incumbent=promoted[-1] if promoted else rules.incumbent,
        price=promotion_price(rules, found.budget),
        left=_left(rules, found.budget) if rules.certify == "each" else {},
        used_up=used_up(rules, found.budget),
        finished=found.closed,
        new_budget=rules.new_budget,
        head=str(found.head),
        privacy=None if found.budget.privacy is None else _privacy(found.budget.privacy),
    )


def _privacy(ledger: PrivacyLedger) -> dict[str, Any]:
    """What a private gate promises about every sealed case, and what of it is spent."""
    promise, left = ledger.terms.promise, _promotions_paid_for(ledger)
    charged = f"{ledger.bits:,} promotion{'' if ledger.bits == 1 else 's'} charged"
    more = f"{100.0 * ledger.share_left:.0f} % left ({left:,} more promotion{'' if left == 1 else 's'})"
    return {
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "promotions_charged": ledger.bits,
        "releases_charged": ledger.releases,
        "share_left": ledger.share_left,
        "promotions_left": left,
        "text": f"privacy ε = {promise.epsilon:g}, δ = {promise.delta:g} for everything ever disclosed about a sealed case: "
        f"{charged}, {more}",
    }


def _promotions_paid_for(ledger: PrivacyLedger) -> int:
    """How many more promotions the privacy budget pays for. One release is kept back for the total gain at the end."""
    kept_back = 0 if ledger.releases else ledger.terms.release_cost
    return max(ledger.left - kept_back, 0) // ledger.terms.bit_cost


def affords_promotion(budget: Budget) -> bool:
    """Whether a private gate can pay for another promotion."""
    return budget.privacy is None or _promotions_paid_for(budget.privacy) > 0


def promotion_price(rules: GateRules, budget: Budget) -> float:
    """What the next promotion is judged at, in nats."""
    return budget.promotion_price(rules.generation)


def used_up(rules: GateRules, budget: Budget) -> bool:
    """Whether not even a candidate that passes every case could be promoted, or privacy does not pay for it."""
    if not affords_promotion(budget):
        return True
    if rules.certify == "final":
        return False
    parts = 0 if budget.privacy is None else budget.privacy.terms.test_parts
    return promotion_price(rules, budget) > most_nats(rules.method, rules.by, rules.cases, parts)


def _left(rules: GateRules, budget: Budget) -> dict[str, int]:
    """How many more promotions of 3 and of 6 points are possible, by points."""
    if budget.privacy is not None:
        paid, power = _promotions_paid_for(budget.privacy), partial(noisy_power, test_parts=budget.privacy.terms.test_parts)
        return {
            f"{points}": min(promotions_left(budget, rules.cases, points / 100, by=rules.by / STEPS, test=power), paid)
            for points in (3, 6)
        }
    method: GateTest = "mcnemar" if rules.method == "mcnemar" else "bets"
    return {
        f"{points}": promotions_left(
            budget, rules.cases, points / 100, method=method, by=rules.by / STEPS, candidates=rules.generation
        )
        for points in (3, 6)
    }
