"""Outcomes of systems whose quality is known: what candidates of all hosts are made of."""

from __future__ import annotations

import random

CASES = 240


def outcomes(quality, *, cases=CASES, luck=0):
    """The same cases are easy for every system: one of higher quality passes what a lower one passes, and more.

    `luck` is the number of cases whose outcome differs from that, half of them each way, for a system that is not better.
    """
    difficulty = random.Random(7).sample(range(cases), cases)
    passed = {f"case-{k}": int(difficulty[k] < quality * cases) for k in range(cases)}
    rng = random.Random(luck)
    for value in (0, 1):
        for case in rng.sample([case for case, right in passed.items() if right == value], luck // 2):
            passed[case] = 1 - value
    return passed
