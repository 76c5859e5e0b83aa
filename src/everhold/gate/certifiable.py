"""Which steps a gate can still certify: forecasts from its contract and its price (docs/theory/gate_plan.md)."""

from __future__ import annotations

from functools import lru_cache, partial
from math import ceil, sqrt
from typing import TYPE_CHECKING

from everhold.bounds.budget import Budget
from everhold.bounds.changes import POWER, Changes
from everhold.bounds.gain import SCORE_ONE
from everhold.bounds.gate_plan import plan_gate
from everhold.bounds.gate_power import GateTest, bets_power, mcnemar_power, most_price, promotions_left
from everhold.bounds.private_gain import MOST_NATS, noisy_power
from everhold.errors import SettingError

if TYPE_CHECKING:
    from everhold.bounds.gate_plan import GateContract
    from everhold.bounds.privacy import Privacy
    from everhold.gate.rules import GateRules
    from everhold.ledger.gate_check import GateMethod

__all__ = ["certifies", "left", "left_at_first", "require_certifiable", "smallest_step"]

_LOOKS = 100  # candidates that the advice for a new gate assumes
_ROUNDED_TO = 1 / 16  # prices are rounded up to it, so that checks in a row find what was computed before
_MOST = 1_000  # thousandths


def certifies(rules: GateRules, budget: Budget, step: float) -> bool:
    """Whether the next check promotes a candidate that is better by `step`, with a probability of 80 % or more."""
    price = budget.promotion_price(rules.generation_size)
    if budget.privacy is not None:
        return _power(rules.method, rules.cases, rules.by, _test_parts(budget), step, price) >= POWER
    method: GateTest = "mcnemar" if rules.method == "mcnemar" else "bets"
    return price <= most_price(rules.cases, _changes(step), method, rules.by)  # which is known from the last time


def smallest_step(rules: GateRules, budget: Budget) -> float | None:
    """About the smallest step that the next check certifies with a probability of 80 %, to a tenth of a point; or None."""
    price = ceil(budget.promotion_price(rules.generation_size) / _ROUNDED_TO) * _ROUNDED_TO
    return _smallest(rules.method, rules.cases, rules.by, _test_parts(budget), price)


def left(rules: GateRules, budget: Budget, step: float, paid: int | None = None) -> int:
    """How many more promotions of that size are possible; `paid`: how many privacy pays for."""
    possible = max(_foreseen(rules, budget, step), certifies(rules, budget, step))
    return possible if paid is None else min(possible, paid)


def left_at_first(rules: GateRules, step: float, privacy: Privacy | None = None) -> int:
    """The same before the first check."""
    return left(rules, _first(rules, privacy), step)


def _foreseen(rules: GateRules, budget: Budget, step: float) -> int:
    """The same if some candidates are kept out before each promotion."""
    changed = _changes(step).changed
    if budget.privacy is not None:
        power = partial(noisy_power, test_parts=_test_parts(budget))
        return promotions_left(budget, rules.cases, step, changed, by=rules.by / SCORE_ONE, test=power)
    return promotions_left(
        budget,
        rules.cases,
        step,
        changed,
        method="mcnemar" if rules.method == "mcnemar" else "bets",
        by=rules.by / SCORE_ONE,
        candidates=rules.generation_size,
    )


def require_certifiable(rules: GateRules, privacy: Privacy | None) -> None:
    """Refuse a contract that cannot certify the steps that it is made for, before anything is made.

    Raises:
        SettingError: it cannot.
    """
    if (step := rules.step) is None:
        return
    plan = plan_gate(
        rows=rules.cases,
        step=step,
        looks=max(_LOOKS, rules.generation_size),
        generation_size=rules.generation_size,
        by=rules.by / SCORE_ONE,
        confidence=rules.confidence,
    )
    total = plan[_named("the total", "the total gain", rules)]
    final = total.words if total.possible and privacy is None else None
    if rules.certify == "final":
        if privacy is None and final is None:
            raise SettingError(
                f"a total gain in steps of {_points(step)} cannot be certified with {rules.cases:,} cases"
                f"{_needed(total)}. Nothing was made. everhold plan --gate says more."
            )
        return
    if _foreseen(rules, _first(rules, privacy), step):
        return
    least = smallest_step(rules, _first(rules, privacy))
    can = "The first check certifies no step" if least is None else f"The first check certifies steps of {_points(least)}"
    needed = _needed(plan[_named("each", "each promotion", rules)]) if rules.method == "mcnemar" else ""
    advice = (
        ""
        if final is None
        else f" With certify='final' (--certify final) the total is certified at the end: {final}, if there are "
        f"{max(_LOOKS, rules.generation_size):,} candidates."
    )
    raise SettingError(
        f"promotions of {_points(step)} cannot be certified one by one with {rules.cases:,} cases, if candidates change a "
        f"tenth of them. {can}{needed}. Nothing was made.{advice} everhold plan --gate says more, also for candidates that "
        "change fewer cases (--changed)."
    )


def _points(step: float) -> str:
    return f"{100.0 * step:.3g} points"


def _needed(contract: GateContract) -> str:
    """How many cases it would take, where cases pass or fail."""
    return (
        ""
        if contract.rows_needed is None
        else f". After some candidates that are kept out, it takes about {contract.rows_needed:,} cases"
    )


def _named(kind: str, alone: str, rules: GateRules) -> str:
    """A contract of the plan, by its name there."""
    return alone if rules.generation_size == 1 else f"{kind}, the best of {rules.generation_size:,}"


def _first(rules: GateRules, privacy: Privacy | None) -> Budget:
    """Of a gate that has checked nothing."""
    return Budget.first(1.0 - rules.confidence, None, None if privacy is None else privacy.terms)


def _changes(step: float) -> Changes:
    return Changes.of(step=step, changed=max(0.1, step))


def _test_parts(budget: Budget) -> int:
    return 0 if budget.privacy is None else budget.privacy.terms.test_parts


def _power(method: GateMethod, cases: int, by: int, test_parts: int, step: float, price: float) -> float:
    """With what probability a candidate that is better by `step` is promoted at this price."""
    changes = _changes(step)
    if method == "noisy bets":
        return noisy_power(cases, changes, price, test_parts=test_parts, by=by) if price <= MOST_NATS else 0.0
    if method == "mcnemar":
        return mcnemar_power(cases, changes, price)
    return bets_power(cases, changes, price, by)


@lru_cache(maxsize=256)
def _smallest(method: GateMethod, cases: int, by: int, test_parts: int, price: float) -> float | None:
    def enough(points: int) -> bool:
        return _power(method, cases, by, test_parts, points / 1_000, price) >= POWER

    guess = by / SCORE_ONE + sqrt(0.1 / cases) * (sqrt(2.0 * price) + 1.0)  # by the normal law: it is near
    low = high = min(max(round(1_000 * guess), 1), _MOST)
    wide = max(high // 16, 1)
    while not enough(high):
        if high == _MOST:
            return None
        low, high, wide = high, min(high + wide, _MOST), 2 * wide
    while low == high or enough(low):
        if low == 0:
            break
        high, low, wide = low, max(low - wide, 0), 2 * wide
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high / 1_000
