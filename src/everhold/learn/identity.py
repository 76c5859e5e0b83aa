"""When two models are one: by what their owner knows, never by what they say of private rows.

Whether two models agree on every private row is itself something that the rows say. So a model is known by its own bytes and
by its predictions for public rows, and only where its bytes are all there is to it: a pickle holds classes and functions by
their names, and a class that was redefined makes another model under the same name. Models that are made of a few
well-known libraries alone are known; all others are asked about anew.
"""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np

__all__ = ["digest_of", "model_digest"]

_KNOWN = frozenset(["builtins", "collections", "copyreg", "datetime", "numpy", "pandas", "scipy", "sklearn"])
"""Packages whose classes and functions are what their names say, and whose `predict` keeps nothing of what it has seen."""


def model_digest(model: object) -> str | None:
    """What makes a model that model; None where its bytes do not say it all, because it uses code of its owner.

    >>> model_digest(np.arange(3)) == model_digest(np.arange(3)), model_digest(lambda rows: rows)
    (True, None)
    """
    digest = hashlib.sha256()
    try:
        _Pickler(_Into(digest), protocol=5).dump(model)
    except Exception:
        return None
    return digest.hexdigest()


class _Pickler(pickle.Pickler):
    """Refuses whatever is held by the name of something outside the known packages."""

    def reducer_override(self, item: Any) -> Any:
        """Called for every class, function and object that pickle has no own way for."""
        kind = item if isinstance(item, type) or hasattr(item, "__qualname__") else type(item)
        if str(getattr(kind, "__module__", None)).split(".")[0] not in _KNOWN:
            raise pickle.PicklingError("code of somebody's own")
        return NotImplemented


class _Into:
    """A file that keeps nothing but a digest."""

    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, data: Any) -> int:
        """Take in some bytes."""
        view = memoryview(data)
        self._digest.update(view)
        return view.nbytes


def digest_of(*parts: object) -> str:
    """Arrays and texts as one digest.

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
