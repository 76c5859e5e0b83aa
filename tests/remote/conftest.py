"""One server of each kind for all tests of a process. Where it is not installed, its tests are skipped, and say why."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tests.remote.postgres_server import PostgresServer, binaries
from tests.remote.spark_server import SparkServer, why_missing

if threading.current_thread() is threading.main_thread():  # the servers of tests end with them, whoever ends these
    signal.signal(signal.SIGTERM, signal.default_int_handler)

REQUIRED = os.environ.get("EVERHOLD_REQUIRE", "").split(",")
"""Servers that must be there: continuous integration sets it, so that a missing one is a failure."""


def missing(server: str, reason: str) -> None:
    if server in REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres():
    if binaries() is None:
        missing("postgres", "PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    with PostgresServer() as server:
        server.run(
            "CREATE ROLE reader LOGIN", "REVOKE ALL ON SCHEMA public FROM PUBLIC", "GRANT USAGE ON SCHEMA public TO reader"
        )
        yield server


@pytest.fixture(scope="session")
def spark():
    if (reason := why_missing()) is not None:
        missing("spark", reason)
    # Compiling a statement of forty questions takes longer than running it on some hundred rows. One test compiles.
    with SparkServer(spark_sql_codegen_wholeStage="false", spark_sql_codegen_factoryMode="NO_CODEGEN") as server:
        yield server
