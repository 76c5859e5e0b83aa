"""What a gate's record says of its checks: who is the incumbent, who was compared with it, which names are taken."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING

from everhold.ledger.gate_check import Candidate

if TYPE_CHECKING:
    from everhold.gate.rules import GateRules
    from everhold.ledger.rounds import RecordedAct

__all__ = ["GateChecks", "promoted_by"]


class GateChecks:
    """The checks in a record, in their order.

    Args:
        acts: all acts of the gate's study.
        rules: the contract, which names the first incumbent.
    """

    def __init__(self, acts: Iterable[RecordedAct], rules: GateRules) -> None:
        self.acts = [act for act in acts if act.begun.kind == "check"]
        self._first = Candidate(rules.incumbent, rules.first, rules.artifact)

    @property
    def ended(self) -> list[RecordedAct]:
        """Those that were not interrupted."""
        return [act for act in self.acts if not act.done.interrupted]

    @property
    def checked(self) -> int:
        """How many candidates checks have taken from those that wait."""
        return sum(len(act.begun.asked) for act in self.ended)

    @property
    def incumbent(self) -> Candidate:
        """The present one."""
        promotions = (promoted for act in reversed(self.acts) if (promoted := promoted_by(act)) is not None)
        return next(promotions, self._first)

    @property
    def artifacts(self) -> set[str]:
        """The candidates' files that were checked against the present incumbent."""
        now = self.incumbent.digest
        entries = [entry for act in self.ended if act.begun.options["incumbent"] == now for entry in act.begun.asked]
        return {entry["artifact"] for entry in entries if entry["artifact"] is not None}

    def of_waiting(self, place: int) -> RecordedAct | None:
        """The check that took the candidate at this place of those that waited, if there was one."""
        taken = 0
        for act in self.ended:
            taken += len(act.begun.asked)
            if place < taken:
                return act
        return None

    def is_incumbents_name(self, name: str, act: RecordedAct) -> bool:
        """Whether a candidate had the name of the incumbent that this check compared it with."""
        promotions = [promoted for check in self.acts if (promoted := promoted_by(check)) is not None]
        names = {promoted.digest: promoted.name for promoted in promotions}
        return _same_name(name, names.get(act.begun.options["incumbent"], self._first.name))

    def free_name(self, wanted: str | None, waiting: int, waiting_names: set[str]) -> str:
        """A name that no other candidate has.

        Args:
            wanted: by the caller; 'candidate 7' if None.
            waiting: how many candidates wait.
            waiting_names: of all that ever waited.
        """
        used = {entry["name"] for act in self.acts for entry in act.begun.asked} | waiting_names | {self._first.name}
        number = sum(len(act.begun.asked) for act in self.acts) + waiting + 1
        plain = wanted if wanted is not None else f"candidate {number}"
        names = (plain if again == 1 else f"{plain} ({again})" for again in count(1))
        return next(name for name in names if name not in used)


def promoted_by(act: RecordedAct) -> Candidate | None:
    """The candidate that a check promoted."""
    if act.done.interrupted or not act.done.result["promoted"]:
        return None
    return Candidate.from_record(act.begun.asked[int(act.done.outcome or 0)])


def _same_name(name: str, other: str) -> bool:
    """Whether two candidates were called alike, but for a number that tells a later one from an earlier one.

    >>> _same_name("shorter (2)", "shorter"), _same_name("shorter", "shortest")
    (True, False)
    """
    first, second = (re.sub(r" \(\d+\)$", "", text) for text in (name, other))
    return first == second
