"""Results say what they are about: the low end of quantiles, cut ranges, groups without rows, dates."""

import json

import numpy as np
import pandas as pd
import pytest

import everhold as eh
from everhold.data.schema import Schema
from everhold.errors import SchemaWarning
from everhold.statistics.finding import result_from_dict


def study(make, rows=60_000, public=20_000, **settings):
    return eh.Holdout(
        make(np.random.default_rng(0), rows),
        prior=eh.Reference(make(np.random.default_rng(1), public)),
        seed=0,
        **settings,
    )


class TestLowEnd:
    def test_a_median_at_the_lower_end_of_the_range(self):
        """80 % zeros: the median is 0, and it was 1 before."""
        held = study(lambda rng, n: {"kids": rng.choice([0, 1, 2, 3, 4], n, p=[0.8, 0.08, 0.06, 0.04, 0.02])})
        found = held.median("kids")
        assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)
        assert held.quantile("kids", 0.01).value == 0.0
        high = held.quantile("kids", 0.99)
        assert high.low <= 4.0 <= high.high
        assert held.median("kids", given="kids > 0").value in (1.0, 2.0)

    @pytest.mark.parametrize("level", [0.001, 0.05, 0.5, 0.79, 0.81, 0.95, 0.999])
    @pytest.mark.parametrize("whole", [True, False])
    def test_quantiles_are_the_smallest_t_whose_share_reaches_the_level(self, level, whole):
        def make(rng, n):
            x = rng.choice([0, 3, 7, 20], n, p=[0.2, 0.3, 0.3, 0.2])
            return {"x": x if whole else x + 0.25}

        held = study(make)
        x = np.sort(make(np.random.default_rng(0), 60_000)["x"])
        truth = x[int(np.ceil(level * len(x))) - 1]
        found = held.quantile("x", level, low=0, high=21)
        assert found.low <= truth <= found.high
        if level not in (0.5, 0.79, 0.81):  # too near to a jump to tell
            assert abs(found.value - truth) < (0.5 if whole else 21 / 2**13)

    def test_values_below_the_range_count_as_its_end(self):
        held = study(lambda rng, n: {"x": rng.normal(0, 1, n)})
        found = held.quantile("x", 0.2, low=0.0, high=3.0)
        assert found.value == found.low == found.high == 0.0


class TestCutRanges:
    def test_a_mean_says_that_its_values_are_cut(self):
        held = study(lambda rng, n: {"delay": rng.exponential(40, n) - 10})
        found = held.mean("delay", low=-30, high=180)
        assert found.what == "mean of delay cut to -30…180"
        assert "cut to -30…180" in str(found)
        for one in (
            held.difference("delay", "delay > 0", "delay <= 0", low=-30, high=180),
            held.variance("delay", low=-30, high=180),
            held.correlation("delay", "delay", first_range=(-30, 180), second_range=(-30, 180)),
            held.ask(eh.Compare("delay", "delay", low=-30, high=180)),
        ):
            assert "cut to -30…180" in one.what

    def test_shares_are_not_cut(self):
        held = study(lambda rng, n: {"smoker": rng.random(n) < 0.3, "age": rng.integers(18, 90, n)})
        assert "cut" not in held.mean("smoker").what
        assert "cut" not in held.share("smoker", given="age > 40").what
        assert "cut" not in held.difference("smoker", "age > 40", "age <= 40").what

    def test_proposed_ranges_are_not_ruled_by_a_few_rows(self):
        """Delays of flights: 20 standard deviations wide before, by one row."""
        rng = np.random.default_rng(0)
        delay = np.concatenate([rng.exponential(40, 20_000) - 20, [1_301.0]])
        found = Schema.propose({"delay": delay})["delay"]
        assert (found.low, found.high) == (-50.0, 300.0)
        assert np.mean((delay < found.low) | (delay > found.high)) < 0.001
        assert (found.high - found.low) / delay.std() < 12

    @pytest.mark.parametrize(
        ("values", "ends"),
        [
            ([0, 1], (0.0, 1.0)),
            (range(1, 13), (1.0, 12.0)),
            (range(18, 90), (10.0, 90.0)),
            ([0.0, 0.5, 1.0], (0.0, 1.2)),
            (np.linspace(-5.0, 5.0, 1_000), (-6.0, 6.0)),
            ([0, 10_000], (0.0, 12_000.0)),
        ],
    )
    def test_proposed_ranges(self, values, ends):
        found = Schema.propose({"x": np.array(list(values))})["x"]
        assert (found.low, found.high) == ends

    def test_a_column_with_one_value_is_warned_about(self):
        """A schema from January would cut every month to 2."""
        january = {"month": np.ones(500, dtype=int), "delay": np.random.default_rng(0).normal(size=500)}
        with pytest.warns(SchemaWarning, match="a single value in 'month'"):
            schema = Schema.propose(january)
        year = {"month": np.arange(500) % 12 + 1, "delay": np.random.default_rng(1).normal(size=500)}
        with pytest.warns(SchemaWarning, match="means would be cut"):
            held = eh.Holdout(year, prior=eh.Reference(january), seed=0)
        assert "cut to 0…2" in held.mean("month").what
        declared = schema.revised("month", low=1, high=12)
        assert "cut to 1…12" in eh.Holdout(year, prior=eh.Reference(january), seed=0, schema=declared).mean("month").what


