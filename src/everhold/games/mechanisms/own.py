"""everhold with each of its rules, and the paper's mechanism."""

from __future__ import annotations

from random import Random
from typing import Any

from everhold.bounds.privacy import Privacy
from everhold.games.play import MECHANISMS, GameTerms
from everhold.mechanism.aqa_ogd import AqaOgd
from everhold.mechanism.estimator import Draws, PoolEstimator
from everhold.mechanism.noise import SecretNoise
from everhold.mechanism.private import PrivateEverhold
from everhold.mechanism.rules import Gradient
from everhold.mechanism.tolerance import Anytime
from everhold.queries.rng import stream_rng
from everhold.session.holdout import Holdout
from everhold.session.session import Session
from everhold.session.settings import Settings

__all__ = ["aqa_ogd", "everhold", "private"]


def everhold(terms: GameTerms, **settings: Any) -> Holdout:
    """A holdout with the game's prior, and its density if the prior has one."""
    return Holdout(terms.private, prior=terms.prior, confidence=terms.confidence, seed=terms.seed, **settings)


@MECHANISMS.add("everhold")
def corrective(terms: GameTerms) -> Holdout:
    """The default: the corrective rule."""
    return everhold(terms)


@MECHANISMS.add("everhold, set to 3 errors")
def three_errors(terms: GameTerms) -> Holdout:
    """The default with a tolerance of three standard errors of noise instead of four."""
    return everhold(terms, tolerance=Anytime(deviations=3.0))


@MECHANISMS.add("everhold, gradient")
def gradient(terms: GameTerms) -> Holdout:
    """The gradient rule with Polyak's step."""
    return everhold(terms, rule="gradient")


@MECHANISMS.add("everhold, entropic")
def entropic(terms: GameTerms) -> Holdout:
    """The entropic rule."""
    return everhold(terms, rule="entropic")


@MECHANISMS.add("everhold, paper's step")
def paper_step(terms: GameTerms) -> Holdout:
    """The gradient rule with the paper's step, started at 0."""
    return everhold(terms, rule=Gradient(step="paper", start_at=0.0))


def private(terms: GameTerms, privacy: Privacy | None = None) -> Session[Any]:
    """A private study's mechanism over a game's rows, which are made up: its noise is seeded, and a game can be repeated.

    A real private study is durable, takes text only and draws its noise from the operating system.
    """
    promise = (privacy or Privacy(epsilon=1.0, delta=1e-9, surprises=20)).terms
    pool = terms.prior.pool(stream_rng(terms.seed, "pool"))
    draws = Draws.of(pool)
    coins = Random(f"noise of game {terms.seed}")
    return Holdout.with_mechanism(
        terms.private,
        lambda n: PrivateEverhold(
            rows=n,
            estimator=PoolEstimator(draws, Settings().make_rule(terms.prior.density)),
            terms=promise,
            failure_probability=1.0 - terms.confidence,
            noise=SecretNoise(promise, coins.getrandbits),
        ),
    )


@MECHANISMS.add("everhold, private")
def _private(terms: GameTerms) -> Session[Any]:
    return private(terms)


def aqa_ogd(terms: GameTerms, accuracy: float = 0.4) -> Session[Any]:
    """The paper's Algorithm 1, corrected, ε on the [-1, 1] scale."""
    return Holdout.with_mechanism(
        terms.private,
        lambda n: AqaOgd(
            rows=n,
            draw=terms.world.draw_prior,
            accuracy=accuracy,
            density=terms.world.density or 0.5,
            rounds=terms.rounds,
            failure_probability=1.0 - terms.confidence,
            seed=terms.seed,
        ),
    )


@MECHANISMS.add("AQA-OGD")
def _aqa_ogd(terms: GameTerms) -> Session[Any]:
    return aqa_ogd(terms)


@MECHANISMS.add("everhold, asks only")
def asks_only(terms: GameTerms) -> Session[Any]:
    """The default without readings, choices and verdicts: every question of an act is asked."""
    session: Session[Any] = everhold(terms).session
    return session
