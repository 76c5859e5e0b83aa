"""One question on the same rows in memory, DuckDB, PostgreSQL and Spark, in processor time; what guards cost; joined scans.

Servers are started from the packages of the system (`tests/remote`); where one is missing, its lines are left out. The time
of a server is that of all of its processes. EVERHOLD_ROWS=1000000 takes one size instead of both.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from tests.remote.postgres_server import PostgresServer, binaries
from tests.remote.spark_server import SparkServer, why_missing

import everhold as eh
from benchmarks.promises import CPU, Line, in_turn, ratio
from everhold.data.database_urls import at_url
from everhold.data.sample import Sample
from everhold.queries.expression import bounded_mean, expression, number
from everhold.queries.request import Request

SIZES = (1_000_000, 10_000_000)
SCHEMA = eh.Schema(
    (
        eh.ColumnSchema("age", "number", 0.0, 110.0),
        eh.ColumnSchema("bmi", "number", 10.0, 60.0),
        eh.ColumnSchema("pressure", "number", 60.0, 250.0),
        eh.ColumnSchema("visits", "number", 0.0, 50.0),
        eh.ColumnSchema("smoker", "boolean"),
        eh.ColumnSchema("city", "text"),
        eh.ColumnSchema("seen", "date"),
    )
)
ROWS = """
    SELECT 18 + 72 * random() AS age, CASE WHEN random() < 0.05 THEN NULL ELSE 15 + 20 * random() END AS bmi,
        90 + 100 * random() AS pressure, CAST(floor(20 * random()) AS INTEGER) AS visits, random() < 0.2 AS smoker,
        ['Oslo', 'Århus', 'York', 'Leeds', 'Bern', 'Lund', 'Bath', 'Malmö'][1 + CAST(floor(8 * random()) AS INT)] AS city,
        TIMESTAMP '2015-01-01' + INTERVAL 1 SECOND * CAST(floor(300000000 * random()) AS INTEGER) AS seen
    FROM range({rows})
"""
QUESTIONS = {
    "two tests": "age > 40 AND smoker",
    "three tests, one of text": "bmi > 27.5 AND city = 'Oslo' AND pressure < 140",
    "seven tests": (
        "age > 30 AND bmi < 30.5 AND (smoker OR city IN ('York', 'Lund')) AND pressure / 10 < 17 AND visits <> 3 "
        "AND NOT age * 2 > 150"
    ),
    "parts of a date": "year(seen) = 2019 AND visits % 7 = 3",
    "lower case": "lower(city) = 'york' OR age > 80",
}
BY_HAND = {
    "postgres": {"parts of a date": "date_part('year', seen) = 2019 AND visits % 7 = 3"},
    "spark": {},
}
"""Where one would write it differently by hand."""
MOST = {"postgres": 3.0, "spark": 1.5}


def _mean() -> Any:
    kinds = SCHEMA.kinds
    return bounded_mean(number("bmi", kinds), 10.0, 60.0, given=expression("smoker", kinds).tree)


def _ticks(pid: int, *, children: bool) -> float:
    """Seconds of processor time of a process; with its children that have ended, if wanted."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(one) for one in fields[11 : 15 if children else 13]) / os.sysconf("SC_CLK_TCK")


def _clock(server: Any) -> Callable[[], float]:
    """This process and all of a server's."""

    def now() -> float:
        first, *others = server.processes
        return CPU() + _ticks(first, children=True) + sum(_ticks(one, children=False) for one in others)

    return now


def _postgres(stack: ExitStack, file: str) -> tuple[Any, str, Callable[[str], object]]:
    server = stack.enter_context(PostgresServer(max_parallel_workers_per_gather="0", shared_buffers="1GB"))
    server.run(
        "CREATE ROLE reader LOGIN; CREATE SCHEMA study; GRANT USAGE ON SCHEMA study TO reader",
        "CREATE TABLE study.people (age float8, bmi float8, pressure float8, visits int, smoker bool, city text, "
        "seen timestamp)",
        "GRANT SELECT ON study.people TO reader",
    )
    with tempfile.TemporaryDirectory() as folder:
        duckdb.sql(f"COPY (FROM '{file}') TO '{folder}/rows.csv' (HEADER false)")
        copying = "COPY study.people FROM STDIN (FORMAT csv)"
        with server.connect() as con, con.cursor().copy(copying) as copy, open(f"{folder}/rows.csv", "rb") as rows:
            while data := rows.read(1 << 20):
                copy.write(data)
    server.run("VACUUM (FREEZE, ANALYZE) study.people")
    con = stack.enter_context(server.connect())
    return server, f"{server.url()}&table=study.people", lambda where: con.execute(where.format("study.people")).fetchone()


