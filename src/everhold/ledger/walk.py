"""The steps of a recorded session again, without the private rows: what restoring, replaying and auditing share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from everhold.errors import ReplayError
from everhold.ledger.rounds import Digest
from everhold.queries.protocol import P

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from everhold.ledger.rounds import Round
    from everhold.queries.answer import Answer
    from everhold.queries.protocol import Mechanism, SketchValue
    from everhold.queries.query import Query

__all__ = ["RoundMissing", "Step", "step", "walk"]


class RoundMissing(ReplayError):
    """A record skips a round."""


@dataclass(frozen=True, slots=True)
class Step(Generic[P]):
    """One round again: what the public side proposed, and the answer that follows from the recorded cell."""

    proposal: P
    answer: Answer


def step(
    mechanism: Mechanism[P], question: Query | SketchValue, cell: int | None, fit: tuple[int, ...] | None
) -> Step[P]:
    """Propose, answer with the recorded cell, absorb it with the recorded fit."""
    proposal = mechanism.propose(question)
    answer = mechanism.answer(proposal, cell)
    mechanism.absorb(proposal, cell, fit)
    return Step(proposal, answer)


def walk(
    mechanism: Mechanism[P], rounds: Iterable[Round], *, every: bool = True
) -> Iterator[tuple[Round, Step[P] | None]]:
    """All recorded rounds on a mechanism in its first state, in order.

    Args:
        mechanism: in its first state.
        rounds: as they were recorded.
        every: also quiet rounds. Without them only surprises are evaluated, and quiet rounds count.

    Raises:
        ReplayError: a round is missing, or a surprise whose question was not kept.
    """
    for past in rounds:
        expected = mechanism.rounds + 1
        if past.number != expected:
            raise RoundMissing(f"round {expected} is missing; round {past.number} follows")
        if past.cell is None and not every:
            mechanism.skip(1)
            yield past, None
            continue
        kept = past.question
        if past.cell is not None and isinstance(kept, Digest):
            raise ReplayError(f"round {past.number} was a surprise, but its question was not kept.")
        yield past, step(mechanism, past.reading if isinstance(kept, Digest) else kept, past.cell, past.fit)
