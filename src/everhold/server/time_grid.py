"""The grid on which answers leave, so that time reveals nothing: whole multiples of a step after a request arrived."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import ceil

__all__ = ["TimeGrid"]


class TimeGrid:
    """Moments at which answers leave.

    Args:
        step: in seconds; 0: at once.
        clock: seconds that only rise.
        sleep: waits so many seconds.

    Attributes:
        waiting: what is ready and has not left yet.

    >>> grid = TimeGrid(0.5)
    >>> grid.slot(10.0, 10.25), grid.slot(10.0, 10.75), grid.slot(None, 10.75)
    (10.5, 11.0, 10.75)
    """

    def __init__(
        self,
        step: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.step, self.clock, self._sleep = step, clock, sleep
        self.waiting: set[object] = set()

    def slot(self, arrived: float | None, now: float) -> float:
        """When an answer that is ready now leaves; at once where there is no grid."""
        if arrived is None or self.step <= 0.0:
            return now
        return arrived + ceil((now - arrived) / self.step) * self.step

    @asynccontextmanager
    async def release(self, arrived: float | None) -> AsyncIterator[None]:
        """Leave on the grid, with an answer or an error."""
        try:
            yield
        finally:
            now, answer = self.clock(), object()
            self.waiting.add(answer)
            try:
                await self._sleep(self.slot(arrived, now) - now)
            finally:
                self.waiting.discard(answer)

    async def until(self, moment: float) -> None:
        """Wait for a moment."""
        await self._sleep(max(0.0, moment - self.clock()))
