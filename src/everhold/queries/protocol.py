"""The protocol that every mechanism follows: four steps for each question.

    proposal = mechanism.propose(query)           # public: the sketch's answer and its tolerance
    cell     = mechanism.decide(proposal, total)  # the only step that sees the private rows: the exact sum of the values,
                                                  # over all of them or over `mechanism.part(proposal)`
    answer   = mechanism.answer(proposal, cell)   # public: value and interval
    mechanism.absorb(proposal, cell)              # public: a surprise teaches the sketch

A replay takes the same four steps, but reads the cell and the coefficients from the record instead of the private rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.queries.answer import Answer, Preview
    from everhold.queries.grid import GridValues, Scale
    from everhold.queries.query import Query

__all__ = ["QUIET", "Mechanism", "Proposal", "SketchValue"]

QUIET = None
"""The cell of a round without a surprise."""


@dataclass(frozen=True, slots=True)
class SketchValue:
    """The sketch's value u = numerator / denominator on the [-1, 1] scale, exact.

    Attributes:
        scale: the scale of the question's answer.
        numerator, denominator: the two parts of u.
        draws: the number of independent draws from the prior behind u; its noise is about 1/√draws.
    """

    scale: Scale
    numerator: int
    denominator: int
    draws: float

    @property
    def value(self) -> float:
        """u, correctly rounded."""
        return self.numerator / self.denominator


class Proposal(Protocol):
    """What the public side proposes before the private data is used."""

    @property
    def round(self) -> int:
        """The number of the round, starting at 1."""

    @property
    def reading(self) -> SketchValue:
        """The sketch's answer."""

    @property
    def values(self) -> GridValues | None:
        """The question's values on the public rows; None if a recorded reading replaces them."""

    @property
    def tolerance(self) -> float:
        """How far the private mean may be from the proposal before it counts as a surprise, on the [-1, 1] scale."""


P = TypeVar("P", bound=Proposal)


class Mechanism(Protocol[P]):
    """Something that answers questions: everhold's own way, the paper's, or a baseline's. `P` is its kind of proposal."""

    @property
    def fresh(self) -> bool:
        """Whether every round draws new public rows; the record then has to store every question in full."""

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""

    @property
    def surprises(self) -> int:
        """How many of them were surprises, that is, used the private data beyond a quiet yes."""

    @property
    def spent(self) -> float:
        """The price in nats used for the interval of the next answer."""

    @property
    def fit(self) -> tuple[int, ...]:
        """The sketch's coefficients after the last surprise, on their grid; the ledger records them."""

    def prepare(self, query: Query) -> Query:
        """The question with its values on the public rows, evaluated once, where these rows are fixed; else as it is."""

    def propose(self, query: Query | SketchValue) -> P:
        """Evaluate the question on the public side. Changes no state: proposing twice gives the same proposal.

        An audit may pass the recorded reading of a quiet round instead, if the question itself was not recorded.
        """

    def part(self, proposal: P) -> NDArray[np.intp] | None:
        """Indices of the private rows to sum over, a function of public facts and coins; None: all rows."""

    def decide(self, proposal: P, total: int) -> int | None:
        """Compare the proposal with the sum of the private values. Returns `QUIET`, or the cell of a surprise."""

    def absorb(self, proposal: P, cell: int | None, fit: tuple[int, ...] | None = None) -> None:
        """End the round. After a surprise, update the sketch, or take the recorded `fit`.

        A surprise is charged even if the update fails; the update itself is applied in full or not at all.
        """

    def answer(self, proposal: P, cell: int | None) -> Answer:
        """The answer to return, a function of public facts and the cell."""

    def skip(self, rounds: int) -> None:
        """Count `rounds` quiet rounds read from a record."""

    def identity(self, query: Query) -> str:
        """A digest of the question's values on fixed public rows; it distinguishes unnamed questions."""

    def preview(self, query: Query) -> Preview:
        """What the public side alone predicts for a question, free of charge."""
