"""`python -m benchmarks.paper [--quick] [--out FOLDER] [--only NAME …] [--also FILE …] [--jobs N] [--publish]`."""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

from benchmarks.paper import (
    added,
    errors,
    private,
    published,
    questions,
    reports,
    rows,
    singling,
    speed,
    surprises,
    wrong_prior,
)
from benchmarks.paper.report import write
from benchmarks.paper.run import ROOT, code_digest, run
from everhold.games import load

SECTIONS = [
    module.SECTION
    for module in (errors, rows, surprises, speed, singling, questions, wrong_prior, published, reports, private, added)
]


def main(arguments: list[str] | None = None) -> int:
    """Run, write, and say which claims hold; the exit code is 1 when one does not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few seeds and short sessions, for CI")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "bench-paper", help="where the report goes")
    parser.add_argument("--only", nargs="*", choices=[one.name for one in SECTIONS], help="some sections only")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="files that register mechanisms or analysts")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--publish", action="store_true", help="copy the report to docs/paper as well")
    given = parser.parse_args(arguments)
    if given.publish and (given.quick or given.only):
        parser.error("only a full run is published: leave out --quick and --only")
    for path in given.also:
        load(path)
    wanted = [one for one in SECTIONS if not given.only or one.name in given.only]
    tasks = [task for one in wanted for task in one.tasks(given.quick)]
    started, code = time.perf_counter(), code_digest(given.also)
    print(f"{len(tasks)} tasks in {len(wanted)} sections; stop it at any time, the next run goes on")
    found = run(tasks, given.out / "tasks", jobs=given.jobs, also=given.also, code=code)
    claims = write(wanted, found, given.out, quick=given.quick, code=code)
    for claim in claims:
        print(f"  {'ok  ' if claim.kept else 'MISS'} {claim.name}: {claim.says}: {claim.measured}")
    if given.publish:
        place = ROOT / "docs" / "paper"
        place.mkdir(parents=True, exist_ok=True)
        for path in given.out.iterdir():
            if path.is_file():
                shutil.copy(path, place / path.name)
    kept = sum(claim.kept for claim in claims)
    print(f"{kept} of {len(claims)} claims hold; {given.out / 'report.html'} ({time.perf_counter() - started:.0f} s)")
    return 0 if kept == len(claims) else 1


if __name__ == "__main__":
    raise SystemExit(main())
