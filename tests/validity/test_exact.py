"""Small samples, all of them: what a measure discloses, prints and charges, summed exactly instead of simulated.

`decide` is the only function of the private rows, and it is the production one throughout. Where an inequality could hold
by width alone, a control with one mistake shows that the same sum exceeds its bound.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, exp, inf, log
from typing import cast

import numpy as np
import pytest

import everhold as eh
from everhold.bounds.binomial import binomial_interval, tail_refutes
from everhold.bounds.code import ANSWERED_NATS, NOTHING_NATS, Code
from everhold.bounds.concentration import kl_interval
from everhold.bounds.fan import fan_interval
from everhold.ledger.act_prices import narrowed_answer
from everhold.ledger.rounds import Digest, Round
from everhold.mechanism.everhold import Everhold, EverholdProposal
from everhold.mechanism.measures import cells, numbers
from everhold.mechanism.measures.counts import CountCells
from everhold.mechanism.measures.groups import GroupMeanCells, GroupShareCells
from everhold.mechanism.measures.measure import POSITION_ONE, MeasureInputs, Precision
from everhold.mechanism.measures.numbers import MeanCells
from everhold.mechanism.measures.pairs import DifferenceCells, PairedCells
from everhold.mechanism.measures.quantiles import QuantileCells
from everhold.mechanism.measures.spreads import SpreadCells
from everhold.mechanism.measures.tolerances import CountTolerance
from everhold.mechanism.measures.unforeseen import UnforeseenCells
from everhold.mechanism.tolerance import TOLERANCE_ONE, Tolerance
from everhold.queries.expression import number, question_of
from everhold.queries.expression.composites import quantile_of
from everhold.queries.grid import STEPS, VALUE_ONE, GridValues, Sums
from everhold.queries.protocol import NOTHING, QUIET, SketchValue

FORECASTS = sorted({Fraction(a, d) for d in (3, 7, 10) for a in range(-d, d + 1)})
"""u, on the [-1, 1] scale."""


def share(u: Fraction, draws: float = 40.0) -> SketchValue:
    return SketchValue("share", u.numerator, u.denominator, draws)


def seen_from(n: int, *, nats: float = 2.0, deviations: float | None = None, known: int = 0, fine=Fraction(1), **more):
    return MeasureInputs(nats, n, known, deviations, Precision(fine, **more))


def limits_of(outcomes: list) -> dict:
    """The least and the largest count with each outcome."""
    found: dict = {}
    for k, outcome in enumerate(outcomes):
        least, _ = found.get(outcome, (k, k))
        found[outcome] = least, k
    return found


# counts -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [Fraction(1, 4), Fraction(1, 3), Fraction(1, 10)], ids=str)
def test_the_counts_of_an_asks_outcome_are_exactly_those_with_it(tau):
    """Every n ≤ 60, every forecast with denominator 3, 7 or 10; τ on the grid and beside it."""
    limits = Tolerance(round(tau * TOLERANCE_ONE), round(tau * TOLERANCE_ONE / 4))
    borders = 0
    for n, u in product(range(1, 61), FORECASTS):
        asked = CountTolerance(None, share(u), limits, seen_from(n))
        for outcome, (least, most) in limits_of([asked.decide([Sums.yes_no(k, n)]) for k in range(n + 1)]).items():
            assert asked.counts(outcome) == (least, most), (n, u, outcome)
        x = n * (1 + u - Fraction(limits.tau, TOLERANCE_ONE)) / 2
        borders += x.denominator == 1
    assert borders > 20 or tau != Fraction(1, 4), "no count ever lies on a border: this tests nothing"


def test_floating_limits_would_be_one_off():
    """The control: limits from floating point, as before, exclude a count with the outcome (u = -2/3, τ = 1/4, n = 24)."""
    tau = TOLERANCE_ONE // 4
    asked = CountTolerance(None, share(Fraction(-2, 3)), Tolerance(tau, tau // 4), seen_from(24))
    assert asked.decide([Sums.yes_no(1, 24)]) is QUIET
    assert asked.counts(QUIET)[0] == 1
    assert int(np.ceil(24 * (0.5 * (1.0 + (-2 / 3 - 0.25))))) == 2


@pytest.mark.parametrize("fine", [Fraction(1, 32), Fraction(1, 2), Fraction(3)], ids=str)
def test_the_counts_of_a_readings_cell_are_exactly_those_in_it(fine):
    for n, u in product(range(1, 61), FORECASTS):
        read = CountCells(None, share(u), seen_from(n, fine=fine))
        for outcome, (least, most) in limits_of([read.decide([Sums.yes_no(k, n)]) for k in range(n + 1)]).items():
            assert read.counts(outcome) == (least, most), (n, u, outcome)


# what is charged --------------------------------------------------------------------------------------------------------


def masses(measure, outcomes, *, read: bool = True) -> float:
    """The weights of these outcomes; of a reading also of the outcome that its act is interrupted."""
    answered = sum(exp(-measure.charge(outcome)) for outcome in set(outcomes) if outcome is not QUIET)
    return answered + (exp(-NOTHING_NATS) if read else 0.0)


def shares_of_group(n: int, u: Fraction, *, group: float = 0.4, draws: float = 12.0, **more) -> GroupShareCells:
    forecast = SketchValue("share", u.numerator, u.denominator, draws, 0, group)
    return GroupShareCells(_Group(), forecast, None, seen_from(n, **more))


class _Group:
    parts = (None, None)


def all_pairs(n: int) -> list[tuple[int, int]]:
    """(k, m): m rows in the group, k of them yes."""
    return [(k, m) for m in range(n + 1) for k in range(m + 1)]


def decided(measure, k: int, m: int, n: int):
    return measure.decide([Sums.yes_no(k, n), Sums.yes_no(m - k, n)])


@pytest.mark.parametrize("deviations", [None, 2.5])
def test_what_a_round_may_disclose_weighs_at_most_one(deviations):
    """The weights of all outcomes that occur, by enumeration of all samples: shares, shares of groups, means."""
    for n, u in product((1, 2, 7, 24), FORECASTS[::5]):
        for fine in (Fraction(1, 32), Fraction(1), Fraction(3)):
            at = seen_from(n, deviations=deviations, fine=fine)
            if deviations is None:
                read = CountCells(None, share(u), at)
                weight = masses(read, [read.decide([Sums.yes_no(k, n)]) for k in range(n + 1)])
                assert weight <= 1.0 + 1e-12
            given = shares_of_group(n, u, deviations=deviations, fine=fine)
            assert masses(given, [decided(given, k, m, n) for k, m in all_pairs(n)]) <= 1.0 + 1e-12
        tau = TOLERANCE_ONE // 7
        asked = CountTolerance(None, share(u), Tolerance(tau, tau // 4), at)
        assert masses(asked, [asked.decide([Sums.yes_no(k, n)]) for k in range(n + 1)], read=False) <= 1.0 + 1e-12


def test_every_outcome_of_a_mean_weighs_at_most_one():
    """All samples of 3 rows with 9 values each, with a forecast of the spread that is right, or far too small."""
    values = np.rint(np.linspace(-VALUE_ONE, VALUE_ONE, 9))
    for second, u, deviations in product((2**28, 1), (Fraction(0), Fraction(9, 10)), (None, 2.5)):
        forecast = SketchValue("mean", u.numerator, u.denominator, 20.0, second)
        measure = MeanCells(None, forecast, seen_from(3, deviations=deviations))
        outcomes = {measure.decide([Sums.of(np.array(rows))]) for rows in product(values, repeat=3)}
        assert len(outcomes) > 5 or deviations, "nothing is disclosed: this tests nothing"
        assert masses(measure, outcomes) <= 1.0 + 1e-12


# what is printed contains what is private --------------------------------------------------------------------------------


def contains(measure, outcome, private) -> bool:
    _, low, high = measure.ends(outcome)
    return low <= private[0] and private[1] <= high


def assert_least_step(measure, outcome, private) -> None:
    """The printed interval contains the private one; with one step less it would not, but for the room of the grid."""
    assert contains(measure, outcome, private)
    j, step = outcome
    if not step:
        return
    if isinstance(measure, QuantileCells):
        _, low, high = measure.ends((j, step - 1))
    else:
        edges, laddered = measure.laddered.cells.edges(j), measure.laddered
        below, above = (
            Fraction(cells._ladder(radius, step - 1, laddered.precision.ladder), POSITION_ONE)
            for radius in laddered._radii(j)
        )
        low, high = edges[0] - below, edges[1] + above
    assert private[0] < low or high < private[1], "a smaller step is enough"


@pytest.mark.parametrize("known", [0, 5])
def test_a_means_printed_interval_contains_the_private_one(known):
    """Random rows, forecasts right and wrong: Fan's bound, or Chernoff's, computed apart from the measure."""
    rng = np.random.default_rng(known)
    steps_seen, fans, hedged = set(), 0, 0
    for trial in range(300):
        n = int(rng.integers(known + 1, 4_000 if trial % 5 == 0 else 200))
        spread = VALUE_ONE * 10.0 ** rng.uniform(-3, 0)
        values = np.clip(np.rint(rng.normal(rng.uniform(-1, 1) * VALUE_ONE, spread, n)), -VALUE_ONE, VALUE_ONE)
        u = Fraction(int(rng.integers(-100, 101)), 100) if trial % 2 else Fraction(round(values.mean()), VALUE_ONE)
        second = round((2.0 * spread) ** 2 * 10.0 ** rng.uniform(-2, 2) / 4) + 1
        deviations = None if trial % 3 else 2.5
        measure = MeanCells(
            None,
            SketchValue("mean", u.numerator, u.denominator, float(rng.integers(5, 500)), second),
            seen_from(n, nats=float(rng.uniform(1, 12)), deviations=deviations, known=known, fine=Fraction(1, 2)),
        )
        sums = Sums.of(values)
        outcome = measure.decide([sums])
        x = (values + VALUE_ONE).astype(int)
        first, squares = int(x.sum()), int((x.astype(object) ** 2).sum())
        rates = measure.rates
        private = rates.interval(first, squares, n, known)
        if rates.rates is not None and not known:
            hedged += rates.hedged
            fans += not rates.hedged
            fan_price = rates.price + (log(20 / 19) if rates.hedged else 0.0)
            ends = fan_interval(
                first,
                squares,
                n,
                centre=rates.centre,
                rates=rates.rates,
                nats=fan_price + 2.0**-40 * rates.hedged,
                top=STEPS,
                reaches=rates.reaches,
            )
            ends = ends[0] / STEPS, ends[1] / STEPS
            if rates.hedged:
                x_bar = first / n / STEPS
                other = kl_interval(x_bar, x_bar, (rates.price + log(20)) / n)
                ends = max(ends[0], other[0]), min(ends[1], other[1])
            assert private == pytest.approx(ends, abs=1e-8 if rates.hedged else 0.0)
        if outcome is QUIET:
            assert contains(measure, outcome, private)
        else:
            steps_seen.add(outcome[1])
            assert_least_step(measure, outcome, private)
    assert (fans > 50 and hedged > 5) or known
    assert len(steps_seen) > 10, "the ladder was hardly used: this tests nothing"


def test_everything_chosen_is_chosen_before_the_rows_are_read():
    """λ, reach, centre, cells and ladder of a mean are functions of the forecast: equal for all samples, and frozen."""
    at, forecast = seen_from(50, deviations=2.5), SketchValue("mean", 1, 10, 40.0, 2**26)
    before = MeanCells(None, forecast, at)
    facts = repr((before.rates, before.laddered))
    for seed in range(20):
        before.decide([Sums.of(np.rint(np.random.default_rng(seed).uniform(-VALUE_ONE, VALUE_ONE, 50)))])
        assert repr((before.rates, before.laddered)) == facts


@pytest.mark.parametrize("known", [0, 3])
def test_a_group_shares_printed_interval_contains_the_private_one(known):
    """Every (k, m) of 40 rows: the exact tail given m, computed apart from the measure."""
    n, widest = 40, 0
    for u, deviations in ((Fraction(-1, 3), None), (Fraction(1, 2), 2.5), (Fraction(1), None)):
        measure = shares_of_group(n, u, nats=3.0, deviations=deviations, known=known)
        for k, m in all_pairs(n):
            outcome = decided(measure, k, m, n)
            if m == 0:
                assert outcome == NOTHING
                assert measure.ends(outcome) == (inf, 0.0, 1.0)
                continue
            private = (0.0, 1.0)
            if m > known:
                private = binomial_interval(max(k - known, 0), min(k, m - known), m - known, 3.0)
            if outcome is QUIET:
                assert contains(measure, outcome, private)
            else:
                widest = max(widest, outcome[1])
                assert_least_step(measure, outcome, private)
    assert widest > 3


def unforeseen(n: int, u: Fraction = Fraction(1, 5), **more) -> UnforeseenCells:
    return UnforeseenCells(n, lambda rows: shares_of_group(n, u, group=min(rows / n, 1.0), draws=4.0, **more))


@pytest.mark.parametrize("known", [0, 3])
def test_a_group_of_unknown_size_is_printed_with_its_private_interval(known):
    """Every (k, m) of 40 rows; and the size is right: as fine as if it had been foreseen, but for the grid of sizes."""
    n = 40
    measure = unforeseen(n, nats=3.0, known=known, fine=Fraction(1, 2))
    sizes = set()
    for k, m in all_pairs(n):
        outcome = decided(measure, k, m, n)
        if m == 0:
            assert outcome == NOTHING
            assert measure.charge(outcome) == pytest.approx(log(2) + log(64 / 63))
            continue
        inner, one = measure._inner(outcome)
        sizes.add(inner.forecast.group)
        assert inner.forecast.group * n / 1.5 <= m < inner.forecast.group * n / 0.75 or inner.forecast.group == 1.0
        private = (0.0, 1.0)
        if m > known:
            private = binomial_interval(max(k - known, 0), min(k, m - known), m - known, 3.0)
        assert contains(measure, outcome, private)
        assert_least_step(inner, one, private)
    assert len(sizes) == 6


def test_what_a_group_of_unknown_size_may_disclose_weighs_at_most_one():
    """By enumeration of all samples. Control: without the code of the size it would be more."""
    dearest = 0.0
    for n, u, fine in product((1, 2, 7, 24, 60), FORECASTS[::5], (Fraction(1, 32), Fraction(1), Fraction(3))):
        measure = unforeseen(n, u, fine=fine)
        outcomes = {decided(measure, k, m, n) for k, m in all_pairs(n)}
        assert masses(measure, outcomes) <= 1.0 + 1e-12
        uncharged = (len(measure.sizes) if one != NOTHING else 1 for one in outcomes)
        dearest = max(dearest, sum(many * exp(-measure.charge(one)) for many, one in zip(uncharged, outcomes, strict=True)))
    assert dearest > 1.0


def test_what_is_kept_at_hand_divides_one_failure_probability():
    assert exp(-numbers._FAN_NATS) + exp(-numbers._OTHER_NATS) <= 1.0


def group_mean(n: int, u: Fraction, second: int, group: float, **more) -> GroupMeanCells:
    return GroupMeanCells(
        _Group(), SketchValue("mean", u.numerator, u.denominator, 30.0, second, group), None, seen_from(n, **more)
    )


def group_sums(values: np.ndarray, n: int) -> list[Sums]:
    """Places of the group's rows from below and from above; all other rows have the value -1 in both."""
    rest = np.full(n - len(values), -float(VALUE_ONE))
    return [Sums.of(np.concatenate([side, rest])) for side in (values, -values)]


