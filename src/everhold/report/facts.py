"""Where a study stands, in numbers that are functions of public facts, coins and the record."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everhold.ledger.study import Study

__all__ = ["study_facts"]


def study_facts(study: Study, *, rounds: int, surprises: int, spent: float, head: str) -> dict[str, Any]:
    """The facts that every interface shows of a study.

    `sampling_half_width`: the sampling error of a share near one half at this price; the tolerance comes on top.
    """
    return {
        "questions": rounds,
        "surprises": surprises,
        "rows": study.rows,
        "unit": study.unit,
        "confidence": float(study.settings["confidence"]),
        "spent": spent,
        "sampling_half_width": sqrt(spent / (2.0 * study.rows)),
        "prior": study.prior,
        "created": study.created,
        "head": head,
    }
