"""The predictions that were scored, kept for duels: for the owner alone, one file each."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import LedgerError
from everhold.ledger.files import write_atomic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PredictionStore", "digest_of"]


def digest_of(values: NDArray[Any]) -> str:
    """What predictions are known by."""
    return hashlib.sha256(json.dumps([str(one) for one in values.tolist()]).encode()).hexdigest()


class PredictionStore:
    """A folder of predictions, each named by its digest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _at(self, digest: str) -> Path:
        return self._folder / f"{digest}.npy.z"

    def keep(self, digest: str, values: NDArray[Any]) -> None:
        """Write predictions, durably, unless they are there."""
        path = self._at(digest)
        if path.exists():
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        out = io.BytesIO()
        np.save(out, values, allow_pickle=False)
        write_atomic(path, zlib.compress(out.getvalue(), 6), private=True)

    def read(self, digest: str, entrant: str) -> NDArray[Any]:
        """Predictions again, checked against their digest."""
        try:
            found = np.load(io.BytesIO(zlib.decompress(self._at(digest).read_bytes())), allow_pickle=False)
        except (OSError, ValueError, zlib.error):
            found = None
        if not isinstance(found, np.ndarray) or digest_of(found) != digest:
            raise LedgerError(
                f"the predictions of {entrant!r} are not in {self._folder}. Expected them there for duels: submit the same "
                "predictions again, which costs nothing. Nothing was charged."
            )
        return found
