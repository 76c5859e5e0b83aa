"""A gate in inspect_ai: real evaluations with its mock model, real logs in both of its formats."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import zipfile

import pytest

import everhold as eh
from everhold.gate.outcome_files import read_outcomes
from tests.adapters.systems import outcomes

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: make test-adapters")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the host, which warns as it likes

CASES = 80


@pytest.fixture(autouse=True)
def collected():
    """What the host leaves open after an error is found here, where its warnings are ignored."""
    yield
    gc.collect()


def evaluated(folder, passed, scorer, *, epochs=1, broken=(), log_format="eval", **options):
    """An evaluation of a model that gives these answers."""
    from inspect_ai import Epochs, Task, eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    @solver
    def answers():
        async def solve(state, generate):
            if state.sample_id in broken:
                raise RuntimeError("the system crashed")
            right = passed[state.sample_id]
            right = right[state.epoch - 1] if isinstance(right, list) else right
            state.output = ModelOutput.from_content(
                "mockllm/model", "yes" if right else "no"
            )  # `generate` counts tokens online
            return state

        return solve

    task = options.pop("task", None) or Task(
        dataset=[Sample(id=case, input="well?", target="yes") for case in passed],
        solver=answers(),
        scorer=scorer,
        epochs=Epochs(epochs, "mean"),
        name="sealed",
    )
    (log,) = evaluate(
        task,
        model="mockllm/model",
        log_dir=str(folder / "logs"),
        log_format=log_format,
        display="none",
        **{"fail_on_error": False, **options},
    )
    return log


def match():
    from inspect_ai.scorer import match as matches

    return matches()


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_logs_are_outcomes(tmp_path, log_format):
    passed = outcomes(0.5, cases=CASES)
    log = evaluated(tmp_path, passed, match(), broken=("case-3",), log_format=log_format)
    (path,) = (tmp_path / "logs").glob(f"*.{log_format}")
    expected = {case: float(right) for case, right in (passed | {"case-3": 0}).items()}
    assert {case: sum(runs) for case, runs in read_outcomes(path).runs.items()} == expected
    gate = eh.Gate.create(tmp_path / "gate.everhold", path)
    assert (gate.rules.cases, gate.rules.outcomes) == (CASES, "pass")
    assert log.status == "success"


WITHOUT = """
import sys
from everhold.gate import outcome_files
outcome_files.find_spec = lambda name: None
try:
    print(sorted((case, sum(runs)) for case, runs in outcome_files.read_outcomes(sys.argv[1]).runs.items()))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_zipped_log_without_the_package(tmp_path):
    """Where inspect_ai is not installed, a log is read all the same, or refused in words: by its compression."""
    passed = outcomes(0.5, cases=CASES)
    evaluated(tmp_path, passed, match())
    (path,) = (tmp_path / "logs").glob("*.eval")
    with zipfile.ZipFile(path) as archive:
        plain = {one.compress_type for one in archive.infolist()} <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(path)], capture_output=True, text=True, check=True)
    if plain or sys.version_info >= (3, 14):  # which reads Zstandard
        assert done.stdout.strip() == str(sorted((case, float(right)) for case, right in passed.items()))
    else:
        assert done.stdout.startswith("InvalidOutcomes")
        assert "needs inspect_ai" in done.stdout


def test_epochs_are_runs(tmp_path):
    passed = {case: [right, 1] for case, right in outcomes(0.5, cases=CASES).items()}
    evaluated(tmp_path, passed, match(), epochs=2)
    (path,) = (tmp_path / "logs").glob("*.eval")
    found = read_outcomes(path)
    assert {case: sorted(runs) for case, runs in found.runs.items()} == {
        case: sorted(map(float, runs)) for case, runs in passed.items()
    }
    assert eh.Gate.create(tmp_path / "gate.everhold", path).rules.outcomes == "score"


def test_the_verdict_is_the_only_metric(tmp_path):
    from everhold.adapters.inspect_ai import gated

    path = str(tmp_path / "gate.everhold")
    gate = eh.Gate.create(path, outcomes(0.5, cases=CASES))
    verdicts = {}
    for name, quality, luck in (("luck", 0.5, 10), ("better", 0.8, 0)):
        log = evaluated(tmp_path, outcomes(quality, cases=CASES, luck=luck), gated(match(), path, name=name))
        (score,) = log.results.scores
        verdicts[name] = {key: metric.value for key, metric in score.metrics.items()}
    assert verdicts == {"luck": {"promoted": 0.0}, "better": {"promoted": 1.0}}
    found = gate.status()
    assert (found.checks, found.promotions, found.incumbent) == (2, 1, "better")


