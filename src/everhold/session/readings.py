"""Readings: several questions at one price, all of them announced in the record before the first private row is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from everhold.errors import LedgerError, RequestConflict
from everhold.ledger.codec import question_to_dict
from everhold.ledger.rounds import ActStart
from everhold.queries.expression.question import without_values
from everhold.queries.request import AskedBy
from everhold.queries.round_act import RoundAct
from everhold.session.names import checked_expect, require_batch, require_same
from everhold.session.recorder import PlannedReading

if TYPE_CHECKING:
    from everhold.ledger.journal import Journal
    from everhold.queries.answer import Answer
    from everhold.queries.protocol import P
    from everhold.queries.query import Query
    from everhold.session.session import Session

__all__ = ["ReadingKind", "read_parts"]

ReadingKind = Literal["read", "close"]
"""'close': a reading in the last act."""


def read_parts(
    session: Session[P],
    queries: Sequence[Query],
    *,
    asked_by: AskedBy,
    numbers: Iterator[int],
    kind: ReadingKind = "read",
    spend: Fraction | None = None,
    expects: Sequence[float | None] | None = None,
) -> list[Answer]:
    """Read several questions at one price: all are fixed before the first is read. `Holdout.read_many` says more.

    They are checked (`Session.query`). They may be a part of a larger request: their request ids have the next `numbers`.
    A question that was read before is answered from the record, and one that occurs twice is read once.
    """
    guesses = [None] * len(queries) if expects is None else [checked_expect(expect) for expect in expects]
    parts_asked_by = [asked_by.part(next(numbers)) for _ in queries]
    ids = [part.request_id for part in parts_asked_by]
    with session.recorder.turn():
        journal = session.recorder.journal
        session.recorder.require_acts()
        require_batch(session.mechanism, journal, queries, ids)
        _require_no_ask(journal, ids)
        unread = _unread(session, queries, ids, kind)
        if unread:
            session.require_under_cap(asked_by.who, len(unread))
        rounds = {index: len(journal) + part for part, index in enumerate(unread, 1)}
        if unread:
            readings = [
                PlannedReading(
                    session.mechanism.prepare(queries[index]),
                    RoundAct(kind, len(unread), part, spend, guesses[index]),
                    parts_asked_by[index],
                )
                for part, index in enumerate(unread, 1)
            ]
            _read(session, kind, spend, readings, asked_by)
        answers = [
            _recorded(journal, kind, rounds.get(index), query, part_asked_by)
            for index, (query, part_asked_by) in enumerate(zip(queries, parts_asked_by, strict=True))
        ]
        journal.flush()
        return answers


def _require_no_ask(journal: Journal, request_ids: Sequence[str | None]) -> None:
    for request_id in request_ids:
        if (earlier := journal.round_of_request(request_id)) is not None and earlier.act.kind == "ask":
            raise RequestConflict(
                f"request id {request_id!r} belongs to an ask (round {earlier.number}). Expected a new id for a reading. "
                "Nothing was charged."
            )


def _unread(
    session: Session[P], queries: Sequence[Query], request_ids: Sequence[str | None], kind: ReadingKind
) -> list[int]:
    """The indices of questions that have to be read now: each once, and none that was read before."""
    journal = session.recorder.journal
    seen: set[str] = set()
    indices: list[int] = []
    for index, (query, request_id) in enumerate(zip(queries, request_ids, strict=True)):
        earlier = journal.narrowest_reading(query.name)
        if earlier is not None:
            require_same(session.mechanism, query, earlier)
        done = earlier is not None and (kind == "read" or journal.closing_reading(query.name) is not None)
        if done or journal.round_of_request(request_id) is not None or query.name in seen:
            continue
        indices.append(index)
        if query.name is not None:
            seen.add(query.name)
    return indices


def _read(
    session: Session[P], kind: ReadingKind, spend: Fraction | None, readings: Sequence[PlannedReading], asked_by: AskedBy
) -> None:
    """Propose all readings, announce them, and make them."""
    proposals = [session.mechanism.propose(reading.query, replace(reading.act, part=1)) for reading in readings]
    for reading, proposal in zip(readings, proposals, strict=True):
        if not reading.query.text and not reading.query.repeatable:  # what is wrong with given values is reported
            session.sample.sums([reading.query], proposal.forecast.scale)
    options = {
        "spend": None if spend is None else str(spend),
        "expect": [reading.act.expect for reading in readings],
        "requests": [reading.asked_by.request_id for reading in readings],
    }
    asked = tuple(question_to_dict(without_values(reading.query)) for reading in readings)
    session.recorder.read_batch(ActStart(kind, asked, options), asked_by, readings, proposals)


def _recorded(journal: Journal, kind: ReadingKind, number: int | None, query: Query, asked_by: AskedBy) -> Answer:
    """The answer of a reading that is in the record, made now or earlier."""
    past = journal[number] if number is not None else journal.round_of_request(asked_by.request_id)
    past = past or (journal.narrowest_reading(query.name) if kind == "read" else journal.closing_reading(query.name))
    if past is None:
        raise LedgerError("a reading is not where it was recorded. Open the study again.")
    journal.add_repeat(past.number, asked_by)
    return past.answer
