"""How benchmarks compare: in turn, by pairs, by medians."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.promises import Line, in_turn, ratio


class Timer:
    """A clock that only works move."""

    def __init__(self):
        self.now = 0.0
        self.runs = []

    def __call__(self):
        return self.now

    def work(self, name, seconds):
        def run(number):
            self.runs.append((name, number))
            self.now += seconds(number) if callable(seconds) else seconds

        return run


def test_works_take_turns_and_change_their_order():
    timer = Timer()
    times = in_turn({"a": timer.work("a", 2.0), "b": timer.work("b", 1.0)}, turns=3, clock=timer)
    assert timer.runs == [("b", 0), ("a", 0), ("a", 1), ("b", 1), ("b", 2), ("a", 2), ("a", 3), ("b", 3)]
    assert times["a"].tolist() == [2.0] * 3
    assert times["b"].tolist() == [1.0] * 3


def test_the_first_run_of_each_is_not_counted():
    timer = Timer()
    times = in_turn({"a": timer.work("a", lambda number: 100.0 if number == 0 else 1.0)}, turns=4, clock=timer)
    assert times["a"].tolist() == [1.0] * 4


def test_short_works_are_repeated_within_a_turn_with_numbers_of_their_own():
    timer = Timer()
    times = in_turn({"a": timer.work("a", 1.0)}, turns=2, inner=3, clock=timer)
    assert [number for _, number in timer.runs] == list(range(9))
    assert times["a"].tolist() == [1.0, 1.0]


def test_a_few_slow_moments_do_not_change_the_verdict():
    """A quarter of the turns is ten times slower in one of the works: the median of the ratios is what it was."""
    timer = Timer()
    works = {
        "a": timer.work("a", lambda number: 20.0 if number % 4 == 1 else 2.0),
        "b": timer.work("b", 1.0),
    }
    times = in_turn(works, turns=40, clock=timer)
    found = ratio(times["a"], times["b"])
    assert found.median == 2.0
    assert np.mean(times["a"]) / np.mean(times["b"]) > 6.0, "the ratio of the means is not"


def test_a_machine_that_gets_slower_slows_both():
    """From turn to turn 5 % slower: the ratio of every pair is the same to within that."""
    timer = Timer()
    works = {name: timer.work(name, lambda number, base=base: base * 1.05**number) for name, base in (("a", 3), ("b", 2))}
    times = in_turn(works, turns=20, clock=timer)
    found = ratio(times["a"], times["b"])
    assert (found.low, found.median, found.high) == pytest.approx((1.5, 1.5, 1.5))


def test_a_missed_promise_is_shown():
    assert str(Line("speed", "3", "at most 2", False)).startswith("  MISS speed: 3")
    assert str(Line("speed", "1", "at most 2", True)).startswith("  ok   speed: 1")