def test_a_group_means_printed_interval_contains_the_private_one():
    rng = np.random.default_rng(3)
    seen = set()
    for trial in range(200):
        n = int(rng.integers(1, 120))
        m = int(rng.integers(0, min(n, 6 if trial % 3 == 0 else n) + 1))
        values = np.rint(np.clip(rng.normal(0.3, 0.2, m), -1, 1) * VALUE_ONE)
        measure = group_mean(
            n,
            Fraction(1, 5),
            round(0.01 * STEPS**2 * 4.0 ** rng.uniform(-2, 1)),
            0.3,
            deviations=None if trial % 2 else 2.5,
            nats=float(rng.uniform(1, 9)),
        )
        outcome = measure.decide(group_sums(values, n))
        if m == 0:
            assert outcome == NOTHING
            continue
        x = (values + VALUE_ONE).astype(int)
        private = measure.rates.interval(int(x.sum()), int((x.astype(object) ** 2).sum()), m, 0)
        if outcome is QUIET:
            assert contains(measure, outcome, private)
        else:
            seen.add(outcome[1])
            assert_least_step(measure, outcome, private)
    assert len(seen) > 5


class _Variance:
    parts, sign, ranges = (None, None, None), None, ((-1.0, 1.0), (0.0, 1.0))


def test_a_variances_printed_interval_contains_every_variance_of_its_means():
    """Random rows and forecasts: each mean's private interval has its part of the price, and the result's contains all
    variances that they allow. Control: without the step it often would not."""
    rng = np.random.default_rng(6)
    narrower = stepped = 0
    for trial in range(60):
        n, nats = int(rng.integers(10, 300)), float(rng.uniform(1, 8))
        x = np.rint(np.clip(rng.normal(0.1, rng.uniform(0.05, 0.6), n), -1, 1) * VALUE_ONE)
        square = np.rint(2.0 * x * x / VALUE_ONE - VALUE_ONE)
        forecasts = (
            SketchValue("mean", 1, 10, 50.0, round(rng.uniform(0.01, 0.1) * STEPS**2)),
            SketchValue("mean", -3, 5, 50.0, round(rng.uniform(0.005, 0.05) * STEPS**2)),
        )
        at = seen_from(n, nats=nats, deviations=None if trial % 2 else 2.5)
        measure = SpreadCells(_Variance(), SketchValue("mean", -3, 5, 50.0), forecasts, at)
        outcome = measure.decide([Sums.of(-x), Sums.of(x), Sums.of(square)])
        found = []
        for part, rates in zip((x, square), measure.rates, strict=True):
            assert rates.price >= nats + log(2) - 1e-12
            steps = (part + VALUE_ONE).astype(int)
            found.append(rates.interval(int(steps.sum()), int((steps.astype(object) ** 2).sum()), n, 0))
        mean, second = [(2 * float(end) - 1) for end in found[0]], [float(end) for end in found[1]]
        least = max(second[0] - max(mean[0] ** 2, mean[1] ** 2), 0.0)
        most = second[1] - (0.0 if mean[0] <= 0.0 <= mean[1] else min(mean[0] ** 2, mean[1] ** 2))
        assert contains(measure, outcome, (least, min(most, 1.0)))
        if outcome is not QUIET:
            stepped += outcome[1] > 0
            narrower += measure.ends((outcome[0], 0))[1] > least
    assert stepped > 5
    assert narrower > 5, "the first step is always enough: this tests nothing"


