"""Audit: replay a record round by round, without the private rows, and say what does not agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.errors import EverholdError, LedgerError
from everhold.ledger.rounds import Digest
from everhold.ledger.walk import RoundMissing, walk
from everhold.results import PlainResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everhold.ledger.rounds import RecordedAct, Round
    from everhold.queries.protocol import Mechanism

__all__ = ["Audit", "audit"]


@dataclass(frozen=True, slots=True)
class Audit(PlainResult):
    """What an audit found.

    Attributes:
        rounds: how many rounds were walked through.
        surprises: how many of them were surprises.
        unchecked: quiet rounds whose question was too large to keep: price and interval were checked, the sketch's
            forecast was taken as recorded.
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

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"ok": self.ok, **PlainResult.to_dict(self)}

    def __str__(self) -> str:
        if self.deviation is not None:
            return f"audit: FAILED at the first of these: {self.deviation}"
        taken = f"; {_count(self.unchecked, 'forecast')} taken as recorded" if self.unchecked else ""
        replayed = f"{_count(self.rounds, 'round')} with {_count(self.surprises, 'surprise')}"
        return f"audit: ok, {replayed} replayed without the data{taken}"

    __repr__ = __str__


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def audit(mechanism: Mechanism[Any], rounds: Iterable[Round | RecordedAct]) -> Audit:
    """Replay recorded rounds and acts on a mechanism in its first state; stop at the first deviation."""
    done = surprises = unchecked = 0

    def deviates(what: str) -> Audit:
        return Audit(done, surprises, unchecked, what)

    walked = walk(mechanism, rounds)
    while True:
        try:
            past, replayed = next(walked)
        except StopIteration:
            return Audit(done, surprises, unchecked, None)
        except RoundMissing as error:
            return deviates(str(error))
        except LedgerError:  # the record itself cannot be read
            raise
        except EverholdError as error:
            return deviates(f"round {done + 1} cannot be replayed: {error}")
        if replayed is None or replayed.proposal.forecast != past.forecast:
            return deviates(f"the sketch's forecast of round {past.number} differs from the record")
        if replayed.charge != past.charge:
            return deviates(f"what round {past.number} disclosed costs {replayed.charge} nats, recorded were {past.charge}")
        if replayed.counts != past.counts:
            return deviates(f"round {past.number} allows the counts {replayed.counts}, recorded were {past.counts}")
        answer = replayed.answer.on(past.answer.scale)
        if answer != past.answer:
            return deviates(f"round {past.number} replays as {answer}, recorded was {past.answer}")
        done += 1
        surprises += past.answer.surprise
        unchecked += isinstance(past.question, Digest)
