"""Candidates that wait for their generation: a line each, beside the gate. Nothing of them is disclosed until its check."""

from __future__ import annotations

import json
from pathlib import Path

from everhold.errors import LedgerError
from everhold.ledger.gate_check import Candidate
from everhold.ledger.safe_files import append_line, settle

__all__ = ["WaitingCandidates"]

_REQUEST = "request"


class WaitingCandidates:
    """The candidates of a gate in the order in which they came.

    Checks take them from the front: `checked` says how many they took. One that was interrupted takes none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def _read(self) -> list[tuple[Candidate, str | None]]:
        """All that were ever entered, each with the id of its request."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        entered = []
        for line in lines:
            try:
                entry = json.loads(line)
                request_id = entry.pop(_REQUEST)
                entered.append((Candidate.from_record(entry), request_id))
            except (ValueError, KeyError, AttributeError, TypeError):  # empty, or cut off by a crash before anybody saw it
                continue
        return entered

    def add(self, candidate: Candidate, request_id: str | None) -> None:
        """Enter a candidate, durably."""
        line = json.dumps({**candidate.record, _REQUEST: request_id})  # ASCII: no letter in a name ends the line
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

    def count(self, checked: int) -> int:
        """How many wait."""
        return max(len(self._read()) - checked, 0)

    def after(self, checked: int) -> list[Candidate]:
        """Those that wait."""
        return [candidate for candidate, _ in self._read()[checked:]]

    def names(self) -> set[str]:
        """Of all that were ever entered."""
        return {candidate.name for candidate, _ in self._read()}

    def requested(self, request_id: str) -> tuple[int, Candidate] | None:
        """The candidate that came with this request, and its place in the order."""
        for place, (candidate, its_request) in enumerate(self._read()):
            if its_request == request_id:
                return place, candidate
        return None
