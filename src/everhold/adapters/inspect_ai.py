"""A gate for inspect_ai: a scorer whose only metric is the verdict, and the same for a log that is there already.

    from everhold.adapters.inspect_ai import gated
    task = Task(dataset=cases, solver=generate(), scorer=gated(match(), "gate.everhold"))

The scorer replaces the metrics of the one that it wraps, because the accuracy on sealed cases would disclose far more than
the verdict. A log holds the score of every sample: keep logs where candidates cannot read them.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from inspect_ai.hooks import Hooks, RunEnd, SampleEnd, TaskStart, hooks
from inspect_ai.log import EvalLog, EvalSample, EvalSpec
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from everhold.adapters.opening import AnyGate, opened
from everhold.errors import InvalidOutcomes
from everhold.gate.candidate_files import candidate_samples
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

    A case without a sample, because the evaluation ended early, is a failure as well: a candidate can end it.

    Raises:
        InvalidOutcomes: samples were not logged, or the evaluation has several scorers. Nothing was charged.
    """
    if log.samples is None and log.status == "success":
        raise InvalidOutcomes(
            "the log has no samples. Expected a log of an evaluation that writes them (log_samples). Nothing was charged."
        )
    samples = [_sample(one) for one in log.samples or ()]
    pairs = candidate_samples(samples, score, len(log.eval.scorers or ()))
    return opened(gate).check(list(pairs), name=name or str(log.eval.model))


def _sample(sample: EvalSample) -> dict[str, Any]:
    """What counts of a sample, as a log has it."""
    scores = {name: {"value": found.value} for name, found in (sample.scores or {}).items()}
    return {"id": sample.id, "error": sample.error is not None, "scores": scores}


@metric(scores="unreduced")
def promoted(gate: str, epochs: int = 1, name: str | None = None) -> Metric:
    """1 if the gate promotes what was evaluated, 0 if it keeps the incumbent, NaN while samples still run.

    inspect_ai also computes metrics while samples still run. So the gate is checked when the last one has ended, once in a
    run. A sample that ended with an error, and one that never ran, is a failure. A run that ends before that is checked when
    it ends: else a candidate could end it to learn something for nothing.

    Args:
        gate: its path.
        epochs: how often every sample is run.
        name: what the candidate is called.
    """

    def compute(scores: list[SampleScore]) -> float:
        found = [(sample.sample_id, _single(sample.score.value)) for sample in scores]
        run = _now.get()
        if run is None:  # scored outside an evaluation: no sample still runs
            return float(Gate(gate).check(found, name=name).promoted)
        rules = Gate(gate).rules
        if len(found) + run.without_score < (rules.cases + rules.visible) * epochs:
            return float("nan")
        return run.verdict(gate, name, found)

    return compute


class _Run:
    """The evaluation of a task: which samples have ended, and what its gates said."""

    def __init__(self, run: str, spec: EvalSpec) -> None:
        self.id = run
        self._gates = [
            (scorer.name, one.options["gate"], one.options.get("name"))
            for scorer in spec.scorers or ()
            for one in (scorer.metrics if isinstance(scorer.metrics, list) else ())
            if getattr(one, "name", "") == "everhold/promoted" and "gate" in (one.options or {})
        ]
        self._ended: list[EvalSample] = []
        self._verdicts: dict[tuple[str, str | None], float] = {}

    @property
    def without_score(self) -> int:
        """How many samples have ended without a score."""
        return sum(not sample.scores for sample in self._ended)

    def add(self, sample: EvalSample) -> None:
        """A sample has ended."""
        self._ended.append(sample)

    def verdict(self, gate: str, name: str | None, found: list[tuple[Any, Any]]) -> float:
        """What the gate says; the same again in the same run."""
        if (gate, name) not in self._verdicts:
            self._verdicts[gate, name] = float(Gate(gate).check(found, name=name).promoted)
        return self._verdicts[gate, name]

    def end(self) -> None:
        """Check what was not checked: no metric was computed, because the run ended early or nothing had a score."""
        for score, gate, name in self._gates:
            scored = [(sample.id, (sample.scores or {}).get(score)) for sample in self._ended]
            self.verdict(gate, name, [(case, found and _single(found.value)) for case, found in scored])


_now: ContextVar[_Run | None] = ContextVar("everhold_run", default=None)
_runs: dict[str, _Run] = {}


@hooks(name="everhold_gate", description="counts the samples that have ended, for the gate")
class _Watch(Hooks):  # type: ignore[misc]
    """Knows when the last sample has ended, and when a run ends without a verdict."""

    async def on_task_start(self, data: TaskStart) -> None:
        """A new run of a task begins: what was said in another is forgotten."""
        _runs[data.eval_id] = _Run(data.run_id, data.spec)
        _now.set(_runs[data.eval_id])

    async def on_sample_end(self, data: SampleEnd) -> None:
        """A sample has ended, with a score or with an error."""
        if data.eval_id in _runs:
            _runs[data.eval_id].add(data.sample)

    async def on_run_end(self, data: RunEnd) -> None:
        """All tasks of a run have ended, however they did."""
        for task in [task for task, run in _runs.items() if run.id == data.run_id]:
            _runs.pop(task).end()


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
