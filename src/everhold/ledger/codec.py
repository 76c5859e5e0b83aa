"""Records as text: typed, versioned, exact. A number survives because Python writes floats so that they read back equal.

Kinds of records: 'study' (the configuration, first and once), 'round' (a question and its answer), 'repeat' (a request that
was answered from an earlier round), 'finding' (a statistic and its result, made of rounds), 'begun' (an act that is about to
read private rows), 'done' (how it ended, where it is not made of rounds). A version that is not known here is refused.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import nan
from typing import TYPE_CHECKING, Any, Literal, get_args

from everhold.errors import LedgerError, QuestionError
from everhold.ledger.rounds import UNPARSED, ActEnd, ActStart, Digest, RecordedFinding, RecordedQuestion, Round
from everhold.ledger.store import Record
from everhold.queries.answer import Answer
from everhold.queries.expression import BoundedMean, Expression, bounded_mean, expression, number
from everhold.queries.expression.canonical import looks_like_text, text_of
from everhold.queries.expression.composites import (
    COMPOSITES,
    GroupDifference,
    GroupMean,
    GroupShare,
    PairedShares,
    QuantileOf,
    SpreadOf,
    group_difference,
    group_mean,
    group_share,
    paired_shares,
    quantile_of,
    spread_of_means,
)
from everhold.queries.expression.parser import RECORDED
from everhold.queries.grid import PackedValues
from everhold.queries.protocol import NOTHING, SketchValue
from everhold.queries.query import is_range
from everhold.queries.request import AskedBy
from everhold.queries.round_act import ASK, ActKind, RoundAct
from everhold.results import number_or_null

if TYPE_CHECKING:
    from everhold.queries.expression.tree import Kind
    from everhold.queries.query import Query

__all__ = [
    "ParsedActEnd",
    "ParsedActStart",
    "ParsedFinding",
    "ParsedRecord",
    "ParsedRound",
    "Repeat",
    "parse_record",
    "question_from_dict",
    "question_to_dict",
    "require_keys",
    "round_record",
]

VERSIONS = {"study": 1, "round": 1, "repeat": 1, "finding": 1, "begun": 1, "done": 1}


@dataclass(frozen=True, slots=True)
class ParsedRound:
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
class ParsedFinding:
    """A statistic with its result as it is recorded."""

    finding: RecordedFinding
    asked_by: AskedBy
    written_by: int


@dataclass(frozen=True, slots=True)
class ParsedActStart:
    """An act that was about to read private rows."""

    begun: ActStart
    asked_by: AskedBy
    written_by: int


@dataclass(frozen=True, slots=True)
class ParsedActEnd:
    """How it ended."""

    done: ActEnd
    asked_by: AskedBy
    written_by: int


ParsedRecord = ParsedRound | Repeat | ParsedFinding | ParsedActStart | ParsedActEnd


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


def round_record(round: Round, asked_by: AskedBy) -> Record:  # noqa: A002
    """A round, ready to be written."""
    answer, forecast = round.answer, round.forecast
    asked, blob = _question(round.question)
    body = {
        "round": answer.round,
        "asked": asked,
        "name": round.name,
        "identity": round.identity,
        "title": round.title if round.shown_range is None else [round.title, *round.shown_range],
        "value": number_or_null(answer.value),
        "low": answer.low,
        "high": answer.high,
        "surprise": answer.surprise,
        "price": answer.price,
        "scale": answer.scale,
        "cell": list(round.outcome) if isinstance(round.outcome, tuple) else round.outcome,
        "act": None if round.act == ASK else _act_to_dict(round.act),
        "nats": round.charge,
        "counts": None if round.counts is None else list(round.counts),
        "fit": None if round.fit is None else list(round.fit),
        "reading": [
            forecast.scale,
            str(forecast.numerator),
            str(forecast.denominator),
            forecast.draws,
            forecast.second,
            forecast.group,
        ],
        **_when(asked_by),
    }
    return Record("round", VERSIONS["round"], dump(body), blob)


def repeat_record(number: int, asked_by: AskedBy) -> Record:
    """A request answered from the record."""
    return Record("repeat", VERSIONS["repeat"], dump({"round": number, **_when(asked_by)}))


def finding_record(finding: RecordedFinding, asked_by: AskedBy) -> Record:
    """A statistic with its result, ready to be written."""
    body = {
        "statistic": finding.statistic,
        "arguments": finding.arguments,
        "summary": finding.summary,
        "rounds": list(finding.rounds),
        **_when(asked_by),
    }
    return Record("finding", VERSIONS["finding"], dump(body))


def act_start_record(begun: ActStart, asked_by: AskedBy) -> Record:
    """An act that is about to read private rows, ready to be written."""
    body = {"act": begun.kind, "asked": list(begun.asked), "options": begun.options, **_when(asked_by)}
    return Record("begun", VERSIONS["begun"], dump(body))


def act_end_record(done: ActEnd, asked_by: AskedBy) -> Record:
    """How an act ended, ready to be written."""
    body = {"outcome": done.outcome, "result": done.result, "interrupted": done.interrupted, **_when(asked_by)}
    return Record("done", VERSIONS["done"], dump(body))


def question_to_dict(query: Query | Digest) -> dict[str, Any]:
    """A question of an act as plain data. Given by values or a callable, only that it was."""
    if isinstance(query, Digest) or not query.text:
        return {"kind": "values", "name": getattr(query, "name", None), "title": getattr(query, "title", None)}
    return _question(query)[0]


def question_from_dict(asked: Mapping[str, Any], kinds: Mapping[str, Kind]) -> Query | None:
    """The question of an act again; None where it was given by values."""
    if asked["kind"] == "values":
        return None
    question = _asked(asked, None, kinds, None)
    return None if isinstance(question, Digest) else question


def _act_to_dict(act: RoundAct) -> dict[str, Any]:
    spend = None if act.spend is None else str(act.spend)
    return {"kind": act.kind, "parts": act.parts, "part": act.part, "spend": spend, "expect": act.expect}


def _act_from_dict(recorded: Mapping[str, Any] | None) -> RoundAct:
    if recorded is None:
        return ASK
    require_keys(recorded, ("kind", "parts", "part", "spend", "expect"), "the act of a round")
    kind, parts, part = recorded["kind"], recorded["parts"], recorded["part"]
    spend = None if recorded["spend"] is None else Fraction(recorded["spend"])
    fine = kind in get_args(ActKind) and type(parts) is int and type(part) is int and 1 <= part <= parts
    fine = fine and (spend is None or (0 < spend <= 1 and str(spend) == recorded["spend"]))
    fine = fine and (recorded["expect"] is None or type(recorded["expect"]) in (int, float))
    if not fine:
        raise ValueError("an act that is not known")
    expect = None if recorded["expect"] is None else float(recorded["expect"])
    act = RoundAct(kind, parts, part, spend, expect)
    if act == ASK:
        raise ValueError("a plain ask that is written as an act")
    return act


def sqlite_version() -> int:
    """The library's version, as the header of its files has it."""
    major, minor, patch = sqlite3.sqlite_version_info
    return major * 1_000_000 + minor * 1_000 + patch


