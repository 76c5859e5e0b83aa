"""A study's life on disk: create, open and rehearse a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from everhold.bounds.privacy import Privacy
from everhold.clock import timestamp
from everhold.data.database_urls import Postgres, Spark, at_url, is_url
from everhold.data.sample import EngineName, Sample
from everhold.data.source import as_source
from everhold.errors import DataError, LedgerError, SettingError
from everhold.ledger.codec import parse_record
from everhold.ledger.first_record import FirstRecord, fresh_id
from everhold.ledger.guard import Guard
from everhold.ledger.journal import Journal
from everhold.ledger.key_file import KeyFile
from everhold.ledger.store import Head, Record, Store
from everhold.priors.fixed import FixedPrior, StudyKind
from everhold.priors.pool import Pool, Prior
from everhold.priors.split import Split
from everhold.progress import progress_bar
from everhold.queries.rng import stream_rng
from everhold.session.public import PublicSide
from everhold.session.registered import (
    RegisteredStudy,
    forget_rows,
    note_heads,
    register_private_rows,
    register_rows,
    require_known_head,
    study_of_head,
)
from everhold.session.settings import HoldoutOptions, Settings
from everhold.session.setup import Setup, new_setup
from everhold.session.shield import PrivacyShield
from everhold.version import VERSION

__all__ = [
    "first_and_records",
    "kept_public",
    "new_study",
    "open_study",
    "record_count",
    "rehearse_study",
    "require_head",
]


def new_study(
    path: Path, data: object, prior: Prior | Split, options: HoldoutOptions, privacy: Privacy | None, *, register: bool
) -> Setup:
    """Make a study: refused before a row is read if its file exists, and if a private one is in the registry already."""
    if path.exists():
        raise LedgerError(f"{path} exists already. Open it with Holdout.open, or choose another name.")
    if privacy is not None and not isinstance(privacy, Privacy):
        raise SettingError(f"privacy is {privacy!r}. Expected eh.Privacy(epsilon=..., delta=..., surprises=...).")
    setup = new_setup(data, prior, options, privacy)
    if register:
        _create_entered(path, setup, data, register_rows if privacy is None else register_private_rows)
    else:
        _create(path, setup, data)
    return setup


def _create_entered(path: Path, setup: Setup, data: object, into_registry: Callable[[Path, str, Sample], None]) -> None:
    """Enter a study before it is written: the registry may refuse it. What was not made is not in it."""
    entered: list[str] = []

    def enter(fingerprint: str) -> None:
        into_registry(path, fingerprint, setup.session.sample)
        entered.append(fingerprint)

    try:
        _create(path, setup, data, enter)
    except BaseException:
        for fingerprint in entered:
            forget_rows(path, fingerprint)
        raise


def _create(path: Path, setup: Setup, data: object, enter: Callable[[str], None] | None = None) -> str:
    """Write a new study's file and key, and record the session in it from now on. Returns its rows' fingerprint.

    `enter` gets the fingerprint before anything is written, and may refuse.
    """
    public, sample = setup.public, setup.session.sample
    if public.pool is None:
        raise LedgerError("a durable study keeps its public rows: use a prior with fixed rows, such as Sampler(size=...).")
    key_file = KeyFile.new(_location(data))
    fingerprint = sample.fingerprint(bytes.fromhex(key_file.key))
    if setup.settings.privacy is not None:  # no function of the rows leaves without noise, not even under a key
        key_file, fingerprint = replace(key_file, rows=fingerprint), fresh_id()
    first = FirstRecord(
        settings=setup.settings.to_dict(),
        schema=public.schema,
        rows=sample.size,
        unit=setup.unit,
        split=setup.split,
        reference=public.pool.rows,
        weights=public.pool.weights,
        draws=public.pool.draws,
        density=public.density,
        prior=setup.prior.describe(),
        fingerprint=fingerprint,
        created=timestamp(),
        version=VERSION,
        binding=sample.binding,
        kind=setup.prior.kind if isinstance(setup.prior, FixedPrior) else "study",
    )
    if enter is not None:
        enter(first.fingerprint)
    store = Store.create(path, first.record(), before=lambda: key_file.save(path))
    try:
        setup.session.recorder.make_durable(Journal(store))
        if setup.settings.privacy is not None:
            _guard(setup, first, Guard.create(path, store.head))
        note_heads(RegisteredStudy(first.fingerprint), setup.session.journal)
    except BaseException:
        store.close()  # the file is there, and another may go on with it
        raise
    return first.fingerprint


def open_study(path: Path, data: object, expect_head: str | None, engine: EngineName, memory_limit: str | None) -> Setup:
    """A study's session as its record left it, for asking."""
    store = Store.open(path, write=True)
    try:
        first, settings, records = first_and_records(store, expect_head)
        require_known_head(first.fingerprint, store)
        guard = None
        if settings.privacy is not None:
            guard = Guard.open(store.path)
            first, settings, records = first_and_records(store, str(guard.head))
        sample = _bound_sample(first, settings, KeyFile.load(store.path), store.path, data, engine, memory_limit)
        setup = _restored(first, settings, sample, records, store, Journal(store))
        before = _counts(setup)
        if guard is not None:
            _guard(setup, first, guard)
        note_heads(RegisteredStudy(first.fingerprint), setup.session.journal)
        setup.session.recorder.end_interrupted_act()
        setup.session.recorder.ended_at_opening = _ended(before, _counts(setup))
        return setup
    except BaseException:
        store.close()
        raise


