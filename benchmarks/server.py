"""The server under load: 64 analysts at once, against the same questions one by one in the process that holds the rows.

The load comes from a process of its own. The server keeps its default grid, on which answers leave; only the rate of a
token is lifted. Both sides commit every answer durably before it is returned. Stretches under load and stretches in the
process alternate. How many answers a second leave depends on the disk and on the cores that are free for server and load, so
it is shown and not promised; what is judged is the processor time that an answer takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import CPU, WALL, Line, milliseconds, ratio
from everhold.ledger.reader import read_study
from everhold.server.tokens import Tokens

ROWS, PUBLIC, QUESTIONS, ANALYSTS = 100_000, 20_000, 20_000, 64
STRETCHES = 8  # of QUESTIONS / STRETCHES questions under load, each beside two of ALONE questions in the process
ALONE = 150


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
    eh.Holdout.create(place, str(rows), prior=eh.Reference(_people(PUBLIC, 1)), seed=0, engine="memory").release()
    return place


def _alone(holdout: eh.Holdout, start: int) -> tuple[float, float]:
    """Seconds and processor seconds of a durable answer, asked one by one where the rows are."""
    began, used = WALL(), CPU()
    for number in range(start, start + ALONE):
        holdout.ask(_text(number), request_id=str(number))
    return (WALL() - began) / ALONE, (CPU() - used) / ALONE


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


async def _load(url: str, secrets: list[str], first: int, last: int) -> dict[str, Any]:
    """64 analysts, each asking the next question as soon as the last is answered."""
    numbers = iter(range(first, last))
    times: list[float] = []
    answers: dict[int, list[float]] = {}

    async def analyst(secret: str) -> None:
        async with eh.connect_async(url, secret) as server:
            study = server.study("load")
            for number in numbers:
                began = WALL()
                answer = await study.ask(_text(number), request_id=str(number))
                times.append(WALL() - began)
                answers[number] = [answer.value, answer.low, answer.high, answer.round]

    began = WALL()
    await asyncio.gather(*(analyst(secret) for secret in secrets))
    seconds = WALL() - began
    return {"rate": len(answers) / seconds, "times": times, "answers": answers}


def run() -> list[Line]:
    """Measure."""
    Path("out").mkdir(exist_ok=True)  # on the disk of the checkout: a folder for temporary files may be in memory
    with tempfile.TemporaryDirectory(dir="out") as name:
        folder = Path(name).absolute()
        near = eh.Holdout.open(_study(folder, "near"))
        place = _study(folder, "load")
        tokens = Tokens(folder / "tokens.json")
        secrets = [tokens.create(f"analyst {number}", "analyst")[0] for number in range(ANALYSTS)]
        (folder / "secrets.json").write_text(json.dumps(secrets))
        child, url = _serve(folder, place)
        try:
            alone = [_alone(near, 0)]
            loads = []
            for stretch in range(STRETCHES):
                loads.append(_from_outside(url, folder / "secrets.json", stretch))
                alone.append(_alone(near, (stretch + 1) * ALONE))
        finally:
            child.terminate()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        near.release()
        used = (usage.ru_utime + usage.ru_stime) / QUESTIONS  # its start included
        return _lines(loads, np.array(alone), used, place, child.returncode)


def _from_outside(url: str, secrets: Path, stretch: int) -> dict[str, Any]:
    """One stretch of load, by a process of its own."""
    size = QUESTIONS // STRETCHES
    command = [
        sys.executable,
        "-m",
        "benchmarks.server",
        url,
        str(secrets),
        str(stretch * size),
        str((stretch + 1) * size),
    ]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def _lines(loads: list[dict[str, Any]], alone: NDArray[np.float64], used: float, place: Path, stopped: int) -> list[Line]:
    kept = read_study(place).rounds
    recorded = {}
    for one in kept:
        recorded[(one.request_id or "").rsplit(":", 1)[-1]] = one.answer
    answers = {number: answer for load in loads for number, answer in load["answers"].items()}
    same = all(
        (a := recorded.get(number)) is not None and [a.value, a.low, a.high, a.round] == answer
        for number, answer in answers.items()
    )
    whole = len(answers) == len(kept) == len(recorded) == QUESTIONS and same
    audit = eh.Holdout.audit_file(place)
    rates = np.array([load["rate"] for load in loads])
    beside = 2.0 / (alone[:-1, 0] + alone[1:, 0])  # before and after each stretch of load
    processor = ratio(used, alone[:, 1])
    p50, p99 = np.quantile([taken for load in loads for taken in load["times"]], [0.5, 0.99])
    return [
        Line(
            f"processor time of a durable answer, server with {ANALYSTS} analysts, n = 1e5, over asking in the process",
            f"{processor}; {1e3 * used:.2f} and {milliseconds(alone[:, 1])}. {float(np.median(rates)):,.0f} and "
            f"{float(np.median(beside)):,.0f} answers a second, {ratio(rates, beside)}; p50 {1e3 * float(p50):.0f} ms, "
            f"p99 {1e3 * float(p99):.0f} ms, grid 50 ms",
            "at most 2.5",
            processor.median <= 2.5,
        ),
        Line(
            f"{QUESTIONS:,} questions under load",
            f"{len(answers):,} answered, {len(kept):,} recorded, {'all equal' if same else 'SOME DIFFER'}; {audit}; "
            f"the server ended with code {stopped}",
            "none lost or doubled, audit ok",
            whole and audit.ok and stopped == 0,
        ),
    ]


if __name__ == "__main__":
    _, address, given, begin, end = sys.argv
    print(json.dumps(asyncio.run(_load(address, json.loads(Path(given).read_text()), int(begin), int(end)))))
