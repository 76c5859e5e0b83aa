"""Records as text: typed, versioned, exact. A number survives because Python writes floats so that they read back equal.

Kinds of records: 'study' (the configuration, first and once), 'round' (a question and its answer), 'repeat' (a request that
was answered from an earlier round), 'finding' (a statistic and its result, made of rounds). A version that is not known here
is refused.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from everhold.errors import LedgerError, QuestionError
from everhold.ledger.rounds import UNPARSED, Digest, Recorded, RecordedFinding, Round
from everhold.ledger.store import Record
from everhold.queries.answer import Answer
from everhold.queries.expression import BoundedMean, Expression, bounded_mean, expression, number
from everhold.queries.expression.canonical import looks_like_text, text_of
from everhold.queries.expression.parser import RECORDED
from everhold.queries.grid import Packed
from everhold.queries.protocol import SketchValue

if TYPE_CHECKING:
    from everhold.queries.expression.tree import Kind
    from everhold.queries.query import Query

__all__ = ["AskedBy", "Entry", "FindingEntry", "Repeat", "read_entry", "require_keys", "round_record"]

VERSIONS = {"study": 1, "round": 1, "repeat": 1, "finding": 1}


@dataclass(frozen=True, slots=True)
class AskedBy:
    """When a question came, from whom, and under which request id."""

    time: str = ""
    who: str | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A round as it is recorded."""

    round: Round
    asked_by: AskedBy
    written_by: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """A request that an earlier round had answered."""

    number: int
    asked_by: AskedBy
    written_by: int


@dataclass(frozen=True, slots=True)
class FindingEntry:
    """A statistic with its result as it is recorded."""

    finding: RecordedFinding
    asked_by: AskedBy
    written_by: int


def dump(value: Mapping[str, Any]) -> str:
    """One text for one value."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def load(record: Record) -> dict[str, Any]:
    """The value of a record whose kind and version are known."""
    if record.kind not in VERSIONS:
        raise LedgerError(
            f"the ledger holds a record of kind {record.kind!r}, which this everhold does not know: use a newer one."
        )
    if record.version != VERSIONS[record.kind]:
        raise LedgerError(
            f"the ledger holds a {record.kind} record of version {record.version}; this everhold reads version "
            f"{VERSIONS[record.kind]}. Use a newer everhold."
        )
    try:
        value = json.loads(record.body)
    except (ValueError, RecursionError):
        raise LedgerError(f"a {record.kind} record of the ledger is not readable.") from None
    if not isinstance(value, dict):
        raise LedgerError(f"a {record.kind} record of the ledger is not readable.")
    return value


def round_record(round: Round, at: AskedBy) -> Record:  # noqa: A002
    """A round, ready to be written."""
    answer, reading = round.answer, round.reading
    asked, blob = _question(round.question)
    body = {
        "round": answer.round,
        "asked": asked,
        "name": round.name,
        "identity": round.identity,
        "value": answer.value,
        "low": answer.low,
        "high": answer.high,
        "surprise": answer.surprise,
        "spent": answer.spent,
        "scale": answer.scale,
        "cell": round.cell,
        "fit": None if round.fit is None else list(round.fit),
        "reading": [reading.scale, str(reading.numerator), str(reading.denominator), reading.draws],
        **_when(at),
    }
    return Record("round", VERSIONS["round"], dump(body), blob)


def repeat_record(number: int, at: AskedBy) -> Record:
    """A request answered from the record."""
    return Record("repeat", VERSIONS["repeat"], dump({"round": number, **_when(at)}))


def finding_record(finding: RecordedFinding, at: AskedBy) -> Record:
    """A statistic with its result, ready to be written."""
    body = {
        "statistic": finding.statistic,
        "arguments": finding.arguments,
        "summary": finding.summary,
        "rounds": list(finding.rounds),
        **_when(at),
    }
    return Record("finding", VERSIONS["finding"], dump(body))


def sqlite_version() -> int:
    """The library's version, as the header of its files has it."""
    major, minor, patch = sqlite3.sqlite_version_info
    return major * 1_000_000 + minor * 1_000 + patch


def _when(at: AskedBy) -> dict[str, Any]:
    return {"time": at.time, "who": at.who, "request": at.request, "sqlite": sqlite_version()}


