"""An agent that hill-climbs on a holdout for 500 rounds: the plain score inflates, everhold's stays true.

The labels are pure noise, so every true score is 50 %. The agent writes predictions to a file, calls an evaluator, and
keeps every change that scores better. The evaluator runs in another process, `everhold score`, and only it reads the labels.

    python examples/agent.py                  # 500 rounds, about ten minutes: every round starts a process
    python examples/agent.py --rounds 50
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROWS = 1_000


def everhold(*words: str) -> dict:
    """Call the command line and read what it prints."""
    done = subprocess.run([sys.executable, "-m", "everhold", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr or done.stdout)
    return json.loads(done.stdout) if words[-1] == "--json" else {}


def write(place: Path, column: str, values: np.ndarray) -> None:
    """An id and a value for every row."""
    with place.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", column])
        rows.writerows(enumerate(values.tolist()))


def climb(rounds: int, folder: Path, seed: int = 1) -> tuple[list[float], list[dict]]:
    """Two agents with the same ideas: one sees the plain holdout, one everhold. Returns the scores each received."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, ROWS)  # pure noise
    write(folder / "hidden.csv", "label", labels)
    study = str(folder / "test.everhold")
    everhold("contest", "create", study, "--labels", str(folder / "hidden.csv"), "--classes", "0,1", "--seed", "1")
    plain, guarded = rng.integers(0, 2, ROWS), rng.integers(0, 2, ROWS)
    best_plain, best_guarded = -1.0, -1.0
    told_plain: list[float] = []
    told_guarded: list[dict] = []
    for t in range(rounds):
        flips = rng.random(ROWS) < 0.05
        changed = np.where(flips, 1 - plain, plain)
        score = float(np.mean(changed == labels))
        if score > best_plain:
            plain, best_plain = changed, score
        told_plain.append(best_plain)

        changed = np.where(flips, 1 - guarded, guarded)
        write(folder / "predictions.csv", "prediction", changed)
        answer = everhold("score", "--study", study, str(folder / "predictions.csv"), "--json")
        if answer["score"] > best_guarded:
            guarded, best_guarded = changed, answer["score"]
        told_guarded.append(answer)
        if (t + 1) % 25 == 0 or t + 1 == rounds:
            print(
                f"round {t + 1:>4}: plain holdout {100 * best_plain:.1f} %,  everhold {100 * answer['score']:.1f} % "
                f"[{100 * answer['low']:.1f}, {100 * answer['high']:.1f}],  truth 50 %",
                flush=True,
            )
    return told_plain, told_guarded


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    with tempfile.TemporaryDirectory() as folder:
        climb(parser.parse_args().rounds, Path(folder))


if __name__ == "__main__":
    main()
