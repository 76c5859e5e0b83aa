"""How a round is asked: checked quietly, read, or read in the last act."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from everhold.errors import QuestionError

__all__ = ["ASK", "READ", "ActKind", "RoundAct", "require_ask"]

ActKind = Literal["ask", "read", "close"]


@dataclass(frozen=True, slots=True)
class RoundAct:
    """How a round is asked.

    Attributes:
        kind: 'ask' (the sketch answers unless the private rows disagree), 'read' (the private rows' own value), or 'close'
            (a reading in the last act).
        parts, part: how many readings of a batch share a price, and which of them this is, from 1.
        spend: of what is left of δ for readings, the part that the batch spends; None: by the number of claims so far.
        expect: a forecast in place of the sketch's, on the answer's scale.
    """

    kind: ActKind = "ask"
    parts: int = 1
    part: int = 1
    spend: Fraction | None = None
    expect: float | None = None


ASK = RoundAct()
"""A plain question."""
READ = RoundAct("read")
"""A plain reading."""


def require_ask(act: RoundAct) -> None:
    """For mechanisms other than everhold's own: they know plain asks only."""
    if act != ASK:
        raise QuestionError(f"this mechanism answers asks only, not {act.kind!r} or expect=.")
