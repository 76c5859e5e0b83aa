"""A table of Spark's: the session, the stamp of its files and the hash of its rows."""

from __future__ import annotations

import logging
import secrets
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.data.engines.brake import brake
from everhold.data.engines.dialects.spark import SPARK
from everhold.data.engines.remote import RemoteTable
from everhold.errors import DataError, EverholdError, MissingExtra

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.database_urls import Spark
    from everhold.data.table import RowTable
    from everhold.queries.expression.tree import Kind

__all__ = ["SparkTable"]

_FILE = "everhold_file"
_FORMATS = ("csv", "json", "orc", "parquet")
"""Of tables that Spark itself keeps in files."""
_RECORDS = ("_delta_log", ".hoodie", "metadata/*.metadata.json")
"""What Delta, Hudi and Iceberg keep in the folder of a table: which files count, and which of their rows."""
_DETAILS = "# Detailed Table Information"
_RETRIES = 4  # of a request to a server that does not answer, within a second or so
_ITERATIONS = "spark.sql.analyzer.maxIterations"
_MOST_ITERATIONS = 1_000  # a question may have some two hundred layers of columns
_LATERAL = "spark.sql.lateralColumnAlias.enableImplicitResolution"
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark writes the message of an error to these, with the value of the row."""
_WARNINGS = ("PySpark does not yet fully support pandas", r"\[RETRIES_EXCEEDED\]")
"""Of PySpark's, beginnings: no frame of pandas is used here, and a server that does not answer has its own error."""


