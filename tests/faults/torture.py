"""`make torture`: 2,000 kills, and every write and sync failed in turn with EIO and with ENOSPC.

Whoever is killed asks and does every act. Faults are injected by strace, into a process of its own that does each of them
once. After each fault: everything that it showed is in the ledger, nothing else is shown in the same life, the study opens
again and its audit passes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import everhold as eh
from tests.faults.deeds import KINDS, LAST, PRIVATE, Deed
from tests.faults.kill_loop import Loop
from tests.faults.lives import Reporter, Seen, create
from tests.faults.record_check import check

CALLS = ("pwrite64", "write", "fdatasync", "fsync", "unlink", "ftruncate")
ERRORS = ("EIO", "ENOSPC")
KILLS, KILLS_OF_A_STUDY = 2000, 50
DEEDS = [Deed(1, 1, kind) for kind in (*KINDS, *LAST)]


def worker(path: str) -> None:
    """Do every deed once; each result is shown on a line. Runs under strace."""
    held = eh.Holdout.open(path, data=PRIVATE)
    reporter = Reporter(sys.stdout.fileno())
    failed = False
    for one in DEEDS:
        try:
            reporter.do(one, held)
        except eh.LedgerError:
            failed = True
            continue
        assert not failed, "something was shown after a write had failed"


def inject(call: str, error: str, when: int, folder: Path) -> tuple[bool, int]:
    """One life with one fault; whether the fault was met, and how many results were shown."""
    path = folder / "study.everhold"
    for leftover in folder.iterdir():
        leftover.unlink()
    create(path)
    log = folder / "strace.log"
    # Only calls on the study's own files: the study, its journal, its folder.
    traced = ["strace", "-f", "-o", str(log), "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}"]
    traced += ["-P", str(path), "-P", f"{path}-journal", "-P", str(folder)]
    said = subprocess.run(
        [*traced, sys.executable, "-m", "tests.faults.torture", "--worker", str(path)],
        capture_output=True,
        timeout=1200,  # it takes a second: only what hangs meets this limit
        check=False,
    )
    met = "(INJECTED)" in log.read_text()
    log.unlink()
    complaint = said.stderr.decode()
    assert "Traceback" not in complaint or "LedgerError" in complaint, complaint
    assert "shown after a write" not in complaint, complaint
    seen = Seen()
    seen.add(said.stdout)
    check(path, seen.shown, seen.looked)
    return met, len(seen.shown)


def kill(kills: int) -> None:
    """So many kills, of studies that are closed in their last lives: a long one would take up a whole life to open."""
    done, seen, counted = 0, Counter[str](), Counter[str]()
    while done < kills:
        with tempfile.TemporaryDirectory() as place:
            loop = Loop(Path(place) / "study.everhold", 2026 + done)
            while loop.kills < min(KILLS_OF_A_STUDY, kills - done) - 1:
                loop.kill_once()
                if loop.kills % 10 == 0:
                    loop.check()
            for last in LAST:
                while not loop.kinds()[last]:
                    loop.kill_once(last)
                    loop.check()
            done, seen, counted = done + loop.kills, seen + loop.kinds(), counted + Counter(loop.counted)
            print(f"\r{done:,} kills, {seen.total():,} results seen, all in the ledger", end="", flush=True)
    print()
    print("seen: " + ", ".join(f"{kind} {number:,}" for kind, number in sorted(seen.items())))
    print(f"acts that began: {counted['ParsedActStart']:,}, of them interrupted and charged: {counted['interrupted']:,}")
    assert counted["interrupted"] or kills < 100, "no kill met an act on its way: the loop tests too little"


def starve(every: int) -> int:
    """Every write and sync of a life failed in turn, or one of `every` so many; how many faults were met."""
    faults = 0
    for call in CALLS:
        for error in ERRORS:
            met = 0
            with tempfile.TemporaryDirectory() as place:
                for when in range(1, 10_000, every):  # until a life has no such call left
                    hit, shown = inject(call, error, when, Path(place))
                    if not hit:
                        assert shown == len(DEEDS), "a life without a fault did not do everything"
                        break
                    met += 1
                    print(f"\r{call} {error}: {met} faults met", end="", flush=True)
            print()
            faults += met
    return faults


def main() -> int:
    """All of it; about half an hour."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", nargs="?", type=int, default=KILLS)
    parser.add_argument("--no-faults", action="store_true", help="kills only")
    parser.add_argument("--every", type=int, default=1, help="fail only one of so many writes and syncs")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        worker(given.worker)
        return 0
    kill(given.kills)
    if given.no_faults:
        return 0
    if shutil.which("strace") is None:
        print("strace is not installed: no faults were injected (apt install strace)")
        return 1
    faults = starve(given.every)
    print(f"{given.kills:,} kills and {faults} faults survived: nothing lost, nothing shown that was not recorded")
    return 0 if faults else 1


if __name__ == "__main__":
    raise SystemExit(main())
