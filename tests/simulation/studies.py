"""What is served: small studies, gates and contests, made once in a process and copied for every seed."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import numpy as np

import everhold as eh
from everhold.clock import running_on
from everhold.ledger.registry import HOME
from everhold.server.tokens import Token, Tokens
from tests.server.serving import save

NAMES = ("plain", "private", "gate", "generations", "duels", "ladder")
"""Two studies, two gates, two contests; each stands for its settings."""
CASES = {f"c{number}": number % 2 for number in range(60)}
LABELS = np.array([(7 * number + number // 5) % 2 for number in range(60)])
PEOPLE = {"ann": "analyst", "bob": "analyst", "aud": "auditor", "cus": "custodian"}
START = datetime(2030, 1, 1, tzinfo=UTC)


def _rows(size: int, seed: int, smokers: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size).astype(float), "smoker": rng.random(size) < smokers}


@dataclass(frozen=True)
class Site:
    """Files, tokens, and where they lie.

    Attributes:
        base: a folder of this process, removed at its end.
        files: every file, by its name below `disk`.
        secrets, tokens: of people, by name.
    """

    base: Path
    files: dict[str, bytes | None]
    secrets: dict[str, str]
    tokens: dict[str, Token]

    @property
    def disk(self) -> Path:
        """The root of the simulated disk."""
        return self.base / "disk"

    def path(self, study: str) -> Path:
        """Of a study."""
        return self.disk / f"{study}.everhold"

    def files_of(self, studies: list[str]) -> dict[str, bytes | None]:
        """The files of some studies, with the registry and the tokens."""
        others = tuple(f"{name}.everhold" for name in NAMES if name not in studies)
        return {name: content for name, content in self.files.items() if not name.startswith(others)}


def make_site() -> Site:
    """Make everything, with coins that are the same in every process."""
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="everhold-simulation-", dir=memory if memory.is_dir() else None))
    weakref.finalize(_keep, shutil.rmtree, base, ignore_errors=True)
    disk = base / "disk"
    disk.mkdir()
    coins = random.Random("the site")
    with (
        patch.object(os, "getpid", lambda: 99),
        patch.object(os, "urandom", coins.randbytes),
        patch.object(random, "_urandom", coins.randbytes),
        patch.dict(os.environ, {HOME: str(disk / "home")}),
        running_on(lambda: START),
    ):
        _make_studies(disk)
        tokens = Tokens(disk / "tokens.json")
        made = {name: tokens.create(name, scope) for name, scope in PEOPLE.items()}
    names = sorted(str(place.relative_to(disk)) for place in disk.rglob("*"))
    files = {name: None if (disk / name).is_dir() else (disk / name).read_bytes() for name in names}
    secrets = {name: secret for name, (secret, _) in made.items()}
    return Site(base, files, secrets, {name: token for name, (_, token) in made.items()})


class _Kept:
    """Ends with the process."""


_keep = _Kept()


def _make_studies(disk: Path) -> None:
    rows = disk.parent  # read by DuckDB, and never written
    public = _rows(80, 1, 0.2)
    private = save(rows / "plain.csv", _rows(120, 0, 0.6))
    eh.Holdout.create(disk / "plain.everhold", private, prior=eh.Reference(public), seed=5, register=False).release()
    eh.Holdout.create(
        disk / "private.everhold",
        save(rows / "private.csv", _rows(600, 2, 0.9)),
        prior=eh.Reference(public),
        schema=eh.Schema.propose(public),
        privacy=eh.Privacy(epsilon=6.0, surprises=6),
        seed=5,
    ).release()
    eh.Gate.create(disk / "gate.everhold", CASES).release()
    again = {"new_budget": "it is another test"}
    eh.Gate.create(disk / "generations.everhold", CASES, generation_size=2, visible=0.2, certify="final", **again).release()
    eh.Contest.create(disk / "duels.everhold", LABELS, classes=[0, 1], seed=2, sealed=0.0).release()
    eh.Contest.create(disk / "ladder.everhold", LABELS, classes=[0, 1], seed=3, sealed=0.5, ladder=True).release()
