"""A study's file as readers see it: no private rows, no key, no lock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from everhold.bounds.concentration import confidence_nats
from everhold.bounds.description_length import Code
from everhold.errors import LedgerError, SettingError
from everhold.ledger.codec import AskedBy, Repeat, read_entry
from everhold.ledger.rounds import Round
from everhold.ledger.store import Head, Store
from everhold.ledger.study import Study

if TYPE_CHECKING:
    from everhold.queries.answer import Answer

__all__ = ["LoggedRound", "StudyFile", "read_study", "told_of"]


@dataclass(frozen=True, slots=True)
class LoggedRound:
    """One round as people read it.

    Attributes:
        question: its text, or a note that it was given by values.
        name: what it was called, as it was given.
    """

    answer: Answer
    question: str
    time: str
    who: str | None
    request: str | None
    name: str | None = None

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
    told: tuple[LoggedRound, ...]
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
        told: list[LoggedRound] = []
        code = Code()
        for record in records:
            entry = read_entry(record, study.schema.kinds, parse="surprises")
            if isinstance(entry, Repeat):
                continue
            told.append(told_of(entry.round, entry.circumstance, entry.kind))
            if entry.round.cell is not None:
                code = code.after(round=entry.round.number, cell=entry.round.cell)
        spent = confidence_nats(1.0 - float(study.settings["confidence"])) + code.nats(len(told) + 1)
        return StudyFile(place, study, tuple(told), store.head, spent)
    except StopIteration:
        raise LedgerError(f"{place} holds no record.") from None
    except (ArithmeticError, LookupError, RecursionError, SettingError, TypeError, ValueError) as error:
        raise LedgerError(f"{place} cannot be read as a study ({type(error).__name__}).") from None
    finally:
        store.close()


def told_of(past: Round, at: AskedBy, kind: str) -> LoggedRound:
    """A round as people read it: yes/no questions as shares; a name that somebody gave to values is marked as one."""
    answer = past.answer.as_share() if kind == "yes/no" else past.answer
    if kind in ("yes/no", "mean"):
        question = str(past.name)
    else:
        question = "values given as arrays" if past.name is None else f"values named {past.name!r}"
    return LoggedRound(answer, question, at.time, at.who, at.request, past.name)
