"""Waiting for a turn at a study that another process has open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from everhold.errors import LedgerBusy

__all__ = ["patiently"]

T = TypeVar("T")

_PATIENCE = 600.0  # seconds


def patiently(work: Callable[[], T]) -> T:
    """Do something for which this process has to wait for its turn."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return work()
        except LedgerBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
