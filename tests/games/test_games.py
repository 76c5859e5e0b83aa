"""Games: every analyst, every mechanism, worlds whose truth is what they say, and replays without the sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import everhold as eh
from everhold.games import ANALYSTS, MECHANISMS, WORLDS, Asked, atoms_of, load, play
from everhold.games.singling_out import single_out
from everhold.games.worlds.made import dense, labelled, noise
from everhold.games.worlds.table import real_table

FALSE_ALARM = 1e-3


class TestWorlds:
    @pytest.mark.parametrize("name", list(WORLDS))
    def test_the_truth_is_the_mean_of_many_draws(self, name):
        """20,000 draws: five standard errors, so a right world fails with probability below 1e-5 for the four questions."""
        world = WORLDS[name](3)
        drawn = world.draw(np.random.default_rng(0), 20_000)
        for question in (
            lambda r: r["y"] > 0,
            lambda r: r["x"][:, 0] > 0,
            lambda r: (r["x"][:, 1] > 0) == (r["y"] > 0),
            lambda r: r["i"] % 3 == 0,
        ):
            assert abs(np.mean(question(drawn)) - world.truth(question)) < 5 * 0.5 / np.sqrt(20_000)

    @pytest.mark.parametrize("density", [1.0, 0.5, 0.2, 0.05])
    def test_dense_worlds_are_as_dense_as_they_say(self, density):
        world = dense(1, density)
        ratio = world.weights / world.prior_weights
        assert ratio.max() == pytest.approx(1.0 / density, rel=1e-2)
        assert world.chi_square <= 1.0 / density - 1.0 + 0.05

    def test_labels_cost_one_chi_square(self):
        assert labelled(1).chi_square == pytest.approx(1.0)
        assert noise(1).chi_square == pytest.approx(0.0, abs=1e-9)

    def test_chi_square_by_hand(self):
        """One kind of row, labels 7 to 3: (0.7² + 0.3²)/0.5 - 1; and a prior that rules out what there is."""
        x, y, same = np.ones((2, 1)), np.array([-1, 1]), np.zeros(2, int)
        uneven = atoms_of("uneven", x, y, weights=np.array([0.7, 0.3]), index=same)
        assert uneven.chi_square == pytest.approx((0.49 + 0.09) / 0.5 - 1.0)
        impossible = atoms_of("impossible", x, y, prior_weights=np.array([1.0, 0.0]), labelled=True)
        assert impossible.chi_square == float("inf")

    @pytest.mark.parametrize("name", list(WORLDS))
    def test_priors_are_of_one_kind_with_the_rows(self, name):
        world, rng = WORLDS[name](1), np.random.default_rng(0)
        private = world.draw(rng, 50)
        pool, single, domain = world.prior(rng, 40).pool(rng), world.draw_prior(rng, 30), world.domain()
        assert set(private) == set(pool.rows) == set(single) == set(domain.rows)
        assert domain.weights.sum() == pytest.approx(1.0)
        assert single.size == 30

    def test_a_real_table_is_its_own_population(self):
        rng = np.random.default_rng(0)
        table = {"a": rng.normal(size=300), "b": rng.integers(0, 5, 300), "late": rng.normal(size=300)}
        table["a"][7] = np.nan
        world = real_table(table, label="late", above=0.0)
        whole = np.isfinite(table["a"])
        assert world.rows.size == 299
        assert world.truth(lambda r: r["y"] > 0) == pytest.approx((table["late"][whole] > 0).mean())
        with pytest.raises(eh.SettingError, match="no numeric column 'lat'"):
            real_table(table, label="lat", above=0.0)


def place_for(analyst):
    return noise(1, atoms=4096) if "rogers" in analyst or "ladder" in analyst else labelled(1)


@pytest.mark.parametrize("analyst", list(ANALYSTS))
def test_every_analyst_against_everhold(analyst):
    """A dozen sessions each: every interval holds in all but what chance allows, and a game replays without the sample."""
    sessions, missed = 12, 0
    for seed in range(sessions):
        game = play(analyst, "everhold", place_for(analyst), rounds=60, seed=seed, rows=400)
        assert 1 <= game.rounds <= 60
        missed += game.missed > 0
    assert missed <= binom.ppf(1.0 - FALSE_ALARM, sessions, 0.05)
    assert game.replay() == game.answers


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
def test_every_mechanism_plays_and_replays(mechanism):
    analyst = "ladder boosting" if mechanism == "Ladder" else "freedman"
    game = play(analyst, mechanism, "labelled", rounds=40, seed=2, rows=1500)
    assert game.rounds >= 1
    assert game.replay() == game.answers
    assert game.mechanism == mechanism
    assert str(game.rounds) in str(game)


def test_a_replay_has_no_sample(monkeypatch):
    game = play("surprise hunter", "everhold", "linear", rounds=80, seed=4, rows=500)
    assert game.surprises > 0

    def never(*_, **__):
        raise AssertionError("the private rows were read")

    monkeypatch.setattr("everhold.data.sample.Sample.sums", never)
    monkeypatch.setattr("everhold.data.sample.Sample.sums", never)
    assert game.replay() == game.answers


def test_a_game_is_a_function_of_its_seed():
    first, again, other = (play("freedman", "Gaussian noise", "tree", 50, seed, rows=300) for seed in (1, 1, 2))
    assert first.answers == again.answers
    assert first.answers != other.answers


@pytest.mark.parametrize(
    ("analyst", "rounds", "rows"),
    [
        ("freedman", 1500, 800),
        ("feature selection", 1500, 800),
        ("ladder boosting", 400, 800),
        ("rogers, squares", 900, 800),
    ],
)
def test_plain_means_are_overfitted_and_everhold_is_not(analyst, rounds, rows):
    """The control: on pure noise each overfitter drives a plain mean off by more than 0.1, everhold by less than 0.02."""
    world = noise(5, atoms=4096)
    plain = play(analyst, "empirical mean", world, rounds, 5, rows=rows)
    mine = play(analyst, "everhold", world, rounds, 5, rows=rows)
    assert plain.largest_error > 0.1
    assert mine.largest_error < 0.02
    assert mine.missed == 0


def test_fingerprinting_finds_members_behind_plain_means():
    """The control: it makes plain means miss by a wide margin, and everhold's intervals hold."""
    world = labelled(2)
    plain = play("fingerprinting", "empirical mean", world, 2500, 3, rows=200)
    mine = play("fingerprinting", "everhold", world, 2500, 3, rows=200)
    assert plain.errors[-1] > 0.15
    assert mine.missed == 0


