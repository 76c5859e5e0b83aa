"""How long Spark may take: it has no limit of its own for a statement, so a second thread keeps the time."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

__all__ = ["brake"]

_AGAIN = 1.0  # seconds between two interruptions: a statement that is between two jobs has nothing to interrupt
_PATIENCE = 20.0  # seconds for a server to obey, before its connection is closed


@contextmanager
def brake(session: Any, seconds: float, *, hang_up: bool) -> Iterator[None]:
    """What is done here in a session, classic or Connect, is interrupted on the server after so many seconds.

    It is interrupted again and again until it ends. Nothing else in the session is: operations of this thread carry a tag.
    What ended although the time was over counts.

    Args:
        session: a session of Spark's.
        seconds: how long it may take.
        hang_up: whether to close the connection of a server that does not answer at all; for sessions of our own.

    Raises:
        TimeoutError: it was interrupted.
    """
    tag, over, ended = f"everhold-{secrets.token_hex(8)}", Event(), Event()
    mark, unmark, stop = _tagging(session)

    def interrupt() -> None:
        while not ended.is_set():
            with suppress(Exception):
                stop(tag)
            ended.wait(_AGAIN)

    def watch() -> None:
        if ended.wait(seconds):
            return
        over.set()
        Thread(target=interrupt, daemon=True).start()  # its request, too, would wait for a server that has stopped
        if hang_up and not ended.wait(_PATIENCE):
            with suppress(Exception):
                session.client.close()

    mark(tag)
    Thread(target=watch, daemon=True).start()
    try:
        yield
    except Exception:
        if over.is_set():
            raise TimeoutError from None
        raise
    finally:
        ended.set()
        unmark(tag)


def _tagging(session: Any) -> tuple[Callable[[str], object], Callable[[str], object], Callable[[str], object]]:
    """How to tag operations of this thread, to stop doing so, and to interrupt those with a tag.

    A classic session's own tags carry the name of the thread, so that another thread cannot interrupt by them.
    """
    if ".connect." in type(session).__module__:
        return session.addTag, session.removeTag, session.interruptTag
    context = session.sparkContext
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
