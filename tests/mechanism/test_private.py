"""The decision of a private round: what it discloses, how far one row moves it, and an audit of the claimed curve.

The audit asks a real decision function, or one that is tabulated from the real weights, and lets the best hovering analyst
tell two neighbouring tables apart. A sound mechanism passes; each mutant must be caught.
"""

from __future__ import annotations

import random
from fractions import Fraction
from math import exp, log, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import beta, gamma, norm

from everhold.bounds.code import NOTHING_NATS
from everhold.bounds.privacy import Privacy, PrivacyTerms
from everhold.mechanism import noise
from everhold.mechanism.measures.measure import MeasureInputs, Precision
from everhold.mechanism.measures.private import PrivateCells, PrivateInputs, PrivateTolerance
from everhold.mechanism.noise import ROW, SecretNoise, gaussian_weights, lattice_of, quiet_weight
from everhold.mechanism.tolerance import TOLERANCE_ONE, Tolerance
from everhold.queries.grid import VALUE_ONE, Sums
from everhold.queries.protocol import NOTHING, SketchValue

TERMS = Privacy(epsilon=3.0, delta=1e-9, surprises=5).terms
ROWS = 4_000


def asked(terms, source, *, rows=ROWS, forecast=(0, 1), tau=0.06, cell=0.02, scale="share"):
    limits = Tolerance(round(tau * TOLERANCE_ONE), round(cell * TOLERANCE_ONE))
    inputs = MeasureInputs(8.0, rows, 0, None, Precision(Fraction(1)))
    private = PrivateInputs(terms, source, TERMS.hidden_parts(0.05), TERMS.shaken_parts(0.05, 1))
    return PrivateTolerance(None, SketchValue(scale, forecast[0], forecast[1], 4_000.0), limits, inputs, private)


def read(terms, source, *, rows=ROWS, scale="share"):
    inputs = MeasureInputs(8.0, rows, 0, None, Precision(Fraction(1, 2)))
    private = PrivateInputs(terms, source, 0, TERMS.shaken_parts(0.05, 1))
    return PrivateCells(None, SketchValue(scale, 1, 3, 4_000.0), inputs, private)


class Spy:
    """Noise of 0 that notes what it was asked."""

    def __init__(self, quiet=False):
        self.seen, self._quiet = [], quiet

    def quiet(self, x):
        self.seen.append(x)
        return self._quiet

    def step(self):
        return 0


@pytest.mark.parametrize("scale", ["share", "mean"])
@pytest.mark.parametrize("forecast", [(0, 1), (1, 3), (-977, 1000), (1, 1)])
def test_one_row_moves_the_test_by_one_bth_and_the_release_by_a_row(scale, forecast):
    rng = random.Random(1)
    for _ in range(300):
        total = rng.randrange(-ROWS * VALUE_ONE, (ROWS - 2) * VALUE_ONE)
        moved = total + (ROW if scale == "share" else rng.randint(0, ROW))
        spy = Spy()
        one, other = asked(TERMS, spy, forecast=forecast, scale=scale), asked(TERMS, spy, forecast=forecast, scale=scale)
        one.decide([Sums(total, 0)])
        other.decide([Sums(moved, 0)])
        assert abs(spy.seen[1] - spy.seen[0]) <= Fraction(64, TERMS.test_parts)
        assert abs(one.private.noisy(total) - other.private.noisy(moved)) <= ROW


def test_the_cells_of_a_surprise_and_a_void_sum_to_at_most_one():
    for forecast in ((0, 1), (1, 3), (-999, 1000), (1, 1)):
        for tau, cell in ((0.06, 0.02), (0.5, 0.11), (0.001, 0.3), (2.0, 2.0)):
            measure = asked(TERMS, Spy(), forecast=forecast, tau=tau, cell=cell)
            above, below = measure.room
            weights = [exp(-measure.charge(j)) for j in range(-below, above + 1)]
            assert sum(weights) + exp(-measure.charge(NOTHING)) <= 1.0 + 1e-12
            assert measure.charge(NOTHING) == NOTHING_NATS
            # the mutant that forgets cell 0 and those within the tolerance has no room for them
            assert sum(weights) > 0.45


@pytest.mark.parametrize("scale", ["share", "mean"])
def test_every_total_lies_in_the_reach_of_its_own_cell_without_noise(scale):
    rng = random.Random(2)
    for make in (asked, read):
        for _ in range(200):
            count = rng.randint(0, ROWS)
            measure = make(TERMS, Spy(), scale=scale)
            total = (2 * count - ROWS) * VALUE_ONE
            low, high = measure.reach(measure.decide([Sums(total, 0)]))
            assert low <= Fraction(count, ROWS) <= high
            if scale == "share":
                least, most = measure.counts(measure.decide([Sums(total, 0)]))
                assert least <= count <= most