class SparkTable(RemoteTable):
    """A table by name, or Parquet files, in Spark.

    Files are listed anew for every batch. Each row's file brings the time of its last change and its size, so that the same
    scan that answers a question sees whether a file has changed. That holds where a row is in the table as long as it is in
    a file: for Parquet files, and for tables that Spark itself keeps in files. A view, a database, or a table format such as
    Delta, Iceberg or Hudi may take a row away and leave its file as it is; there the stamp is a hash of the content, in
    every scan.

    Args:
        described: where it is.
        what: a name for these rows, for messages.
        private: whether its rows are private.
    """

    dialect = SPARK

    def __init__(self, described: Spark, *, what: str, private: bool) -> None:
        super().__init__(what, private)
        self._described = described
        self._lock = Lock()
        self._own: list[Any] = []  # a session that was made here, or none
        weakref.finalize(self, _close, self._own)
        self._key = secrets.token_bytes(16)
        self.relation = f"everhold_{secrets.token_hex(8)}"
        self._of_files: bool | None = None
        self._partitioned = False
        self.types = {}
        with self._lock, self._silent(), self._view():
            pass
        _require_different(self.names, what)
        self._begin()

    # the session -----------------------------------------------------------------------------------------------------

    def fetch(self, statements: Sequence[str]) -> list[list[tuple[Any, ...]]]:
        """The rows of each statement, over one list of files."""
        with self._lock, self._silent(), self._view() as session:
            return [self._selected(session, sql) for sql in statements]

    def _selected(self, session: Any, sql: str) -> list[tuple[Any, ...]]:
        with self._brake(session):
            return [tuple(row) for row in session.sql(sql).collect()]

    def _brake(self, session: Any) -> AbstractContextManager[None]:
        return brake(session, self._described.seconds, hang_up=bool(self._own))

    @contextmanager
    def _silent(self) -> Iterator[None]:
        """No message of Spark's leaves: it could show a row."""
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        before = [one.disabled for one in loggers]
        for one in loggers:
            one.disabled = True
        try:
            yield
        except EverholdError:
            raise
        except Exception:
            _close(self._own)
            raise DataError(
                f"Spark did not answer: it stopped, the connection was lost, {self.what} is not there or may not be read, "
                f"or this took longer than {self._described.seconds:g} s. Nothing was charged. Ask again when it is back."
            ) from None
        finally:
            for one, was in zip(loggers, before, strict=True):
                one.disabled = was

    @contextmanager
    def _view(self) -> Iterator[Any]:
        """A session in which the rows, listed now, are a temporary view. A server that has restarted gets a new session."""
        try:
            session = self._made_view()
        except (EverholdError, TimeoutError):
            raise
        except Exception:
            if not self._own:
                raise
            _close(self._own)
            session = self._made_view()
        try:
            yield session
        finally:
            if not self._own:  # in a session of its own the next batch replaces it
                with suppress(Exception):
                    session.catalog.dropTempView(self.relation)

    def _made_view(self) -> Any:
        described = self._described
        if described.session is None and not self._own:
            self._own.append(_connection(described.remote or ""))
            with self._brake(self._own[0]):
                _set_up(self._own[0])
        session = self._own[0] if self._own else described.session
        with self._brake(session):
            iterations = _MOST_ITERATIONS if self._own else self._iterations(session)
            # Somewhat more than two steps of the analyser for each layer of columns, and some for what stands around them.
            self.most_depth = (iterations - 15) * 2 // 5
            self._list(session)
        return session

    def _list(self, session: Any) -> None:
        """Make the rows a temporary view, and find their columns as they were."""
        described = self._described
        name = ""
        if described.paths:
            if self._of_files is None:
                self._require_plain(session)
            frame = session.read.parquet(*described.paths)
        else:
            name = ".".join(SPARK.identifier(part) for part in str(described.table).split("."))
            with suppress(Exception):  # views have nothing to refresh
                session.catalog.refreshTable(name)
            frame = session.table(name)
        # Looking at a frame lists the files and reads what columns they have; looking at a view does not.
        if self._of_files is None:
            self.types = _types(frame)
            self._of_files = self._in_files(session, frame, name)
            self._marked(frame).createOrReplaceTempView(self.relation)
            return
        try:
            self._marked(frame).createOrReplaceTempView(self.relation)
        except Exception:
            self._require_types(_types(frame))
            raise
        self._require_types(_types(session.table(self.relation)))

    def _iterations(self, session: Any) -> int:
        """How many steps the analyser of a session of the user's may take, after checking what questions need of it."""
        if session.conf.get(_LATERAL, "true").lower() != "true":
            raise DataError(f"the Spark session of {self.what} has {_LATERAL}=false. Expected true, Spark's default.")
        return int(session.conf.get(_ITERATIONS, "100"))

    def _require_types(self, found: dict[str, str]) -> None:
        if found != self.types:
            raise DataError(
                f"the columns of {self.what} have changed since the session began. Restore them, and open the study again."
            )

    def _require_plain(self, session: Any) -> None:
        """Reject the folder of a table format, which knows which of the files and rows in it count."""
        for folder in {folder for path in self._described.paths for folder in _folders(path)}:
            if _is_there(session, f"{folder}/{{{','.join(_RECORDS)}}}"):
                raise DataError(
                    f"{self.what} is in the folder of a Delta, Iceberg or Hudi table, whose files also hold rows that were "
                    "changed or deleted. Expected the table by its name, from a session that knows the format."
                )

    def _in_files(self, session: Any, frame: Any, name: str) -> bool:
        """Whether a row is in the table as long as it is in a file, and the file's time and size say whether it changed."""
        if name and _provider(session, name) not in _FORMATS:
            return False
        try:  # the server looks at it now
            _ = frame.selectExpr("_metadata.file_size", "_metadata.file_modification_time").schema
        except Exception:  # rows that come from no files have no such column
            return False
        files = frame.inputFiles()
        self._partitioned = not files or any("=" in one for one in files)
        return True

    def _marked(self, frame: Any) -> Any:
        """The rows with what their stamp is made of."""
        self.tally = ("1", f"`{_FILE}`")
        if self._of_files:
            # One hash of all: this is done for every row, and two cost as much as the rest of a simple question.
            moment, size = "unix_micros(_metadata.file_modification_time)", "_metadata.file_size"
            folder = ", _metadata.file_path" if self._partitioned else ""  # some columns are the names of folders
            return self._with_stamp(frame, f"xxhash64({moment} ^ shiftleft({size}, 20){folder})")
        return self._with_stamp(frame, self._hash([SPARK.identifier(name) for name in self.kinds()], self._key))

    @staticmethod
    def _with_stamp(frame: Any, hashed: str) -> Any:
        return frame.selectExpr("*", f"shiftrightunsigned({hashed}, 40) AS `{_FILE}`")  # 24 bits: sums of any table fit

    # hashes ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def _hash(columns: Sequence[str], key: bytes) -> str:
        """Spark skips missing values, so each column says whether it has one."""
        numbers = [f"{int.from_bytes(key[start : start + 8], 'big', signed=True)}L" for start in (0, 8)]
        numbers = [number.replace("-9223372036854775808L", "0L") for number in numbers]
        return f"xxhash64({', '.join([*numbers, *(f'{column} IS NULL, {column}' for column in columns)])})"

    def hashed(self, columns: Sequence[tuple[str, Kind]], key: bytes) -> tuple[str, list[str]]:
        """xxHash64 under two keys: quick, and good against chance; it is no cryptographic hash."""
        values = [_value(sql, kind) for sql, kind in columns]
        return f"array({self._hash(values, key[:16])}, {self._hash(values, key[16:])})", ["get(h, 0)", "get(h, 1)"]

    def hashed_rows(self, public: RowTable, names: Sequence[str], key: bytes) -> NDArray[np.uint64]:
        """Spark hashes the public rows as well, so that the same rows have the same hash."""
        columns = [public.column(name) for name in names]
        types = ["place BIGINT", *(f"v{place} {SPARK.types[column.kind]}" for place, column in enumerate(columns))]
        values: list[Sequence[Any]] = [range(public.row_count)]
        for column in columns:
            plain = column.decode() if column.kind == "text" else column.values
            values.append([None if gone else one for one, gone in zip(plain.tolist(), column.missing.tolist(), strict=True)])
        hashed, lanes = self.hashed([(f"v{place}", column.kind) for place, column in enumerate(columns)], key)
        given = list(zip(*values, strict=True))
        with self._lock, self._silent(), self._view() as session, self._brake(session):
            frame = session.createDataFrame(given, ", ".join(types)).selectExpr("place", f"{hashed} AS h")
            rows = frame.selectExpr("place", f"{lanes[0]} AS d").collect()
        result = np.empty(public.row_count, dtype=np.int64)
        result[[row[0] for row in rows]] = [row[1] for row in rows]
        return result.view(np.uint64)


