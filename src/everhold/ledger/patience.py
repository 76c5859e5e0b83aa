"""Waiting for a turn at a study that another process has open: with a word about it, and for so long only."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from math import isfinite
from typing import TypeVar

from everhold.errors import LedgerBusy, SettingError

__all__ = ["PATIENCE", "SWITCH", "patience", "patiently"]

SWITCH = "EVERHOLD_PATIENCE"
"""The environment variable that says how many seconds to wait."""

PATIENCE = 120.0
"""Seconds to wait where nothing else is said."""

T = TypeVar("T")

_SILENT = 2.0  # seconds of waiting that need no word
_POLL = 0.005


def patience() -> float:
    """How many seconds to wait for a study that another process has open."""
    text = os.environ.get(SWITCH, "").strip()
    if not text:
        return PATIENCE
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (isfinite(seconds) and seconds >= 0.0):
        raise SettingError(f"{SWITCH} is {text!r}. Expected how many seconds to wait for a study, such as 60, or 0.")
    return seconds


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def patiently(
    work: Callable[[], T],
    *,
    clock: Callable[[], float] | None = None,
    pause: Callable[[float], None] | None = None,
    say: Callable[[str], None] = _say,
) -> T:
    """Do something for which this process has to wait for its turn.

    After two seconds it says on the error stream whom it waits for. It gives up after `EVERHOLD_PATIENCE` seconds.

    Raises:
        LedgerBusy: it gave up.
    """
    clock, pause = clock or time.monotonic, pause or time.sleep  # looked up now: a simulation has its own
    seconds, start, said = patience(), clock(), False
    while True:
        try:
            return work()
        except LedgerBusy as busy:
            waited = clock() - start
            if waited >= seconds:
                again = LedgerBusy(
                    f"{busy} This process waited {seconds:g} seconds and gives up. End the other process, or let it call "
                    f"release(). {SWITCH} sets another number of seconds."
                )
                again.holder = busy.holder
                raise again from None
            if waited >= _SILENT and not said:
                said = True
                say(
                    f"everhold: waiting for process {busy.holder}, which has the study open; giving up after {seconds:g} "
                    f"seconds ({SWITCH}). {busy}"
                )
            pause(_POLL)
