"""Games with acts: everhold does each, baselines are asked in their place, and every game replays without the sample."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import everhold as eh
from everhold.acts import ACTS, BestOf, Certify, Close, CompareTwo, IsBetter, Read, ReadMany
from everhold.games import MECHANISMS, Asked, play
from everhold.games.analysts.act_attackers import ACT_ATTACKS
from everhold.games.analysts.actors import REPORTED
from everhold.games.analysts.overfitters import agrees, random_signs
from everhold.games.mechanisms.controls import UNCHARGED
from everhold.games.worlds.made import labelled, linear

DELTA, FALSE_ALARM = 0.05, 1e-3


def label(rows):
    return rows["y"] > 0


def everything(seen):
    """An analyst who does every act once, and keeps what it is sent."""

    def program(view):
        coins = [agrees(random_signs(view)) for _ in range(6)]
        asked = yield Asked(coins[0], 0.5)
        moves = [Certify(asked.round), Read(coins[1]), ReadMany(coins[:3]), BestOf(coins), IsBetter(*coins[:2])]
        moves += [CompareTwo(label, lambda rows: rows["y"] > 5), CompareTwo(*coins[:2]), Close([coins[4]])]
        seen.append(asked)
        for move in moves:
            seen.append((yield move))
        assert {type(move).name for move in moves} == set(ACTS)

    return program


@pytest.mark.parametrize("mechanism", ["everhold", "everhold, asks only", "empirical mean", UNCHARGED])
def test_every_act_and_its_replay(mechanism):
    seen = []
    game = play(everything(seen), mechanism, "noise", 60, 3, rows=1000)
    own = mechanism in ("everhold", UNCHARGED)
    certified, read, batch, choice, bit, sure, unsure, last = seen[1:]
    assert choice.candidates == 6
    assert isinstance(bool(bit), bool)
    assert sure.verdict == "yes"
    assert unsure.verdict == "cannot tell"
    assert [len(one) for one in (batch, last)] == [3, 1]
    assert (read.act == "read") is own
    assert certified.round == 1
    assert game.asked == 1 + 1 + 1 + 3 + 6 + 2 + 2 + 2 + 1
    assert len(game.answers) == (7 if own else 18 + 1), "candidates have no answer of their own, unless they are asked"
    assert game.missed == 0
    assert game.reported_width == max(np.array(game.half_widths)[list(game.reported)])
    first = list(seen)
    seen.clear()
    assert game.replay() == game.answers
    assert seen == first, "the analyst is sent the same again"


def test_the_choice_is_the_best_on_the_private_rows():
    """By everhold: the index alone. A mechanism that answers exactly and is asked names the same."""
    chosen = []

    def program(view):
        choice = yield BestOf([agrees(random_signs(view)) for _ in range(30)])
        chosen.append(choice.index)

    for mechanism in ("everhold", "empirical mean"):
        game = play(program, mechanism, "noise", 40, 5, rows=300)
        assert game.asked == 30
    assert chosen[0] == chosen[1]


def test_an_act_counts_its_questions():
    """A game of 20 questions has no room for a batch of 25: it ends before, for every mechanism."""

    def program(view):
        yield label
        yield ReadMany([agrees(random_signs(view)) for _ in range(25)])

    for mechanism in ("everhold", "sample splitting"):
        game = play(program, mechanism, "labelled", 20, 1, rows=400)
        assert (game.asked, game.rounds) == (1, 1)
        assert game.reported_width == 0.5


def test_a_wrong_verdict_is_a_miss():
    def program(view):
        yield CompareTwo(label, lambda rows: rows["y"] < 5)

    def upside_down(terms):
        made = MECHANISMS["everhold"](terms)
        made.compare = lambda *_: eh.Verdict("first", 1.0)
        return made

    assert play(program, "everhold", "labelled", 5, 1, rows=400).missed == 0
    assert play(program, upside_down, "labelled", 5, 1, rows=400).missed == 1


@pytest.mark.parametrize("mechanism", ["everhold", "empirical mean"])
def test_nothing_follows_the_last_act(mechanism):
    def program(view):
        yield Close([label])
        yield label

    with pytest.raises(eh.HoldoutClosed):
        play(program, mechanism, "labelled", 10, 1, rows=200)


def test_what_is_read_is_narrower_than_what_is_asked():
    """The same analysts with readings and choices, and with asks in their place."""
    for analyst, ratio in (("asks, then reads", 0.8), ("generations", 0.6)):
        with_acts, asks = (play(analyst, name, linear(1), 301, 1, rows=2000) for name in ("everhold", "everhold, asks only"))
        assert with_acts.asked == asks.asked == 301
        assert with_acts.missed == asks.missed == 0
        assert len(with_acts.reported) == (REPORTED if analyst == "asks, then reads" else 1)
        assert with_acts.reported_width < ratio * asks.reported_width


def test_generations_find_a_good_model():
    game = play("generations", "everhold", linear(1), 501, 2, rows=4000)
    assert game.answers[-1].value > 0.75, "a random half-space is right about half of the rows"


@pytest.mark.parametrize("attack", list(ACT_ATTACKS))
def test_attacks_with_acts(attack):
    """A dozen sessions against everhold: as many misses as 5 % allow, at a false-alarm rate of 1e-3 each.

    The control: the same mechanism without prices misses in at least four of five."""
    missed = sum(play(attack, "everhold", "noise", 101, seed, rows=300).missed > 0 for seed in range(12))
    free = sum(play(attack, UNCHARGED, "noise", 101, seed, rows=300).missed > 0 for seed in range(5))
    assert missed <= binom.ppf(1.0 - FALSE_ALARM, 12, DELTA)
    assert free >= 4, "the attack no longer works: it tests nothing"


def test_a_replay_of_another_program_is_found():
    answers = []

    def fickle(view):
        answers.append(1)
        yield label if len(answers) == 1 else (lambda rows: rows["x"][:, 0] > 0)

    game = play(fickle, "everhold", labelled(1), 5, 1, rows=200)
    with pytest.raises(eh.ReplayError, match="not the one that was asked"):
        game.replay()
