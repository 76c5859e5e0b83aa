"""Statistics as values: asked, rehearsed and awaited by one driver."""

import asyncio

import numpy as np
import pytest

import everhold as eh
from everhold.statistics import STATISTICS, statistic
from everhold.statistics.declared import DeclaredColumns
from everhold.statistics.statistic import arun, run
from tests.statistics.golden import people

VALUES = [
    eh.Share("smoker"),
    eh.Share("smoker", given="age > 60"),
    eh.Mean("bmi", low=10, high=60, given="smoker"),
    eh.Difference("bmi", "smoker", "NOT smoker"),
    eh.Compare("age > 60", "smoker"),
    eh.Quantile("age", 0.9),
    eh.Median("age"),
    eh.Variance("bmi"),
    eh.Correlation("age", "bmi"),
    eh.Histogram("age", bins=4),
    eh.Table("city", "smoker"),
]


VALUES += [statistic(name, kind.example) for name, kind in STATISTICS.items() if kind not in {type(one) for one in VALUES}]


def study():
    return eh.Holdout(people(5_000, 0), prior=eh.Reference(people(3_000, 1)), seed=0)


def test_every_statistic_is_here():
    assert {type(one) for one in VALUES} == set(STATISTICS.values())
    assert len(VALUES) >= 12
    assert all(one.name == name for name, one in STATISTICS.items())


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_value_is_what_its_shortcut_gives(value):
    """`holdout.ask(eh.Mean(…))` and `holdout.mean(…)`, to the bit; asked again it costs nothing."""
    from dataclasses import fields

    arguments = {one.name: getattr(value, one.name) for one in fields(value)}
    held = study()
    found = held.ask(value)
    if hasattr(held, value.name) and value.name != "compare":  # a verdict, and an act of its own
        assert getattr(study(), value.name)(**arguments) == found
    assert study().ask(type(value)(**arguments)) == found
    rounds = held.rounds
    assert held.ask(value) == found
    assert held.rounds == rounds
    assert hash(value) == hash(type(value)(**arguments))


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_awaited_answers_give_the_same(value):
    one, other = study(), study()

    async def ask(batch):
        await asyncio.sleep(0)
        return other.ask_many(batch)

    found = asyncio.run(arun(value.steps(other.declared()), ask))
    assert found == one.ask(value)


def test_parts_have_request_ids_of_their_own():
    held = study()
    held.ask(eh.Difference("bmi", "smoker", "age > 60", low=10, high=60), request_id="monday")
    assert [held.journal.asked_by(number).request_id for number in (1, 2)] == ["monday/1", "monday/2"]
    with pytest.raises(eh.QuestionError, match="takes no other name"):
        held.ask(eh.Mean("bmi"), name="mine")


def test_an_error_of_the_one_who_asks_reaches_the_caller():
    def refuse(_):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        run(eh.Mean("bmi", low=10, high=60).steps(DeclaredColumns(study().schema)), refuse)


def test_a_table_is_bounded():
    declared = DeclaredColumns(study().schema, most_cells=3)
    with pytest.raises(eh.QuestionError, match="3 are allowed"):
        run(eh.Table("city", "smoker").steps(declared), lambda batch: [])
    assert np.isfinite(study().ask(eh.Variance("bmi")).value)