# exact failure probabilities --------------------------------------------------------------------------------------------


def pmf(k: int, m: int, p: float) -> float:
    return comb(m, k) * p**k * (1 - p) ** (m - k)


GRID = [i / 50 for i in range(51)]


def worst_given_size(measure, n: int, ends, *, only_quiet: bool = False) -> float:
    """The largest exact probability, over the sizes of the group and the true share, that what is printed misses it."""
    worst = 0.0
    outcomes = {(k, m): decided(measure, k, m, n) for k, m in all_pairs(n)}
    printed = {one: ends(one) for one in set(outcomes.values())}
    candidates = sorted({*GRID, *(e + s for lo, hi in printed.values() for e, s in ((lo, -1e-9), (hi, 1e-9)))})
    candidates = [p for p in candidates if 0.0 <= p <= 1.0]
    for m in range(n + 1):
        for p in candidates:
            missed = sum(
                pmf(k, m, p)
                for k in range(m + 1)
                if not printed[outcomes[k, m]][0] <= p <= printed[outcomes[k, m]][1]
                and (not only_quiet or outcomes[k, m] is QUIET)
            )
            worst = max(worst, missed)
    return worst


@pytest.mark.parametrize("nats", [1.0, 3.0])
@pytest.mark.parametrize("deviations", [None, 0.2], ids=["read", "asked"])
def test_a_group_share_misses_with_at_most_its_probability_whatever_the_size(nats, deviations):
    """n = 14, every size of the group from 0, every true share: two ends, so at most 2 e^-c. Control: ends moved in."""
    precision = {"fine": Fraction(1, 32), "ladder": 64}
    measure = shares_of_group(14, Fraction(1, 5), group=0.9, draws=1000.0, nats=nats, deviations=deviations, **precision)
    assert worst_given_size(measure, 14, lambda one: measure.ends(one)[1:]) <= 2 * exp(-nats)

    def moved(one):
        _, low, high = measure.ends(one)
        return (low + 0.12 if low else 0.0), (high - 0.12 if high < 1 else 1.0)

    assert worst_given_size(measure, 14, moved) > 2 * exp(-nats)
    if deviations is None:
        measure = unforeseen(14, nats=nats, **precision)
        assert worst_given_size(measure, 14, lambda one: measure.ends(one)[1:]) <= 2 * exp(-nats)
        assert worst_given_size(measure, 14, moved) > 2 * exp(-nats)


