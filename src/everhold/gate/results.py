"""What a gate returns: the verdict on a candidate, where it stands, its total gain."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from everhold.queries.disclosed import width_factor
from everhold.results import JsonResult, counted

__all__ = ["CheckResult", "CheckState", "GateStatus", "TotalGain"]

CheckState = Literal["promoted", "kept", "screened", "waiting", "same"]
_REASONS: dict[CheckState, str] = {
    "promoted": "",
    "kept": "the sealed cases do not show that it is better.",
    "screened": "it is not better on the visible cases. The sealed cases were not read, and nothing was charged.",
    "waiting": "it waits for the others of its generation. Nothing was charged.",
    "same": "it is the incumbent itself: the same bytes. The sealed cases were not read, and nothing was charged.",
}
_REPEATED = "Recorded verdict: this request id was used before. This file was not checked."


@dataclass(frozen=True, slots=True)
class CheckResult(JsonResult):
    """The verdict on a candidate.

    Attributes:
        promoted: whether this candidate is the new incumbent.
        state: 'promoted', 'kept' (it is not the new incumbent), 'screened' (not better on visible cases), 'waiting' (for its
            generation), 'same' (it is the incumbent).
        name: of this candidate.
        winner: the name of the new incumbent, where the check promoted one: this candidate, or another of its generation.
        by: what it must be better by, and if `certified` is: all such claims of a gate are valid at the same time.
        certified: whether that is a claim about the population of cases.
        checks, promotions: of this gate so far.
        waiting: candidates that wait for the generation to be full.
        price: the price in nats that a promotion was judged at.
        repeated: whether it is the recorded verdict of an earlier request with the same id: these outcomes were not checked.
        is_incumbent: whether a candidate that was kept out came under the incumbent's own name: perhaps a job that was tried
            again.
    """

    promoted: bool
    state: CheckState
    name: str
    winner: str | None
    by: float
    certified: bool
    checks: int
    promotions: int
    waiting: int
    price: float
    repeated: bool = False
    is_incumbent: bool = False

    def __bool__(self) -> bool:
        return self.promoted

    @property
    def verdict(self) -> Literal["promote", "keep", "wait"]:
        """What to do, in a word."""
        return "promote" if self.promoted else "wait" if self.state == "waiting" else "keep"

    @property
    def reason(self) -> str:
        """Why, in a sentence."""
        if self.winner is not None and not self.promoted:
            return f"another candidate of its generation was promoted, “{self.winner}”."
        if self.state != "promoted":
            return _REASONS[self.state]
        if not self.certified:
            return "it is better on the sealed cases. The total gain is certified at the end."
        return f"it is certified better than the incumbent{f' by more than {self.by:.4g}' if self.by else ''}."

    def __str__(self) -> str:
        text = f"{self.verdict}: {self.name}: {self.reason} ({_counted(self.checks, self.promotions)})"
        if self.is_incumbent:
            text += (
                "\nA candidate of that name is already the incumbent. If a job was tried again: it needs a request id "
                "(--request-id), which gets the recorded verdict, uncharged."
            )
        return f"{text}\n{_REPEATED}" if self.repeated else text

    def __repr__(self) -> str:
        return f"CheckResult({self})".replace("\n", " ")

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "kind": "gate_check",
            "verdict": self.verdict,
            **asdict(self),
            "reason": self.reason,
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> CheckResult:
        """The same again, equal to the bit."""
        late = ("repeated", "is_incumbent")
        values = {name: given[name] for name in cls.__slots__ if name not in late}
        return cls(**values, **{name: given.get(name, False) for name in late})


@dataclass(frozen=True, slots=True)
class GateStatus(JsonResult):
    """Where a gate stands. Everything in it is public.

    Attributes:
        cases, visible: sealed cases, and visible ones.
        outcomes: 'pass' or 'score'.
        by, certify, generation_size, confidence: the contract.
        checks, promotions, interrupted: so far.
        waiting: candidates of an unfinished generation.
        incumbent: the name of the present one.
        price: what the next promotion is judged at, in nats.
        left: how many more promotions of the gate's own step are possible, or of 3 and of 6 points; by points.
        used_up: whether no promotion is possible any more, or none of the gate's own step.
        finished: whether the last act was made.
        new_budget: why these cases have a second gate, where they have.
        head: of the ledger.
        privacy: what is promised about every sealed case, spent and left; None where nothing is promised.
        step: the smallest gain that matters, where the gate was made for one.
        smallest: a candidate that is better by so much is promoted by the next check with a probability of 80 %; None where
            that is true of none, or where promotions are not certified one by one.
        left_at_first: what `left` was before the first check.
        older: whether this is an older copy of the gate: another one has gone on, and this one checks nothing.
    """

    cases: int
    visible: int
    outcomes: str
    by: float
    certify: str
    generation_size: int
    confidence: float
    checks: int
    promotions: int
    interrupted: int
    waiting: int
    incumbent: str
    price: float
    left: dict[str, int]
    used_up: bool
    finished: bool
    new_budget: str | None
    head: str
    privacy: dict[str, Any] | None = None
    step: float | None = None
    smallest: float | None = None
    left_at_first: dict[str, int] = field(default_factory=dict)
    older: bool = False

    def __str__(self) -> str:
        shown = "" if not self.visible else f" and {self.visible:,} visible ones"
        contract = "every promotion is certified" if self.certify == "each" else "the total gain is certified at the end"
        lines = [
            f"{self.cases:,} sealed cases{shown}; {contract} at {self.confidence:.0%} confidence"
            + (f", better by more than {self.by:.4g}" if self.by else "")
            + (f"; one check for {self.generation_size:,} candidates" if self.generation_size > 1 else ""),
            f"{_counted(self.checks, self.promotions)}; the incumbent is “{self.incumbent}”"
            + (f"; {counted(self.waiting, 'candidate')} wait{'s' if self.waiting == 1 else ''}" if self.waiting else "")
            + (f"; {counted(self.interrupted, 'check')} interrupted, and charged" if self.interrupted else ""),
        ]
        if self.older:
            lines.insert(
                0,
                "This is an older copy of the gate: another one has gone on, and more was disclosed than is shown here. It "
                "checks nothing: use the newest copy.",
            )
        if self.finished:
            lines.append("The last act was made: the gate checks nothing more.")
        elif self.used_up and self.privacy is not None and not self.privacy["promotions_left"]:
            lines.append("Used up: the privacy budget pays for no further promotion. Add new cases.")
        elif self.used_up and self.step is not None:
            lines.append(
                f"Used up: so much was disclosed that these cases cannot certify promotions of {100 * self.step:.4g} points "
                "any more. Add new cases."
            )
        elif self.used_up:
            lines.append("Used up: so much was disclosed that these cases cannot certify any promotion. Add new cases.")
        else:
            lines += [self._left(points, count) for points, count in self.left.items()]
            if self.certify == "each":
                lines.append(
                    "The next check can certify no step with a probability of 80 %."
                    if self.smallest is None
                    else f"The next check certifies a step of {100 * self.smallest:.3g} points, with a probability of 80 %, "
                    f"for a candidate that changes {max(10.0, 100 * self.smallest):.3g} % of the cases; one that changes "
                    "fewer needs less."
                )
            lines.append(self._rule())
        if self.privacy is not None:
            lines.append(self.privacy["text"])
        if self.new_budget is not None:
            lines.append(f"New budget for cases that had one: {self.new_budget}")
        return "\n".join(lines)

    def _rule(self) -> str:
        """How the next candidate is judged."""
        if self.certify == "final":
            margin = f" over {self.by:.4g}" if self.by else ""
            return f"The next candidate is promoted if its mean lead{margin} on the sealed cases is more than " + (
                "about two standard errors and the noise allow for." if self.privacy else "one standard error."
            )
        return (
            f"The next promotion is judged at {self.price:.1f} nats: a lead must be {width_factor(self.price):.1f} "
            f"times as large as for a plain 95 % interval{', and larger for the noise' if self.privacy else ''}."
        )

    def _left(self, points: str, count: int) -> str:
        if count:
            return (
                f"{counted(count, 'more promotion')} of {_points(points)} {'are' if count > 1 else 'is'} foreseen, if "
                f"candidates change {_changed(points)} % of the cases."
            )
        if self.left_at_first.get(points) == 0:
            return f"{self._candidate(points)} is probably not promoted with {self.cases:,} cases."
        return f"{self._candidate(points)} is probably not promoted any more with {self.cases:,} cases."

    @staticmethod
    def _candidate(points: str) -> str:
        """Of which candidates forecasts speak: those that change fewer cases are promoted sooner."""
        return f"A candidate that is {_points(points)} better and changes {_changed(points)} % of the cases"

    def __repr__(self) -> str:
        return f"GateStatus({_counted(self.checks, self.promotions)}, {self.price:.1f} nats)"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"kind": "gate_status", **asdict(self)}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> GateStatus:
        """The same again, equal to the bit."""
        values = {field.name: given[field.name] for field in fields(cls) if field.name in given}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class TotalGain(JsonResult):
    """How much better the last incumbent is than the first, by the last act of a gate.

    Attributes:
        gain: the mean difference on the sealed cases.
        low: in the population the gain is larger than this, at the same time as every certified promotion.
        promotions: in between.
        price: the price in nats.
    """

    gain: float
    low: float
    promotions: int
    price: float

    @property
    def certified(self) -> bool:
        """Whether there is any gain in the population."""
        return self.low >= 0.0

    def __str__(self) -> str:
        certainty = "certified" if self.certified else "a gain is not certified"
        certainty = "there was no promotion" if not self.promotions else certainty
        low = f"at least {self.low:+.4g} in the population of cases"
        return f"gain {self.gain:+.4g}, {low} ({certainty}; {counted(self.promotions, 'promotion')})"

    def __repr__(self) -> str:
        return f"TotalGain({self})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"kind": "total_gain", **asdict(self), "certified": self.certified}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> TotalGain:
        """The same again, equal to the bit."""
        return cls(**{name: given[name] for name in cls.__slots__})


def _points(points: str) -> str:
    return f"{points} point{'' if points == '1' else 's'}"


def _changed(points: str) -> str:
    """How many cases candidates of that size are taken to change, in per cent."""
    return f"{max(10.0, float(points)):.4g}"


def _counted(checks: int, promotions: int) -> str:
    return f"{counted(checks, 'check')}, {counted(promotions, 'promotion')}"
