"""What happens to a study when Spark fails or its rows change; which rows are trusted to stay as they are; behind a server.

No question here is slow by chance: one that is to be interrupted, or killed under way, never ends by itself.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import everhold as eh
from everhold.data.database_urls import open_table
from everhold.data.engines import brake
from everhold.data.engines.memory import MemoryEngine
from everhold.data.engines.remote import RemoteEngine
from everhold.data.table import RowTable
from everhold.errors import DataError, LedgerError
from everhold.queries.expression import expression
from tests.remote.agreement import unit_of
from tests.remote.spark_rows import PATIENTS, write
from tests.remote.spark_server import SparkServer
from tests.remote.study import SCHEMA, patients, play

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::everhold.errors.ReferenceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PySpark 4.3 about pandas 3
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
UNDER_WAY = "java_method('java.lang.System', 'setProperty', 'everhold.under.way', '{mark}')"
ENDLESS = f"(SELECT count(s) AS n FROM (SELECT {UNDER_WAY} AS s FROM range(0, 9000000000000000000, 1, {{tasks}})))"
ROWS = 1_000


@pytest.fixture(scope="module")
def reference():
    return eh.Reference({name: values for name, values in patients(2_000, 1, smokers=0.3).items() if name != "patient"})


class Admin:
    """Somebody else on the same server, who may do anything to the rows of a test."""

    def __init__(self, server, folder) -> None:
        self.server, self.file = server, folder / "patients.parquet"
        self.columns = patients(ROWS, 2)
        write(self.file, self.columns, PATIENTS)
        self._session = None

    def run(self, *statements):
        from pyspark.sql.connect.session import SparkSession

        if self._session is None:
            self._session = SparkSession(connection=self.server.url)
        return [self._session.sql(sql).collect() for sql in statements][-1]

    def leave(self) -> None:
        if self._session is not None:
            self._session.client.close()
        self._session = None

    def view(self, columns="*", where="", also="") -> None:
        self.run(f"CREATE OR REPLACE VIEW patients AS SELECT {columns} FROM parquet.`{self.file}` AS p {also} {where}")

    def endless_view(self, tasks: int, mark: str = "yes") -> None:
        """Its rows are the same, and would come when the sun has gone out."""
        self.view("p.*", "WHERE n > 0", f"CROSS JOIN {ENDLESS.format(tasks=tasks, mark=mark)}")

    def wait_until_under_way(self, mark: str, asking: threading.Thread) -> None:
        while asking.is_alive():
            if self.run("SELECT java_method('java.lang.System', 'getProperty', 'everhold.under.way')")[0][0] == mark:
                return


@pytest.fixture
def admin(spark, tmp_path):
    made = Admin(spark, tmp_path)
    yield made
    made.run("DROP VIEW IF EXISTS patients")
    made.leave()


@pytest.fixture
def study(spark, admin, reference, tmp_path):
    """A study of a view, in which one question was asked."""
    admin.view()
    described = eh.Spark("default.patients", remote=spark.url)
    holdout = eh.Holdout.create(tmp_path / "study.everhold", described, prior=reference, schema=SCHEMA, seed=5)
    holdout.ask("age > 40")
    yield holdout
    holdout.release()


def rows_of(holdout):
    return holdout.session.sample._engine._rows


def limit(holdout, seconds):
    """As if it had been described with this limit. The study itself was made without haste."""
    rows = rows_of(holdout)
    rows._described = replace(rows._described, seconds=seconds)


def same_as_never_failed(holdout, admin, reference):
    quiet = eh.Holdout(admin.columns, prior=reference, schema=SCHEMA, seed=5)
    quiet.ask("age > 40")
    assert play(holdout) == play(quiet)


# how long it may take -------------------------------------------------------------------------------------------------


def test_a_question_that_never_ends_is_interrupted_and_fails_like_any_other(study, admin, reference):
    """It occupies every core of the server, so the next questions are answered only if it has really ended there."""
    price, head = study.price, study.head
    admin.endless_view(tasks=4)
    limit(study, 0.2)
    said = []
    for act in (lambda: study.ask("smoker"), lambda: study.ask_many(["smoker", "age > 50"])):
        with pytest.raises(DataError, match=r"did not answer: .* longer than 0.2 s. Nothing was charged") as caught:
            act()
        assert caught.value.__cause__ is None
        said.append(str(caught.value))
    assert len(set(said)) == 1
    assert (study.price, study.head) == (price, head)
    admin.view()
    limit(study, 600.0)
    same_as_never_failed(study, admin, reference)
    assert study.audit().ok


def test_a_server_that_takes_no_interruption_is_hung_up_on(spark, study, admin, reference, monkeypatch):
    """It stands still, as behind a broken network: nothing comes, and no connection breaks."""
    monkeypatch.setattr(brake, "_PATIENCE", 0.2)
    price, head = study.price, study.head
    limit(study, 0.2)
    spark.pause()
    try:
        with pytest.raises(DataError, match="Nothing was charged"):
            study.ask("smoker")
    finally:
        spark.resume()
    assert (study.price, study.head) == (price, head)
    limit(study, 600.0)
    quiet = eh.Holdout(admin.columns, prior=reference, schema=SCHEMA, seed=5)
    quiet.ask("age > 40")
    assert repr(study.ask("smoker")) == repr(quiet.ask("smoker"))


def test_the_limit_of_a_url_reaches_the_table(spark, admin):
    described = eh.data.database_urls.at_url(f"spark+{spark.url}/?path={admin.file}&seconds=7200")
    assert open_table(described, what="rows", private=True)._described.seconds == 7200


# failures -------------------------------------------------------------------------------------------------------------


def test_a_server_that_is_killed_in_the_middle_of_a_question(spark, study, admin, reference, tmp_path):
    """Its catalogue is in memory, so the view is gone until somebody makes it again."""
    price, head = study.price, study.head
    admin.endless_view(tasks=1, mark=str(tmp_path))
    caught = []

    def ask():
        try:
            study.ask("smoker")
        except DataError as error:
            caught.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    admin.wait_until_under_way(str(tmp_path), asking)
    admin.leave()
    spark.stop()
    asking.join()
    assert len(caught) == 1
    assert "Spark did not answer" in caught[0]
    assert "Nothing was charged" in caught[0]
    spark.start()
    with pytest.raises(DataError, match="is not there or may not be read"):
        study.ask("smoker")
    assert (study.price, study.head) == (price, head)
    admin.view()
    same_as_never_failed(study, admin, reference)
    assert study.audit().ok


CHANGES = {
    "the view is dropped": (lambda admin: admin.run("DROP VIEW patients"), "is not there"),
    "a column is dropped": (lambda admin: admin.view("* EXCEPT (smoker)"), "columns of the private table have changed"),
    "a column has another type": (
        lambda admin: admin.view("* EXCEPT (smoker), CAST(smoker AS INT) AS smoker"), "columns of the private table have changed",
    ),
    "a column fails": (
        lambda admin: admin.view("* EXCEPT (smoker), CAST(raise_error(patient) AS BOOLEAN) AS smoker"), "did not answer",
    ),
    "a row less": (lambda admin: admin.view(where="WHERE patient IS NULL OR patient <> 'p7'"), "has changed since the session began"),
    "a row more": (
        lambda admin: admin.view(where=f"UNION ALL (SELECT * FROM parquet.`{admin.file}` LIMIT 1)"), "has changed since the session began",
    ),
    "a changed value": (
        lambda admin: admin.view("* EXCEPT (age), IF(patient = 'p7', age + 1, age) AS age"), "has changed since the session began",
    ),
    "a value that the question does not use": (
        lambda admin: admin.view("age, bmi, smoker, city, seen, IF(patient = 'p7', 'p8', patient) AS patient"), "has changed since the session began",
    ),
    "a value that the question uses": (
        lambda admin: admin.view("age, bmi, IF(patient = 'p7', NOT smoker, smoker) AS smoker, city, seen, patient"), "has changed since the session began",
    ),
}  # fmt: skip


def test_a_view_that_changes(study, admin, reference, capfd):
    """One after the other; in between, the view is as it was, and a question is answered as if nothing had happened."""
    quiet = eh.Holdout(admin.columns, prior=reference, schema=SCHEMA, seed=5)
    quiet.ask("age > 40")
    said = []
    for place, (act, message) in enumerate(CHANGES.values()):
        price, head = study.price, study.head
        act(admin)
        for ask in (lambda: study.ask("smoker AND age > 40"), lambda: study.ask_many(["smoker", "age > 60"])):
            with pytest.raises(DataError, match=message) as caught:
                ask()
            said.append(str(caught.value))
        assert (study.price, study.head) == (price, head)
        admin.view()
        asked = (
            f"age > {21 + 5 * place} AND bmi > 20"  # not one of those that fail: an answer that is recorded needs no rows
        )
        assert repr(study.ask(asked)) == repr(quiet.ask(asked))
    out, err = capfd.readouterr()
    assert not [one for one in admin.columns["patient"] if one and one in " ".join(said)]
    assert "'p7'" not in out + err
    assert study.audit().ok


TABLES = ("parquet", "orc", "csv", "json")


@pytest.mark.parametrize("kept", TABLES)
def test_a_table_that_spark_keeps_in_files(spark, admin, reference, tmp_path, kept):
    """Drop it; drop a column; write rows: noticed by its files. The same rows again are another session's, not this one's."""
    create = f"CREATE TABLE kept USING {kept} AS SELECT * FROM parquet.`{admin.file}`"
    admin.run("DROP TABLE IF EXISTS kept", create)
    path = tmp_path / "s.everhold"
    described = eh.Spark("default.kept", remote=spark.url)
    with_city = eh.Schema(tuple(one for one in SCHEMA.columns if one.name != "seen"))  # CSV has no microseconds
    options = {"prior": reference, "schema": with_city, "seed": 5}
    holdout, quiet = eh.Holdout.create(path, described, **options), eh.Holdout(admin.columns, **options)
    assert rows_of(holdout)._of_files
    asked = ["age > 40", "city = 'Oslo' AND smoker", "bmi > 26"]
    assert [repr(one) for one in holdout.ask_many(asked)] == [repr(one) for one in quiet.ask_many(asked)]
    price, head = holdout.price, holdout.head
    admin.run("DROP TABLE kept")
    with pytest.raises(DataError, match="is not there"):
        holdout.ask("age > 50")
    admin.run(create.replace("*", "* EXCEPT (smoker)"))
    with pytest.raises(DataError, match="columns of the private table have changed"):
        holdout.ask("age > 50")
    admin.run("DROP TABLE kept", create)
    with pytest.raises(DataError, match="has changed since the session began"):
        holdout.ask("age > 50")
    assert (holdout.price, holdout.head) == (price, head)
    holdout.release()
    holdout = eh.Holdout.open(path)  # the content is the study's
    assert repr(holdout.ask("age > 50")) == repr(quiet.ask("age > 50"))
    admin.run("INSERT INTO kept SELECT * FROM kept LIMIT 1")
    with pytest.raises(DataError, match="has changed since the session began"):
        holdout.ask("age > 60")
    holdout.release()
    with pytest.raises(LedgerError, match="these are not the rows"):
        eh.Holdout.open(path)
    admin.run("DROP TABLE kept")


def test_a_folder_of_a_partition_that_is_renamed(spark, tmp_path):
    """Its files are the same to the byte and to the second, and every row in them has another city."""
    folder = tmp_path / "parted"
    import pyarrow as pa
    import pyarrow.parquet as pq

    for city, ages in {"Oslo": [30, 50], "York": [20, 60, 70]}.items():
        (folder / f"city={city}").mkdir(parents=True)
        pq.write_table(pa.table({"age": ages}), folder / f"city={city}" / "rows.parquet")
    rows = open_table(eh.Spark(str(folder), remote=spark.url), what="the private table", private=True)
    engine = RemoteEngine(rows, {"age": "number", "city": "text"})
    question = expression("city = 'Oslo'", {"city": "text"})
    before = engine.sums([question])
    (folder / "city=Oslo").rename(folder / "city=Leeds")
    with pytest.raises(DataError, match="has changed since the session began"):
        engine.sums([question])
    (folder / "city=Leeds").rename(folder / "city=Oslo")
    assert engine.sums([question]) == before


@pytest.mark.parametrize(
    "record", ["_delta_log/00000000000000000000.json", ".hoodie/hoodie.properties", "metadata/v1.metadata.json"]
)
def test_the_folder_of_a_table_format_is_not_read_as_plain_files(spark, admin, record):
    """Rows that Delta, Hudi or Iceberg deleted are still in its files."""
    lake = admin.file.parent / "lake"
    (lake / record).parent.mkdir(parents=True)
    (lake / record).write_text("{}")
    (lake / "data").mkdir()
    shutil.copy(admin.file, lake / "data" / "one.parquet")
    for path in (lake, lake / "data", f"{lake}/data/*.parquet", lake / "data" / "one.parquet"):
        with pytest.raises(DataError, match="in the folder of a Delta, Iceberg or Hudi table"):
            open_table(eh.Spark(str(path), remote=spark.url), what="rows", private=True)
    shutil.rmtree((lake / record).parent)
    assert open_table(eh.Spark(str(lake / "data"), remote=spark.url), what="rows", private=True).size == ROWS


def test_a_table_of_another_format_is_watched_by_its_content(spark, admin):
    """One of another catalogue, whose scan Spark plans as it plans Iceberg's: a row can change and no file does."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection=spark.url)
    catalogue = {"": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog", ".url": "jdbc:derby:memory:rows;create=true",
                 ".driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}  # fmt: skip
    for name, value in catalogue.items():
        session.conf.set(f"spark.sql.catalog.derby{name}", value)
    kinds = {"age": "number", "bmi": "number", "smoker": "boolean"}
    columns = {name: admin.columns[name] for name in kinds}
    create = "CREATE TABLE derby.study.patients (age INT, bmi DOUBLE, smoker BOOLEAN)"
    fill = f"INSERT INTO derby.study.patients SELECT {{age}}, bmi, smoker FROM parquet.`{admin.file}`"
    for sql in ("CREATE NAMESPACE IF NOT EXISTS derby.study", create, fill.format(age="age")):
        session.sql(sql).collect()
    rows = open_table(eh.Spark("derby.study.patients", session=session), what="the private table", private=True)
    assert not rows._of_files
    engine, memory = RemoteEngine(rows, kinds, unit="age"), MemoryEngine(RowTable(columns).by_unit(unit_of(columns["age"])))
    assert engine.size == memory.size
    asked = [
        expression(text, kinds)
        for text in ("smoker", "bmi > 26 AND age > 40", "ln(bmi) > 3.2 OR bmi IS NULL", "age % 7 = 3")
    ]
    assert engine.sums(asked) == memory.sums(asked)
    pushed = session.sql("SELECT count(*), sum(bmi) FROM derby.study.patients")._explain_string()
    assert "PushedAggregates: [COUNT(*), SUM(bmi)]" in pushed  # Spark would let the other database compute
    for sql in ("DROP TABLE derby.study.patients", create, fill.format(age="IF(patient = 'p7', age + 1, age)")):
        session.sql(sql).collect()
    for again in (lambda: engine.sums(asked[:1]), lambda: engine.fingerprint(b"k" * 32), engine._units):
        with pytest.raises(DataError, match="has changed since the session began"):
            again()
    session.client.close()


def test_a_right_of_the_server_to_read_the_files_is_taken_away(reference, tmp_path):
    """Spark has no GRANT of its own: what its user may read is what everybody who reaches it may."""
    folder = Path(tempfile.mkdtemp(prefix="everhold-spark-rows-"))
    folder.chmod(0o755)
    columns = patients(ROWS, 2)
    file = Path(write(folder / "patients.parquet", columns, PATIENTS))
    try:
        with SparkServer(user=_nobody()) as server:
            options = {"prior": reference, "schema": SCHEMA, "seed": 5}
            holdout = eh.Holdout.create(tmp_path / "s.everhold", eh.Spark(str(file), remote=server.url), **options)
            quiet = eh.Holdout(columns, **options)
            assert repr(holdout.ask("age > 40")) == repr(quiet.ask("age > 40"))
            price, head = holdout.price, holdout.head
            file.chmod(0)
            with pytest.raises(DataError, match="is not there or may not be read") as caught:
                holdout.ask("smoker")
            assert "Permission" not in str(caught.value)
            assert (holdout.price, holdout.head) == (price, head)
            file.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
            assert repr(holdout.ask("smoker")) == repr(quiet.ask("smoker"))
            holdout.release()
    finally:
        shutil.rmtree(folder)


def _nobody() -> str | None:
    """Somebody else if this is root, who may read everything."""
    if os.getuid() != 0:
        return None
    home = Path(pytest.importorskip("pyspark").__file__)
    if not all(folder.stat().st_mode & stat.S_IXOTH for folder in home.parents):
        pytest.skip("root may read everything, and nobody else may read PySpark here")
    return "nobody"


# doors ----------------------------------------------------------------------------------------------------------------


def test_the_command_line_and_a_server_take_the_url(spark, admin, tmp_path):
    from typer.testing import CliRunner

    from everhold.cli.main import app
    from everhold.server.config import Config

    (tmp_path / "last_year.csv").write_text("age,bmi\n" + "\n".join(f"{20 + i % 60},{20 + i % 17}" for i in range(400)))
    schema, study = tmp_path / "schema.toml", tmp_path / "study.everhold"
    eh.Schema(SCHEMA.columns[:2]).save(schema)
    url = f"spark+{spark.url}/?path={admin.file}&seconds=900"
    options = ["--prior", str(tmp_path / "last_year.csv"), "--schema", str(schema)]
    for arguments in (["create", str(study), "--data", url, *options], ["ask", str(study), "age > 40"]):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
    assert b"seconds=900" in (tmp_path / "study.everhold.key").read_bytes()
    (tmp_path / "everhold.toml").write_text(f'[[study]]\npath = "study.everhold"\ndata = "{url}"\n')
    (one,) = Config.load(tmp_path / "everhold.toml", environment={}).studies
    assert one.data == url


def test_a_server_says_the_same_of_every_failure_and_goes_on(study, admin, tmp_path):
    from tests.server.serving import site

    study.release()
    with site(tmp_path, tmp_path / "study.everhold") as made:
        asked = ("/v1/studies/study/ask", {"question": "smoker"})
        assert made.post("/v1/studies/study/ask", {"question": "bmi > 20"}).status_code == 200
        said = []
        for name in ("the view is dropped", "a column is dropped", "a column fails"):
            CHANGES[name][0](admin)
            found = made.post(*asked)
            said.append((found.status_code, found.json()["error"]["code"], found.json()["error"]["message"]))
            admin.view()
        assert len(set(said)) == 1
        assert said[0][:2] == (503, "unavailable")
        assert made.post(*asked).status_code == 200


def test_questions_that_wait_are_joined_into_one_scan_on_a_grid_of_a_second(study, tmp_path, monkeypatch):
    from everhold.queries.request import Request
    from everhold.server.config import Config, StudyAt
    from everhold.server.state import ServerState
    from tests.server.serving import study_writer

    study.release()
    state = ServerState(Config(studies=(StudyAt(tmp_path / "study.everhold"),), tokens=tmp_path / "tokens.json"))
    assert state.served["study"]._grid.step == 1.0
    state.close()
    writer = study_writer(tmp_path / "study.everhold")
    rows, scans = rows_of(writer._holdout), []
    fetch = rows.fetch
    monkeypatch.setattr(rows, "fetch", lambda statements: scans.append(len(statements)) or fetch(statements))
    busy = threading.Event()
    waiting = [writer.put(busy.wait)]
    waiting += [writer.put(Request(f"age > {20 + one} AND smoker")) for one in range(30)]
    busy.set()
    answers = [one.result() for one in waiting[1:]]
    writer.close()
    assert scans == [1]
    assert sorted(answer.round for answer in answers) == list(range(2, 32))
