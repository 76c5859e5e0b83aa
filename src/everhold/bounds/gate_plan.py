"""What a gate can certify with so many cases and looks, before the first look: `eh.plan_gate`.

A forecast under stated assumptions: cases pass or fail, some candidates are better by the step and the others are as good as
the incumbent, and all of them change the same share of the cases, each independently of the others. Whether a promotion is
valid does not depend on these; how often one happens does. See `docs/theory/gate_plan.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any, Literal

from everhold.bounds.budget import Budget
from everhold.bounds.changes import POWER, Changes
from everhold.bounds.code import Code
from everhold.bounds.gate_power import bets_power
from everhold.bounds.gate_world import GateWorld
from everhold.errors import SettingError, require_number, require_whole
from everhold.progress import watched
from everhold.results import PlainResult

__all__ = ["GateContract", "GatePlan", "plan_gate"]

_MOST_ROWS = 10**7


@dataclass(frozen=True, slots=True)
class GateContract:
    """What one contract gives.

    Attributes:
        name: in words.
        certify: 'each' or 'final'.
        generation_size: how many candidates a check compares.
        promotions: how many steps can be certified with the plan's power: promotions of that size, or the size of the total
            gain that the last act certifies.
        certified_gain: what the last act certifies at least, with that power; None for 'each', which certifies of every
            promotion that it is a gain.
        expected: how many candidates that are better are promoted on average.
        nats: the price of the first promotion, when it is due, or of the last act.
        rows_needed: if nothing can be certified, with how many cases something could be; None beyond ten million.
        step_needed: if nothing can be certified, with steps of which size something could be; None if with none.
    """

    name: str
    certify: Literal["each", "final"]
    generation_size: int
    promotions: int
    certified_gain: float | None
    expected: float
    nats: float
    rows_needed: int | None = None
    step_needed: float | None = None

    @property
    def possible(self) -> bool:
        """Whether anything can be certified."""
        return self.promotions > 0 if self.certified_gain is None else self.certified_gain > 0.0

    @property
    def words(self) -> str:
        """What it certifies, or what it would take."""
        if self.possible and self.certified_gain is not None:
            return f"a total gain of at least {100 * self.certified_gain:.1f} points"
        if self.possible:
            return f"{self.promotions:,} promotion{'s' * (self.promotions != 1)}, one by one"
        needs = [] if self.rows_needed is None else [f"{self.rows_needed:,} cases"]
        needs += [] if self.step_needed is None else [f"steps of {100 * self.step_needed:.1f} points"]
        return f"cannot certify: it takes {' or '.join(needs)}" if needs else "cannot certify"


@dataclass(frozen=True, slots=True)
class GatePlan(PlainResult):
    """Every contract for one set of numbers; print it, or use `contracts` and `recommended`.

    Attributes:
        rows: the number of cases.
        looks: candidates that will be compared with the incumbent.
        step: how much better a better candidate is, on the scale of the score.
        changed: the share of the cases on which a candidate's outcome differs from the incumbent's.
        better: the share of the candidates that are better.
        accuracy: the score of the first incumbent.
        by: the margin that each promotion must exceed.
        confidence: probability that everything a contract certifies is true.
        power: probability with which what can be certified is certified.
    """

    rows: int
    looks: int
    step: float
    changed: float
    better: float
    accuracy: float
    by: float
    confidence: float
    power: float
    contracts: tuple[GateContract, ...]

    @property
    def recommended(self) -> GateContract | None:
        """The first that can certify something and expects at least nine tenths of the steps of any other such; or None."""
        able = [contract for contract in self.contracts if contract.possible]
        most = max((contract.expected for contract in able), default=0.0)
        return next((contract for contract in able if contract.expected >= 0.9 * most), None)

    def __getitem__(self, name: str) -> GateContract:
        """The contract of that name."""
        for contract in self.contracts:
            if contract.name == name:
                return contract
        raise KeyError(f"{name!r} is not in the plan: {', '.join(contract.name for contract in self.contracts)}")

    def __str__(self) -> str:
        by = f", each better by more than {100 * self.by:g} points" if self.by else ""
        lines = [
            f"{self.rows:,} cases, {self.looks:,} looks, steps of {100 * self.step:g} points{by}, "
            f"confidence {self.confidence:g}, power {self.power:g}",
            f"assumed: candidates change {100 * self.changed:g} % of the cases, {100 * self.better:g} % of them are better, "
            f"the first incumbent scores {self.accuracy:g}",
            "",
            f"{'  contract':<34}{'price':>7}{'expected':>10}   certified",
        ]
        for contract in self.contracts:
            mark = "→ " if contract is self.recommended else "  "
            lines.append(f"{mark + contract.name:<34}{contract.nats:>7.1f}{contract.expected:>10.1f}   {contract.words}")
        lines += ["", "price: in nats. expected: steps that are promoted on average, of candidates that are better.", ""]
        return "\n".join([*lines, self._advice()])

    __repr__ = __str__

    def to_rows(self) -> list[dict[str, Any]]:
        """A line for each contract."""
        contracts: list[dict[str, Any]] = self.to_dict()["contracts"]
        return contracts

    def _advice(self) -> str:
        best = self.recommended
        if best is None:
            nearest = min(
                (contract.rows_needed for contract in self.contracts if contract.rows_needed is not None), default=None
            )
            more = "" if nearest is None else f" About {nearest:,} cases would be needed."
            return f"Cannot certify: no contract certifies steps of {100 * self.step:g} points with these cases.{more}"
        setting = f"certify={best.certify!r}" + (
            f", {best.generation_size} candidates a check" if best.generation_size > 1 else ""
        )
        return f"Recommended: {setting}."


@watched("Planning")
def plan_gate(
    *,
    rows: int,
    step: float,
    looks: int,
    changed: float | None = None,
    generation_size: int = 50,
    better: float = 0.2,
    accuracy: float = 0.5,
    by: float = 0.0,
    confidence: float = 0.95,
    power: float = POWER,
) -> GatePlan:
    """What a gate can certify with `rows` cases and `looks` candidates, by every contract.

    Args:
        rows: the number of cases.
        step: how much better a better candidate is; 0.03 are three points.
        looks: how many candidates are compared with the incumbent.
        changed: the share of the cases on which a candidate's outcome differs; 0.1, or the step if that is larger.
        generation_size: how many candidates one check compares, where the best of several is promoted.
        better: the share of the candidates that are better. The others are as good as the incumbent.
        accuracy: the score of the first incumbent.
        by: the margin that each promotion must exceed.
        confidence: probability that everything a contract certifies is true.
        power: with what probability a possible promotion happens.

    >>> plan_gate(rows=2_000, step=0.06, looks=200)["each promotion"].words
    '9 promotions, one by one'
    >>> plan_gate(rows=200, step=0.03, looks=200)["each promotion"].possible
    False
    """
    for value, name in ((rows, "rows"), (looks, "looks"), (generation_size, "generation_size")):
        require_whole(value, name)
        if not 1 <= value <= _MOST_ROWS:
            raise SettingError(f"{name} is {value!r}. Expected a number between 1 and {_MOST_ROWS:,}.")
    require_number(step, "step")
    changed = max(0.1, step) if changed is None else changed
    for number, name in ((step, "step"), (changed, "changed"), (better, "better"), (accuracy, "accuracy"), (by, "by")):
        require_number(number, name)
    for number, name in ((step, "step"), (better, "better"), (confidence, "confidence"), (power, "power")):
        require_number(number, name)
        if not 0.0 < number < 1.0 and not (name == "better" and number == 1.0):
            raise SettingError(f"{name} is {number!r}. Expected a number between 0 and 1.")
    if not 0.0 <= accuracy < 1.0:
        raise SettingError(f"accuracy is {accuracy!r}. Expected the score of the first incumbent, below 1.")
    if not 0.0 <= by < step:
        raise SettingError(f"by is {by!r}. Expected a margin of at least 0 that is smaller than the step, {step!r}.")
    Changes.of(step=step, changed=changed)
    world = GateWorld(rows, looks, step, changed, better, by, 1.0 - confidence, power, accuracy, accuracy)
    sizes = [1] if generation_size == 1 or generation_size > looks else [1, generation_size]
    contracts = [make(world, size) for size in sizes for make in (_each, _final)]
    return GatePlan(rows, looks, step, changed, better, accuracy, by, confidence, power, tuple(contracts))


def _each(world: GateWorld, generation_size: int) -> GateContract:
    """Every promotion is certified."""
    start, checks = Budget(world.failure_probability), world.looks // generation_size
    every = max(round(1.0 / world.better), 1) if generation_size == 1 else 1
    promotions, budget = 0, start
    affordable = world.affordable(generation_size)
    while promotions < min(checks // every, world.room):
        for _ in range(every - 1):
            budget = budget.checked("kept", generation_size)
        if budget.promotion_price(generation_size) > affordable:
            break
        budget, promotions = budget.checked("promoted", generation_size), promotions + 1
    name = "each promotion" if generation_size == 1 else f"each, the best of {generation_size:,}"
    first = replace(start, code=Code(check_counts=(every - 1, 0, 0))).promotion_price(generation_size)
    rows = step = None
    if promotions == 0:
        rows = _least_rows(lambda n: first <= replace(world, cases=n).affordable(generation_size), world.cases)
        step = _least_step(lambda d: first <= world.with_step(d).affordable(generation_size), world.step)
    return GateContract(name, "each", generation_size, promotions, None, world.expected(generation_size), first, rows, step)


def _final(world: GateWorld, generation_size: int) -> GateContract:
    """Promotions are choices; the total gain is certified once, at the end."""
    number, last, changes = world.choices(generation_size)
    nats = world.last_price(generation_size, number)
    gain = world.certified(changes, nats)
    name = "the total gain" if generation_size == 1 else f"the total, the best of {generation_size:,}"
    rows = step = None
    if gain <= 0.0:
        rows = _least_rows(lambda n: _final_works(replace(world, cases=n), generation_size), world.cases)
        step = _least_step(lambda d: _final_works(world.with_step(d), generation_size), world.step)
    expected = (last.score - world.score) / world.step
    return GateContract(name, "final", generation_size, floor(gain / world.step + 1e-9), gain, expected, nats, rows, step)


def _final_works(world: GateWorld, generation_size: int) -> bool:
    number, _, changes = world.choices(generation_size)
    nats = world.last_price(generation_size, number)
    return changes.changed > 0.0 and bets_power(world.cases, changes, nats, 0) >= world.wanted


def _least_rows(works: Callable[[int], bool], rows: int) -> int | None:
    """About the smallest number of cases with which it works, to two digits; None beyond the largest that is tried."""
    low, high = rows, 2 * rows
    while not works(high):
        low, high = high, 2 * high
        if high > _MOST_ROWS:
            return None
    while high - low > max(high // 100, 1):
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def _least_step(works: Callable[[float], bool], step: float) -> float | None:
    """About the smallest step with which it works, to a tenth of a point; None if none does."""
    low, high = ceil(step * 1_000), 999
    if not works(high / 1_000):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle / 1_000) else (middle, high)
    return high / 1_000