def test_noise_up_to_the_promised_tail_keeps_the_total_in_reach():
    """The largest noise that the slack allows for, at every place of the scale; one deviation more is not allowed for."""
    lattice = lattice_of(TERMS.release_parts)
    most = TERMS.shaken_parts(0.05, 1) * ROW // 64 // lattice

    class Shaken(Spy):
        def __init__(self, steps):
            super().__init__()
            self._steps = steps

        def step(self):
            return self._steps

    missed = 0
    for make in (asked, read):
        for count in range(0, ROWS, 97):
            for steps in (most, -most):
                measure = make(TERMS, Shaken(steps))
                low, high = measure.reach(measure.decide([Sums((2 * count - ROWS) * VALUE_ONE, 0)]))
                assert low <= Fraction(count, ROWS) <= high
                measure = make(TERMS, Shaken(2 * steps))
                low, high = measure.reach(measure.decide([Sums((2 * count - ROWS) * VALUE_ONE, 0)]))
                missed += not low <= Fraction(count, ROWS) <= high
    assert missed > 20


def test_ends_do_not_depend_on_the_noise_that_was_drawn():
    one, other = (read(TERMS, SecretNoise(TERMS, random.Random(seed).getrandbits)) for seed in (1, 2))
    assert one.ends(4) == other.ends(4)
    assert one.ends(NOTHING)[1:] == (0.0, 1.0)


# the audit ---------------------------------------------------------------------------------------------------------------


def constant_ratio_delta(epsilon, terms):
    """δ(ε) of an analyst who hovers at vanishing rates, by quadrature: no hovering analyst of these terms does better."""
    K, worst = terms.promise.surprises, 0.0
    s = sqrt(K) / terms.deviation
    for rho in (exp(1.0 / terms.test_scale), exp(-1.0 / terms.test_scale)):
        x = np.linspace(0.0, gamma.isf(1e-14, K), 200_001)
        mean = -K * log(rho) + (rho - 1.0) * x + s * s / 2.0
        z = (mean - epsilon) / s
        value = norm.cdf(z) - np.exp(epsilon - mean + s * s / 2.0 + norm.logcdf(z - s))
        worst = max(worst, float(trapezoid(value * gamma.pdf(x, K), x)))
    return worst


def curve(delta, terms):
    """ε(δ) of the hovering analyst."""
    low, high = 0.0, terms.promise.epsilon
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if constant_ratio_delta(middle, terms) > delta else (low, middle)
    return high


def bound(yes_of_one, yes_of_other, delta):
    """The ε that two samples of an event show, at 99.99 % on both sides."""
    n, m = len(yes_of_one), len(yes_of_other)
    a, b = int(yes_of_one.sum()), int(yes_of_other.sum())
    least = beta.ppf(1e-4, a, n - a + 1) if a else 0.0
    most = beta.ppf(1.0 - 1e-4, b + 1, m - b) if b < m else 1.0
    return log((least - delta) / most) if least > delta else 0.0


def losses(rng, terms, games, total, moved, *, used=None):
    """Privacy losses of hovering sessions, tabulated from the real weights; `used`: the noise that is really used."""
    used = used or terms
    K = terms.promise.surprises
    base = Fraction(-5)  # a hazard of 0.7 %
    quiet = [quiet_weight(base + Fraction(64 * one, used.test_parts)) / 2.0**384 for one in (0, moved)]
    waits = rng.geometric(1.0 - quiet[1 if total else 0], size=(games, K))
    weights = np.array([w / 2.0**384 for w in gaussian_weights(used.release_parts)])
    law = np.concatenate([weights[:0:-1], weights])
    steps = rng.choice(len(law), size=(games, K), p=law / law.sum()) - (len(weights) - 1)
    per_row = ROW // lattice_of(used.release_parts)
    y = steps / per_row + (moved if total else 0.0)
    # what the analyst computes with the claimed terms, of "with the row" against "without it"
    q0 = quiet_weight(base) / 2.0**384
    q1 = quiet_weight(base + Fraction(64, terms.test_parts)) / 2.0**384
    told = (waits - 1) * log(q1 / q0) + log((1 - q1) / (1 - q0)) + (y - 0.5) / terms.deviation**2
    return told.sum(axis=1)


