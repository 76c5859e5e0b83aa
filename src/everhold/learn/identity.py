"""When two models are one: by what whoever brings them knows, never by what they say of private rows.

Whether two models agree on every private row is itself something that the rows say. So a model is known by its own bytes,
by the code of its class, and by its predictions for public rows.
"""

from __future__ import annotations

import hashlib
import marshal
import pickle
from types import CodeType, FunctionType
from typing import Any

import numpy as np

__all__ = ["digest_of", "model_digest"]


def model_digest(model: object) -> str | None:
    """What makes a model that model; None where it cannot be told, as for a function that is not an object of its own.

    >>> from fractions import Fraction
    >>> model_digest(Fraction(1, 2)) == model_digest(Fraction(2, 4)), model_digest(lambda rows: rows)
    (True, None)
    """
    if isinstance(model, FunctionType):
        return None  # known by its name alone, and what it calls may change
    digest = hashlib.sha256()
    for kind in type(model).__mro__:
        for name, member in sorted(vars(kind).items()):
            code = getattr(member, "__code__", None)
            if isinstance(code, CodeType):
                digest.update(name.encode() + marshal.dumps(code.replace(co_filename="", co_firstlineno=1)))
    try:
        pickle.Pickler(_Into(digest), protocol=5).dump(model)
    except Exception:
        return None
    return digest.hexdigest()


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
