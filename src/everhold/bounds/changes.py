"""What a candidate of a gate does to a case, and how surely a promotion of it is wanted."""

from __future__ import annotations

from dataclasses import dataclass

from everhold.errors import SettingError

__all__ = ["POWER", "Changes"]

POWER = 0.8
"""A promotion counts as possible if a candidate that is better by the step is promoted with at least this probability."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a candidate does to a case: right instead of wrong with probability p10, wrong instead of right with p01.

    >>> Changes.of(step=0.06, changed=0.1)
    Changes(gained=0.08, lost=0.02)
    """

    gained: float
    lost: float

    @classmethod
    def of(cls, *, step: float, changed: float) -> Changes:
        """A candidate that changes so large a share of the cases, and is better by `step`."""
        if not 0.0 <= step <= changed <= 1.0 or changed == 0.0:
            raise SettingError(
                f"step is {step!r} and changed is {changed!r}. Expected 0 ≤ step ≤ changed ≤ 1, and changed above 0: a "
                "candidate cannot be better by more than the share of the cases that it changes."
            )
        return cls(round(0.5 * (changed + step), 15), round(0.5 * (changed - step), 15))

    @property
    def changed(self) -> float:
        """The share of the cases that change."""
        return self.gained + self.lost
