"""The world that a gate is planned for: what becomes of its candidates, on average.

Cases pass or fail. A candidate changes cases at random: a part `better` of the candidates is better by `step`, the others
are as good as the incumbent. What is promoted looks better on the gate's own cases than it is, and makes the next step look
smaller: `score` is the truth about the incumbent, `seen` its share of right cases. See `docs/theory/gate_plan.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, sqrt

import numpy as np
from scipy.special import ndtr, ndtri

from everhold.bounds.budget import Budget
from everhold.bounds.changes import Changes
from everhold.bounds.code import LAST_SPEND, Code
from everhold.bounds.gain import SCORE_ONE
from everhold.bounds.gate_power import GateTest, bets_power, leads_power, mcnemar_power, most_price

__all__ = ["GateWorld"]

_PRICES = 12


@dataclass(frozen=True, slots=True)
class GateWorld:
    """The numbers of a plan, and the incumbent.

    Attributes:
        cases, looks: how many there are.
        step, changed, better: see above.
        by: the margin that a promotion must exceed.
        failure_probability: δ.
        wanted: the power.
        score, seen: of the incumbent, in the population and on the cases.
    """

    cases: int
    looks: int
    step: float
    changed: float
    better: float
    by: float
    failure_probability: float
    wanted: float
    score: float
    seen: float

    @property
    def room(self) -> int:
        """How many steps there are until every case is right; the last may be a part of one."""
        return ceil((1.0 - self.score) / self.step - 1e-9)

    def with_step(self, step: float) -> GateWorld:
        """The same with candidates that are better by so much."""
        return replace(self, step=step, changed=max(self.changed, step))

    def changes(self, step: float) -> Changes:
        """What a candidate with this step changes in the population. Near the top there is less to gain."""
        gained = min(0.5 * (self.changed + step), 1.0 - self.score)
        return Changes(gained, min(max(gained - step, 0.0), self.score))

    def looks_like(self, step: float) -> Changes:
        """What it changes on the gate's cases, on average, of which the incumbent gets more right than in the population."""
        true = self.changes(step)
        up = true.gained / (1.0 - self.score) if self.score < 1.0 else 0.0
        down = true.lost / self.score if self.score > 0.0 else 0.0
        return Changes(max(up * (1.0 - self.seen), 1e-12), down * self.seen)

    def power_at(self, nats: float) -> float:
        """The probability that a better candidate is promotable at this price."""
        if self.by:
            return bets_power(self.cases, self.looks_like(self.step), nats, self.margin)
        return mcnemar_power(self.cases, self.looks_like(self.step), nats)

    @property
    def method(self) -> GateTest:
        """How promotions are judged."""
        return "bets" if self.by else "mcnemar"

    @property
    def margin(self) -> int:
        """`by` in steps of 1/SCORE_ONE."""
        return ceil(self.by * SCORE_ONE)

    def affordable(self, generation_size: int) -> float:
        """The highest price at which a better candidate, or one of a whole generation, is promoted as often as wanted."""
        alone = self.wanted
        if generation_size > 1:  # 1 - (1 - better·p)^g = wanted
            alone = (1.0 - (1.0 - alone) ** (1.0 / generation_size)) / self.better
        if alone > 1.0:
            return -1.0
        return most_price(self.cases, self.looks_like(self.step), self.method, self.margin, alone)

    def picked(self, generation_size: int, least: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """Better candidates and others: how often one has the largest sum and reaches `least`, and its mean sum then.

        By the normal law of sums of differences.
        """
        n = self.cases
        laws = []
        for share, step in ((self.better, self.step), (1.0 - self.better, 0.0)):
            changes = self.looks_like(step)
            mean = changes.gained - changes.lost
            laws.append((share, n * mean, sqrt(n * max(changes.changed - mean * mean, 1e-12))))
        x = np.linspace(least, max(least, *(mean + 9.0 * spread for _, mean, spread in laws)) + 1.0, 2_001)
        below = sum(share * ndtr((x - mean) / spread) for share, mean, spread in laws)
        largest = generation_size * below ** (generation_size - 1) * (x[1] - x[0]) / sqrt(2.0 * np.pi)
        largest[0] *= 0.5
        picks = []
        for share, mean, spread in laws:
            weight = largest * share * np.exp(-0.5 * ((x - mean) / spread) ** 2) / spread
            mass = float(weight.sum())
            picks.append((mass, float((weight * x).sum()) / mass if mass > 0.0 else 0.0))
        return picks[0], picks[1]

    def after(self, step: float, total: float) -> GateWorld:
        """After a promotion of a candidate with this step, whose sum of differences on the cases was `total`."""
        true = self.changes(step)
        score = self.score + true.gained - true.lost
        return replace(self, score=min(score, 1.0), seen=min(self.seen + total / self.cases, 1.0))

    def expected(self, generation_size: int) -> float:
        """How many better candidates are promoted one by one, on average over all paths.

        Powers are exact for an incumbent that is as far ahead on the cases as it is on average, interpolated between prices.
        """
        checks = self.looks // generation_size
        most = min(checks, self.room)
        mass = np.zeros(most + 1)
        mass[0] = 1.0
        spent, world = [Budget(self.failure_probability)], self
        every = 1 if generation_size > 1 else max(round(1.0 / self.better), 1)
        tables = []
        for done in range(most):
            prices, powers = world._powers()
            tables.append((prices, [world._check(generation_size, power)[0] for power in powers]))
            typical = replace(
                spent[-1], code=replace(spent[-1].code, check_counts=(min(every * (done + 1), checks), done, 0))
            )
            single = float(np.interp(typical.promotion_price(generation_size), prices, powers))
            world = world.after(world.step, world._check(generation_size, single)[1])
            spent.append(spent[-1].checked("promoted", generation_size))
        for check in range(checks):
            moved = np.zeros(most + 1)
            for done in range(min(check, most - 1) + 1):
                if mass[done] >= 1e-9:
                    before = replace(spent[done], code=replace(spent[done].code, check_counts=(check, done, 0)))
                    moved[done] = mass[done] * np.interp(before.promotion_price(generation_size), *tables[done])
            mass[1:] += moved[:-1]
            mass -= moved
        return float(np.sum(mass * np.arange(most + 1)))

    def _powers(self) -> tuple[list[float], list[float]]:
        """Prices, and the power at each, from nearly 1 to nearly 0: C is about z²/2, and more for large z."""
        changes = self.looks_like(self.step)
        width = sqrt(self.cases * changes.changed)
        z = (changes.gained - changes.lost - self.by) * self.cases / width
        prices = np.linspace(0.5 * max(z - 3.2, 0.0) ** 2, 0.5 * max(z + 3.2, 0.0) ** 2 + 4.0, _PRICES).tolist()
        return prices, [self.power_at(price) for price in prices]

    def _check(self, generation_size: int, power: float) -> tuple[float, float]:
        """How often a check promotes a better candidate, if one alone is promotable with this power, and its mean sum."""
        changes = self.looks_like(self.step)
        mean = changes.gained - changes.lost
        spread = sqrt(self.cases * max(changes.changed - mean * mean, 1e-12))
        least = self.cases * mean + spread * float(ndtri(min(max(1.0 - power, 1e-9), 1.0 - 1e-9)))
        often, total = self.picked(generation_size, least)[0]
        return (self.better * power if generation_size == 1 else often), total

    def choices(self, generation_size: int) -> tuple[int, GateWorld, Changes]:
        """Without certificates: how many promotions, what they lead to, the last beside the first on the cases."""
        checks, world = self.looks // generation_size, self
        right, wrong = 1.0, 0.0  # of cases that the first gets right, and wrong: the share that is right by now
        number, owed = 0, [0.5, 0.5]  # so that the number of promotions is rounded to the nearest
        for _ in range(checks):
            least = sqrt(self.cases * self.changed)  # one standard error of a sum
            picks = world.picked(generation_size, least)
            if generation_size == 1:
                often = (
                    self.better * leads_power(self.cases, world.looks_like(self.step)),
                    (1.0 - self.better) * leads_power(self.cases, world.looks_like(0.0)),
                )
                picks = (often[0], picks[0][1]), (often[1], picks[1][1])
            for kind, (step, (mass, total)) in enumerate(zip((self.step, 0.0), picks, strict=True)):
                owed[kind] += mass
                if owed[kind] < 1.0:
                    continue
                owed[kind] -= 1.0
                number += 1
                gain, change = total / self.cases, world.looks_like(step).changed
                gained = min(max(0.5 * (change + gain), gain), 1.0 - world.seen)
                lost = min(max(gained - gain, 0.0), world.seen)
                up, down = gained / max(1.0 - world.seen, 1e-12), lost / world.seen
                right, wrong = (share * (1.0 - down) + (1.0 - share) * up for share in (right, wrong))
                world = world.after(step, (gained - lost) * self.cases)
        return number, world, Changes((1.0 - self.seen) * wrong, self.seen * (1.0 - right))

    def last_price(self, generation_size: int, promotions: int) -> float:
        """What the total gain is certified at after so many promotions."""
        which = promotions * Code().checked("promoted", generation_size).other_nats
        code = Code(check_counts=(self.looks // generation_size, promotions, 0), other_nats=which)
        return Budget(self.failure_probability, code).claim_price(LAST_SPEND, sides=1)

    def certified(self, changes: Changes, nats: float) -> float:
        """The largest total gain, to a thousandth, that the last act certifies with the wanted power; 0 if none."""
        low, high = 0, SCORE_ONE  # low is refuted, once it is checked; high is not
        if changes.changed <= 0.0 or bets_power(self.cases, changes, nats, 0) < self.wanted:
            return 0.0
        while high - low > SCORE_ONE // 2**10:
            middle = (low + high) // 2
            enough = bets_power(self.cases, changes, nats, middle) >= self.wanted
            low, high = (middle, high) if enough else (low, middle)
        return floor(1_000 * low / SCORE_ONE) / 1_000
