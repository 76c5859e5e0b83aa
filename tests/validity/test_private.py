"""Whole sessions of the private mechanism against analysts who try to make an interval miss: one miss counts.

A mechanism that misses in exactly a share δ of its sessions fails a test here with probability at most `FALSE_ALARM`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from everhold.bounds.privacy import Privacy
from everhold.errors import PrecisionExhausted
from everhold.games.mechanisms.own import private
from everhold.games.play import GameTerms, play
from everhold.games.singling_out import Keys
from everhold.ledger.act_prices import price_act
from everhold.ledger.rounds import ActStart
from everhold.mechanism.estimator import Draws, PoolEstimator
from everhold.mechanism.private import PrivateEverhold
from everhold.mechanism.rules import Corrective
from everhold.queries.grid import Sums
from tests.validity.bench import HALF, Bench, uncharged

SESSIONS, DELTA, FALSE_ALARM = 40, 0.05, 1e-3
PASS = int(binom.ppf(1.0 - FALSE_ALARM, SESSIONS, DELTA))


def generous(terms):
    return private(terms, Privacy(epsilon=3.0, delta=1e-9, surprises=20))


@pytest.mark.parametrize("analyst", ["threshold rider", "freedman", "surprise hunter"])
def test_sessions_miss_no_more_often_than_allowed(analyst):
    """Intervals are conservative, as those of plain studies: a check for blunders. The sharp ones are below."""
    missed = surprises = 0
    for seed in range(SESSIONS):
        game = play(analyst, generous, "noise" if analyst == "freedman" else "linear", rounds=60, seed=seed, rows=1_500)
        missed += game.missed > 0
        surprises += game.surprises
    assert missed <= PASS
    if analyst == "surprise hunter":
        assert surprises > SESSIONS  # private rows were used


class Loud:
    """Noise as large as can be: a test that is quiet up to the edge of what is hidden, a release at its tail."""

    def __init__(self, terms, sign):
        self._terms, self._sign = terms, sign

    def quiet(self, x):
        return x * self._terms.test_parts <= self._terms.hidden_parts(DELTA) - 1

    def step(self):
        per_row = 8
        return self._sign * (self._terms.shaken_parts(DELTA, 1) * per_row // 64)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_sample_itself_is_inside_whatever_noise_the_slack_allows_for(sign):
    """With noise at the edge of what the slack allows, every interval still holds the sample's own share.

    The control widens the edge by half: then intervals must miss the sample at a price of nearly nothing.
    """
    promise = Privacy(epsilon=3.0, delta=1e-9, surprises=20).terms
    missed = {"allowed": 0, "beyond": 0}
    for what in missed:
        for seed in range(6):
            rng = np.random.default_rng(seed)
            keys = Keys()
            rows = keys.draw(rng, 2_000)
            session = private(GameTerms(keys, rows, keys.prior(rng, 2_000), 10, 1 - DELTA, seed), promise.promise)
            loud = Loud(promise, sign)
            if what == "beyond":
                loud.quiet = lambda x: True
                loud.step = lambda: sign * 3 * (promise.shaken_parts(DELTA, 1) * 8 // 64)
            session.mechanism._source = loud
            for share in (0.02, 0.2, 0.5, 0.9):
                edge = np.uint64(int(share * 2.0**64))
                truth = float(np.mean(rows["key"] < edge))
                for expect in (truth, min(truth + 0.25, 1.0), max(truth - 0.25, 0.0)):
                    try:
                        answer = session.ask(lambda table, e=edge: table["key"] < e, expect=expect)
                    except PrecisionExhausted:
                        continue
                    missed[what] += not answer.low <= truth <= answer.high
    assert missed["allowed"] == 0
    assert missed["beyond"] > 5


def test_the_interval_is_about_the_population_and_not_about_the_sample():
    """Answers to a few questions in many sessions hold the population's share."""
    promise = Privacy(epsilon=3.0, delta=1e-9, surprises=20)
    missed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        keys = Keys()
        terms = GameTerms(keys, keys.draw(rng, 1_000), keys.prior(rng, 1_000), 10, 1 - DELTA, seed)
        session = private(terms, promise)
        inside = True
        for share in (0.1, 0.3, 0.5, 0.7):
            edge = np.uint64(int(share * 2.0**64))
            answer = session.ask(lambda table, e=edge: table["key"] < e)
            inside &= answer.low <= share <= answer.high
        missed += not inside
    assert missed <= int(binom.ppf(1.0 - FALSE_ALARM, 60, DELTA))


# all acts ---------------------------------------------------------------------------------------------------------------

LITTLE_NOISE = Privacy(epsilon=10.0, delta=1e-6, surprises=30).terms
"""So that what the acts disclose is about the sample, and the attack works where it is not charged."""


class UnlearningPrivate(PrivateEverhold):
    """The private mechanism over a sketch that never changes."""

    def _taught(self, before, proposal, outcome):
        return before


class PrivateBench(Bench):
    """One private session over rows of coins."""

    def __post_init__(self):
        estimator = PoolEstimator(Draws({}, 8, None, 8.0), Corrective())
        self.held = UnlearningPrivate(rows=self.n, estimator=estimator, terms=LITTLE_NOISE, failure_probability=self.delta)
        self.missed = False

    def best_of(self, candidates):
        """By the exponential mechanism."""
        count = candidates.shape[1]
        weights = [Fraction(1, count)] * count
        totals = [Sums.yes_no(int(yes), self.n).first for yes in candidates.sum(axis=0)]
        best = self.held.noise.choose(totals, weights)
        begun = ActStart("best_of", ({},) * count, {"weights": [str(weight) for weight in weights]})
        self.held.pay(price_act(self.held.budget, begun, best)[1])
        return best

    def is_better(self, one, other):
        """By the noisy test."""
        yes = self.held.says_yes(Fraction(int(one.sum()) - int(other.sum())))
        self.held.pay(price_act(self.held.budget, ActStart("is_better", (), {"by": 0.0}), yes)[1])
        return yes

    def last(self, bits):
        """A private study has no last act: a reading with all that is left of δ."""
        return self.read(bits, spend=Fraction(1))


def votes_of_all_acts(bench, acts):
    """Each act says something of the sample's coins; the vote of what they said is asked and read."""
    coins, signs = bench.coins(acts), np.zeros(acts)
    for j in range(acts):
        now = coins[:, j]
        match j % 5:
            case 0 | 1:
                signs[j] = np.sign(bench.read(now, spend=Fraction(1, 50)).value - 0.5)
            case 2:
                fresh = bench.coins(10)
                coins[:, j], signs[j] = fresh[:, bench.best_of(fresh)], 1.0
            case 3:
                signs[j] = 1.0 if bench.is_better(now, ~now) else -1.0
            case 4:
                edge = max(HALF - Fraction(bench.tolerance), Fraction(0))
                signs[j] = 1.0 if bench.ask(now, edge)[1] is not None else -1.0
    vote = bench.vote(coins, signs)
    bench.ask(vote, HALF)
    bench.last(vote)


def missed_sessions(sessions):
    """How many sessions have a wrong interval."""
    missed = 0
    for seed in range(sessions):
        bench = PrivateBench(np.random.default_rng(seed), n=10_000)
        votes_of_all_acts(bench, 60)
        missed += bench.missed
    return missed


def test_all_acts_of_a_private_session_are_charged_for_what_they_say():
    """Readings, choices, bits and surprises lead to one vote. Charged, intervals hold; uncharged, nearly all miss."""
    with uncharged():
        assert missed_sessions(10) >= 8, "the attack no longer works: it tests nothing"
    assert missed_sessions(SESSIONS) <= PASS
