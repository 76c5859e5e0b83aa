"""What an audit of a gate found: checks and promotions, which are no rounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from everhold.bounds.gain import SCORE_ONE
from everhold.ledger.audit import Audit
from everhold.results import PlainResult, counted

if TYPE_CHECKING:
    from everhold.gate.rules import GateRules
    from everhold.ledger.logged_act import LoggedAct

__all__ = ["GateAudit"]


@dataclass(frozen=True, slots=True)
class GateAudit(Audit):
    """The same as of a study, in the words of a gate.

    Attributes:
        rules: the contract.
        checks: how many were replayed.
        promotions: how many of them were promotions.
    """

    rules: GateRules = field(kw_only=True)
    checks: int = 0
    promotions: int = 0

    @classmethod
    def of(cls, plain: Audit, rules: GateRules, acts: Iterable[LoggedAct]) -> GateAudit:
        """From the audit of the study, and its acts: each check has to have the gate's contract."""
        found = cls(plain.rounds, plain.surprises, plain.unchecked, plain.deviation, rules=rules)
        for act in acts if found.ok else ():
            if act.act != "check":
                continue
            promoted = act.result is not None and bool(act.result["promoted"])
            found = replace(found, checks=found.checks + 1, promotions=found.promotions + promoted)
            contract = rules.by / SCORE_ONE, promoted and rules.certify == "each"
            if act.result is not None and (act.result["by"], act.result["certified"]) != contract:
                return replace(found, deviation="a check in the ledger was made by another contract than the gate's.")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        plain = {name: value for name, value in PlainResult.to_dict(self).items() if name != "rules"}
        return {"ok": self.ok, **plain}

    def __str__(self) -> str:
        if self.deviation is not None:
            return f"audit: FAILED at the first of these: {self.deviation}"
        replayed = f"{counted(self.checks, 'check')} with {counted(self.promotions, 'promotion')}"
        return f"audit: ok, {replayed} replayed without the data"

    __repr__ = __str__
