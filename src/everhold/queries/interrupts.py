"""Which interrupt comes from a person at the keyboard, and which from code that was given a private row."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Interrupts", "interrupts"]


class Interrupts:
    """Whether a signal arrived."""

    seen = False


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Notice whether SIGINT arrives, and handle it as before. Python delivers it to the main thread alone.

    Somebody's code that raises KeyboardInterrupt by itself may do so because of a private row: then nothing was seen.

    >>> with interrupts() as found:
    ...     try:
    ...         raise KeyboardInterrupt
    ...     except KeyboardInterrupt:
    ...         print(found.seen)
    False
    """
    found = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield found
        return
    handle = before

    def noticed(number: int, frame: Any) -> Any:
        found.seen = True
        return handle(number, frame)

    signal.signal(signal.SIGINT, noticed)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, before)
