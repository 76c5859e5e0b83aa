"""The steps of a recorded session again, without the private rows: what restoring, replaying and auditing share.

Acts that are not made of rounds (selections, bits, verdicts, certificates) are charged again between the rounds, and
what they returned is computed again from what they disclosed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic

from everhold.errors import QuestionError, ReplayError, SettingError
from everhold.ledger.ranking import RankingPlan
from everhold.ledger.rounds import ActStart, Digest, RecordedAct, Round
from everhold.queries.act import ASK
from everhold.queries.disclosed import Choice, Decision, Judgement
from everhold.queries.protocol import ActingMechanism, P

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from everhold.bounds.budget import Budget
    from everhold.queries.act import RoundAct
    from everhold.queries.answer import Answer
    from everhold.queries.protocol import Mechanism, Outcome, SketchValue
    from everhold.queries.query import Query

__all__ = [
    "RoundMissing",
    "Step",
    "act_result",
    "is_last",
    "narrowed_answer",
    "price_act",
    "propose",
    "replay_act",
    "step",
    "walk",
]


class RoundMissing(ReplayError):
    """A record skips a round."""


@dataclass(frozen=True, slots=True)
class Step(Generic[P]):
    """One round again: what the public side proposed, and the answer that follows from the recorded outcome."""

    proposal: P
    answer: Answer
    cost: float
    counts: tuple[int, int] | None


def step(
    mechanism: Mechanism[P],
    question: Query | SketchValue,
    outcome: Outcome,
    fit: tuple[int, ...] | None,
    act: RoundAct = ASK,
) -> Step[P]:
    """Propose, answer with the recorded outcome, absorb it with the recorded fit."""
    proposal = propose(mechanism, question, act)
    answer = mechanism.answer(proposal, outcome)
    cost = mechanism.cost(proposal, outcome)
    mechanism.absorb(proposal, outcome, fit)
    return Step(proposal, answer, cost, mechanism.counts(proposal, outcome))


def propose(mechanism: Mechanism[P], question: Query | SketchValue, act: RoundAct) -> P:
    """A proposal for any act; mechanisms other than everhold's own know asks only."""
    if act == ASK:
        return mechanism.propose(question)
    if not isinstance(mechanism, ActingMechanism):
        raise QuestionError(f"this mechanism answers asks only, not {act.kind!r} or expect=.")
    found: P = mechanism.propose(question, act)
    return found


def walk(
    mechanism: Mechanism[P], record: Iterable[Round | RecordedAct], *, every: bool = True
) -> Iterator[tuple[Round, Step[P] | None]]:
    """All recorded rounds on a mechanism in its first state, in order; acts between them are charged on the way.

    Args:
        mechanism: in its first state.
        record: rounds and acts as they were recorded.
        every: also quiet rounds. Without them only surprises and readings are evaluated, and quiet rounds count.

    Raises:
        ReplayError: a round is missing, a surprise whose question was not kept, or an act that does not agree.
    """
    rounds: list[Round] = []
    for past in record:
        if isinstance(past, RecordedAct):
            replay_act(mechanism, past, rounds)
            continue
        rounds.append(past)
        expected = mechanism.rounds + 1
        if past.number != expected:
            raise RoundMissing(f"round {expected} is missing; round {past.number} follows")
        if past.cell is None and not every:
            mechanism.skip(1)
            yield past, None
            continue
        kept = past.question
        if past.cell is not None and isinstance(kept, Digest):
            raise ReplayError(f"round {past.number} disclosed something, but its question was not kept.")
        question = past.forecast if isinstance(kept, Digest) else kept
        yield past, step(mechanism, question, past.cell, past.fit, past.act)


def replay_act(mechanism: Mechanism[Any], past: RecordedAct, rounds: Sequence[Round]) -> None:
    """Charge a recorded act again, and compute again what it returned from what it disclosed."""
    if not isinstance(mechanism, ActingMechanism):
        raise ReplayError(f"this mechanism has no act {past.begun.kind!r}.")
    begun, done = past.begun, past.done
    try:
        before = mechanism.budget
        price, budget = price_act(before, begun, done.outcome, interrupted=done.interrupted)
        result = {} if done.interrupted else act_result(mechanism, begun, done.outcome, price, rounds)
    except (KeyError, TypeError, ValueError, IndexError, SettingError) as error:
        raise ReplayError(f"the act {begun.kind!r} after round {past.after} cannot be replayed ({error}).") from None
    if result != done.result:
        raise ReplayError(f"the act {begun.kind!r} after round {past.after} replays as {result}, recorded was {done.result}")
    mechanism.pay(budget)
    if is_last(begun) and not done.interrupted:
        mechanism.shut()


