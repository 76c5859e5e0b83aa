"""The socket that every mechanism fits: what happens to one question, in four steps.

    proposal = mechanism.propose(query)           # public: the sketch's answer and its tolerance
    cell     = mechanism.decide(proposal, total)  # the only step that sees the private rows: one exact integer,
                                                  # over all of them or over `mechanism.part(proposal)`
    answer   = mechanism.answer(proposal, cell)   # public: value and interval
    mechanism.absorb(proposal, cell)              # public: a surprise teaches the sketch

A replay takes the same four steps with the cell and the coefficients read from the record instead of the private rows.
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
"""The cell of a round in which nothing surprised."""


@dataclass(frozen=True, slots=True)
class SketchValue:
    """What the sketch read: u = numerator / denominator on the [-1, 1] scale, exact.

    Attributes:
        scale: how the question's answer is read.
        numerator, denominator: of u.
        draws: independent draws from the prior that u rests on: its noise is about 1/√draws.
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
    """What the public side says before the private rows are asked."""

    @property
    def round(self) -> int:
        """The number of the round, the first being 1."""

    @property
    def reading(self) -> SketchValue:
        """The sketch's answer."""

    @property
    def values(self) -> GridValues | None:
        """The question's values on the public rows; None when a recorded reading stands in for them."""

    @property
    def tolerance(self) -> float:
        """How far the private rows may be from the proposal before it counts as a surprise, on the [-1, 1] scale."""


P = TypeVar("P", bound=Proposal)


class Mechanism(Protocol[P]):
    """Something that answers questions: everhold's own way, the paper's, or a baseline's. `P` is its kind of proposal."""

    @property
    def fresh(self) -> bool:
        """Whether questions are evaluated on rows drawn anew every round, so that the record must keep them whole."""

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""

    @property
    def surprises(self) -> int:
        """How many of them let data out beyond a quiet yes."""

    @property
    def spent(self) -> float:
        """The price in nats that the next answer's interval will be computed with."""

    @property
    def fit(self) -> tuple[int, ...]:
        """The sketch's coefficients after the last surprise, on their grid: what a record keeps."""

    def prepare(self, query: Query) -> Query:
        """The question with its values on the public rows, evaluated once, where these rows are fixed; else as it is."""

    def propose(self, query: Query | SketchValue) -> P:
        """Evaluate the question on the public side. Changes nothing: proposing twice gives the same.

        An audit may give the recorded reading of a quiet round instead, when the question itself was not kept.
        """

    def part(self, proposal: P) -> NDArray[np.intp] | None:
        """Which private rows the total is taken over: their places, a function of public facts and coins; None: all."""

    def decide(self, proposal: P, total: int) -> int | None:
        """Compare with the private total: `QUIET`, or the cell of a surprise."""

    def absorb(self, proposal: P, cell: int | None, fit: tuple[int, ...] | None = None) -> None:
        """End the round. After a surprise, learn from it, or take over the recorded `fit`.

        Once a cell is decided this charges for it whatever else fails, and changes everything or nothing.
        """

    def answer(self, proposal: P, cell: int | None) -> Answer:
        """What is told. A function of public facts and the cell."""

    def skip(self, rounds: int) -> None:
        """Take over so many quiet rounds from a record."""

    def identity(self, query: Query) -> str:
        """A digest that tells questions apart by their values on public rows that never change."""

    def preview(self, query: Query) -> Preview:
        """What the public side alone says of a question, for nothing."""
