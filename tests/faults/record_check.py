"""What must be true of a study's file after any kill and any failed write, whatever was done when it happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import everhold as eh
from everhold.acts import ACTS
from everhold.ledger.codec import (
    ParsedActEnd,
    ParsedActStart,
    ParsedFinding,
    ParsedRecord,
    ParsedRound,
    Repeat,
    parse_record,
)
from everhold.ledger.first_record import FirstRecord
from everhold.ledger.rounds import ActEnd, ActStart
from everhold.ledger.store import Store
from tests.faults.deeds import PLAIN, PRIVATE, Deed, is_about_a_round

CHARGE = 4.0  # nats: an act of which nobody knows what it disclosed costs at least this
ROUNDING = 1e-4  # nats: prices are on a grid


class RecordBroken(AssertionError):
    """One of the promises is not kept."""


def _require(kept: bool, promise: str, *about: object) -> None:
    if not kept:
        raise RecordBroken(": ".join([promise, *map(str, about)]))


def check(path: Path, shown: Mapping[Deed, dict[str, Any]], looked: Set[Deed]) -> dict[str, int]:
    """All promises, of a file that nobody writes; opening it ends what was interrupted.

    Args:
        path: of the study.
        shown: what anybody saw.
        looked: deeds for which private rows were read.

    Returns:
        How many records of each kind there are, and how many acts were interrupted.
    """
    _announced(path, looked)
    with eh.Holdout.open(path, data=PRIVATE) as held:
        price = held.budget.ask_price
    counted = check_record(path, price)
    _recorded(entries_of(path), shown)
    _returned_again(path, shown)
    return counted


def check_record(path: Path, price: float) -> dict[str, int]:
    """The promises that need no private rows: of a test set and a contest too. `price`: of an ask now."""
    entries = entries_of(path)
    _dense_and_once(entries)
    counted = _ended_and_charged(entries, price)
    found = eh.Holdout.audit_file(path)
    _require(found.ok, "the audit passes", found)
    return counted


def entries_of(path: Path) -> list[ParsedRecord]:
    """Every record of a study but the first."""
    store = Store.open(path, write=False)
    records = store.records()
    kinds = FirstRecord.from_record(next(records)).schema.kinds
    entries = [parse_record(record, kinds, parse="surprises") for record in records]
    store.close()
    return entries


def _announced(path: Path, looked: Set[Deed]) -> None:
    """Private rows are read for an act only when the record says that it begins."""
    begun = {entry.asked_by.request_id for entry in entries_of(path) if isinstance(entry, ParsedActStart)}
    for one in looked:
        if one.kind not in PLAIN and not is_about_a_round(one.kind):  # there rows are read for the ask before it
            _require(one.request in begun, "an act is announced before private rows are read", one.request)


def _dense_and_once(entries: list[ParsedRecord]) -> None:
    """Rounds are numbered without a gap, and no request was answered or charged twice."""
    rounds = [entry.round.number for entry in entries if isinstance(entry, ParsedRound)]
    _require(rounds == list(range(1, len(rounds) + 1)), "rounds are dense")
    answered = Counter(entry.asked_by.request_id for entry in entries if isinstance(entry, ParsedRound | Repeat))
    answered += Counter(begun.request_id for begun in _done_acts(entries))
    answered.pop(None, None)
    for request, times in answered.items():
        _require(times == 1, "a request is answered once", request)


def _done_acts(entries: list[ParsedRecord]) -> Iterator[Any]:
    return (entry.asked_by for entry in entries if isinstance(entry, ParsedActEnd) and not entry.done.interrupted)


def _ended_and_charged(entries: list[ParsedRecord], price: float) -> dict[str, int]:
    """Every act that began has ended; readings, and acts that were interrupted, made the next ask dearer by their price."""
    pending: ActStart | None = None
    last, owed = 0.0, 0.0
    counted: Counter[str] = Counter()
    for entry in entries:
        counted[type(entry).__name__] += 1
        if isinstance(entry, ParsedActStart):
            _require(pending is None, "an act ends before the next one begins", pending)
            pending = entry.begun
            counted[pending.kind] += 1
        elif isinstance(entry, ParsedActEnd):
            if _is_free_look(pending, entry.done):
                owed += CHARGE
            counted["interrupted"] += entry.done.interrupted
            pending = None
        elif isinstance(entry, ParsedRound) and entry.round.act.kind != "ask":
            owed += entry.round.charge - ROUNDING
            pending = None if entry.round.act.part == entry.round.act.parts else pending
        elif isinstance(entry, ParsedRound):
            _require(entry.round.answer.price >= last + owed, "an interrupted act is charged", entry.round.number)
            last, owed = entry.round.answer.price, 0.0
    _require(pending is None, "every act that began has ended", pending)
    _require(price >= last + owed, "an interrupted act is charged", "the next ask")
    return dict(counted)


def _is_free_look(begun: ActStart | None, done: ActEnd) -> bool:
    """Whether an act may have read rows that asks use, and nothing came of it.

    A certificate and an empty last act read none, and a ranking of sealed rows reads others.
    """
    if begun is None or not done.interrupted or not begun.asked or begun.options.get("sealed"):
        return False
    return begun.kind not in ACTS or not is_about_a_round(begun.kind)


def _recorded(entries: list[ParsedRecord], shown: Mapping[Deed, dict[str, Any]]) -> None:
    """Everything that anybody saw stands in the file."""
    recorded = recorded_results(entries)
    seen = 0
    for one, result in shown.items():
        for part in parts_of(result):
            _require(frozen(part) in recorded, "what was shown is in the ledger", one.request, part)
            seen += 1
    _require(seen >= len(shown), "something of every deed is in the ledger")


def recorded_results(entries: list[ParsedRecord]) -> set[Any]:
    """All results in a ledger, frozen: answers in rounds and certificates, the rest in the ends of acts."""
    answers = [entry.round.answer for entry in entries if isinstance(entry, ParsedRound)]
    rounds = [one.to_dict() for answer in answers for one in (answer, answer.as_share())]
    ends = [entry.done.result for entry in entries if isinstance(entry, ParsedActEnd) and not entry.done.interrupted]
    findings = [entry.finding.summary for entry in entries if isinstance(entry, ParsedFinding)]
    return {frozen(one) for one in [*rounds, *ends, *findings]}


def parts_of(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Answers, choices, bits and verdicts within a result."""
    if result.get("kind") in ("answer", "choice", "decision", "verdict"):
        yield result
        return
    for value in result.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                yield from parts_of(one)


def frozen(value: Any) -> Any:
    """A result that a set can hold."""
    if isinstance(value, dict):
        return frozenset((key, frozen(one)) for key, one in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def _returned_again(path: Path, shown: Mapping[Deed, dict[str, Any]]) -> None:
    """Asked again under the same id, everything is as it was, and nothing is added to the record."""
    with eh.Holdout.open(path, data=PRIVATE) as held:
        head = held.head
        for one, result in shown.items():
            try:
                again: object = one.do(held)
            except eh.EverholdError as error:
                again = error
            _require(again == result, "a request id gives the recorded result", one.request, again)
            _require(held.head == head, "a request that was answered is not charged again", one.request)
