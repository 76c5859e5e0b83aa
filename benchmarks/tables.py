"""Text questions on tables: protected against unprotected, against DuckDB, in batches, and out of core."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

import everhold as eh
from benchmarks.promises import WALL, Line, in_turn, milliseconds, ratio
from everhold.data.engines.dialects.duckdb import DUCKDB
from everhold.data.engines.memory import MemoryEngine
from everhold.data.engines.sql import Select
from everhold.data.table import RowTable
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


def _in_duckdb(columns: dict[str, NDArray[Any]], threads: int) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(config={"threads": threads})
    con.register("given", dict(columns))
    con.execute("CREATE TABLE t AS SELECT * REPLACE (CASE WHEN isnan(bmi) THEN NULL ELSE bmi END AS bmi) FROM given")
    return con


def _average(question: str, where: str = "t") -> str:
    """The same question as plain SQL."""
    return f"SELECT avg(CASE WHEN {question} THEN 1.0 ELSE 0.0 END) FROM {where}"


def _large() -> list[Line]:
    columns = table(1_000_000, 0)
    held = eh.Holdout(columns, prior=eh.Reference(table(100_000, 1)), seed=0)
    engine, kinds = MemoryEngine(RowTable(columns)), held.schema.kinds if held.schema else {}
    con = _in_duckdb(columns, 2)
    alone = in_turn(
        {
            "protected": lambda i: held.ask(seven_terms(i)),
            "plain": lambda i: engine.sums([expression(seven_terms(i), kinds)]),
        },
        turns=101,
    )
    beside = in_turn(
        {
            "protected": lambda i: held.ask(seven_terms(1_000 + i)),
            "duckdb": lambda i: con.execute(_average(seven_terms(1_000 + i))).fetchone(),
        },
        turns=101,
        clock=WALL,  # of which DuckDB's two threads need less than of the processor
    )
    plain, database = ratio(alone["protected"], alone["plain"]), ratio(beside["protected"], beside["duckdb"])
    return [
        Line(
            "ask, seven terms, n = 1e6, P = 1e5, over the same engine without protection",
            f"{plain}; {milliseconds(alone['protected'])} and {milliseconds(alone['plain'])}",
            "at most 1.3",
            plain.median <= 1.3,
        ),
        Line(
            "the same over SELECT avg(...) in DuckDB, 2 threads, table in memory",
            f"{database}; {milliseconds(beside['protected'])} and {milliseconds(beside['duckdb'])}",
            "below 1",
            database.median < 1.0,
        ),
    ]


def _small() -> Line:
    columns = table(10_000, 0)
    held = eh.Holdout(columns, prior=eh.Reference(table(10_000, 1)), seed=0)
    con = _in_duckdb(columns, 1)
    times = in_turn(
        {
            "ask": lambda i: held.ask(seven_terms(i)),
            "duckdb": lambda i: con.execute(_average(seven_terms(i))).fetchone(),
        },
        turns=101,
        inner=10,
    )
    found = ratio(times["ask"], times["duckdb"])
    return Line(
        "ask, seven terms, n = P = 1e4, over SELECT avg(...) in DuckDB, 1 thread",
        f"{found}; {1.0 / float(np.median(times['ask'])):,.0f} and {1.0 / float(np.median(times['duckdb'])):,.0f} "
        "questions a second",
        "below 1",
        found.median < 1.0,
    )


def _letters() -> Line:
    """lower() of plain ASCII in DuckDB, against the table of letters that other texts need."""
    con = duckdb.connect(config={"threads": 1})
    con.execute("CREATE TABLE t AS SELECT 'Patient number ' || i AS s FROM range(100000) r(i)")
    select = Select(DUCKDB, {"s": '"s"'}, "t")
    quick = select.sums([expression("lower(s) = 'patient number 7'", {"s": "text"})])
    letters = f"{DUCKDB.literal(CAPITAL)}, {DUCKDB.literal(SMALL)}"
    slow = f"SELECT count(*) FILTER (translate(s, {letters}) = 'patient number 7') FROM t"
    times = in_turn(
        {"quick": lambda _: con.execute(quick).fetchone(), "slow": lambda _: con.execute(slow).fetchone()}, turns=9
    )
    found = ratio(times["slow"], times["quick"])
    return Line(
        "translating every letter over lower() of 1e5 ASCII texts in DuckDB",
        f"{found}; {milliseconds(times['slow'])} and {milliseconds(times['quick'])}",
        "at least 30",
        found.median >= 30.0,
    )


def _batch() -> Line:
    atoms = [f"age > {20 + i}" for i in range(20)] + [f"bmi < {20 + 0.5 * i}" for i in range(20)]
    atoms += [f"income > {1000 * (i + 1)}" for i in range(14)] + [f"city = '{city}'" for city in CITIES] + ["smoker"]
    columns, reference = table(1_000_000, 0), table(100_000, 1)
    one, many = (eh.Holdout(columns, prior=eh.Reference(reference), seed=0) for _ in range(2))
    for held in (one, many):
        held.ask_many(atoms)  # every column is made ready once, for both
    answers: dict[str, list[eh.Answer]] = {"one": [], "many": []}

    def asked(turn: int) -> list[str]:
        rng = np.random.default_rng(turn)
        return [" AND ".join(atoms[j] for j in rng.choice(60, 3 + i % 3, replace=False)) for i in range(1000)]

    times = in_turn(
        {
            "one": lambda i: answers["one"].extend(one.ask(question) for question in asked(i)),
            "many": lambda i: answers["many"].extend(many.ask_many(asked(i))),
        },
        turns=15,
    )
    found, equal = ratio(times["one"], times["many"]), answers["one"] == answers["many"]
    return Line(
        "1,000 conjunctions over 60 atoms, n = 1e6, P = 1e5, one by one over one batch",
        f"{found}; {milliseconds(times['one'])} and {milliseconds(times['many'])}, "
        f"{'the same answers' if equal else 'OTHER ANSWERS'}",
        "at least 4, the same answers",
        found.median >= 4.0 and equal,
    )


def _linear() -> Line:
    small, large = MemoryEngine(RowTable(table(1_000_000, 0))), MemoryEngine(RowTable(table(10_000_000, 0)))
    question = expression(seven_terms(5), {name: RowTable(table(10, 0)).kind(name) or "number" for name in table(10, 0)})
    times = in_turn({"1e6": lambda _: small.sums([question]), "1e7": lambda _: large.sums([question])}, turns=11)
    found = ratio(times["1e7"], times["1e6"])
    return Line(
        "processor time of a question at n = 1e7 over n = 1e6, in memory",
        f"{found}; {milliseconds(times['1e7'])} and {milliseconds(times['1e6'])}",
        "linear: at most 12",
        found.median <= 12.0,
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

        def asked(i: int) -> str:
            return (
                f"x0 > {i % 90} AND x1 < {90 - i % 50} AND (x2 > 50 OR x3 < 20) AND x4 / 10 < {3 + i % 6} "
                f"AND x5 <> {i % 20} AND NOT x6 * 2 > {100 + i % 59}"
            )

        times = in_turn(
            {
                "protected": lambda i: held.ask(asked(i)),
                "plain": lambda i: plain.execute(_average(asked(i), f"read_parquet('{pattern}')")).fetchone(),
            },
            turns=7,
        )
    found = ratio(times["protected"], times["plain"])
    return Line(
        "2e8 values in Parquet, 400 MB of memory, processor time over DuckDB's own average",
        f"{found}; {milliseconds(times['protected'])} and {milliseconds(times['plain'])}",
        "at most 1.5",
        found.median <= 1.5,
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
    return {"calm": MemoryEngine(RowTable(calm)), "wild": MemoryEngine(RowTable(other))}


def _twins() -> list[Line]:
    lines = []
    for wild, promise in (("one row", 1.10), ("every row", 1.25)):
        engines = twins(400_000, 0, wild=wild)
        kinds = {name: engines["calm"]._table.kind(name) or "number" for name in table(10, 0)}
        worst, said = 0.0, ""
        for text in TWIN_QUESTIONS:
            question = expression(text, kinds)

            def run(_: int, engine: MemoryEngine, question: Expression = question) -> object:
                return engine.sums([question])

            times = in_turn({name: partial(run, engine=engine) for name, engine in engines.items()}, turns=61)
            found = ratio(times["wild"], times["calm"])
            apart = max(found.median, 1.0 / found.median)
            if apart > worst:
                worst, said = apart, f"{found}, {text[:40]}"
        lines.append(
            Line(
                f"evaluation time of twins that differ in {wild}, extreme over calm, the question furthest from 1 of six",
                said,
                f"at most {promise:.2f} times apart",
                worst <= promise,
            )
        )
    return lines


def run() -> list[Line]:
    """All of them; about two minutes."""
    return [*_large(), _small(), _batch(), _letters(), _linear(), _out_of_core(), *_twins()]
