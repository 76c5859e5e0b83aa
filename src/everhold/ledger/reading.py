"""A study's file as readers see it: no private rows, no key, no lock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from everhold.bounds.concentration import confidence_nats
from everhold.bounds.description_length import Code
from everhold.errors import LedgerError
from everhold.ledger.codec import Entry, Repeat, read_entry
from everhold.ledger.store import Head, Store
from everhold.ledger.study import Study

if TYPE_CHECKING:
    from everhold.queries.answer import Answer

__all__ = ["StudyFile", "Told", "read_study"]


@dataclass(frozen=True, slots=True)
class Told:
    """One round as people read it."""

    answer: Answer
    question: str
    time: str
    who: str | None
    request: str | None


@dataclass(frozen=True, slots=True, eq=False)
class StudyFile:
    """All that a study's file says.

    Attributes:
        path: of the file.
        study: its configuration.
        told: its rounds.
        head: where it stands.
        spent: the price in nats that the next answer's interval would be computed with.
    """

    path: Path
    study: Study
    told: tuple[Told, ...]
    head: Head
    spent: float

    @property
    def surprises(self) -> int:
        """How many rounds surprised."""
        return sum(one.answer.surprise for one in self.told)

    @property
    def confidence(self) -> float:
        """With which all intervals hold together."""
        return float(self.study.settings["confidence"])


def read_study(path: str | Path) -> StudyFile:
    """Read a study and check its chain. `Holdout.audit_file` checks everything else."""
    place = Path(path)
    store = Store.open(place, write=False)
    try:
        records = store.records()
        study = Study.read(next(records))
        told: list[Told] = []
        code = Code()
        for record in records:
            entry = read_entry(record, study.schema.kinds, parse="surprises")
            if isinstance(entry, Repeat):
                continue
            told.append(_told(entry, record.body))
            if entry.round.cell is not None:
                code = code.after(round=entry.round.number, cell=entry.round.cell)
        spent = confidence_nats(1.0 - float(study.settings["confidence"])) + code.nats(len(told) + 1)
        return StudyFile(place, study, tuple(told), store.head, spent)
    except StopIteration:
        raise LedgerError(f"{place} holds no record.") from None
    finally:
        store.close()


def _told(entry: Entry, body: str) -> Told:
    answer, at = entry.round.answer, entry.circumstance
    asked = json.loads(body)["asked"]["kind"]
    question = entry.round.name or {"values": "(values given as arrays)", "digest": "(values given as arrays)"}.get(
        asked, asked
    )
    if asked == "yes/no":
        answer = answer.as_share()
    return Told(answer, question, at.time, at.who, at.request)
