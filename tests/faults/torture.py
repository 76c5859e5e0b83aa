"""`make torture`: 2,000 kills, and every write and sync failed in turn with EIO and with ENOSPC.

Faults are injected by strace, into a process of its own that asks four questions. After each: every answer it showed is in
the ledger, nothing else is told in the same life, the study opens again and its audit passes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import astuple
from pathlib import Path

import everhold as eh
from tests.faults.clients import PRIVATE, create, question
from tests.faults.kill_loop import Loop

CALLS = ("pwrite64", "write", "fdatasync", "fsync", "unlink", "ftruncate")
KILLS = 2000


def asker(path: str) -> None:
    """Ask four questions, one of them a surprise; each answer is shown on a line. Runs under strace."""
    held = eh.Holdout.open(path, data=PRIVATE)
    print("open", flush=True)
    failed = False
    for i in range(4):
        try:
            answer = held.ask(question(0, i), request_id=f"q{i}")
        except eh.EverholdError as error:
            failed = True
            print("error", type(error).__name__, flush=True)
            continue
        assert not failed, "something was told after a write had failed"
        print(json.dumps([i, *astuple(answer)]), flush=True)


def inject(call: str, error: str, when: int, folder: Path) -> tuple[bool, int]:
    """One life with one fault; whether the fault was met, and how many answers were shown."""
    path = folder / "study.everhold"
    for leftover in folder.iterdir():
        leftover.unlink()
    create(path)
    log = folder / "strace.log"
    # Only calls on the study's own files: the study, its journal, its folder.
    traced = ["strace", "-f", "-o", str(log), "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}"]
    traced += ["-P", str(path), "-P", f"{path}-journal", "-P", str(folder)]
    said = subprocess.run(
        [*traced, sys.executable, "-m", "tests.faults.torture", "--asker", str(path)],
        capture_output=True,
        text=True,
        timeout=1200,  # it takes a second: only what hangs meets this limit
    )
    met = "(INJECTED)" in log.read_text()
    log.unlink()
    assert "Traceback" not in said.stderr or "LedgerError" in said.stderr, said.stderr
    assert "told after a write" not in said.stderr, said.stderr
    shown = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("[")]
    with eh.Holdout.open(path, data=PRIVATE) as held:
        for i, *answer in shown:
            again = held.ask(question(0, i), request_id=f"q{i}")
            assert json.loads(json.dumps(astuple(again))) == answer, (call, error, when, i)
        assert [past.number for past in held.journal] == list(range(1, held.rounds + 1))
        assert held.audit().ok
    return met, len(shown)


def main() -> int:
    """All of it; about a quarter of an hour."""
    if len(sys.argv) == 3 and sys.argv[1] == "--asker":
        asker(sys.argv[2])
        return 0
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    done = seen = 0
    while done < kills:  # a new study now and then: opening a long one would take up the whole life of its process
        with tempfile.TemporaryDirectory() as place:
            loop = Loop(Path(place) / "study.everhold", 2026 + done)
            for kill in range(1, min(100, kills - done) + 1):
                loop.kill_once()
                if kill % 20 == 0:
                    loop.check()
            loop.check()
            done, seen = done + loop.kills, seen + len(loop.seen)
            print(f"\r{done:,} kills, {seen:,} answers seen, all in the ledger", end="", flush=True)
    print()
    if shutil.which("strace") is None:
        print("strace is not installed: no faults were injected (apt install strace)")
        return 1
    faults = 0
    for call in CALLS:
        for error in ("EIO", "ENOSPC"):
            met = 0
            with tempfile.TemporaryDirectory() as place:
                for when in range(1, 10_000):  # until a life has no such call left
                    hit, _ = inject(call, error, when, Path(place))
                    if not hit:
                        break
                    met += 1
                    print(f"\r{call} {error}: {met} faults met", end="", flush=True)
            print()
            faults += met
    print(f"{kills:,} kills and {faults} faults survived: nothing lost, nothing told that was not recorded")
    return 0 if faults else 1


if __name__ == "__main__":
    raise SystemExit(main())
