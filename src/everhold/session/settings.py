"""The public settings of a session, as values that a record can keep."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from everhold.bounds.privacy import PrivacyTerms
from everhold.errors import LedgerError, SettingError, require_number, require_whole
from everhold.mechanism.rules import Corrective, Entropic, Gradient, Rule
from everhold.mechanism.tolerance import Anytime, FixedPrecision, TolerancePolicy
from everhold.queries.rng import require_seed

if TYPE_CHECKING:
    from everhold.data.sample import EngineName
    from everhold.data.schema import Schema

__all__ = ["HoldoutOptions", "OverlapRule", "RuleName", "Settings"]

RuleName = Literal["corrective", "gradient", "entropic"]
OverlapRule = Literal["refuse", "allow"]


class HoldoutOptions(TypedDict, total=False):
    """The options of `Holdout`, for functions that pass them on; `Holdout` says what each means."""

    confidence: float
    half_width: float | None
    rule: RuleName | Rule
    density: float | None
    known_rows: int
    seed: int | None
    tolerance: TolerancePolicy | None
    schema: Schema | str | Path | None
    unit: str | None
    engine: EngineName
    memory_limit: str | None
    overlap: OverlapRule
    rounds: int | None


@dataclass(frozen=True, slots=True)
class Settings:
    """The public settings of a session. Together with the prior they fix everything but what the data says.

    Attributes:
        confidence: probability that all intervals of the session are valid at the same time.
        half_width: promised half-width on the share scale (fixed precision), or None (anytime).
        rule: how surprises teach the sketch; a name, or a rule object.
        density: λ where one is known: `D ≤ π/λ`; it caps the density ratio. The prior's own when left out.
        known_rows: how many private rows the analyst may know.
        seed: of all coins.
        tolerance: a policy to use instead of the default for `half_width`.
        overlap: whether a reference that holds private rows was to be refused, or allowed.
        rounds: how many asks are planned, where that is declared. Their intervals are narrower; later ones a little wider.
        privacy: what is promised about every row, with its noise; None: nothing.
    """

    confidence: float = 0.95
    half_width: float | None = None
    rule: RuleName | Rule = "corrective"
    density: float | None = None
    known_rows: int = 0
    seed: int = 0
    tolerance: TolerancePolicy | None = None
    overlap: OverlapRule = "refuse"
    rounds: int | None = None
    privacy: PrivacyTerms | None = None

    def __post_init__(self) -> None:
        require_number(self.confidence, "confidence")
        object.__setattr__(self, "confidence", float(self.confidence))
        if not 1e-9 < self.confidence < 1.0:
            raise SettingError(
                f"confidence lies strictly between 0 and 1, not at {self.confidence!r}. 0.95 is usual: all intervals of a "
                "session are valid in 95 of 100 sessions."
            )
        if self.half_width is not None:
            require_number(self.half_width, "half_width")
            if not 0.0 < self.half_width < 1.0:
                raise SettingError(f"half_width is on the share scale, between 0 and 1, not {self.half_width!r}")
        if self.density is not None:
            require_number(self.density, "density")
            if not 0.0 < self.density <= 1.0:
                raise SettingError(f"the density λ lies in (0, 1], not at {self.density!r}")
        require_whole(self.known_rows, "known_rows")
        require_whole(self.seed, "seed")
        if self.rounds is not None:
            require_whole(self.rounds, "rounds")
            if self.rounds < 1:
                raise SettingError(f"rounds is {self.rounds!r}. Expected the number of asks that are planned, or None.")
        for name, kind in (
            ("half_width", float),
            ("density", float),
            ("known_rows", int),
            ("seed", int),
            ("rounds", int),
        ):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, kind(value))
        require_seed(self.seed)
        if self.overlap not in get_args(OverlapRule):
            raise SettingError(f"overlap is one of {', '.join(get_args(OverlapRule))}, not {self.overlap!r}")
        if isinstance(self.rule, str) and self.rule not in get_args(RuleName):
            raise SettingError(f"the rule is one of {', '.join(get_args(RuleName))}, not {self.rule!r}")
        if not isinstance(self.rule, str) and not hasattr(self.rule, "fit"):
            raise SettingError(f"the rule is a name or a rule such as eh.Corrective(), not {self.rule!r}")
        if self.tolerance is not None and not hasattr(self.tolerance, "tolerance"):
            raise SettingError(f"tolerance is a policy such as eh.Anytime(share=0.7), not {self.tolerance!r}")

        if self.privacy is not None and (self.half_width is not None or not isinstance(self.tolerance, Anytime | None)):
            raise SettingError(
                "a private study cannot promise a half-width: its noise has no largest value. Leave half_width out, and "
                "tolerance too, or use eh.Anytime(...)."
            )

    def tolerance_policy(self) -> TolerancePolicy:
        """The tolerance policy."""
        if self.tolerance is not None:
            return self.tolerance
        return Anytime() if self.half_width is None else FixedPrecision(2.0 * self.half_width)

    def make_rule(self, prior_density: float | None) -> Rule:
        """The rule, its cap set by the density where one is known."""
        if not isinstance(self.rule, str):
            return self.rule
        density = self.density or prior_density
        if self.rule == "gradient":
            return Gradient()
        if self.rule == "entropic":
            return Entropic()
        return Corrective() if density is None else Corrective(cap=min(max(1.0 / density, 1.01), 2.0**12))

    def to_dict(self) -> dict[str, Any]:
        """What a record keeps. Rules and policies of one's own cannot be kept.

        >>> Settings.from_dict(Settings(confidence=0.9, rule="entropic", seed=7).to_dict()).seed
        7
        """
        rule: Any = self.rule
        if not isinstance(rule, str):
            if type(rule) not in (Corrective, Entropic, Gradient):
                raise LedgerError("a rule of your own cannot be kept in a file. Expected a name, or a rule of everhold's.")
            rule = {"name": rule.name, **{key: _plain(value) for key, value in vars(rule).items() if key[0] != "_"}}
        tolerance: Any = self.tolerance
        if tolerance is not None:
            if type(tolerance) not in (Anytime, FixedPrecision) or not is_dataclass(tolerance):
                raise LedgerError("a tolerance of your own cannot be kept in a file. Expected eh.Anytime(...).")
            fields = asdict(tolerance)  # type: ignore[arg-type]
            kept = {_KEPT_AS.get(name, name): _plain(value) for name, value in fields.items()}
            tolerance = {"name": type(tolerance).__name__, **kept}
        record = {
            "confidence": self.confidence,
            "half_width": self.half_width,
            "rule": rule,
            "density": self.density,
            "known_rows": self.known_rows,
            "seed": str(self.seed),
            "tolerance": tolerance,
            "overlap": self.overlap,
            "rounds": self.rounds,
        }
        return record if self.privacy is None else {**record, "privacy": self.privacy.to_dict()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Settings:
        """From what a record kept."""
        try:
            if odd := sorted(set(record) - set(_KEPT)):
                raise ValueError(f"unknown entry {odd[0]!r}")
            rule, tolerance = record["rule"], record["tolerance"]
            if isinstance(rule, dict):
                rule_type = {"corrective": Corrective, "entropic": Entropic, "gradient": Gradient}[rule["name"]]
                rule = rule_type(**{key: value for key, value in rule.items() if key != "name"})
            if isinstance(tolerance, dict):
                policy = {"Anytime": Anytime, "FixedPrecision": FixedPrecision}[tolerance["name"]]
                if odd := sorted(set(tolerance) & set(_KEPT_AS)):
                    raise ValueError(f"unknown entry {odd[0]!r}")
                renamed = {name: tolerance[kept] for name, kept in _KEPT_AS.items() if kept in tolerance}
                same = {key: value for key, value in tolerance.items() if key not in ("name", *_KEPT_AS.values())}
                tolerance = policy(**same, **renamed)
            return cls(
                confidence=record["confidence"],
                half_width=record["half_width"],
                rule=rule,
                density=record["density"],
                known_rows=record["known_rows"],
                seed=int(record["seed"]),
                tolerance=tolerance,
                overlap=record["overlap"],
                rounds=record["rounds"],
                privacy=None if record.get("privacy") is None else PrivacyTerms.from_dict(record["privacy"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(f"the settings of the study are not readable ({error}).") from None


_KEPT = tuple(field.name for field in fields(Settings))
_KEPT_AS = {"deviations": "noise"}  # names of a tolerance policy's fields in records, where they differ


def _plain(value: Any) -> Any:
    """A number of numpy's, or a fraction, as Python's own."""
    if isinstance(value, bool | str) or value is None:
        return value
    return int(value) if isinstance(value, Integral) else float(value)
