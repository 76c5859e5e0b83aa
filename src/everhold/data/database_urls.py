"""Tables that stay where they are: descriptions of a table in PostgreSQL or Spark, and their URLs.

A description is a value without a connection. It never holds a password: URLs with one are refused, because a study's key
file, logs and messages keep URLs. Drivers take secrets from their own files and environment variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from everhold.errors import SettingError, require_number

if TYPE_CHECKING:
    from everhold.data.engines.remote import RemoteTable

__all__ = ["Postgres", "Spark", "at_url", "is_url", "open_table"]

_SECRETS = ("password", "sslpassword", "token", "oauth_client_secret")
_POSTGRES, _SPARK = ("postgresql", "postgres"), "spark+sc"


@dataclass(frozen=True, slots=True)
class Postgres:
    """A table in a PostgreSQL database. Its rows stay there: PostgreSQL evaluates questions, and two sums come back.

    Args:
        url: of the database, as libpq reads it: `postgresql://reader@db.example.org/clinic`, without a password. libpq
            takes that from ~/.pgpass, a service file, or PGPASSWORD.
        table: a table or a materialised view, with its schema: `study.patients`. Capitals count.
        seconds: a question that takes longer fails, like any other failure. It is a brake for emergencies.

    >>> Postgres("postgresql://reader@db/clinic", table="study.patients").location
    'postgresql://reader@db/clinic?table=study.patients'
    >>> Postgres("postgresql://reader:secret@db/clinic", table="study.patients")
    Traceback (most recent call last):
    everhold.errors.SettingError: the URL of the database holds a password. Expected a URL without one: ...
    """

    url: str
    table: str = field(kw_only=True)
    seconds: float = field(default=600.0, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url.startswith(tuple(f"{scheme}://" for scheme in _POSTGRES)):
            raise SettingError(
                "the URL of the database does not begin with postgresql://. Expected a URL such as "
                "postgresql://reader@db.example.org/clinic."
            )
        if not isinstance(self.table, str) or not all(self.parts) or len(self.parts) > 2:
            raise SettingError(f"the table is {self.table!r}. Expected its name, with its schema: 'study.patients'.")
        _require_seconds(self.seconds)
        netloc, query = urlsplit(self.url).netloc, dict(parse_qsl(urlsplit(self.url).query))
        _refuse_secret(
            ":" in netloc.rpartition("@")[0] or any(name in query for name in _SECRETS), "~/.pgpass or PGPASSWORD"
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the schema, if it was given, and of the table."""
        return tuple(self.table.split("."))

    @property
    def location(self) -> str:
        """One URL of the database and the table, for a study's key file."""
        return _with_query(self.url, {"table": self.table} | _limit(self.seconds))


@dataclass(frozen=True, slots=True)
class Spark:
    """A table of Spark's, or Parquet files that Spark reads. Its rows stay there: two sums a question come back.

    Args:
        table: the name of a table, `catalog.schema.patients`; or a path or several paths of Parquet files, as Spark writes
            them: `s3://bucket/patients`.
        remote: the URL of a Spark Connect server, `sc://host:15002`, without a token. PySpark takes that from
            SPARK_CONNECT_AUTHENTICATE_TOKEN.
        session: instead of `remote`, a session of your own, classic or Connect. None of its settings is changed.
        seconds: a question that takes longer is interrupted on the server, and fails like any other failure. It is a brake
            for emergencies.

    >>> Spark("clinic.patients", remote="sc://host:15002").location
    'spark+sc://host:15002/?table=clinic.patients'
    """

    table: str | Sequence[str]
    remote: str | None = field(default=None, kw_only=True)
    session: Any = field(default=None, kw_only=True, repr=False, compare=False)
    seconds: float = field(default=600.0, kw_only=True)

    def __post_init__(self) -> None:
        names = self.paths or (self.table,)
        if not names or not all(isinstance(name, str) and name for name in names):
            raise SettingError(f"the table is {self.table!r}. Expected the name of a table, or paths of Parquet files.")
        if (self.remote is None) == (self.session is None):
            raise SettingError("Spark needs one of two: remote='sc://host:15002', or session= with a session of your own.")
        _require_seconds(self.seconds)
        if self.remote is not None:
            if not isinstance(self.remote, str) or not self.remote.startswith("sc://"):
                raise SettingError("the URL of the Spark Connect server is not one. Expected sc://host:15002.")
            settings = [one.partition("=")[0].lower() for one in self.remote.split(";")[1:]]
            held = any(name in settings for name in _SECRETS) or "@" in urlsplit(self.remote).netloc
            _refuse_secret(held, "SPARK_CONNECT_AUTHENTICATE_TOKEN")

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of Parquet files; none for a table by name."""
        given = (self.table,) if isinstance(self.table, str) else tuple(self.table)
        if isinstance(self.table, str) and not ("/" in self.table or self.table.endswith((".parquet", ".pq"))):
            return ()
        return given

    @property
    def location(self) -> str | None:
        """One URL of the server and the table; None for a session of the user's own, which has no address."""
        if self.remote is None:
            return None
        where, _, settings = self.remote.removeprefix("sc://").partition("/")
        names = [("path", path) for path in self.paths] or [("table", str(self.table))]
        names += _limit(self.seconds).items()
        return f"{_SPARK}://{where}/{settings}?{urlencode(names, quote_via=quote, safe='/:*,')}"


