"""Quantiles where one round is not possible (units, a promise): few questions, intervals that hold, few surprises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import everhold as eh
from everhold.statistics.quantiles import Quantile, _in_range

FALSE_ALARM = 1e-6


def stays(size, seed, shift=0.0, year=2025):
    rng = np.random.default_rng(seed)
    person = rng.integers(0, size // 2, size)
    days = np.round(rng.gamma(2.0, 2.6 + shift, size), 1)
    ward = rng.choice(["A", "B", "C"], size, p=[0.6, 0.3, 0.1])
    at = np.datetime64(f"{year}-01-01") + rng.integers(0, 365, size).astype("timedelta64[D]")
    return {"person": person + seed * size, "days": np.where(rng.random(size) < 0.05, np.nan, days), "ward": ward, "at": at}


def quantile_by_people(rows, level, given=None):
    """The least t for which rows at or below it have at least that share, each person counting as one."""
    counts = ~np.isnan(rows["days"]) if given is None else ~np.isnan(rows["days"]) & (rows["ward"] == given)
    people, index = np.unique(rows["person"], return_inverse=True)
    weight = 1.0 / np.bincount(index, minlength=len(people))[index]
    order = np.argsort(rows["days"][counts], kind="stable")
    so_far = np.cumsum(weight[counts][order])
    return rows["days"][counts][order][np.searchsorted(so_far, level * so_far[-1])]


@pytest.fixture(scope="module")
def study():
    rows = stays(12_000, 1)
    return eh.Holdout(rows, prior=eh.Reference(stays(12_000, 2)), unit="person", seed=0), rows


@pytest.mark.parametrize(("level", "given"), [(0.5, None), (0.9, None), (0.5, "B"), (0.25, "C")])
def test_the_interval_contains_the_rows_own_quantile_and_is_found_with_few_questions(study, level, given):
    holdout, rows = study
    condition = None if given is None else f"ward = '{given}'"
    found = holdout.quantile("days", level, low=0, high=60, given=condition)
    own = quantile_by_people(rows, level, given)
    assert found.low <= own <= found.high
    assert not found.surprise
    assert len(found.parts) <= 25
    assert found.high - found.low < 4.0


LEVELS = (0.5, 0.9)
SESSIONS, MOST_MISSED = 60, 14  # each misses with probability at most 5 %; P(Bin(60, 0.05) > 14) < FALSE_ALARM


@pytest.fixture(scope="module")
def sessions():
    """What 60 sessions found, each with a prior that is off, and the population's quantiles."""
    population = np.round(np.random.default_rng(9).gamma(2.0, 2.6, 2_000_000), 1)
    found = []
    for seed in range(SESSIONS):
        private, public = stays(1_000, 2 * seed + 3), stays(1_000, 2 * seed + 4, shift=0.4)
        holdout = eh.Holdout(private, prior=eh.Reference(public), unit="person", seed=seed)
        found.append([holdout.quantile("days", level, low=0, high=60) for level in LEVELS])
    return found, [np.quantile(population, level) for level in LEVELS]


def missed(sessions, narrowed=1.0):
    """How many sessions miss, if the intervals were narrower by this factor around the middle."""
    found, truths = sessions

    def holds(one, truth):
        return abs(truth - 0.5 * (one.low + one.high)) <= 0.5 * narrowed * (one.high - one.low)

    return sum(not all(holds(one, t) for one, t in zip(results, truths, strict=True)) for results in found)


def test_sessions_hold_what_they_promise(sessions):
    assert binom.sf(MOST_MISSED, SESSIONS, 0.05) < FALSE_ALARM
    assert missed(sessions) <= MOST_MISSED


def test_the_control_misses(sessions):
    """Intervals of an eighth of the width miss in most sessions."""
    assert missed(sessions, 0.125) > MOST_MISSED


@pytest.mark.parametrize("act", ["ask", "read"])
def test_a_storm_of_surprises_ends_early(act):
    """Dates that are all later than the public ones: every question uses the private rows, so few are asked."""
    rows = stays(12_000, 1, year=2026)
    holdout = eh.Holdout(rows, prior=eh.Reference(stays(12_000, 2)), unit="person", seed=0)
    found = getattr(holdout, act)(eh.Median("at", low="2026-01-01", high="2026-12-31"))
    own = np.sort(rows["at"])[len(rows["at"]) // 2].astype("datetime64[us]").astype(float)
    assert found.low <= own <= found.high
    assert len(found.parts) <= 14


def test_a_group_without_rows_has_no_value(study):
    holdout, _ = study
    found = holdout.quantile("days", 0.5, low=0, high=60, given="at > '2030-01-01'")
    assert not found.seen
    assert (found.low, found.high) == (0.0, 60.0)


def test_the_way_from_a_threshold_to_a_position_and_back_changes_nothing():
    """In one round ends are thresholds: as printed they must be these, to the bit, or a value at one of them is missed."""
    rng = np.random.default_rng(0)
    ranges = ((0.0, 10.0), (0.1, 0.7), (-3.3, 9.1), (10.0, 60.0), (-273.15, 100.0), (1.1, 7.7), (0.0, 99.99))
    compared = 0
    for low, high in ranges:
        public = {"x": low + (high - low) * 0.001 * rng.random(400)}
        holdout = eh.Holdout({"x": np.full(400, low)}, prior=eh.Reference(public), seed=1)
        query = next(Quantile("x", 0.5, low=low, high=high).steps(holdout.declared()))[0]
        measure = holdout.mechanism.propose(query).measure
        for i, threshold in enumerate(measure.thresholds):
            compared += 1
            position = 2.0 * measure._position(i) - 1.0  # the scale of a mean, as an answer has it
            assert _in_range(0.5 * (1.0 + position), (low, high), None) == threshold
    assert compared > 500
