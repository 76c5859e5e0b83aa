"""The contract of a gate, as its file keeps it. Everything in it is public."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from everhold.bounds.gain import SCORE_ONE
from everhold.errors import LedgerError, SettingError, require_number
from everhold.ledger.gate_check import CertifyWhen, GateMethod
from everhold.ledger.safe_files import read_json, to_json, write_atomic

__all__ = ["GateRules", "OutcomeKind"]

OutcomeKind = Literal["pass", "score"]


@dataclass(frozen=True, slots=True)
class GateRules:
    """What a gate promises, fixed when it is made.

    Attributes:
        cases, visible: how many sealed and how many visible cases there are.
        outcomes: 'pass' (every case passes or fails, in one run) or 'score' (between 0 and 1).
        by: what a candidate must be better by, in steps of 1/SCORE_ONE.
        certify: 'each' promotion, or only the 'final' gain.
        generation_size: how many candidates one check chooses from.
        confidence: probability that all claims are valid at the same time.
        incumbent: the first one's name.
        first: the keyed digest of its outcomes.
        artifact: the keyed digest of its file, where one was given.
        new_budget: why these cases have a new budget, where they had one before.
        step: the smallest gain that matters: the gate is used up when it cannot certify it any more; None: no such size.
        private: whether privacy is promised for every sealed case. What is promised stands in the study's own settings.
    """

    cases: int
    visible: int
    outcomes: OutcomeKind
    by: int
    certify: CertifyWhen
    generation_size: int
    confidence: float
    incumbent: str
    first: str
    artifact: str | None
    new_budget: str | None
    private: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        if self.outcomes not in ("pass", "score"):
            raise SettingError(f"outcomes is {self.outcomes!r}. Expected 'pass' or 'score'.")
        if self.certify not in ("each", "final"):
            raise SettingError(f"certify is {self.certify!r}. Expected 'each' or 'final'.")
        if not 0 <= self.by < SCORE_ONE:
            raise SettingError(f"by is {self.by / SCORE_ONE:.4g}. Expected at least 0 and less than 1.")
        if self.generation_size < 1:
            raise SettingError(f"generation_size is {self.generation_size!r}. Expected at least 1 candidate.")
        if self.private and self.generation_size > 1:
            raise SettingError(
                "a private gate checks one candidate at a time: which of a generation is promoted would disclose more than "
                "one bit, at a price for every check. Expected generation_size=1, or a gate without privacy."
            )
        if self.step is not None:
            require_number(self.step, "step")
            if not self.by / SCORE_ONE < self.step < 1.0:
                raise SettingError(
                    f"step is {self.step!r}. Expected a gain below 1 that is larger than by ({self.by / SCORE_ONE:.4g}): "
                    "0.03 are three points."
                )
        if not 0.0 < self.confidence < 1.0:
            raise SettingError(f"confidence is {self.confidence!r}. Expected a probability, for example 0.95.")

    @property
    def method(self) -> GateMethod:
        """How outcomes are compared: exactly where they pass or fail without a margin, and with privacy by a noisy test."""
        if self.private:
            return "noisy bets"
        return "mcnemar" if self.outcomes == "pass" and self.by == 0 else "bets"

    def describe(self) -> str:
        """One line for people; it stands in the study's first record."""
        what = "pass or fail" if self.outcomes == "pass" else "scores"
        claims = "every promotion" if self.certify == "each" else "the final gain"
        margin = f"better by more than {self.by}/{SCORE_ONE}" if self.by else "better"
        line = f"a gate: {self.cases:,} sealed and {self.visible:,} visible cases, {what}, {margin}, {claims} certified"
        line += f", generations of {self.generation_size:,}" if self.generation_size > 1 else ""
        line += f", steps of {self.step!r}" if self.step is not None else ""
        line += ", private" if self.private else ""
        return line + (f"; new budget: {self.new_budget}" if self.new_budget is not None else "")

    def save(self, path: Path) -> None:
        """Write them."""
        kept = {name: value for name, value in asdict(self).items() if name not in ("private", "step") or value}
        write_atomic(path, to_json(kept))

    @classmethod
    def load(cls, path: Path) -> GateRules:
        """Read them again."""
        try:
            return cls(**read_json(path))
        except FileNotFoundError:
            raise LedgerError(
                f"there is no gate at {path.name.removesuffix('.gate.json')}. Make one: everhold gate create."
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise LedgerError(
                f"{path} cannot be read as a gate's rules ({type(error).__name__}). Restore it from a backup."
            ) from None
