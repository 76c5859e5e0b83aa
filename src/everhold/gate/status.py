"""Where a gate stands: a function of its contract and its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everhold.bounds.budget import Budget
from everhold.bounds.gain import SCORE_ONE
from everhold.errors import SettingError
from everhold.gate.certifiable import certifies, left, left_at_first, smallest_step
from everhold.gate.judge import most_nats
from everhold.gate.results import GateStatus

if TYPE_CHECKING:
    from everhold.bounds.privacy import Privacy, PrivacyAccount
    from everhold.gate.rules import GateRules
    from everhold.gate.waiting import WaitingCandidates
    from everhold.ledger.store import Head

__all__ = ["affords_promotion", "gate_status", "promotion_price", "require_enough_cases", "too_small_a_step", "used_up"]

_MANY = 10_000_000  # cases, where the search for enough of them ends


def gate_status(
    rules: GateRules,
    waiting: WaitingCandidates,
    *,
    results: Sequence[dict[str, Any]],
    budget: Budget,
    head: Head | str,
    finished: bool,
) -> GateStatus:
    """From the contract and the record.

    Args:
        rules: the contract.
        waiting: candidates beside the gate.
        results: of all checks that were not interrupted.
        budget, head, finished: where the record stands.
    """
    checks, promotions, interrupted = budget.code.check_counts
    promoted = [result["name"] for result in results if result["promoted"]]
    steps = _steps(rules) if rules.certify == "each" else {}
    promise = None if budget.privacy is None else budget.privacy.terms.promise
    over = used_up(rules, budget)
    shared = rules.new_budget is not None
    return GateStatus(
        cases=rules.cases,
        visible=rules.visible,
        outcomes=rules.outcomes,
        by=rules.by / SCORE_ONE,
        certify=rules.certify,
        generation_size=rules.generation_size,
        confidence=rules.confidence,
        checks=checks,
        promotions=promotions,
        interrupted=interrupted,
        waiting=waiting.count(sum(result["candidates"] for result in results)),
        incumbent=promoted[-1] if promoted else rules.incumbent,
        price=promotion_price(rules, budget),
        left={points: _left(rules, budget, step) for points, step in steps.items()},
        left_at_first={points: left_at_first(rules, step, promise) for points, step in steps.items()},
        step=rules.step,
        smallest=smallest_step(rules, budget) if rules.certify == "each" and not over else None,
        used_up=over,
        finished=finished,
        new_budget=rules.new_budget,
        head=str(head),
        privacy=None if budget.privacy is None else _privacy(budget.privacy, shared=shared),
    )


def _left(rules: GateRules, budget: Budget, step: float) -> int:
    """How many more promotions of that size are possible."""
    return left(rules, budget, step, None if budget.privacy is None else _promotions_paid_for(budget.privacy))


def _privacy(account: PrivacyAccount, *, shared: bool) -> dict[str, Any]:
    """What a private gate promises about every sealed case, and what of it is spent.

    Args:
        account: of the gate.
        shared: whether its cases had a gate before, so that this promise is not about everything ever disclosed.
    """
    about = "everything that this gate discloses" if shared else "everything ever disclosed"
    others = "" if not shared else ". Other gates of these cases disclosed more: add their ε and δ to these"
    promise, left = account.terms.promise, _promotions_paid_for(account)
    charged = f"{account.bits:,} promotion{'' if account.bits == 1 else 's'} charged"
    more = f"{100.0 * account.share_left:.0f} % left ({left:,} more promotion{'' if left == 1 else 's'})"
    return {
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "promotions_charged": account.bits,
        "releases_charged": account.releases,
        "share_left": account.share_left,
        "promotions_left": left,
        "text": f"privacy ε = {promise.epsilon:g}, δ = {promise.delta:g} for {about} about a sealed case: "
        f"{charged}, {more}{others}",
    }


def _promotions_paid_for(account: PrivacyAccount) -> int:
    """How many more promotions the privacy budget pays for. One release is kept back for the total gain at the end."""
    kept_back = 0 if account.releases else account.terms.release_cost
    return max(account.left - kept_back, 0) // account.terms.bit_cost


def affords_promotion(budget: Budget) -> bool:
    """Whether a private gate can pay for another promotion."""
    return budget.privacy is None or _promotions_paid_for(budget.privacy) > 0


def promotion_price(rules: GateRules, budget: Budget) -> float:
    """What the next promotion is judged at, in nats."""
    return budget.promotion_price(rules.generation_size)


def used_up(rules: GateRules, budget: Budget) -> bool:
    """Whether no promotion is worth a check any more: by public facts.

    Not even a candidate that passes every case could be promoted, or none that is better by the gate's own step is promoted
    with a probability of 80 %, or privacy does not pay for it.
    """
    if not affords_promotion(budget):
        return True
    if rules.certify == "final":
        return False
    parts = 0 if budget.privacy is None else budget.privacy.terms.test_parts
    beyond = promotion_price(rules, budget) > most_nats(rules.method, rules.by, rules.cases, parts)
    return beyond or too_small_a_step(rules, budget)


def require_enough_cases(rules: GateRules, privacy: Privacy | None) -> None:
    """Refuse a gate that could not promote even a candidate that passes every case, before anything is made.

    Raises:
        SettingError: with about how many cases it takes.
    """
    budget = Budget.first(1.0 - rules.confidence, None, None if privacy is None else privacy.terms)
    if not used_up(rules, budget):
        return
    if not affords_promotion(budget):
        raise SettingError(
            "this privacy budget pays for no promotion beside the total gain at the end. Expected more surprises=, or a "
            "larger epsilon. Nothing was made."
        )
    low, high = rules.cases, 2 * rules.cases
    while used_up(replace(rules, cases=high), budget) and high < _MANY:
        low, high = high, 2 * high
    while high - low > max(low // 50, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if used_up(replace(rules, cases=middle), budget) else (low, middle)
    other = (
        "certify='final' (--certify final), which certifies the total gain at the end" if privacy is None else "no privacy"
    )
    raise SettingError(
        f"{rules.cases:,} sealed cases are too few: not even a candidate that passes all of them could be promoted. "
        f"Expected at least about {high:,} sealed cases, or {other}. Nothing was made. everhold plan --gate says what each "
        "number of cases can certify."
    )


def too_small_a_step(rules: GateRules, budget: Budget) -> bool:
    """Whether the step that the gate was made for cannot be certified any more."""
    return rules.step is not None and rules.certify == "each" and not certifies(rules, budget, rules.step)


def _steps(rules: GateRules) -> dict[str, float]:
    """Of which promotions the status speaks: of the gate's own step, or of 3 and 6 points. By points."""
    return {f"{100.0 * step:.4g}": step for step in ((0.03, 0.06) if rules.step is None else (rules.step,))}
