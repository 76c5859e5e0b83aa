"""The noisy verdict: how often it is wrong where neither question is truer, and what it finds."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from scipy.stats import binom

from everhold.bounds.private_verdict import favours_first, verdict_rate

GAMES, FALSE_ALARM = 40_000, 1e-6
NATS = log(20.0)


def verdicts(rng, *, rows, differs, favour, deviation, charged=1.0, nats=NATS, known=0):
    """How often the first is favoured; `favour`: its share of the rows that differ; `charged`: of the noise, in the test."""
    rate = verdict_rate(nats, rows, differs, deviation)
    discordant = rng.binomial(rows, differs, GAMES)
    first = rng.binomial(discordant, favour)
    # the same inequality for all games at once, checked against the function below
    k = first + known + np.rint(8 * rng.normal(0.0, deviation, GAMES)) / 8
    less = discordant - first + np.rint(8 * rng.normal(0.0, deviation, GAMES)) / 8
    squared = float(rate) ** 2 / 2
    noise = charged * deviation**2 * (float(rate) ** 2 + squared**2)
    found = (float(rate) - squared) * k - (float(rate) + squared) * less - float(rate) * known - noise >= nats
    terms = {"rate": rate, "deviation": Fraction(deviation), "known_rows": known, "nats": nats}
    if charged == 1.0:
        some = [favours_first(Fraction(a), Fraction(b), **terms) for a, b in zip(k[:200], less[:200], strict=True)]
        assert some == found[:200].tolist()
    return found


@pytest.mark.parametrize(
    ("rows", "differs", "deviation"), [(2_000, 0.2, 10.0), (2_000, 0.2, 80.0), (50_000, 0.01, 20.0), (400, 1.0, 2.0)]
)
def test_no_more_wrong_verdicts_than_allowed(rows, differs, deviation):
    """40,000 pairs that are equally often true: the pass line is exceeded by chance with probability 1e-6."""
    rng = np.random.default_rng(3)
    allowed = exp(-NATS)
    line = binom.ppf(1.0 - FALSE_ALARM, GAMES, allowed)
    wrong = verdicts(rng, rows=rows, differs=differs, favour=0.5, deviation=deviation).sum()
    assert wrong <= line
    known = verdicts(rng, rows=rows, differs=differs, favour=0.5, deviation=deviation, known=rows // 20).sum()
    assert known <= line


def test_a_test_that_forgets_its_noise_is_caught():
    rng = np.random.default_rng(4)
    line = binom.ppf(1.0 - FALSE_ALARM, GAMES, exp(-NATS))
    wrong = verdicts(rng, rows=2_000, differs=0.2, favour=0.5, deviation=80.0, charged=0.0).sum()
    assert wrong > line


def test_a_clear_difference_is_found_and_its_opposite_is_not():
    rng = np.random.default_rng(5)
    assert verdicts(rng, rows=20_000, differs=0.2, favour=0.6, deviation=80.0).mean() > 0.99
    assert verdicts(rng, rows=20_000, differs=0.2, favour=0.4, deviation=80.0).sum() == 0


def test_both_cannot_be_favoured():
    terms = {"rate": Fraction(1, 30), "deviation": Fraction(80), "known_rows": 0, "nats": 3.0}
    for a in range(-400, 2_000, 37):
        for b in range(-400, 2_000, 41):
            assert not (
                favours_first(Fraction(a), Fraction(b), **terms) and favours_first(Fraction(b), Fraction(a), **terms)
            )
