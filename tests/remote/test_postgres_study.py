"""Whole studies over PostgreSQL: equal to memory to the bit; what happens when the database fails; what is never shown."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from dataclasses import replace

import pytest

import everhold as eh
from everhold.data.database_urls import at_url
from everhold.errors import DataError, LedgerError, PriorError, PrivilegeWarning, SettingError
from tests.remote.study import SCHEMA, TYPES, close, patients, play, rows_of

pytestmark = [pytest.mark.postgres, pytest.mark.filterwarnings("ignore::everhold.errors.ReferenceWarning")]

POISON = "Alice-HIV-positive"


@pytest.fixture(scope="module")
def reference():
    return eh.Reference({name: values for name, values in patients(2_000, 1, smokers=0.3).items() if name != "patient"})


@pytest.fixture
def table(postgres):
    """Rows of this test alone, which it may spoil."""
    postgres.run("CREATE SCHEMA IF NOT EXISTS study", "GRANT USAGE ON SCHEMA study TO reader")
    postgres.load("study.patients", TYPES, rows_of(patients(3_000, 2)))
    postgres.run("ANALYZE study.patients")
    return eh.Postgres(postgres.url(), table="study.patients")


def memory_rows():
    return patients(3_000, 2)


@pytest.mark.parametrize("unit", [None, "patient"])
def test_a_whole_study_equals_memory_to_the_bit(postgres, table, reference, tmp_path, unit):
    """Create, ask, read, choose, kill the server, open again, close, audit."""
    options = {"prior": reference, "schema": SCHEMA, "unit": unit, "seed": 5}
    memory = eh.Holdout.create(tmp_path / "memory.everhold", memory_rows(), **options)
    remote = eh.Holdout.create(tmp_path / "remote.everhold", table, **options)
    assert remote.size == memory.size
    assert play(remote) == play(memory)
    remote.release()
    postgres.stop()
    with pytest.raises(DataError, match="could not connect"):
        eh.Holdout.open(tmp_path / "remote.everhold")
    assert eh.Holdout.audit_file(tmp_path / "remote.everhold").ok  # needs no rows
    postgres.start()
    again = eh.Holdout.open(tmp_path / "remote.everhold")
    assert close(again, units=unit is not None) == close(memory, units=unit is not None)
    assert again.audit().ok
    again.release()
    memory.release()
    assert eh.Holdout.audit_file(tmp_path / "remote.everhold").ok


def test_rows_of_a_database_as_the_reference(postgres, table):
    """Fetched once, with the kinds of their types: the same answers as with the same rows in memory."""
    columns = patients(500, 3)
    postgres.load("study.last_year", TYPES, rows_of(columns))
    fetched = eh.Reference(eh.Postgres(postgres.url(), table="study.last_year"))
    one, other = (
        eh.Holdout(memory_rows(), prior=prior, seed=3, schema=SCHEMA) for prior in (fetched, eh.Reference(columns))
    )
    assert play(one) == play(other)
    assert eh.Schema.propose(eh.Postgres(postgres.url(), table="study.last_year"))["age"].kind == "number"


def test_examine_counts_as_in_memory(postgres):
    columns = patients(1_000, 4)
    columns["bmi"][:40] = [5.0] * 40
    columns["age"][:3] = [None] * 3
    postgres.load("study.examined", TYPES, rows_of(columns))
    strict = SCHEMA.revised("age", missing=False)
    found = eh.examine(eh.Postgres(postgres.url(), table="study.examined"), strict)
    assert found == eh.examine(columns, strict)
    assert found["bmi"].outside >= 40
    assert found["age"].unexpected == 3


def test_a_reference_that_holds_private_rows_is_refused(table):
    shared = {name: values[:300] for name, values in memory_rows().items() if name != "patient"}
    with pytest.raises(PriorError, match="private rows also occur in the public reference"):
        eh.Holdout(table, prior=eh.Reference(shared), schema=SCHEMA)
    shared = {name: values[:900] for name, values in memory_rows().items()}
    with pytest.raises(PriorError, match="private rows also occur"):
        eh.Holdout(table, prior=eh.Reference(shared), schema=SCHEMA, unit="patient")


def test_what_a_database_cannot_do_is_refused(table, reference):
    with pytest.raises(DataError, match="rows have no order, so it cannot be split"):
        eh.Holdout(table, prior=eh.Split(0.5))
    with pytest.raises(SettingError, match="stay there"):
        eh.Holdout(table, prior=reference, schema=SCHEMA, engine="memory")
    with pytest.raises(eh.QuestionError, match="a callable needs the rows in memory"):
        eh.Holdout(table, prior=reference, schema=SCHEMA).ask(lambda rows: rows["age"] > 40)
    with pytest.raises(DataError, match="of type text, which cannot be read as number"):
        eh.Holdout(table, prior=eh.Reference({"city": [1.0, 2.0]}), schema=eh.Schema((eh.ColumnSchema("city", "number"),)))


def test_a_private_study_of_a_database_is_refused(table, reference, tmp_path):
    """How much a row can move a sum there, and what errors say, is not tested: the docs say so."""
    with pytest.raises(SettingError, match="reads rows in memory or in files"):
        eh.Holdout.create(
            tmp_path / "p.everhold", table, prior=reference, schema=SCHEMA, privacy=eh.Privacy(epsilon=1.0, delta=1e-9)
        )
    assert not list(tmp_path.iterdir())


def test_the_command_line_and_a_server_take_the_url(table, tmp_path, capfd):
    from everhold.server.config import Config

    (tmp_path / "last_year.csv").write_text("age,bmi\n" + "\n".join(f"{20 + i % 60},{20 + i % 17}" for i in range(400)))
    schema = tmp_path / "schema.toml"
    eh.Schema(SCHEMA.columns[:2]).save(schema)
    from typer.testing import CliRunner

    from everhold.cli.main import app

    study = tmp_path / "study.everhold"
    arguments = ["create", str(study), "--data", table.location, "--prior", str(tmp_path / "last_year.csv")]
    done = CliRunner().invoke(app, [*arguments, "--schema", str(schema)])
    assert done.exit_code == 0, done.output
    assert at_url(eh.Holdout.open(study)._setup and table.location) == table
    (tmp_path / "everhold.toml").write_text(
        f'[[study]]\npath = "study.everhold"\ndata = "{table.location}"\ngrid_ms = 200\n'
    )
    (one,) = Config.load(tmp_path / "everhold.toml", environment={}).studies
    assert (one.data, one.grid_ms) == (table.location, 200)


# failures -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def study(table, reference, tmp_path):
    holdout = eh.Holdout.create(tmp_path / "study.everhold", table, prior=reference, schema=SCHEMA, seed=5)
    holdout.ask("age > 40")
    yield holdout
    holdout.release()


def same_as_never_failed(holdout, reference):
    """The study goes on as if nothing had happened."""
    quiet = eh.Holdout(memory_rows(), prior=reference, schema=SCHEMA, seed=5)
    quiet.ask("age > 40")
    assert play(holdout) == play(quiet)


def test_a_stopped_server_charges_nothing_and_the_study_goes_on(postgres, study, reference):
    price, rounds, head = study.price, study.rounds, study.head
    postgres.stop()
    for act in (
        lambda: study.ask("smoker"),
        lambda: study.ask_many(["smoker", "age > 50"]),
        lambda: study.read("smoker"),
        lambda: study.best_of(["smoker", "age > 50"]),
    ):
        with pytest.raises(DataError, match=r"did not answer|could not connect") as caught:
            act()
        assert caught.value.__cause__ is None
    assert (study.price, study.rounds, study.head) == (price, rounds, head)
    postgres.start()
    same_as_never_failed(study, reference)
    assert study.audit().ok


def slow_connection(postgres):
    """Hold the table's lock, so that a question waits until something happens to it."""
    con = postgres.connect()
    con.execute("BEGIN; LOCK TABLE study.patients IN ACCESS EXCLUSIVE MODE")
    return con


