"""A PostgreSQL of its own for tests and benchmarks, from the packages of the system: a cluster in a folder, on a socket.

Nothing about it is usual: texts are ordered by English rules, the time zone is New York, dates are German.
"""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "timezone": "'America/New_York'",
    "datestyle": "'German, DMY'",
    "log_statement": "none",
    "max_connections": "30",
    "shared_buffers": "64MB",
}


def binaries() -> str | None:
    """The folder with initdb; None where PostgreSQL's server is not installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    path = found[-1] if found else shutil.which("initdb")
    return None if path is None else str(Path(path).parent)


class PostgresServer:
    """A server in a temporary folder; a context manager. It refuses to run as root, so root runs it as `postgres`."""

    def __init__(self, **settings: str) -> None:
        self._bin = binaries()
        self._settings = SETTINGS | settings
        self._folder = tempfile.mkdtemp(prefix="everhold-pg-")
        self._user = "postgres" if os.getuid() == 0 else None

    def __enter__(self) -> PostgresServer:
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
        os.chmod(self._folder, 0o755)
        self._run("initdb", "--pgdata", self._data, "--username=admin", "--auth=trust", "--no-sync", "--encoding=UTF8",
                  "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")  # fmt: skip
        lines = [f"{name} = {value}" for name, value in self._settings.items()]
        lines.append(f"unix_socket_directories = '{self._folder}'")
        with open(f"{self._data}/postgresql.auto.conf", "a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _data(self) -> str:
        return f"{self._folder}/data"

    def start(self) -> None:
        self._run("pg_ctl", "--pgdata", self._data, "--wait", "--log", f"{self._folder}/log", "start")

    def stop(self) -> None:
        """At once, as a crash would."""
        if os.path.exists(f"{self._data}/postmaster.pid"):
            self._run("pg_ctl", "--pgdata", self._data, "--wait", "--mode=immediate", "stop")

    @property
    def processes(self) -> list[int]:
        """The server and its children."""
        with open(f"{self._data}/postmaster.pid", encoding="utf-8") as file:
            first = int(file.readline())
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=False)
        return [first, *(int(one) for one in listed.stdout.split())]

    @property
    def log(self) -> str:
        return Path(f"{self._folder}/log").read_text(encoding="utf-8", errors="replace")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [f"{self._bin}/{program}", *arguments],
            user=self._user,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            check=False,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")

    def url(self, role: str = "reader") -> str:
        return f"postgresql://{role}@/postgres?host={self._folder}"

    def connect(self) -> Any:
        """A connection of the administrator."""
        import psycopg

        return psycopg.connect(self.url("admin"), autocommit=True)

    def run(self, *statements: str) -> None:
        """As the administrator."""
        with self.connect() as con:
            for sql in statements:
                con.execute(sql)

    def load(self, table: str, types: dict[str, str], rows: Any) -> None:
        """A table with these rows, which `reader` may read."""
        columns = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
        self.run(f"DROP TABLE IF EXISTS {table} CASCADE", f"CREATE TABLE {table} ({columns})")
        with self.connect() as con, con.cursor() as cursor:
            with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            con.execute(f"GRANT SELECT ON {table} TO reader")
