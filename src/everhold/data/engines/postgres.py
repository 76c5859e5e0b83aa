"""A table in PostgreSQL: the connection, the catalogue, the stamp of its rows and their hash."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.data.engines.dialects.postgres import POSTGRES
from everhold.data.engines.remote import RemoteTable
from everhold.errors import DataError, MissingExtra, PrivilegeWarning

if TYPE_CHECKING:
    import psycopg
    from numpy.typing import NDArray

    from everhold.data.database_urls import Postgres
    from everhold.data.table import RowTable
    from everhold.queries.expression.tree import Kind

__all__ = ["PostgresTable"]

_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "standard_conforming_strings": "on",
    "client_encoding": "UTF8",
    "client_min_messages": "error",
    "extra_float_digits": "1",
    "jit": "off",  # compiling a statement of many questions takes longer than running it
    "search_path": "pg_catalog",
}
_OLDEST = 120_000
_CHUNK = 20_000  # public rows that are hashed in one statement

# Every change of a row gives it a newer xmin, and vacuum leaves that alone. Of 32 bits only differences mean anything; age()
# has no difference for the few permanent ones. The sum is taken modulo 2³². The age that all are compared with stands
# in a SELECT of its own, so that it is computed once and not for every row.
_XMIN = "coalesce(nullif(age(xmin), 2147483647)::bigint - (SELECT age('3'::xid)), 0)"

_COLUMNS = """
    WITH RECURSIVE kinds AS (
        SELECT a.attname, a.attnum, a.atttypid AS type FROM pg_attribute a
        WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT k.attname, k.attnum, t.typbasetype FROM kinds k JOIN pg_type t ON t.oid = k.type WHERE t.typtype = 'd'
    )
    SELECT k.attname::text, k.attnum::int, CASE WHEN t.typtype = 'e' THEN 'enum' ELSE t.typname::text END
    FROM kinds k JOIN pg_type t ON t.oid = k.type WHERE t.typtype <> 'd' ORDER BY k.attnum
