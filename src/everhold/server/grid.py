"""The grid on which answers leave, so that time tells nothing: whole multiples of a step after a request came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import ceil

__all__ = ["on_grid", "slot"]


def slot(arrived: float | None, now: float, grid: float) -> float:
    """When an answer that is ready now leaves, in seconds of the monotonic clock; at once where there is no grid.

    >>> slot(10.0, 10.25, 0.5), slot(10.0, 10.75, 0.5), slot(None, 10.75, 0.5)
    (10.5, 11.0, 10.75)
    """
    if arrived is None or grid <= 0.0:
        return now
    return arrived + ceil((now - arrived) / grid) * grid


@asynccontextmanager
async def on_grid(arrived: float, grid: float) -> AsyncIterator[None]:
    """Leave on the grid, with an answer or an error."""
    try:
        yield
    finally:
        now = time.monotonic()
        await asyncio.sleep(slot(arrived, now, grid) - now)
