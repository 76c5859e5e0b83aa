"""How rare a trait must be before a study's answers cannot single out a row by it: the paper's theorem, made sharp.

`docs/theory/singling_out.md` proves both floors. Neither is a statement about somebody who knows some of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.bounds.elementary import exp
from everhold.errors import SettingError, require_number

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget

__all__ = ["WeightFloor", "weight_floor"]

_PEOPLE = 8.2e9  # on Earth


@dataclass(frozen=True, slots=True)
class WeightFloor:
    """With probability at least 1 - p₀, no predicate lighter than `weight` that follows from the answers isolates a row.

    Attributes:
        weight: the share of the population that has the trait; 0 where nothing can be said.
        probability: p₀.
        by_privacy: whether it follows from a promise of privacy, so that it holds whatever is asked later.
    """

    weight: float
    probability: float
    by_privacy: bool

    @property
    def text(self) -> str:
        """In a sentence."""
        if self.weight <= 0.0:
            return "nothing can be said about which traits could single out a row"
        later = "whatever is ever asked" if self.by_privacy else "by what was disclosed so far"
        rare = 1.0 / self.weight
        sentence = (
            "over the draw of the rows, the chance that the answers single out a row by one trait rarer than 1 in "
            f"{_whole(rare)}, "
            f"to somebody who knows the population but none of the rows, is at most {self.probability:g} ({later})"
        )
        if rare >= _PEOPLE:
            return f"{sentence}; nobody has so rare a trait, so this protects nobody in practice"
        return f"{sentence}; of all people on Earth, about {_whole(_PEOPLE / rare, 2)} have so rare a trait"

    def __float__(self) -> float:
        return self.weight

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "weight": self.weight,
            "probability": self.probability,
            "by_privacy": self.by_privacy,
            "text": self.text,
        }


def _whole(number: float, digits: int = 4) -> str:
    """A count with so many digits that matter, as people write it."""
    return f"{float(f'{number:.{digits}g}'):,.0f}" if 10.0 <= number < 1e15 else f"{number:,.{digits}g}"


def weight_floor(budget: Budget, rows: int, probability: float = 0.05) -> WeightFloor:
    """The larger of the two floors: `(p₀/n) P`, P of everything disclosed, and with privacy `(p₀/n - δ) e^(-ε)`.

    Args:
        budget: of the session.
        rows: n, the private draws.
        probability: p₀.

    >>> from everhold.bounds.budget import Budget
    >>> floor = weight_floor(Budget(0.05), 1_000)
    >>> floor.weight, floor.by_privacy
    (5e-05, False)
    """
    require_number(probability, "probability")
    if not 0.0 < probability < 1.0 or rows < 1:
        raise SettingError(
            f"expected a probability strictly between 0 and 1 and some rows, not {probability!r} and {rows!r}"
        )
    shown = probability / rows * exp(-budget.nats) * (1.0 - 1e-12)
    if budget.privacy is not None:
        promise = budget.privacy.terms.promise
        private = (probability / rows - promise.delta) * exp(-promise.epsilon) * (1.0 - 1e-12)
        if private > shown:
            return WeightFloor(private, probability, True)
    return WeightFloor(shown if budget.nats else probability / rows, probability, False)
