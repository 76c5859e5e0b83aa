"""What an audit of a gate found: checks and promotions, which are no rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everhold.bounds.gain import SCORE_ONE
from everhold.ledger.audit import Audit
from everhold.results import PlainResult

if TYPE_CHECKING:
    from everhold.gate.rules import GateRules

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

    @property
    def guarantee(self) -> str:
        """What the gate promises, in a sentence."""
        rules = self.rules
        margin = f" by more than {rules.by / SCORE_ONE:.4g}" if rules.by else ""
        what = (
            f"every promoted candidate is better{margin} than the incumbent that it replaced, all of them at the same time"
            if rules.certify == "each"
            else "the total gain that the last act prints is no larger than the true one"
        )
        return (
            f"With probability {rules.confidence:g} over the {rules.cases:,} sealed cases, drawn independently from the "
            f"population, {what}, however candidates were found."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        plain = {name: value for name, value in PlainResult.to_dict(self).items() if name != "rules"}
        return {"ok": self.ok, **plain}

    def __str__(self) -> str:
        if self.deviation is not None:
            return f"audit: FAILED at the first of these: {self.deviation}"
        replayed = f"{_count(self.checks, 'check')} with {_count(self.promotions, 'promotion')}"
        return f"audit: ok, {replayed} replayed without the data"

    __repr__ = __str__


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
