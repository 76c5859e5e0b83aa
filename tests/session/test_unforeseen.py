"""What the public side has no rows of: new categories, this year's dates, groups that turn out to be empty."""

import numpy as np
import pytest

import everhold as eh

CITIES = ("York", "Leeds", "Hull")
NEW = "city = 'Hull'"


def people(size, seed, shares):
    rng = np.random.default_rng(seed)
    city = rng.choice(CITIES, size, p=shares)
    smoker = rng.random(size) < np.where(city == "Hull", 0.4, 0.2)
    age = rng.normal(np.where(city == "Hull", 60.0, 40.0), 8.0).clip(0, 100)
    return {"city": city, "smoker": smoker, "age": age}


def study(shares=(0.5, 0.2, 0.3), n=20_000, **more):
    private, public = people(n, 1, shares), people(20_000, 2, (0.6, 0.4, 0.0))
    declared = eh.Schema.propose(public).revised("city", categories=CITIES)
    return eh.Holdout(private, prior=eh.Reference(public), schema=declared, seed=0, **more), private


READ = [
    (eh.Share("smoker", given=NEW), lambda rows: rows["smoker"].mean(), 0.03),
    (eh.Mean("age", low=0, high=100, given=NEW), lambda rows: rows["age"].mean(), 1.5),
    (eh.Median("age", low=0, high=100, given=NEW), lambda rows: np.median(rows["age"]), 6.0),
]


@pytest.mark.parametrize(("statistic", "of", "width"), READ, ids=["share", "mean", "median"])
@pytest.mark.parametrize("act", ["read", "close"])
def test_a_reading_of_a_new_group_is_its_own_and_narrow(statistic, of, width, act):
    holdout, private = study()
    found = holdout.read(statistic) if act == "read" else holdout.close([statistic])[0]
    truth = of({name: column[private["city"] == "Hull"] for name, column in private.items()})
    assert found.low <= truth <= found.high
    assert found.high - found.low < 2 * width
    assert abs(found.value - truth) < width
    assert holdout.audit().ok


def test_an_ask_of_a_new_group_has_no_value_and_discloses_nothing():
    holdout, _ = study()
    before = holdout.budget.claim_price()
    answer = holdout.ask(eh.Share("smoker", given=NEW))
    assert not answer.surprise
    assert (answer.low, answer.high) == (0.0, 1.0)
    assert not answer.seen
    assert str(answer).endswith("no forecast; [0, 1] (1 question, no such public rows)")
    assert "read it" in answer.kind_text
    assert holdout.budget.claim_price() < before + 1.0


def test_a_group_that_is_empty_on_both_sides_costs_a_bit():
    holdout, _ = study(shares=(0.5, 0.5, 0.0))
    before = holdout.budget.code.nats
    found = holdout.read(eh.Share("smoker", given=NEW))
    assert not found.seen
    assert holdout.budget.code.nats - before < 0.75


def test_an_ask_of_a_group_that_is_empty_on_both_sides_is_quiet():
    """Otherwise each empty category of a schema would be a surprise, though nothing about it was expected."""
    holdout, _ = study(shares=(0.5, 0.5, 0.0))
    for statistic in (eh.Share("smoker", given=NEW), eh.Mean("age", low=0, high=100, given=NEW)):
        answer = holdout.ask(statistic)
        assert not answer.surprise
        assert not answer.seen
    assert holdout.surprises == 0


@pytest.mark.parametrize(
    "statistic", [READ[2][0], eh.Variance("age", low=0, high=100, given=NEW)], ids=["median", "variance"]
)
def test_a_reading_of_a_new_group_teaches_nothing_about_everybody(statistic):
    """What everybody is expected to be stood in for a forecast: it was none, so nothing follows for everybody."""
    holdout, _ = study()
    everybody = eh.Mean("age", low=0, high=100)
    before, errors = holdout.rehearsal.mean("age", low=0, high=100).value, holdout.mechanism._state.forecast_errors
    holdout.read(statistic)
    assert holdout.rehearsal.mean("age", low=0, high=100).value == before
    assert holdout.mechanism._state.forecast_errors == errors
    taught, _ = study()
    taught.read(everybody)  # the control: a reading that was foreseen does teach
    assert taught.rehearsal.mean("age", low=0, high=100).value != before


def test_the_public_side_of_a_difference_needs_rows_of_both_groups():
    holdout, private = study()
    found = holdout.read(eh.Difference("smoker", NEW, "city = 'York'"))
    rows = {city: private["smoker"][private["city"] == city].mean() for city in CITIES}
    assert len(found.parts) == 2
    assert found.low <= rows["Hull"] - rows["York"] <= found.high < found.low + 0.1
    known = holdout.read(eh.Difference("smoker", "city = 'Leeds'", "city = 'York'"))
    assert len(known.parts) == 1


def dated(size, seed, year, *, ids):
    rng = np.random.default_rng(seed)
    seconds = rng.integers(0, 365 * 86_400, size).astype("timedelta64[s]")
    return {"at": np.datetime64(f"{year}-01-01", "s") + seconds, "person": ids + rng.integers(0, size // 3, size)}


@pytest.fixture(scope="module")
def years():
    return dated(12_000, 1, 2025, ids=0), dated(12_000, 2, 2024, ids=1_000_000)


def of_years(years, **more):
    private, public = years
    declared = eh.Schema.propose({"at": public["at"]}).revised("at", low="2024-01-01", high="2026-01-01")
    return eh.Holdout(private, prior=eh.Reference(public), schema=declared, seed=0, **more)


@pytest.mark.parametrize("act", ["ask", "read"])
@pytest.mark.parametrize("ends", [{}, {"low": "2025-01-01", "high": "2026-01-01"}], ids=["both years", "this year"])
def test_the_median_of_dates_that_are_all_later_than_the_public_ones(years, act, ends):
    holdout = of_years(years)
    found = getattr(holdout, act)(eh.Median("at", **ends))
    day = 86_400 * 1e6
    truth = float(np.median(years[0]["at"].astype("datetime64[us]").astype(float)))
    assert found.low <= truth <= found.high
    assert abs(found.value - truth) < 25 * day
    assert found.high - found.low < 150 * day


@pytest.mark.parametrize("act", ["ask", "read"])
def test_what_no_public_person_has_is_narrow_with_units_too(years, act):
    """The forecast is 0 and foresees no spread; Fan's bound alone reached to 1."""
    holdout = of_years(years, unit="person")
    question = "at >= '2025-07-01'"
    answer = getattr(holdout, act)(question)
    assert answer.high - answer.low < 0.15
    assert answer.low <= 0.504 <= answer.high


def test_one_person_alone_is_no_surprise(years):
    """Without public rows like theirs, the tolerance is more than one unit: an ask does not say that somebody is there."""
    private, public = years
    one = {"at": private["at"].copy(), "person": private["person"]}
    chosen = one["person"] == one["person"][0]
    one["at"][chosen] = np.datetime64("2026-06-01")
    answers = []
    for rows in ((private, public), (one, public)):
        declared = eh.Schema.propose({"at": public["at"]}).revised("at", low="2024-01-01", high="2027-01-01")
        holdout = eh.Holdout(rows[0], prior=eh.Reference(public), schema=declared, seed=0, unit="person")
        answers.append(holdout.ask("at >= '2026-01-01'"))
    assert answers[0] == answers[1]
    assert not answers[0].surprise
