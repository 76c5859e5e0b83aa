"""Coins: random numbers that are independent of the private rows and can be reproduced.

Every use has its own key, made from the session's seed and the name and round of the use. There is no running state, so a
crash, a retry or a replay sees the same coins.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np

from everhold.errors import SettingError

__all__ = ["fresh_seed", "require_seed", "stream_rng"]


def stream_rng(seed: int, *stream: str | int) -> np.random.Generator:
    """A counter-based generator (Philox) keyed by the seed and the words of `stream`.

    >>> int(stream_rng(7, "fresh", 3).integers(1000)) == int(stream_rng(7, "fresh", 3).integers(1000))
    True
    """
    require_seed(seed)
    words = "\n".join(str(word) for word in stream)
    digest = hashlib.sha256(f"everhold coins 1\n{seed}\n{words}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


def require_seed(seed: int) -> None:
    """Raise SettingError unless the seed is in range."""
    if not 0 <= seed < 2**128:
        raise SettingError("the seed is negative or too large. Expected a whole number from 0 to 2¹²⁸-1.")


def fresh_seed() -> int:
    """A random seed from the operating system, for sessions without one."""
    return secrets.randbits(128)
