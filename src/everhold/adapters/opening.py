"""What all adapters take: a gate, or the path of one."""

from __future__ import annotations

from pathlib import Path

from everhold.gate.gate import Gate

__all__ = ["AnyGate", "opened"]

AnyGate = Gate | str | Path
"""A gate, or where its study lies."""


def opened(gate: AnyGate) -> Gate:
    """The gate itself. It holds its file only while it checks, so nothing has to be closed."""
    return gate if isinstance(gate, Gate) else Gate(gate)