def test_the_hunter_makes_more_surprises_than_a_random_analyst():
    for world in ("dense", "labelled"):
        hunted, random = (play(who, "everhold", world, 200, 1, rows=4000) for who in ("surprise hunter", "fixed random"))
        assert hunted.surprises > 2 * random.surprises
        assert hunted.missed == 0


def test_the_pool_overfitter_costs_surprises_and_a_larger_reference_cures_it():
    small, large = (play("pool overfitter", "everhold", dense(1, 1.0), 60, 1, rows=2000, reference=p) for p in (300, 60_000))
    assert small.surprises > 20
    assert large.surprises < small.surprises / 4
    assert small.missed == large.missed == 0


def test_learners_learn_through_any_mechanism_that_answers():
    game = play("SQ boosting", "everhold", "linear", rounds=400, seed=1, rows=10_000)
    assert game.answers[-1].value > 0.8
    assert game.truths[-1] in game.answers[-1].interval


def test_an_analyst_may_bring_the_truth_along():
    def analyst(view):
        yield Asked(lambda rows: rows["y"] > 0, 0.25)

    game = play(analyst, "everhold", "noise", 5, 1, rows=100)
    assert game.truths.tolist() == [0.25]
    assert game.replay() == game.answers


def test_an_analyst_who_asks_nothing():
    game = play(lambda view: iter(()), "everhold", "noise", 5, 1, rows=50)  # type: ignore[return-value]
    assert (game.rounds, game.missed, game.half_width, game.replay()) == (0, 0, 0.5, [])


def test_refusals_end_a_game():
    game = play("freedman", "Guess and Check, Gaussian", "labelled", rounds=400, seed=1, rows=500)
    assert game.refused is not None
    assert game.rounds < 400
    assert game.replay() == game.answers
    assert "refused" in str(game)
    assert game.answered_within(0.1) == game.rounds - 1, "the last question got no answer"


MINE = """
from everhold.baselines import Empirical
from everhold.games import ANALYSTS, MECHANISMS
from everhold.games.mechanisms.baselines import baseline_session

@MECHANISMS.add("coarse mean of mine")
def coarse(terms):
    return baseline_session(terms, Empirical(step=0.25))

@ANALYSTS.add("one question of mine")
def one(view):
    yield lambda rows: rows["y"] > 0
"""


def test_a_file_of_ones_own_plays_along(tmp_path):
    place = tmp_path / "mine.py"
    place.write_text(MINE)
    load(place)
    try:
        game = play("one question of mine", "coarse mean of mine", "tree", rounds=5, rows=200)
        assert game.answers[0].value in (0.0, 0.25, 0.5, 0.75, 1.0)
        load(place)  # once is enough
        place.with_name("other.py").write_text(MINE)
        with pytest.raises(eh.SettingError, match="already"):
            load(place.with_name("other.py"))
    finally:
        MECHANISMS._known.pop("coarse mean of mine", None)
        ANALYSTS._known.pop("one question of mine", None)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: play("fredman", "everhold", "noise", 5), "Did you mean 'freedman'"),
        (lambda: play("freedman", "evrhold", "noise", 5), "Did you mean 'everhold'"),
        (lambda: play("freedman", "everhold", "noize", 5), "Did you mean 'noise'"),
        (lambda: play("freedman", "everhold", "noise", 0), "at least 1 round"),
        (lambda: play("freedman", "everhold", "noise", 1.5), "whole number"),
        (lambda: load("nothing.py"), "not a Python file"),
        (lambda: dense(1, 0.0), "density"),
        (lambda: single_out("multiplicative weights", games=1), "explicit domain"),
    ],
)
def test_what_is_wrong_is_said(wrong, said):
    with pytest.raises(eh.SettingError, match=said):
        wrong()


def test_an_analyst_who_yields_nonsense_is_told():
    with pytest.raises(eh.QuestionError, match="analyst yielded"):
        play(lambda view: iter_one(42), "everhold", "noise", 5, rows=50)


def iter_one(thing):
    yield thing


def test_worlds_can_be_bent():
    """A prior with labels is another prior: what `(f)` of the report compares."""
    world = replace(noise(1, atoms=256), labelled=True)
    assert not isinstance(world.prior(np.random.default_rng(0), 10), eh.Labels)
