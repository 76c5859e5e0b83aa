"""The set of cases of a gate: how the registry knows it, and which of its cases are visible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import SettingError

if TYPE_CHECKING:
    from everhold.ledger.registry import KnownStudy, Registry

__all__ = ["in_use", "visible_cases"]


def visible_cases(visible: Iterable[object] | float | None, cases: list[str], registry: Registry) -> set[str]:
    """The visible cases. A share takes those with the smallest keyed digests: every share takes the same ones first."""
    if visible is None:
        return set()
    if isinstance(visible, int | float):
        if not 0.0 <= visible < 1.0:
            raise SettingError(f"visible is {visible!r}. Expected ids, or a share of the cases below 1.")
        order = np.argsort(registry.digests(f"visible\n{case}" for case in cases), kind="stable")
        return {cases[index] for index in order[: int(visible * len(cases))]}
    chosen = {str(case) for case in visible}
    if strange := sorted(chosen - set(cases)):
        raise SettingError(f"{len(strange):,} visible cases have no outcome, for example {strange[0]!r}.")
    return chosen


def in_use(others: Sequence[KnownStudy]) -> str:
    """Why a second gate is refused, and what to do."""
    other = others[0]
    part = "these cases" if other.common > 0.999 else f"{other.common:.0%} of these cases (or of its own)"
    where = other.path if len(others) == 1 else f"{other.path} and {len(others) - 1:,} more"
    return (
        f"{part} belong to the gate {where}, made on {other.created[:10]}. A second gate would start with a full budget, as "
        "if nothing had been disclosed about them. Use that gate, or new cases. If both gates say what is expected of each "
        "case (expected=..., --expected), sets with the same ids can be distinguished. If there is another reason for a new "
        'budget, say it (new_budget="...", --new-budget): it is recorded.'
    )
