"""Spark gives the same steps on every row as memory, over Connect and in classic sessions; whole studies; failures."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import everhold as eh
from everhold.data.database_urls import open_table
from everhold.data.engines.dialect import Dialect
from everhold.data.engines.dialects.spark import SPARK, SparkDialect
from everhold.data.engines.memory import MemoryEngine
from everhold.data.engines.remote import RemoteEngine
from everhold.errors import DataError, LedgerError, SettingError
from tests.engines import traps
from tests.remote.agreement import check_random, check_traps, unit_of
from tests.remote.spark_rows import PATIENTS, write, write_random, write_traps
from tests.remote.study import SCHEMA, close, patients, play

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::everhold.errors.ReferenceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PySpark 4.3 about pandas 3
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
ROOT = Path(__file__).parent.parent.parent
POISON = "Alice-HIV-positive"


def opened(server, path):
    return open_table(eh.Spark(str(path), remote=server.url), what="the private table", private=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def trap_rows(folder):
    return write_traps(folder / "traps.parquet")


@pytest.fixture(scope="module")
def random_rows(folder):
    return write_random(folder / "random.parquet")


@pytest.fixture(scope="module")
def reference():
    return eh.Reference({name: values for name, values in patients(2_000, 1, smokers=0.3).items() if name != "patient"})


def test_random_questions_agree_on_every_row(spark, folder, random_rows):
    check_random(opened(spark, folder / "random.parquet"), random_rows, seeds=range(8), batch=125)


def test_traps_agree_on_every_row(spark, folder, trap_rows):
    check_traps(opened(spark, folder / "traps.parquet"), trap_rows, batch=70)


def test_compiled_statements_agree_too(spark, folder, trap_rows, random_rows):
    for name, check in {
        "random": lambda rows: check_random(rows, random_rows, [5], 25),
        "traps": lambda rows: check_traps(rows, trap_rows, 9),
    }.items():
        rows = opened(spark, folder / f"{name}.parquet")
        rows._own[0].conf.set("spark.sql.codegen.wholeStage", "true")
        rows._own[0].conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY")
        check(rows)


def test_the_deepest_question_has_no_deeply_nested_selects(spark, folder, trap_rows):
    """Each takes some of the stack of the parser's thread, more while its code is not compiled: a busy machine would fail."""
    selects = RemoteEngine(opened(spark, folder / "traps.parquet"), traps.KINDS)._select()
    sql = selects.sums(traps.questions())
    assert selects.depth > 150
    assert _nested(sql) == 2