def wait_until_blocked(postgres):
    with postgres.connect() as con:
        while True:
            found = con.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'everhold' AND wait_event_type = 'Lock'"
            ).fetchall()
            if found:
                return found[0][0]


@pytest.mark.parametrize("how", ["kill the server", "drop the connection"])
def test_a_question_that_is_under_way(postgres, study, reference, how):
    holder = slow_connection(postgres)
    caught = []

    def ask():
        try:
            study.ask("smoker")
        except DataError as error:
            caught.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    pid = wait_until_blocked(postgres)
    if how == "kill the server":
        postgres.stop()
    else:
        postgres.run(f"SELECT pg_terminate_backend({pid})")
    asking.join()
    holder.close()
    assert len(caught) == 1
    assert "Nothing was charged" in caught[0]
    if how == "kill the server":
        postgres.start()
    same_as_never_failed(study, reference)


def test_a_question_that_takes_too_long_fails_like_any_other(postgres, table, study, reference):
    """It waits for a lock until it is stopped; everything else has time enough on a busy machine."""
    rows, price = study.session.sample._engine._rows, study.price
    rows._described = replace(table, seconds=0.2)
    holder = slow_connection(postgres)
    with pytest.raises(DataError, match=r"did not answer: it stopped, the connection was lost, or this took longer"):
        study.ask("smoker")
    holder.close()
    assert study.price == price
    rows._described = table
    same_as_never_failed(study, reference)


