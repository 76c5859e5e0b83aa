"""A gate's acts as they are recorded: a check of candidates against the incumbent, and the last act, the total gain."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from everhold.bounds.code import LAST_SPEND
from everhold.bounds.gain import SCORE_ONE
from everhold.bounds.private_gain import noisy_gain_end

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget
    from everhold.ledger.rounds import ActStart

__all__ = ["Candidate", "CertifyWhen", "CheckPlan", "GainPlan", "GateMethod"]

GateMethod = Literal["mcnemar", "bets", "noisy bets"]
CertifyWhen = Literal["each", "final"]

_KEEP = -1
_NOISY = "noisy bets"
_CANDIDATE_KEYS = {"kind", "name", "digest", "artifact"}
_CHECK_OPTIONS = {"incumbent", "by", "method", "certify"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate as the record knows it.

    Attributes:
        name: what it is called.
        digest: keyed digest of its outcomes; empty before they are kept.
        artifact: keyed digest of its file, where there is one.
    """

    name: str
    digest: str
    artifact: str | None

    @classmethod
    def from_record(cls, entry: dict[str, Any]) -> Candidate:
        """From a record."""
        if set(entry) != _CANDIDATE_KEYS or entry["kind"] != "candidate":
            raise ValueError("something else than a candidate")
        return cls(str(entry["name"]), str(entry["digest"]), entry["artifact"])

    @property
    def record(self) -> dict[str, Any]:
        """For a record."""
        return {"kind": "candidate", "name": self.name, "digest": self.digest, "artifact": self.artifact}


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """Everything about a check that is fixed before the outcomes of its candidates are compared.

    Disclosed is which candidate is promoted, or that none is.

    Attributes:
        candidates: what is compared with the incumbent.
        incumbent: keyed digest of the one to beat.
        by: what a candidate must be better by, in steps of 1/SCORE_ONE.
        method: how outcomes are compared.
        certify: 'each' promotion is a claim about the population, or only the 'final' gain is.
    """

    candidates: tuple[Candidate, ...]
    incumbent: str
    by: int
    method: GateMethod
    certify: CertifyWhen

    @classmethod
    def from_record(cls, begun: ActStart) -> CheckPlan:
        """The plan of a recorded act."""
        options = begun.options
        if set(options) != _CHECK_OPTIONS or not begun.asked:
            raise ValueError("a check with other options than it can have")
        if options["method"] not in get_args(GateMethod) or options["certify"] not in ("each", "final"):
            raise ValueError("a check by another method than it can have")
        by = options["by"]
        if type(by) is not int or not 0 <= by < SCORE_ONE or (by and options["method"] == "mcnemar"):
            raise ValueError("a check by a margin that it cannot have")
        if options["method"] == _NOISY and len(begun.asked) > 1:
            raise ValueError("a private check of several candidates")
        candidates = tuple(Candidate.from_record(entry) for entry in begun.asked)
        return cls(candidates, str(options["incumbent"]), by, options["method"], options["certify"])

    @property
    def asked(self) -> tuple[dict[str, Any], ...]:
        """The candidates, for the record."""
        return tuple(candidate.record for candidate in self.candidates)

    @property
    def options(self) -> dict[str, Any]:
        """Everything else, for the record."""
        return {"incumbent": self.incumbent, "by": self.by, "method": self.method, "certify": self.certify}

    def price(self, budget: Budget) -> float:
        """What a promotion is judged at, in nats."""
        return budget.promotion_price(len(self.candidates))

    def charge(self, budget: Budget, outcome: object, *, interrupted: bool) -> Budget:
        """The budget after the check."""
        if (budget.privacy is None) == (self.method == _NOISY):
            raise ValueError("a method that does not belong to the gate")
        certified = self.certify == "each"
        if interrupted:
            return budget.checked("interrupted", certified=certified)
        promoted = self._index(outcome) is not None
        return budget.checked("promoted" if promoted else "kept", len(self.candidates), certified=certified)

    def _index(self, outcome: object) -> int | None:
        if type(outcome) is not int or not _KEEP <= outcome < len(self.candidates):
            raise ValueError("an outcome that no check has")
        return None if outcome == _KEEP else outcome

    def disclosed(self, index: int | None) -> int:
        """What is disclosed."""
        return _KEEP if index is None else index

    def result(self, outcome: object, price: float) -> dict[str, Any]:
        """What is returned."""
        index = self._index(outcome)
        return {
            "kind": "check",
            "promoted": index is not None,
            "name": None if index is None else self.candidates[index].name,
            "candidates": len(self.candidates),
            "by": self.by / SCORE_ONE,
            "certified": index is not None and self.certify == "each",
            "price": price,
        }


