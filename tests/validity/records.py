"""A study's records as data: to compare two studies, and to forge one with its chain of hashes made whole again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everhold.ledger.codec import dump
from everhold.ledger.store import Record, Store

TIMES = ("time", "asked_at", "who", "request")


@dataclass
class Kept:
    """One record: its kind and its body, which may be changed."""

    kind: str
    version: int
    body: dict[str, Any]
    blob: bytes | None

    @property
    def sealed(self) -> Record:
        return Record(self.kind, self.version, dump(self.body), self.blob)


def records(path: Path) -> list[Kept]:
    store = Store.open(path, write=False)
    try:
        return [Kept(one.kind, one.version, json.loads(one.body), one.blob) for one in store.records()]
    finally:
        store.close()


def told(path: Path) -> list[tuple[str, str, bytes | None]]:
    """Every record without the moment it was made at, and without what binds the study to its private rows."""
    found = []
    for one in records(path):
        body = {name: value for name, value in one.body.items() if name not in TIMES}
        if one.kind == "study":
            body = {name: value for name, value in body.items() if name not in ("fingerprint", "created", "made")}
        found.append((one.kind, json.dumps(body, sort_keys=True), one.blob))
    return found


def forged(source: Path, target: Path, change: Callable[[list[Kept]], list[Kept] | None]) -> Path:
    """The study with changed records and a chain that is whole."""
    kept = copy.deepcopy(records(source))
    kept = change(kept) or kept
    store = Store.create(target, kept[0].sealed)
    store.append([one.sealed for one in kept[1:]])
    store.close()
    if (key := source.with_name(source.name + ".key")).exists():
        target.with_name(target.name + ".key").write_bytes(key.read_bytes())
    return target
