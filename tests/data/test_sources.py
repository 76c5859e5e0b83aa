"""From files and frames to answers: every way in gives the same table, and mistakes are explained."""

from __future__ import annotations

import datetime
import gzip
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import everhold as eh
from everhold.data.sample import Sample
from everhold.data.source import as_source, as_table
from everhold.errors import DataError, PriorError, SettingError

CSV = """id,age,smoker,bmi,city,seen
1,30,true,22.5,York,2024-01-05
2,41,false,,Leeds,2024-02-01 10:30:00
3,55,true,31.25,York,
4,38,false,27.0,"Hull, East",2023-12-31
5,61,true,NA,,2024-03-01
"""


def rows_of(table):
    """Canonical columns as plain lists, for comparison."""
    result = {}
    for name in table:
        column = table.column(name)
        values = column.decode().tolist()
        result[name] = (
            column.kind,
            [None if missing else value for value, missing in zip(values, column.missing, strict=True)],
        )
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    (path / "people.csv").write_text(CSV, encoding="utf-8")
    con = duckdb.connect()
    rows = f"SELECT * REPLACE (CAST(seen AS TIMESTAMP) AS seen) FROM read_csv('{path}/people.csv', nullstr=['NA', ''])"
    con.execute(f"COPY ({rows}) TO '{path}/people.parquet'")
    con.execute(f"COPY (SELECT * FROM read_parquet('{path}/people.parquet') LIMIT 2) TO '{path}/part-1.parquet'")
    con.execute(f"COPY (SELECT * FROM read_parquet('{path}/people.parquet') OFFSET 2) TO '{path}/part-2.parquet'")
    return path


@pytest.fixture(scope="module")
def expected(folder):
    return rows_of(as_table(str(folder / "people.csv")))


def test_none_is_an_answer_among_texts_and_missing_elsewhere(tmp_path):
    """'none' is a common answer; among numbers, dates, yes and no, and names of units it is a missing value."""
    path = tmp_path / "survey.csv"
    path.write_text("who,degree,age,works\na,none,30,yes\nNone,school,None,no\na,None,41,none\nNone,NA,55,yes\n")
    table = as_table(str(path))
    assert rows_of(table) == {
        "who": ("text", ["a", "None", "a", "None"]),
        "degree": ("text", ["none", "school", "None", None]),
        "age": ("number", [30.0, None, 41.0, 55.0]),
        "works": ("boolean", [True, False, None, True]),
    }
    schema = eh.Schema.propose(str(path), warn=False)
    assert Sample(str(path), schema=schema, unit="who").size == 3  # a, and two rows of nobody
    assert schema["degree"].categories == ("None", "none", "school")


class TestEveryWayIn:
    def test_csv(self, expected):
        assert expected["age"] == ("number", [30.0, 41.0, 55.0, 38.0, 61.0])
        assert expected["smoker"] == ("boolean", [True, False, True, False, True])
        assert expected["bmi"] == ("number", [22.5, None, 31.25, 27.0, None])
        assert expected["city"] == ("text", ["York", "Leeds", "York", "Hull, East", None])
        assert expected["seen"][1][1] == datetime.datetime(2024, 2, 1, 10, 30)

    def test_parquet_and_globs(self, folder, expected):
        assert rows_of(as_table(folder / "people.parquet")) == expected
        assert rows_of(as_table(str(folder / "part-*.parquet"))) == expected
        assert rows_of(as_table([str(folder / "part-1.parquet"), folder / "part-2.parquet"])) == expected

    def test_frames(self, folder, expected):
        frame = pl.read_parquet(folder / "people.parquet")
        assert rows_of(as_table(frame)) == expected
        assert rows_of(as_table(frame.lazy())) == expected
        assert rows_of(as_table(frame.to_arrow())) == expected
        assert rows_of(as_table(frame.to_pandas())) == expected
        nullable = frame.to_pandas().convert_dtypes()
        assert rows_of(as_table(nullable)) == expected
        categorical = frame.to_pandas().astype({"city": "category"})
        assert rows_of(as_table(categorical)) == expected

    def test_dialects(self, folder, expected):
        text = CSV.replace('"Hull, East"', '"Hull| East"')
        for delimiter, name in ((";", "people2.csv"), ("\t", "people.tsv"), ("|", "people.txt")):
            lines = text.replace(",", delimiter).replace("Hull| East", "Hull, East")
            (folder / name).write_text("\ufeff" + lines, encoding="utf-8")
            assert rows_of(as_table(str(folder / name))) == expected
        with gzip.open(folder / "people.csv.gz", "wt", encoding="utf-8") as file:
            file.write(CSV.replace("\n", "\r\n"))
        assert rows_of(as_table(str(folder / "people.csv.gz"))) == expected

    def test_other_types(self):
        table = as_table(
            pa.table(
                {
                    "d": pa.array([Decimal("1.5"), None]),
                    "day": pa.array([datetime.date(2024, 5, 1), None]),
                    "zoned": pa.array([datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC), None]),
                    "word": pa.array(["a", "b"]).dictionary_encode(),
                    "list": pa.array([[1], [2]]),
                    "small": pa.array([1, 255], pa.uint8()),
                }
            )
        )
        found = rows_of(table)
        assert found["d"] == ("number", [1.5, None])
        assert found["day"][0] == found["zoned"][0] == "date"
        assert found["word"] == ("text", ["a", "b"])
        assert found["small"] == ("number", [1.0, 255.0])
        assert "list" not in table

    def test_zoned_pandas_times(self):
        zoned = pd.DataFrame({"t": pd.to_datetime(["2024-05-01 12:00"]).tz_localize("Europe/Paris")})
        assert rows_of(as_table(zoned))["t"][1] == [datetime.datetime(2024, 5, 1, 10, 0)]

    def test_callables_see_loaded_columns(self, folder):
        held = eh.Holdout(str(folder / "people.csv"), prior=eh.Reference(str(folder / "people.parquet")), seed=0)
        answer = held.ask(lambda rows: rows["age"] > 40)
        assert answer == eh.Holdout(
            str(folder / "people.csv"), prior=eh.Reference(str(folder / "people.parquet")), seed=0
        ).ask("age > 40")


