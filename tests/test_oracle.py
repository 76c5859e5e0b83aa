"""The statistical-query oracle: both routes, both mechanisms, within the tolerance."""

from __future__ import annotations

import numpy as np
import pytest

import everhold as eh


def features(rng, size):
    return rng.choice([-1.0, 1.0], size=(size, 6))


def sample(size, seed=0):
    rng = np.random.default_rng(seed)
    x = features(rng, size)
    return x, np.where(x[:, 0] + x[:, 1] + x[:, 2] > 0, 1, -1)


QUERIES = [
    (lambda x, y: x[:, 0] * y, 0.5),
    (lambda x, y: x[:, 4] * y, 0.0),
    (lambda x, y: 0.5 * y * x[:, 1] + 0.25 * x[:, 3], 0.25),
    (lambda x, y: np.tanh(x[:, 5]) * 0.9, 0.0),
    (lambda x, y: np.ones(len(y)), 1.0),
]


def test_direct_route():
    oracle = eh.SQOracle(features=features, sample=sample(20_000), tolerance=0.15, seed=1)
    for phi, truth in QUERIES:
        answer = oracle.ask(phi)
        assert abs(answer.value - truth) <= 0.15
        assert truth in answer.interval
        assert answer.scale == "mean"
    assert oracle.holdout.audit().ok


@pytest.mark.parametrize("mechanism", ["everhold", "aqa-ogd"])
def test_boolean_route(mechanism):
    tolerance = 0.5 if mechanism == "aqa-ogd" else 0.3
    oracle = eh.SQOracle(
        features=features,
        sample=sample(20_000),
        tolerance=tolerance,
        route="boolean",
        rounds=3,
        mechanism=mechanism,
        seed=1,
    )
    for phi, truth in QUERIES[:3]:
        answer = oracle.ask(phi)
        assert abs(answer.value - truth) <= tolerance
        assert truth in answer.interval
    assert oracle.holdout.rounds == 3 * oracle._batch
    with pytest.raises(eh.QuestionError, match=r"all 3 planned .* plan more with rounds="):
        oracle.ask(QUERIES[0][0])


def test_thresholds_average_to_phi():
    """E[sign(φ - U)] = φ for U uniform on [-1, 1]: the identity behind the Boolean route."""
    u = np.linspace(-1, 1, 200_001)
    for phi in (-1.0, -0.3, 0.0, 0.77, 1.0):
        assert np.mean(np.where(phi > u, 1.0, -1.0)) == pytest.approx(phi, abs=1e-4)


def test_features_as_a_table_with_named_columns():
    rng = np.random.default_rng(0)
    table = {"age": rng.integers(18, 90, 3000), "tall": rng.random(3000) < 0.5}
    private = {"age": rng.integers(18, 90, 6000), "tall": rng.random(6000) < 0.5}
    y = np.where(private["tall"], 1, -1)
    oracle = eh.SQOracle(features=table, sample=(private, y), tolerance=0.3, seed=0)
    answer = oracle.ask(lambda x, y: np.where(x["tall"], 1.0, -1.0) * y)
    assert answer.value == pytest.approx(1.0, abs=0.3)
    with pytest.raises(eh.PriorError, match="named columns"):
        eh.SQOracle(features=np.zeros((5, 2)), sample=(private, y))


def test_a_small_sample_declines_and_says_how_many_rows_would_do():
    with pytest.raises(eh.SettingError, match=r"With [\d,]+ more rows"):
        eh.SQOracle(features=features, sample=sample(200), tolerance=0.1, seed=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tolerance": 0.0},
        {"confidence": 1.0},
        {"route": "scenic"},
        {"route": "boolean"},
        {"mechanism": "aqa-ogd"},
        {"mechanism": "magic"},
    ],
)
def test_nonsense(wrong):
    with pytest.raises(eh.SettingError):
        eh.SQOracle(**({"features": features, "sample": sample(100), "tolerance": 0.5} | wrong))


def test_labels_are_among_the_classes():
    x, _ = sample(100)
    with pytest.raises(eh.DataError, match="not among the classes"):
        eh.SQOracle(features=features, sample=(x, np.zeros(100)), tolerance=0.5)


def test_phi_must_stay_in_range():
    oracle = eh.SQOracle(features=features, sample=sample(5000), tolerance=0.4, seed=0)
    with pytest.raises(eh.QuestionError, match="value"):
        oracle.ask(lambda x, y: 3.0 * y)
    with pytest.raises(eh.QuestionError, match="function"):
        oracle.ask("y")
    assert oracle.holdout.rounds == 0


def test_the_boolean_route_checks_phi_and_does_not_count_failures():
    oracle = eh.SQOracle(features=features, sample=sample(20_000), tolerance=0.4, route="boolean", rounds=1, seed=0)
    for phi in (lambda x, y: 5.0 * x[:, 0] * y, lambda x, y: np.full(len(y), np.nan)):
        with pytest.raises(eh.QuestionError, match=r"outside \[-1, 1\]"):
            oracle.ask(phi)
    assert oracle.holdout.rounds == 0
    assert abs(oracle.ask(QUERIES[0][0]).value - 0.5) <= 0.4


def test_aqa_ogd_declines_where_it_cannot_keep_the_tolerance():
    oracle = eh.SQOracle(
        features=features, sample=sample(20), tolerance=0.5, route="boolean", rounds=1, mechanism="aqa-ogd", seed=0
    )
    with pytest.raises(eh.PrecisionExhausted, match="too small"):
        oracle.ask(QUERIES[0][0])
