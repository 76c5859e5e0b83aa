"""A gate for GEPA: `gepa.optimize(…, acceptance_criterion=PromotedByGate("gate.everhold", evaluate))`.

GEPA goes by scores of its training and validation examples. A proposal that looks better there is accepted only if it is
promoted at the gate, so that every candidate in the pool is certified against the one before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gepa.strategies.acceptance import AcceptanceCriterion, StrictImprovementAcceptance

from everhold.adapters.opening import AnyGate, opened
from everhold.errors import GateUsedUp

if TYPE_CHECKING:
    from gepa.core.state import GEPAState
    from gepa.proposer.base import CandidateProposal

    from everhold.gate.results import CheckResult

__all__ = ["PromotedByGate"]


class PromotedByGate:
    """Accepts a proposal that is better on its minibatch, and then promoted at a gate.

    It is also a stopper: `stop_callbacks=[criterion]` ends the search when the gate is used up.

    Args:
        gate: a gate, or its path.
        evaluate: from a candidate, `{component: text}`, to its outcomes on the gate's cases, `{case: score}`.
        first: what a proposal must pass before; GEPA's own rule when left out. It costs nothing.

    Attributes:
        results: the verdicts, in order.
        incumbent: the candidate that was promoted last.
        used_up: whether the gate can promote nothing more.
    """

    def __init__(
        self,
        gate: AnyGate,
        evaluate: Callable[[dict[str, str]], Any],
        *,
        first: AcceptanceCriterion | None = None,
    ) -> None:
        self.gate = opened(gate)
        self._evaluate = evaluate
        self._first: AcceptanceCriterion = first or StrictImprovementAcceptance()
        self.results: list[CheckResult] = []
        self.incumbent: dict[str, str] | None = None
        self.used_up = False
        self._reasons: dict[int, str] = {}

    def should_accept(self, proposal: CandidateProposal, state: GEPAState) -> bool:
        """Whether the proposal joins the pool."""
        if self.used_up or not self._first.should_accept(proposal, state):
            self._reasons[id(proposal)] = "the gate is used up" if self.used_up else "not better on its minibatch"
            return False
        candidate = dict(proposal.candidate)
        artifact = json.dumps(candidate, sort_keys=True).encode()
        try:
            result = self.gate.check(self._evaluate(candidate), name=f"iteration {state.i + 1}", artifact=artifact)
        except GateUsedUp:
            self.used_up = True
            self._reasons[id(proposal)] = "the gate is used up"
            return False
        self._reasons[id(proposal)] = result.reason
        self.results.append(result)
        if result.promoted:
            self.incumbent = candidate
        return result.promoted

    def reject_reason(self, proposal: CandidateProposal, state: GEPAState) -> str:
        """A sentence for GEPA's log."""
        return self._reasons.get(id(proposal), "not checked")

    def __call__(self, gepa_state: GEPAState) -> bool:
        """As a stopper: whether to end the search."""
        return self.used_up