def shown(rng, terms, delta, *, games=500_000, moved=1, used=None):
    """The largest ε that the analyst shows at δ: the threshold is chosen on one half, the bound is from the other."""
    best = 0.0
    one, other = (losses(rng, terms, games, which, moved, used=used) for which in (1, 0))
    for sign in (1.0, -1.0):
        a, b = (sign * one, sign * other) if sign > 0 else (sign * other, sign * one)
        half = games // 2
        candidates = np.quantile(a[:half], np.linspace(0.5, 0.9995, 60))
        scores = []
        for t in candidates:
            yes, no = np.mean(a[:half] > t) - delta, np.mean(b[:half] > t) + 20.0 / half
            scores.append((log(max(yes, 1e-12)) - log(no), t))
        best = max(best, bound(a[half:] > max(scores)[1], b[half:] > max(scores)[1], delta))
    return best


def mutant(terms, factor):
    return SimpleNamespace(
        test_parts=max(round(terms.test_parts * factor), 1), release_parts=max(round(terms.release_parts * factor), 1)
    )


@pytest.mark.slow
@pytest.mark.parametrize("promise", [Privacy(3.0, 1e-9, 5), Privacy(1.0, 1e-9, 20)])
@pytest.mark.parametrize("delta", [1e-2, 1e-3])
def test_a_million_sessions_show_no_more_than_the_curve_and_mutants_show_more(promise, delta):
    """500,000 sessions with the row and as many without it, for each mechanism. False alarm below 4e-4 a case."""
    terms, rng = promise.terms, np.random.default_rng(7)
    claimed = curve(delta, terms)
    assert claimed <= promise.epsilon
    sound = shown(rng, terms, delta)
    assert 0.5 * claimed < sound <= claimed  # the analyst is a good one, and gets no more than the curve
    assert shown(rng, terms, delta, used=mutant(terms, 0.5)) > 1.2 * claimed  # noise halved
    assert shown(rng, terms, delta, moved=2) > 1.2 * claimed  # a difference of two shares taken for one share
    if delta == 1e-2:  # at smaller δ this many sessions do not show so little
        assert shown(rng, terms, delta, used=mutant(terms, 0.8)) > claimed  # a fifth less


def bits_curve(delta, terms, bits):
    """ε(δ) of an analyst who asks for bits at vanishing rates until so many were yes: two gamma laws."""

    def of(epsilon):
        worst = 0.0
        for rho in (exp(1.0 / terms.test_scale), exp(-1.0 / terms.test_scale)):
            x = np.linspace(0.0, gamma.isf(1e-14, bits), 200_001)
            told = np.maximum(1.0 - np.exp(epsilon + bits * log(rho) - (rho - 1.0) * x), 0.0)
            worst = max(worst, float(trapezoid(told * gamma.pdf(x, bits), x)))
        return worst

    low, high = 0.0, terms.promise.epsilon
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) > delta else (low, middle)
    return high


def bit_waits(rng, terms, games, bits, member, *, rows_per_row=2, scale=2):
    """Rounds until so many yes, from the real weights: x = difference/(scale·b), which a row moves by `rows_per_row`."""
    base = Fraction(-5)
    x = base + member * Fraction(64 * rows_per_row, scale * terms.test_parts)
    return rng.geometric(1.0 - quiet_weight(x) / 2.0**384, size=(games, bits)).sum(axis=1)


@pytest.mark.slow
def test_a_million_sessions_of_bits_show_no_more_than_their_curve_and_a_scale_of_b_is_caught():
    """500,000 sessions each way. A difference of two sums moves by two rows: noise of b rows for it is a mutant."""
    terms, rng, delta, games = TERMS, np.random.default_rng(9), 1e-2, 500_000
    bits = terms.allowance // terms.bit_cost
    claimed = bits_curve(delta, terms, bits)
    found = {}
    for name, scale in (("sound", 2), ("mutant", 1)):
        one, other = (bit_waits(rng, terms, games, bits, member, scale=scale) for member in (1, 0))
        half = games // 2
        scores = []
        for t in np.quantile(one[:half], np.linspace(0.02, 0.98, 50)):
            yes, no = np.mean(one[:half] < t) - delta, np.mean(other[:half] < t) + 20.0 / half
            scores.append((log(max(yes, 1e-12)) - log(no), t))
        t = max(scores)[1]
        found[name] = bound(one[half:] < t, other[half:] < t, delta)
    assert 0.4 * claimed < found["sound"] <= claimed <= terms.promise.epsilon
    assert found["mutant"] > 1.2 * claimed


