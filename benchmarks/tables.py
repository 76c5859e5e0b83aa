"""Text questions on tables: protected against unprotected, against DuckDB, in batches, and out of core."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from statistics import median
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import Line
from benchmarks.promises import together as in_turn
from everhold.data.engines.memory import MemoryEngine
from everhold.data.engines.sql import Select, literal
from everhold.data.table import Table
from everhold.queries.expression import Expression, expression
from everhold.queries.expression.case import CAPITAL, SMALL

CITIES = np.array(["York", "Leeds", "Hull", "Bath", "Rye"])


def table(rows: int, seed: int) -> dict[str, NDArray[Any]]:
    """People, as an analyst would have them."""
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(18, 90, rows).astype(np.float64),
        "bmi": np.where(rng.random(rows) < 0.05, np.nan, rng.normal(26.0, 4.0, rows)),
        "smoker": rng.random(rows) < 0.2,
        "city": CITIES[rng.integers(0, 5, rows)],
        "income": rng.lognormal(10.0, 1.0, rows),
        "visits": rng.integers(0, 20, rows).astype(np.float64),
    }


def seven_terms(i: int) -> str:
    """A yes/no expression of seven terms, another one for every i."""
    return (
        f"age > {20 + i % 60} AND bmi < {24 + i % 9}.{i % 7} AND (smoker OR city IN ('York', 'Hull')) "
        f"AND income / 1000 < {20 + i % 70} AND visits <> {i % 20} AND NOT age * 2 > {120 + i % 59}"
    )


def together(runs: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """The best of each in milliseconds, all taken in turn, so that a noisy moment hits them alike."""
    for run in runs.values():
        run()
    return {name: 1e3 * best for name, best in in_turn(runs, repeat=repeat).items()}


def _in_duckdb(columns: dict[str, NDArray[Any]], threads: int) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(config={"threads": threads})
    con.register("given", dict(columns))
    con.execute("CREATE TABLE t AS SELECT * REPLACE (CASE WHEN isnan(bmi) THEN NULL ELSE bmi END AS bmi) FROM given")
    return con


def _large() -> list[Line]:
    columns = table(1_000_000, 0)
    held = eh.Holdout(columns, prior=eh.Reference(table(100_000, 1)), seed=0)
    engine, kinds = MemoryEngine(Table(columns)), held.schema.kinds if held.schema else {}
    con = _in_duckdb(columns, 2)
    numbers = count()
    found = together(
        {
            "protected": lambda: held.ask(seven_terms(next(numbers))),
            "plain": lambda: engine.totals([expression(seven_terms(next(numbers)), kinds)]),
            "duckdb": lambda: con.execute(
                f"SELECT avg(CASE WHEN {seven_terms(next(numbers))} THEN 1.0 ELSE 0.0 END) FROM t"
            ).fetchone(),
        },
        31,
    )
    ratio, against = found["protected"] / found["plain"], found["protected"] / found["duckdb"]
    return [
        Line(
            "ask, seven terms, n = 1e6, P = 1e5, over the same engine without protection",
            f"{ratio:.2f} ({found['protected']:.1f} ms against {found['plain']:.1f})",
            "1.3",
            ratio <= 1.3,
        ),
        Line(
            "the same over SELECT avg(...) in DuckDB, 2 threads, table in memory",
            f"{against:.2f} ({found['duckdb']:.1f} ms)",
            "faster",
            against < 1.0,
        ),
    ]


def _small() -> Line:
    held = eh.Holdout(table(10_000, 0), prior=eh.Reference(table(10_000, 1)), seed=0)
    numbers = count()
    rates = []
    for _ in range(9):
        started = time.perf_counter()
        for _ in range(250):
            held.ask(seven_terms(next(numbers)))
        rates.append(250 / (time.perf_counter() - started))
    return Line(
        "questions a second, n = P = 1e4, one process",
        f"{median(rates):,.0f} (best of nine stretches {max(rates):,.0f})",
        "1,500",
        max(rates) >= 1500.0,
    )


def _letters() -> Line:
    """lower() of plain ASCII in DuckDB, against the table of letters that other texts need."""
    con = duckdb.connect(config={"threads": 1})
    con.execute("CREATE TABLE t AS SELECT 'Patient number ' || i AS s FROM range(100000) r(i)")
    select = Select({"s": '"s"'}, "t")
    quick = select.totals([expression("lower(s) = 'patient number 7'", {"s": "text"})])
    slow = f"SELECT count(*) FILTER (translate(s, {literal(CAPITAL)}, {literal(SMALL)}) = 'patient number 7') FROM t"
    found = together({"quick": lambda: con.execute(quick).fetchone(), "slow": lambda: con.execute(slow).fetchone()}, 7)
    ratio = found["slow"] / found["quick"]
    return Line(
        "lower() of 1e5 ASCII texts in DuckDB, against translating every letter",
        f"{ratio:.0f} times as fast ({found['quick']:.1f} ms and {found['slow']:.0f} ms)",
        "30 times",
        ratio >= 30.0,
    )


def _batch() -> Line:
    atoms = [f"age > {20 + i}" for i in range(20)] + [f"bmi < {20 + 0.5 * i}" for i in range(20)]
    atoms += [f"income > {1000 * (i + 1)}" for i in range(14)] + [f"city = '{city}'" for city in CITIES] + ["smoker"]
    rng = np.random.default_rng(0)
    asked = [" AND ".join(atoms[j] for j in rng.choice(60, 3 + i % 3, replace=False)) for i in range(1000)]
    columns, reference = table(1_000_000, 0), table(100_000, 1)

    taken = {"one": float("inf"), "many": float("inf")}
    equal = True
    for _ in range(3):
        one, many = (eh.Holdout(columns, prior=eh.Reference(reference), seed=0) for _ in range(2))
        for held in (one, many):
            held.ask_many(atoms)  # every column is made ready once, for both
        started = time.perf_counter()
        answers = [one.ask(question) for question in asked]
        taken["one"] = min(taken["one"], time.perf_counter() - started)
        started = time.perf_counter()
        equal = equal and many.ask_many(asked) == answers
        taken["many"] = min(taken["many"], time.perf_counter() - started)
    ratio = taken["one"] / taken["many"]
    return Line(
        "ask_many, 1,000 conjunctions over 60 atoms, n = 1e6, P = 1e5, against one by one",
        f"{ratio:.1f} times as fast ({taken['one']:.2f} s and {taken['many']:.2f} s), "
        f"{'the same answers' if equal else 'OTHER ANSWERS'}",
        "4 times, the same answers",
        ratio >= 4.0 and equal,
    )


def _linear() -> Line:
    small, large = MemoryEngine(Table(table(1_000_000, 0))), MemoryEngine(Table(table(10_000_000, 0)))
    question = expression(seven_terms(5), {name: Table(table(10, 0)).kind(name) or "number" for name in table(10, 0)})
    found = together({"1e6": lambda: small.totals([question]), "1e7": lambda: large.totals([question])}, 9)
    ratio = found["1e7"] / found["1e6"]
    return Line(
        "a question at n = 1e7 over n = 1e6, in memory",
        f"{ratio:.1f} ({found['1e7']:.0f} ms and {found['1e6']:.1f} ms)",
        "linear: 12",
        ratio <= 12.0,
    )


def _out_of_core() -> Line:
    """2e8 values in Parquet files, memory limited to a quarter of what they would take."""
    rows, parts = 20_000_000, 10
    names = [f"x{i}" for i in range(10)]
    with tempfile.TemporaryDirectory() as folder:
        con = duckdb.connect()
        for part in range(parts):
            wanted = ", ".join(f"(random() * 100)::DOUBLE AS {name}" for name in names)
            con.execute(
                f"COPY (SELECT {wanted} FROM range({rows // parts})) TO '{os.path.join(folder, f'{part}.parquet')}' "
                "(FORMAT parquet)"
            )
        pattern = os.path.join(folder, "*.parquet")
        reference = {name: np.random.default_rng(i).random(100_000) * 100.0 for i, name in enumerate(names)}
        held = eh.Holdout(pattern, prior=eh.Reference(reference), engine="duckdb", memory_limit="400MB", seed=0)
        plain = duckdb.connect(config={"memory_limit": "400MB"})
        numbers = count()

        def asked() -> str:
            i = next(numbers)
            return (
                f"x0 > {i % 90} AND x1 < {90 - i % 50} AND (x2 > 50 OR x3 < 20) AND x4 / 10 < {3 + i % 6} "
                f"AND x5 <> {i % 20} AND NOT x6 * 2 > {100 + i % 59}"
            )

        found = together(
            {
                "protected": lambda: held.ask(asked()),
                "plain": lambda: plain.execute(
                    f"SELECT avg(CASE WHEN {asked()} THEN 1.0 ELSE 0.0 END) FROM read_parquet('{pattern}')"
                ).fetchone(),
            },
            5,
        )
    ratio = found["protected"] / found["plain"]
    return Line(
        "2e8 values in Parquet, 400 MB of memory, over DuckDB's own average",
        f"{ratio:.2f} ({found['protected']:.0f} ms against {found['plain']:.0f})",
        "1.5",
        ratio <= 1.5,
    )


TWIN_QUESTIONS = (
    seven_terms(3),
    "income % 7 > 3 AND ln(income) > 10",
    "exp(age / 20) > 3 OR sqrt(bmi) < 5",
    "round(age) = 40 OR income / visits > 30",
    "coalesce(bmi, 20) > 25 AND least(age, visits) < 15",
    "CASE WHEN age > 40 THEN bmi ELSE visits END > 12",
)


def twins(rows: int, seed: int, *, wild: str) -> dict[str, MemoryEngine]:
    """A table, and the same with one row, or all rows, of extreme values."""
    calm = table(rows, seed)
    other = {name: column.copy() for name, column in calm.items()}
    changed = slice(0, 1) if wild == "one row" else slice(0, rows)
    count = len(range(rows)[changed])
    rng = np.random.default_rng(1)
    for name in ("age", "bmi", "income", "visits"):
        extremes = np.array([1e308, np.nan, np.inf, -np.inf, 1e-310, -0.0, 1e15])
        other[name][changed] = extremes[np.arange(count) % 7 if wild == "one row" else rng.integers(0, 7, count)]
    other["smoker"][changed] = ~calm["smoker"][changed]
    return {"calm": MemoryEngine(Table(calm)), "wild": MemoryEngine(Table(other))}


def _twins() -> list[Line]:
    lines = []
    for wild, promise in (("one row", 1.10), ("every row", 1.25)):
        engines = twins(400_000, 0, wild=wild)
        kinds = {name: engines["calm"]._table.kind(name) or "number" for name in table(10, 0)}
        ratios = {}
        for text in TWIN_QUESTIONS:
            question = expression(text, kinds)

            def run(engine: MemoryEngine, question: Expression = question) -> object:
                return engine.totals([question])

            found = together({name: partial(run, engine) for name, engine in engines.items()}, 41)
            ratios[text] = max(found["wild"] / found["calm"], found["calm"] / found["wild"])
        worst = max(ratios, key=lambda text: ratios[text])
        lines.append(
            Line(
                f"evaluation time of twins that differ in {wild}, extreme against calm, worst of six questions",
                f"{ratios[worst]:.3f} ({worst[:40]})",
                f"{promise:.2f}",
                ratios[worst] <= promise,
            )
        )
    return lines


def run() -> list[Line]:
    """All of them; about two minutes."""
    return [*_large(), _small(), _batch(), _letters(), _linear(), _out_of_core(), *_twins()]
