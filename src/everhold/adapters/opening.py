"""What all adapters take: a gate, here or behind a server, or the path of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from everhold.gate.gate import Gate

if TYPE_CHECKING:
    from everhold.gate.results import CheckResult

__all__ = ["AnyGate", "Checking", "opened"]


class Checking(Protocol):
    """What checks candidates: a `Gate`, or a gate of `everhold.connect`."""

    def check(self, candidate: object, *, name: str | None = None, artifact: bytes | None = None) -> CheckResult:
        """Is the candidate better than the incumbent?"""
        ...


AnyGate = Checking | str | Path
"""A gate, or where its study lies."""


def opened(gate: AnyGate) -> Checking:
    """The gate itself. It holds its file only while it checks, so nothing has to be closed."""
    return Gate(gate) if isinstance(gate, str | Path) else gate
