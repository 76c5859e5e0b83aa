"""A study's life on disk: create, open, rehearse and audit a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from everhold.clock import timestamp
from everhold.data.database_urls import Postgres, Spark, at_url, is_url
from everhold.data.sample import EngineName, Sample
from everhold.data.source import as_source
from everhold.errors import DataError, EverholdError, LedgerError, QuestionError
from everhold.ledger.audit import Audit, audit
from everhold.ledger.codec import ActEndEntry, ActStartEntry, FindingEntry, Repeat, RoundEntry, question_to_dict, read_entry
from everhold.ledger.guard import Guard
from everhold.ledger.journal import Journal
from everhold.ledger.rounds import ActStart, RecordedAct, RecordedFinding, Round
from everhold.ledger.sqlite_format import check_pages
from everhold.ledger.store import Head, Record, Store
from everhold.ledger.study import Secret, Study, fresh_id
from everhold.priors.fixed import FixedPrior
from everhold.priors.pool import Pool, Prior
from everhold.priors.split import Split
from everhold.progress import NO_BAR, progress_bar
from everhold.queries.answer import Answer
from everhold.queries.rng import stream_rng
from everhold.session.public import PublicSide, build_mechanism, declared_columns
from everhold.session.registered import HeadNotes, RegisteredStudy, require_known_head, study_of_head
from everhold.session.settings import Settings
from everhold.session.setup import Setup
from everhold.session.shield import PrivacyShield
from everhold.statistics import statistic
from everhold.statistics.declared import DeclaredColumns
from everhold.statistics.statistic import QuestionBatch, run
from everhold.version import VERSION

__all__ = ["audit_study", "create_study", "open_study", "rehearse_study", "require_head", "require_new"]


def require_new(path: Path) -> None:
    """Refuse to write over a study."""
    if path.exists():
        raise LedgerError(f"{path} exists already. Open it with Holdout.open, or choose another name.")


def create_study(path: Path, setup: Setup, data: object, enter: Callable[[str], None] | None = None) -> str:
    """Write a new study's file and key, and record the session in it from now on. Returns its rows' fingerprint.

    `enter` gets the fingerprint before anything is written, and may refuse.
    """
    public, sample = setup.public, setup.session.sample
    if public.pool is None:
        raise LedgerError("a durable study keeps its public rows: use a prior with fixed rows, such as Sampler(size=...).")
    secret = Secret.new(_location(data))
    fingerprint = sample.fingerprint(bytes.fromhex(secret.key))
    if setup.settings.privacy is not None:  # no function of the rows leaves without noise, not even under a key
        secret, fingerprint = replace(secret, rows=fingerprint), fresh_id()
    study = Study(
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
    )
    if enter is not None:
        enter(study.fingerprint)
    store = Store.create(path, study.record(), before=lambda: secret.save(path))
    try:
        setup.session.recorder.make_durable(Journal(store))
        if setup.settings.privacy is not None:
            _guard(setup, study, Guard.create(path, store.head))
        HeadNotes(RegisteredStudy(study.fingerprint), setup.session.journal)
    except BaseException:
        store.close()  # the file is there, and another may go on with it
        raise
    return study.fingerprint


def open_study(path: Path, data: object, expect_head: str | None, engine: EngineName, memory_limit: str | None) -> Setup:
    """A study's session as its record left it, for asking."""
    store = Store.open(path, write=True)
    try:
        study, settings, records = _begin(store, expect_head)
        require_known_head(study.fingerprint, store)
        guard = None
        if settings.privacy is not None:
            guard = Guard.open(store.path)
            study, settings, records = _begin(store, str(guard.head))
        sample = _bound_sample(study, settings, Secret.load(store.path), store.path, data, engine, memory_limit)
        setup = _restored(study, settings, sample, records, store, Journal(store))
        before = _counts(setup)
        if guard is not None:
            _guard(setup, study, guard)
        HeadNotes(RegisteredStudy(study.fingerprint), setup.session.journal)
        setup.session.recorder.end_interrupted_act()
        setup.session.recorder.ended_at_opening = _ended(before, _counts(setup))
        return setup
    except BaseException:
        store.close()
        raise


def _counts(setup: Setup) -> tuple[int, int, float]:
    """How many acts and rounds there are, and the nats that were disclosed."""
    recorder = setup.session.recorder
    return len(recorder.journal.acts), len(recorder.journal), recorder.acting_mechanism().budget.nats


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


def _guard(setup: Setup, study: Study, guard: Guard) -> None:
    """Remember every charge in the guard and in the registry, and ask the registry before anything is drawn."""
    recorder, registered = setup.session.recorder, RegisteredStudy(study.fingerprint)
    recorder.shield_with(PrivacyShield(guard, recorder.journal, recorder.acting_mechanism(), registered))


