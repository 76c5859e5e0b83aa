"""Descriptions of tables in databases: URLs, secrets, what is imported. No server is needed."""

import subprocess
import sys

import pytest

import everhold as eh
from everhold.data.database_urls import at_url, is_url
from everhold.errors import DataError, MissingExtra, SettingError
from everhold.server.config import Config
from everhold.session.study import _location


@pytest.mark.parametrize(
    "described",
    [
        eh.Postgres("postgresql://reader@db/clinic", table="study.patients"),
        eh.Postgres("postgres://reader@db:5433,other:5432/clinic?sslmode=verify-full", table="Patients 2024"),
        eh.Postgres("postgresql:///clinic?host=/run/postgresql", table='Größe&"x"', seconds=2.5),
        eh.Spark("catalog.schema.patients", remote="sc://host:15002"),
        eh.Spark("s3://bucket/a b/*.parquet", remote="sc://host:443/;use_ssl=true"),
        eh.Spark(("/one.parquet", "/two.parquet"), remote="sc://host:15002/", seconds=7200.25),
        eh.Spark("patients", remote="sc://host:15002", seconds=0.5),
    ],
)
def test_a_location_leads_back_to_the_same_table(described):
    assert is_url(described.location)
    found = at_url(described.location)
    if isinstance(described, eh.Spark):
        assert (found.paths, found.location) == (described.paths, described.location)
        assert found.seconds == described.seconds
        assert found.paths or found.table == described.table
    else:
        assert found == described
    assert _location(described) == _location(described.location) == described.location


def test_a_session_of_ones_own_has_no_address():
    assert _location(eh.Spark("patients", session=object())) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: eh.Postgres("postgresql://reader:hunter2@db/clinic", table="x"),
        lambda: eh.Postgres("postgresql://reader@db/clinic?password=hunter2", table="x"),
        lambda: at_url("postgresql://reader:hunter2@db/clinic?table=x"),
        lambda: at_url("mysql://reader:hunter2@db/clinic?table=x"),
        lambda: at_url("postgresql://reader:hunter2@db/clinic"),
        lambda: eh.Spark("x", remote="sc://host:443/;token=hunter2"),
        lambda: eh.Spark("x", remote="sc://host:443/;use_ssl=true;TOKEN=hunter2"),
        lambda: eh.Spark("x", remote="sc://me:hunter2@host:443"),
        lambda: at_url("spark+sc://host:443/;token=hunter2?table=x"),
        lambda: eh.Postgres("host=db password=hunter2", table="x"),
    ],
)
def test_a_secret_is_refused_and_not_repeated(make):
    with pytest.raises(SettingError) as caught:
        make()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: eh.Postgres("mysql://db", table="x"), "does not begin with postgresql://"),
        (lambda: eh.Postgres("postgresql://db", table="a.b.c"), "with its schema"),
        (lambda: eh.Postgres("postgresql://db", table=""), "Expected its name"),
        (lambda: eh.Postgres("postgresql://db", table="x", seconds=0), "seconds is 0"),
        (lambda: at_url("postgresql://db?table=x&seconds=soon"), "seconds=soon"),
        (lambda: at_url("postgresql://db"), "names no table"),
        (lambda: at_url("spark+sc://db"), "names no table"),
        (lambda: at_url("s3://bucket/x.parquet"), "begins with s3://"),
        (lambda: eh.Spark("x"), "needs one of two"),
        (lambda: eh.Spark("x", remote="sc://h", session=object()), "needs one of two"),
        (lambda: eh.Spark("x", remote="http://h"), "Expected sc://host:15002"),
        (lambda: eh.Spark("", remote="sc://h"), "Expected the name of a table"),
        (lambda: eh.Spark("x", remote="sc://h", seconds=float("nan")), "seconds is nan"),
        (lambda: eh.Spark("x", session=object(), seconds="soon"), "seconds is 'soon'"),
        (lambda: at_url("spark+sc://h/?table=x&seconds=soon"), "seconds=soon"),
        (lambda: at_url("spark+sc://h/?table=x&seconds=0"), "seconds is 0.0"),
    ],
)
def test_what_is_wrong_is_said(make, message):
    with pytest.raises(SettingError, match=message):
        make()


def test_a_configuration_keeps_urls_as_they_are(tmp_path):
    url = "postgresql://reader@db/clinic?table=study.patients"
    (tmp_path / "e.toml").write_text(
        f'[[study]]\npath = "a.everhold"\ndata = "{url}"\n[[study]]\npath = "b.everhold"\ndata = "b.csv"\n'
    )
    first, second = Config.load(tmp_path / "e.toml", environment={}).studies
    assert (first.data, second.data) == (url, str(tmp_path / "b.csv"))
    (tmp_path / "e.toml").write_text('[[study]]\npath = "a.everhold"\ngrid_ms = -1\n')
    with pytest.raises(SettingError, match="grid_ms is -1"):
        Config.load(tmp_path / "e.toml", environment={})


def test_drivers_are_imported_when_a_table_is_opened_and_not_before():
    code = (
        "import sys, everhold as eh; eh.Postgres('postgresql://db', table='x'); eh.Spark('x', remote='sc://h'); eh.Holdout; "
        "eh.examine; print([name for name in ('psycopg', 'pyspark', 'grpc') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_driver_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"everhold\[postgres\]"):
        eh.Holdout("postgresql://db/x?table=x", prior=eh.Reference({"x": [1.0]}))
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.client", None)
    with pytest.raises(MissingExtra, match=r"everhold\[spark\]"):
        eh.Holdout("spark+sc://h/?table=x", prior=eh.Reference({"x": [1.0]}))


def test_a_database_that_is_not_there():
    pytest.importorskip("psycopg")
    with pytest.raises(DataError, match="could not connect to the database of the private table") as caught:
        eh.Holdout("postgresql://reader@/x?table=x&host=/nowhere", prior=eh.Reference({"x": [1.0]}))
    assert "nowhere" not in str(caught.value)
    assert caught.value.__cause__ is None