def _nested(sql):
    """How many SELECTs stand within others."""
    inside, most = [False], 0
    for sign in re.findall(r"\(SELECT\b|\(|\)", sql):
        if sign == ")":
            inside.pop()
        else:
            inside.append(sign != "(")
        most = max(most, sum(inside))
    return most


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_classic_sessions_agree(spark, tmp_path, ansi):
    """In a process of its own; its time zone is not New York, names differ by case, ANSI mode is on or off."""
    run = [sys.executable, "-m", "tests.remote.classic", str(tmp_path), ansi]
    done = subprocess.run(
        run, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "classic sessions agree" in done.stdout


@pytest.mark.parametrize("unit", ["f", "s"])
def test_units_agree(spark, folder, trap_rows, unit):
    engine = RemoteEngine(opened(spark, folder / "traps.parquet"), traps.KINDS, unit=unit)
    memory = MemoryEngine(traps.table(trap_rows).by_unit(unit_of(trap_rows[unit])))
    assert engine.size == memory.size
    asked = traps.questions()[::9]
    assert engine.sums(asked) == memory.sums(asked)


def test_a_collation_of_the_column_does_not_count(spark, folder, trap_rows):
    rows = opened(spark, folder / "traps.parquet")
    with rows._view() as session:
        session.read.parquet(str(folder / "traps.parquet")).selectExpr(
            "id", "collate(s, 'UTF8_LCASE') AS s"
        ).createOrReplaceTempView("folded")
        described = eh.Spark("folded", session=session)
        folded = open_table(described, what="rows", private=True)
        kinds = {"s": "text"}
        assert "collate" in folded.types["s"].lower()
        engine, memory = RemoteEngine(folded, kinds, place="id"), MemoryEngine(traps.table(trap_rows, kinds))
        from everhold.queries.expression import expression
        from tests.remote.agreement import differing

        asked = [
            expression(text, kinds)
            for text in ("s = 'a'", "s < 'B'", "s IN ('a', 'zz')", "s LIKE '%a'", "lower(s) = 'a'", "length(s) = 1")
        ]
        assert not differing(engine, memory, asked)


def test_a_session_with_usual_settings_refuses_what_it_cannot_analyse(spark, folder, trap_rows):
    """Spark gives up after so many steps; that depends on the question alone, and is said before anything is charged."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection=spark.url)
    rows = open_table(eh.Spark(str(folder / "traps.parquet"), session=session), what="rows", private=True)
    engine, memory = RemoteEngine(rows, traps.KINDS), MemoryEngine(traps.table(trap_rows))
    from everhold.queries.expression import expression

    deepest = {text[:3]: expression(text, traps.KINDS) for text in traps.deep()}
    for question in (deepest["sqr"], expression("ln(abs(ln(abs(ln(abs(x) + 2)) + 2)) + 2) > 1", traps.KINDS)):
        assert engine.sums([question]) == memory.sums([question])
    with pytest.raises(eh.QuestionError, match="nested too deeply for Spark"):
        engine.sums([deepest["ln("]])
    session.conf.set("spark.sql.lateralColumnAlias.enableImplicitResolution", "false")
    with pytest.raises(DataError, match=r"lateralColumnAlias.enableImplicitResolution=false. Expected true"):
        engine.sums([deepest["sqr"]])
    session.client.close()


# each spelling matters ------------------------------------------------------------------------------------------------


def like(x, pattern):
    return f"({x} LIKE {SPARK.literal(pattern)})"


NAIVE = {
    "decimal literals": {
        "number": lambda self, value: (
            repr(float(value)).replace("e+", "e") if abs(value) > 1e-15 or not value else f"{value!r}D"
        )
    },
    "quotes doubled only": {"literal": Dialect.literal},
    "settings replaced": {
        "literal": lambda self, text: (
            SPARK.literal(text).replace("\\u0024", "$").replace("\\u007B", "{").replace("\\u007D", "}")
        )
    },
    "NaN is not looked for": {"is_nan": lambda self, x: "FALSE"},
    "round half up": {"rint": lambda self, x: f"round({x})"},
    "whole floor": {"floor": Dialect.floor},
    "whole ceil": {"ceil": Dialect.ceil},
    "truncated by a cast": {"trunc": lambda self, x, once: f"CAST(CAST({x} AS BIGINT) AS DOUBLE)"},
    "double precision kept": {"single": lambda self, x: x},
    "Spark's lower case": {"change_case": lambda self, name, x, once: f"{name}({x})"},
    "contains by LIKE": {"contains": lambda self, x, body: like(x, f"%{body}%")},
    "starts by LIKE": {"starts": lambda self, x, body: like(x, f"{body}%")},
    "parts of any stored date": {
        "stored_part": lambda self, part, column, found, canonical: (
            f"CAST({part}({column}) AS DOUBLE)" if found != "string" else None
        )
    },
    "the session's time zone": {
        "stored_part": Dialect.stored_part,
        "date_part": lambda self, part, micros, once: f"CAST({part}(timestamp_micros(CAST({micros} AS BIGINT))) AS DOUBLE)",
    },
    "times by the session's zone": {
        "_micros": lambda self, column, base: f"CAST(unix_micros(CAST({column} AS TIMESTAMP)) AS DOUBLE)"
    },
    "doubles as they are": {"clamped": lambda self, value: f"({value} + 0D)"},
    "texts of any length": {"left": lambda self, x, count: x},
    "length in bytes": {"length": lambda self, x: f"CAST(octet_length({x}) AS DOUBLE)"},
    "units by the raw column": {"unit": lambda self, name, found: self.identifier(name)},
    "whole numbers as they are": {
        "_double": lambda self, column, base: self.clamped(column) if base == "double" else f"CAST({column} AS DOUBLE)"
    },
}


@pytest.fixture(scope="module")
def judged(trap_rows):
    """What memory says of every third trap, and of those that the mutants are about."""
    memory = MemoryEngine(traps.table(trap_rows))
    every = traps.questions()
    chosen = [
        q
        for place, q in enumerate(every)
        if place % 3 == 0
        or any(sign in q.name for sign in ("$", "round", "floor", "ceil", "%", "\\", "/", "lower", "1000", "hour", "zoned"))
    ]
    return [(question, memory.steps(question)) for question in chosen]


def disagrees(server, folder, dialect, columns, judged):
    import numpy as np

    rows = opened(server, folder / "traps.parquet")
    rows.dialect = dialect
    try:
        if RemoteEngine(rows, traps.KINDS, unit="f").size != len(unit_of(columns["f"])):
            return True
        engine = RemoteEngine(rows, traps.KINDS, place="id")
        for start in range(0, len(judged), 40):
            some = judged[start : start + 40]
            found = engine.steps_of([question for question, _ in some])
            if any(not np.array_equal(one, steps) for one, (_, steps) in zip(found, some, strict=True)):
                return True
    except DataError:
        return True
    return False


@pytest.mark.parametrize("name", NAIVE)
def test_a_naive_spelling_is_found(spark, folder, trap_rows, judged, name):
    """`test_traps_agree_on_every_row` shows that without the mutant there is nothing to find."""
    mutant = type("Mutant", (SparkDialect,), NAIVE[name])()
    assert disagrees(spark, folder, mutant, trap_rows, judged)


# studies --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [None, "patient"])
def test_a_whole_study_equals_memory_to_the_bit(spark, reference, tmp_path, unit):
    columns = patients(3_000, 2)
    write(tmp_path / "patients.parquet", columns, PATIENTS)
    described = eh.Spark(str(tmp_path / "patients.parquet"), remote=spark.url)
    options = {"prior": reference, "schema": SCHEMA, "unit": unit, "seed": 5}
    memory = eh.Holdout.create(tmp_path / "memory.everhold", columns, **options)
    remote = eh.Holdout.create(tmp_path / "remote.everhold", described, **options)
    assert play(remote) == play(memory)
    remote.release()
    if unit is None:
        spark.stop()
        with pytest.raises(DataError, match="Spark did not answer"):
            eh.Holdout.open(tmp_path / "remote.everhold")
        spark.start()
    again = eh.Holdout.open(tmp_path / "remote.everhold")
    assert close(again, units=unit is not None) == close(memory, units=unit is not None)
    assert again.audit().ok
    again.release()
    memory.release()


def test_failures_charge_nothing_and_changed_files_stop_the_study(spark, reference, tmp_path):
    columns = patients(1_000, 2)
    place = tmp_path / "patients.parquet"
    write(place, columns, PATIENTS)
    holdout = eh.Holdout.create(
        tmp_path / "s.everhold", eh.Spark(str(place), remote=spark.url), prior=reference, schema=SCHEMA, seed=5
    )
    quiet = eh.Holdout(columns, prior=reference, schema=SCHEMA, seed=5)
    assert repr(holdout.ask("age > 40")) == repr(quiet.ask("age > 40"))
    price, head = holdout.price, holdout.head
    spark.stop()
    for act in (lambda: holdout.ask("smoker"), lambda: holdout.read("smoker")):
        with pytest.raises(DataError, match="Spark did not answer") as caught:
            act()
        assert caught.value.__cause__ is None
    assert (holdout.price, holdout.head) == (price, head)
    spark.start()
    assert repr(holdout.ask("smoker")) == repr(quiet.ask("smoker"))  # a new session, and the study goes on
    kept = place.read_bytes()
    columns["age"][0] += 1
    write(place, columns, PATIENTS)
    with pytest.raises(DataError, match="has changed since the session began"):
        holdout.ask("age > 50")
    holdout.release()
    with pytest.raises(LedgerError, match="these are not the rows"):
        eh.Holdout.open(tmp_path / "s.everhold")
    place.write_bytes(kept)
    again = eh.Holdout.open(tmp_path / "s.everhold")
    assert repr(again.ask("age > 50")) == repr(quiet.ask("age > 50"))
    write(place, columns, {name: kind for name, kind in PATIENTS.items() if name != "smoker"})
    with pytest.raises(DataError, match="columns of the private table have changed"):
        again.ask("age > 60")
    again.release()


def test_examine_reference_and_overlap(spark, reference, tmp_path):
    columns = patients(500, 4)
    columns["bmi"][:40] = [5.0] * 40
    described = eh.Spark(write(tmp_path / "rows.parquet", columns, PATIENTS), remote=spark.url)
    assert eh.examine(described, SCHEMA) == eh.examine(columns, SCHEMA)
    shared = {name: values[:200] for name, values in columns.items() if name != "patient"}
    with pytest.raises(eh.PriorError, match="private rows also occur in the public reference"):
        eh.Holdout(described, prior=eh.Reference(shared), schema=SCHEMA)
    private = patients(800, 9)
    one, other = (eh.Holdout(private, prior=eh.Reference(public), seed=3, schema=SCHEMA) for public in (described, columns))
    assert play(one) == play(other)


def test_no_message_shows_a_row_and_no_token_is_kept(spark, reference, tmp_path, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    columns = patients(200, 6)
    columns["city"] = [POISON] * 200
    described = eh.Spark(write(tmp_path / "poisoned.parquet", columns, PATIENTS), remote=spark.url)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        holdout = eh.Holdout.create(tmp_path / "p.everhold", described, prior=reference, schema=SCHEMA, seed=1)
        shown = [repr(holdout.ask("city = 'Oslo'")), repr(eh.examine(described, SCHEMA))]
        rows = holdout.session.sample._engine._rows
        for sql in (
            "SELECT CAST(city AS DOUBLE) FROM {}",
            "SELECT age / (age - age) FROM {}",
            "SELECT raise_error(city) FROM {}",
        ):
            with pytest.raises(DataError) as caught:
                rows.fetch([sql.format(rows.relation)])
            shown += [str(caught.value), repr(caught.value.__cause__)]
    holdout.release()
    out, err = capfd.readouterr()
    everything = "\n".join([*shown, *(str(one.message) for one in warned), out, err, caplog.text])
    assert len(everything) > 500
    assert POISON not in everything
    assert POISON in spark.log or "raise_error" not in spark.log  # the server's own log may: the docs say so
    for url in ("sc://host:443/;token=hunter2", "sc://u:hunter2@host:443"):
        with pytest.raises(SettingError) as caught:
            eh.Spark("patients", remote=url)
        assert "hunter2" not in str(caught.value)


def test_names_that_spark_would_change_are_refused(spark, tmp_path):
    import pyarrow as pa

    write(tmp_path / "dollar.parquet", {"${env:HOME}": [1.0]}, {"${env:HOME}": pa.float64()})
    rows = opened(spark, tmp_path / "dollar.parquet")
    with pytest.raises(DataError, match="which Spark would replace by a setting"):
        RemoteEngine(rows, rows.kinds())
