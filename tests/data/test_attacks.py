"""What a hostile reader found once, and must not find again."""

from __future__ import annotations

import datetime

import duckdb
import numpy as np
import pandas as pd
import pytest

import everhold as eh
from everhold.data.source import as_source, as_table
from everhold.errors import DataError, QuestionError


def parquet(path, sql):
    duckdb.connect().execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
    return str(path)


def test_a_path_is_no_pattern_twice(tmp_path):
    (tmp_path / "q[1].csv").write_text("a\n" + "1\n" * 50)
    (tmp_path / "q1.csv").write_text("a\n" + "0\n" * 50)
    assert as_table(str(tmp_path / "q[1].csv")).column("a").values.tolist() == [1.0] * 50
    for name, rows in (("d[1]", 10), ("d1", 20)):
        parquet(tmp_path / f"{name}.parquet", f"SELECT 1.0 AS x FROM range({rows})")
    assert as_source(str(tmp_path / "d[1].parquet"), what="rows").size == 10
    assert as_source(str(tmp_path / "d*.parquet"), what="rows").size == 30


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_large_ids_are_different_units(tmp_path, engine):
    ids = np.concatenate([np.arange(500), np.random.default_rng(0).integers(2**60, 2**62, 500)])
    rows = pd.DataFrame({"id": np.repeat(ids, 2), "x": np.repeat(np.r_[np.zeros(500), np.ones(500)], 2)})
    rows.to_parquet(tmp_path / "rows.parquet")
    held = eh.Holdout(tmp_path / "rows.parquet", prior=eh.Reference(rows), unit="id", engine=engine, seed=0)
    assert held.size == 1000
    assert 0.5 in held.share("x > 0.5").interval
    assert eh.Holdout(rows, prior=eh.Split(0.5), unit="id", seed=0).size == 500
    assert eh.Holdout(tmp_path / "rows.parquet", prior=eh.Split(0.5), unit="id", seed=0).size == 500


def test_the_same_unit_is_never_on_both_sides(tmp_path):
    (tmp_path / "ids.csv").write_text("id,x\n" + "".join(f"{i},1\n{i}.0,2\n0{i},3\n" for i in range(200)))
    held = eh.Holdout(str(tmp_path / "ids.csv"), prior=eh.Split(0.5), unit="id", seed=0)
    assert held.size == 300


def test_a_whole_reference_promises_nothing_about_the_population():
    rng = np.random.default_rng(0)
    public = {"h": rng.integers(0, 11, 4000).astype(float)}
    private = {"h": np.where(rng.random(4000) < 0.3, 3.0, np.where(rng.random(4000) < 0.6, 4.5, 6.0))}
    assert 4.5 in eh.Holdout(private, prior=eh.Reference(public), seed=0).median("h").interval


def test_a_complete_reference_promises_nothing_about_missing_values():
    """Whole numbers, for a median of few questions; 20,000 rows, so that its interval leaves out a wrong one of 28."""
    rng = np.random.default_rng(0)
    private = np.where(rng.random(20_000) < 0.3, np.nan, rng.normal(26, 4, 20_000).round())
    held = eh.Holdout({"b": private}, prior=eh.Reference({"b": rng.normal(26, 4, 20_000).round()}), seed=0)
    assert np.nanmean(private) in held.mean("b").interval
    assert np.nanmedian(private) in held.median("b").interval
    all_missing = eh.Holdout({"b": np.full(500, np.nan)}, prior=eh.Reference({"b": rng.normal(26, 4, 500)}), seed=0)
    found = all_missing.mean("b")
    assert found.high - found.low > 0.9 * (all_missing.schema["b"].high - all_missing.schema["b"].low)


def test_columns_with_strange_names_agree_between_engines(tmp_path):
    path = parquet(
        tmp_path / "raw.parquet",
        'SELECT i::DOUBLE AS x, i % 2 AS "raw x", i % 3 AS "c0", i % 5 AS "t0" FROM range(2000) t(i)',
    )
    text = 'x >= 1000 AND "raw x" = 0 AND c0 < 2 AND t0 / (c0 + 1) > 0'
    answers = [
        eh.Holdout(path, prior=eh.Reference(path), engine=engine, seed=0, overlap="allow").ask(text)
        for engine in ("memory", "duckdb")
    ]
    assert answers[0] == answers[1]


