"""`python -m tests.simulation --seeds 0:10000`, or `--seed 7` to see everything that happens in one run."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from contextlib import nullcontext

from tests.simulation.bugs import BUGS
from tests.simulation.studies import Site, make_site
from tests.simulation.world import World

EVERY = 25  # seeds between two lines of progress


def one(site: Site, seed: int) -> int:
    """One seed, with every event."""
    found = World(site, seed, keep=True).run()
    print("\n".join(found.trace))
    print(f"digest {found.digest}")
    print(found.violation or "no violation")
    return int(found.violation is not None)


def many(site: Site, seeds: range, *, keep_going: bool) -> int:
    """Many seeds, with their progress."""
    begun, done, broken, counts = time.perf_counter(), 0, [], Counter[str]()
    for seed in seeds:
        found = World(site, seed).run()
        done += 1
        counts += found.counts
        if found.violation is not None:
            broken.append(seed)
            print(f"\nseed {seed}: {found.violation}\nreplay: python -m tests.simulation --seed {seed}", flush=True)
            if not keep_going:
                break
        if done % EVERY == 0:
            rate = done / (time.perf_counter() - begun)
            print(f"\r{done:,} of {len(seeds):,} seeds, {rate:.1f} a second ", end="", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - begun
    print(f"\n{done:,} seeds in {seconds:,.0f} s, {done / seconds:.1f} a second: {len(broken)} violations")
    print(", ".join(f"{name} {number:,}" for name, number in sorted(counts.items())))
    return int(bool(broken))


def main() -> int:
    """Run seeds; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="from:to, without the last")
    parser.add_argument("--seed", type=int, help="one seed, with every event")
    parser.add_argument("--bug", choices=list(BUGS), help="plant a bug, as a control")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    site = make_site()
    first, _, last = given.seeds.partition(":")
    with BUGS[given.bug]() if given.bug else nullcontext():
        if given.seed is not None:
            return one(site, given.seed)
        return many(site, range(int(first), int(last)), keep_going=given.keep_going)


if __name__ == "__main__":
    raise SystemExit(main())