def read_entry(
    record: Record, kinds: Mapping[str, Kind], *, parse: Literal["all", "surprises"] = "all"
) -> Entry | Repeat | FindingEntry:
    """A round, a repeat or a finding again, equal to what was written.

    With `parse="surprises"` the text of quiet questions is not parsed again; `UNPARSED` stands for it.
    """
    body = load(record)
    try:
        if parse == "all" and dump(body) != record.body:
            raise ValueError("a text that was not written by everhold")
        _require_shape(record.kind, body)
        if record.blob is not None and (record.kind != "round" or body["asked"].get("kind") != "values"):
            raise ValueError("bytes that nothing reads")
        at = AskedBy(body["time"], body["who"], body["request"])
        if record.kind == "repeat":
            return Repeat(int(body["round"]), at, int(body["sqlite"]))
        if record.kind == "finding":
            parts = tuple(int(one) for one in body["rounds"])
            found = RecordedFinding(body["statistic"], body["arguments"], body["summary"], parts)
            return FindingEntry(found, at, int(body["sqlite"]))
        scale, numerator, denominator, draws = body["reading"]
        asked = (
            UNPARSED
            if parse == "surprises" and body["cell"] is None and body["asked"]["kind"] in ("yes/no", "mean")
            else _asked(body["asked"], record.blob, kinds, body["name"])
        )
        _require_name(asked, body["name"], body["identity"])
        return Entry(
            Round(
                Answer(
                    body["value"],
                    body["low"],
                    body["high"],
                    body["surprise"],
                    body["round"],
                    body["spent"],
                    body["scale"],
                ),
                body["cell"],
                None if body["fit"] is None else tuple(body["fit"]),
                SketchValue(scale, int(numerator), int(denominator), draws),
                asked,
                body["name"],
                body["identity"],
            ),
            at,
            int(body["sqlite"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, QuestionError) as error:
        raise LedgerError(f"a {record.kind} record of the ledger is not readable ({type(error).__name__}).") from None


_SHAPES: dict[str, dict[str, tuple[type, ...]]] = {
    "repeat": {"round": (int,), "time": (str,), "who": (str, type(None)), "request": (str,), "sqlite": (int,)},
    "finding": {
        "statistic": (str,),
        "arguments": (dict,),
        "summary": (dict,),
        "rounds": (list,),
        "time": (str,),
        "who": (str, type(None)),
        "request": (str, type(None)),
        "sqlite": (int,),
    },
    "round": {
        "round": (int,),
        "asked": (dict,),
        "name": (str, type(None)),
        "identity": (str, type(None)),
        "value": (float, int),
        "low": (float, int),
        "high": (float, int),
        "surprise": (bool,),
        "spent": (float, int),
        "scale": (str,),
        "cell": (int, type(None)),
        "fit": (list, type(None)),
        "reading": (list,),
        "time": (str,),
        "who": (str, type(None)),
        "request": (str, type(None)),
        "sqlite": (int,),
    },
}


_ASKED = {
    "digest": {"kind", "sha256"},
    "yes/no": {"kind", "text"},
    "mean": {"kind", "text", "low", "high", "given", "reverse"},
    "values": {"kind", "scale", "form", "size"},
}


def require_keys(found: Mapping[str, Any], wanted: Iterable[str], what: str) -> None:
    """Refuse a part of a record with other entries than it has."""
    if set(found) != set(wanted):
        odd = sorted(set(found) ^ set(wanted))
        raise LedgerError(f"{what} has unknown or missing entries ({', '.join(map(str, odd[:4]))}).")


def _require_shape(kind: str, body: Mapping[str, Any]) -> None:
    """Exactly the fields of a record, each of its type."""
    shape = _SHAPES[kind]
    if set(body) != set(shape) or any(
        not isinstance(body[name], types) or (isinstance(body[name], bool) and bool not in types)
        for name, types in shape.items()
    ):
        raise ValueError("other fields than expected")
    if kind == "finding":
        _require_finding(body)
    if kind == "round" and (
        (body["cell"] is None) != (body["fit"] is None)
        or body["surprise"] != (body["cell"] is not None)
        or any(not isinstance(one, int) or isinstance(one, bool) for one in body["fit"] or [])
    ):
        raise ValueError("a surprise without its cell or its coefficients")
    if kind == "round":
        require_keys(body["asked"], _ASKED.get(body["asked"].get("kind"), ()), "the question of a round")


def _require_finding(body: Mapping[str, Any]) -> None:
    """A summary that every reader can show: texts, numbers or null, ends in order, at least one round."""
    short = body["summary"]
    table = short.get("kind") == "shares"
    require_keys(short, ("kind", "what", "cells") if table else _SUMMARY, "the summary of a finding")
    cells = short["cells"] if table else [short]
    for cell in cells:
        if table:
            require_keys(cell, ("label", "value", "low", "high"), "a cell of a finding")
            if not all(isinstance(one, str) for one in cell["label"]):
                raise ValueError("a label that is not text")
        value, low, high = (cell[name] for name in ("value", "low", "high"))
        if not all(one is None or type(one) in (int, float) for one in (value, low, high)):
            raise ValueError("a value that is not a number")
        if low is not None and high is not None and not low <= high:
            raise ValueError("an interval whose ends are not in order")
    kinds = ("shares", "finding", "comparison")
    if not isinstance(short["what"], str) or short["kind"] not in kinds or not cells:
        raise ValueError("a summary of another kind")
    if not table and (short["unit"] not in ("number", "date") or (short["unit"] == "date" and not _is_moment(short))):
        raise ValueError("a unit that is not known")
    if not body["rounds"] or not all(type(one) is int and one >= 1 for one in body["rounds"]):
        raise ValueError("rounds that are not numbers")


_SUMMARY = ("kind", "what", "value", "low", "high", "unit")


def _is_moment(short: Mapping[str, Any]) -> bool:
    """Whether a date lies where dates can be written: microseconds since 1970."""
    return all(short[name] is None or abs(short[name]) < 6e16 for name in ("value", "low", "high"))


def _require_name(asked: Query | Digest, name: str | None, identity: str | None) -> None:
    """The name that readers see is the question's own."""
    if asked is UNPARSED:
        return
    if isinstance(asked, Expression | BoundedMean):
        fine = name == identity == asked.name
    else:
        digest = (
            asked.sha256 if isinstance(asked, Digest) else asked.packed.digest if isinstance(asked, Recorded) else ""
        )
        fine = (name is None) == (identity is None) and (identity is None or identity == digest)
        fine = fine and (name is None or not looks_like_text(name))
    if not fine:
        raise ValueError("a name that is not the question's")


def _question(kept: Query | Digest) -> tuple[dict[str, Any], bytes | None]:
    if isinstance(kept, Digest):
        return {"kind": "digest", "sha256": kept.sha256}, None
    if isinstance(kept, Expression):
        return {"kind": "yes/no", "text": kept.name}, None
    if isinstance(kept, BoundedMean):
        given = None if kept.given is None else text_of(kept.given)
        ends = {"low": kept.low, "high": kept.high, "given": given, "reverse": kept.reverse}
        return {"kind": "mean", "text": text_of(kept.tree), **ends}, None
    if isinstance(kept, Recorded):
        packed = kept.packed
        return {"kind": "values", "scale": packed.scale, "form": packed.form, "size": packed.size}, packed.data
    raise LedgerError("a callable cannot be kept in a file. Ask in text, or use a prior with fixed rows.")


def _asked(asked: Mapping[str, Any], blob: bytes | None, kinds: Mapping[str, Kind], name: str | None) -> Query | Digest:
    if asked["kind"] == "digest":
        return Digest(asked["sha256"])
    if asked["kind"] == "yes/no":
        return expression(asked["text"], kinds, limits=RECORDED)
    if asked["kind"] == "mean":
        given = None if asked["given"] is None else expression(asked["given"], kinds, limits=RECORDED).tree
        tree = number(asked["text"], kinds, limits=RECORDED)
        return bounded_mean(tree, asked["low"], asked["high"], given=given, reverse=asked["reverse"])
    if asked["kind"] == "values" and blob is not None:
        return Recorded(Packed(asked["scale"], asked["form"], asked["size"], blob), name)
    raise ValueError("an unknown kind of question")
