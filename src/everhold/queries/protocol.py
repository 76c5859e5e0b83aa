"""The protocol that every mechanism follows: four steps for each question.

    proposal = mechanism.propose(query)           # public: the sketch's answer and its tolerance
    outcome  = mechanism.decide(proposal, sums)   # the only step that sees the private rows: the exact sums that
                                                  # `mechanism.needs(proposal)` names, over all rows or a part of them
    answer   = mechanism.answer(proposal, outcome)  # public: value and interval
    mechanism.absorb(proposal, outcome)             # public: what was disclosed is charged, and may teach the sketch

A replay takes the same four steps, but reads the outcome and the coefficients from the record instead of the private rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, runtime_checkable

from everhold.queries.round_act import ASK, READ, RoundAct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.bounds.budget import Budget
    from everhold.queries.answer import Answer, Preview
    from everhold.queries.grid import GridValues, Scale, Sums
    from everhold.queries.query import Query

__all__ = ["NOTHING", "QUIET", "ActingMechanism", "Mechanism", "Outcome", "Proposal", "SketchValue"]

Outcome = int | tuple[int, int] | Literal["nothing"] | None
"""What a round discloses: nothing but that it was quiet, a cell, a cell with the step of its half-width, or no value."""

QUIET = None
"""The outcome of a round without a surprise."""

NOTHING: Literal["nothing"] = "nothing"
"""The outcome of a round that has no value: no row to measure, or interrupted."""


@dataclass(frozen=True, slots=True)
class SketchValue:
    """The sketch's value u = numerator / denominator on the [-1, 1] scale, exact.

    Attributes:
        scale: the scale of the question's answer.
        numerator, denominator: the two parts of u.
        draws: the number of independent draws from the prior behind u; its noise is about 1/√draws.
        second: for numbers, the second moment about u in steps² (2¹⁶ steps from one end of the range to the other).
        group: for a group, its share of the rows.
    """

    scale: Scale
    numerator: int
    denominator: int
    draws: float
    second: int = 0
    group: float = 1.0

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
    def forecast(self) -> SketchValue:
        """The sketch's answer."""

    @property
    def values(self) -> GridValues | None:
        """The question's values on the public rows; None if a recorded forecast replaces them."""

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
        """How many of them were surprises, that is, used the private data in their answer."""

    @property
    def price(self) -> float:
        """The price in nats used for the interval of the next answer."""

    @property
    def closed(self) -> bool:
        """Whether the last act was made, so that no private row is read again. Without other acts never."""

    @property
    def fit(self) -> tuple[int, ...]:
        """The sketch's coefficients after the last surprise, on their grid; the ledger records them."""

    def prepare(self, query: Query) -> Query:
        """The question with its values on the public rows, evaluated once, where these rows are fixed; else as it is."""

    def propose(self, query: Query | SketchValue, act: RoundAct = ASK) -> P:
        """Evaluate the question on the public side. Changes no state: proposing twice gives the same proposal.

        A mechanism that knows plain asks only refuses any other act (`require_ask`).
        An audit may pass the recorded forecast of a quiet round instead, if the question itself was not recorded.
        """

    def needs(self, proposal: P) -> Sequence[Query]:
        """The linear questions whose private sums `decide` wants: usually the question itself."""

    def rows_read(self, proposal: P) -> NDArray[np.intp] | None:
        """Indices of the private rows to sum over, a function of public facts and coins; None: all rows."""

    def decide(self, proposal: P, sums: Sequence[Sums]) -> Outcome:
        """Compare the proposal with the private sums. Returns `QUIET`, or what is disclosed."""

    def absorb(self, proposal: P, outcome: Outcome, fit: tuple[int, ...] | None = None) -> None:
        """End the round. After a surprise, update the sketch, or take the recorded `fit`.

        A surprise is charged even if the update fails; the update itself is applied in full or not at all.
        """

    def answer(self, proposal: P, outcome: Outcome) -> Answer:
        """The answer to return, a function of public facts and the outcome."""

    def charge(self, proposal: P, outcome: Outcome) -> float:
        """What an outcome costs later claims, in nats, beyond that the round was quiet or not."""

    def counts(self, proposal: P, outcome: Outcome) -> tuple[int, int] | None:
        """Of a yes/no question, the least and the largest number of yes with this outcome; None where there is none."""

    def skip(self, rounds: int) -> None:
        """Count `rounds` quiet rounds read from a record."""

    def identity(self, query: Query) -> str:
        """A digest of the question's values on fixed public rows; it distinguishes unnamed questions."""

    def preview(self, query: Query) -> Preview:
        """What the public side alone predicts for a question, free of charge."""


@runtime_checkable
class ActingMechanism(Mechanism[P], Protocol[P]):
    """A mechanism with acts beyond asks: readings, and a budget that other acts are paid from."""

    @property
    def budget(self) -> Budget:
        """What has been disclosed, and what of δ has been spent."""

    def require_open(self) -> None:
        """Refuse once the last act was made."""

    def pay(self, budget: Budget) -> None:
        """Take over the budget after an act that is not made of rounds."""

    def preview(self, query: Query, *, read: RoundAct = READ) -> Preview:
        """What the public side alone predicts for a question; `read`: how it would be read."""

    def close(self) -> None:
        """Make the last act: nothing private is read again."""

    def count_interval(self, least: int, most: int, nats: float) -> tuple[float, float]:
        """All population shares, at a price, if the number of yes lies in this range."""
