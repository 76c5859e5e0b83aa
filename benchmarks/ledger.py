"""Durability: what a durable study costs against one in memory, and how fast it is opened and audited."""

from __future__ import annotations

import tempfile
import time
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import Line
from benchmarks.tables import seven_terms, table


def _against_memory(folder: Path) -> list[Line]:
    """The same questions of the same rows, in turn, one holdout durable and one not."""
    columns, reference = table(100_000, 0), table(20_000, 1)
    durable = eh.Holdout.create(folder / "speed.everhold", columns, prior=eh.Reference(reference), seed=0)
    memory = eh.Holdout(columns, prior=eh.Reference(reference), seed=0)
    numbers = count()
    single: dict[str, list[float]] = {"durable": [], "memory": []}
    batched: dict[str, list[float]] = {"durable": [], "memory": []}
    equal = True
    for _ in range(300):
        text = seven_terms(next(numbers))
        answers = []
        for name, held in (("memory", memory), ("durable", durable)):
            started = time.perf_counter()
            answers.append(held.ask(text))
            single[name].append(time.perf_counter() - started)
        equal = equal and answers[0] == answers[1]
    for _ in range(31):
        texts = [seven_terms(next(numbers)) for _ in range(100)]
        for name, held in (("memory", memory), ("durable", durable)):
            started = time.perf_counter()
            held.ask_many(texts)
            batched[name].append(time.perf_counter() - started)
    durable.close()
    one, many = (median(times["durable"]) / median(times["memory"]) for times in (single, batched))
    rate = 1.0 / median(single["durable"])
    return [
        Line(
            "durable asks one by one over asks in memory, n = 1e5",
            f"{one:.2f} ({rate:,.0f} durable asks a second), {'the same answers' if equal else 'OTHER ANSWERS'}",
            "2",
            one <= 2.0 and equal,
        ),
        Line(
            "durable batches of 100 over batches in memory",
            f"{many:.3f} ({100.0 / median(batched['durable']):,.0f} durable answers a second)",
            "1.1",
            many <= 1.1,
        ),
    ]


def _long(folder: Path, rounds: int = 100_000) -> list[Line]:
    """A ledger of 100,000 rounds with 50 surprises, P = 1e4."""
    rng = np.random.default_rng(0)

    def rows(size: int, chance: float) -> dict[str, NDArray[Any]]:
        coins = {f"b{i}": rng.random(size) < (chance if i < 50 else 0.5) for i in range(50)}
        return {"x": rng.random(size), **coins}

    private = rows(10_000, 0.65)
    path = folder / "long.everhold"
    held = eh.Holdout.create(path, private, prior=eh.Reference(rows(10_000, 0.5)), seed=0)
    held.ask_many([f"b{i}" for i in range(50)])
    surprises = held.surprises
    for start in range(held.rounds, rounds, 2000):
        held.ask_many([f"x < {i / 1_000_000:.6f}" for i in range(start, min(start + 2000, rounds))])
    total, surprises = held.rounds, held.surprises
    held.close()
    started = time.perf_counter()
    eh.Holdout.open(path, data=private).close()
    opened = time.perf_counter() - started
    started = time.perf_counter()
    found = eh.Holdout.audit_file(path)
    audited = time.perf_counter() - started
    return [
        Line(
            f"opening a ledger of {total:,} rounds with {surprises} surprises over auditing it",
            f"{opened / audited:.2f} ({opened:.1f} s and {audited:.1f} s), {path.stat().st_size / 2**20:.0f} MB",
            "less than 1",
            opened < audited and found.ok,
        ),
        Line(
            "rounds a second that an audit replays, P = 1e4",
            f"{total / audited:,.0f}",
            "2,000",
            total / audited >= 2000.0 and found.ok,
        ),
    ]


def run() -> list[Line]:
    """Both; about three minutes."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_against_memory(Path(folder)), *_long(Path(folder))]
