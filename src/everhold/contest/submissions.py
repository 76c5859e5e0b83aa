"""The log of submissions beside a contest's study: what was sent, and what became of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import RLock
from typing import Any

from everhold.clock import timestamp
from everhold.errors import LedgerError
from everhold.ledger.safe_files import append_line

__all__ = ["SubmissionLog"]

_MOST_NOTED = 1_000  # submissions of one entrant that were not scored


class SubmissionLog:
    """A file with a line for each submission, read as it grows.

    Attributes:
        highest: the largest round whose score was returned.
        last_outcome: of each entrant, what became of the last submission: its state and the reason.
        sent_again: of each entrant, the earlier submission that was sent again last, by its round, and how many rounds there
            were then: it counts until a later one is scored.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = RLock()
        self._forget()

    def _forget(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._refused: dict[str, int] = {}
        self._read_to = 0
        self.highest = 0
        self.last_outcome: dict[str, str] = {}
        self.sent_again: dict[str, tuple[int, int]] = {}

    def add(self, entrant: str, state: str, reason: str, number: int | None, counts_after: int | None = None) -> None:
        """Write a line, durably.

        Args:
            entrant, state, reason, number: of the submission, with its round if it has one.
            counts_after: of an earlier submission that counts again: how many rounds there are now.
        """
        with self._lock:
            self._read()
            if number is None and self._refused.get(entrant, 0) >= _MOST_NOTED:
                return  # enough is known of it; the file would grow without end
            entry = {
                "time": timestamp(),
                "entrant": entrant,
                "state": state,
                "reason": reason,
                "round": number,
            }
            if counts_after is not None:
                entry["counts_after"] = counts_after
            try:
                append_line(self._path, json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace"))
            except OSError as error:
                raise LedgerError(f"{self._path} cannot be written ({error.strerror}).") from None

    def read(self) -> list[dict[str, Any]]:
        """Every line so far; only what is new is read."""
        with self._lock:
            self._read()
            return list(self._entries)

    def _read(self) -> None:
        try:
            with self._path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._read_to:  # another file, or cut off
                    self._forget()
                file.seek(self._read_to)
                text = file.read()
        except FileNotFoundError:
            self._forget()
            return
        except OSError as error:
            raise LedgerError(f"{self._path} cannot be read ({error.strerror}).") from None
        whole = text.rfind(b"\n") + 1  # a line that is being written is read next time
        self._read_to += whole
        for line in text[:whole].decode("utf-8", "replace").splitlines():
            self._take(line)

    def _take(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:  # a line that was cut off by a crash; the ledger has the score
            return
        if isinstance(entry, dict) and {"entrant", "state", "reason", "round"} <= entry.keys():
            self._entries.append(entry)
            if isinstance(entry["round"], int):
                self.highest = max(self.highest, entry["round"])
                if isinstance(entry.get("counts_after"), int):
                    self.sent_again[entry["entrant"]] = entry["round"], entry["counts_after"]
            else:
                self._refused[entry["entrant"]] = self._refused.get(entry["entrant"], 0) + 1
            self.last_outcome[entry["entrant"]] = f"{entry['state']}: {entry['reason']}"