@dataclass(frozen=True, slots=True)
class GainPlan:
    """The last act of a gate: how much better the incumbent of now is than the first one. Nothing is disclosed after it.

    Attributes:
        first, last: keyed digests of both.
        cases: how many there are.
        noise: σ of a private gate, in 1/64; None where the gain is disclosed exactly.
    """

    first: str
    last: str
    cases: int
    noise: int | None = None

    @classmethod
    def from_record(cls, begun: ActStart) -> GainPlan:
        """The plan of a recorded act."""
        options = begun.options
        plain = set(options) - {"method", "noise"} == {"first", "last", "cases"} and type(options["cases"]) is int
        noise = options.get("noise")
        noisy = noise is None or (type(noise) is int and noise > 0)
        if begun.asked or not plain or not noisy or ("method" in options) != ("noise" in options):
            raise ValueError("a gate's last act with other options than it can have")
        if options.get("method", _NOISY) != _NOISY:
            raise ValueError("a gate's last act by another method than it can have")
        return cls(str(options["first"]), str(options["last"]), options["cases"], noise)

    @property
    def options(self) -> dict[str, Any]:
        """For the record."""
        plain = {"first": self.first, "last": self.last, "cases": self.cases}
        return plain if self.noise is None else {**plain, "method": _NOISY, "noise": self.noise}

    def price(self, budget: Budget) -> float:
        """What the lower end of the gain is judged at, in nats."""
        return budget.claim_price(LAST_SPEND, sides=1)

    def charge(self, budget: Budget, *, interrupted: bool) -> Budget:
        """The budget after it. Nothing follows, unless it was interrupted."""
        expected = None if budget.privacy is None else budget.privacy.terms.release_parts
        if self.noise != expected:
            raise ValueError("a method that does not belong to the gate")
        return (budget.interrupted() if interrupted else budget.released()).claimed(LAST_SPEND)

    def noisily_disclosed(self, total: int, price: float) -> str:
        """The same of a private gate, from a sum with noise; the lower end follows from it."""
        most = SCORE_ONE * self.cases
        seen = min(max(total, -most), most)
        return self.disclosed(seen, self._noisy_end(seen, price))

    def _noisy_end(self, total: int, price: float) -> int:
        if self.first == self.last:
            return 0
        return noisy_gain_end(total, cases=self.cases, release_parts=self.noise or 1, nats=price)

    def disclosed(self, total: int, low: int) -> str:
        """What is disclosed: the sum of all differences, and the lower end of their mean, in steps."""
        return json.dumps([total, low])

    def result(self, outcome: object, price: float) -> dict[str, Any]:
        """What is returned."""
        parsed = json.loads(outcome) if isinstance(outcome, str) else None
        if not isinstance(parsed, list) or [type(item) for item in parsed] != [int, int]:
            raise ValueError("an outcome that no gate has")
        total, low = parsed
        if abs(total) > SCORE_ONE * self.cases or not -SCORE_ONE <= low <= SCORE_ONE:
            raise ValueError("an outcome that no gate has")
        if self.noise is not None and low != self._noisy_end(total, price):
            raise ValueError("a lower end that does not follow from the noisy gain")
        return {"kind": "gain", "gain": total / (SCORE_ONE * self.cases), "low": low / SCORE_ONE, "price": price}