def is_last(begun: ActStart) -> bool:
    """Whether no private row is read after it."""
    return begun.kind == "close" or (begun.kind == "rank" and begun.options.get("last") is True)


def act_result(
    mechanism: ActingMechanism, begun: ActStart, outcome: Any, price: float, rounds: Sequence[Round]
) -> dict[str, Any]:
    """What an act returns, from what it disclosed and its price; for a certificate also from the round it is about."""
    if begun.kind == "best_of":
        return Choice(outcome, len(begun.asked), price).to_dict()
    if begun.kind == "is_better":
        return Decision(outcome, price).to_dict()
    if begun.kind == "compare":
        return Judgement(outcome, price).to_dict()
    if begun.kind == "rank":
        plan = RankingPlan.read(begun)
        if not all(1 <= number <= len(rounds) for number in plan.rounds):
            raise ValueError("a round that is not there")
        return plan.result(outcome, price)
    if begun.kind == "certify":
        number = begun.asked[0]["round"]
        if not 1 <= number <= len(rounds):
            raise ValueError("a round that is not there")
        found = narrowed_answer(mechanism, rounds[number - 1], price)
        if found is None:
            raise ValueError("an interval that cannot be narrowed")
        return found.to_dict()
    return {"spent": price}


def narrowed_answer(mechanism: ActingMechanism, past: Round, nats: float) -> Answer | None:
    """An earlier answer with its interval at another price; None where that would not be narrower."""
    low, high = past.answer.low, past.answer.high
    if past.counts is not None:
        low, high = mechanism.count_interval(*past.counts, nats)
    elif nats > past.answer.spent:
        return None
    if high - low >= past.answer.high - past.answer.low:
        return None
    return replace(past.answer, low=low, high=high, spent=nats)


def price_act(budget: Budget, begun: ActStart, outcome: object, *, interrupted: bool = False) -> tuple[float, Budget]:
    """An act that is not made of rounds, paid for: the price of its claim (or all that is disclosed then), the budget."""
    options = begun.options
    share = None if options.get("share") is None else Fraction(options["share"])
    if begun.kind == "best_of":
        weights, generation = [Fraction(weight) for weight in options["weights"]], options.get("generation", 0)
        if len(weights) + bool(generation) != len(begun.asked) or sum(weights) > 1 or min(weights) <= 0:
            raise ValueError("weights that do not fit")
        after = budget.interrupted() if interrupted else _chosen(budget, generation, weights, outcome)
        return after.nats, after
    if begun.kind == "is_better":
        if not interrupted and not isinstance(outcome, bool):
            raise ValueError("an outcome that is not yes or no")
        after = budget.interrupted() if interrupted else budget.answered(bool(outcome))
        return after.nats, after
    if begun.kind == "compare":
        price = budget.claim_price(share, parts=options["parts"], sides=options["sides"])
        if interrupted:
            return price, budget.interrupted().claimed(share)
        if (options["parts"], options["sides"]) != (2, 1) if options["method"] == "mcnemar" else options["sides"] != 2:
            raise ValueError("a price that does not belong to the method")
        if outcome not in ("first", "second", "neither"):
            raise ValueError("a verdict that is not known")
        return price, budget.judged(outcome, share)
    if begun.kind == "rank":
        plan = RankingPlan.read(begun)
        return plan.price(budget), plan.charge(budget, outcome, interrupted=interrupted)
    if begun.kind == "certify":
        return budget.claim_price(share), budget.claimed(share)
    if begun.kind == "close" and not begun.asked:
        return budget.claim_price(share), budget.claimed(share)
    if begun.kind in ("read", "close") and interrupted:
        for _ in begun.asked:
            budget = budget.interrupted()
        return budget.nats, budget.claimed(share)
    raise ValueError(f"an act {begun.kind!r} that is not known")


def _chosen(budget: Budget, generation: int, weights: Sequence[Fraction], outcome: object) -> Budget:
    """The first generation chooses among its candidates; a later one may also keep the champion, who comes last."""
    if not generation:
        return budget.chosen(weights[_index(outcome, len(weights))])
    index = _index(outcome, len(weights) + 1)
    return budget.succeeded(generation, weights[index] if index < len(weights) else None)


def _index(outcome: object, count: int) -> int:
    if not isinstance(outcome, int) or isinstance(outcome, bool) or not 0 <= outcome < count:
        raise ValueError("an index that is not there")
    return outcome