def test_a_certificate_of_a_quiet_share_is_never_narrower_than_valid():
    """Quiet asks of a share, certified at a price above and below their own: exact probability of each end.

    Control: the same certificate one count further in is refuted too often."""
    held = _mechanism(30)
    forecast = share(Fraction(1, 5))
    asked = CountTolerance(None, forecast, Tolerance(TOLERANCE_ONE // 4, TOLERANCE_ONE // 16), seen_from(30))
    least, most = limits_of([asked.decide([Sums.yes_no(k, 30)]) for k in range(31)])[QUIET]
    counts = held.counts(EverholdProposal(round=1, query=None, forecast=forecast, measure=asked, price=2.0), QUIET)
    too_often = 0
    for nats in (1.0, 2.0, 5.0, 9.0):
        low, high = held.count_interval(counts[0], counts[1], nats)
        assert sum(pmf(k, 30, low) for k in range(least, 31)) <= exp(-nats)
        assert sum(pmf(k, 30, high) for k in range(most + 1)) <= exp(-nats)
        further = held.count_interval(least + 1, most, nats)[0]
        too_often += sum(pmf(k, 30, further) for k in range(least, 31)) > exp(-nats)
    assert too_often >= 3


def test_a_certificate_of_a_quiet_group_share_is_never_narrower_than_valid():
    """Every size of the group: Pr[quiet] at the printed ends is at most e^-c, and no certificate claims more.

    Control (the referee's mistake): shifting the ends with the *foreseen* size claims more than it may for small groups."""
    n, nats = 30, 2.5
    held = _mechanism(n)
    measure = shares_of_group(n, Fraction(1, 3), nats=nats, deviations=1.0)
    proposal = EverholdProposal(round=1, query=None, forecast=measure.forecast, measure=measure, price=nats)
    assert held.counts(proposal, QUIET) is None, "only a bit is known of k and m"
    answer = held.answer(proposal, QUIET)
    past = Round(answer, QUIET, None, measure.forecast, Digest(""), None)
    quiet = {(k, m) for k, m in all_pairs(n) if decided(measure, k, m, n) is QUIET}
    assert len(quiet) > 10
    assert all(narrowed_answer(held, past, price) is None for price in (0.5, nats, nats + 0.5)), "nothing narrower is known"
    for m, p in product(range(1, n + 1), (answer.low, answer.high)):
        if 0.0 < p < 1.0:
            assert sum(pmf(k, m, p) for k in range(m + 1) if (k, m) in quiet) <= exp(-nats) + 1e-12
    later, m = 6.0, round(n * 0.4)
    foreseen = answer.low - (later - nats) / (20 * m)  # a shift that assumes the foreseen size
    assert max(sum(pmf(k, m, foreseen) for k in range(m + 1) if (k, m) in quiet) for m in range(1, n)) > exp(-later)


def _mechanism(n: int) -> Everhold:
    return cast(Everhold, eh.Holdout(n, prior=eh.Reference(40), seed=0).session.mechanism)


# differences ------------------------------------------------------------------------------------------------------------


class _Shares:
    parts, low = (None, None, None, None), None


def difference_of_shares(n: int, *, nats: float, known: int = 0, deviations=None) -> DifferenceCells:
    """Forecasts .3 and .6 of groups with two thirds and a sixth of the rows: neither is what the rows will show."""
    groups = (SketchValue("mean", -2, 5, 400.0, 0, 0.66), SketchValue("mean", 1, 5, 100.0, 0, 0.17))
    at = seen_from(n, nats=nats, deviations=deviations, known=known, fine=Fraction(1, 32), ladder=64, start=Fraction(1, 2))
    return DifferenceCells(_Shares(), SketchValue("mean", -3, 10, 100.0), groups, (), at)


@pytest.mark.parametrize("known", [0, 1])
def test_a_difference_of_groups_of_unequal_size_misses_with_at_most_its_probability(known):
    """Given any two sizes, exact over all counts: two ends, so at most 2 e^-c. Control: ends moved in."""
    n, nats, sizes = 20, 1.5, [(1, 1), (2, 9), (9, 2), (12, 3), (5, 5)]
    measure = difference_of_shares(n, nats=nats, known=known)
    shares = [i / 8 for i in range(9)]
    worst = moved = 0.0
    for m1, m2 in sizes:
        printed = {}
        for k1, k2 in product(range(m1 + 1), range(m2 + 1)):
            outcome = measure.decide([Sums.yes_no(k, n) for k in (k1, m1 - k1, k2, m2 - k2)])
            printed[k1, k2] = tuple(2.0 * end - 1.0 for end in measure.ends(outcome)[1:])
        for p1, p2 in product(shares, shares):
            weights = {(k1, k2): pmf(k1, m1, p1) * pmf(k2, m2, p2) for k1, k2 in printed}
            d = p1 - p2
            worst = max(worst, sum(w for at, w in weights.items() if not printed[at][0] <= d <= printed[at][1]))
            narrow = {at: (low * 0.4 - 0.6 * 0.3, high * 0.4 - 0.6 * 0.3) for at, (low, high) in printed.items()}
            moved = max(moved, sum(w for at, w in weights.items() if not narrow[at][0] <= d <= narrow[at][1]))
    assert worst <= 2 * exp(-nats)
    assert moved > 2 * exp(-nats)


def test_a_group_without_rows_has_no_difference():
    measure = difference_of_shares(20, nats=2.0, deviations=2.0)
    assert measure.decide([Sums.yes_no(k, 20) for k in (3, 4, 0, 0)]) == NOTHING
    assert measure.ends(NOTHING) == (inf, 0.0, 1.0)


@pytest.mark.parametrize("known", [0, 2])
@pytest.mark.parametrize("forecast", [(0.3, 0.2), (0.02, 0.9)], ids=["right", "wrong"])
def test_a_difference_of_shares_on_the_same_rows_misses_with_at_most_its_probability(forecast, known):
    """Exact over all pairs of counts of 12 rows, whatever was foreseen. Control: the interval, halved."""
    n, nats = 12, 1.5
    at = seen_from(n, nats=nats, known=known, fine=Fraction(1, 32), ladder=64, start=Fraction(1, 2))
    d = Fraction(round(100 * (forecast[0] - forecast[1])), 100)
    measure = PairedCells(_Group(), SketchValue("mean", d.numerator, d.denominator, 200.0), forecast, (), at)
    printed = {}
    for a, m in all_pairs(n):
        b = m - a
        outcome = measure.decide([Sums.yes_no(a, n), Sums.yes_no(b, n)])
        printed[a, b] = tuple(2.0 * end - 1.0 for end in measure.ends(outcome)[1:])

    def missed(p: float, q: float, factor: float) -> float:
        total = 0.0
        for (a, b), (low, high) in printed.items():
            middle, half = 0.5 * (low + high), 0.5 * (high - low) * factor
            if abs(p - q - middle) > half:
                total += comb(n, a) * comb(n - a, b) * p**a * q**b * max(1 - p - q, 0.0) ** (n - a - b)
        return total

    laws = [(i / 10, j / 10) for i in range(11) for j in range(11 - i)]
    assert max(missed(p, q, 1.0) for p, q in laws) <= 2 * exp(-nats)
    assert max(missed(p, q, 0.3) for p, q in laws) > 2 * exp(-nats)


# quantiles with ties ----------------------------------------------------------------------------------------------------


def quantile_measure(n: int, level: float, nats: float, atoms, *, deviations=None, given=None, public=None) -> QuantileCells:
    """A quantile of x in [0, 10] with public rows at the atoms (or elsewhere)."""
    tree = number("x", {"x": "number"})
    where = None if given is None else question_of(number_test(given)).tree
    query = quantile_of(tree, 0.0, 10.0, level, where, None, None)
    places = np.rint(np.array(public or atoms, float) / 10.0 * STEPS) - VALUE_ONE
    values = (GridValues("mean", places), GridValues("mean", -places))
    forecast = SketchValue("mean", 0, 1, 30.0, VALUE_ONE**2, 1.0)
    at = seen_from(n, nats=nats, deviations=deviations, fine=Fraction(1, 2))
    return QuantileCells.foreseen(query, forecast, values, np.ones(len(places)), at)


def number_test(text):
    from everhold.queries.expression import expression

    return expression(text, {"g": "yes/no"}).tree


def quantile_sums(measure: QuantileCells, rows: np.ndarray, n: int) -> list[Sums]:
    asked = measure.thresholds[:-1]
    counts = [int((rows < t).sum()) for t in asked] + [int((rows <= t).sum()) for t in asked]
    return [Sums.yes_no(count, n) for count in counts]


ATOMS = (0.0, 4.0, 10.0)


@pytest.mark.parametrize("deviations", [None, 1.0], ids=["read", "asked"])
@pytest.mark.parametrize("level", [0.25, 0.5, 0.8])
def test_a_quantile_with_ties_and_mass_at_the_ends_is_covered_at_every_root(level, deviations):
    """Three atoms, two of them the ends of the range; also laws whose distribution function meets the level exactly, where
    every point between two atoms is a quantile. All samples of 9 rows. Control: ends moved in by one threshold."""
    n, nats = 9, 1.2
    for public in ((0.0, 4.0, 10.0), (0.0, 0.0, 0.0, 1.0), (2.0, 3.0, 5.0, 9.0, 4.0)):
        measure = quantile_measure(n, level, nats, ATOMS, deviations=deviations, public=public)
        printed = {}
        for a in range(n + 1):
            for b in range(n + 1 - a):
                rows = np.repeat(ATOMS, (a, b, n - a - b))
                outcome = measure.decide(quantile_sums(measure, rows, n))
                printed[a, b] = tuple(10.0 * end for end in measure.ends(outcome)[1:])
        laws = [(p, q) for p in (0.0, 0.1, level, 0.5, 0.9) for q in (0.0, 0.1, level - p, 0.3, 1 - p) if 0 <= q <= 1 - p]
        worst = max(_missed(printed, n, p, q, level) for p, q in laws)
        assert worst <= 2 * exp(-nats)
    narrow = {at: (low + 4.0, high - 4.0) for at, (low, high) in printed.items()}
    assert max(_missed(narrow, n, p, q, level) for p, q in laws) > 2 * exp(-nats)


def _missed(printed, n: int, p: float, q: float, level: float) -> float:
    """Exact probability that the printed interval leaves out some quantile of the law (p, q, 1-p-q) at this level."""
    totals = (p, p + q, 1.0)
    least = next(atom for atom, total in zip(ATOMS, totals, strict=True) if total >= level - 1e-12)
    largest = next(atom for atom, total in zip(ATOMS, totals, strict=True) if total > level + 1e-12)
    missed = 0.0
    for (a, b), (low, high) in printed.items():
        if not (low <= least and largest <= high):
            weight = comb(n, a) * comb(n - a, b) * p**a * q**b * max(1 - p - q, 0.0) ** (n - a - b)
            missed += weight
    return missed


def test_a_quantiles_step_is_the_least_and_its_ends_contain_the_private_ones():
    rng = np.random.default_rng(8)
    stepped = 0
    for trial in range(60):
        n = int(rng.integers(20, 200))
        deviations = None if trial % 2 else 2.5
        measure = quantile_measure(
            n,
            float(rng.choice([0.1, 0.5, 0.9])),
            float(rng.uniform(1, 6)),
            None,
            deviations=deviations,
            public=tuple(np.round(rng.normal(5, 2, 60).clip(0, 10), int(rng.integers(0, 3)))),
        )
        rows = rng.normal(rng.uniform(3, 7), rng.uniform(0.2, 4), n).clip(0, 10).round(int(rng.integers(0, 3)))
        sums = quantile_sums(measure, rows, n)
        outcome = measure.decide(sums)
        low, high = _private_ends(measure, rows, n)
        if outcome is QUIET:
            assert contains(measure, outcome, (low, high))
        else:
            stepped += outcome[1] > 0
            assert_least_step(measure, outcome, (low, high))
    assert stepped > 5


def _private_ends(measure: QuantileCells, rows: np.ndarray, n: int) -> tuple[float, float]:
    """The largest threshold surely at or below the quantile, and the least at or above; ranks counted here."""
    q, nats, thresholds = measure.query.level, measure.inputs.price, measure.thresholds
    low = [t for t in thresholds[1:-1] if tail_refutes(int((rows >= t).sum()), n, 1 - q, nats)]
    high = [t for t in thresholds[:-1] if tail_refutes(int((rows <= t).sum()), n, q, nats)]
    return max(low, default=0.0) / 10.0, min(high, default=10.0) / 10.0


# prices -----------------------------------------------------------------------------------------------------------------


def test_the_price_is_the_price_of_its_node():
    """Every act in one session: `price` against ln(2/δ) + ln(1/ω) + ln(1/P), P and ω kept here, in plain logarithms."""
    rng = np.random.default_rng(5)

    def people(size):
        return {
            "x": rng.normal(50, 15, size),
            "k": rng.integers(0, 20, size),
            "b": rng.random(size) < 0.3,
            "g": rng.random(size) < 0.5,
        }

    held = eh.Holdout(people(300), prior=eh.Reference(people(300)), seed=1)
    node = _Node()

    def check(price, expected):
        assert price == pytest.approx(expected, abs=3e-5)
        assert price >= expected - 1e-9, "rounded down"

    for question in (
        "b",
        "k > 10",
        eh.Mean("x", low=0, high=100),
        eh.Share("b", given="g"),
        eh.Median("x", low=0, high=100),
    ):
        price, before = node.ask_price(), len(held.journal)
        held.ask(question)
        past = held.journal[before + 1]
        check(past.answer.price, price)
        node.asked(past)
    price = node.price(node.weight(0.25))
    check(held.certify(2, spend=0.25).price, price)
    node.spend(0.25)
    for claim, acts in enumerate([(["k > 3"], None), (["k > 5", "k > 7", eh.Mean("x", low=0, high=100, given="g")], 0.25)]):
        things, part = acts
        weight = node.weight(part)
        price, before = node.price(weight / len(things)), len(held.journal)
        held.read_many(things, spend=part)
        for past in list(held.journal)[before:]:
            check(past.answer.price, price)
            node.code += past.charge
        node.spend(part)
        assert node.claims == claim + 2
    choice = held.best_of(["k > 3", "b", "g"], weights=[6, 1, 1])
    node.code += ANSWERED_NATS - log(0.875 * (6 / 8 if choice.index == 0 else 1 / 8) + 1 / 24)
    check(choice.disclosed, node.nats)
    decision = held.is_better("b", "g")
    node.code += ANSWERED_NATS
    node.bits = (1, int(decision.yes))
    check(decision.disclosed, node.nats)
    price = node.price(node.weight(None))  # one-sided, in two directions
    verdict = held.compare("k > 3", "b")
    check(verdict.price, price)
    node.code += ANSWERED_NATS + log(2 if verdict.outcome == "neither" else 4)
    node.spend(None)
    price = node.price(node.left / 2)
    for answer in held.close(["k > 12", "k > 13"]):
        check(answer.price, price)


class _Node:
    """P and what is left of δ, by the formulas of the theory, without the code under test."""

    def __init__(self) -> None:
        self.asks: list[bool] = []
        self.code, self.bits, self.left, self.claims = 0.0, (0, 0), 1.0, 0

    def asked(self, past) -> None:
        self.asks.append(past.answer.surprise)
        self.code += past.charge

    @staticmethod
    def length(g: int) -> float:
        m = g.bit_length() - 1
        return log(2**m * (m + 1) * (m + 2))

    @staticmethod
    def unknown_rate(n: int, yes: int) -> float:
        weights = [1 / (i * (i + 1)) for i in range(1, 40)] + [1 / 40]
        return sum(w * (2.0**-i) ** yes * (1 - 2.0**-i) ** (n - yes) for i, w in enumerate(weights, 1))

    @property
    def nats(self) -> float:
        t, k = len(self.asks), sum(self.asks)
        total = self.code - log(self.unknown_rate(*self.bits))
        if t:
            gaps, last = 0.0, 0
            for i, surprise in enumerate(self.asks, 1):
                if surprise:
                    gaps, last = gaps + self.length(i - last), i
            g = t - last + 1
            m, r = g.bit_length() - 1, g - (1 << (g.bit_length() - 1))
            tail = 1 / (m + 2) + (1 - r / 2**m) / ((m + 1) * (m + 2))
            rate = 2.0**-12
            total -= log(0.5 * rate**k * (1 - rate) ** (t - k) + 0.25 * exp(-gaps) * tail + 0.25 * self.unknown_rate(t, k))
        return total

    def ask_price(self) -> float:
        return log(2 / 0.05) + log(10) + self.length(len(self.asks) + 1) + self.nats

    def weight(self, part: float | None) -> float:
        return self.left * (1 / (self.claims + 2) if part is None else part)

    def price(self, weight: float) -> float:
        return log(2 / 0.05) - log(0.9) - log(weight) + self.nats

    def spend(self, part: float | None) -> None:
        self.left, self.claims = self.left - self.weight(part), self.claims + 1


def test_the_price_test_can_fail(monkeypatch):
    """The control: a code that forgets readings is found by the test above."""
    monkeypatch.setattr(Code, "disclosed", lambda self, nats: self)
    with pytest.raises(AssertionError):
        test_the_price_is_the_price_of_its_node()


def test_a_session_with_nothing_left_prints_whole_ranges():
    """spend=1 spends everything: later readings are whole ranges, no exception, and say so."""
    rng = np.random.default_rng(0)
    rows = {"b": rng.random(200) < 0.5, "x": rng.normal(size=200)}
    held = eh.Holdout(rows, prior=eh.Reference({"b": rng.random(200) < 0.5, "x": rng.normal(size=200)}), seed=0)
    held.read("b", spend=1.0)
    for answer in (
        held.read("x > 0"),
        held.read(eh.Mean("x", low=-5, high=5)),
        held.read(eh.Share("b", given="x > 0")),
    ):
        low, high = answer.low, answer.high
        assert (low, high) in ((0.0, 1.0), (-5.0, 5.0))
    assert held.compare("b", "x > 3").outcome == "neither"
