"""What time it is, for records and tokens: one place to read it, so that a simulation can set it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

__all__ = ["running_on", "timestamp", "utc_now"]


def _system() -> datetime:
    return datetime.now(UTC)


_read: Callable[[], datetime] = _system


def utc_now() -> datetime:
    """The time in UTC."""
    return _read()


def timestamp() -> str:
    """The same as a text for a record, to the millisecond."""
    return _read().isoformat(timespec="milliseconds")


@contextmanager
def running_on(clock: Callable[[], datetime]) -> Iterator[None]:
    """Within this, the whole process reads another clock.

    >>> with running_on(lambda: datetime(2030, 1, 2, tzinfo=UTC)):
    ...     timestamp()
    '2030-01-02T00:00:00.000+00:00'
    """
    global _read
    before, _read = _read, clock
    try:
        yield
    finally:
        _read = before