class TestExtremeRows:
    @pytest.mark.parametrize(
        "extreme",
        ["TIMESTAMP '294247-01-10 04:00:54'", "TIMESTAMP '290309-12-22 (BC) 00:00:00'", "TIMESTAMP 'infinity'"],
    )
    def test_one_extreme_date_raises_nothing(self, tmp_path, extreme):
        """Exactly one row differs; both engines answer, and alike."""
        dates = "SELECT TIMESTAMP '2020-01-01' + INTERVAL (i) DAY AS d FROM range(1000) t(i)"
        calm = parquet(tmp_path / "calm.parquet", dates)
        wild = parquet(tmp_path / "wild.parquet", f"{dates} WHERE i < 999 UNION ALL SELECT {extreme}")
        for text in ("year(d) > 2021", "d IS NULL", "d < '2021-01-01' OR month(d) = 3 OR hour(d) > 3"):
            found = [
                eh.Holdout(path, prior=eh.Reference(calm), engine=engine, seed=0, overlap="allow").ask(text)
                for path in (calm, wild)
                for engine in ("memory", "duckdb")
            ]
            assert found[0] == found[1]
            assert found[2] == found[3]

    def test_one_extreme_day_raises_nothing(self, tmp_path):
        path = parquet(
            tmp_path / "days.parquet",
            "SELECT DATE '2020-01-01' + i::INT AS d FROM range(500) t(i) UNION ALL SELECT DATE '5881580-07-10'",
        )
        reference = eh.Reference({"d": np.arange("2020-01-01", "2021-01-01", dtype="datetime64[D]")})
        answers = [
            eh.Holdout(path, prior=reference, engine=engine, seed=0, overlap="allow").ask("year(d) > 2020")
            for engine in ("memory", "duckdb")
        ]
        assert answers[0] == answers[1]

    def test_one_long_text(self):
        words = np.array(["note"] * 50_000 + ["x" * 1_000_000, "a\0", "a"], dtype=object)
        assert as_table({"t": words}).column("t").words == ("a", "a\0", "note", "x" * 1000)

    def test_odd_objects_in_pandas_columns(self):
        frame = pd.DataFrame(
            {
                "d": pd.Series([pd.Timestamp("2024-01-01"), pd.NaT, None], dtype=object),
                "z": pd.Series([pd.Timestamp("2024-01-01", tz="Asia/Tokyo"), None, None], dtype=object),
                "n": pd.Series([np.int32(3), pd.NA, 4.5], dtype=object),
            }
        )
        table = as_table(frame)
        assert table.column("d").missing.tolist() == [False, True, True]
        assert table.column("z").decode()[0] == np.datetime64(datetime.datetime(2023, 12, 31, 15))
        assert table.column("n").values[0] == 3.0

    def test_errors_while_fetching_show_nothing(self, tmp_path):
        parquet(tmp_path / "a1.parquet", "SELECT i::BIGINT AS x FROM range(100) t(i)")
        parquet(tmp_path / "a2.parquet", "SELECT 'secret-diagnosis' AS x FROM range(100) t(i)")
        with pytest.raises(DataError, match="different types") as caught:
            as_source(str(tmp_path / "a*.parquet"), what="the private table", private=True)
        assert "secret" not in str(caught.value)


