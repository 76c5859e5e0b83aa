"""Optuna itself, led by a public objective, with a gate that promotes its best trial."""

from __future__ import annotations

import pytest

import everhold as eh
from tests.adapters.systems import outcomes

optuna = pytest.importorskip("optuna", reason="Optuna is not installed: make test-adapters")

CASES = 400


@pytest.fixture
def search(tmp_path):
    """A study whose objective is public, and a gate on sealed cases: quality is highest at x = 0.6."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    gate = eh.Gate.create(tmp_path / "gate.everhold", outcomes(0.4, cases=CASES))
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    return study, gate


def objective(trial):
    return -abs(trial.suggest_float("x", 0, 1) - 0.6)


def sealed(trial):
    return outcomes(0.9 - abs(trial.params["x"] - 0.6), cases=CASES)


def test_the_best_trial_is_promoted(search, tmp_path):
    from everhold.adapters.optuna import PromoteBest

    study, gate = search
    callback = PromoteBest(tmp_path / "gate.everhold", sealed)
    study.optimize(objective, n_trials=25, callbacks=[callback])
    best_so_far = [
        trial.number for trial in study.trials if all(trial.value > other.value for other in study.trials[: trial.number])
    ]
    assert list(callback.results) == best_so_far  # no other trial reads the sealed cases
    promoted = [number for number, found in callback.results.items() if found.promoted]
    assert promoted
    assert study.user_attrs["everhold_incumbent"] == f"trial {promoted[-1]}" == gate.status().incumbent
    assert gate.status().checks == len(best_so_far)
    assert abs(study.trials[promoted[-1]].params["x"] - 0.6) < 0.1


def test_a_best_trial_that_is_not_better_on_the_sealed_cases_is_kept_out(search):
    """The control: an objective that says nothing about them."""
    from everhold.adapters.optuna import PromoteBest

    study, gate = search
    callback = PromoteBest(gate, lambda trial: outcomes(0.4, cases=CASES, luck=2 * trial.number))
    study.optimize(objective, n_trials=25, callbacks=[callback])
    assert len(callback.results) >= 3
    assert not any(found.promoted for found in callback.results.values())
    assert "everhold_incumbent" not in study.user_attrs


@pytest.mark.parametrize(("stop", "trials"), [(True, 1), (False, 4)])
def test_a_gate_that_is_used_up_ends_the_search(tmp_path, stop, trials):
    from everhold.adapters.optuna import PromoteBest

    cases = {f"case-{k}": k % 2 for k in range(60)}
    gate = eh.Gate.create(tmp_path / "ended.everhold", cases)
    gate.finish()
    study = optuna.create_study(direction="maximize")
    callback = PromoteBest(gate, lambda trial: dict.fromkeys(cases, 1), stop=stop)
    study.optimize(objective, n_trials=4, callbacks=[callback])
    assert callback.used_up
    assert len(study.trials) == trials
    assert gate.status().checks == 0


def test_failed_trials_are_not_checked(search):
    from everhold.adapters.optuna import PromoteBest

    study, gate = search

    def failing(trial):
        raise ValueError("no")

    study.optimize(failing, n_trials=3, callbacks=[PromoteBest(gate, sealed)], catch=(ValueError,))
    assert gate.status().checks == 0


def test_several_threads(search):
    """Callbacks of parallel trials take turns at the gate."""
    from everhold.adapters.optuna import PromoteBest

    study, gate = search
    callback = PromoteBest(gate, sealed)
    study.optimize(objective, n_trials=20, n_jobs=4, callbacks=[callback])
    assert gate.status().checks == len(callback.results)
    assert gate.audit().ok