def _counts(setup: Setup) -> tuple[int, int, float]:
    """How many acts and rounds there are, and the nats that were disclosed."""
    recorder = setup.session.recorder
    return len(recorder.journal.recorded_acts), len(recorder.journal), recorder.acting_mechanism().budget.nats


def _ended(before: tuple[int, int, float], after: tuple[int, int, float]) -> str | None:
    """What became of an interrupted act, for whom it concerns; None where there was none.

    >>> _ended((0, 5, 2.0), (1, 5, 3.4))
    '1 act was interrupted: it is charged (1.4 nats), and nothing was returned. The log shows it.'
    """
    acts, rounds, nats = (later - earlier for earlier, later in zip(before, after, strict=True))
    if not acts and not rounds:
        return None
    what = "1 act was interrupted" if max(acts, rounds) == 1 else f"{max(acts, rounds)} acts were interrupted"
    became = "charged" if acts else "completed and charged"
    it = "it is" if max(acts, rounds) == 1 else "they are"
    end = ", and nothing was returned. The log shows it." if acts else ". The log shows the answer."
    return f"{what}: {it} {became} ({nats:.1f} nats){end}"


def _guard(setup: Setup, first: FirstRecord, guard: Guard) -> None:
    """Remember every charge in the guard and in the registry, and ask the registry before anything is drawn."""
    recorder, registered = setup.session.recorder, RegisteredStudy(first.fingerprint)
    recorder.shield_with(PrivacyShield(guard, recorder.journal, recorder.acting_mechanism(), registered))


def rehearse_study(path: Path) -> Setup:
    """A study's session without its private rows: the public side can be tried, and nothing can be asked."""
    store = Store.open(path, write=False)
    try:
        first, settings, records = first_and_records(store, None)
        return _restored(first, settings, Sample(first.rows), records, store, Journal())
    finally:
        store.close()


def first_and_records(store: Store, expect_head: str | None) -> tuple[FirstRecord, Settings, Iterator[Record]]:
    """The first record of a study, and the records that follow."""
    records = _expected_records(store, expect_head)
    first = FirstRecord.from_record(next(records))
    return first, Settings.from_dict(first.settings), records


def _restored(
    first: FirstRecord, settings: Settings, sample: Sample, records: Iterator[Record], store: Store, journal: Journal
) -> Setup:
    public, prior = kept_public(first, settings)
    setup = Setup.start(sample, public, settings, prior, first.unit, first.split, journal)
    kinds = public.schema.kinds
    with progress_bar("Opening the study", record_count(store)) as bar:
        entries = (parse_record(record, kinds, parse="surprises") for record in bar.over(records))
        setup.session.recorder.restore(entries, store.path)
    return setup