class TestFilesOfAllKinds:
    def test_columns_that_questions_cannot_use_are_left_out(self, tmp_path):
        path = parquet(
            tmp_path / "n.parquet",
            "SELECT i AS x, [i] AS tags, TIME '10:00' AS t, {'a': i} AS s, [1.5::DECIMAL(10,2)] AS p FROM range(300) t(i)",
        )
        for engine in ("memory", "duckdb"):
            held = eh.Holdout(path, prior=eh.Reference(path), engine=engine, seed=0, overlap="allow")
            assert list(held.schema) == ["x"]
            assert held.ask("x < 150").value == 0.5

    def test_wide_files(self, tmp_path):
        names = [f"column {i}" for i in range(400)]
        (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join(str(i) for i in range(400)) + "\n")
        table = as_table(str(tmp_path / "wide.csv"))
        assert len(table) == 400
        assert table.column("column 399").values[0] == 399.0

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("a,b\r1,2\r", "carriage returns"),
            ("Age,age\n1,2\n", "ignoring case"),
            ('"a;b;c",d\n1,2\n', None),
            ('"a\tb","c\nd"\n1,2\n', None),
        ],
    )
    def test_first_lines(self, tmp_path, text, says):
        (tmp_path / "x.csv").write_bytes(text.encode())
        if says is None:
            assert len(as_table(str(tmp_path / "x.csv"))) == 2
        else:
            with pytest.raises(DataError, match=says):
                as_table(str(tmp_path / "x.csv"))


class TestQuestions:
    @staticmethod
    def holdout():
        rows = {"x": np.arange(100.0), "my age": np.arange(100.0), "my city": np.array(["a", "b"] * 50)}
        return eh.Holdout(rows, prior=eh.Reference(rows), seed=0)

    def test_names_with_spaces(self):
        held = self.holdout()
        assert held.table("my city")["a"].value == held.table('"my city"')["a"].value == 0.5
        assert len(held.histogram("my age")) > 2
        assert held.mean("my age").low < 49.5 < held.mean("my age").high

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("my age > 5", 'double quotes: "my age"'),
            ("0 < x < 1", "comparisons with AND"),
            ("NULL IN (1, 2)", "no on every row"),
            ("x = '\ud800'", "lone surrogate"),
            ("x > '5'", "without quotes"),
            ('"my city" > 5', "declare the column as a number"),
            ("x IS TRUE", "column alone"),
        ],
    )
    def test_hints(self, text, says):
        with pytest.raises(QuestionError, match=says):
            self.holdout().ask(text)

    def test_lists_may_have_256_items(self):
        items = ", ".join(str(i) for i in range(256))
        assert self.holdout().ask(f"x IN ({items})").value == 1.0
        with pytest.raises(QuestionError, match="more than 256"):
            self.holdout().ask(f"x IN ({items}, 256)")

    def test_long_words_are_cut_on_both_sides(self):
        word = "w" * 1001
        held = eh.Holdout(
            {"t": np.array([word] * 9, dtype=object)},
            prior=eh.Reference({"t": np.array([word] * 9, dtype=object)}),
            seed=0,
        )
        assert held.ask(f"t = '{word}'").value == 1.0

    def test_ranges_that_are_too_narrow_are_refused_before_anything_is_charged(self):
        held = self.holdout()
        for ask in (
            lambda: held.variance("x", low=0, high=1e-200),
            lambda: held.histogram("x", edges=[0, float("inf")]),
            lambda: held.correlation("x", "x", first_range=5),
        ):
            with pytest.raises(QuestionError):
                ask()
        assert held.rounds == 0

    def test_a_callable_cannot_borrow_the_name_of_a_text(self):
        held = self.holdout()
        named = eh.Values(sample=np.zeros(100, bool), reference=np.zeros(100, bool), name='(0.0 < "x")')
        with pytest.raises(QuestionError, match="could be taken for a question given as text"):
            held.ask_many([named, "x > 1", "x > 2"])
        held.ask_many(["x > 0", "x > 1", "x > 2"])
        others = [eh.Values(sample=np.ones(100, bool), reference=np.arange(100) < cut, name="one") for cut in (3, 4)]
        with pytest.raises(QuestionError, match="two different questions"):
            held.ask_many(others)
        assert held.rounds == 3

    def test_replay_of_units_and_of_programs_that_write_text(self):
        rows = {"who": np.repeat(np.arange(100), 3), "b": np.arange(300) % 4 > 0}
        held = eh.Holdout(rows, prior=eh.Reference(rows), unit="who", seed=0)
        asked = ["b", "NOT b", "who > 50 AND b"]
        told = [held.ask(text) for text in asked]

        def program():
            for text in asked:  # noqa: UP028 - a list cannot be sent answers
                yield text

        assert held.replay(program) == told == held.replay(asked)
