"""What anybody can do with a study's file alone: take up its public side, and audit it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from everhold.errors import EverholdError, LedgerError
from everhold.ledger.audit import Audit, audit
from everhold.ledger.codec import Repeat, read_entry
from everhold.ledger.rounds import Round
from everhold.ledger.sqlite_format import check_pages
from everhold.ledger.store import Head, Record, Store
from everhold.ledger.study import Study
from everhold.priors.pool import Pool, Prior
from everhold.session.public import KeptPrior, Public, build
from everhold.session.settings import Settings

__all__ = ["audit_study", "expected_records", "kept_public"]


def kept_public(study: Study, settings: Settings) -> tuple[Public, Prior]:
    """The public side of a study, as it kept it."""
    prior = KeptPrior(Pool(study.reference, study.weights, study.draws), study.density, study.prior)
    return Public(prior, settings.seed, study.schema, study.unit), prior


def expected_records(store: Store, expect_head: str | None) -> Iterator[Record]:
    """All records; refused at the end if the ledger does not contain a head that was noted before."""
    wanted = None if expect_head is None else Head.parse(expect_head)
    if wanted is not None:
        for _ in store.records():
            if store.head.records == wanted.records:
                break
        if store.head != wanted:
            older = store.head.records < wanted.records
            raise LedgerError(
                f"{store.path} {'ends before' if older else 'does not contain'} the expected head {str(wanted)[:20]}…: "
                f"it is {'an older copy' if older else 'another history'}. Find the one that holds it; answers given since "
                "then would be asked twice."
            )
    return store.records()


def audit_study(place: Path, *, expect_head: str | None = None, progress: Callable[[int], None] | None = None) -> Audit:
    """Check a study's file: its chain, its bytes, and every round again. `Holdout.audit_file` says more."""
    try:
        store, data = Store.snapshot(place)
    except LedgerError as error:
        return Audit(0, 0, 0, str(error))
    try:
        records = expected_records(store, expect_head)
        study = Study.read(next(records))
        settings = Settings.from_dict(study.settings)
        public, _ = kept_public(study, settings)
        count, written, told = 1, 0, 0
        requests: dict[str, int] = {}

        def rounds() -> Iterator[Round]:
            nonlocal count, written, told
            for record in records:
                entry = read_entry(record, study.schema.kinds)
                count, written = count + 1, entry.written_by
                request = entry.circumstance.request
                if request is not None and request in requests:
                    raise LedgerError(f"request id {request!r} was answered twice.")
                if isinstance(entry, Repeat):
                    if not 1 <= entry.number <= told:
                        raise LedgerError(
                            f"a repeat in the ledger belongs to round {entry.number}, which is not there."
                        )
                    requests[str(request)] = entry.number
                    continue
                told += 1
                if request is not None:
                    requests[request] = entry.round.number
                if progress is not None:
                    progress(entry.round.number)
                yield entry.round

        found = audit(build(study.rows, public, settings), rounds())
        if found.ok:
            check_pages(place, data, records=count, written_by=written or study.written_by)
    except LedgerError as error:
        return Audit(0, 0, 0, str(error))
    except (ArithmeticError, EverholdError, LookupError, RecursionError, TypeError, ValueError) as error:
        return Audit(0, 0, 0, f"{place} cannot be read as a study ({type(error).__name__}: {error})")
    finally:
        store.close()
    return found
