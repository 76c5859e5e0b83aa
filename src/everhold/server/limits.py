"""How often and how much at once: rates a token, and turns for long work."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from threading import Lock
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from everhold.server.errors import HTTPRefusal

__all__ = ["Slots", "TokenBucket"]

T = TypeVar("T")

_MOST_KNOWN = 10_000


class TokenBucket:
    """A bucket for each key: `burst` at once, refilled at a steady rate.

    >>> now = [0.0]
    >>> rate = TokenBucket(per_minute=60, burst=2, clock=lambda: now[0])
    >>> rate.take("ann"), rate.take("ann"), rate.take("ann")
    (0.0, 0.0, 1.0)
    >>> now[0] = 1.0
    >>> rate.take("ann")
    0.0
    """

    def __init__(self, *, per_minute: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = per_minute / 60.0, float(burst), clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def take(self, key: str, cost: float = 1.0) -> float:
        """Take from a bucket; the seconds to wait until there is enough, 0 if it was taken."""
        with self._lock:
            now = self._clock()
            left, seen = self._left.pop(key, (self._burst, now))
            left = min(self._burst, left + (now - seen) * self._rate)
            cost = min(cost, self._burst)
            wait = 0.0 if left >= cost else (cost - left) / self._rate
            self._left[key] = (left - cost if wait == 0.0 else left, now)
            while len(self._left) > _MOST_KNOWN:
                self._left.popitem(last=False)
            return wait

    def require(self, key: str, cost: float = 1.0) -> None:
        """Refuse what comes too often."""
        if wait := self.take(key, cost):
            seconds = ceil(wait)
            raise HTTPRefusal(
                429,
                "too_many",
                f"too many requests. Wait {seconds} s, then go on under the same request id.",
                headers={"Retry-After": str(seconds)},
            )


class Slots:
    """How much long work runs at once: so much in all, so much of it for one token. For the event loop's thread alone."""

    def __init__(self, *, in_all: int, for_one: int) -> None:
        self._limiter = CapacityLimiter(in_all)
        self._for_one = for_one
        self._running: dict[str, int] = {}

    @contextmanager
    def room(self, key: str) -> Iterator[None]:
        """Count something that takes long; refuse a token that has too much under way."""
        if self._running.get(key, 0) >= self._for_one:
            raise HTTPRefusal(
                429,
                "too_many",
                f"{self._for_one} questions of yours are being answered. Wait for one of them.",
                headers={"Retry-After": "1"},
            )
        self._running[key] = self._running.get(key, 0) + 1
        try:
            yield
        finally:
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """Run it in a thread when there is room."""
        with self.room(f"{key} in a thread"):
            return await to_thread.run_sync(work, limiter=self._limiter)
