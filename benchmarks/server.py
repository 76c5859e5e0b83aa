"""The server under load: 64 analysts at once, against the same questions one by one in the process that holds the rows.

The load comes from a process of its own. The server keeps its default grid, on which answers leave; only the rate of a
token is lifted. Both sides commit every answer durably before it is told.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import everhold as eh
from benchmarks.promises import Line
from everhold.ledger.reader import read_study
from everhold.server.tokens import Tokens

ROWS, PUBLIC, QUESTIONS, ANALYSTS = 100_000, 20_000, 20_000, 64
ALONE = 1_500  # questions for the rate in the process, in three parts: before, between and after


def _people(size: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    columns = {"age": rng.integers(18, 90, size), "smoker": rng.random(size) < 0.25, "bmi": rng.normal(27.0, 4.0, size)}
    return {**columns, "city": rng.choice(["York", "Leeds", "Hull"], size)}


def _text(number: int) -> str:
    """Every number another question."""
    return f"age > {18 + number % 70} AND bmi < {15 + number / 1000:.3f} OR smoker AND city = 'York'"


def _study(folder: Path, name: str) -> Path:
    place = folder / f"{name}.everhold"
    rows = folder / "rows.parquet"
    if not rows.exists():
        import pandas as pd

        pd.DataFrame(_people(ROWS, 0)).to_parquet(rows)
    eh.Holdout.create(place, str(rows), prior=eh.Reference(_people(PUBLIC, 1)), seed=0, engine="memory").close()
    return place


def _alone(holdout: eh.Holdout, start: int) -> float:
    """Durable answers a second, asked one by one where the rows are."""
    began = time.perf_counter()
    for number in range(start, start + ALONE // 3):
        holdout.ask(_text(number), request_id=str(number))
    return ALONE / 3 / (time.perf_counter() - began)


def _serve(folder: Path, study: Path) -> tuple[subprocess.Popen[str], str]:
    limits = {"EVERHOLD_REQUESTS_PER_MINUTE": "10000000", "EVERHOLD_BURST": "1000000"}
    environment = {**os.environ, **limits, "EVERHOLD_LOG": str(folder / "access.jsonl")}
    command = [sys.executable, "-m", "everhold", "serve", str(study), "--port", "0"]
    child = subprocess.Popen(
        [*command, "--tokens", str(folder / "tokens.json")], stdout=subprocess.PIPE, text=True, env=environment
    )
    for line in child.stdout or ():
        if line.startswith("Serving "):
            return child, line.rsplit(" ", 1)[1].strip()
    raise RuntimeError("the server did not start")


async def _load(url: str, secrets: list[str]) -> dict[str, Any]:
    """64 analysts, each asking the next question as soon as the last is answered."""
    numbers = iter(range(QUESTIONS))
    times: list[float] = []
    told: dict[int, list[float]] = {}

    async def analyst(secret: str) -> None:
        async with eh.connect_async(url, secret) as server:
            study = server.study("load")
            for number in numbers:
                began = time.perf_counter()
                answer = await study.ask(_text(number), request_id=str(number))
                times.append(time.perf_counter() - began)
                told[number] = [answer.value, answer.low, answer.high, answer.round]

    began = time.perf_counter()
    await asyncio.gather(*(analyst(secret) for secret in secrets))
    seconds = time.perf_counter() - began
    ordered = sorted(times)
    at = {name: ordered[int(len(ordered) * share)] for name, share in (("p50", 0.5), ("p99", 0.99))}
    return {"seconds": seconds, **at, "told": told}


def run() -> list[Line]:
    """Measure."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name).absolute()
        near = eh.Holdout.open(_study(folder, "near"))
        place = _study(folder, "load")
        tokens = Tokens(folder / "tokens.json")
        secrets = [tokens.create(f"analyst {number}", "analyst")[0] for number in range(ANALYSTS)]
        rates = [_alone(near, 0)]
        child, url = _serve(folder, place)
        (folder / "secrets.json").write_text(json.dumps(secrets))
        rates.append(_alone(near, 10_000))
        loaded = subprocess.run(
            [sys.executable, "-m", "benchmarks.server", url, str(folder / "secrets.json")],
            check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        found = json.loads(loaded.stdout)
        child.terminate()
        stopped = child.wait(60)
        rates.append(_alone(near, 20_000))
        near.close()
        return _lines(found, sorted(rates)[1], place, stopped)


def _lines(found: dict[str, Any], alone: float, place: Path, stopped: int) -> list[Line]:
    kept = read_study(place).rounds
    recorded = {}
    for one in kept:
        recorded[(one.request or "").rsplit(":", 1)[-1]] = one.answer
    told = found["told"]
    same = all(
        (a := recorded.get(number)) is not None and [a.value, a.low, a.high, a.round] == answer
        for number, answer in told.items()
    )
    whole = len(told) == len(kept) == len(recorded) == QUESTIONS and same
    audit = eh.Holdout.audit_file(place)
    rate = QUESTIONS / found["seconds"]
    return [
        Line(
            f"server with {ANALYSTS} analysts, n = 1e5, over asking in the process, durable answers a second",
            f"{rate / alone:.2f} ({rate:,.0f} and {alone:,.0f}; p50 {1e3 * found['p50']:.0f} ms, p99 "
            f"{1e3 * found['p99']:.0f} ms, grid 50 ms)",
            "at least 0.5",
            rate >= 0.5 * alone,
        ),
        Line(
            f"{QUESTIONS:,} questions under load",
            f"{len(told):,} answered, {len(kept):,} recorded, {'all equal' if same else 'SOME DIFFER'}; {audit}; the server "
            f"ended with code {stopped}",
            "none lost or doubled, audit ok",
            whole and audit.ok and stopped == 0,
        ),
    ]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_load(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))))
