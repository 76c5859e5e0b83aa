"""Audit: replay a record round by round, without the private rows, and say what does not agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everhold.errors import EverholdError
from everhold.ledger.rounds import Digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everhold.ledger.rounds import Round
    from everhold.queries.protocol import Mechanism

__all__ = ["Audit", "audit"]


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found.

    Attributes:
        rounds: how many rounds were walked through.
        surprises: how many of them were surprises.
        unchecked: quiet rounds whose question was too large to keep: price and interval were checked, the sketch's
            reading was taken as recorded.
        deviation: the first thing that did not agree, in words; None when everything did.
    """

    rounds: int
    surprises: int
    unchecked: int
    deviation: str | None

    @property
    def ok(self) -> bool:
        """Whether everything that could be checked agreed, bit for bit."""
        return self.deviation is None

    def __str__(self) -> str:
        if self.deviation is not None:
            return f"audit: FAILED at the first of these: {self.deviation}"
        taken = f"; {_count(self.unchecked, 'reading')} taken as recorded" if self.unchecked else ""
        said = f"{_count(self.rounds, 'round')} with {_count(self.surprises, 'surprise')}"
        return f"audit: ok, {said} replayed without the data{taken}"

    __repr__ = __str__


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def audit(mechanism: Mechanism, rounds: Iterable[Round]) -> Audit:
    """Replay recorded rounds on a mechanism in its first state; stop at the first deviation."""
    done = surprises = unchecked = 0
    for recorded in rounds:
        expected = mechanism.rounds + 1
        if recorded.number != expected:
            return Audit(done, surprises, unchecked, f"round {expected} is missing; round {recorded.number} follows")
        try:
            kept = recorded.question
            proposal = mechanism.propose(recorded.reading if isinstance(kept, Digest) else kept)
            answer = mechanism.answer(proposal, recorded.cell)
            mechanism.absorb(proposal, recorded.cell, recorded.fit)
        except EverholdError as error:
            return Audit(done, surprises, unchecked, f"round {expected} cannot be replayed: {error}")
        if proposal.reading != recorded.reading:
            return Audit(
                done, surprises, unchecked, f"the sketch's reading of round {expected} differs from the record"
            )
        if answer != recorded.answer:
            return Audit(
                done, surprises, unchecked, f"round {expected} replays as {answer}, recorded was {recorded.answer}"
            )
        done += 1
        surprises += recorded.cell is not None
        unchecked += isinstance(kept, Digest)
    return Audit(done, surprises, unchecked, None)
