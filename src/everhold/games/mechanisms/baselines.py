"""The baselines with settings for the game: those proved for its length, or those used in practice."""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Any

from everhold.baselines import (
    BaselineMechanism,
    Empirical,
    GaussianNoise,
    GuessAndCheck,
    Ladder,
    MultiplicativeWeights,
    Policy,
    Splitting,
    Subsampling,
    Thresholdout,
)
from everhold.games.play import MECHANISMS, GameTerms
from everhold.priors.pool import Pool
from everhold.queries.rng import stream_rng
from everhold.session.holdout import Holdout
from everhold.session.session import Session

__all__ = ["baseline_session"]


def baseline_session(terms: GameTerms, policy: Policy, public: Pool | None = None) -> Session[Any]:
    """A holdout with a baseline; its public rows are the game's, or an explicit domain."""
    rows = terms.prior.pool(stream_rng(terms.seed, "pool")) if public is None else public
    return Holdout.with_mechanism(
        terms.private,
        lambda n: BaselineMechanism(policy, rows=n, public=rows, failure_probability=1.0 - terms.confidence),
    )


@MECHANISMS.add("empirical mean")
def empirical(terms: GameTerms) -> Session[Any]:
    """The exact means of the sample."""
    return baseline_session(terms, Empirical())


@MECHANISMS.add("rounded mean")
def rounded(terms: GameTerms) -> Session[Any]:
    """The sample's means, rounded to two hundredths."""
    return baseline_session(terms, Empirical(step=0.02))


@MECHANISMS.add("sample splitting")
def splitting(terms: GameTerms) -> Session[Any]:
    """Fresh rows for every question."""
    return baseline_session(terms, Splitting(rounds=terms.rounds, seed=terms.seed))


@MECHANISMS.add("subsampling")
def subsampling(terms: GameTerms) -> Session[Any]:
    """A new random tenth of the rows for every question."""
    return baseline_session(terms, Subsampling(size=max(1, terms.private.size // 10), seed=terms.seed))


@MECHANISMS.add("Gaussian noise")
def gaussian(terms: GameTerms) -> Session[Any]:
    """Gaussian noise, set for the narrowest guarantee."""
    return baseline_session(terms, GaussianNoise(rounds=terms.rounds, seed=terms.seed))


@MECHANISMS.add("Thresholdout")
def thresholdout(terms: GameTerms) -> Session[Any]:
    """As in the published experiment: Gaussian noise, T = 4/√n, σ = 1/√n. These settings have no guarantee."""
    error = terms.private.size**-0.5
    return baseline_session(terms, Thresholdout(4.0 * error, error, shape="gaussian", seed=terms.seed))


@MECHANISMS.add("Thresholdout, proved")
def thresholdout_proved(terms: GameTerms) -> Session[Any]:
    """With the settings of its theorem, for up to twenty questions that overfit."""
    delta = 1.0 - terms.confidence
    policy = Thresholdout.proved(
        rows=terms.private.size, rounds=terms.rounds, budget=20, failure_probability=delta, seed=terms.seed
    )
    return baseline_session(terms, policy)


@MECHANISMS.add("Guess and Check, empirical")
def guess_and_check(terms: GameTerms) -> Session[Any]:
    """±0.1; the guesses are the means of the public rows."""
    return baseline_session(terms, GuessAndCheck(half_width=0.1, seed=terms.seed))


@MECHANISMS.add("Guess and Check, Gaussian")
def guess_and_check_gaussian(terms: GameTerms) -> Session[Any]:
    """±0.1; the guesses have a little noise, so that they overfit less."""
    return baseline_session(terms, GuessAndCheck(half_width=0.1, deviation=0.02, seed=terms.seed))


def narrow(terms: GameTerms, errors: float) -> Session[Any]:
    """The narrowest half-width at which T right guesses pass: `errors` standard errors, and the price of no failure."""
    n, public = terms.private.size, terms.prior.pool(stream_rng(terms.seed, "pool"))
    nats = log(2.0 * (pi**2 / 6.0) ** 2 * terms.rounds**2 / (1.0 - terms.confidence))
    width = sqrt(nats / (2.0 * n)) + 0.5 * errors * sqrt(1.0 / n + 1.0 / public.draws)
    return baseline_session(terms, GuessAndCheck(half_width=min(width, 0.5), seed=terms.seed), public)


@MECHANISMS.add("Guess and Check, set to 3 errors")
def guess_and_check_three(terms: GameTerms) -> Session[Any]:
    """The half-width allows guesses that are off by three standard errors."""
    return narrow(terms, 3.0)


@MECHANISMS.add("Guess and Check, set to 4 errors")
def guess_and_check_four(terms: GameTerms) -> Session[Any]:
    """The half-width allows guesses that are off by four standard errors, like everhold's tolerance."""
    return narrow(terms, 4.0)


@MECHANISMS.add("multiplicative weights")
def multiplicative_weights(terms: GameTerms) -> Session[Any]:
    """Over the explicit domain, with a threshold and noise as used in practice, which have no guarantee."""
    policy = MultiplicativeWeights(rounds=terms.rounds, threshold=0.04, deviation=0.002, seed=terms.seed)
    return baseline_session(terms, policy, terms.world.domain())


@MECHANISMS.add("multiplicative weights, proved")
def multiplicative_weights_proved(terms: GameTerms) -> Session[Any]:
    """Over the explicit domain, with the settings of its theorem."""
    domain, delta = terms.world.domain(), 1.0 - terms.confidence
    policy = MultiplicativeWeights.proved(
        rows=terms.private.size, rounds=terms.rounds, domain=domain.size, failure_probability=delta, seed=terms.seed
    )
    return baseline_session(terms, policy, domain)


@MECHANISMS.add("Ladder")
def ladder(terms: GameTerms) -> Session[Any]:
    """For losses only: its answers are about the best question so far."""
    return baseline_session(terms, Ladder(step=min(max(terms.private.size**-0.5, 1e-4), 0.5)))
