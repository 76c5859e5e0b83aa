"""Speed, as ratios in one run: a quiet ask against the plain numpy it cannot do without, a refit against quiet asks."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from unittest.mock import patch

import duckdb
import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import CPU, Line, Work, in_turn, milliseconds, ratio
from everhold.data.engines.memory import MemoryEngine
from everhold.data.table import RowTable
from everhold.queries.expression import bounded_mean, number
from everhold.queries.grid import Sums, strict_sums

ROWS, POOL = 1_000_000, 100_000


def run() -> list[Line]:
    """All speed promises."""
    return [*quiet_asks(), numbers(), *sums(), *long_session(), refit(), refit(real=True)]


def _holdout() -> eh.Holdout:
    return eh.Holdout(ROWS, prior=eh.Reference(POOL), seed=0)


def quiet_asks() -> list[Line]:
    """Yes or no: three times the plain passes beside the fixed part of an ask, and what that part is.

    The fixed part is an ask of 100 rows. Its plain equivalent is the average of 100 numbers by a database.
    """
    rng = np.random.default_rng(0)
    sample, reference = rng.random(ROWS) < 0.5, rng.random(POOL) < 0.5
    floats, masses = reference.astype(np.float64), np.ones(POOL)
    held, small = _holdout(), eh.Holdout(100, prior=eh.Reference(100), seed=0)
    large_question = eh.Values(sample=sample, reference=reference)
    small_question = eh.Values(sample=np.arange(100) % 2 == 0, reference=np.arange(100) % 2 == 0)
    con = duckdb.connect(config={"threads": 1})
    con.execute("CREATE TABLE t AS SELECT random() AS x FROM range(100)")
    times = in_turn(
        {
            "plain": lambda _: (np.count_nonzero(sample), np.dot(floats, masses)),
            "ask": lambda _: held.ask(large_question),
            "small": lambda _: small.ask(small_question),
            "database": lambda _: con.execute("SELECT avg(x) FROM t").fetchone(),
        },
        turns=101,
        inner=10,
    )
    whole = ratio(times["ask"], 3.0 * times["plain"] + times["small"])
    fixed = ratio(times["small"], times["database"])
    return [
        Line(
            f"quiet ask, yes or no, n = {ROWS:,}, P = {POOL:,}, over 3 × the plain passes + an ask of 100 rows",
            f"{whole}; {milliseconds(times['ask'])}, {milliseconds(times['plain'])} and {milliseconds(times['small'])}",
            "at most 1",
            whole.median <= 1.0,
        ),
        Line(
            "an ask of 100 rows over SELECT avg(x) of 100 rows in DuckDB",
            f"{fixed}; {milliseconds(times['small'])} and {milliseconds(times['database'])}",
            "at most 1",
            fixed.median <= 1.0,
        ),
    ]


def numbers() -> Line:
    """Numbers: twice the plain passes over both tables (range check, rounding, sum)."""
    rng = np.random.default_rng(0)
    private, public = rng.uniform(-1, 1, ROWS), rng.uniform(-1, 1, POOL)
    held = _holdout()
    question = eh.Values(sample=private, reference=public)

    def plain(_: int) -> None:
        for x in (private, public):
            if x.min() < -1.0 or x.max() > 1.0:
                raise ValueError
            np.rint(x * 32768.0).sum()

    times = in_turn({"plain": plain, "ask": lambda _: held.ask(question)}, turns=41, inner=2)
    found = ratio(times["ask"], times["plain"])
    return Line(
        "quiet ask, numbers, over the plain passes",
        f"{found}; {milliseconds(times['ask'])} and {milliseconds(times['plain'])}",
        "at most 2",
        found.median <= 2.0,
    )


def sums() -> list[Line]:
    """Numbers on private rows: the same path with the sum of the squares and without it."""
    x = np.random.default_rng(0).uniform(-1, 1, ROWS)
    engine = MemoryEngine(RowTable({"x": x}))
    question = bounded_mean(number("x", {"x": "number"}), -1.0, 1.0)

    def first_alone(values: NDArray[np.float64]) -> Sums:
        return Sums(int(values.sum()), 0)

    def by(of: Callable[[NDArray[np.float64]], Sums], work: Callable[[], object]) -> Work:
        def run(_: int) -> None:
            with patch.object(Sums, "of", of):  # on both sides, because it takes its time
                work()

        return run

    lines = []
    for name, work in {
        "given values": lambda: strict_sums(x, ROWS, "x"),
        "text in memory": lambda: engine.sums([question]),
    }.items():
        times = in_turn({"both": by(Sums.of, work), "first": by(first_alone, work)}, turns=41, inner=3)
        found = ratio(times["both"], times["first"])
        lines.append(
            Line(
                f"both sums of a number, {name}, n = {ROWS:,}, over its first sum alone",
                f"{found}; {milliseconds(times['both'])} and {milliseconds(times['first'])}",
                "at most 1.3",
                found.median <= 1.3,
            )
        )
    return lines


def long_session() -> list[Line]:
    """Round 100,000 against round 100: time, and the number of function calls, which has no noise."""
    n, size = 10_000, 10_000
    question = eh.Values(sample=np.arange(n) % 2 == 0, reference=np.arange(size) % 2 == 0)
    early, late = (eh.Holdout(n, prior=eh.Reference(size), seed=0) for _ in range(2))
    while late.rounds < 100_000:
        late.ask(question)
    while early.rounds < 100:
        early.ask(question)

    def calls(held: eh.Holdout) -> float:
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(50):
            held.ask(question)
        profile.disable()
        return sum(int(entry.callcount) for entry in profile.getstats()) / 50

    counted = calls(late) / calls(early)
    # The early session grows to a few thousand rounds on the way.
    times = in_turn({"late": lambda _: late.ask(question), "early": lambda _: early.ask(question)}, turns=101, inner=30)
    found = ratio(times["late"], times["early"])
    return [
        Line(
            "function calls of a quiet ask at round 100,000 over round 100",
            f"{counted:.4f}",
            "at most 1.01",
            counted <= 1.01,
        ),
        Line(
            "time of a quiet ask from round 100,000 on over one from round 100 on",
            f"{found}",
            "at most 1.2",
            found.median <= 1.2,
        ),
    ]


def refit(*, real: bool = False) -> Line:
    """Surprising asks from the 100th on, P = 100,000, each beside quiet asks of the same kind at n = 1,000,000."""
    rng = np.random.default_rng(1)
    held = _holdout()
    public = rng.random(POOL) < 0.5
    private = rng.random(ROWS) < 0.5

    def values(x: np.ndarray) -> np.ndarray:
        return np.where(x, 0.75, -0.75) + 0.25 * rng.uniform(-1, 1, len(x)) if real else x

    quiet = eh.Values(sample=values(private), reference=values(public))

    def surprise() -> float:
        """One surprising ask: the mean is off by 1 to 3 percentage points."""
        while True:
            lean = rng.uniform(0.01, 0.03) * rng.choice([-1, 1])
            asked = eh.Values(sample=values(rng.random(ROWS) < 0.5 + lean), reference=values(rng.random(POOL) < 0.5))
            before, started = held.surprises, CPU()
            held.ask(asked)
            taken = CPU() - started
            if held.surprises > before:
                return taken

    def asks() -> float:
        started = CPU()
        for _ in range(5):
            held.ask(quiet)
        return (CPU() - started) / 5

    while held.surprises < 99:
        surprise()
    pairs = [(surprise(), asks()) for _ in range(9)]
    found = ratio(*zip(*pairs, strict=True))
    return Line(
        f"refit from the 100th surprise on, {'numbers' if real else 'yes or no'}, P = {POOL:,}, over a quiet ask",
        f"{found}; {milliseconds([one for one, _ in pairs])} and {milliseconds([one for _, one in pairs])}",
        "at most 100",
        found.median <= 100.0,
    )
