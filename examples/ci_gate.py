"""Continuous integration for model changes: a job evaluates the change and passes only if the gate promotes it.

Three changes arrive: one that does nothing, one that crashes on some cases, one that is better. Each job runs the command
that a workflow would run, and its exit code is the job's. `docs/howto/adapters.md` has the same as a GitHub Action.

    python examples/ci_gate.py                              # some seconds
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CASES = 1_000


def evaluate(change: str, rng: np.random.Generator) -> dict[str, int | str]:
    """The evaluator of the project: runs the changed model on the sealed cases."""
    skill = np.random.default_rng(0).random(CASES)  # how hard each case is, for every model
    noise = 0.1 * rng.random(CASES)
    passed = skill + noise < {"baseline": 0.6, "new comments": 0.6, "faster parser": 0.62, "more training": 0.7}[change]
    found: dict[str, int | str] = {f"case-{k}": int(right) for k, right in enumerate(passed)}
    if change == "faster parser":
        found |= {f"case-{k}": "error" for k in range(0, CASES, 25)}
    return found


def everhold(*words: str) -> subprocess.CompletedProcess[str]:
    """The command line, as a job calls it."""
    return subprocess.run([sys.executable, "-m", "everhold", *words], capture_output=True, text=True, check=False)


def job(change: str, folder: Path, rng: np.random.Generator) -> int:
    """One job: evaluate, check, and say it. Returns the exit code."""
    outcomes = folder / "outcomes.json"
    outcomes.write_text(json.dumps(evaluate(change, rng)))
    done = everhold("gate", "check", str(folder / "gate.everhold"), "--candidate", str(outcomes), "--name", change, "--json")
    verdict = json.loads(done.stdout)
    print(f"{'passed' if done.returncode == 0 else 'failed'}  {change}: {verdict['verdict']}, {verdict['reason']}")
    return done.returncode


def main(folder: Path) -> dict[str, int]:
    """The exit code of every job."""
    rng = np.random.default_rng(1)
    (folder / "baseline.json").write_text(json.dumps(evaluate("baseline", rng)))
    made = everhold("gate", "create", str(folder / "gate.everhold"), "--incumbent", str(folder / "baseline.json"))
    if made.returncode != 0:
        raise SystemExit(made.stderr)
    return {change: job(change, folder, rng) for change in ("new comments", "faster parser", "more training")}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        os.environ["EVERHOLD_HOME"] = place  # made-up cases do not belong in your registry of real ones
        main(Path(place))
