"""What benchmarks share: works measured in turn, ratios of pairs, and rows that say whether a promise is kept.

Machines are noisy and differ from each other, so no promise is about seconds. What is compared runs in turn in one process,
A B, B A, A B, …: a slow moment hits both. Each turn gives one ratio, and the median of them is judged. Where the work is
computation, it is counted in the processor time of the process, which a busy neighbour does not add to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Work = Callable[[int], object]
"""Given the number of the turn, so that all works of a turn can be given the same question."""

Clock = Callable[[], float]
CPU: Clock = time.process_time
"""For computation: seconds of the processor, of all threads of the process."""
WALL: Clock = time.perf_counter
"""For what waits: a disk, another process, several threads."""


@dataclass(frozen=True)
class Line:
    """One measured promise."""

    what: str
    measured: str
    promised: str
    kept: bool

    def __str__(self) -> str:
        return f"  {'ok  ' if self.kept else 'MISS'} {self.what}: {self.measured} (promised: {self.promised})"


@dataclass(frozen=True)
class Ratio:
    """The median of paired ratios, and the quartiles, which show how noisy it is."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} (quartiles {self.low:.3g} to {self.high:.3g})"


def in_turn(works: Mapping[str, Work], *, turns: int, inner: int = 1, clock: Clock = CPU) -> dict[str, NDArray[np.float64]]:
    """Seconds a run of every work in every turn, after one run of each that is not counted.

    Args:
        works: what is compared; every turn runs each, every other turn in the opposite order.
        turns: how many.
        inner: runs of a work within a turn, for works that are short.
        clock: `CPU` or `WALL`.
    """
    taken: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(-1, turns):
        for name, work in list(works.items())[:: -1 if turn % 2 else 1]:
            started = clock()
            for run in range(inner):
                work((turn + 1) * inner + run)
            taken[name].append((clock() - started) / inner)
    return {name: np.array(times[1:]) for name, times in taken.items()}


def ratio(first: ArrayLike, second: ArrayLike) -> Ratio:
    """How much longer the first took than the second, turn by turn."""
    found = np.asarray(first, float) / np.asarray(second, float)
    low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
    return Ratio(float(middle), float(low), float(high))


def milliseconds(times: ArrayLike) -> str:
    """The median, for information."""
    value = 1e3 * float(np.median(np.asarray(times, float)))
    return f"{value:.3g} ms"
