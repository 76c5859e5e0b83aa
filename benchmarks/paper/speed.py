"""(d) Time a question against the size of the domain: private multiplicative weights, the paper's mechanism, everhold."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import everhold as eh
from benchmarks.paper.run import Row, Task
from benchmarks.paper.section import Claim, Section, table
from everhold.baselines import BaselineMechanism, MultiplicativeWeights
from everhold.data.table import RowTable
from everhold.priors.pool import Pool
from everhold.queries.query import Rows
from everhold.session.session import Session

PRIVATE, PUBLIC = 5_000, 10_000
NAMES = ("multiplicative weights", "AQA-OGD", "everhold")


def keys(rng: np.random.Generator, size: int, bits: int) -> dict[str, np.ndarray[Any, Any]]:
    """Uniform points of the domain."""
    return {"key": rng.integers(0, 2**bits, size, dtype=np.uint64)}


def population(rng: np.random.Generator, size: int, bits: int) -> dict[str, np.ndarray[Any, Any]]:
    """Points whose two lowest bits are not both 0: 3/4-dense in the domain."""
    drawn = keys(rng, 2 * size, bits)["key"]
    return {"key": drawn[drawn & np.uint64(3) != 0][:size]}


def holdout(name: str, bits: int, rounds: int) -> eh.Holdout | Session[Any]:
    """The same private rows for everybody."""
    private = population(np.random.default_rng(1), PRIVATE, bits)
    if name == "everhold":
        prior = eh.Reference(keys(np.random.default_rng(2), PUBLIC, bits))
        return eh.Holdout(private, prior=prior, seed=1)
    if name == "AQA-OGD":
        return eh.Holdout.with_mechanism(
            private,
            lambda n: eh.AqaOgd(
                rows=n, draw=lambda rng, size: keys(rng, size, bits), accuracy=0.4, density=0.75, rounds=rounds
            ),
        )
    domain = Pool(RowTable({"key": np.arange(2**bits, dtype=np.uint64)}), None, float(2**bits))
    policy = MultiplicativeWeights(rounds=rounds, threshold=0.05, deviation=0.002)
    return eh.Holdout.with_mechanism(private, lambda n: BaselineMechanism(policy, rows=n, public=domain))


def timed(name: str, bits: int, rounds: int) -> list[Row]:
    """Seconds a question: conjunctions and parities of a few of the low eight bits."""
    held, rng = holdout(name, bits, rounds), np.random.default_rng(3)
    times = []
    for t in range(rounds):
        mask = np.uint64(rng.integers(1, 256))
        wanted = np.uint64(rng.integers(0, 256)) & mask

        def question(rows: Rows, mask: Any = mask, wanted: Any = wanted, parity: bool = t % 2 == 0) -> Any:
            picked = rows["key"] & mask
            return np.bitwise_count(picked) % 2 == 1 if parity else picked == wanted

        started = time.perf_counter()
        held.ask(question)
        times.append(time.perf_counter() - started)
    return [
        {
            "who": name, "bits": bits, "rounds": rounds, "surprises": held.surprises,
            "milliseconds": round(1000 * float(np.median(times)), 4), "mean": round(1000 * float(np.mean(times)), 4),
        }
    ]  # fmt: skip


def tasks(quick: bool) -> list[Task]:
    """2^8 to 2^20 points for everybody, and 2^64 for those who can."""
    sizes = (8, 17) if quick else (8, 10, 12, 14, 16, 18, 20)
    rounds = 40 if quick else 100
    made = [Task("speed", timed, (name, bits, rounds), alone=True) for bits in sizes for name in NAMES]
    return made + [Task("speed", timed, (name, 64, rounds), alone=True) for name in NAMES[1:]]


def text(rows: list[Row]) -> str:
    """Milliseconds a question."""
    sizes = sorted({row["bits"] for row in rows})
    by = {(row["who"], row["bits"]): row for row in rows}
    body = [
        [who, *(f"{by[who, b]['milliseconds']:.2f}" if (who, b) in by else "out of reach" for b in sizes)] for who in NAMES
    ]
    return (
        f"Median milliseconds a question, {PRIVATE:,} private rows, {rows[0]['rounds']} questions; everhold has {PUBLIC:,} "
        f"public rows, the weights have every point of the "
        f"domain.\n\n{table(['mechanism', *(f'2^{b}' for b in sizes)], body)}"
    )


def draw(rows: list[Row], axes: Any) -> None:
    """Time over domain size."""
    for who in NAMES:
        points = sorted((row["bits"], row["milliseconds"]) for row in rows if row["who"] == who)
        axes.plot(*np.array(points).T, label=who, marker=".", linewidth=3 if who == "everhold" else 1.5)
    axes.set(yscale="log", xlabel="bits of the domain", ylabel="ms a question", title="Time against the domain")
    axes.legend(fontsize=7)


def claims(rows: list[Row]) -> list[Claim]:
    """The weights' time grows with the domain; everhold's does not."""
    by = {(row["who"], row["bits"]): row["milliseconds"] for row in rows}
    first, last = min(b for _, b in by), max(b for w, b in by if w == "multiplicative weights")
    grown = by["multiplicative weights", last] / by["multiplicative weights", first]
    least = 10.0 if last >= 20 else 1.5
    mine, paper = (by[who, 64] / by[who, first] for who in ("everhold", "AQA-OGD"))
    return [
        Claim(
            "weights-grow",
            f"multiplicative weights at 2^{last} points take at least {least:g} times as long as at 2^{first}",
            f"{grown:.1f} times",
            grown >= least,
        ),
        Claim(
            "everhold-does-not",
            f"everhold at 2^64 points takes less than twice the time at 2^{first}",
            f"{mine:.2f} times (AQA-OGD: {paper:.2f})",
            mine < 2.0,
        ),
    ]


SECTION = Section("speed", "(d) Does time grow with the domain?", tasks, text, draw, claims)