def rehearse_study(path: Path) -> Setup:
    """A study's session without its private rows: the public side can be tried, and nothing can be asked."""
    store = Store.open(path, write=False)
    try:
        study, settings, records = _begin(store, None)
        return _restored(study, settings, Sample(study.rows), records, store, Journal())
    finally:
        store.close()


def _begin(store: Store, expect_head: str | None) -> tuple[Study, Settings, Iterator[Record]]:
    """The first record of a study, and the records that follow."""
    records = _expected_records(store, expect_head)
    study = Study.read(next(records))
    return study, Settings.from_dict(study.settings), records


def _restored(
    study: Study, settings: Settings, sample: Sample, records: Iterator[Record], store: Store, journal: Journal
) -> Setup:
    public, prior = _kept_public(study, settings)
    setup = Setup.start(sample, public, settings, prior, study.unit, study.split, journal)
    kinds = public.schema.kinds
    with progress_bar("Opening the study", _length(store)) as bar:
        entries = (read_entry(record, kinds, parse="surprises") for record in bar.over(records))
        setup.session.recorder.restore(entries, store.path)
    return setup


def _length(store: Store) -> int | None:
    """How many records a file says it has; None where it cannot be read, which is reported elsewhere."""
    try:
        return store.last()
    except (ValueError, TypeError, sqlite3.Error):
        return None


def _kept_public(study: Study, settings: Settings) -> tuple[PublicSide, Prior]:
    """The public side of a study, as it kept it."""
    prior = FixedPrior(Pool(study.reference, study.weights, study.draws), study.density, study.prior)
    return PublicSide(prior, settings.seed, study.schema, study.unit), prior


def _bound_sample(
    study: Study,
    settings: Settings,
    secret: Secret,
    path: Path,
    data: object,
    engine: EngineName,
    memory_limit: str | None,
) -> Sample:
    """The private rows that a study was made for, and no others."""
    if data is None and secret.data is None:
        raise DataError(
            "the study does not know where its rows are. Expected them again: Holdout.open(path, data=...), or --data FILE."
        )
    rows = as_source(secret.data if data is None else data, what="the private table", private=True)
    if study.split is not None:
        _, rows = Split(study.split).divide(rows, stream_rng(settings.seed, "split"), study.unit)
    if engine == "auto":  # as it was when the study was made
        engine = {"files": "duckdb", "table": "auto"}.get(study.binding, "memory")  # type: ignore[assignment]
    sample = Sample(rows, schema=study.schema, unit=study.unit, engine=engine, memory_limit=memory_limit)
    expected = study.fingerprint if study.privacy is None else secret.rows
    if sample.size != study.rows or sample.fingerprint(bytes.fromhex(secret.key)) != expected:
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
            fingerprint = Study.read(next(store.records())).fingerprint
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


# audit ----------------------------------------------------------------------------------------------------------------


def audit_study(
    path: Path,
    *,
    expect_head: str | None = None,
    progress: Callable[[int], None] | None = None,
    records: int | None = None,
) -> Audit:
    """Check a study's file: its chain, its bytes, every round and every finding again. `Holdout.audit_file` says more.

    With `records`, only so many of them are replayed: a server shows nothing of rounds whose answers were not sent yet.
    """
    try:
        store, data = Store.snapshot(path)
    except LedgerError as error:
        return Audit(0, 0, 0, str(error))
    try:
        study, settings, following = _begin(store, expect_head)
        public, _ = _kept_public(study, settings)
        mechanism = build_mechanism(study.rows, public, settings)
        declared = declared_columns(mechanism, study.schema, 1)
        with NO_BAR if progress is not None else progress_bar("Replaying", _length(store)) as bar:
            record = _AuditedRecords(study, declared, bar.over(following), progress or (lambda _: None), records)
            result = audit(mechanism, record.rounds())
        if result.ok:
            check_pages(path, data, records=record.count, written_by=record.written_by or study.written_by)
    except LedgerError as error:
        return Audit(0, 0, 0, str(error))
    except (ArithmeticError, EverholdError, LookupError, RecursionError, TypeError, ValueError) as error:
        return Audit(0, 0, 0, f"{path} cannot be read as a study ({type(error).__name__}: {error})")
    finally:
        store.close()
    return result


