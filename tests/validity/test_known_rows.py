"""Rows that the analyst knows: whatever they hold, the printed interval contains that of the other rows alone, exactly.

The analyst may have arranged these rows, so only the others are a sample. Each measure is given the sums of all rows, the
known ones all at one end, and is compared with the bound over the others alone, at the same price. Control: a measure that
takes the known rows for others does not contain it."""

from dataclasses import replace

import numpy as np
import pytest

import everhold as eh
from everhold.bounds.binomial import binomial_interval, paired_interval, tail_refutes
from everhold.mechanism.measures.counts import count_interval
from everhold.queries.expression import expression
from everhold.queries.expression.composites import paired_shares, quantile_of
from everhold.queries.expression.tree import Column
from everhold.queries.grid import Sums
from everhold.queries.round_act import RoundAct

ROWS, KNOWN = 240, 20
OTHERS = ROWS - KNOWN
KINDS = {"a": "boolean", "b": "boolean", "x": "number"}


@pytest.fixture(scope="module")
def mechanism():
    rng = np.random.default_rng(0)

    def rows(size):
        return {"a": rng.random(size) < 0.4, "b": rng.random(size) < 0.3, "x": rng.integers(0, 30, size).astype(float)}

    held = eh.Holdout(rows(ROWS), prior=eh.Reference(rows(ROWS)), seed=0, known_rows=KNOWN)
    return held.session.mechanism


def contains(outer, inner):
    return outer[0] <= inner[0] and inner[1] <= outer[1]


@pytest.mark.parametrize("act", [RoundAct("close"), RoundAct("read"), RoundAct()], ids=["close", "read", "ask"])
def test_shares(mechanism, act):
    proposal = mechanism.propose(expression("a", KINDS), act)
    at, fooled = proposal.measure.inputs, 0
    for others in range(OTHERS + 1):
        alone = binomial_interval(others, others, OTHERS, at.price)
        for known in (0, KNOWN):
            outcome = mechanism.decide(proposal, [Sums.yes_no(others + known, ROWS)])
            assert contains(proposal.measure.ends(outcome)[1:], alone)
            count = others + known
            fooled += not contains(count_interval(count, count, at._replace(known_rows=0)), alone)
    assert fooled > OTHERS


def test_paired_shares(mechanism):
    question = paired_shares(*(expression(name, KINDS).tree for name in ("a", "b")))
    proposal = mechanism.propose(question, RoundAct("close"))
    measure, fooled = proposal.measure, 0
    plain = replace(measure, inputs=measure.inputs._replace(known_rows=0))
    for first, second in np.random.default_rng(1).integers(0, OTHERS // 2, (200, 2)).tolist():
        alone = paired_interval(first, second, OTHERS, measure.rates, measure.inputs.price)
        for more in ((KNOWN, 0), (0, KNOWN)):
            sums = [Sums.yes_no(count + one, ROWS) for count, one in zip((first, second), more, strict=True)]
            printed = [2.0 * end - 1.0 for end in measure.ends(measure.decide(sums))[1:]]
            assert contains(printed, alone)
            fooled += not contains([2.0 * end - 1.0 for end in plain.ends(plain.decide(sums))[1:]], alone)
    assert fooled > 100


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantiles(mechanism, level):
    question = quantile_of(Column("x", "number"), 0.0, 30.0, level, None, 1.0, None)
    measure = mechanism.propose(question, RoundAct("close")).measure
    plain = replace(measure, inputs=measure.inputs._replace(known_rows=0))
    thresholds, nats = np.array(measure.thresholds), measure.inputs.price
    rng, fooled = np.random.default_rng(2), 0
    for _ in range(60):
        others = rng.integers(0, 30, OTHERS) if rng.random() < 0.5 else np.minimum(rng.poisson(12, OTHERS), 29)
        low = max(
            [t for t in thresholds[1:-1] if tail_refutes(int((others >= t).sum()), OTHERS, 1.0 - level, nats)] or [0.0]
        )
        high = min([t for t in thresholds[:-1] if tail_refutes(int((others <= t).sum()), OTHERS, level, nats)] or [30.0])
        for known in (0.0, 29.0):
            every = np.append(others, np.full(KNOWN, known))
            below = [Sums.yes_no(int((every < t).sum()), ROWS) for t in thresholds[:-1]]
            upto = [Sums.yes_no(int((every <= t).sum()), ROWS) for t in thresholds[:-1]]
            ends = [30.0 * end for end in measure.ends(measure.decide(below + upto))[1:]]
            assert contains([ends[0] - 1e-9, ends[1] + 1e-9], (low, high))
            fooled += not contains([30.0 * end for end in plain.ends(plain.decide(below + upto))[1:]], (low, high))
    assert fooled > 10
