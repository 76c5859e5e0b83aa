"""What people do by mistake, and would not notice: each is refused or worth a warning, before a private row is read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import everhold as eh
from everhold.errors import SchemaWarning


def people(size, seed, gaps=0.0):
    rng = np.random.default_rng(seed)
    income = np.where(rng.random(size) < gaps, np.nan, rng.gamma(3, 900, size))
    return {"income": income, "age": rng.integers(18, 90, size), "smoker": rng.random(size) < 0.2}


@pytest.fixture
def holdout():
    return eh.Holdout(people(2_000, 0), prior=eh.Reference(people(2_000, 1)), seed=0)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("smoker", eh.Mean("income")),
        (eh.Mean("age"), eh.Share("smoker")),
        (eh.Share("age > 40"), eh.Median("age")),
        ("smoker", "age"),
        ("income", "age > 40"),
    ],
)
def test_a_share_is_not_compared_with_a_number(holdout, first, second):
    with pytest.raises(eh.QuestionError, match="one of the two is a share"):
        holdout.compare(first, second)
    assert holdout.rounds == 0
    assert not holdout.journal.recorded_acts


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("smoker", eh.Share("age > 40")),
        (eh.Mean("age"), eh.Median("age")),
        ("smoker", "age > 40"),
        (eh.Share("smoker"), eh.Mean("smoker")),
        ("smoker", eh.Mean("smoker", given="age > 40")),
    ],
)
def test_two_of_a_kind_are(holdout, first, second):
    assert holdout.compare(first, second).verdict in ("yes", "no", "cannot tell")


def test_gaps_that_are_declared_away():
    """Control: a schema that allows them is fine, and so is a column without any."""
    public = people(2_000, 1, gaps=0.08)
    schema = eh.Schema.propose(public)
    with pytest.raises(eh.SettingError, match=r"'income' is declared without missing values .* 8% of its public values"):
        eh.Holdout(people(500, 0), prior=eh.Reference(public), schema=schema.revised("income", missing=False))
    eh.Holdout(people(500, 0), prior=eh.Reference(public), schema=schema.revised("age", missing=False))


def test_dates_that_are_text():
    frame = pd.DataFrame({"day": ["2024-01-02", "2024-03-04", "2024-05-06"], "note": ["2024-01-02", "unknown", "x"]})
    with pytest.warns(SchemaWarning, match="'day' holds dates as text"):
        assert eh.Schema.propose(frame)["day"].kind == "text"
    assert eh.Schema.propose(frame.assign(day=pd.to_datetime(frame["day"])))["day"].kind == "date"


def test_things_of_another_kind(holdout):
    with pytest.raises(eh.QuestionError, match="certify takes an earlier answer"):
        holdout.certify("smoker")
    assert len(holdout.by(["smoker"]).mean("age")) == 2


def test_a_class_in_place_of_a_model():
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    test = eh.TestSet(X[:100], y[:100], reference=(X[100:], y[100:]), seed=1)
    with pytest.raises(eh.QuestionError, match="DecisionTreeClassifier is a class"):
        test.enter(DecisionTreeClassifier)
