"""Does another study have these rows already? Its answers are disclosures that a new study does not count."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import LedgerError, RowsInUse, RowsInUseWarning, SettingError, outside
from everhold.ledger.first_record import FirstRecord
from everhold.ledger.registry import KnownStudy, Registry, RowDigests, TableFacts, data_folder
from everhold.ledger.store import Head, Store

if TYPE_CHECKING:
    from everhold.data.sample import Sample
    from everhold.ledger.journal import Journal

__all__ = [
    "RegisteredStudy",
    "forget_rows",
    "known_head",
    "newer_state",
    "note_heads",
    "register_private_rows",
    "register_rows",
    "require_known_head",
    "study_of_head",
    "warn_rows_in_use",
]

_NOTED_SECONDS = 1.0  # quiet answers are noted together: a note costs as much as a record


def warn_rows_in_use(sample: Sample) -> None:
    """Warn if a durable study of this user has largely the same rows. Nothing is entered here or in the record."""
    registry = Registry()
    if not registry.exists:
        return
    try:
        known = registry.overlapping(_digests(sample, registry), _table(sample, registry))
    except LedgerError as error:
        message = f"whether these rows have a study already is not known: {error}"
        warnings.warn(RowsInUseWarning(message), stacklevel=outside())
        return
    _warn(known, sample.unit)


def register_rows(path: Path, fingerprint: str, sample: Sample) -> None:
    """Enter a new study, and warn if another one has largely the same rows.

    Looking and entering are one step. Where the registry cannot be used, the study is made all the same, with a warning.

    Raises:
        RowsInUse: a private study has the rows, and whatever this one discloses is exact. Nothing stays entered.
    """
    registry = Registry()
    try:
        digests, table = _digests(sample, registry), _table(sample, registry)
        known = registry.enter(study=fingerprint, kind="holdout", path=path, digests=digests, table=table)
        private = next((one for one in known if one.private and not one.unsure), None)
        if private is not None:
            registry.forget(fingerprint)
    except LedgerError as error:
        message = f"this study is not in the registry of studies: {error}"
        warnings.warn(RowsInUseWarning(message), stacklevel=outside())
        return
    if private is not None:
        raise RowsInUse(
            f"these rows have a private study: {private.path}, made on {private.created[:10]}. A study without a privacy "
            "promise discloses exact values, and then no epsilon of that study holds any more. Go on with that study: "
            f"{_opened(private.path)}. If these are other rows that look alike by design, or that study never answered "
            "anything and never will, pass register=False (in the shell --no-register)."
        )
    _warn(known, sample.unit)


def register_private_rows(path: Path, fingerprint: str, sample: Sample) -> None:
    """Enter a new private study, unless a study of this user has its rows already: what both lose would add up.

    Looking and entering are one step, so that of two processes with the same rows one is refused.

    Raises:
        RowsInUse: with the name of that study. Nothing was entered.
        LedgerError: the registry cannot be used.
    """
    registry = Registry()
    digests, table = _digests(sample, registry), _table(sample, registry, private=True)
    known = registry.enter(study=fingerprint, kind="holdout", path=path, digests=digests, table=table, refuse=True)
    if known:
        raise RowsInUse(_refusal(min(known, key=lambda one: one.unsure), sample.unit, sample.names))


def forget_rows(path: Path, fingerprint: str) -> None:
    """Take a study out of the registry again that could not be made.

    Not if its file may be there already: somebody could still ask it. An entry of nothing is the safe side.
    """
    if os.path.lexists(path) and ((first := _first_record(path)) is None or first.fingerprint == fingerprint):
        return
    with suppress(LedgerError):
        Registry().forget(fingerprint)


def _refusal(known: KnownStudy, unit: str | None, public: Sequence[str]) -> str:
    """Why no private study is made of rows that have a study, and what to do."""
    made = f"{known.path}, made on {known.created[:10]}"
    other = "pass register=False (in the shell --no-register)"
    if known.unsure:
        return (
            f"these may be the rows of {made}: it has as many, one of both is in a database, and such rows cannot be "
            f"compared with others. If they are the same, go on with that study ({_opened(known.path)}): what both disclose "
            f"adds up. If they are others, {other}."
        )
    message = f"these rows have a study already: {made}."
    if named := [name for name in known.columns if name in public]:
        message = f"{message} They are recognised by {', '.join(named)}."
    unused = f"If it never answered anything, or these are other rows that look alike by design, {other}."
    first = _first_record(Path(known.path))
    if first is not None and first.privacy is None:
        return (
            f"{message} That study promised no privacy, so no epsilon holds for these rows any more, whatever is promised "
            f"from now on. Go on with it as a plain study, or make a private one of rows that it does not have. {unused}"
        )
    forgot = ""
    if first is not None and unit is not None and first.unit is None:
        forgot = (
            f" If unit={unit!r} (--unit {unit}) was forgotten there, a new study does not undo what it disclosed: who has k "
            "rows may have lost k times its epsilon, and that adds to the new one."
        )
    return (
        f"{message} What both disclose adds up, and no study counts what another spends. Go on with that study: "
        f"{_opened(known.path)}. If you count the sum of all epsilons yourself, {other}.{forgot} {unused}"
    )


def _opened(path: str) -> str:
    """How to go on with a study, in Python and in the shell."""
    return (
        f'eh.Holdout.open(path), or eh.TestSet(..., path=path) if it is a test set; in the shell `everhold ask {path} "…"`'
    )


def _first_record(path: Path) -> FirstRecord | None:
    """What a study is, as far as its file still says so."""
    try:
        store = Store.open(path, write=False)
    except LedgerError:
        return None
    try:
        return FirstRecord.from_record(next(store.records()))
    except (LedgerError, SettingError, StopIteration):
        return None
    finally:
        store.close()


def known_head(study: str) -> str | None:
    """The newest head of a study that the registry knows; None where it knows none, or cannot be read."""
    try:
        return Registry().newest_head(study)
    except LedgerError:
        return None


def require_known_head(study: str, store: Store) -> None:
    """Refuse a study's file that lacks what the registry knows of it, such as a restored backup.

    Raises:
        LedgerError: answers were returned that this file does not contain.
    """
    newest = known_head(study)
    if newest and not store.holds(Head.parse(newest)):
        raise LedgerError(
            f"{store.path} is an older copy, or another history: answers were returned up to the head {newest[:20]}…, as "
            f"the registry of studies in {data_folder()} knows, and this file does not contain them. Expected the newest "
            "copy: going on from this one would answer the same questions a second time. If the newest is lost, this one "
            "can be read, audited and cited, and nothing more asked (docs/howto/backup.md)."
        )


def newer_state(path: Path) -> str | None:
    """That the registry knows a state of this study which its file lacks, in words; None where it knows of none."""
    store = Store.open(path, write=False)
    try:
        newest = known_head(FirstRecord.from_record(next(store.records())).fingerprint)
        if not newest or store.holds(Head.parse(newest)):
            return None
    except (SettingError, StopIteration):
        return None
    finally:
        store.close()
    return (
        f"{path} is an older copy, or another history: the registry of studies in {data_folder()} knows that this study has "
        f"gone on, up to the head {newest[:20]}…. What is shown here is about this file alone."
    )


def study_of_head(head: str, fingerprint: str) -> str | None:
    """Where another study is that has this head, as the registry knows; None where it knows of none."""
    try:
        found = Registry().with_head(head)
    except LedgerError:
        return None
    return None if found is None or found.id == fingerprint else found.path


class RegisteredStudy:
    """What the registry knows of a private study, in another folder than the study: how far it came, what it was charged.

    A registry that cannot be read or does not know the study remembers nothing.

    Args:
        study: its fingerprint.
    """

    def __init__(self, study: str) -> None:
        self._study = study

    def require_newest(self, store: Store) -> None:
        """Refuse to go on from a copy whose study has gone on elsewhere, before anything is drawn.

        Raises:
            LedgerError: the registry knows a head that this copy does not hold.
        """
        newest = known_head(self._study)
        if newest and not store.holds(Head.parse(newest)):
            raise LedgerError(
                f"another copy of {store.path} has gone on, and what both disclose adds up. Nothing was read. Go on with "
                "the newest copy alone."
            )

    def announce(self, store: Store) -> None:
        """Remember that an act was announced, before its noise is drawn: of several copies one goes on.

        Raises:
            LedgerError: another copy has announced an act, be it the same one.
        """
        if known_head(self._study) == str(store.head):
            raise LedgerError(
                f"another copy of {store.path} has announced the same act. Nothing was drawn. Go on with that copy alone."
            )
        self.note_head(store)

    def note_head(self, store: Store) -> None:
        """Remember how far the study has come.

        Raises:
            LedgerError: another copy of the study has gone on meanwhile.
        """
        registry = Registry()
        while (newest := known_head(self._study)) is not None:
            if newest and not store.holds(Head.parse(newest)):
                raise LedgerError(
                    f"another copy of {store.path} has gone on, and what both disclose adds up. No answer was returned. Go "
                    "on with the newest copy alone."
                )
            if newest == str(store.head):
                return
            with suppress(LedgerError):
                if registry.advance(self._study, newest, str(store.head)):
                    return
                continue  # somebody was faster
            return

    def note_charges(self, charges: int) -> None:
        """Remember how often it was charged, also where the last charge is only drawn and not recorded yet."""
        with suppress(LedgerError):
            if (registry := Registry()).exists:
                registry.note_charges(self._study, charges)

    @property
    def charges(self) -> int:
        """The most that it was charged, as far as is known."""
        try:
            return Registry().charges(self._study)
        except LedgerError:
            return 0


def note_heads(registered: RegisteredStudy, journal: Journal, clock: Callable[[], float] = time.monotonic) -> None:
    """Note in the registry, from now on, how far a study has come, so that an older copy of it is recognised.

    What was charged is noted before it is returned; quiet answers at most once a second, and when the study is given up. So
    the registry may lack the quiet answers of the last second before a process was killed.

    Args:
        registered: what the registry knows of the study.
        journal: where it is recorded.
        clock: seconds that only rise.
    """
    notes = _HeadNotes(registered, journal, clock)
    journal.when_durable(notes.durable)
    journal.when_leaving(notes.leaving)


class _HeadNotes:
    """The head that was noted last, and when."""

    def __init__(self, registered: RegisteredStudy, journal: Journal, clock: Callable[[], float]) -> None:
        self._registered, self._journal, self._clock = registered, journal, clock
        self._noted, self._rounds, self._acts = clock(), len(journal), len(journal.recorded_acts)
        self._head: Head | None = None

    def durable(self, store: Store) -> None:
        """Something has become durable."""
        journal = self._journal
        new = range(self._rounds + 1, len(journal) + 1)
        charged = len(journal.recorded_acts) > self._acts or any(journal[number].outcome is not None for number in new)
        self._rounds, self._acts = len(journal), len(journal.recorded_acts)
        if journal.pending is None and (charged or self._clock() - self._noted >= _NOTED_SECONDS):
            try:
                self._registered.note_head(store)
            except LedgerError:
                store.fail()
                raise
            self._noted, self._head = self._clock(), store.head

    def leaving(self, store: Store) -> None:
        """The study is given up or paused."""
        if store.head != self._head:
            with suppress(LedgerError):  # opening it again says what is wrong
                self._registered.note_head(store)
                self._head = store.head


def _digests(sample: Sample, registry: Registry) -> RowDigests:
    """A digest of every row in memory, and of every Parquet file; of a table in a database a single one."""
    key = registry.key
    found = {"rows": sample.row_digests(key), "files": sample.file_digests(key)}
    digests = {form: values for form, values in found.items() if values is not None}
    return digests or {"files": np.array([int(sample.fingerprint(key)[:16], 16)], dtype=np.uint64)}


def _table(sample: Sample, registry: Registry, *, private: bool = False) -> TableFacts:
    """What else the table is recognised by. A private study looks at every column, declared or not."""
    found = sample.likeness(registry.key, whole=private)
    return TableFacts(sample.rows, found, private, sample.binding == "table")


def _warn(known: Sequence[KnownStudy], unit: str | None) -> None:
    for one in known:
        if one.kind == "gate" or _has_answered(Path(one.path)):
            made = f"{one.path}, made on {one.created[:10]}"
            message = f"these rows have a study already: {made}."
            if one.unsure:
                message = (
                    f"these may be the rows of a private study: {made}. It has as many, and rows in a database cannot be "
                    "compared with others. If they are the same, no epsilon of that study holds any more."
                )
            first = None if unit is None else _first_record(Path(one.path))
            forgot = ""
            if first is not None and first.unit is None:
                forgot = f" If unit={unit!r} (--unit {unit}) was forgotten there: what it disclosed counts all the same."
            message += (
                " What it disclosed about them is not counted here, and intervals are not valid for questions that follow "
                f"from its answers. Go on with that study: {_opened(one.path)}.{forgot}"
                + (" It promises privacy, and no epsilon of it holds any more once this one answers." if one.private else "")
            )
            warnings.warn(RowsInUseWarning(message), stacklevel=outside())
            return


def _has_answered(path: Path) -> bool:
    """Whether a study may have disclosed anything: yes, too, where its file is gone or cannot be read."""
    try:
        store = Store.open(path, write=False)
    except LedgerError:
        return True
    try:
        return sum(1 for _ in store.records()) > 1
    except LedgerError:
        return True
    finally:
        store.close()
