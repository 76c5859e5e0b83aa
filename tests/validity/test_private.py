"""Whole sessions of the private mechanism against analysts who try to make an interval miss: one miss counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from everhold.bounds.privacy import Privacy
from everhold.errors import PrecisionExhausted
from everhold.games.mechanisms.own import private
from everhold.games.play import GameTerms, play
from everhold.games.singling_out import Keys

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
    """Readings of many questions in many sessions: they hold the population's share, and are wider than the noise."""
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
