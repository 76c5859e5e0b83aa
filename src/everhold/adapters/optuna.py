"""A gate for Optuna: `study.optimize(objective, callbacks=[PromoteBest("gate.everhold", evaluate)])`.

The search is led by its own objective, on public data. Only a trial that is the best so far is checked at the gate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from everhold.adapters.opening import AnyGate, opened
from everhold.errors import GateUsedUp

if TYPE_CHECKING:
    from everhold.gate.results import CheckResult

__all__ = ["PromoteBest"]


class PromoteBest:
    """A callback that checks every new best trial at a gate. `study.user_attrs["everhold_incumbent"]` names the incumbent.

    Args:
        gate: a gate, or its path.
        evaluate: from a finished trial to its outcomes on the gate's cases, `{case: score}`. Called for best trials only. Do
            not keep what it returns in the study, which the search can read.
        stop: whether the search ends when the gate is used up; otherwise trials go on unchecked.

    Attributes:
        results: the verdict of every trial that was checked, by its number.
        used_up: whether the gate can promote nothing more.
    """

    def __init__(self, gate: AnyGate, evaluate: Callable[[FrozenTrial], Any], *, stop: bool = True) -> None:
        self.gate = opened(gate)
        self._evaluate = evaluate
        self._stop = stop
        self.results: dict[int, CheckResult] = {}
        self.used_up = False

    def __call__(self, study: Study, trial: FrozenTrial) -> None:
        """After every trial."""
        if self.used_up or trial.state != TrialState.COMPLETE or study.best_trial.number != trial.number:
            return
        try:
            result = self.gate.check(self._evaluate(trial), name=f"trial {trial.number}")
        except GateUsedUp:
            self.used_up = True
            if self._stop:
                study.stop()
            return
        self.results[trial.number] = result
        if result.promoted:
            study.set_user_attr("everhold_incumbent", result.name)
