"""Progress bars for what may take more than two seconds: in a terminal, or in a notebook.

A bar counts what is public: questions, rounds, games, bytes of a file; never what the private rows say. How fast it moves
may depend on them, so it is shown only in the process that has the rows, on the screen of the person who runs it: never by a
server, a worker or an agent's tool, and never into a file or a pipe. `EVERHOLD_PROGRESS=0` turns bars off.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from html import escape
from importlib import import_module
from math import inf
from typing import Any, ParamSpec, Protocol, TypeVar

__all__ = ["NO_BAR", "SHOWN_FROM", "SWITCH", "Progress", "progress_bar", "watched"]

SWITCH = "EVERHOLD_PROGRESS"
"""The environment variable that turns bars off: 0, off, no or false."""

SHOWN_FROM = 20
"""Of questions, readings or candidates: so many may take seconds, and have a bar."""

P = ParamSpec("P")
T = TypeVar("T")

_DELAY = 1.0  # seconds before a bar appears: what is done by then needs none
_AGAIN = 0.1  # seconds between two drawings
_clock: Callable[[], float] = time.monotonic
_open = threading.Lock()  # held by the bar that is there: what it is made of has none of its own


class _Screen(Protocol):
    """Where a bar is drawn."""

    def draw(self, what: str, done: int, total: int | None) -> None:
        """Draw it again."""

    def close(self) -> None:
        """Take it away."""


class Progress:
    """How far something is. This one shows nothing."""

    __slots__ = ()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""

    def update(self, done: int) -> None:
        """So many are done."""

    def advance(self, more: int = 1) -> None:
        """So many more are done."""

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """The same items; each counts as done when the next is asked for."""
        return iter(items)

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """The same, and the bar is there as long as there are items."""
        with self:
            yield from self.over(items)


NO_BAR = Progress()
"""What is not seen."""


def progress_bar(what: str, total: int | None = None, *, least: int = 2) -> Progress:
    """A bar, if it can be seen, or nothing: `with progress_bar("Replaying", 120) as bar: … bar.advance()`.

    Args:
        what: is done, in a word or two.
        total: how many there are, if that is known. It has to be public.
        least: with fewer there is no bar.

    >>> with progress_bar("Replaying", 3) as bar:  # nobody watches a doctest
    ...     [one for one in bar.over("abc")]
    ['a', 'b', 'c']
    """
    if total is not None and total < least:
        return NO_BAR
    make = _screen()
    return NO_BAR if make is None else _Bar(what, total, make)


def watched(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a function that takes a while and does not know how long."""

    def with_bar(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            with progress_bar(what):
                return function(*args, **kwargs)

        return run

    return with_bar


def _screen() -> Callable[[], _Screen] | None:
    """Where a bar would be seen; None: nowhere."""
    if threading.current_thread() is not threading.main_thread() or _open.locked():
        return None
    if os.environ.get(SWITCH, "").strip().lower() in ("0", "off", "no", "false"):
        return None
    if "multiprocessing" in sys.modules and sys.modules["multiprocessing"].parent_process() is not None:
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        return _Notebook
    stream = sys.stderr
    return _Terminal if stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb" else None


class _Bar(Progress):
    """A bar that appears when it has taken a while."""

    __slots__ = ("_done", "_held", "_lock", "_make", "_next", "_screen", "_timer", "_total", "_what")

    def __init__(self, what: str, total: int | None, make: Callable[[], _Screen]) -> None:
        self._what, self._total, self._make = what, total, make
        self._done, self._next, self._held = 0, 0.0, False
        self._screen: _Screen | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Progress:
        self._held = _open.acquire(blocking=False)
        self._next = _clock() + _DELAY
        if self._held:  # it appears by itself, also where the first step is the long one
            self._timer = threading.Timer(_DELAY, self._draw)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            screen, self._screen, held, self._held = self._screen, None, self._held, False
        if screen is not None:
            screen.close()
        if held:
            _open.release()

    def update(self, done: int) -> None:
        self._done = done
        if _clock() >= self._next:
            self._draw()

    def advance(self, more: int = 1) -> None:
        self.update(self._done + more)

    def over(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            yield item
            self.advance()

    def _draw(self) -> None:
        with self._lock:
            if not self._held:
                return
            self._next = _clock() + _AGAIN
            try:
                if self._screen is None:
                    self._screen = self._make()
                self._screen.draw(self._what, self._done, self._total)
            except Exception:  # whatever the terminal or the notebook cannot do: work goes on without a bar
                self._next = inf


class _Terminal:
    """A bar of rich on the error stream."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(
            *columns, console=Console(file=sys.stderr), transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._bar.start()
        self._task: Any = None

    def draw(self, what: str, done: int, total: int | None) -> None:
        if self._task is None:
            self._task = self._bar.add_task(what, total=total)
        self._bar.update(self._task, completed=done, refresh=True)

    def close(self) -> None:
        self._bar.stop()


class _Notebook:
    """A bar below the cell, which goes when it is done."""

    def __init__(self) -> None:
        shown = import_module("IPython.display")  # a notebook has it: no extra installs it
        self._html, self._handle = shown.HTML, shown.display(shown.HTML(""), display_id=True)

    def draw(self, what: str, done: int, total: int | None) -> None:
        ends = "" if total is None else f" max='{total}' value='{min(done, total)}'"
        count = "" if total is None else f" {done:,} of {total:,}"
        self._handle.update(self._html(f"<div>{escape(what)} <progress{ends}></progress>{count}</div>"))

    def close(self) -> None:
        self._handle.update(self._html(""))
