"""Priors: what they draw, what they weigh, and that a prior that fits makes no surprises."""

from __future__ import annotations

import numpy as np
import pytest

import everhold as eh


def rng(seed=0):
    return np.random.default_rng(seed)


def test_labels_cross_features_with_every_class():
    features = {"x": np.array([1, 2, 3])}
    pool = eh.Labels(features, classes=["a", "b", "c"]).pool(rng())
    assert pool.size == 9
    assert sorted(zip(pool.rows["x"].tolist(), pool.rows["y"].tolist(), strict=True)) == [
        (x, y) for x in (1, 2, 3) for y in ("a", "b", "c")
    ]
    assert pool.draws == 3


def test_labels_weigh_by_given_probabilities():
    chances = np.array([[0.2, 0.8], [0.5, 0.5]])
    prior = eh.Labels({"x": np.array([10, 20])}, classes=[0, 1], probabilities=chances)
    pool = prior.pool(rng())
    got = {(x, y): w for x, y, w in zip(pool.rows["x"], pool.rows["y"], pool.weights, strict=True)}
    assert got == pytest.approx({(10, 0): 0.1, (10, 1): 0.4, (20, 0): 0.25, (20, 1): 0.25})
    assert prior.density is None
    assert "given label probabilities" in prior.describe()


def test_labels_with_probabilities_from_a_function_on_a_weighted_reference():
    prior = eh.Labels(
        eh.Reference({"x": np.array([0.0, 1.0])}, weights=[3.0, 1.0]),
        classes=[0, 1],
        probabilities=lambda rows: np.stack([1 - rows["x"] * 0.5, rows["x"] * 0.5], axis=1),
    )
    pool = prior.pool(rng())
    assert pool.weights.tolist() == pytest.approx([0.75, 0.125, 0.0, 0.125])


def test_many_classes_and_good_probabilities_do_not_surprise():
    """Ten classes: labels follow known probabilities; the prior that has them is never surprised, uniform is."""
    r = rng(1)
    x = r.integers(0, 5, 6000)
    table = r.dirichlet(np.ones(10), size=5)
    y = np.array([r.choice(10, p=table[v]) for v in x])
    features = {"x": r.integers(0, 5, 6000)}
    surprises = {}
    for name, chances in (("given", table[features["x"]]), ("uniform", None)):
        held = eh.Holdout({"x": x, "y": y}, prior=eh.Labels(features, classes=range(10), probabilities=chances), seed=0)
        for label in range(10):
            held.ask(lambda rows, label=label: rows["y"] == label)
            held.ask(lambda rows, label=label: (rows["y"] == label) & (rows["x"] < 2))
        surprises[name] = held.surprises
    assert surprises["given"] == 0
    assert surprises["uniform"] >= 3


def test_marginals():
    prior = eh.Marginals(
        {
            "age": eh.uniform(18, 99),
            "height": eh.uniform(1.5, 2.0),
            "smoker": {True: 0.25, False: 0.75},
            "city": ["north", "south"],
            "noise": lambda rng, size: rng.standard_normal(size),
        },
        size=20_000,
    )
    rows = prior.pool(rng()).rows
    assert rows["age"].min() == 18
    assert rows["age"].max() == 99
    assert rows["age"].dtype.kind == "i"
    assert 1.5 <= rows["height"].min() < rows["height"].max() <= 2.0
    assert np.mean(rows["smoker"]) == pytest.approx(0.25, abs=0.02)
    assert set(rows["city"]) == {"north", "south"}


def test_weights_are_what_a_question_is_averaged_by():
    held = eh.Holdout({"x": np.array([1, 0, 0, 0] * 100)}, prior=eh.Reference({"x": np.array([1, 0])}, weights=[1, 3]))
    assert held.try_out(lambda r: r["x"] == 1).prior == pytest.approx(0.25)
    answer = held.ask(lambda r: r["x"] == 1)
    assert answer.value == pytest.approx(0.25, abs=1e-3)


def test_bit_seeds_reach_every_row():
    def g(bits):
        number = bits[:, 0] * 2 + bits[:, 1]
        return {"x": number}

    prior = eh.BitSampler(g, bits=64, size=4000)
    rows = prior.pool(rng(3)).rows
    assert np.bincount(rows["x"]).tolist() == pytest.approx([1000] * 4, abs=150)
    assert prior.rows(np.zeros((1, 64), np.uint8))["x"].tolist() == [0]
    assert "64-bit seeds" in prior.describe()


def test_a_sample_split_at_random_may_be_the_reference():
    r = rng(4)
    x = r.random(4000)
    held = eh.Holdout({"x": x[:2000]}, prior=eh.Reference({"x": x[2000:]}), seed=0)
    for t in np.linspace(0.1, 0.9, 30):
        assert t in held.ask(lambda rows, t=t: rows["x"] < t).interval
    assert held.surprises == 0


def test_pools_are_the_same_for_the_same_seed():
    def first(seed):
        prior = eh.Sampler(lambda rng, size: {"x": rng.random(size)}, size=100)
        return eh.Holdout({"x": np.zeros(10)}, prior=prior, seed=seed).try_out(lambda r: r["x"]).prior

    assert first(1) == first(1)
    assert first(1) != first(2)
