"""What acts beyond rounds cost and return: selections, bits, rankings, verdicts, certificates, the last act.

Both follow from what was fixed beforehand and from what the act disclosed, so that a record can be charged again.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from everhold.ledger.gate_check import CheckPlan, GainPlan
from everhold.ledger.ranking import RankingPlan
from everhold.queries.disclosed import Choice, Decision, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.bounds.budget import Budget
    from everhold.ledger.rounds import ActStart, Round
    from everhold.queries.answer import Answer
    from everhold.queries.protocol import ActingMechanism

__all__ = ["act_result", "is_last", "is_private", "narrowed_answer", "price_act"]

_NOISY = ("noisy pair", "noisy intervals")
"""How a private study compares."""
_PAIRED = ("mcnemar", "noisy pair")
"""Two one-sided tests about the rows on which two questions differ."""


def is_last(begun: ActStart) -> bool:
    """Whether no private row is read after it."""
    return begun.kind in ("close", "gain") or (begun.kind == "rank" and begun.options.get("last") is True)


def is_private(begun: ActStart) -> bool:
    """Whether a private study or gate may do it: what it discloses about rows has noise."""
    if begun.kind in ("check", "gain"):
        return begun.options.get("method") == "noisy bets"
    return begun.kind in ("best_of", "is_better", "compare", "certify")


def act_result(
    mechanism: ActingMechanism[Any], begun: ActStart, outcome: Any, price: float, rounds: Sequence[Round]
) -> dict[str, Any]:
    """What an act returns, from what it disclosed and its price; for a certificate also from the round it is about."""
    if begun.kind == "best_of":
        return Choice(outcome, len(begun.asked), price, mechanism.budget.privacy is not None).to_dict()
    if begun.kind == "is_better":
        return Decision(outcome, price, mechanism.budget.privacy is not None).to_dict()
    if begun.kind == "compare":
        return Verdict(outcome, price).to_dict()
    if begun.kind == "rank":
        plan = RankingPlan.from_record(begun)
        if not all(1 <= number <= len(rounds) for number in plan.rounds):
            raise ValueError("a round that is not there")
        return plan.result(outcome, price)
    if begun.kind == "check":
        return CheckPlan.from_record(begun).result(outcome, price)
    if begun.kind == "gain":
        return GainPlan.from_record(begun).result(outcome, price)
    if begun.kind == "certify":
        number = begun.asked[0]["round"]
        if not 1 <= number <= len(rounds):
            raise ValueError("a round that is not there")
        narrowed = narrowed_answer(mechanism, rounds[number - 1], price)
        if narrowed is None:
            raise ValueError("an interval that cannot be narrowed")
        return narrowed.to_dict()
    return {"price": price}


def narrowed_answer(mechanism: ActingMechanism[Any], past: Round, nats: float) -> Answer | None:
    """An earlier answer with its interval at another price; None where that would not be narrower."""
    low, high = past.answer.low, past.answer.high
    if past.counts is not None:
        low, high = mechanism.count_interval(*past.counts, nats)
    elif nats > past.answer.price:
        return None
    if high - low >= past.answer.high - past.answer.low:
        return None
    return replace(past.answer, low=low, high=high, price=nats)


def price_act(budget: Budget, begun: ActStart, outcome: object, *, interrupted: bool = False) -> tuple[float, Budget]:
    """Pay for an act that is not made of rounds: the price of its claim (or all nats disclosed by then), the new budget."""
    options = begun.options
    spend = None if options.get("spend") is None else Fraction(options["spend"])
    if begun.kind == "best_of":
        weights, generation = [Fraction(weight) for weight in options["weights"]], options.get("generation", 0)
        if len(weights) + bool(generation) != len(begun.asked) or sum(weights) > 1 or min(weights) <= 0:
            raise ValueError("weights that do not fit")
        after = budget.interrupted() if interrupted else _chosen(budget, generation, weights, outcome)
        return after.nats, after
    if begun.kind == "is_better":
        if not interrupted and not isinstance(outcome, bool):
            raise ValueError("an outcome that is not yes or no")
        after = budget.interrupted_bit() if interrupted else budget.answered(bool(outcome))
        return after.nats, after
    if begun.kind == "compare":
        parts, sides = options["parts"], options["sides"]
        price = budget.claim_price(spend, parts=parts, sides=sides)
        if interrupted:
            return price, budget.interrupted(parts).claimed(spend)
        if (parts, sides) != (2, 1) if options["method"] in _PAIRED else sides != 2:
            raise ValueError("a price that does not belong to the method")
        if (budget.privacy is None) == (options["method"] in _NOISY):
            raise ValueError("a method that does not belong to the study")
        if outcome not in ("first", "second", "neither"):
            raise ValueError("a verdict that is not known")
        return price, budget.judged(outcome, spend, parts)
    if begun.kind == "rank":
        plan = RankingPlan.from_record(begun)
        return plan.price(budget), plan.charge(budget, outcome, interrupted=interrupted)
    if begun.kind == "check":
        check = CheckPlan.from_record(begun)
        return check.price(budget), check.charge(budget, outcome, interrupted=interrupted)
    if begun.kind == "gain":
        last = GainPlan.from_record(begun)
        return last.price(budget), last.charge(budget, interrupted=interrupted)
    if begun.kind == "void":
        if begun.asked or not interrupted:
            raise ValueError("a void that is about something")
        after = budget.voided()
        return after.nats, after
    if begun.kind == "certify":
        return budget.claim_price(spend), budget.claimed(spend)
    if begun.kind == "close" and not begun.asked:
        return budget.claim_price(spend), budget.claimed(spend)
    if begun.kind in ("read", "close") and interrupted:
        for _ in begun.asked:
            budget = budget.interrupted()
        return budget.nats, budget.claimed(spend)
    raise ValueError(f"an act {begun.kind!r} that is not known")


def _chosen(budget: Budget, earlier_choices: int, weights: Sequence[Fraction], outcome: object) -> Budget:
    """The first choice is among its candidates; a later one may also keep the champion, who comes last."""
    if not earlier_choices:
        return budget.chosen(weights[_index(outcome, len(weights))])
    index = _index(outcome, len(weights) + 1)
    return budget.succeeded(earlier_choices, weights[index] if index < len(weights) else None)


def _index(outcome: object, count: int) -> int:
    if not isinstance(outcome, int) or isinstance(outcome, bool) or not 0 <= outcome < count:
        raise ValueError("an index that is not there")
    return outcome