def record_count(store: Store) -> int | None:
    """How many records a file says it has; None where it cannot be read, which is reported elsewhere."""
    try:
        return store.last()
    except (ValueError, TypeError, sqlite3.Error):
        return None


def kept_public(first: FirstRecord, settings: Settings) -> tuple[PublicSide, Prior]:
    """The public side of a study, as it kept it."""
    pool = Pool(first.reference, first.weights, first.draws)
    prior = FixedPrior(pool, first.density, first.prior, kind=cast("StudyKind", first.kind))
    return PublicSide(prior, settings.seed, first.schema, first.unit), prior


def _bound_sample(
    first: FirstRecord,
    settings: Settings,
    key_file: KeyFile,
    path: Path,
    data: object,
    engine: EngineName,
    memory_limit: str | None,
) -> Sample:
    """The private rows that a study was made for, and no others."""
    if data is None and key_file.data is None and path.with_name(f"{path.name}.gate.json").exists():
        raise DataError(f"{path} is a gate, which answers no questions. Expected everhold gate check, or eh.Gate(path).")
    if data is None and key_file.data is None:
        raise DataError(
            "the study does not know where its rows are. Expected them again: Holdout.open(path, data=...), or --data FILE."
        )
    rows = as_source(key_file.data if data is None else data, what="the private table", private=True)
    if first.split is not None:
        _, rows = Split(first.split).divide(rows, stream_rng(settings.seed, "split"), first.unit)
    if engine == "auto":  # as it was when the study was made
        engine = {"files": "duckdb", "table": "auto"}.get(first.binding, "memory")  # type: ignore[assignment]
    sample = Sample(rows, schema=first.schema, unit=first.unit, engine=engine, memory_limit=memory_limit)
    expected = first.fingerprint if first.privacy is None else key_file.rows
    if sample.size != first.rows or sample.fingerprint(bytes.fromhex(key_file.key)) != expected:
        raise LedgerError(
            f"these are not the rows that {path} was made for. Expected the same rows, in any order (in the same "
            "order where a part of them was split off, the same files or the same kind of database where they are read in "
            "place); other rows need a study of their own."
        )
    return sample


def require_head(path: Path, head: str) -> None:
    """Refuse a study's file, of whatever kind, that does not contain a head that was noted before.

    Raises:
        LedgerError: it is an older copy, or another history.
    """
    store = Store.open(path, write=False)
    try:
        _expected_records(store, head)
    finally:
        store.close()


def _location(data: object) -> str | None:
    """Where to find the rows again, if they are in files or in a database. A URL never holds a password."""
    if isinstance(data, Postgres | Spark):
        return data.location
    if isinstance(data, str) and is_url(data):
        return at_url(data).location
    return str(Path(data).absolute()) if isinstance(data, str | Path) else None


def _expected_records(store: Store, expect_head: str | None) -> Iterator[Record]:
    """All records; refused at the end if the ledger does not contain a head that was noted before."""
    expected = None if expect_head is None else Head.parse(expect_head)
    if expected is not None:
        for _ in store.records():
            if store.head.records == expected.records:
                break
        if store.head != expected:
            older = store.head.records < expected.records
            fingerprint = FirstRecord.from_record(next(store.records())).fingerprint
            if (other := study_of_head(str(expected), fingerprint)) is not None:
                raise LedgerError(
                    f"{store.path} does not contain the expected head {str(expected)[:20]}…: this is another study. "
                    f"That head is of {other}. Expected the file of that study, or a head of this one."
                )
            raise LedgerError(
                f"{store.path} {'ends before' if older else 'does not contain'} the expected head {str(expected)[:20]}…: "
                f"it is {'an older copy' if older else 'another history'}, or another study. Compare for which study it "
                "was noted; then use the newer file: continuing from this copy would answer the same questions a "
                "second time."
            )
    return store.records()