class _AuditedRecords:
    """The records of a study on their way to an audit: what is not a round is checked here."""

    def __init__(
        self,
        study: Study,
        declared: DeclaredColumns,
        records: Iterator[Record],
        progress: Callable[[int], None],
        most: int | None,
    ) -> None:
        self._study, self._records, self._progress, self._most = study, records, progress, most
        self._declared = declared
        self._findings: set[str] = set()
        self._requests: set[str] = set()
        self._answers: dict[int, tuple[str | None, Answer]] = {}
        self._done = 0
        self._begun: ActStart | None = None
        self.count, self.written_by = 1, 0

    def rounds(self) -> Iterator[Round | RecordedAct]:
        """Every round and act, in order."""
        for record in self._records:
            entry = read_entry(record, self._study.schema.kinds)
            self.count, self.written_by = self.count + 1, entry.written_by
            if self._most is not None and self.count > self._most:
                continue
            if isinstance(entry, FindingEntry):
                self._check_finding(entry.finding)
                continue
            if isinstance(entry, ActStartEntry):
                if self._begun is not None:
                    raise LedgerError("an act in the ledger begins before the one before it has ended.")
                self._begun = entry.begun
                continue
            if isinstance(entry, ActEndEntry):
                if self._begun is None:
                    raise LedgerError("an act in the ledger ends that never began.")
                begun, self._begun = self._begun, None
                self._check_parts(begun)
                yield RecordedAct(begun, entry.done, self._done)
                continue
            self._check_request(entry)
            if isinstance(entry, Repeat):
                continue
            self._done += 1
            self._progress(entry.round.number)
            if entry.round.act.kind != "ask":
                self._check_announced(entry)
                if entry.round.act.part == entry.round.act.parts:
                    self._begun = None
            if entry.round.is_text:
                self._answers[entry.round.number] = entry.round.name, entry.round.answer
            yield entry.round

    def _check_parts(self, begun: ActStart) -> None:
        """A verdict by intervals is priced for as many intervals as its questions take."""
        if begun.kind != "compare" or begun.options.get("method") not in ("intervals", "noisy intervals"):
            return
        try:
            parts = sum(
                len(next(statistic(entry["name"], entry["arguments"]).steps(self._declared)))
                if entry["kind"] == "statistic"
                else 1
                for entry in begun.asked
            )
        except (KeyError, TypeError, ValueError, StopIteration, QuestionError) as error:
            raise LedgerError(f"a recorded verdict cannot be computed again ({type(error).__name__}).") from None
        if parts != begun.options.get("parts"):
            raise LedgerError(f"a recorded verdict was priced for {begun.options.get('parts')} intervals, not {parts}.")

    def _check_announced(self, entry: RoundEntry) -> None:
        """A reading is one that was announced before it was made, with the same options."""
        past, begun = entry.round, self._begun
        if begun is None or begun.kind != past.act.kind or past.act.parts != len(begun.asked):
            raise LedgerError(f"round {past.number} is a reading that was not announced.")
        spend = None if past.act.spend is None else str(past.act.spend)
        index = past.act.part - 1
        asked = question_to_dict(past.question)
        try:
            options = begun.options["spend"], begun.options["expect"][index], begun.options["requests"][index]
        except (KeyError, IndexError, TypeError):
            raise LedgerError("an act in the ledger has other options than it can have.") from None
        named = asked | {"name": past.name, "title": past.title} if asked["kind"] == "values" else asked
        if begun.asked[index] != named or options != (spend, past.act.expect, entry.asked_by.request_id):
            raise LedgerError(f"round {past.number} is another reading than was announced.")

    def _check_request(self, entry: RoundEntry | Repeat) -> None:
        request = entry.asked_by.request_id
        if request is not None and request in self._requests:
            raise LedgerError(f"request id {request!r} was answered twice.")
        if isinstance(entry, Repeat) and not 1 <= entry.number <= self._done:
            raise LedgerError(f"a repeat in the ledger belongs to round {entry.number}, which is not there.")
        if request is not None:
            self._requests.add(request)

    def _check_finding(self, finding: RecordedFinding) -> None:
        """The same statistic from the recorded answers gives the same result, bit for bit."""

        used = dict(self._answers[number] for number in finding.rounds if number in self._answers)

        def answers(batch: QuestionBatch) -> list[Answer]:
            missing = [query.name for query in batch if query.name not in used]
            if missing:
                raise LedgerError(f"a recorded {finding.statistic} rests on a question that is not there: {missing[0]}.")
            return [used[query.name] for query in batch]

        if finding.key in self._findings:
            raise LedgerError(f"a recorded {finding.statistic} stands in the ledger twice.")
        self._findings.add(finding.key)
        declared = replace(self._declared, most_cells=len(self._answers))  # each cell has a recorded answer
        try:
            asked = statistic(finding.statistic, finding.arguments)
            result: Any = run(asked.steps(declared), answers)
        except QuestionError as error:
            raise LedgerError(f"a recorded {finding.statistic} cannot be computed again: {error}") from None
        if isinstance(result, Answer) or RecordedFinding.of(asked, result).key != finding.key:
            raise LedgerError(f"a recorded {finding.statistic} does not follow from its rounds.")
