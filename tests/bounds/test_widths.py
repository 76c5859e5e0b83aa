"""What the planner says of every act is what a session does."""

from __future__ import annotations

import numpy as np
import pytest

import everhold as eh
from everhold.bounds.widths import RowCounts, advice, ways
from everhold.errors import SettingError

ROWS = 20_000


def numbers(**change):
    given = {"asks": 1, "reads": 1, "candidates": 1, "generations": 1, "failure_probability": 0.05} | change
    return {way.name: way for way in ways(RowCounts(given.pop("rows", ROWS), given.pop("reference", ROWS)), **given)}


def halves(size):
    """Exactly one half in all rows and in a group of a tenth."""
    place = np.arange(size)
    return {"x": place % 2 == 0, "g": place // 2 % 10 == 0, "z": np.random.default_rng(size).random(size)}


def held(**settings):
    public = halves(ROWS)
    return eh.Holdout(halves(ROWS), prior=eh.Reference(public), seed=1, overlap="allow", **settings)


def test_asks_and_readings_are_as_wide_as_in_a_session():
    preview = held().try_out("x")
    found = numbers()
    assert preview.interval.half_width == pytest.approx(found["one ask"].half_width, abs=1e-9)
    assert preview.read_interval.half_width == pytest.approx(found["reading number 1, one by one"].half_width, abs=1e-9)
    assert preview.price == found["one ask"].nats
    assert preview.read_price == found["reading number 1, one by one"].nats


def test_a_declared_number_of_asks():
    holdout = held(rounds=40)
    for i in range(39):
        holdout.ask(f"z < {0.1 + 0.02 * i}")
    assert holdout.surprises == 0
    preview, found = holdout.try_out("x"), numbers(asks=40)["ask, the last of 40 declared"]
    assert preview.interval.half_width == pytest.approx(found.half_width, abs=1e-9)
    assert preview.price == found.nats


def test_groups():
    found = numbers()
    asked, read = held().share("x", given="g"), held().read(eh.Share("x", given="g"))
    assert asked.interval.half_width == pytest.approx(found["one ask"].group, rel=1e-3)
    assert read.interval.half_width == pytest.approx(found["reading number 1, one by one"].group, rel=1e-3)


def test_batches_and_the_last_act():
    questions = ["x", *(f"z < {0.05 * i}" for i in range(1, 10))]
    found = numbers(reads=10)
    read, closed = held().read_many(questions)[0], held().close(questions)[0]
    assert read.interval.half_width == pytest.approx(found["a batch of 10, fixed together"].half_width, rel=1e-3)
    last = found["the last act, 10 questions fixed together"]
    assert closed.interval.half_width == pytest.approx(last.half_width, rel=2e-3)
    assert read.price == found["a batch of 10, fixed together"].nats
    assert closed.price == last.nats


def test_the_best_of_many():
    holdout = held()
    best = holdout.best_of(["x", *(f"z < {0.0004 * i}" for i in range(1, 1000))])
    assert best.index == 0
    read = holdout.read("x")
    found = numbers(candidates=1000)["the best of 1,000, then read"]
    assert read.price == found.nats
    assert read.interval.half_width == pytest.approx(found.half_width, abs=1e-9)


def test_readings_one_by_one_cost_what_they_cost_on_average():
    """Ten readings of questions with the same spread: the tenth's price is within a fifth of what is foreseen."""
    prices = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        private, public = ({f"c{i}": rng.random(4000) < 0.5 for i in range(10)} for _ in range(2))
        holdout = eh.Holdout(private, prior=eh.Reference(public), seed=seed)
        prices.append([holdout.read(f"c{i}") for i in range(10)][-1].price)
    foreseen = numbers(rows=4000, reference=4000, reads=10)["reading number 10, one by one"].nats
    assert np.mean(prices) == pytest.approx(foreseen, rel=0.2)


def test_monotone():
    for name in numbers(asks=40, reads=10, candidates=100):
        few, many = (numbers(asks=40, reads=10, candidates=100, rows=n, reference=n)[name] for n in (2_000, 200_000))
        assert many.half_width < few.half_width
        assert many.half_width <= many.group
    best = [numbers(candidates=c)[f"the best of {c:,}, then read"].half_width for c in (10, 100, 1000)]
    assert best == sorted(best)
    small = numbers(rows=ROWS, reference=1000)["one ask"].half_width
    assert small > numbers()["one ask"].half_width


def test_a_plan_for_an_accuracy_is_what_a_session_gives():
    """The best of 32 models near 0.82, then read: planned and done. Near one half it would be a third wider."""
    plan = {score: eh.plan(rows=3_000, rounds=1, candidates=32, score=score) for score in (0.5, 0.82)}
    name = "the best of 32, then read"
    planned = {score: next(way.half_width for way in one.acts if way.name == name) for score, one in plan.items()}
    rng = np.random.default_rng(4)
    labels, public_labels = rng.integers(0, 2, (2, 3_000))
    private, public = (np.where(rng.random((32, 3_000)) < 0.82, truth, 1 - truth).T for truth in (labels, public_labels))
    test = eh.TestSet(private, labels, reference=(public, public_labels), seed=0)
    for column in range(32):
        test.enter(lambda X, column=column: X[:, column], expect=float(np.mean(public[:, column] == public_labels)))
    done = test.winner().score.interval.half_width
    assert 0.85 * planned[0.82] <= done <= 1.1 * planned[0.82]
    assert done < 0.85 * planned[0.5]
    assert "for shares near 0.82" in str(plan[0.82])
    assert "for shares near" not in str(plan[0.5])


def test_one_recommendation_for_both_tables():
    """Before, it said that nothing listed was narrower than a split, above a table of narrower acts."""
    plan = eh.plan(rows=3_000, rounds=1, candidates=32)
    assert str(plan).count("Recommended") == 1
    assert "nothing else listed" not in str(plan)
    assert plan.acts[-1].name in str(plan).splitlines()[-1]
    assert plan._repr_html_().count("Recommended") == 1
    with pytest.raises(eh.SettingError, match="score"):
        eh.plan(rows=3_000, rounds=1, score=1.0)


def test_advice_recommends_splitting_where_that_is_narrower():
    assert "choose on one half" in advice(tuple(numbers(candidates=1000).values())).splitlines()[-1]
    assert "split into 3 parts" in eh.plan(rows=1000, rounds=3).advice
    assert "split" not in eh.plan(rows=100_000, rounds=1000).advice
    assert "so few rows" in eh.plan(rows=50, rounds=1e6).advice


def test_a_plan_without_rows_has_no_acts():
    plan = eh.plan(half_width=0.05, rounds=100)
    assert plan.acts == ()
    assert plan.advice == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"reads": 0},
        {"candidates": 0},
        {"generations": 2},
        {"reference": 0},
        {"reads": 1.5},
        {"reference": float("inf")},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(SettingError):
        eh.plan(rows=100, rounds=10, **wrong)
