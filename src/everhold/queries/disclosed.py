"""What acts return that disclose something other than a value: which one is best, one bit, a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, log, sqrt
from typing import Any, Literal

from everhold.results import JsonResult

__all__ = ["Choice", "Decision", "Verdict", "width_factor", "width_text"]


@dataclass(frozen=True, slots=True)
class Choice(JsonResult):
    """Which of several questions has the largest value on the private rows. Nothing else is disclosed.

    Attributes:
        index: its place in the list, the first being 0.
        candidates: how many there were.
        disclosed: everything disclosed so far, in nats, this choice included.
        noisy: whether it was made with noise, in a private study: it is about the largest.
    """

    index: int
    candidates: int
    disclosed: float
    noisy: bool = False

    def __index__(self) -> int:
        return self.index

    def __str__(self) -> str:
        best = "about the best" if self.noisy else "best"
        return (
            f"number {self.index + 1:,} of {self.candidates:,} (index {self.index}) is {best} on the private rows "
            f"({self.disclosed:.1f} nats disclosed so far)"
        )

    def __repr__(self) -> str:
        return f"Choice({self})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        entries = {"kind": "choice", "index": self.index, "candidates": self.candidates, "disclosed": self.disclosed}
        return {**entries, "noisy": True} if self.noisy else entries

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Choice:
        """The same again, equal to the bit."""
        return cls(given["index"], given["candidates"], float(given["disclosed"]), given.get("noisy", False))


@dataclass(frozen=True, slots=True)
class Decision(JsonResult):
    """Whether one question's value is larger than another's on the private rows, by more than a margin. One bit.

    It says nothing certain about the population: `compare` does.

    Attributes:
        yes: whether it is.
        disclosed: everything disclosed so far, in nats, this bit included.
        noisy: whether it was made with noise, in a private study: near the margin it may be either.
    """

    yes: bool
    disclosed: float
    noisy: bool = False

    def __bool__(self) -> bool:
        return self.yes

    def __str__(self) -> str:
        where = "on the private rows, up to noise" if self.noisy else "on the private rows"
        return f"{'yes' if self.yes else 'no'}, {where} ({self.disclosed:.1f} nats disclosed so far)"

    def __repr__(self) -> str:
        return f"Decision({self})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        entries = {"kind": "decision", "yes": self.yes, "disclosed": self.disclosed}
        return {**entries, "noisy": True} if self.noisy else entries

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Decision:
        """The same again, equal to the bit."""
        return cls(given["yes"], float(given["disclosed"]), given.get("noisy", False))


@dataclass(frozen=True, slots=True)
class Verdict(JsonResult):
    """A certified verdict about the population: which of two is larger, or that the rows do not show it.

    Valid at the same time as every interval and every other verdict of the session.

    Attributes:
        outcome: 'first', 'second' or 'neither'.
        price: the price in nats that it was judged at.
    """

    outcome: Literal["first", "second", "neither"]
    price: float

    @property
    def verdict(self) -> Literal["yes", "no", "cannot tell"]:
        """Whether the first is larger than the second."""
        verdicts: dict[str, Literal["yes", "no", "cannot tell"]] = {"first": "yes", "second": "no"}
        return verdicts.get(self.outcome, "cannot tell")

    def __str__(self) -> str:
        sentences = {
            "first": "yes: the first is larger",
            "second": "no: the second is larger",
            "neither": "cannot tell: the private rows do not show which is larger",
        }
        return f"{sentences[self.outcome]} (judged at {self.price:.1f} nats)"

    def __repr__(self) -> str:
        return f"Verdict({self})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"kind": "verdict", "outcome": self.outcome, "verdict": self.verdict, "price": self.price}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Verdict:
        """The same again, equal to the bit."""
        return cls(given["outcome"], float(given["price"]))


def width_factor(nats: float) -> float:
    """How many times wider than a plain 95 % interval an interval at this price is, for many rows: z(e^-nats) / 1.96.

    For showing only. z(p) is where a standard normal exceeds with probability p.

    >>> round(width_factor(3.689), 2), round(width_factor(11.4), 2), round(width_factor(100.0), 2)
    (1.0, 2.16, 7.09)
    """
    if nats <= log(2.0):
        return 0.0
    low, high = 0.0, sqrt(2.0 * nats)
    if nats > 600.0:
        return high / 1.959964
    for _ in range(60):
        z = 0.5 * (low + high)
        if -log(0.5 * erfc(z / sqrt(2.0))) < nats:
            low = z
        else:
            high = z
    return high / 1.959964


def width_text(nats: float) -> str:
    """What a price means, in words."""
    return f"the next reading of a share: {width_factor(nats):.1f} times a plain 95 % interval; other answers are wider"