class TestNoSuchRows:
    @pytest.fixture(scope="class")
    @classmethod
    def held(cls):
        def make(rng, n):
            return {"age": rng.integers(18, 90, n), "smoker": rng.random(n) < 0.3, "bmi": rng.normal(26, 4, n)}

        return study(make)

    @pytest.mark.parametrize(
        "ask",
        [
            lambda h: h.share("smoker", given="age > 500"),
            lambda h: h.mean("bmi", given="age > 500"),
            lambda h: h.median("bmi", given="age > 500"),
            lambda h: h.variance("bmi", given="age > 500"),
            lambda h: h.correlation("bmi", "age", given="age > 500"),
            lambda h: h.difference("smoker", "age > 500", "age < 40"),
            lambda h: h.difference("bmi", "age < 40", "age > 500"),
        ],
    )
    def test_nothing_is_made_up(self, held, ask):
        """No estimate, an interval all the same, in words and in JSON."""
        found = ask(held)
        assert not found.seen
        assert np.isnan(found.value)
        assert found.low < found.high
        assert "no forecast" in str(found)
        assert "surprise" not in str(found)
        back = result_from_dict(json.loads(found.to_json()))
        assert not back.seen
        assert (back.low, back.high, back.what, back.unit) == (found.low, found.high, found.what, found.unit)

    def test_a_reading_says_that_the_private_rows_have_none(self, held):
        found = held.read(eh.Mean("bmi", given="age > 500"))
        assert "no such rows seen" in str(found)
        assert found.kind_text == "private reading"

    def test_tables_say_so_too(self, held):
        found = held.histogram("smoker", given="age > 500")
        assert "none seen" in repr(found)
        assert "none seen" in found._repr_html_()

    def test_small_groups_are_estimated(self, held):
        found = held.share("smoker", given="age > 88")
        assert found.seen
        assert 0.3 in found.interval


class TestDates:
    @pytest.fixture(scope="class")
    @classmethod
    def held(cls):
        def make(rng, n):
            days = np.datetime64("2013-01-01T00:00:00") + rng.integers(0, 365 * 86_400, n).astype("timedelta64[s]")
            return {"seen": days, "smoker": rng.random(n) < 0.3}

        return study(make)

    def test_a_median(self, held):
        found = held.median("seen")
        truth = np.datetime64("2013-07-02T12:00:00").astype("datetime64[us]").astype(float)
        assert found.unit == "date"
        assert found.low <= truth <= found.high
        assert str(found).startswith("median of seen cut to 2013-01-01…2014-01-01: 2013-")
        assert "[2013-" in str(found)
        assert held.median("seen", low="2013-01-01", high="2014-01-01", given="smoker").unit == "date"

    def test_a_histogram_and_a_table(self, held):
        found = held.histogram("seen", bins=4)
        assert [label[0] for label, _ in found][:3] == [
            "below 2013-04-02",
            "2013-04-02 to 2013-07-02",
            "2013-07-02 to 2013-10-02",
        ]
        assert all(0.2 < cell.value < 0.3 for label, cell in found if label != ("(missing)",))
        assert len(held.table("seen", "smoker", bins=2)) == 9
        edged = held.histogram("seen", edges=["2013-01-01", "2013-07-01", "2014-01-01"])
        assert [label[0] for label, _ in edged][:2] == ["2013-01-01 to 2013-07-01", "2013-07-01 to 2014-01-01"]

    def test_ranges_of_dates_are_kept_in_the_schema(self, held, tmp_path):
        column = held.schema["seen"]
        assert column.ends_text == ("2013-01-01", "2014-01-01")
        held.schema.save(tmp_path / "schema.toml")
        assert Schema.load(tmp_path / "schema.toml") == held.schema
        changed = held.schema.revised("seen", low="2012-01-01", high="2015-06-01 12:00")
        assert changed["seen"].ends_text == ("2012-01-01", "2015-06-01 12:00:00")
        with pytest.raises(eh.SettingError, match="Expected a date"):
            held.schema.revised("seen", low="soon", high="2015-06-01")

    def test_mistakes(self, held):
        with pytest.raises(eh.QuestionError, match="Expected a number"):
            held.mean("seen")
        with pytest.raises(eh.QuestionError, match="two ends such as"):
            held.median("seen", low=1, high=2)
        with pytest.raises(eh.QuestionError, match="Expected dates such as"):
            held.histogram("seen", edges=["soon", "later"])

    def test_times_with_zones_in_files(self, tmp_path):
        pd.DataFrame(
            {"seen": ["2024-05-01T13:30:00Z", "2024-05-01 13:30:00+02:00", "2024-05-01T13:30", "2024-05-01"] * 40}
        ).to_csv(tmp_path / "t.csv", index=False)
        table = eh.Reference(str(tmp_path / "t.csv")).pool(np.random.default_rng(0)).rows
        assert table.kind("seen") == "date"
        assert table["seen"][:4].astype(str).tolist() == [
            "2024-05-01T13:30:00.000000", "2024-05-01T11:30:00.000000", "2024-05-01T13:30:00.000000",
            "2024-05-01T00:00:00.000000",
        ]  # fmt: skip
