"""everhold with each of its rules, and the paper's mechanism."""

from __future__ import annotations

from typing import Any

from everhold.games.play import CONTENDERS, GameTerms
from everhold.mechanism.aqa_ogd import AqaOgd
from everhold.mechanism.rules import Gradient
from everhold.mechanism.tolerance import Anytime
from everhold.session.holdout import Holdout
from everhold.session.session import Session

__all__ = ["aqa_ogd", "everhold"]


def everhold(seat: GameTerms, **settings: Any) -> Holdout:
    """A holdout with the game's prior, and its density if the prior has one."""
    return Holdout(seat.private, prior=seat.prior, confidence=seat.confidence, seed=seat.seed, **settings)


@CONTENDERS.add("everhold")
def corrective(seat: GameTerms) -> Holdout:
    """The default: the corrective rule."""
    return everhold(seat)


@CONTENDERS.add("everhold, set to 3 errors")
def three_errors(seat: GameTerms) -> Holdout:
    """The default with a tolerance of three standard errors of noise instead of four."""
    return everhold(seat, tolerance=Anytime(noise=3.0))


@CONTENDERS.add("everhold, gradient")
def gradient(seat: GameTerms) -> Holdout:
    """The gradient rule with Polyak's step."""
    return everhold(seat, rule="gradient")


@CONTENDERS.add("everhold, entropic")
def entropic(seat: GameTerms) -> Holdout:
    """The entropic rule."""
    return everhold(seat, rule="entropic")


@CONTENDERS.add("everhold, paper's step")
def paper_step(seat: GameTerms) -> Holdout:
    """The gradient rule with the paper's step, started at 0."""
    return everhold(seat, rule=Gradient(step="paper", start_at=0.0))


def aqa_ogd(seat: GameTerms, accuracy: float = 0.4) -> Session[Any]:
    """The paper's Algorithm 1, corrected, ε on the [-1, 1] scale."""
    return Holdout.with_mechanism(
        seat.private,
        lambda n: AqaOgd(
            rows=n,
            draw=seat.world.draw_prior,
            accuracy=accuracy,
            density=seat.world.density or 0.5,
            rounds=seat.rounds,
            failure_probability=1.0 - seat.confidence,
            seed=seat.seed,
        ),
    )


@CONTENDERS.add("AQA-OGD")
def _aqa_ogd(seat: GameTerms) -> Session[Any]:
    return aqa_ogd(seat)
