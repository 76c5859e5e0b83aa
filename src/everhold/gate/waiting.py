"""Candidates that wait for their generation: a line each, beside the gate. Nothing of them is disclosed until its check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.errors import LedgerError
from everhold.ledger.files import append_line, settle

if TYPE_CHECKING:
    from everhold.ledger.rounds import RecordedAct

__all__ = ["WaitingCandidates"]

_KEYS = {"kind", "name", "digest", "artifact"}


class WaitingCandidates:
    """The candidates of a gate in the order in which they came.

    Checks take them from the front. One that was interrupted takes none: its candidates still wait.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def _read(self) -> list[dict[str, Any]]:
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        entries = []
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:  # empty, or cut off by a crash before anybody saw that it was entered
                continue
            if isinstance(entry, dict) and set(entry) == _KEYS | {"request"}:
                entries.append(entry)
        return entries

    def add(self, entry: dict[str, Any], request_id: str | None) -> None:
        """Enter a candidate, durably."""
        line = json.dumps({**entry, "request": request_id})  # ASCII: no letter in a name ends the line
        try:
            append_line(self._path, line.encode("ascii"), private=True)
        except OSError as error:
            raise LedgerError(f"{self._path} cannot be written ({error.strerror}). Nothing was charged.") from None

    def settle(self) -> None:
        """Make durable what is seen here: the process that entered it may have been killed on the way."""
        try:
            settle(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise LedgerError(f"{self._path} cannot be synced ({error.strerror}). Nothing was charged.") from None

    def count(self, done: Sequence[RecordedAct]) -> int:
        """How many wait."""
        return self.count_after(_checked(done))

    def count_after(self, checked: int) -> int:
        """How many wait, after so many were checked."""
        return max(len(self._read()) - checked, 0)

    def entries(self, done: Sequence[RecordedAct]) -> list[dict[str, Any]]:
        """Those that wait, as the record describes candidates."""
        return [{name: entry[name] for name in _KEYS} for entry in self._read()[_checked(done) :]]

    def names(self) -> set[str]:
        """Of all that were ever entered."""
        return {entry["name"] for entry in self._read()}

    def requested(self, request_id: str, done: Sequence[RecordedAct]) -> tuple[dict[str, Any], RecordedAct | None] | None:
        """The candidate that came with this request, and its check, if that was made."""
        for index, entry in enumerate(self._read()):
            if entry["request"] == request_id:
                last = 0
                for act in _ended(done):
                    last += len(act.begun.asked)
                    if index < last:
                        return entry, act
                return entry, None
        return None


def _ended(done: Sequence[RecordedAct]) -> list[RecordedAct]:
    return [act for act in done if not act.done.interrupted]


def _checked(done: Sequence[RecordedAct]) -> int:
    return sum(len(act.begun.asked) for act in _ended(done))