def _spark(stack: ExitStack, file: str) -> tuple[Any, str, Callable[[str], object]]:
    from pyspark.sql.connect.session import SparkSession

    server = stack.enter_context(SparkServer())
    session = SparkSession(connection=server.url)
    return server, f"spark+{server.url}/?path={file}", lambda sql: session.sql(sql.format(f"parquet.`{file}`")).collect()


def _asked(sample: Sample, question: Any, _: int) -> object:
    return sample.sums([question])


def _by_hand(run: Callable[[str], object], sql: str, _: int) -> object:
    return run(sql)


def _compared(rows: int, stack: ExitStack) -> Iterator[Line]:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    os.chmod(folder, 0o755)
    file = f"{folder}/people.parquet"
    duckdb.sql(f"COPY ({ROWS.format(rows=rows)}) TO '{file}' (FORMAT parquet)")
    samples = {
        "memory": Sample(file, schema=SCHEMA, engine="memory"),
        "DuckDB": Sample(file, schema=SCHEMA, engine="duckdb"),
    }
    clocks: dict[str, Callable[[], float]] = {"memory": CPU, "DuckDB": CPU}
    bare: dict[str, Callable[[str], object]] = {}
    for name, start, there in (("postgres", _postgres, binaries() is not None), ("spark", _spark, why_missing() is None)):
        if there:
            server, url, bare[name] = start(stack, file)
            samples[name] = Sample(at_url(url), schema=SCHEMA)
            clocks[name] = _clock(server)
    turns, short = (5, 2) if rows <= 1_000_000 else (3, 1)
    asked = {name: expression(text, SCHEMA.kinds) for name, text in QUESTIONS.items()} | {"a mean": _mean()}
    for name, question in asked.items():
        exact = {engine: sample.sums([question])[0] for engine, sample in samples.items()}
        taken: dict[str, float] = {}
        for engine, sample in samples.items():
            works: dict[str, Callable[[int], object]] = {"asked": partial(_asked, sample, question)}
            if engine in bare:
                text = BY_HAND[engine].get(name, QUESTIONS.get(name, ""))
                value = f"CASE WHEN {text} THEN 1 ELSE 0 END" if text else "CASE WHEN smoker THEN bmi END"
                sql = f"SELECT avg({value}) FROM {{}}"
                works["by hand"] = partial(_by_hand, bare[engine], sql)
            times = in_turn(works, turns=turns, inner=short, clock=clocks[engine])
            taken[engine] = float(np.median(times["asked"]))
            if engine in bare:
                found = ratio(times["asked"], times["by hand"])
                yield Line(
                    f"{name}, {rows:,} rows: {engine} over the same by hand",
                    f"{found}; {taken[engine]:.3g} s of the processor",
                    f"at most {MOST[engine]:g}",
                    found.median <= MOST[engine],
                )
        shown = " : ".join(f"{engine} {value:.3g} s" for engine, value in taken.items())
        yield Line(f"{name}, {rows:,} rows", shown, "equal sums", len(set(exact.values())) == 1)
    if rows <= 1_000_000:
        for engine in bare:
            yield _joined(engine, samples[engine], clocks[engine], folder)


def _joined(engine: str, sample: Sample, clock: Callable[[], float], folder: str) -> Line:
    """Questions that wait together are asked in one scan, as a server's writer does it."""
    public = duckdb.connect().execute(ROWS.format(rows=5_000)).fetch_df()
    described = sample._engine._rows._described  # type: ignore[attr-defined]
    texts = iter([f"age > {20 + one % 60}.{one} AND bmi < {20 + one % 13} AND smoker" for one in range(10_000)])
    options = {"prior": eh.Reference(public), "schema": SCHEMA, "seed": 0, "overlap": "allow"}
    holdout = eh.Holdout.create(f"{folder}/{engine}.everhold", described, **options)  # type: ignore[arg-type]

    def together(count: int, _: int) -> None:
        for one in holdout.ask_each([Request(next(texts)) for _ in range(count)]):
            assert not isinstance(one, Exception), one

    times = in_turn({"alone": partial(together, 1), "128": partial(together, 128)}, turns=3, clock=clock)
    holdout.release()
    found = ratio(times["128"] / 128, times["alone"])
    return Line(
        f"{engine}: a question among 128 that wait over one alone, {sample.size:,} rows",
        f"{found}; {1e3 * float(np.median(times['128'])) / 128:.3g} ms of the processor each, alone "
        f"{1e3 * float(np.median(times['alone'])):.3g} ms",
        "at most 0.5",
        found.median <= 0.5,
    )


def run() -> Iterator[Line]:
    """All lines."""
    only = os.environ.get("EVERHOLD_ROWS")
    for rows in (int(only),) if only else SIZES:
        with ExitStack() as stack:
            yield from _compared(rows, stack)
