"""Check a study's file without its private rows: every record again, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from everhold.errors import EverholdError, LedgerError, QuestionError
from everhold.ledger.audit import Audit, audit
from everhold.ledger.codec import (
    ParsedActEnd,
    ParsedActStart,
    ParsedFinding,
    ParsedRound,
    Repeat,
    parse_record,
    question_to_dict,
)
from everhold.ledger.first_record import FirstRecord
from everhold.ledger.rounds import ActStart, RecordedAct, RecordedFinding, Round
from everhold.ledger.sqlite_format import check_pages
from everhold.ledger.store import Record, Store
from everhold.progress import NO_BAR, progress_bar
from everhold.queries.answer import Answer
from everhold.session.public import build_mechanism, declared_columns
from everhold.session.study import first_and_records, kept_public, record_count
from everhold.statistics import statistic
from everhold.statistics.declared import DeclaredColumns
from everhold.statistics.statistic import QuestionBatch, run

__all__ = ["audit_study"]


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
        first, settings, following = first_and_records(store, expect_head)
        public, _ = kept_public(first, settings)
        mechanism = build_mechanism(first.rows, public, settings)
        declared = declared_columns(mechanism, first.schema, 1)
        with NO_BAR if progress is not None else progress_bar("Replaying", record_count(store)) as bar:
            record = _AuditedRecords(first, declared, bar.over(following), progress or (lambda _: None), records)
            result = audit(mechanism, record.rounds())
        if result.ok:
            check_pages(path, data, records=record.count, written_by=record.written_by or first.written_by)
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
        first: FirstRecord,
        declared: DeclaredColumns,
        records: Iterator[Record],
        progress: Callable[[int], None],
        most: int | None,
    ) -> None:
        self._first, self._records, self._progress, self._most = first, records, progress, most
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
            parsed = parse_record(record, self._first.schema.kinds)
            self.count, self.written_by = self.count + 1, parsed.written_by
            if self._most is not None and self.count > self._most:
                continue
            if isinstance(parsed, ParsedFinding):
                self._check_finding(parsed.finding)
                continue
            if isinstance(parsed, ParsedActStart):
                if self._begun is not None:
                    raise LedgerError("an act in the ledger begins before the one before it has ended.")
                self._begun = parsed.begun
                continue
            if isinstance(parsed, ParsedActEnd):
                if self._begun is None:
                    raise LedgerError("an act in the ledger ends that never began.")
                begun, self._begun = self._begun, None
                self._check_parts(begun)
                yield RecordedAct(begun, parsed.done, self._done)
                continue
            self._check_request(parsed)
            if isinstance(parsed, Repeat):
                continue
            self._done += 1
            self._progress(parsed.round.number)
            if parsed.round.act.kind != "ask":
                self._check_announced(parsed)
                if parsed.round.act.part == parsed.round.act.parts:
                    self._begun = None
            if parsed.round.is_text:
                self._answers[parsed.round.number] = parsed.round.name, parsed.round.answer
            yield parsed.round

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

    def _check_announced(self, entry: ParsedRound) -> None:
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

    def _check_request(self, entry: ParsedRound | Repeat) -> None:
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