def test_a_failure_in_an_act_that_has_begun_is_recorded_and_the_study_goes_on(postgres, study, monkeypatch):
    """The rows cannot be read after the act was announced: it is charged, as an interrupted one, and nothing breaks."""
    rows = study.session.sample._engine._rows
    whole = type(rows).fetch

    def fail(self, statements):
        if "count(*)" in statements[0]:
            raise DataError("the database did not answer. Nothing was charged. Ask again.")
        return whole(self, statements)

    monkeypatch.setattr(type(rows), "fetch", fail)
    for act in (
        lambda: study.best_of(["smoker", "age > 50"]),
        lambda: study.is_better("smoker", "age > 50"),
        lambda: study.compare("smoker", "age > 50"),
        lambda: study.read_many(["age > 30", "age > 35"]),
    ):
        price = study.price
        with pytest.raises(DataError, match=r"did not answer. The act had begun, so it was charged. Ask again."):
            act()
        assert study.price > price
    monkeypatch.undo()
    study.ask("smoker")
    assert study.audit().ok


CHANGES = {
    "a changed value": "UPDATE study.patients SET bmi = bmi + 1 WHERE ctid = (SELECT min(ctid) FROM study.patients)",
    "the same value written again": "UPDATE study.patients SET age = age WHERE ctid = (SELECT min(ctid) FROM study.patients)",
    "a row more": "INSERT INTO study.patients SELECT * FROM study.patients LIMIT 1",
    "a row less": "DELETE FROM study.patients WHERE ctid = (SELECT min(ctid) FROM study.patients)",
    "another row in its place": "WITH gone AS (DELETE FROM study.patients WHERE ctid = (SELECT min(ctid) FROM study.patients) "
    "RETURNING *) INSERT INTO study.patients SELECT * FROM gone",
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_rows_stop_the_study(postgres, study, reference, tmp_path, change):
    price = study.price
    postgres.run(CHANGES[change])
    for act in (lambda: study.ask("smoker"), lambda: study.ask_many(["smoker", "age > 60"])):
        with pytest.raises(DataError, match="has changed since the session began"):
            act()
    assert study.price == price
    study.release()
    same = change in ("the same value written again", "another row in its place")
    if same:  # the content is the study's: it opens again
        same_as_never_failed(eh.Holdout.open(tmp_path / "study.everhold"), reference)
    else:
        with pytest.raises(LedgerError, match="these are not the rows"):
            eh.Holdout.open(tmp_path / "study.everhold")


def test_vacuum_changes_nothing(postgres, study, reference):
    postgres.run("VACUUM FREEZE study.patients", "VACUUM FULL study.patients", "ANALYZE study.patients")
    same_as_never_failed(study, reference)


COLUMNS = {
    "dropped": ("ALTER TABLE study.patients DROP COLUMN smoker", "a column of it has gone"),
    "dropped and added again": (
        "ALTER TABLE study.patients DROP COLUMN smoker, ADD COLUMN IF NOT EXISTS smoker bool DEFAULT true",
        "columns of the private table have changed",
    ),
    "renamed in a circle": (
        "ALTER TABLE study.patients RENAME age TO other; ALTER TABLE study.patients RENAME bmi TO age; "
        "ALTER TABLE study.patients RENAME other TO bmi",
        "columns of the private table have changed|did not answer",
    ),
    "dropped with the table": ("DROP TABLE study.patients", "not there any more"),
    "forbidden": ("REVOKE SELECT ON study.patients FROM reader", "may not read the private table any more"),
}


@pytest.mark.parametrize("what", COLUMNS)
def test_a_column_or_a_right_that_is_gone(postgres, study, what):
    sql, message = COLUMNS[what]
    if what == "dropped and added again":
        postgres.run(
            "ALTER TABLE study.patients DROP COLUMN smoker", "ALTER TABLE study.patients ADD COLUMN smoker bool DEFAULT true"
        )
    else:
        postgres.run(sql)
    price = study.price
    with pytest.raises(DataError, match=message):
        study.ask("smoker AND age > 40")
    assert study.price == price
    if what == "forbidden":
        postgres.run("GRANT SELECT ON study.patients TO reader")
        study.ask("smoker AND age > 40")


# what is never shown --------------------------------------------------------------------------------------------------


def test_passwords_are_neither_stored_nor_printed(table, reference, tmp_path, monkeypatch):
    for url in (
        "postgresql://reader:hunter2@db/clinic",
        "postgresql://reader@db/clinic?password=hunter2",
        "postgresql://reader@db/clinic?sslpassword=hunter2&table=x",
    ):
        for make in (
            lambda url=url: eh.Postgres(url, table="x"),
            lambda url=url: eh.Holdout(url + "&table=x", prior=reference),
        ):
            with pytest.raises(SettingError) as caught:
                make()
            assert "hunter2" not in str(caught.value)
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    path = tmp_path / "study.everhold"
    holdout = eh.Holdout.create(path, table, prior=reference, schema=SCHEMA)
    assert "hunter2" not in repr(holdout) + repr(table) + repr(holdout.session.sample)
    holdout.release()
    for name in os.listdir(tmp_path):
        assert b"hunter2" not in (tmp_path / name).read_bytes()
    assert b"postgresql://reader@" in (tmp_path / "study.everhold.key").read_bytes()
    assert b"postgresql://" not in path.read_bytes()


def test_no_message_shows_a_row(postgres, reference, tmp_path, capfd, caplog):
    """Rows that make naive SQL fail with their content in the message; every exception, warning and log is searched."""
    caplog.set_level(logging.DEBUG)
    columns = patients(300, 6)
    columns["city"] = [POISON] * 300
    postgres.load("study.poisoned", TYPES | {"bmi": "numeric"}, rows_of(columns))
    postgres.run(
        "INSERT INTO study.poisoned VALUES (1, '1e400', true, 'Alice-HIV-positive', 'infinity', 'Alice-HIV-positive')"
    )
    poisoned = eh.Postgres(postgres.url(), table="study.poisoned")
    shown = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        holdout = eh.Holdout.create(tmp_path / "p.everhold", poisoned, prior=reference, schema=SCHEMA, seed=1)
        shown += play(holdout)
        shown.append(repr(eh.examine(poisoned, SCHEMA)))
        rows = holdout.session.sample._engine._rows
        for sql in (
            "SELECT city::float8 FROM study.poisoned",
            "SELECT bmi::float8 FROM study.poisoned",
            "SELECT 1 / (age - age) FROM study.poisoned",
            "SELECT city::date FROM study.poisoned",
        ):
            with pytest.raises(DataError) as caught:
                rows.fetch([sql])
            shown += [
                str(caught.value),
                repr(caught.value.__cause__),
                repr(caught.value.__context__ and caught.value.__suppress_context__),
            ]
        kept = {name: kind for name, kind in SCHEMA.kinds.items() if name != "city"} | {"city": "number"}
        with pytest.raises(DataError) as caught:
            eh.examine(poisoned, eh.Schema(tuple(eh.ColumnSchema(name, kind) for name, kind in kept.items())))
        shown.append(str(caught.value))
    holdout.release()
    out, err = capfd.readouterr()
    everything = "\n".join([*shown, *(str(one.message) for one in warned), out, err, caplog.text])
    assert len(everything) > 1_000
    assert POISON not in everything
    assert "1e400" not in everything.lower()
    assert POISON.encode() not in (tmp_path / "p.everhold").read_bytes()


def test_a_role_that_may_write_is_warned_about(postgres, table, reference):
    with pytest.warns(PrivilegeWarning, match="superuser"):
        eh.Holdout(eh.Postgres(postgres.url("admin"), table="study.patients"), prior=reference, schema=SCHEMA)
    postgres.run("GRANT UPDATE ON study.patients TO reader")
    try:
        with pytest.warns(PrivilegeWarning, match="may change the private table"):
            eh.Holdout(table, prior=reference, schema=SCHEMA)
    finally:
        postgres.run("REVOKE UPDATE ON study.patients FROM reader")


def test_views_are_refused_and_materialised_views_and_partitions_are_not(postgres, table, reference):
    postgres.run(
        "DROP VIEW IF EXISTS study.seen; CREATE VIEW study.seen AS SELECT * FROM study.patients; GRANT SELECT ON study.seen TO reader",
        "DROP MATERIALIZED VIEW IF EXISTS study.kept; CREATE MATERIALIZED VIEW study.kept AS SELECT * FROM study.patients",
        "GRANT SELECT ON study.kept TO reader",
        "DROP TABLE IF EXISTS study.parted; CREATE TABLE study.parted (LIKE study.patients) PARTITION BY RANGE (age)",
        "CREATE TABLE study.young PARTITION OF study.parted FOR VALUES FROM (0) TO (40)",
        "CREATE TABLE study.old PARTITION OF study.parted FOR VALUES FROM (40) TO (200)",
        "INSERT INTO study.parted SELECT * FROM study.patients; GRANT SELECT ON study.parted TO reader",
    )
    with pytest.raises(DataError, match=r"not a table. Expected a table or a materialised view"):
        eh.Holdout(eh.Postgres(table.url, table="study.seen"), prior=reference, schema=SCHEMA)
    for name in ("study.kept", "study.parted"):
        holdout = eh.Holdout(eh.Postgres(table.url, table=name), prior=reference, schema=SCHEMA, seed=5)
        holdout.ask("age > 40")
        same_as_never_failed(holdout, reference)
    with pytest.raises(DataError, match=r"no table 'study.patient' that this role can see"):
        eh.Holdout(eh.Postgres(table.url, table="study.patient"), prior=reference, schema=SCHEMA)
    postgres.run("UPDATE study.patients SET bmi = 20 WHERE age = 50; REFRESH MATERIALIZED VIEW study.kept")
    kept = eh.Holdout(eh.Postgres(table.url, table="study.kept"), prior=reference, schema=SCHEMA)
    postgres.run("REFRESH MATERIALIZED VIEW study.kept")
    with pytest.raises(DataError, match="has changed since the session began"):
        kept.ask("age > 40")


def test_a_batch_sees_one_moment(postgres, table, reference, monkeypatch):
    """Two statements of a batch, and an update between them: both see the rows before it."""
    holdout = eh.Holdout(table, prior=reference, schema=SCHEMA)
    rows = holdout.session.sample._engine._rows
    con = rows._open[0]
    execute = con.execute
    counted = []

    def meddle(sql, *rest):
        if sql.startswith("SELECT count"):
            counted.append(sql)
            if len(counted) == 2:
                postgres.run("DELETE FROM study.patients WHERE age > 40")
        return execute(sql, *rest)

    monkeypatch.setattr(con, "execute", meddle)
    first, second = rows.fetch(["SELECT count(*) FROM study.patients", "SELECT count(*) FROM study.patients"])
    assert len(counted) == 2
    assert first == second == [(3_000,)]
    monkeypatch.undo()
    assert rows.fetch(["SELECT count(*) FROM study.patients"])[0][0][0] < 3_000


# behind a server ------------------------------------------------------------------------------------------------------


def test_a_server_answers_on_a_grid_of_a_second_unless_it_is_set(study, tmp_path):
    from everhold.server.config import Config, StudyAt
    from everhold.server.state import ServerState

    study.release()
    steps = []
    for settings, own in (({}, None), ({"grid_ms": 70}, None), ({"grid_ms": 70}, 200)):
        studies = (StudyAt(tmp_path / "study.everhold", grid_ms=own),)
        state = ServerState(Config(studies=studies, tokens=tmp_path / "tokens.json", **settings))
        steps.append(state.served["study"]._grid.step)
        state.close()
    assert steps == [1.0, 0.07, 0.2]


def test_a_server_says_the_same_of_every_failure_and_goes_on(postgres, study, tmp_path):
    from tests.server.serving import site

    study.release()
    with site(tmp_path, tmp_path / "study.everhold") as made:
        before = made.post("/v1/studies/study/ask", {"question": "bmi > 20"})
        assert before.status_code == 200, before.text
        said = []
        for fail, mend in (
            (lambda: postgres.stop(), lambda: postgres.start()),
            (
                lambda: postgres.run("REVOKE SELECT ON study.patients FROM reader"),
                lambda: postgres.run("GRANT SELECT ON study.patients TO reader"),
            ),
        ):
            fail()
            found = made.post("/v1/studies/study/ask", {"question": "smoker"})
            said.append((found.status_code, found.json()["error"]["code"], found.json()["error"]["message"]))
            mend()
        assert said[0] == said[1]
        assert said[0][:2] == (503, "unavailable")
        assert made.post("/v1/studies/study/ask", {"question": "smoker"}).status_code == 200
        assert made.http.get("/health").status_code == 200


def test_questions_that_wait_are_joined_into_one_scan(study, tmp_path, monkeypatch):
    """While the writer is busy, thirty questions arrive: they take one transaction together, and each has its own round."""
    from everhold.queries.request import Request
    from tests.server.serving import study_writer

    study.release()
    writer = study_writer(tmp_path / "study.everhold")
    rows = writer._holdout.session.sample._engine._rows
    scans = []
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
