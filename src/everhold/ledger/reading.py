"""A study's file as readers see it: no private rows, no key, no lock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from everhold.bounds.concentration import confidence_nats
from everhold.bounds.description_length import Code
from everhold.errors import LedgerError
from everhold.ledger.codec import Circumstance, Repeat, read_entry
from everhold.ledger.events import Round
from everhold.ledger.store import Head, Store
from everhold.ledger.study import Study

if TYPE_CHECKING:
    from everhold.queries.answer import Answer

__all__ = ["StudyFile", "Told", "read_study", "told_of"]


@dataclass(frozen=True, slots=True)
class Told:
    """One round as people read it."""

    answer: Answer
    question: str
    time: str
    who: str | None
    request: str | None

    @property
    def round(self) -> int:
        """Its number."""
        return self.answer.round


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
            yes_no = json.loads(record.body)["asked"]["kind"] == "yes/no"
            told.append(told_of(entry.round, entry.circumstance, yes_no=yes_no))
            if entry.round.cell is not None:
                code = code.after(round=entry.round.number, cell=entry.round.cell)
        spent = confidence_nats(1.0 - float(study.settings["confidence"])) + code.nats(len(told) + 1)
        return StudyFile(place, study, tuple(told), store.head, spent)
    except StopIteration:
        raise LedgerError(f"{place} holds no record.") from None
    finally:
        store.close()


def told_of(past: Round, at: Circumstance, *, yes_no: bool) -> Told:
    """A round as people read it; yes/no questions are told as shares."""
    answer = past.answer.as_share() if yes_no else past.answer
    return Told(answer, past.name or "(values given as arrays)", at.time, at.who, at.request)
