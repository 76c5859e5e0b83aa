"""The identity of a model: from what its owner knows, never from its predictions on private rows.

Whether two models agree on every private row is data-dependent. So a model is identified by its pickled bytes and its
predictions for public rows, and only if the bytes define it completely: a pickle stores classes and functions by name, and
a redefined class makes another model under the same name. Only models made of a few well-known libraries are identified;
scoring any other model is a new question.
"""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np

__all__ = ["digest_of", "model_digest"]

_KNOWN = frozenset(["builtins", "collections", "copyreg", "datetime", "numpy", "pandas", "scipy", "sklearn"])
"""Packages whose names define their classes and functions, and whose `predict` keeps no state."""


def model_digest(model: object) -> str | None:
    """A digest that identifies a model; None if its bytes do not define it, because it uses its owner's code.

    >>> model_digest(np.arange(3)) == model_digest(np.arange(3)), model_digest(lambda rows: rows)
    (True, None)
    """
    digest = hashlib.sha256()
    try:
        _Pickler(_HashWriter(digest), protocol=5).dump(model)
    except Exception:
        return None
    return digest.hexdigest()


class _Pickler(pickle.Pickler):
    """Refuses anything that pickle would store by a name outside the known packages."""

    def reducer_override(self, item: Any) -> Any:
        """Called for every class, function and object without a built-in pickle format."""
        kind = item if isinstance(item, type) or hasattr(item, "__qualname__") else type(item)
        if str(getattr(kind, "__module__", None)).split(".")[0] not in _KNOWN:
            raise pickle.PicklingError("code of somebody's own")
        return NotImplemented


class _HashWriter:
    """A file object that only updates a digest."""

    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, data: Any) -> int:
        """Add bytes to the digest."""
        view = memoryview(data)
        self._digest.update(view)
        return view.nbytes


def digest_of(*parts: object) -> str:
    """One digest of arrays and texts.

    >>> digest_of(np.array([1, 2]), "a") == digest_of(np.array([1, 2]), "a"), digest_of("a", "b") == digest_of("ab", "")
    (True, False)
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype.kind != "O":
            head, data = f"{part.dtype.str}{part.shape}", np.ascontiguousarray(part).tobytes()
        else:
            head = type(part).__name__
            data = repr(part.tolist() if isinstance(part, np.ndarray) else part).encode("utf-8", "replace")
        digest.update(f"{head} {len(data)}:".encode() + data)
    return digest.hexdigest()[:32]
