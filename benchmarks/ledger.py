"""Durability: what a durable study costs beside asking and one plain commit, and how fast it is opened and audited."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import CPU, WALL, Line, Work, in_turn, milliseconds, ratio
from benchmarks.tables import seven_terms, table


class PlainCommits:
    """A table in a file of its own, in SQLite's safest mode, as ledgers are: what one durable commit costs here."""

    def __init__(self, path: Path) -> None:
        self._con = sqlite3.connect(path, isolation_level=None)
        self._con.execute("PRAGMA journal_mode = DELETE")
        self._con.execute("PRAGMA synchronous = EXTRA")
        self._con.execute("CREATE TABLE record (seq INTEGER PRIMARY KEY, body TEXT)")

    def commit(self, body: str, rows: int) -> None:
        """So many rows at once."""
        self._con.execute("BEGIN IMMEDIATE")
        self._con.executemany("INSERT INTO record (body) VALUES (?)", [(body,)] * rows)
        self._con.execute("COMMIT")

    def close(self) -> None:
        """Done."""
        self._con.close()


def _against_memory(folder: Path) -> list[Line]:
    """The same questions of the same rows in turn: one holdout durable, one not, and commits of as many bytes."""
    columns, reference = table(100_000, 0), table(20_000, 1)
    durable = eh.Holdout.create(folder / "speed.everhold", columns, prior=eh.Reference(reference), seed=0)
    memory = eh.Holdout(columns, prior=eh.Reference(reference), seed=0)
    plain = PlainCommits(folder / "plain.sqlite")
    before = (folder / "speed.everhold").stat().st_size
    for held in (durable, memory):
        held.ask_many([seven_terms(10_000 + i) for i in range(1_000)])
    body = "x" * (((folder / "speed.everhold").stat().st_size - before) // 1_000)  # bytes of a round in the file
    answers: dict[str, list[eh.Answer]] = {"memory": [], "durable": []}

    def works(size: int) -> dict[str, Work]:
        def texts(turn: int) -> list[str]:
            return [seven_terms(20 * size + size * turn + i) for i in range(size)]  # of all turns another one

        def ask(held: eh.Holdout, name: str) -> Work:
            if size == 1:
                return lambda turn: answers[name].append(held.ask(texts(turn)[0]))
            return lambda turn: answers[name].extend(held.ask_many(texts(turn)))

        asks = {name: ask(held, name) for name, held in (("memory", memory), ("durable", durable))}
        return {**asks, "commit": lambda _: plain.commit(body, size)}

    found = {size: in_turn(works(size), turns=turns, clock=WALL) for size, turns in ((1, 301), (100, 61))}
    durable.release()
    plain.close()
    equal = answers["memory"] == answers["durable"] and memory.rounds == len(answers["memory"]) + 1_000
    lines = []
    for size, most in ((1, 1.3), (100, 1.2)):
        times = found[size]
        whole = ratio(times["durable"], times["memory"] + times["commit"])
        beside = ratio(times["durable"], times["memory"])
        lines.append(
            Line(
                f"{'a durable ask' if size == 1 else f'a durable batch of {size}'}, n = 1e5, over the same in memory + one "
                f"plain SQLite commit of as many bytes ({len(body)} a round)",
                f"{whole}; {milliseconds(times['durable'])}, {milliseconds(times['memory'])} and "
                f"{milliseconds(times['commit'])}; {beside.median:.2f} × memory alone; "
                f"{'the same answers' if equal else 'OTHER ANSWERS'}",
                f"at most {most}",
                whole.median <= most and equal,
            )
        )
    return lines


def _long(folder: Path, rounds: int = 100_000) -> list[Line]:
    """A ledger of 100,000 rounds with 50 surprises, P = 1e4."""
    rng = np.random.default_rng(0)

    def rows(size: int, chance: float) -> dict[str, NDArray[Any]]:
        coins = {f"b{i}": rng.random(size) < (chance if i < 50 else 0.5) for i in range(50)}
        return {"x": rng.random(size), **coins}

    private = rows(10_000, 0.65)
    path = folder / "long.everhold"
    held = eh.Holdout.create(path, private, prior=eh.Reference(rows(10_000, 0.5)), seed=0)
    started = CPU()
    held.ask_many([f"b{i}" for i in range(50)])
    for start in range(held.rounds, rounds, 2000):
        held.ask_many([f"x < {i / 1_000_000:.6f}" for i in range(start, min(start + 2000, rounds))])
    asked = CPU() - started
    total, surprises = held.rounds, held.surprises
    held.release()
    ok = True

    def audit(_: int) -> None:
        nonlocal ok
        ok = eh.Holdout.audit_file(path).ok and ok

    times = in_turn({"open": lambda _: eh.Holdout.open(path, data=private).release(), "audit": audit}, turns=2)
    opening, auditing = ratio(times["open"], times["audit"]), ratio(times["audit"], asked)
    return [
        Line(
            f"opening a ledger of {total:,} rounds with {surprises} surprises over auditing it",
            f"{opening}; {milliseconds(times['open'])} and {milliseconds(times['audit'])}, "
            f"{path.stat().st_size / 2**20:.0f} MB",
            "below 1",
            opening.median < 1.0 and ok,
        ),
        Line(
            "auditing it over asking it, in batches of 2,000, n = P = 1e4",
            f"{auditing}; {total / float(np.median(times['audit'])):,.0f} and {total / asked:,.0f} rounds a second",
            "at most 2",
            auditing.median <= 2.0 and ok,
        ),
    ]


def run() -> list[Line]:
    """Both; about three minutes."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_against_memory(Path(folder)), *_long(Path(folder))]