class TestMistakesOnTheWay:
    @pytest.mark.parametrize(
        ("name", "content", "says"),
        [
            ("peple.csv", None, "Did you mean 'people.csv'"),
            ("nothing-*.csv", None, "no file matches"),
            ("notes.docx", "x", "not named like a CSV or Parquet"),
            ("broken.parquet", "not parquet", "could not be read"),
            ("empty.csv", "a,b\n", "no rows"),
            ("void.csv", "", "no first line"),
            ("twice.csv", "a,a\n1,2\n", "two columns named 'a'"),
            ("nameless.csv", "a,\n1,2\n", "without a name"),
            ("ragged.csv", "a,b\n1,2\n1,2,3\n", "could not be read as CSV"),
        ],
    )
    def test_files(self, folder, name, content, says):
        if content is not None:
            (folder / name).write_text(content)
        with pytest.raises(DataError, match=says):
            as_table(str(folder / name))

    def test_mixed_files(self, folder):
        with pytest.raises(DataError, match="both CSV and Parquet files"):
            as_table([str(folder / "people.csv"), str(folder / "people.parquet")])

    def test_other_columns(self, folder):
        (folder / "other.csv").write_text(CSV.replace("bmi", "bmj"))
        with pytest.raises(PriorError, match=r"'bmi'.* Did you mean 'bmj'"):
            eh.Holdout(str(folder / "people.csv"), prior=eh.Reference(str(folder / "other.csv")))

    def test_not_a_table(self):
        with pytest.raises(DataError, match=r"of type set. Expected a path"):
            as_table({1, 2})
        with pytest.raises(DataError, match="pandas Series"):
            as_table(pd.Series([1]))

    def test_private_messages_show_nothing(self, folder):
        (folder / "private.csv").write_text("a,b\n1,2\nSECRET,3,4\n")
        (folder / "secret.parquet").write_text("SECRET")
        for name in ("private.csv", "secret.parquet"):
            with pytest.raises(DataError) as caught:
                as_source(str(folder / name), what="the private table", private=True).table({"a": "number", "b": "number"})
            assert "SECRET" not in str(caught.value)
            assert caught.value.__cause__ is None
            assert caught.value.__suppress_context__


