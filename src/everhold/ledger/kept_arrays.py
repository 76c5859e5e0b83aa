"""Arrays that a study keeps for its owner alone, one file each, named by a digest: predictions, outcomes of candidates."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import LedgerError
from everhold.ledger.safe_files import sync_folder, write_atomic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KeptArrays"]


class KeptArrays:
    """A folder of arrays.

    Args:
        folder: where they lie; made when the first is kept.
        digest_of: what an array is known by.
    """

    def __init__(self, folder: Path, digest_of: Callable[[NDArray[Any]], str]) -> None:
        self.folder = folder
        self.digest_of = digest_of

    def _at(self, digest: str) -> Path:
        return self.folder / f"{digest}.npy.z"

    def keep(self, values: NDArray[Any], digest: str | None = None) -> str:
        """Write an array, durably, unless it is there; returns its digest, which may be known already."""
        digest = self.digest_of(values) if digest is None else digest
        path = self._at(digest)
        try:
            if path.exists():  # kept by somebody who may have been killed before the name was durable
                sync_folder(self.folder)
            else:
                out = io.BytesIO()
                np.save(out, values, allow_pickle=False)
                self.folder.mkdir(mode=0o700, exist_ok=True)
                write_atomic(path, zlib.compress(out.getvalue(), 6), private=True)
        except OSError as error:
            raise LedgerError(f"{path} cannot be written ({error.strerror}). Nothing was charged.") from None
        return digest

    def read(self, digest: str) -> NDArray[Any] | None:
        """An array again, checked against its digest; None where it is lost or changed."""
        try:
            array = np.load(io.BytesIO(zlib.decompress(self._at(digest).read_bytes())), allow_pickle=False)
        except (OSError, ValueError, zlib.error):
            return None
        return array if isinstance(array, np.ndarray) and self.digest_of(array) == digest else None
