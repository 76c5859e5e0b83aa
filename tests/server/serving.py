"""Studies, tokens and servers for the tests: in this process without a socket, or as a process of its own."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import numpy as np
from starlette.testclient import TestClient

import everhold as eh
from everhold.server.app import make_app
from everhold.server.config import Config, StudyAt
from everhold.server.limits import Slots
from everhold.server.state import ServerState
from everhold.server.study_writer import StudyWriter
from everhold.server.time_grid import TimeGrid
from everhold.server.tokens import Tokens

FREE = {"requests_per_minute": 10_000_000, "burst": 1_000_000, "anonymous_per_minute": 10_000_000, "grid_ms": 0}
"""No rates and no grid, for tests of other things."""


def people(size: int, smokers: float, seed: int) -> dict[str, np.ndarray]:
    """A table."""
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(18, 90, size),
        "smoker": rng.random(size) < smokers,
        "bmi": rng.normal(27.0, 4.0, size).round(1),
        "city": rng.choice(["York", "Leeds", "Hull"], size, p=[0.5, 0.3, 0.2]),
    }


def save(place: Path, table: dict[str, np.ndarray]) -> Path:
    """As CSV."""
    rows = zip(*(column.tolist() for column in table.values()), strict=True)
    text = "\n".join([",".join(table), *(",".join(str(cell) for cell in row) for row in rows)])
    place.write_text(text + "\n")
    return place


def make_study(folder: Path, name: str = "patients", **settings: object) -> Path:
    """A study whose private rows have more smokers than the public ones."""
    data = save(folder / f"{name}.csv", people(4_000, 0.3, 1))
    prior = eh.Reference(people(3_000, 0.2, 2))
    place = folder / f"{name}.everhold"
    eh.Holdout.create(place, data, prior=prior, **{"seed": 7, **settings}).release()
    return place


def make_contest(folder: Path, name: str = "coins", **settings: object) -> tuple[Path, np.ndarray]:
    """A contest, and its labels."""
    labels = np.random.default_rng(3).integers(0, 2, 300)
    place = folder / f"{name}.everhold"
    given = {"title": "Guess the coins", "classes": [0, 1], "seed": 2, **settings}
    eh.Contest.create(place, labels, **given)
    return place, labels


def as_csv(predictions: np.ndarray) -> str:
    """A submission."""
    return "id,prediction\n" + "".join(f"{place},{value}\n" for place, value in enumerate(predictions))


@dataclass
class Site:
    """A server in this process, with a token of each scope."""

    state: ServerState
    http: TestClient
    secrets: dict[str, str] = field(default_factory=dict)

    def token(self, name: str, scope: str, **limits: object) -> str:
        """A new token's secret."""
        self.secrets[name] = self.state.tokens.create(name, scope, **limits)[0]
        return self.secrets[name]

    def as_(self, name: str) -> dict[str, str]:
        """Headers of somebody."""
        return {"Authorization": f"Bearer {self.secrets[name]}"}

    def post(self, path: str, body: object = None, who: str = "ann", **more: object) -> httpx2.Response:
        """A request with a body."""
        return self.http.post(path, json=body, headers=self.as_(who), **more)

    def get(self, path: str, who: str = "ann", **more: object) -> httpx2.Response:
        """A request without."""
        return self.http.get(path, headers=self.as_(who), **more)

    def sign_in(self, who: str) -> str:
        """Sign in on the page; the secret that its forms carry."""
        self.http.cookies.clear()
        found = self.http.post("/sign-in", data={"token": self.secrets[who], "next": "/"}, follow_redirects=False)
        assert found.status_code == 303, found.text
        page = self.http.get("/").text
        return page.split('name="csrf" value="')[1].split('"')[0]


class Clock:
    """Time that moves when a test says so: what sleeps wakes when its moment has come, however busy the machine is."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        self.now += 1e-6  # it never stands still: what is asked is never answered at the same moment
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Until so many of its own seconds have passed."""
        moment = self.now + seconds
        await asyncio.sleep(0)
        while self.now < moment:
            await asyncio.sleep(0.001)


def study_writer(place: Path, grid: TimeGrid | None = None) -> StudyWriter:
    """A study with its writer, without a server."""
    return StudyWriter(place, grid=TimeGrid(0.0) if grid is None else grid, slots=Slots(in_all=4, for_one=4))


@contextmanager
def site(folder: Path, *studies: Path, clock: Clock | None = None, **settings: object):
    """A server in this process, without a socket; its time is real, or a test's own."""
    config = Config(
        **{"studies": tuple(StudyAt(place) for place in studies), **FREE, **settings},
        tokens=folder / "tokens.json",
        log=folder / "access.jsonl",
    )
    clocked = (
        {} if clock is None else {"clock": clock, "grid": TimeGrid(config.grid_ms / 1000, clock=clock, sleep=clock.sleep)}
    )
    state = ServerState(config, **clocked)
    with TestClient(make_app(state), raise_server_exceptions=False, client=("127.0.0.1", 5)) as http:
        made = Site(state, http)
        for name, scope in (("ann", "analyst"), ("aud", "auditor"), ("cus", "custodian")):
            made.token(name, scope)
        yield made