def _when(asked_by: AskedBy) -> dict[str, Any]:
    return {"time": asked_by.time, "who": asked_by.who, "request": asked_by.request_id, "sqlite": sqlite_version()}


def parse_record(record: Record, kinds: Mapping[str, Kind], *, parse: Literal["all", "surprises"] = "all") -> ParsedRecord:
    """A round, a repeat, a finding or an act again, equal to what was written.

    With `parse="surprises"` the text of quiet questions is not parsed again; `UNPARSED` stands for it.
    """
    body = load(record)
    try:
        if parse == "all" and dump(body) != record.body:
            raise ValueError("a text that was not written by everhold")
        _require_shape(record.kind, body)
        if record.blob is not None and (record.kind != "round" or body["asked"].get("kind") != "values"):
            raise ValueError("bytes that nothing reads")
        asked_by = AskedBy(body["time"], body["who"], body["request"])
        if record.kind == "begun":
            begun = ActStart(body["act"], tuple(body["asked"]), body["options"])
            return ParsedActStart(begun, asked_by, int(body["sqlite"]))
        if record.kind == "done":
            done = ActEnd(body["outcome"], body["result"], body["interrupted"])
            return ParsedActEnd(done, asked_by, int(body["sqlite"]))
        if record.kind == "repeat":
            return Repeat(int(body["round"]), asked_by, int(body["sqlite"]))
        if record.kind == "finding":
            parts = tuple(int(number) for number in body["rounds"])
            finding = RecordedFinding(body["statistic"], body["arguments"], body["summary"], parts)
            return ParsedFinding(finding, asked_by, int(body["sqlite"]))
        scale, numerator, denominator, draws, second, group = body["reading"]
        asked = (
            UNPARSED
            if parse == "surprises" and body["cell"] is None and body["asked"]["kind"] in _TEXTS
            else _asked(body["asked"], record.blob, kinds, body["name"])
        )
        _require_name(asked, body["name"], body["identity"])
        title, shown_range = _title(asked, body["title"])
        return ParsedRound(
            Round(
                Answer(
                    nan if body["value"] is None else body["value"],
                    body["low"],
                    body["high"],
                    body["surprise"],
                    body["round"],
                    body["price"],
                    body["scale"],
                    "ask" if body["act"] is None else body["act"]["kind"],
                ),
                tuple(body["cell"]) if isinstance(body["cell"], list) else body["cell"],
                None if body["fit"] is None else tuple(body["fit"]),
                SketchValue(scale, int(numerator), int(denominator), draws, second, group),
                asked,
                body["name"],
                body["identity"],
                _act_from_dict(body["act"]),
                float(body["nats"]),
                None if body["counts"] is None else _counts(body["counts"]),
                title,
                shown_range,
            ),
            asked_by,
            int(body["sqlite"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, QuestionError) as error:
        raise LedgerError(f"a {record.kind} record of the ledger is not readable ({type(error).__name__}).") from None


_SHAPES: dict[str, dict[str, tuple[type, ...]]] = {
    "repeat": {"round": (int,), "time": (str,), "who": (str, type(None)), "request": (str,), "sqlite": (int,)},
    "begun": {
        "act": (str,),
        "asked": (list,),
        "options": (dict,),
        "time": (str,),
        "who": (str, type(None)),
        "request": (str, type(None)),
        "sqlite": (int,),
    },
    "done": {
        "outcome": (int, bool, str, type(None)),
        "result": (dict,),
        "interrupted": (bool,),
        "time": (str,),
        "who": (str, type(None)),
        "request": (str, type(None)),
        "sqlite": (int,),
    },
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
        "title": (str, list, type(None)),
        "value": (float, int, type(None)),
        "low": (float, int),
        "high": (float, int),
        "surprise": (bool,),
        "price": (float, int),
        "scale": (str,),
        "cell": (int, list, str, type(None)),
        "act": (dict, type(None)),
        "nats": (float, int),
        "counts": (list, type(None)),
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
    "share given": {"kind", "text", "given"},
    "mean given": {"kind", "text", "low", "high", "given"},
    "quantile": {"kind", "text", "low", "high", "level", "given", "step", "middle"},
    "difference given": {"kind", "text", "low", "high", "first", "second"},
    "difference": {"kind", "first", "second"},
    "spread": {"kind", "texts", "ranges", "given", "sign"},
    "values": {"kind", "scale", "form", "size"},
}
_TEXTS = ("yes/no", "mean", "share given", "mean given", "quantile", "difference given", "difference", "spread")


def require_keys(entries: Mapping[str, Any], expected: Iterable[str], what: str) -> None:
    """Refuse a part of a record with other entries than it has."""
    if set(entries) != set(expected):
        odd = sorted(set(entries) ^ set(expected))
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
        (body["cell"] is None and body["fit"] is not None)
        or (body["act"] is None and body["surprise"] != (body["cell"] is not None))
        or not _is_outcome(body["cell"])
        or any(not isinstance(coefficient, int) or isinstance(coefficient, bool) for coefficient in body["fit"] or [])
    ):
        raise ValueError("a surprise without its cell or its coefficients")
    if kind == "round":
        require_keys(body["asked"], _ASKED.get(body["asked"].get("kind"), ()), "the question of a round")


def _counts(counts: list[Any]) -> tuple[int, int]:
    low, high = counts
    if type(low) is not int or type(high) is not int:
        raise ValueError("counts that are not whole numbers")
    return low, high


def _is_outcome(cell: object) -> bool:
    """Quiet, a cell, a cell with its step, or nothing."""
    if isinstance(cell, list):
        return len(cell) == 2 and all(type(item) is int for item in cell) and cell[1] >= 0
    return cell is None or type(cell) is int or cell == NOTHING


def _require_finding(body: Mapping[str, Any]) -> None:
    """A summary that every reader can show: texts, numbers or null, ends in order, at least one round."""
    short = body["summary"]
    table = short.get("kind") == "shares"
    require_keys(short, ("kind", "what", "cells") if table else _SUMMARY, "the summary of a finding")
    cells = short["cells"] if table else [short]
    for cell in cells:
        if table:
            require_keys(cell, ("label", "value", "low", "high"), "a cell of a finding")
            if not all(isinstance(part, str) for part in cell["label"]):
                raise ValueError("a label that is not text")
        value, low, high = (cell[name] for name in ("value", "low", "high"))
        if not all(number is None or type(number) in (int, float) for number in (value, low, high)):
            raise ValueError("a value that is not a number")
        if low is not None and high is not None and not low <= high:
            raise ValueError("an interval whose ends are not in order")
    kinds = ("shares", "finding", "comparison")
    if not isinstance(short["what"], str) or short["kind"] not in kinds or not cells:
        raise ValueError("a summary of another kind")
    if not table and (short["unit"] not in ("number", "date") or (short["unit"] == "date" and not _is_moment(short))):
        raise ValueError("a unit that is not known")
    if not body["rounds"] or not all(type(number) is int and number >= 1 for number in body["rounds"]):
        raise ValueError("rounds that are not numbers")


_SUMMARY = ("kind", "what", "value", "low", "high", "unit")


def _is_moment(short: Mapping[str, Any]) -> bool:
    """Whether a date lies where dates can be written: microseconds since 1970."""
    return all(short[name] is None or abs(short[name]) < 6e16 for name in ("value", "low", "high"))


def _require_name(asked: Query | Digest, name: str | None, identity: str | None) -> None:
    """The name that readers see is the question's own."""
    if asked is UNPARSED:
        return
    if isinstance(asked, (Expression, BoundedMean, *COMPOSITES)):
        fine = name == identity == asked.name
    else:
        digest = (
            asked.sha256 if isinstance(asked, Digest) else asked.packed.digest if isinstance(asked, RecordedQuestion) else ""
        )
        fine = (name is None) == (identity is None) and (identity is None or identity == digest)
        fine = fine and (name is None or not looks_like_text(name))
    if not fine:
        raise ValueError("a name that is not the question's")


def _title(asked: Query | Digest, recorded: Any) -> tuple[str | None, tuple[float, float] | None]:
    """Only a question given by values has a title, and it cannot be taken for a text. With it may stand two numbers."""
    title, *numbers = recorded if isinstance(recorded, list) else [recorded]
    if title is not None and (asked is UNPARSED or getattr(asked, "text", False) or looks_like_text(title)):
        raise ValueError("a title that is not of given values")
    if not numbers:
        return title, None
    if not isinstance(title, str) or not is_range(tuple(numbers)):
        raise ValueError("a range that is not of given values")
    return title, (float(numbers[0]), float(numbers[1]))


def _question(question: Query | Digest) -> tuple[dict[str, Any], bytes | None]:
    if isinstance(question, Digest):
        return {"kind": "digest", "sha256": question.sha256}, None
    if isinstance(question, Expression):
        return {"kind": "yes/no", "text": question.name}, None
    if isinstance(question, BoundedMean):
        given = None if question.given is None else text_of(question.given)
        ends = {"low": question.low, "high": question.high, "given": given, "reverse": question.reverse}
        return {"kind": "mean", "text": text_of(question.tree), **ends}, None
    if isinstance(question, GroupShare):
        return {"kind": "share given", "text": text_of(question.tree), "given": text_of(question.given)}, None
    if isinstance(question, SpreadOf):
        given = None if question.given is None else text_of(question.given)
        texts, ranges = [text_of(tree) for tree in question.trees], [list(ends) for ends in question.ranges]
        return {"kind": "spread", "texts": texts, "ranges": ranges, "given": given, "sign": question.sign}, None
    if isinstance(question, GroupDifference | PairedShares):
        groups = {"first": text_of(question.first), "second": text_of(question.second)}
        if isinstance(question, PairedShares):
            return {"kind": "difference", **groups}, None
        ends = {"low": question.low, "high": question.high}
        return {"kind": "difference given", "text": text_of(question.tree), **ends, **groups}, None
    if isinstance(question, GroupMean | QuantileOf):
        given = None if question.given is None else text_of(question.given)
        ends = {"text": text_of(question.tree), "low": question.low, "high": question.high, "given": given}
        if isinstance(question, GroupMean):
            return {"kind": "mean given", **ends}, None
        more = {"level": question.level, "step": question.step, "middle": question.middle}
        return {"kind": "quantile", **ends, **more}, None
    if isinstance(question, RecordedQuestion):
        packed = question.packed
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
    if asked["kind"] == "share given":
        trees = [expression(asked[name], kinds, limits=RECORDED).tree for name in ("text", "given")]
        return group_share(trees[0], trees[1])
    if asked["kind"] == "spread":
        given = None if asked["given"] is None else expression(asked["given"], kinds, limits=RECORDED).tree
        trees = [number(text, kinds, limits=RECORDED) for text in asked["texts"]]
        return spread_of_means(trees, [(low, high) for low, high in asked["ranges"]], given, asked["sign"])
    if asked["kind"] in ("difference given", "difference"):
        first, second = (expression(asked[name], kinds, limits=RECORDED).tree for name in ("first", "second"))
        if asked["kind"] == "difference":
            return paired_shares(first, second)
        if asked["low"] is None:
            return group_difference(expression(asked["text"], kinds, limits=RECORDED).tree, None, first, second)
        tree = number(asked["text"], kinds, limits=RECORDED)
        return group_difference(tree, (asked["low"], asked["high"]), first, second)
    if asked["kind"] in ("mean given", "quantile"):
        given = None if asked["given"] is None else expression(asked["given"], kinds, limits=RECORDED).tree
        tree = number(asked["text"], kinds, limits=RECORDED, dates=asked["kind"] == "quantile")
        low, high = asked["low"], asked["high"]
        if asked["kind"] == "mean given":
            return group_mean(tree, low, high, given)
        return quantile_of(tree, low, high, asked["level"], given, asked["step"], asked["middle"])
    if asked["kind"] == "values" and blob is not None:
        return RecordedQuestion(PackedValues(asked["scale"], asked["form"], asked["size"], blob), name)
    raise ValueError("an unknown kind of question")
