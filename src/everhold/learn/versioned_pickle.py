"""Files that a test set writes for its owner's other processes: what they are and by which version, then a pickle.

The version comes first, so that a file of another version is refused before anything in it is loaded.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from everhold.errors import LedgerError
from everhold.ledger.safe_files import write_atomic

__all__ = ["read_pickle", "write_pickle"]


def write_pickle(path: Path, what: str, content: dict[str, Any]) -> None:
    """Write plain values and arrays, so that only the owner can read them."""
    write_atomic(path, f"everhold {what}\n".encode() + pickle.dumps(content), private=True)


def read_pickle(path: Path, what: str, advice: str) -> dict[str, Any]:
    """Read them again.

    Raises:
        LedgerError: the file was written by another version, or is something else. It ends with the advice.
    """
    with path.open("rb") as file:
        if file.readline(100) != f"everhold {what}\n".encode():
            raise LedgerError(f"{path} was written by another everhold. {advice}")
        content: dict[str, Any] = pickle.load(file)
    return content
