"""What benchmarks share: timing, and rows that say whether a promise is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One measured promise."""

    what: str
    measured: str
    promised: str
    kept: bool

    def __str__(self) -> str:
        return f"  {'ok  ' if self.kept else 'MISS'} {self.what}: {self.measured} (promised: {self.promised})"


def seconds(work: Callable[[], object], *, repeat: int, inner: int = 1) -> float:
    """The best of `repeat` timings of `inner` runs, per run: the machine is noisy, its best is the work itself."""
    best = float("inf")
    for _ in range(repeat):
        started = time.perf_counter()
        for _ in range(inner):
            work()
        best = min(best, (time.perf_counter() - started) / inner)
    return best


def together(works: dict[str, Callable[[], object]], *, repeat: int, inner: int = 1) -> dict[str, float]:
    """Several works timed in turn, again and again, so that noise hits all of them alike; the best of each."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeat):
        for name, work in works.items():
            best[name] = min(best[name], seconds(work, repeat=1, inner=inner))
    return best
