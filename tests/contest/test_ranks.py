"""Rank sets and the order of a board: what is certified, what is tied, and that a wide interval gains nothing."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, strategies as st

from everhold.bounds.ranks import closure, rank_sets, step_down
from everhold.contest.ranks import RankedScore, standings


def entries(draw, count):
    """Scores with intervals around them, some equal."""
    values = draw(st.lists(st.integers(0, 8), min_size=count, max_size=count))
    halves = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=count, max_size=count))
    return [
        RankedScore(f"e{i}", value / 8, value / 8 - down / 8, value / 8 + up / 8, i)
        for i, (value, (down, up)) in enumerate(zip(values, halves, strict=True))
    ]


@st.composite
def boards(draw):
    """Entries, whether larger is better, and duels that agree with one true order."""
    found = entries(draw, draw(st.integers(1, 9)))
    larger = draw(st.booleans())
    truth = np.array([draw(st.floats(one.low, one.high)) for one in found])  # intervals that are right
    ahead = truth[:, None] > truth if larger else truth[:, None] < truth
    picked = np.array(draw(st.lists(st.booleans(), min_size=len(found) ** 2, max_size=len(found) ** 2)))
    return found, larger, truth, ahead & picked.reshape(len(found), len(found))


@given(boards())
def test_rank_sets_hold_the_true_ranks_if_all_claims_are_right(board):
    found, larger, truth, duels = board
    for standing in standings(found, larger_is_better=larger, duels=duels):
        mine = truth[int(standing.name[1:])]
        ahead, behind = (truth > mine).sum(), (truth < mine).sum()
        ahead, behind = (ahead, behind) if larger else (behind, ahead)
        assert standing.best <= 1 + ahead
        assert standing.worst >= len(truth) - behind
        assert standing.best <= standing.rank <= standing.worst
        assert standing.beats <= behind


@given(boards())
def test_the_list_keeps_what_is_certified_and_ranks_never_fall(board):
    found, larger, _, duels = board
    listed = standings(found, larger_is_better=larger, duels=duels)
    place = {one.name: number for number, one in enumerate(listed)}
    apart = np.array([[a.low > b.high if larger else a.high < b.low for b in found] for a in found])
    better = closure(apart | duels)
    for i, j in np.argwhere(better):
        assert place[f"e{i}"] < place[f"e{j}"]
    assert [one.rank for one in listed] == sorted(one.rank for one in listed)
    assert [(one.best, one.worst) for one in listed] == [rank_sets(better)[int(one.name[1:])] for one in listed]


@given(boards())
def test_a_wider_interval_never_stands_higher(board):
    """At the same value the narrower one comes first, and a better value comes first whatever the widths."""
    found, larger, _, _ = board
    by_name = {one.name: one for one in found}
    listed = [by_name[one.name] for one in standings(found, larger_is_better=larger)]
    for first, second in itertools.pairwise(listed):
        assert first.value >= second.value if larger else first.value <= second.value
        if first.value == second.value:
            assert first.high - first.low <= second.high - second.low


def test_the_case_that_was_wrong():
    """A rank was one more than the number of entries that are better beyond doubt: the wide one came first."""
    found = [
        RankedScore("wide", 0.614, 0.40, 0.81, 1),
        RankedScore("narrow", 0.640, 0.55, 0.72, 2),
        RankedScore("top", 0.85, 0.76, 0.92, 3),
    ]
    listed = standings(found, larger_is_better=True)
    assert [(one.name, one.rank, one.best, one.worst) for one in listed] == [
        ("top", 1, 1, 2),
        ("narrow", 2, 2, 3),
        ("wide", 2, 1, 3),
    ]


def test_duels_reorder_and_what_follows_is_certified_too():
    found = [RankedScore(name, value, 0.0, 1.0, i) for i, (name, value) in enumerate([("a", 0.7), ("b", 0.6), ("c", 0.5)])]
    duels = np.zeros((3, 3), dtype=bool)
    duels[2, 1] = duels[1, 0] = True  # c beats b, and b beats a
    listed = standings(found, larger_is_better=True, duels=duels)
    assert [(one.name, one.best, one.worst, one.beats) for one in listed] == [
        ("c", 1, 1, 2),
        ("b", 2, 2, 1),
        ("a", 3, 3, 0),
    ]


class TestStepDown:
    def test_never_weaker_than_bonferroni_and_stronger_somewhere(self):
        rng = np.random.default_rng(0)
        more = 0
        for _ in range(300):
            levels = rng.exponential(3.0, 12)
            plain = [level >= 2.0 + np.log(12) for level in levels]
            found = step_down(lambda i, nats, levels=levels: levels[i] >= nats, 12, 2.0)
            assert all(f or not p for f, p in zip(found, plain, strict=True))
            more += sum(found) - sum(plain)
        assert more > 0

    def test_some_true_hypothesis_is_refuted_as_often_as_promised_and_no_more(self):
        """4,000 times 6 true hypotheses (levels exponential: refuted at c with probability e^-c) and 6 false ones.

        The promise is e^-2 = 0.135. Pass line: the 1 - 1e-4 quantile of Bin(4000, e^-2)/4000, which is 0.156. The control
        tests at e^-2 each: it must exceed the line.
        """
        rng = np.random.default_rng(1)
        wrong = plain = 0
        for _ in range(4_000):
            levels = np.r_[rng.exponential(1.0, 6), rng.exponential(1.0, 6) + 8.0]
            wrong += any(step_down(lambda i, nats, levels=levels: levels[i] >= nats, 12, 2.0)[:6])
            plain += (levels[:6] >= 2.0).any()
        assert 0.08 < wrong / 4_000 < 0.156, "and it is not far below: 6 of 6 false ones were refuted first"
        assert plain / 4_000 > 0.156
