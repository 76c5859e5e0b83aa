"""What is recorded of a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everhold.errors import ReplayError
from everhold.queries.expression.question import BoundedMean, Evaluated, Expression
from everhold.queries.grid import Packed

if TYPE_CHECKING:
    from everhold.queries.answer import Answer
    from everhold.queries.grid import GridValues, Scale
    from everhold.queries.protocol import Proposal, SketchValue
    from everhold.queries.query import Query, Rows

__all__ = ["KEPT_BYTES", "Digest", "Recorded", "Round", "keep"]

KEPT_BYTES = 1024
"""Quiet questions given as arrays keep their public values up to this many bytes, and a digest beyond it."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Stands for public values that were too large to keep: SHA-256 over them."""

    sha256: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """A question as the ledger kept it: its values on the public reference rows. It can be replayed, not asked."""

    packed: Packed
    name: str | None = None
    repeatable: bool = field(default=False, init=False)

    def on_reference(self, rows: Rows, size: int, *, verify: bool = False) -> GridValues:
        """The recorded values."""
        if size != self.packed.size:
            raise ReplayError(f"the recorded question has {self.packed.size:,} values, the reference {size:,} rows.")
        return self.packed.unpack()

    def on_sample(self, rows: Rows, size: int, scale: Scale) -> int:
        """Never: a replay has no private rows."""
        raise ReplayError("a recorded question can be replayed, not asked of private rows.")


@dataclass(frozen=True, slots=True)
class Round:
    """One round, for ever.

    Attributes:
        answer: what was told.
        cell: None for a quiet round, else the cell of the surprise.
        fit: the sketch's coefficients after a surprise, on their grid; None after a quiet round.
        reading: what the sketch said, exactly.
        question: the question given as text; its packed public values or their digest; the callable itself where rows
            are drawn anew every round.
        name: what it was called, if it was named.
        identity: for a named question, the digest of its values on public rows that never change.
    """

    answer: Answer
    cell: int | None
    fit: tuple[int, ...] | None
    reading: SketchValue
    question: Query | Digest
    name: str | None
    identity: str | None = None

    @property
    def number(self) -> int:
        """The round's number."""
        return self.answer.round


def keep(query: Query, proposal: Proposal, *, surprise: bool, whole: bool) -> Query | Digest:
    """What the record holds of a question.

    Its public values: always for a surprise, up to `KEPT_BYTES` for a quiet round, and a digest beyond. Where rows are
    drawn anew every round (`whole`) the callable itself must be kept; what it closes over should not change afterwards.
    A question given as text is kept itself: it is small, and an audit evaluates it again.
    Values on private rows are never kept.
    """
    if isinstance(query, Evaluated):
        query = query.question
    if isinstance(query, Expression | BoundedMean):
        return query
    if whole or proposal.values is None:
        return query
    packed = proposal.values.pack()
    if surprise or len(packed.data) <= KEPT_BYTES:
        return Recorded(packed, query.name)
    return Digest(packed.digest)
