"""A control: everhold with every act and without its prices. Attacks that fail against everhold must succeed against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from everhold.bounds.code import Code
from everhold.games.mechanisms.own import everhold
from everhold.games.play import MECHANISMS, GameTerms
from everhold.session.holdout import Holdout

__all__ = ["UNCHARGED", "uncharged"]

UNCHARGED = "nothing charged (a control)"


@dataclass(frozen=True, slots=True)
class _FreeCode(Code):
    """What is disclosed costs nothing: P = 1 always."""

    def quiet(self, asks: int = 1) -> _FreeCode:
        """After quiet asks."""
        return replace(self, asks=self.asks + asks)

    @property
    def nats(self) -> float:
        """Nothing."""
        return 0.0


@MECHANISMS.add(UNCHARGED)
def uncharged(terms: GameTerms) -> Holdout:
    """everhold's mechanism whose later intervals do not pay for what was disclosed. They are not valid."""
    holdout = everhold(terms)
    build: Callable[[], Any] = holdout.session.first_state

    def free() -> Any:
        mechanism = build()
        mechanism.pay(replace(mechanism.budget, code=_FreeCode()))
        return mechanism

    holdout.session.first_state = free
    holdout.mechanism.pay(replace(holdout.budget, code=_FreeCode()))
    return holdout
