"""A prompt optimiser with a gate. The model is a stand-in that needs no internet: some words in a prompt help it a little.

The optimiser sees 60 public cases. It adds a phrase, and keeps it if the public score rises, which with 60 cases is often
luck. Only such a prompt is then checked at the gate, on 3,000 sealed cases, and only a promoted one is built on.

    python examples/prompt_optimisation.py                  # some seconds
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import everhold as eh

HELPS = {"Think step by step.": 0.09, "Check the units.": 0.08, "Answer with a number only.": 0.1}
PHRASES = [
    "You are an expert.", "Think step by step.", "This matters to me.", "Be concise.", "Check the units.", "Take a breath.",
    "I will tip you.", "Answer with a number only.", "Do not apologise.", "Use plain words.", "Be careful.", "Thank you.",
]  # fmt: skip
PUBLIC = [f"public-{k}" for k in range(60)]
SEALED = [f"sealed-{k}" for k in range(3_000)]


def _draw(*parts: str) -> float:
    """A number between 0 and 1 that depends on nothing but these words."""
    return int.from_bytes(hashlib.sha256("\n".join(parts).encode()).digest()[:7], "big") / 2**56


def passes(prompt: str, case: str) -> bool:
    """Whether the model's answer to a case is right: by the case, by what helps, and by some noise of the very prompt."""
    strength = 0.4 + sum(gain for phrase, gain in HELPS.items() if phrase in prompt)
    return _draw(case) + 0.3 * (_draw(case, prompt) - 0.5) < strength


def score(prompt: str, cases: list[str]) -> float:
    """The share of cases that are right."""
    return sum(passes(prompt, case) for case in cases) / len(cases)


def outcomes(prompt: str) -> dict[str, bool]:
    """The sealed outcomes, which the gate gets and the optimiser does not."""
    return {case: passes(prompt, case) for case in SEALED}


def main(folder: Path) -> tuple[str, str]:
    """Optimise twice: by public scores alone, and with the gate. Returns both prompts."""
    start = "Solve the problem."
    gate = eh.Gate.create(folder / "gate.everhold", outcomes(start), name=start)
    plain = gated = start
    for phrase in PHRASES:
        if score(f"{plain} {phrase}", PUBLIC) > score(plain, PUBLIC):
            plain = f"{plain} {phrase}"
        candidate = f"{gated} {phrase}"
        if score(candidate, PUBLIC) > score(gated, PUBLIC):
            verdict = gate.check(outcomes(candidate), name=phrase, artifact=candidate.encode())
            print(verdict)
            gated = candidate if verdict.promoted else gated
    print(f"\nPublic scores alone: {plain}\nWith the gate:       {gated}\n\n{gate.status()}")
    return plain, gated


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        os.environ["EVERHOLD_HOME"] = place  # made-up cases do not belong in your registry of real ones
        main(Path(place))
