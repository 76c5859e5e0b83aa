"""Candidates that wait for their generation: a line each, beside the gate. Nothing of them is disclosed until its check."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everhold.ledger.rounds import RecordedAct

__all__ = ["WaitingCandidates"]


class WaitingCandidates:
    """The candidates of a gate in the order in which they came. Checks take them from the front."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _read(self) -> list[dict[str, Any]]:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:  # cut off by a crash, before anybody saw that it was entered
                continue
        return found

    def add(self, entry: dict[str, Any], request_id: str | None) -> None:
        """Enter a candidate, durably."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, ("\n" + json.dumps({**entry, "request": request_id}, ensure_ascii=False) + "\n").encode())
            os.fsync(fd)
        finally:
            os.close(fd)

    def waiting(self, checked: int) -> int:
        """How many wait, after so many were checked."""
        return max(len(self._read()) - checked, 0)

    def count(self, done: Sequence[RecordedAct]) -> int:
        """How many wait."""
        return self.waiting(_checked(done))

    def entries(self, done: Sequence[RecordedAct]) -> list[dict[str, Any]]:
        """Those that wait, as the record describes candidates."""
        names = ("kind", "name", "digest", "artifact")
        return [{name: one[name] for name in names} for one in self._read()[_checked(done) :]]

    def requested(self, request_id: str) -> dict[str, Any] | None:
        """The candidate that came with this request."""
        return next((one for one in self._read() if one["request"] == request_id), None)


def _checked(done: Sequence[RecordedAct]) -> int:
    return sum(len(one.begun.asked) for one in done)
