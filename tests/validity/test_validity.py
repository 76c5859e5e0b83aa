"""Whole adaptive sessions against analysts who know the population and use every answer and every surprise.

A session misses if *any* of its intervals misses its truth; the theorem says that at most a share δ of sessions may. The
pass line is the binomial quantile at the stated false-alarm rate: a correct mechanism, even one that missed in exactly a
share δ of sessions, fails a test here with at most that probability. Positive controls run the same attacks against
mechanisms that must fail.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import everhold as eh
from everhold.bounds.code import Code
from tests.validity.attackers import ATTACKS, freedman, make_world, new_holdout, play, times_label

DELTA = 0.05
FALSE_ALARM = 1e-3
SESSIONS = 110
ROUNDS = {"threshold rider": 1500, "freedman": 500, "surprise hunter": 250}


def pass_line(sessions: int) -> int:
    """The most missed sessions that a mechanism with Pr[miss] = δ exceeds with probability at most FALSE_ALARM."""
    return int(binom.ppf(1.0 - FALSE_ALARM, sessions, DELTA))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ATTACKS))
def test_all_intervals_of_a_session_hold_together(name):
    """3 attacks × 110 sessions, n = 500 rows, anytime contract, corrective rule."""
    missed = surprises = 0
    for session in range(SESSIONS):
        rng = np.random.default_rng([session, len(name)])
        world = make_world(rng, atoms=1000, rows=500)
        miss, k = play(world, new_holdout(world, seed=session), ATTACKS[name], rng, ROUNDS[name])
        missed += miss
        surprises += k
    assert surprises > SESSIONS, "the attack no longer makes surprises: it tests nothing"
    assert missed <= pass_line(SESSIONS)


@pytest.mark.parametrize(
    "settings",
    [{"rule": "gradient"}, {"rule": "entropic"}, {"half_width": 0.2}, {"known_rows": 20}],
    ids=["gradient", "entropic", "fixed precision", "known rows"],
)
def test_every_rule_and_contract_is_valid(settings):
    """40 sessions each, two attacks; a fixed-precision holdout may stop by refusing."""
    sessions, missed = 40, 0
    for session in range(sessions):
        rng = np.random.default_rng([session, 77])
        world = make_world(rng, atoms=1000, rows=800)
        attack = ATTACKS["surprise hunter" if session % 2 else "freedman"]
        holdout = new_holdout(world, seed=session, **settings)
        miss, _ = play(world, holdout, attack, rng, 150)
        missed += miss
    assert missed <= pass_line(sessions)


class Uncharged(Code):
    """A code that forgets what surprises cost: the mechanism that must fail."""

    __slots__ = ()

    @property
    def nats(self):
        return Code().quiet(self.asks).nats

    def surprised(self, nats):
        return replace(self, asks=self.asks + 1, surprises=self.surprises + 1, last=self.asks + 1)


@pytest.mark.slow
def test_control_surprises_that_are_not_charged_are_fatal():
    """The same attack, the same mechanism, no charge: nearly every session misses; charged, none of the same ones."""
    outcomes = {}
    for charged in (True, False):
        outcomes[charged] = 0
        for session in range(8):
            rng = np.random.default_rng([session, 5])
            world = make_world(rng, atoms=2000, rows=1000)
            holdout = new_holdout(world, seed=session)
            if not charged:
                mechanism = holdout.session.mechanism
                budget = replace(mechanism.budget, code=Uncharged())
                mechanism._state = replace(mechanism._state, budget=budget)
            miss, _ = play(world, holdout, ATTACKS["threshold rider"], rng, 3000)
            outcomes[charged] += miss
    assert outcomes[False] >= 6
    assert outcomes[True] <= pass_line(8)


def test_control_plain_averages_are_fooled():
    """Freedman's vote against the sample's own means with an honest interval for a single question: every one misses."""
    missed = 0
    for session in range(10):
        rng = np.random.default_rng([session, 6])
        world = make_world(rng, atoms=1000, rows=500)
        width = np.sqrt(2.0 * np.log(2.0 * 1004 / DELTA) / world.rows)  # valid for 1,004 questions fixed in advance

        def answer(values, world=world, width=width):
            mean = float(np.where(world.f > 0, values[0], values[1])[world.picked].mean())
            return eh.Answer(mean, max(-1, mean - width), min(1, mean + width), False, 1, 0.0, "mean")

        analyst = freedman(world, None, rng, 1000)
        values, miss = next(analyst), False
        try:
            while True:
                told = answer(values)
                miss |= values.dtype != bool and world.truth(values) not in told.interval
                values = analyst.send(told)
        except StopIteration:
            missed += miss
    assert missed == 10


def test_control_one_unrecorded_bit_a_round_is_fatal():
    """The sign of v - u told for nothing in every quiet round: n = 500, d = 1000, every session misses."""
    missed = 0
    for session in range(5):
        rng = np.random.default_rng([session, 8])
        world = make_world(rng, atoms=1000, rows=500)
        holdout = new_holdout(world, seed=session)
        directions = np.where(rng.random((1000, 1000)) < 0.5, 1.0, -1.0)
        leaked = np.empty(1000)
        for j, r in enumerate(directions):
            values = times_label(r)
            told = world.ask(holdout, values)
            leaked[j] = np.sign(np.where(world.f > 0, values[0], values[1])[world.picked].mean() - told.value)
        vote = times_label(np.where(leaked @ directions >= 0.0, 1.0, -1.0))
        told = world.ask(holdout, vote)
        missed += world.truth(vote) not in told.interval
    assert missed == 5
