"""`python -m tests.simulation --seeds 0:10000`, or `--seed 7` to see everything that happens in one run."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.studies import make_site
from tests.simulation.world import World


def main() -> int:
    """Run seeds; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="from:to, without the last")
    parser.add_argument("--seed", type=int, help="one seed, with every event")
    parser.add_argument("--bug", help="plant one of the bugs of tests/simulation/bugs.py")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    given = parser.parse_args()
    site = make_site()
    if given.seed is not None:
        found = World(site, given.seed, keep=True).run()
        print("\n".join(found.trace))
        print(f"digest {found.digest}")
        print(found.violation or "no violation")
        return int(found.violation is not None)
    first, _, last = given.seeds.partition(":")
    begun, broken, counts = time.perf_counter(), [], Counter[str]()
    for done, seed in enumerate(range(int(first), int(last)), 1):
        found = World(site, seed).run()
        counts += found.counts
        if found.violation is not None:
            broken.append(seed)
            print(f"\nseed {seed}: {found.violation}", flush=True)
            if not given.keep_going:
                break
        if done % 50 == 0:
            rate = done / (time.perf_counter() - begun)
            print(f"\r{done:,} seeds, {rate:.1f} a second", end="", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - begun
    print(f"\n{done:,} seeds in {seconds:.0f} s, {done / seconds:.1f} a second: {len(broken)} violations {broken[:20] or ''}")
    print(", ".join(f"{name} {number:,}" for name, number in sorted(counts.items())))
    return int(bool(broken))


if __name__ == "__main__":
    raise SystemExit(main())