def is_url(text: str) -> bool:
    """Whether a text is the URL of a table rather than a path.

    >>> is_url("postgresql://reader@db/clinic?table=patients"), is_url("patients.csv"), is_url("C:/patients.csv")
    (True, False, False)
    """
    scheme, found, _ = text.partition("://")
    return bool(found) and scheme.replace("+", "").isalnum() and len(scheme) > 1


def at_url(url: str) -> Postgres | Spark:
    """The table at a URL, for the command line and for configurations.

    >>> at_url("postgresql://reader@db/clinic?table=study.patients&sslmode=require").url
    'postgresql://reader@db/clinic?sslmode=require'
    """
    scheme = url.partition("://")[0]
    if scheme not in (*_POSTGRES, _SPARK):
        raise SettingError(
            f"the rows are at a URL that begins with {scheme}://. Expected a path, postgresql://reader@host/database?"
            "table=schema.table, or spark+sc://host:15002/?table=schema.table."
        )
    plain, _, text = url.partition("?")
    given = parse_qsl(text, keep_blank_values=True)
    ours = {"table", "seconds"} if scheme in _POSTGRES else {"table", "path", "seconds"}
    found = {name: value for name, value in given if name in ours}
    try:
        seconds = float(found.get("seconds", "600"))
    except ValueError:
        raise SettingError(f"the URL has seconds={found['seconds']}. Expected a number.") from None
    if scheme == _SPARK:
        paths = [value for name, value in given if name == "path"]
        if not paths and "table" not in found:
            raise SettingError(_no_table("spark+sc://host:15002/"))
        return Spark(paths or found["table"], remote=plain.removeprefix("spark+"), seconds=seconds)
    if "table" not in found:
        raise SettingError(_no_table("postgresql://reader@host/database"))
    url = _with_query(plain, dict([one for one in given if one[0] not in ours]))
    return Postgres(url, table=found["table"], seconds=seconds)


def open_table(described: Postgres | Spark, *, what: str, private: bool) -> RemoteTable:
    """Connect to a table. The driver is imported here, and not before."""
    if isinstance(described, Postgres):
        from everhold.data.engines.postgres import PostgresTable

        return PostgresTable(described, what=what, private=private)
    from everhold.data.engines.spark import SparkTable

    return SparkTable(described, what=what, private=private)


def _require_seconds(seconds: float) -> None:
    require_number(seconds, "seconds")
    if not 0 < seconds <= 86_400:
        raise SettingError(f"seconds is {seconds!r}. Expected a number above 0 and up to 86,400.")


def _limit(seconds: float) -> dict[str, str]:
    """What a URL says of it."""
    return {} if seconds == 600.0 else {"seconds": f"{seconds:.15g}"}


def _no_table(url: str) -> str:
    return f"the URL names no table. Expected one: {url}?table=schema.table."


def _refuse_secret(found: bool, instead: str) -> None:
    """Without the URL in the message: it would print the secret."""
    if found:
        raise SettingError(
            "the URL of the database holds a password. Expected a URL without one: everhold keeps the URL in the study's "
            f"key file. Put the password where the driver looks for it: {instead}."
        )


def _with_query(url: str, more: dict[str, str]) -> str:
    """A URL with more parameters. `urllib` would drop the slashes of a URL without a host."""
    plain, _, text = url.partition("?")
    query = [*parse_qsl(text, keep_blank_values=True), *more.items()]
    return f"{plain}?{urlencode(query, quote_via=quote, safe='/')}" if query else plain