class TestSchema:
    def test_it_is_proposed_from_the_public_side(self, folder):
        schema = eh.Schema.propose(str(folder / "people.csv"))
        assert schema["age"] == eh.ColumnSchema("age", "number", 30.0, 61.0, whole=True)
        assert schema["city"].categories == ("Hull, East", "Leeds", "York")
        assert schema["bmi"].missing
        assert schema["seen"].kind == "date"

    def test_it_survives_its_file(self, folder):
        schema = eh.Schema(
            (
                eh.ColumnSchema("a b", "number", -1.5, 1e6, whole=True),
                eh.ColumnSchema('quo"te\\n', "text", categories=("x", 'y"', "line\nbreak", "\x7f", "ü"), others="missing"),
                eh.ColumnSchema("when", "date", missing=False),
                eh.ColumnSchema("yes", "boolean"),
            )
        )
        schema.save(folder / "schema.toml")
        assert eh.Schema.load(folder / "schema.toml") == schema
        assert 'kind = "number"' in (folder / "schema.toml").read_text()

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "format"),
            ("format = 2\n", "format 2"),
            ("format = 1\n", "declares no columns"),
            ("format = 1\n[columns.a]\nlow = 1\n", "no kind"),
            ('format = 1\n[columns.a]\nkind = "numbr"\n', "numbr"),
            ('format = 1\n[columns.a]\nkind = "number"\nlow = 1\n', "both"),
            ('format = 1\n[columns.a]\nkind = "number"\nlow = 2\nhigh = 1\n', "low < high"),
            ('format = 1\n[columns.a]\nkind = "text"\ncategorys = ["a"]\n', "Did you mean 'categories'"),
            ('format = 1\n[columns.a]\nkind = "text"\ncategories = [1]\n', "not text"),
            ('format = 1\n[columns.a]\nkind = "text"\nmissing = "no"\n', "Expected a bool"),
            ("format = 1\n[columns.a\n", "not valid TOML"),
        ],
    )
    def test_mistakes_in_the_file(self, folder, text, says):
        (folder / "bad.toml").write_text(text)
        with pytest.raises(SettingError, match=says):
            eh.Schema.load(folder / "bad.toml")

    def test_private_rows_that_break_it_follow_its_rules(self, folder):
        """Unreadable numbers, unknown words, values out of range: no error, the same rules on every row."""
        public = {
            "age": np.arange(20.0, 60.0),
            "city": np.array(["York", "Leeds"] * 20),
            "ok": np.array([True, False] * 20),
        }
        (folder / "breaking.csv").write_text("age,city,ok\n30,York,yes\ntwelve,Leeds,maybe\n900,Bath,no\n,York,1\n")
        open_, closed = (
            eh.Schema(
                (
                    eh.ColumnSchema("age", "number", 20.0, 60.0, missing=False),
                    eh.ColumnSchema("city", "text", categories=("York", "Leeds"), others=others),
                    eh.ColumnSchema("ok", "boolean"),
                )
            )
            for others in ("keep", "missing")
        )
        kept = as_source(str(folder / "breaking.csv"), what="rows", private=True)
        found = rows_of(open_.conform(kept.table(open_.kinds)))
        assert found["age"] == ("number", [30.0, None, 900.0, None])
        assert found["ok"] == ("boolean", [True, None, False, True])
        assert found["city"] == ("text", ["York", "Leeds", "Bath", "York"])
        assert rows_of(closed.conform(kept.table(closed.kinds)))["city"] == ("text", ["York", "Leeds", None, "York"])
        held = eh.Holdout(str(folder / "breaking.csv"), prior=eh.Reference(public), schema=closed, seed=0)
        assert held.ask("city = 'York'").round == 1
        with pytest.raises(eh.QuestionError, match=r"'city' is never 'Yrok'. Did you mean 'York'"):
            held.ask("city = 'Yrok'")

    def test_typed_tables_are_converted_too(self):
        schema = eh.Schema((eh.ColumnSchema("a", "number"), eh.ColumnSchema("b", "boolean"), eh.ColumnSchema("c", "text")))
        given = {"a": np.array(["1", "x", "1e3"]), "b": np.array([1, 0, 2]), "c": np.array([7.0, np.nan, 2.5])}
        found = rows_of(schema.conform(as_table(given)))
        assert found == {
            "a": ("number", [1.0, None, 1000.0]),
            "b": ("boolean", [True, False, None]),
            "c": ("text", ["7", None, "2.5"]),
        }
        with pytest.raises(DataError, match="holds dates, which cannot be read as number"):
            schema.conform(as_table({**given, "a": np.array(["2024-01-01"] * 3, dtype="datetime64[D]")}))
        with pytest.raises(DataError, match="no column 'c'"):
            schema.conform(as_table({"a": [1.0], "b": [True]}))

    def test_csv_and_memory_read_words_alike(self, folder):
        """The same strange words, read by DuckDB from a file and by Python from an array."""
        words = ["1", " 2 ", "1e3", "1_000", "abc", "inf", "-inf", "nan", "0x10", "1e400", ".5", "5.", "+5", "1,5", "true",
                 "T", "Yes", "n", "2024-01-01", "2024-1-1", "2024-01-01T10:00", "2024-01-01 10:00:00.5", "epoch",
                 "2024-01-01 10:00:00+02", "2024-13-01", "20240101"]  # fmt: skip
        pd.DataFrame({"w": words}).to_csv(folder / "words.csv", index=False)
        raw = as_source(str(folder / "words.csv"), what="rows")
        for kind in ("number", "boolean", "date"):
            schema = eh.Schema((eh.ColumnSchema("w", kind),))
            from_file = rows_of(raw.table({"w": kind}))["w"]
            in_memory = rows_of(schema.conform(as_table({"w": np.array(words)})))["w"]
            assert from_file == in_memory, kind

    def test_examine_tells_the_owner(self, folder):
        schema = eh.Schema.propose({"age": [20.0, 60.0], "city": ["York", "Leeds"], "ok": [True, False]})
        (folder / "owner.csv").write_text("age,city,ok\n30,York,yes\ntwelve,Leeds,maybe\n900,Bath,no\n,York,1\n")
        report = eh.examine(str(folder / "owner.csv"), schema)
        assert report.rows == 4
        assert report["age"].unreadable == 1
        assert report["age"].missing == 1
        assert report["age"].outside == 1
        assert report["city"].outside == 1
        assert report["ok"].unreadable == 1
        assert "age" in repr(report)


