"""What is recorded of a round."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everhold.errors import ReplayError
from everhold.queries.expression.question import without_values
from everhold.queries.grid import PackedValues
from everhold.queries.round_act import ASK, RoundAct
from everhold.statistics.finding import Shares
from everhold.statistics.parameters import arguments

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.queries.grid import GridValues, Scale, Sums
    from everhold.queries.protocol import Outcome, Proposal, SketchValue
    from everhold.queries.query import Query, Rows
    from everhold.statistics.finding import Finding
    from everhold.statistics.statistic import Statistic

__all__ = [
    "KEPT_BYTES",
    "UNPARSED",
    "ActEnd",
    "ActStart",
    "Digest",
    "RecordedAct",
    "RecordedFinding",
    "RecordedQuestion",
    "Round",
    "summary_of",
    "to_record",
]

KEPT_BYTES = 1024
"""Quiet questions given as arrays keep their public values up to this many bytes, and a digest beyond it."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Stands for public values that were too large to keep: SHA-256 over them."""

    sha256: str


UNPARSED = Digest("text")
"""Stands for the text of a quiet question where it need not be parsed again."""


@dataclass(frozen=True, slots=True)
class RecordedQuestion:
    """A question as the ledger kept it: its values on the public reference rows. It can be replayed, not asked."""

    packed: PackedValues
    name: str | None = None
    repeatable: bool = field(default=False, init=False)
    text: bool = field(default=False, init=False)
    yes_no: bool = field(default=False, init=False)

    def on_reference(self, rows: Rows, size: int, *, verify: bool = False) -> GridValues:
        """The recorded values."""
        if size != self.packed.size:
            raise ReplayError(f"the recorded question has {self.packed.size:,} values, the reference {size:,} rows.")
        return self.packed.unpack()

    def on_sample(self, rows: Rows, size: int, scale: Scale) -> Sums:
        """Refused: a replay has no private rows."""
        raise ReplayError("a recorded question can be replayed, not asked of private rows.")


@dataclass(frozen=True, slots=True)
class Round:
    """One round.

    Attributes:
        answer: what was returned, on the scale it was returned on.
        outcome: what the round disclosed: None for a quiet ask, else the cell, and the step of its half-width if it has one.
        fit: the sketch's coefficients, on their grid, where the round taught it something; else None.
        forecast: what the sketch said, exactly.
        question: the question given as text; its packed public values or their digest; the callable itself where rows
            are drawn anew every round.
        name: what it was called, if it was named.
        identity: for a named question, the digest of its values on public rows that never change; of a text, the text.
        act: how it was asked.
        charge: what the outcome costs all later claims.
        counts: of a yes/no question, the least and the largest number of yes with this outcome.
        title: of a question given by values, what people read of it.
        shown_range: of a question with a title, the numbers that its least and its greatest value stand for.
    """

    answer: Answer
    outcome: Outcome
    fit: tuple[int, ...] | None
    forecast: SketchValue
    question: Query | Digest
    name: str | None
    identity: str | None = None
    act: RoundAct = ASK
    charge: float = 0.0
    counts: tuple[int, int] | None = None
    title: str | None = None
    shown_range: tuple[float, float] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the question was given as text."""
        return self.question is UNPARSED or getattr(self.question, "text", False)

    @property
    def number(self) -> int:
        """The round's number."""
        return self.answer.round


@dataclass(frozen=True, slots=True)
class ActStart:
    """An act that is about to read private rows, recorded before it does.

    Attributes:
        kind: 'read', 'close', 'best_of', 'is_better', 'compare', 'rank', 'certify', 'void' (an ask that was lost), or a
            gate's 'check' or 'gain'.
        asked: what it is about, as plain data: questions by their text or digest, statistics by name and arguments.
        options: everything else that is fixed beforehand.
    """

    kind: str
    asked: tuple[dict[str, Any], ...]
    options: dict[str, Any]

    def is_same_act(self, other: ActStart) -> bool:
        """Whether both are the same act; what its questions are titled does not matter."""
        return (self.kind, self._untitled, self.options) == (other.kind, other._untitled, other.options)

    @property
    def _untitled(self) -> list[dict[str, Any]]:
        return [{name: value for name, value in entry.items() if name != "title"} for entry in self.asked]


@dataclass(frozen=True, slots=True)
class ActEnd:
    """How an act ended that is not made of rounds.

    Attributes:
        outcome: what was disclosed: an index, a bit, a verdict; None: it was interrupted, or discloses nothing.
        result: what was returned, as plain data.
        interrupted: whether nothing was returned, because the act was interrupted.
    """

    outcome: int | bool | str | None
    result: dict[str, Any]
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class RecordedAct:
    """An act with its end."""

    begun: ActStart
    done: ActEnd
    after: int
    """How many rounds there were before it."""


@dataclass(frozen=True, slots=True)
class RecordedFinding:
    """A statistic that was asked, and its result: a function of the rounds it was made of.

    Attributes:
        statistic, arguments: what was asked.
        summary: the result in short (`summary_of`).
        rounds: the rounds that it was made of.
    """

    statistic: str
    arguments: dict[str, Any]
    summary: dict[str, Any]
    rounds: tuple[int, ...]

    @classmethod
    def of(cls, statistic: Statistic[Any], result: Finding | Shares) -> RecordedFinding:
        """What the record holds of a statistic and its result."""
        return cls(statistic.name, arguments(statistic), summary_of(result), tuple(part.round for part in result.parts))

    @property
    def key(self) -> str:
        """What distinguishes it from others: all of it."""
        return json.dumps([self.statistic, self.arguments, self.summary, self.rounds], sort_keys=True)


def summary_of(result: Finding | Shares) -> dict[str, Any]:
    """A result without its parts, ready for a record."""
    whole = result.to_dict()
    if isinstance(result, Shares):
        names = ("label", "value", "low", "high")
        return {**whole, "cells": [{name: cell[name] for name in names} for cell in whole["cells"]]}
    return {name: whole[name] for name in ("kind", "what", "value", "low", "high", "unit")}


def to_record(query: Query, proposal: Proposal, *, surprise: bool, whole: bool) -> Query | Digest:
    """What the record holds of a question.

    Its public values: always for a surprise, up to `KEPT_BYTES` for a quiet round, and a digest beyond. Where rows are
    drawn anew every round (`whole`) the callable itself must be kept; what it closes over should not change afterwards.
    A question given as text is kept itself: it is small, and an audit evaluates it again.
    Values on private rows are never kept.
    """
    query = without_values(query)
    if query.text:
        return query
    if whole or proposal.values is None:
        return query
    packed = proposal.values.pack()
    if surprise or len(packed.data) <= KEPT_BYTES:
        return RecordedQuestion(packed, query.name)
    return Digest(packed.digest)