def test_the_metric_checks_complete_runs_once(tmp_path):
    """inspect_ai computes metrics while samples run, and again at the end."""
    from inspect_ai.scorer import SampleScore, Score

    from everhold.adapters import inspect_ai as adapter

    path = str(tmp_path / "gate.everhold")
    gate = eh.Gate.create(path, {case: [right, right] for case, right in outcomes(0.5, cases=CASES).items()})
    better = [
        SampleScore(score=Score(value="C" if right else "I"), sample_id=case)
        for _ in range(2)
        for case, right in outcomes(0.8, cases=CASES).items()
    ]
    metric = adapter.promoted(path, epochs=2)
    run = adapter._Run("run", type("Spec", (), {"scorers": None}))
    token = adapter._now.set(run)
    try:
        for some in (0, 1, CASES - 1, CASES, 2 * CASES - 1):
            assert math.isnan(metric(better[:some]))
        assert gate.status().checks == 0
        assert [metric(better), metric(better), metric(better[::-1])] == [1.0, 1.0, 1.0]
        assert gate.status().checks == 1
        adapter._now.set(adapter._Run("another run", type("Spec", (), {"scorers": None})))
        assert metric(better) == 0.0  # the same outcomes of another candidate: charged as any other
        assert gate.status().checks == 2
    finally:
        adapter._now.reset(token)


def test_two_runs_with_equal_scores_are_charged_twice(tmp_path):
    """Whether two candidates do the same on all sealed cases is not public, so the second look is not free."""
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import solver

    from everhold.adapters.inspect_ai import gated

    path = str(tmp_path / "gate.everhold")
    passed = outcomes(0.5, cases=CASES)
    gate = eh.Gate.create(path, passed)

    @solver
    def nothing():
        async def solve(state, generate):
            return state

        return solve

    samples = [Sample(id=case, input="well?", target="yes") for case in passed]
    task = Task(dataset=samples, solver=nothing(), scorer=gated(match(), path))
    for number in (1, 2):
        evaluated(tmp_path, passed, None, task=task)
        assert gate.status().checks == number


@pytest.mark.parametrize("fail_on_error", [False, True])
@pytest.mark.parametrize("broken", [1, 2, CASES])
def test_a_run_with_errors_is_checked_and_charged(tmp_path, broken, fail_on_error):
    """A sample that ended with an error is a failure; a candidate cannot end a run for nothing."""
    from everhold.adapters.inspect_ai import gated

    path = str(tmp_path / "gate.everhold")
    gate = eh.Gate.create(path, outcomes(0.5, cases=CASES))
    crashed = tuple(f"case-{number}" for number in range(broken))
    log = evaluated(tmp_path, outcomes(0.9, cases=CASES), gated(match(), path), broken=crashed, fail_on_error=fail_on_error)
    assert gate.status().checks == 1
    if not fail_on_error and broken < CASES:
        assert log.results.scores[0].metrics["promoted"].value == 1.0


def test_a_log_with_errors_is_checked(tmp_path):
    from everhold.adapters.inspect_ai import check_log

    gate = eh.Gate.create(tmp_path / "gate.everhold", outcomes(0.5, cases=CASES))
    log = evaluated(tmp_path, outcomes(0.9, cases=CASES), match(), broken=("case-1", "case-2"))
    assert check_log(gate, log, name="with errors").promoted
    assert gate.status().incumbent == "with errors"


def test_a_run_that_ended_early_is_a_candidate_with_failures(tmp_path):
    from everhold.adapters.inspect_ai import check_log

    gate = eh.Gate.create(tmp_path / "gate.everhold", outcomes(0.5, cases=CASES))
    log = evaluated(tmp_path, outcomes(0.9, cases=CASES), match())
    for number, changed in enumerate(
        (log.model_copy(update={"status": "cancelled", "samples": log.samples[:3]}), evaluated_none(log)), start=1
    ):
        assert check_log(gate, changed).state == "kept"
        assert gate.status().checks == number
    with pytest.raises(eh.InvalidOutcomes, match="Nothing was charged"):
        check_log(gate, log.model_copy(update={"samples": None}))
    assert gate.status().checks == 2


def evaluated_none(log):
    return log.model_copy(update={"status": "error", "samples": None})
