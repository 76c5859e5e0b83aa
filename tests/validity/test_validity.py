"""Whole adaptive sessions against analysts who know the population and use every answer and every surprise.

A session misses if *any* of its intervals misses its truth; the theorem says that at most a share δ of sessions may. The
pass line is the binomial quantile at the stated false-alarm rate: a correct mechanism, even one that missed in exactly a
share δ of sessions, fails a test here with at most that probability. Positive controls run attacks against mechanisms
that must fail: plain averages here, and everhold without charges in `test_sessions`.
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
ROUNDS = {"threshold rider": 500, "freedman": 500, "surprise hunter": 250}


def pass_line(sessions: int) -> int:
    """The most missed sessions that a mechanism with Pr[miss] = δ exceeds with probability at most FALSE_ALARM."""
    return int(binom.ppf(1.0 - FALSE_ALARM, sessions, DELTA))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ATTACKS))
def test_all_intervals_of_a_session_hold_together(name):
    """3 attacks × 110 sessions, n = 500 rows, anytime policy, corrective rule."""
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
    """A code that forgets what readings disclosed: the mechanism that must fail."""

    __slots__ = ()

    def disclosed(self, nats):
        return self


def test_control_readings_that_are_not_charged_are_fatal():
    """Three hundred readings of noise, then their vote, read: not charged, nearly every session misses; charged, none."""
    outcomes = {True: 0, False: 0}
    for charged in outcomes:
        for session in range(8):
            rng = np.random.default_rng([session, 5])
            rows, public = ({"x": rng.random((size, 300)) < 0.5, "y": rng.random(size) < 0.5} for size in (500, 500))
            holdout = eh.Holdout(rows, prior=eh.Reference(public), seed=session)
            if not charged:
                mechanism = holdout.session.mechanism
                mechanism._state = replace(mechanism._state, budget=replace(mechanism.budget, code=Uncharged()))
            reads = holdout.read_many([lambda some, j=j: some["x"][:, j] == some["y"] for j in range(300)])
            signs = np.array([1.0 if answer.value > 0.5 else -1.0 for answer in reads])

            def vote(some, signs=signs):
                return ((2.0 * some["x"] - 1.0) @ signs + 0.5 > 0) == some["y"]

            outcomes[charged] += 0.5 not in holdout.read(vote).interval
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
