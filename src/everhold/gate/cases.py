"""The set of cases of a gate: how the registry knows it, and which of its cases are visible."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import SettingError

if TYPE_CHECKING:
    from everhold.ledger.registry import KnownStudy, Registry

__all__ = ["described_case", "in_use", "visible_cases"]


def described_case(case: str, expected: Mapping[Any, Any] | None) -> str:
    """A case as the registry knows it."""
    if expected is None:
        return f"case\n{case}"
    return f"case\n{case}\n{json.dumps(expected.get(case), sort_keys=True, default=str)}"


def visible_cases(visible: Iterable[object] | float | None, cases: list[str], registry: Registry) -> set[str]:
    """The visible cases. A share takes those with the smallest keyed digests: every share takes the same ones first."""
    if visible is None:
        return set()
    if isinstance(visible, int | float):
        if not 0.0 <= visible < 1.0:
            raise SettingError(f"visible is {visible!r}. Expected ids, or a share of the cases below 1.")
        order = np.argsort(registry.digests(f"visible\n{case}" for case in cases), kind="stable")
        return {cases[index] for index in order[: int(visible * len(cases))]}
    chosen = {str(one) for one in visible}
    if strange := sorted(chosen - set(cases)):
        raise SettingError(f"{len(strange):,} visible cases have no outcome, for example {strange[0]!r}.")
    return chosen


def in_use(others: Sequence[KnownStudy]) -> str:
    """Why a second gate is refused, and what to do."""
    one = others[0]
    part = "these cases" if one.common > 0.999 else f"{one.common:.0%} of these cases (or of its own)"
    return (
        f"{part} belong to the gate {one.path}, made on {one.created[:10]}. A second gate would start with a full budget, "
        "as if nothing had been disclosed about them. Use that gate, or new cases. If these are other cases with the same "
        "ids, give their expected results (expected=..., --expected). If there is another reason for a new budget, say it "
        '(new_budget="...", --new-budget): it is recorded.'
    )