class TestSplit:
    def test_rows_are_divided_by_the_coins(self):
        rows = {"x": np.arange(1000.0)}
        one, again = (eh.Holdout(rows, prior=eh.Split(0.3), seed=5) for _ in range(2))
        assert one.size == 700
        public = one.prior.pool(np.random.default_rng(0)).rows["x"]
        assert len(public) == 300
        assert np.array_equal(public, again.prior.pool(np.random.default_rng(0)).rows["x"])
        other = eh.Holdout(rows, prior=eh.Split(0.3), seed=6).prior.pool(np.random.default_rng(0)).rows["x"]
        assert not np.array_equal(public, other)
        private = set(np.arange(1000.0)) - set(public)
        assert len(private) == 700

    def test_files_are_divided_too(self, tmp_path):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"x": rng.random(2000), "word": rng.choice(["a", "b"], 2000)})
        frame.to_csv(tmp_path / "one.csv", index=False)
        frame.to_parquet(tmp_path / "one.parquet")
        answers = [
            eh.Holdout(data, prior=eh.Split(0.5), seed=3).ask("x > 0.3 AND word = 'a'")
            for data in (str(tmp_path / "one.csv"), str(tmp_path / "one.parquet"), frame)
        ]
        assert answers[0] == answers[1] == answers[2]
        assert 0.35 in answers[0].interval

    def test_units_stay_together(self):
        rows = {"who": np.repeat(np.arange(200), 5), "x": np.arange(1000.0)}
        held = eh.Holdout(rows, prior=eh.Split(0.25), unit="who", seed=1)
        assert held.size == 150
        shown = held.prior.pool(np.random.default_rng(0)).rows
        assert len(np.unique(shown["who"])) == 50
        assert shown.row_count == 250

    def test_mistakes(self):
        with pytest.raises(SettingError, match="strictly between 0 and 1"):
            eh.Split(1.0)
        with pytest.raises(DataError, match="leaves one side without rows"):
            eh.Holdout({"x": [1.0]}, prior=eh.Split(0.5))


