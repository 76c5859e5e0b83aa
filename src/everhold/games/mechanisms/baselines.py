"""The baselines with settings for the game: those proved for its length, or those used in practice."""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Any

from everhold.baselines import (
    Empirical,
    GaussianNoise,
    GuessAndCheck,
    Ladder,
    MultiplicativeWeights,
    Policy,
    Rival,
    Splitting,
    Subsampling,
    Thresholdout,
)
from everhold.games.play import CONTENDERS, GameTerms
from everhold.priors.pool import Pool
from everhold.queries.rng import stream_rng
from everhold.session.holdout import Holdout
from everhold.session.session import Session

__all__ = ["seated"]


def seated(seat: GameTerms, policy: Policy, public: Pool | None = None) -> Session[Any]:
    """A holdout with a baseline; its public rows are the game's, or an explicit domain."""
    rows = seat.prior.pool(stream_rng(seat.seed, "pool")) if public is None else public
    return Holdout.with_mechanism(
        seat.private, lambda n: Rival(policy, rows=n, public=rows, failure_probability=1.0 - seat.confidence)
    )


@CONTENDERS.add("empirical mean")
def empirical(seat: GameTerms) -> Session[Any]:
    """The exact means of the sample."""
    return seated(seat, Empirical())


@CONTENDERS.add("rounded mean")
def rounded(seat: GameTerms) -> Session[Any]:
    """The sample's means, rounded to two hundredths."""
    return seated(seat, Empirical(step=0.02))


@CONTENDERS.add("sample splitting")
def splitting(seat: GameTerms) -> Session[Any]:
    """Fresh rows for every question."""
    return seated(seat, Splitting(rounds=seat.rounds, seed=seat.seed))


@CONTENDERS.add("subsampling")
def subsampling(seat: GameTerms) -> Session[Any]:
    """A new random tenth of the rows for every question."""
    return seated(seat, Subsampling(size=max(1, seat.private.size // 10), seed=seat.seed))


@CONTENDERS.add("Gaussian noise")
def gaussian(seat: GameTerms) -> Session[Any]:
    """Gaussian noise, set for the narrowest guarantee."""
    return seated(seat, GaussianNoise(rounds=seat.rounds, seed=seat.seed))


@CONTENDERS.add("Thresholdout")
def thresholdout(seat: GameTerms) -> Session[Any]:
    """As in the published experiment: Gaussian noise, T = 4/√n, σ = 1/√n. These settings have no guarantee."""
    error = seat.private.size**-0.5
    return seated(seat, Thresholdout(4.0 * error, error, shape="gaussian", seed=seat.seed))


@CONTENDERS.add("Thresholdout, proved")
def thresholdout_proved(seat: GameTerms) -> Session[Any]:
    """With the settings of its theorem, for up to twenty questions that overfit."""
    delta = 1.0 - seat.confidence
    policy = Thresholdout.proved(
        rows=seat.private.size, rounds=seat.rounds, budget=20, failure_probability=delta, seed=seat.seed
    )
    return seated(seat, policy)


@CONTENDERS.add("Guess and Check, empirical")
def guess_and_check(seat: GameTerms) -> Session[Any]:
    """±0.1; the guesses are the means of the public rows."""
    return seated(seat, GuessAndCheck(half_width=0.1, seed=seat.seed))


@CONTENDERS.add("Guess and Check, Gaussian")
def guess_and_check_gaussian(seat: GameTerms) -> Session[Any]:
    """±0.1; the guesses have a little noise, so that they overfit less."""
    return seated(seat, GuessAndCheck(half_width=0.1, deviation=0.02, seed=seat.seed))


def narrow(seat: GameTerms, errors: float) -> Session[Any]:
    """The narrowest half-width at which T right guesses pass: `errors` standard errors, and the price of no failure."""
    n, public = seat.private.size, seat.prior.pool(stream_rng(seat.seed, "pool"))
    nats = log(2.0 * (pi**2 / 6.0) ** 2 * seat.rounds**2 / (1.0 - seat.confidence))
    width = sqrt(nats / (2.0 * n)) + 0.5 * errors * sqrt(1.0 / n + 1.0 / public.draws)
    return seated(seat, GuessAndCheck(half_width=min(width, 0.5), seed=seat.seed), public)


@CONTENDERS.add("Guess and Check, set to 3 errors")
def guess_and_check_three(seat: GameTerms) -> Session[Any]:
    """The half-width allows guesses that are off by three standard errors."""
    return narrow(seat, 3.0)


@CONTENDERS.add("Guess and Check, set to 4 errors")
def guess_and_check_four(seat: GameTerms) -> Session[Any]:
    """The half-width allows guesses that are off by four standard errors, like everhold's tolerance."""
    return narrow(seat, 4.0)


@CONTENDERS.add("multiplicative weights")
def multiplicative_weights(seat: GameTerms) -> Session[Any]:
    """Over the explicit domain, with a threshold and noise as used in practice, which have no guarantee."""
    policy = MultiplicativeWeights(rounds=seat.rounds, threshold=0.04, deviation=0.002, seed=seat.seed)
    return seated(seat, policy, seat.world.domain())


@CONTENDERS.add("multiplicative weights, proved")
def multiplicative_weights_proved(seat: GameTerms) -> Session[Any]:
    """Over the explicit domain, with the settings of its theorem."""
    domain, delta = seat.world.domain(), 1.0 - seat.confidence
    policy = MultiplicativeWeights.proved(
        rows=seat.private.size, rounds=seat.rounds, domain=domain.size, failure_probability=delta, seed=seat.seed
    )
    return seated(seat, policy, domain)


@CONTENDERS.add("Ladder")
def ladder(seat: GameTerms) -> Session[Any]:
    """For losses only: its answers are about the best question so far."""
    return seated(seat, Ladder(step=min(max(seat.private.size**-0.5, 1e-4), 0.5)))
