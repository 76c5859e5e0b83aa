"""The rounds of a recorded session again, without the private rows: what restoring, replaying and auditing share.

Acts that are not made of rounds (selections, bits, verdicts, certificates) are charged again between the rounds, and
what they returned is computed again from what they disclosed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from everhold.errors import ReplayError, SettingError
from everhold.ledger.act_prices import act_result, is_last, price_act
from everhold.ledger.rounds import Digest, RecordedAct, Round
from everhold.queries.protocol import ActingMechanism, P
from everhold.queries.round_act import ASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from everhold.queries.answer import Answer
    from everhold.queries.protocol import Mechanism, Outcome, SketchValue
    from everhold.queries.query import Query
    from everhold.queries.round_act import RoundAct

__all__ = [
    "ReplayedRound",
    "RoundMissing",
    "replay_act",
    "replay_round",
    "walk",
]


class RoundMissing(ReplayError):
    """A record skips a round."""


@dataclass(frozen=True, slots=True)
class ReplayedRound(Generic[P]):
    """One round again: what the public side proposed, and the answer that follows from the recorded outcome."""

    proposal: P
    answer: Answer
    charge: float
    counts: tuple[int, int] | None


def replay_round(
    mechanism: Mechanism[P],
    question: Query | SketchValue,
    outcome: Outcome,
    fit: tuple[int, ...] | None,
    act: RoundAct = ASK,
) -> ReplayedRound[P]:
    """Propose, answer with the recorded outcome, absorb it with the recorded fit."""
    proposal = mechanism.propose(question, act)
    answer = mechanism.answer(proposal, outcome)
    charge = mechanism.charge(proposal, outcome)
    mechanism.absorb(proposal, outcome, fit)
    return ReplayedRound(proposal, answer, charge, mechanism.counts(proposal, outcome))


def walk(
    mechanism: Mechanism[P], record: Iterable[Round | RecordedAct], *, every: bool = True
) -> Iterator[tuple[Round, ReplayedRound[P] | None]]:
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
        if past.outcome is None and not every:
            mechanism.skip(1)
            yield past, None
            continue
        recorded = past.question
        if past.outcome is not None and isinstance(recorded, Digest):
            raise ReplayError(f"round {past.number} disclosed something, but its question was not kept.")
        question = past.forecast if isinstance(recorded, Digest) else recorded
        yield past, replay_round(mechanism, question, past.outcome, past.fit, past.act)


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
        mechanism.close()