class TestUnits:
    def rows(self, seed, people=400):
        rng = np.random.default_rng(seed)
        visits = rng.integers(1, 9, people)
        sick = rng.random(people) < 0.3
        return {
            "who": np.repeat(np.arange(people), visits),
            "ill": rng.random(visits.sum()) < np.repeat(0.2 + 0.5 * sick, visits),
        }

    def test_a_person_is_one_draw(self):
        private = self.rows(0)
        held = eh.Holdout(private, prior=eh.Reference(self.rows(1)), unit="who", seed=0)
        assert held.size == 400
        answer = held.ask("ill")
        assert answer.scale == "share"
        by_person = pd.Series(private["ill"]).groupby(private["who"]).mean().mean()
        assert abs(answer.value - by_person) < 0.1
        assert by_person in answer.interval
        assert held.ask("ill") == answer
        assert held.ask_many(["ill", "NOT ill", "ill AND who > 3"])[0] == answer
        assert held.audit().ok
        assert held.try_out("ill").scale == "share"
        assert held.mean("ill").low < by_person < held.mean("ill").high

    def test_repeating_rows_narrows_nothing(self):
        """The point of units: a hundred copies of every row are no new evidence."""
        once, often = self.rows(0), {name: np.repeat(column, 100) for name, column in self.rows(0).items()}
        answers = [
            eh.Holdout(rows, prior=eh.Reference(self.rows(1)), unit="who", seed=0).ask("ill") for rows in (once, often)
        ]
        assert answers[0] == answers[1]

    def test_a_reference_without_the_column(self):
        schema = eh.Schema((eh.ColumnSchema("ill", "boolean", missing=False),))
        held = eh.Holdout(self.rows(0), prior=eh.Reference({"ill": np.arange(200) % 3 == 0}), unit="who", schema=schema)
        assert held.size == 400
        assert 0.35 in held.ask("ill").interval
        with pytest.raises(DataError, match=r"no column 'whoo' to group rows by \(unit=\). Did you mean 'who'"):
            eh.Holdout(self.rows(0), prior=eh.Reference({"ill": [True, False]}), unit="whoo", schema=schema)

    def test_callables_and_fresh_rows_are_refused(self):
        held = eh.Holdout(self.rows(0), prior=eh.Reference(self.rows(1)), unit="who", seed=0)
        with pytest.raises(eh.QuestionError, match="only text questions"):
            held.ask(lambda rows: rows["ill"])
        with pytest.raises(SettingError, match="fixed rows"):
            eh.Holdout(
                self.rows(0),
                prior=eh.Sampler(lambda rng, size: {"who": rng.random(size), "ill": rng.random(size) < 0.3}, size=None),
                unit="who",
            )


class TestDuckDBHoldout:
    def test_the_same_answers_as_in_memory(self, tmp_path):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(
            {"age": rng.integers(18, 90, 5000), "bmi": np.where(rng.random(5000) < 0.1, np.nan, rng.normal(26, 4, 5000)),
             "city": rng.choice(["York", "Leeds", None], 5000)}
        )  # fmt: skip
        for part in range(2):
            frame[part::2].to_parquet(tmp_path / f"part-{part}.parquet")
        reference = eh.Reference(frame.sample(2000, random_state=1))
        held = [
            eh.Holdout(str(tmp_path / "part-*.parquet"), prior=reference, engine=engine, seed=0, overlap="allow")
            for engine in ("memory", "duckdb")
        ]
        for ask in (
            lambda h: h.ask("age > 40 AND city = 'York'"),
            lambda h: h.ask_many(["bmi > 30", "bmi > 30 OR age < 20", "city IS NULL"]),
            lambda h: h.mean("bmi", given="age > 50"),
            lambda h: h.quantile("age", 0.3),
            lambda h: h.table("city"),
        ):
            assert ask(held[0]) == ask(held[1])
        with pytest.raises(eh.QuestionError, match="needs the rows in memory"):
            held[1].ask(lambda rows: rows["age"] > 3)
        assert held[1].audit().ok

    def test_a_file_that_changes_is_refused(self, tmp_path):
        frame = pd.DataFrame({"x": np.arange(100.0)})
        frame.to_parquet(tmp_path / "x.parquet")
        held = eh.Holdout(tmp_path / "x.parquet", prior=eh.Reference({"x": np.arange(50.0) + 0.5}), engine="duckdb", seed=0)
        held.ask("x > 3")
        frame[:50].to_parquet(tmp_path / "x.parquet")
        with pytest.raises(DataError, match="have changed"):
            held.ask("x > 4")
        assert held.rounds == 1

    def test_the_engine_can_do_nothing_else(self, tmp_path):
        pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "x.parquet")
        pd.DataFrame({"x": [2.0]}).to_parquet(tmp_path / "other.parquet")
        held = eh.Holdout(tmp_path / "x.parquet", prior=eh.Reference({"x": [1.0, 2.0]}), engine="duckdb", seed=0)
        con = held.session.sample._engine._con
        for attempt in (
            f"SELECT * FROM read_parquet('{tmp_path}/other.parquet')",
            "SELECT * FROM read_csv('/etc/passwd')",
            f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
            "SET enable_external_access = true",
            "SET memory_limit = '100GB'",
            "INSTALL httpfs",
            "LOAD httpfs",
            f"ATTACH '{tmp_path}/x.db'",
        ):
            with pytest.raises(duckdb.Error):
                con.execute(attempt)

    def test_mistakes(self, tmp_path):
        with pytest.raises(DataError, match="reads Parquet files"):
            eh.Holdout({"x": [1.0]}, prior=eh.Reference({"x": [1.0, 2.0]}), engine="duckdb")
        with pytest.raises(SettingError, match="auto, memory, duckdb"):
            eh.Holdout({"x": [1.0]}, prior=eh.Reference({"x": [1.0, 2.0]}), engine="spark")
