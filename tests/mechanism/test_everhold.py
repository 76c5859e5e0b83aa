"""The mechanism's own promises: exact decisions, tolerance policies, fresh draws, cost."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import everhold as eh
from everhold.mechanism.estimator import Draws, PoolEstimator
from everhold.mechanism.everhold import Everhold
from everhold.mechanism.intervals import interval_ends
from everhold.mechanism.rules import Corrective
from everhold.mechanism.tolerance import TOLERANCE_ONE, Anytime, FixedPrecision, ToleranceInputs
from everhold.queries.grid import VALUE_ONE, Sums
from everhold.queries.protocol import QUIET


def mechanism(rows, size=64, **settings):
    return Everhold(rows=rows, estimator=PoolEstimator(Draws({}, size, None, float(size)), Corrective()), **settings)


@given(st.integers(1, 10**6), st.data())
def test_the_decision_is_exact(n, data):
    """Quiet iff |u - v| ≤ τ; else the private mean lies in the cell that is told. In fractions, at every border."""
    held = mechanism(n)
    ones = data.draw(st.integers(0, 64))
    proposal = held.propose(eh.Values(reference=np.arange(64) < ones))
    total = data.draw(st.integers(-n * VALUE_ONE, n * VALUE_ONE))
    u = Fraction(proposal.forecast.numerator, proposal.forecast.denominator)
    assert u == Fraction(2 * ones - 64, 64)
    v = Fraction(total, n * VALUE_ONE)
    tau, delta = Fraction(proposal.measure.limits.tau, TOLERANCE_ONE), Fraction(proposal.measure.limits.cell, TOLERANCE_ONE)
    cell = held.decide(proposal, [Sums(total, 0)])
    if cell is QUIET:
        assert abs(v - u) <= tau
    else:
        assert abs(v - u) > tau
        assert (cell > 0) == (v > u)
        assert tau + (abs(cell) - 1) * delta < abs(v - u) <= tau + abs(cell) * delta


def test_the_border_itself_is_quiet():
    held = mechanism(TOLERANCE_ONE)  # so many rows that v can meet τ exactly
    proposal = held.propose(eh.Values(reference=np.arange(64) < 32))
    at = proposal.measure.limits.tau * VALUE_ONE
    assert held.decide(proposal, [Sums(at, 0)]) is QUIET
    assert held.decide(proposal, [Sums(at + 1, 0)]) == 1
    assert held.decide(proposal, [Sums(-at - 1, 0)]) == -1
    assert held.decide(proposal, [Sums(at + proposal.measure.limits.cell * VALUE_ONE, 0)]) == 1
    assert held.decide(proposal, [Sums(at + proposal.measure.limits.cell * VALUE_ONE + 1, 0)]) == 2


class TestIntervals:
    def test_numbers_are_widened_by_what_the_grid_can_hide(self):
        share = interval_ends(0.2, 0.05, nats=10.0, rows=1000, known_rows=0, scale="share")
        mean = interval_ends(0.2, 0.05, nats=10.0, rows=1000, known_rows=0, scale="mean")
        assert 2 * share[0] - 1 - mean[0] == pytest.approx(2.0**-15)
        assert mean[1] - (2 * share[1] - 1) == pytest.approx(2.0**-15)

    def test_known_rows_widen(self):
        plain = interval_ends(0.2, 0.05, nats=10.0, rows=1000, known_rows=0, scale="share")
        known = interval_ends(0.2, 0.05, nats=10.0, rows=1000, known_rows=50, scale="share")
        assert known[0] < plain[0] < plain[1] < known[1]

    def test_rare_shares_have_narrow_intervals(self):
        held = eh.Holdout(10_000, prior=eh.Reference(10_000), seed=0)
        rare = np.arange(10_000) < 100
        middle = np.arange(10_000) < 5000
        widths = [held.ask(eh.Values(sample=x, reference=x)).interval.half_width for x in (rare, middle)]
        assert widths[0] < 0.4 * widths[1]


class TestFixedPrecision:
    def test_every_answer_keeps_the_promise_until_it_refuses(self):
        rng = np.random.default_rng(3)
        for known, numbers in ((0, False), (0, True), (30, False)):
            held = eh.Holdout(4000, prior=eh.Reference(4000), half_width=0.12, known_rows=known, seed=0)
            refused = None
            for _ in range(400):
                lean = rng.uniform(0.2, 0.8)
                x, r = rng.random(4000) < lean, rng.random(4000) < 0.5
                given = (x * 2.0 - 1.0, r * 2.0 - 1.0) if numbers else (x, r)
                try:
                    answer = held.ask(eh.Values(sample=given[0], reference=given[1]))
                except eh.PrecisionExhausted as error:
                    refused = error
                    break
                scale = 2.0 if numbers else 1.0
                assert answer.interval.half_width <= 0.12 * scale
                assert max(answer.high - answer.value, answer.value - answer.low) <= 0.12 * scale
            assert refused is not None
            assert refused.left < refused.needed
            assert refused.asked == pytest.approx(0.12)

    def test_the_refusal_is_a_function_of_the_transcript(self):
        policy = FixedPrecision(0.2)
        at = ToleranceInputs(sketch=0.1, price=60.0, rows=2000, draws=2000.0)
        with pytest.raises(eh.PrecisionExhausted) as caught:
            policy.tolerance(at)
        assert "more rows" in str(caught.value)
        enough = 2000 + caught.value.more_rows
        policy.tolerance(ToleranceInputs(sketch=0.1, price=60.0, rows=enough, draws=2000.0))
        with pytest.raises(eh.PrecisionExhausted):
            policy.tolerance(ToleranceInputs(sketch=0.1, price=60.0, rows=enough - 2, draws=2000.0))

    def test_a_refusal_is_no_round_and_stays_refused(self):
        held = eh.Holdout(2_000, prior=eh.Reference(2_000), half_width=0.25, seed=0)
        rng = np.random.default_rng(0)

        def surprise():
            held.ask(eh.Values(sample=np.ones(2_000, bool), reference=rng.random(2_000) < 0.5))

        def until_refused():
            for _ in range(1_000):
                surprise()

        with pytest.raises(eh.PrecisionExhausted):
            until_refused()
        rounds = held.rounds
        assert rounds > 2
        for _ in range(2):
            with pytest.raises(eh.PrecisionExhausted):
                surprise()
        assert held.rounds == rounds


class TestAnytime:
    def test_tolerance_is_above_the_noise_and_follows_the_width(self):
        policy = Anytime()
        cheap = policy.tolerance(ToleranceInputs(0.0, 5.0, 1000, 1000.0))
        dear = policy.tolerance(ToleranceInputs(0.0, 200.0, 1000, 1000.0))
        assert cheap.tau / TOLERANCE_ONE == pytest.approx(policy.deviations_at(1, None) * np.sqrt(2 / 1000), rel=0.02)
        assert dear.tau / TOLERANCE_ONE == pytest.approx(0.6 * np.sqrt(2 * 200.0 / 1000), rel=0.05)
        assert policy.tolerance(ToleranceInputs(-0.98, 5.0, 1000, 1000.0)).tau < 0.4 * cheap.tau

    @pytest.mark.parametrize("wrong", [{"share": 0.0}, {"deviations": -1.0}, {"cells": 3.0}, {"share": float("nan")}])
    def test_nonsense(self, wrong):
        with pytest.raises(eh.SettingError):
            eh.Anytime(**wrong)


class TestFresh:
    def test_the_estimate_is_close_to_the_prior(self):
        prior = eh.Sampler(lambda rng, size: {"x": rng.random(size)}, size=None)
        held = eh.Holdout({"x": np.random.default_rng(0).random(4000)}, prior=prior, seed=1)
        for threshold in np.linspace(0.05, 0.95, 19):
            answer = held.ask(lambda r, t=threshold: r["x"] < t)
            assert abs(answer.value - threshold) < 0.05
            assert threshold in answer.interval

    def test_every_round_draws_other_rows_and_replays_the_same(self):
        seen = []

        def draw(rng, size):
            rows = rng.random(size)
            seen.append(rows[0])
            return {"x": rows}

        held = eh.Holdout({"x": np.zeros(100)}, prior=eh.Sampler(draw, size=None), seed=1)
        held.ask(lambda r: r["x"] < 0.5)
        held.ask(lambda r: r["x"] < 0.5)
        first = list(seen)
        assert len(set(first)) > 2
        seen.clear()
        assert held.audit().ok
        assert set(seen) <= set(first)

    def test_labels_over_fresh_features(self):
        rng = np.random.default_rng(2)
        x = rng.choice([-1.0, 1.0], size=8000)
        features = eh.Sampler(lambda rng, size: {"x": rng.choice([-1.0, 1.0], size=size)}, size=None)
        held = eh.Holdout({"x": x, "y": x}, prior=eh.Labels(features, classes=[-1.0, 1.0]), seed=1)
        answer = held.ask(lambda r: r["x"] == r["y"])
        assert answer.surprise
        assert 1.0 in answer.interval
        assert held.ask(lambda r: r["x"] * r["y"]).value > 0.8
        assert held.audit().ok


class TestCost:
    @pytest.mark.parametrize("kind", ["yes/no", "numbers"])
    def test_memory_grows_with_surprises_and_one_record_a_round(self, kind):
        n, size = 20_000, 40_000
        tracemalloc.start()
        held = eh.Holdout(n, prior=eh.Reference(size), seed=0)
        quiet = eh.Values(sample=np.arange(n) % 2 == 0, reference=np.arange(size) % 2 == 0)

        def surprise(j):
            rng = np.random.default_rng(j)
            sample, reference = rng.random(n), rng.random(size)
            if kind == "yes/no":
                return held.ask(eh.Values(sample=sample < 0.6, reference=reference < 0.5)).surprise
            return held.ask(eh.Values(sample=1.9 * sample - 0.9, reference=1.9 * reference - 1.0)).surprise

        assert all(surprise(j) for j in range(3))
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(300):
            held.ask(quiet)
        per_round = (tracemalloc.get_traced_memory()[0] - before) / 300
        before = tracemalloc.get_traced_memory()[0]
        surprising = sum(surprise(j) for j in range(3, 19))
        held.ask(quiet)  # lets go of the last surprise's own arrays
        per_surprise = (tracemalloc.get_traced_memory()[0] - before) / surprising
        tracemalloc.stop()
        assert surprising >= 12
        assert per_round < 1500
        record = 2 * size if kind == "numbers" else 0  # what the record of a surprise keeps: its values, two bytes each
        # Beside the rows a surprise has coefficients, a lesson and its record: a few kilobytes, whatever P.
        assert per_surprise < size + record + 4000, "at most a byte a reference row"

    def test_time_does_not_grow_with_rounds(self):
        """Counted in Python function calls, not seconds: the same at round 2,000 as at round 100."""
        import cProfile

        held = eh.Holdout(100, prior=eh.Reference(64), seed=0)
        question = eh.Values(sample=np.arange(100) < 50, reference=np.arange(64) < 32)

        def calls(count):
            profile = cProfile.Profile()
            profile.enable()
            for _ in range(count):
                held.ask(question)
            profile.disable()
            return sum(entry.callcount for entry in profile.getstats()) / count

        for _ in range(99):
            held.ask(question)
        early = calls(50)
        for _ in range(1900):
            held.ask(question)
        assert calls(50) <= 1.05 * early


def test_threads_share_one_ledger():
    from concurrent.futures import ThreadPoolExecutor

    held = eh.Holdout(500, prior=eh.Reference(500), seed=0)
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(lambda j: held.ask(eh.Values(sample=np.arange(500) < j, reference=np.arange(500) < j)), range(200))
        )
    assert sorted(answer.round for answer in answers) == list(range(1, 201))
    assert held.audit().ok


def test_a_large_batch_teaches_only_what_was_farthest_off():
    """850 readings of a shifted column: one refit with 32 of them, and the record replays."""
    rng = np.random.default_rng(0)
    private, public = {"x": rng.random(4000) ** 1.5}, {"x": rng.random(4000)}
    held = eh.Holdout(private, prior=eh.Reference(public), seed=1)
    answers = held.read_many([f"x > {place / 900}" for place in range(850)])
    taught = [past for past in held.journal if past.fit is not None]
    assert [len(past.fit) for past in taught] == [33]
    assert taught[0].number == 850
    assert sum(past.outcome != 0 for past in held.journal) > 300
    assert all(answer.low <= 1 - (place / 900) ** (1 / 1.5) <= answer.high for place, answer in enumerate(answers))
    assert held.audit().ok