class Sessions:
    """Hovering sessions of the real `decide`, with the noise of `used`, judged by an analyst who believes in `terms`."""

    def __init__(self, terms, used):
        coins = random.Random(7).getrandbits  # so that a run says something about the change and not about its luck
        self.terms, self.measure = terms, asked(used, SecretNoise(used, coins), tau=0.06)
        self.level = int(0.06 * VALUE_ONE * ROWS) - 2 * used.test_parts * ROW // 64  # x = -2
        self.width = float(self.measure.limits.cell) * VALUE_ONE * ROWS / TOLERANCE_ONE / ROW  # of a cell, in rows
        q0, q1 = (quiet_weight(Fraction(-2) + Fraction(64 * one, terms.test_parts)) / 2.0**384 for one in (0, 1))
        self.quiet, self.surprise = log(q1 / q0), log((1.0 - q1) / (1.0 - q0))

    def loss(self, member):
        """The analyst's statistic of one session, of quiet rounds, surprises and released cells: with the row or without."""
        total, surprises = 0.0, 0
        while surprises < self.terms.promise.surprises:
            cell = self.measure.decide([Sums(self.level + member * ROW, 0)])
            if cell is None:
                total += self.quiet
            else:
                surprises += 1
                total += self.surprise + (cell * self.width - self.level / ROW - 0.5) / self.terms.deviation**2
        return total


@pytest.fixture
def _remembered(monkeypatch):
    """The same weights, computed once for each x."""
    seen = {}
    monkeypatch.setattr(noise, "quiet_weight", lambda x: seen[x] if x in seen else seen.setdefault(x, quiet_weight(x)))


@pytest.mark.usefixtures("_remembered")
def test_the_real_decision_shows_no_more_than_the_curve_and_a_quarter_of_the_noise_is_caught():
    """3,000 sessions of the real decision with the row and as many without: rounds, surprises and released cells.

    The threshold is chosen on one half, the bound is from the other: a false alarm below 2e-4. So few sessions catch a
    quarter of the noise; the million above, of the same weights, catch half and four fifths.
    """
    terms, delta, games = Privacy(epsilon=8.0, delta=1e-9, surprises=5).terms, 1e-2, 3_000
    found = {}
    for name, used in (("sound", terms), ("quarter", mutant(terms, 0.25))):
        play = Sessions(terms, used)
        one, other = (np.array([play.loss(member) for _ in range(games)]) for member in (1, 0))
        half = games // 2
        scores = []
        for t in np.quantile(one[:half], np.linspace(0.3, 0.99, 50)):
            yes, no = np.mean(one[:half] > t) - delta, np.mean(other[:half] > t) + 20.0 / half
            scores.append((log(max(yes, 1e-12)) - log(no), t))
        found[name] = bound(one[half:] > max(scores)[1], other[half:] > max(scores)[1], delta)
    claimed = curve(delta, terms)
    assert found["sound"] <= claimed
    assert found["quarter"] > claimed


class StaleTest(SecretNoise):
    """A mutant: the coin of the test is drawn once and used again in every round."""

    def __init__(self, terms):
        super().__init__(terms)
        self._kept = self._bits(384)

    def quiet(self, x):
        return self._kept < quiet_weight(x)


class StaleRelease(SecretNoise):
    """A mutant: released noise is drawn once."""

    def __init__(self, terms):
        super().__init__(terms)
        self._kept = super().step()

    def step(self):
        return self._kept


def first_surprised(source, member):
    """Target and decoy in turn, at rising levels: which of them surprises first. The target's count is one higher."""
    measure = asked(TERMS, source)
    tau = int(0.06 * VALUE_ONE * ROWS)
    for level in range(-6 * TERMS.test_parts * ROW // 64, 10**9, ROW // 2):
        for who, more in (("decoy", 0), ("target", member * ROW)):
            if measure.decide([Sums(tau + level + more, 0)]) is not None:
                return who
    raise AssertionError("no surprise")


@pytest.mark.usefixtures("_remembered")
def test_a_coin_that_is_not_refreshed_is_caught_and_fresh_ones_pass():
    """300 sessions of one surprise each. One surprise of fresh noise cannot show more than ε of the promise."""
    found = {}
    for name, make in (("fresh", SecretNoise), ("stale", StaleTest)):
        one, other = (np.array([first_surprised(make(TERMS), m) == "target" for _ in range(300)]) for m in (1, 0))
        found[name] = bound(one, other, 0.0)
    assert found["fresh"] <= TERMS.promise.epsilon / 2
    assert found["stale"] > TERMS.promise.epsilon


def test_noise_that_is_released_twice_is_caught():
    """Two releases of the same total differ by fresh noise; with stale noise they never do."""
    for make, same in ((SecretNoise, False), (StaleRelease, True)):
        source = make(TERMS)
        private = PrivateInputs(TERMS, source, 0, 0)
        differences = {private.noisy(10**6) - private.noisy(0) for _ in range(50)}
        assert (len(differences) == 1) == same


def test_terms_without_enough_noise_cannot_be_made():
    with pytest.raises(ValueError, match="does not keep"):
        PrivacyTerms(TERMS.promise, TERMS.order_quarters, TERMS.test_parts // 2, TERMS.release_parts)
