"""A Spark Connect server of its own, from the jars that PySpark brings: one process, on a free port of this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def why_missing() -> str | None:
    """Why there can be no server here; None if there can."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed (make test-spark installs it, in an environment of its own)"
    return None if shutil.which("java") else "Java is not installed (Debian: apt-get install openjdk-17-jre-headless)"


class SparkServer:
    """A server; a context manager. `user` runs it, if this is root."""

    def __init__(self, *, user: str | None = None, **settings: str) -> None:
        spec = importlib.util.find_spec("pyspark")
        self._home = str(Path(spec.origin).parent)
        self._settings = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
        self._folder = tempfile.mkdtemp(prefix="everhold-spark-")
        self._user = user
        if user is not None:
            shutil.chown(self._folder, user)
        self._process: subprocess.Popen | None = None
        self.port = _free_port()

    def __enter__(self) -> SparkServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def start(self) -> None:
        settings = self._settings | {
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.sql.warehouse.dir": f"{self._folder}/warehouse",
            "spark.local.dir": self._folder,
        }
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        with open(f"{self._folder}/log", "a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [f"{self._home}/bin/spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
                 "--master", "local[2]", "--driver-memory", "2g", *given, "spark-internal"],
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, user=self._user,
                env=os.environ | {"SPARK_HOME": self._home} | ({} if self._user is None else {"HOME": self._folder}),
            )  # fmt: skip
        while not _listens(self.port):
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended: {self.log[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """At once, as a crash would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It keeps its connections, and answers nothing."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    @property
    def processes(self) -> list[int]:
        """The processes of the server."""
        listed = subprocess.run(
            ["ps", "-o", "pid=", "-g", str(self._process.pid)], capture_output=True, text=True, check=True
        )
        return [int(one) for one in listed.stdout.split()]

    @property
    def log(self) -> str:
        return Path(f"{self._folder}/log").read_text(encoding="utf-8", errors="replace")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