"""
_TABLE = """
    SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text,
        current_setting('server_encoding'), current_setting('server_version_num')::int,
        (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
        has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass({name})
"""


class PostgresTable(RemoteTable):
    """A table or a materialised view in PostgreSQL.

    All statements of a batch run in one read-only transaction, REPEATABLE READ, so that they see the same rows. A connection
    that was lost is made again at the beginning of a batch, never within one. Messages show nothing from a row.

    Args:
        described: where it is.
        what: a name for these rows, for messages.
        private: whether its rows are private; then a role that may change them brings a warning.
    """

    dialect = POSTGRES
    tally = ("1", _XMIN)

    def __init__(self, described: Postgres, *, what: str, private: bool) -> None:
        super().__init__(what, private)
        self._described = described
        self._lock = Lock()
        self._open: list[psycopg.Connection[Any]] = []  # one connection, or none
        weakref.finalize(self, _close, self._open)
        self._oid, self.relation = self._found()
        self._columns = self._catalogue()
        self.types = {name: found for name, _, found in self._columns}
        self._begin()

    # the connection --------------------------------------------------------------------------------------------------

    def fetch(self, statements: Sequence[str]) -> list[list[tuple[Any, ...]]]:
        """The rows of each statement, in one transaction; then the columns must still be the ones that were found."""
        found = self._transaction(statements)
        if self._catalogue() != self._columns:
            raise DataError(
                f"the columns of {self.what} have changed since the session began. Restore them, and open the study again."
            )
        return found

    def _transaction(self, statements: Sequence[str], *, own_path: bool = False) -> list[list[tuple[Any, ...]]]:
        """One read-only transaction. With `own_path`, names are looked up as the role does."""
        settings = _SETTINGS | {"statement_timeout": f"{self._described.seconds * 1000:.0f}"}
        if own_path:
            del settings["search_path"]
        local = "".join(f"SET LOCAL {name} = '{value}';" for name, value in settings.items())
        begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {local}"
        with self._lock:
            done = False
            try:
                con = self._ready(begin)
                found = [con.execute(sql).fetchall() for sql in statements]
                con.execute("COMMIT")
                done = True
            except _error() as error:
                raise self._failed(getattr(error, "sqlstate", None)) from None
            finally:
                if not done:  # also when it is interrupted: nobody knows what the connection would say next
                    _close(self._open)
        return found

    def _ready(self, begin: str) -> psycopg.Connection[Any]:
        """A connection that has begun a transaction. One that was lost meanwhile is made again, once."""
        if self._open:
            try:
                self._open[0].execute(begin)
            except _error():
                _close(self._open)
            else:
                return self._open[0]
        self._open.append(self._connected())
        self._open[0].execute(begin)
        return self._open[0]

    def _connected(self) -> psycopg.Connection[Any]:
        import psycopg

        try:
            return psycopg.connect(self._described.url, autocommit=True, prepare_threshold=None, application_name="everhold")
        except psycopg.Error:
            raise DataError(
                f"could not connect to the database of {self.what}. Check that it runs, the URL, and where the driver looks "
                "for the password. psql with the same URL shows details."
            ) from None

    def _failed(self, state: str | None) -> DataError:
        """What to say of a failure. Only the catalogue is named, which depends on no row; all else has one message."""
        if state == "42501":
            return DataError(
                f"the role may not read {self.what} any more. Expected GRANT SELECT on the table and USAGE on its schema."
            )
        if state in ("42703", "42P01", "42804", "42883", "3F000"):
            return DataError(f"{self.what} is not there any more, or a column of it has gone. Restore it, and ask again.")
        return DataError(
            f"the database did not answer: it stopped, the connection was lost, or this took longer than "
            f"{self._described.seconds:g} s. Nothing was charged. Ask again when it is back."
        )

    # the catalogue ---------------------------------------------------------------------------------------------------

    def _found(self) -> tuple[int, str]:
        """The table's number in the catalogue and its full name, after checking that it can be used."""
        name = ".".join(POSTGRES.identifier(part) for part in self._described.parts)
        rows = self._transaction([_TABLE.format(name=POSTGRES.literal(name))], own_path=True)[0]
        if not rows:
            raise DataError(
                f"{self.what}: the database has no table {self._described.table!r} that this role can see. Expected its "
                "name with its schema, in the same letters: 'study.patients'."
            )
        oid, schema, table, kind, encoding, version, superuser, reads, writes = rows[0]
        if version < _OLDEST or encoding != "UTF8":
            raise DataError(
                f"the database of {self.what} has version {version // 10_000} and encoding {encoding}. Expected PostgreSQL "
                "12 or newer, with UTF8."
            )
        if kind not in ("r", "p", "m"):
            raise DataError(
                f"{self.what} is not a table. Expected a table or a materialised view, because changes of a view's rows "
                "cannot be seen: CREATE MATERIALIZED VIEW ... AS SELECT * FROM the view."
            )
        if not reads:
            raise DataError(f"the role may not read {self.what}. Expected GRANT SELECT on the table.")
        if self.private and (superuser or writes):
            warnings.warn(
                f"the database role {'is a superuser' if superuser else f'may change {self.what}'}. Use a role that may "
                "read this table and nothing else: GRANT SELECT.",
                PrivilegeWarning,
                stacklevel=2,
            )
        return oid, f"{POSTGRES.identifier(schema)}.{POSTGRES.identifier(table)}"

    def _catalogue(self) -> list[tuple[Any, ...]]:
        """Names, numbers and types of the columns now. A column that was dropped and added again has another number."""
        return self._transaction([_COLUMNS.format(oid=self._oid)])[0]

    def _stamp_of(self, sums: Sequence[int]) -> tuple[int, ...]:
        return int(sums[0]), int(sums[1]) % 2**32

    # hashes ----------------------------------------------------------------------------------------------------------

    def hashed(self, columns: Sequence[tuple[str, Kind]], key: bytes) -> tuple[str, list[str]]:
        """SHA-256 of the key and of the values, each as a fixed number of bytes or with its length."""
        parts = "".join(f" || {_bytes(sql, kind)}" for sql, kind in columns)
        lanes = [f"('x' || encode(substr(h, {1 + 8 * lane}, 8), 'hex'))::bit(64)::bigint" for lane in range(2)]
        return f"sha256('\\x{key.hex()}'::bytea{parts})", lanes

    def hashed_rows(self, public: RowTable, names: Sequence[str], key: bytes) -> NDArray[np.uint64]:
        """PostgreSQL hashes the public rows as well, so that the same rows have the same hash."""
        columns = [public.column(name) for name in names]
        hashed, lanes = self.hashed([(f"v{place}", column.kind) for place, column in enumerate(columns)], key)
        types = {"number": "float8", "date": "float8", "boolean": "bool", "text": "text"}
        short = ", ".join(f"v{place}" for place in range(len(columns)))
        found: list[int] = []
        for start in range(0, public.row_count, _CHUNK):
            index = np.arange(start, min(start + _CHUNK, public.row_count))
            given = ", ".join(_array(column.take(index), types[column.kind]) for column in columns)
            rows = f"SELECT * FROM unnest({given}) WITH ORDINALITY AS u({short}, place)"
            sql = (
                f"SELECT {lanes[0]} AS d FROM (SELECT {hashed} AS h, place FROM ({rows}) AS r OFFSET 0) AS p ORDER BY place"
            )
            found += [row[0] for row in self._transaction([sql])[0]]
        return np.array(found, dtype=np.int64).view(np.uint64)


def _close(connections: list[psycopg.Connection[Any]]) -> None:
    while connections:
        connections.pop().close()


def _bytes(sql: str, kind: Kind) -> str:
    """A canonical value as bytes, so that different values of a column, missing ones too, never look alike."""
    if kind == "text":
        cut = f"left({sql}, 1000)"
        value = f"int4send(octet_length({cut})) || convert_to({cut}, 'UTF8')"
    else:
        value = f"boolsend({sql})" if kind == "boolean" else f"float8send({sql} + '0'::float8)"
    return f"coalesce('\\x01'::bytea || {value}, '\\x00'::bytea)"


def _array(column: Any, found: str) -> str:
    """A public column as an array of PostgreSQL's; NUL, which it cannot hold, as a character that no text has."""
    values = column.decode() if column.kind == "text" else column.values
    items = []
    for value, missing in zip(values.tolist(), column.missing.tolist(), strict=True):
        if missing:
            items.append("NULL")
        elif column.kind == "text":
            items.append(POSTGRES.literal(value.replace("\x00", "\ufffe\uffff")))
        else:
            items.append(str(value) if column.kind == "boolean" else f"'{value!r}'")
    return f"ARRAY[{', '.join(items)}]::{found}[]"


def _error() -> type[Exception]:
    """The driver's own errors. It is loaded when a table is opened, and not before."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("a table in PostgreSQL", "postgres") from None
    return psycopg.Error
