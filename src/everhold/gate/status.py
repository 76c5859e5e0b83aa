"""Where a gate stands: a function of its contract and its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.bounds.gain import STEPS
from everhold.bounds.gate_power import promotions_left
from everhold.gate.judge import most_nats
from everhold.gate.results import GateStatus

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget
    from everhold.gate.entries import WaitingCandidates
    from everhold.gate.rules import GateRules
    from everhold.ledger.reader import StudyFile

__all__ = ["gate_status", "promotion_price", "used_up"]


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
        used_up=rules.certify == "each" and used_up(rules, found.budget),
        finished=found.closed,
        new_budget=rules.new_budget,
        head=str(found.head),
    )


def promotion_price(rules: GateRules, budget: Budget) -> float:
    """What the next promotion is judged at, in nats."""
    return budget.promotion_price(rules.generation)


def used_up(rules: GateRules, budget: Budget) -> bool:
    """Whether not even a candidate that passes every case could be promoted."""
    return promotion_price(rules, budget) > most_nats(rules.method, rules.by, rules.cases)


def _left(rules: GateRules, budget: Budget) -> dict[str, int]:
    """How many more promotions of 3 and of 6 points are possible, by points."""
    return {
        f"{points}": promotions_left(
            budget, rules.cases, points / 100, method=rules.method, by=rules.by / STEPS, candidates=rules.generation
        )
        for points in (3, 6)
    }