class Process:
    """`everhold serve` as a process of its own, on a free port."""

    def __init__(self, folder: Path, *studies: Path, config: Path | None = None, **settings: object) -> None:
        self.folder, self.studies, self.config = folder, studies, config
        self.tokens = Tokens(folder / "tokens.json")
        self.settings = {**FREE, **settings}
        self.url = ""
        self.child: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it, and wait until it listens."""
        self.child = subprocess.Popen(
            [sys.executable, "-m", "everhold", *self.arguments()],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment(),
        )  # fmt: skip
        assert self.child.stdout is not None
        seen = []
        for line in self.child.stdout:
            seen.append(line)
            if line.startswith("Serving "):
                self.url = line.rsplit(" ", 1)[1].strip()
                return self.url
        self.child.stdout.close()
        code = self.child.wait()  # it has closed its output, so it ends; -9: somebody killed it
        raise AssertionError(f"the server did not start, and ended with {code}: {''.join(seen)}")

    def arguments(self) -> list[str]:
        """Of the command; once started, it starts again at the same port."""
        port = self.url.rsplit(":", 1)[1] if self.url else "0"
        config = [] if self.config is None else ["--config", str(self.config)]
        return ["serve", *map(str, self.studies), "--port", port, *config, "--tokens", str(self.tokens.path)]

    def environment(self) -> dict[str, str]:
        """Of the process."""
        given = {f"EVERHOLD_{name.upper()}": str(value) for name, value in self.settings.items()}
        return {**os.environ, **given, "EVERHOLD_LOG": str(self.folder / "access.jsonl"), "OMP_NUM_THREADS": "1"}

    def kill(self) -> None:
        """As a power cut would."""
        assert self.child is not None
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self.child.stdout.close()

    def stop(self) -> int:
        """As an operator would; the exit code."""
        assert self.child is not None
        self.child.send_signal(signal.SIGTERM)
        code = self.child.wait(timeout=600)
        self.child.stdout.close()
        return code

    def __enter__(self) -> Process:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.child is not None and self.child.poll() is None:
            self.stop()


class ForkedProcess(Process):
    """The same command in a process that is forked from one that has imported it: for tests that start many servers."""

    forked: multiprocessing.process.BaseProcess | None = None

    def start(self) -> str:
        """Start it, and wait until it listens."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["everhold.cli.main", "everhold.server.run", __name__])
        output = self.folder / "output.txt"
        output.write_text("")
        self.forked = context.Process(
            target=_run_command, args=(self.arguments(), self.environment(), str(output)), daemon=True
        )
        self.forked.start()
        found: list[str] = []

        def said() -> bool:
            ended = self.forked.exitcode is not None
            found[:] = [line for line in output.read_text().splitlines(keepends=True) if line.endswith("\n")]
            return ended or any(line.startswith("Serving ") for line in found)

        wait_for(said)
        served = [line for line in found if line.startswith("Serving ")]
        assert served, f"the server did not start, and ended with {self.forked.exitcode}: {''.join(found)}"
        self.url = served[0].rsplit(" ", 1)[1].strip()
        return self.url

    def kill(self) -> None:
        """As a power cut would."""
        self.forked.kill()
        self.forked.join()

    def stop(self) -> int:
        """As an operator would; the exit code."""
        self.forked.terminate()
        self.forked.join()
        return int(self.forked.exitcode)

    def __exit__(self, *_: object) -> None:
        if self.forked is not None and self.forked.exitcode is None:
            self.stop()


def _run_command(arguments: list[str], environment: dict[str, str], output: str) -> None:
    """`everhold …` in this process, which was forked for it."""
    os.environ.clear()
    os.environ.update(environment)
    said = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    from everhold.cli.main import main

    sys.argv = ["everhold", *arguments]
    main()


def access_log(folder: Path) -> list[dict[str, object]]:
    """What the server noted."""
    return [json.loads(line) for line in (folder / "access.jsonl").read_text().splitlines()]


def let_time_pass(clock: Clock, *threads: threading.Thread) -> None:
    """Until all threads have ended. A response may find its place on the grid only after the clock was moved."""
    while any(one.is_alive() for one in threads):
        clock.now += 0.1
        for one in threads:
            one.join(0.01)


def wait_for(true, seconds: float = 600.0) -> None:
    """Until something is so. The end is there for what would never happen: a slow machine is not a failure."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