def _close(sessions: list[Any]) -> None:
    """Another batch makes a new session."""
    while sessions:
        with suppress(Exception):
            sessions.pop().client.close()


def _value(sql: str, kind: Kind) -> str:
    """The SQL to hash for a canonical value, so that 0 and -0 are equal."""
    return f"({sql} + 0D)" if kind in ("number", "date") else SPARK.left(sql, 1_000) if kind == "text" else sql


def _connection(url: str) -> Any:
    """A session of its own on a Spark Connect server, which gives up soon if there is none. It asks nothing yet."""
    for message in _WARNINGS:
        warnings.filterwarnings("ignore", message)
    try:
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession
    except ImportError:
        raise MissingExtra("a table of Spark's", "spark") from None
    # A connection of its own: gRPC would share one that waits for minutes since the server was gone.
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 1_000)]
    session = SparkSession(connection=DefaultChannelBuilder(url, options))
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, backoff_multiplier=2.0, jitter=0)])
    return session


def _set_up(session: Any) -> None:
    """What questions need of a session."""
    session.conf.set(_ITERATIONS, str(_MOST_ITERATIONS))
    session.conf.set(_LATERAL, "true")


def _provider(session: Any, name: str) -> str:
    """The format that a table is kept in; nothing for a view."""
    found = [(row[0], row[1]) for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    start = max((place for place, (label, _) in enumerate(found) if label == _DETAILS), default=len(found))
    return str(dict(found[start:]).get("Provider", "")).lower()


def _is_there(session: Any, path: str) -> bool:
    """Whether there is such a file or folder; a pattern will do."""
    try:
        _ = session.read.text(path).schema
    except Exception:
        return False
    return True


def _folders(path: str) -> list[str]:
    """Where a table format would keep its record of the files at a path.

    >>> _folders("s3://lake/patients/data/year=2020/*.parquet")
    ['s3://lake/patients/data/year=2020', 's3://lake/patients/data', 's3://lake/patients']
    """
    parts = path.rstrip("/").split("/")
    parts = parts[: next((place for place, part in enumerate(parts) if set(part) & set("*?[{")), len(parts))]
    found = ["/".join(parts) or "."]
    while len(parts) > 1 and (parts[-1] == "data" or "=" in parts[-1] or parts[-1].endswith((".parquet", ".pq"))):
        parts.pop()
        found.append("/".join(parts))
    return found


def _types(frame: Any) -> dict[str, str]:
    """The columns and their types, without the stamp."""
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields if field.name != _FILE}


def _require_different(names: Sequence[str], what: str) -> None:
    """Spark does not tell names apart that differ in case alone."""
    if len({name.lower() for name in names}) < len(names):
        raise DataError(f"{what} has columns whose names differ only in case. Expected names that differ: rename one.")
