"""Scores and verdicts in MLflow's own file store."""

from __future__ import annotations

import numpy as np
import pytest

import everhold as eh
from tests.adapters.systems import outcomes

mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: make test-adapters")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the host


@pytest.fixture
def run(tmp_path, monkeypatch):
    """An active run in a file store; what it kept, when called."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as active:
        yield lambda: mlflow.get_run(active.info.run_id).data


def test_a_score_with_interval_and_price(run):
    from everhold.adapters.mlflow import log_score

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.integers(0, 2, 400)
    test = eh.TestSet(X[:200], y[:200], reference=(X[200:], y[200:]), seed=1)
    score = test.read(lambda rows: (rows[:, 0] > 0).astype(int))
    log_score(score)
    kept = run().metrics
    assert kept == {
        "accuracy": score.value,
        "accuracy.low": score.low,
        "accuracy.high": score.high,
        "accuracy.nats": score.price,
    }


def test_answers_and_findings_under_a_name_that_mlflow_accepts(run):
    from everhold.adapters.mlflow import log_score

    rows = {"bmi": np.random.default_rng(0).normal(25, 4, 1000).clip(10, 60)}
    held = eh.Holdout(rows, prior=eh.Reference({"bmi": rows["bmi"] + 0.5}), seed=0)
    log_score(held.mean("bmi", low=10, high=60), step=1)
    log_score(held.read("bmi > 30"), "obese", step=2)
    kept = run().metrics
    assert set(kept) == {
        f"{name}{part}" for name in ("mean of bmi cut to 10-60", "obese") for part in ("", ".low", ".high", ".nats")
    }
    assert kept["obese.low"] <= kept["obese"] <= kept["obese.high"]


def test_a_verdict(run, tmp_path):
    from everhold.adapters.mlflow import log_check

    gate = eh.Gate.create(tmp_path / "gate.everhold", outcomes(0.5))
    found = gate.check(outcomes(0.8), name="prompt 2")
    log_check(found)
    data = run()
    assert data.metrics["gate.promoted"] == data.metrics["gate.certified"] == data.metrics["gate.checks"] == 1.0
    assert data.metrics["gate.nats"] == found.price
    tags = {name: text for name, text in data.tags.items() if name.startswith("gate.")}
    assert tags == {
        "gate.name": "prompt 2",
        "gate.verdict": "promote",
        "gate.state": "promoted",
        "gate.reason": found.reason,
    }
