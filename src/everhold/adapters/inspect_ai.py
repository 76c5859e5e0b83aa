"""A gate for inspect_ai: a scorer whose only metric is the verdict, and the same for a log that is there already.

    from everhold.adapters.inspect_ai import gated
    task = Task(dataset=cases, solver=generate(), scorer=gated(match(), "gate.everhold"))

The scorer replaces the metrics of the one that it wraps, because the accuracy on sealed cases would disclose far more than
the verdict. A log holds the score of every sample: keep logs where candidates cannot read them.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from inspect_ai.log import EvalLog
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from everhold.adapters.opening import AnyGate, opened
from everhold.errors import InvalidOutcomes
from everhold.gate.formats import sample_outcomes
from everhold.gate.gate import Gate

if TYPE_CHECKING:
    from everhold.gate.results import CheckResult

__all__ = ["check_log", "gated", "promoted"]


def check_log(gate: AnyGate, log: EvalLog, *, name: str | None = None, score: str | None = None) -> CheckResult:
    """Check a finished evaluation at a gate. Samples that ended with an error are failures; epochs are runs.

    Args:
        gate: a gate, or its path.
        log: what `inspect_ai.eval` returns, or `read_eval_log`.
        name: what the candidate is called; the model when left out.
        score: which scorer's values to take, where there are several.

    Raises:
        InvalidOutcomes: the evaluation was cancelled, or its samples were not logged. Nothing was charged.
    """
    if log.status not in ("success", "error") or not log.samples:
        raise InvalidOutcomes(
            f"the log has the status {log.status!r} and {len(log.samples or ()):,} samples. Expected an evaluation that ran "
            "to its end, with its samples. Nothing was charged."
        )
    samples = [json.loads(sample.model_dump_json(include={"id", "error", "scores"})) for sample in log.samples]
    return opened(gate).check(list(sample_outcomes(samples, score)), name=name or str(log.eval.model))


@metric(scores="unreduced")
def promoted(gate: str, epochs: int = 1, name: str | None = None) -> Metric:
    """1 if the gate promotes what was evaluated, 0 if it keeps the incumbent, NaN while samples are missing.

    inspect_ai also computes metrics while samples still run, and when a run is cancelled. So the gate is checked only when
    every case of it has as many scores as there are epochs, and only once for the same scores. A sample that ends with an
    error has no score unless the evaluation is run with `score_on_error=True`; `check_log` counts it as a failure.

    Args:
        gate: its path.
        epochs: how often every sample is run.
        name: what the candidate is called.
    """
    verdicts: dict[str, bool] = {}

    def compute(scores: list[SampleScore]) -> float:
        opened = Gate(gate)
        runs = Counter(str(sample.sample_id) for sample in scores)
        if len(runs) < opened.rules.cases + opened.rules.visible or min(runs.values()) < epochs:
            return float("nan")
        outcomes = sorted((str(sample.sample_id), json.dumps(_single(sample.score.value))) for sample in scores)
        known = json.dumps(outcomes)
        if known not in verdicts:
            verdicts[known] = opened.check([(case, json.loads(value)) for case, value in outcomes], name=name).promoted
        return float(verdicts[known])

    return compute


def gated(inner: Scorer, gate: str, *, epochs: int = 1, name: str | None = None) -> Scorer:
    """A scorer that scores as another one does, and reports nothing but whether the gate promotes.

    Args:
        inner: the scorer, such as `match()`.
        gate: the path of the gate.
        epochs: how often every sample is run.
        name: what the candidate is called.
    """

    @scorer(metrics=[promoted(gate, epochs, name)], name="gated")
    def wrapped() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score | None:
            return await inner(state, target)

        return score

    return wrapped()


def _single(value: Any) -> Any:
    """The value itself; of a dictionary with one entry, that entry."""
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
