"""Run all benchmarks, or those named: `python -m benchmarks speed boosting`."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from importlib import import_module

from threadpoolctl import threadpool_limits

NAMES = (
    "starting",
    "speed",
    "surprises",
    "tables",
    "engines",
    "ledger",
    "aqa_ogd",
    "boosting",
    "thresholdout",
    "tolerance",
    "searches",
    "order",
    "metric_rows",
    "boards",
    "gate",
    "private",
    "analyst",
    "server",
)


def main(wanted: list[str]) -> int:
    """Print every promise with what was measured; the exit code says whether all were kept."""
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        print(f"no benchmark called {unknown[0]!r}; there are {', '.join(NAMES)}")
        return 2
    missed = 0
    for name in wanted or NAMES:
        started = time.perf_counter()
        benchmark = import_module(f"benchmarks.{name}")
        print(f"\n{name}: {(benchmark.__doc__ or '').splitlines()[0]}", flush=True)
        threadpool_limits(1)  # a second thread of BLAS spins while it waits, and that would count as work
        for line in benchmark.run():
            print(line, flush=True)
            missed += not line.kept
        print(f"  ({time.perf_counter() - started:.0f} s)", flush=True)
    print(f"\n{'every promise kept' if not missed else f'{missed} promises missed'}")
    return 1 if missed else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:  # thousands of studies that nobody wants in the registry of this user
        os.environ["EVERHOLD_HOME"] = home
        code = main(sys.argv[1:])
    raise SystemExit(code)
