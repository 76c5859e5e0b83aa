"""A candidate's file of outcomes: whatever the candidate did, it is read, and never refused.

The evaluator says a file's form by its name. Where the name says nothing, the content is asked, which may be a candidate's
print: then nothing refuses, and names that are no cases mean nothing.

A refusal is free. So if something that a candidate does on one sealed case could make its file invalid, each refusal would
disclose whether a case has some property. Here everything that cannot be read is left out: a case without an outcome is a
failure. Only what stands before all cases may refuse a file: the names of columns, a document type, the scorers of a log.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from everhold.errors import InvalidOutcomes
from everhold.gate.file_forms import (
    IDS,
    SCORES,
    FileForm,
    csv_columns,
    first_of,
    guessed_form,
    junit_outcome,
    metric_lines,
    named_form,
    refuse_document_type,
    well_formed,
)
from everhold.gate.outcomes import Outcomes

__all__ = ["MOST_BYTES", "candidate_outcomes", "candidate_samples"]

MOST_BYTES = 256 * 2**20
"""So much of a file is read. What comes after counts as missing."""

_DEEPEST = 64
_PART = 2**20
_LONGEST_INT = 400  # digits; Python refuses to read some thousands
_Pairs = Iterator[tuple[Any, Any]]


def candidate_outcomes(path: Path, content: bytes, scorer: str | None) -> Outcomes:
    """Cases with their scores, as far as they can be read.

    Raises:
        InvalidOutcomes: something is wrong that no candidate can cause.
    """
    form = named_form(path)
    try:
        text = "" if form == "zipped" else content[:MOST_BYTES].decode("utf-8-sig", errors="replace")
        try:
            pairs = _found(guessed_form(text) if form is None else form, content, text, scorer)
            printed = form in (None, "metrics") or (form == "csv" and _ends_with_id(text))
            return Outcomes.of(pairs, strict=False, printed=printed)
        except InvalidOutcomes:
            if form is not None:
                raise
        return Outcomes.of(metric_lines(text), strict=False, printed=True)
    except InvalidOutcomes:
        raise
    except Exception:  # nobody has thought of it: no outcome can be read, and every case is a failure
        return Outcomes({})


def _found(form: FileForm, content: bytes, text: str, scorer: str | None) -> _Pairs:
    match form:
        case "zipped":
            return _zipped(content, scorer)
        case "junit":
            return _junit(text)
        case "csv":
            return _csv(text)
        case "metrics":
            return metric_lines(text)
        case _:
            return _json(text, scorer)


# JSON --------------------------------------------------------------------------------------------------------------------


def _json(text: str, scorer: str | None) -> _Pairs:
    try:
        whole = _load(text)
    except ValueError:
        return _records(_lines(text), scorer)
    return _from_json(whole, scorer)


def _lines(text: str) -> Iterator[Any]:
    for line in text.split("\n"):
        with suppress(ValueError):
            yield _load(line)


def _load(text: str) -> Any:
    """JSON, also with long numbers, deep lists and control characters.

    >>> _load('{"a": ' + "1" * 5_000 + ', "b": ' + "[" * 100_000 + "]" * 100_000 + ', "c": "x\\x07"}').keys()
    dict_keys(['a', 'b', 'c'])
    """
    try:
        return json.loads(text, strict=False, parse_int=_number)
    except RecursionError:
        return json.loads(_flat(text), strict=False, parse_int=_number)


def _number(digits: str) -> float:
    return int(digits) if len(digits) <= _LONGEST_INT else float(digits)


def _flat(text: str) -> str:
    """The same without what lies deeper than anybody needs.

    >>> _flat('{"a": ' + "[" * 70 + '"]"' + "]" * 70 + "}").count("[")
    63
    """
    kept, depth, start = [], 0, 0
    for token in re.finditer(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', text, re.DOTALL):
        if token[0] in ("[", "{"):
            depth += 1
            if depth == _DEEPEST + 1:
                kept.append(text[start : token.start()] + "null")
        elif token[0] in ("]", "}"):
            if depth == _DEEPEST + 1:
                start = token.end()
            depth -= 1
    return "".join([*kept, text[start:]])


def _from_json(content: Any, scorer: str | None) -> _Pairs:
    if isinstance(content, list):
        return _records(iter(content), scorer)
    if not isinstance(content, dict):
        return iter(())
    if isinstance(content.get("samples"), list) and "eval" in content:
        return candidate_samples(content["samples"], scorer, _scorers(content))
    for name in ("outcomes", "results", "cases"):
        if isinstance(content.get(name), dict | list):
            return _from_json(content[name], scorer)
    if first_of(content, IDS) is not None and first_of(content, SCORES) is not None:  # JSONL of one line
        return _records(iter([content]), scorer)
    return iter(content.items())


def _records(records: Iterator[Any], scorer: str | None) -> _Pairs:
    """Records with an id and a score. One without a score is a failure, one without an id nothing."""
    for record in records:
        if isinstance(record, list) and len(record) == 2:
            yield record[0], record[1]
        elif isinstance(record, dict):
            case = first_of(record, IDS)
            if case is None:
                if len(record) == 1:  # {"case-1": 1}
                    yield from record.items()
                continue
            score = scorer if scorer is not None else first_of(record, SCORES)
            yield record[case], None if score is None else record.get(score)


# CSV and JUnit XML -------------------------------------------------------------------------------------------------------


def _ends_with_id(text: str) -> bool:
    """Whether the last thing in a CSV may be a part of an id, because the file was cut off. It is no reason to refuse."""
    if text.endswith(("\n", "\r")) or not text.strip():
        return False
    _, names, case, score = csv_columns(text)
    return names.index(case) > names.index(score)


def _csv(text: str) -> _Pairs:
    if not text.strip():
        return
    separator, names, case, score = csv_columns(text)
    first, second = names.index(case), names.index(score)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    next(rows)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error:
            continue
        if len(row) > max(first, second):  # a shorter one is a part of another that was cut
            yield row[first], row[second]


def _junit(text: str) -> _Pairs:
    """Every test case until the XML ends or is broken."""
    refuse_document_type(text)
    parser: Any = ElementTree.XMLPullParser(("end",))
    clean = well_formed(text)
    with suppress(ElementTree.ParseError, ValueError):
        for start in range(0, len(clean), _PART):
            parser.feed(clean[start : start + _PART])
            for _, element in parser.read_events():
                if element.tag == "testcase":
                    yield junit_outcome(element)


# logs of inspect_ai ------------------------------------------------------------------------------------------------------


def candidate_samples(samples: Any, scorer: str | None, scorers: int = 0) -> _Pairs:
    """Samples of a log. One that ended with an error, or has no score, is a failure.

    Args:
        samples: as the log has them.
        scorer: which score to take.
        scorers: how many the evaluation has, if its log says so before all samples.
    """
    if scorer is None and scorers > 1:
        raise InvalidOutcomes("the log has several scorers. Say which: scorer=..., --scorer. Nothing was charged.")
    return (
        (sample["id"], _sample_score(sample, scorer)) for sample in samples if isinstance(sample, dict) and "id" in sample
    )


def _sample_score(sample: dict[str, Any], scorer: str | None) -> Any:
    scores = sample.get("scores")
    if sample.get("error"):
        return "error"
    if not isinstance(scores, dict) or not scores:
        return None
    if scorer is None and len(scores) > 1:
        return "one of several scores"  # is no score
    found = next(iter(scores.values())) if scorer is None else scores.get(scorer)
    value = found.get("value") if isinstance(found, dict) else None
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value


def _scorers(log: Any) -> int:
    """How many scorers a log names before its samples."""
    named = log["eval"].get("scorers") if isinstance(log, dict) and isinstance(log.get("eval"), dict) else None
    return len(named) if isinstance(named, list) else 0


def _zipped(content: bytes, scorer: str | None) -> _Pairs:
    """The zipped form of such a log: sample by sample, by the package where the compression is its own."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, OSError):
        return iter(())  # cut off
    with archive:
        try:
            for one in archive.infolist()[:1]:
                archive.open(one).close()
        except NotImplementedError:
            return _by_package(content, scorer)
        except Exception:
            return iter(())
        return candidate_samples(list(_unzipped(archive)), scorer, _scorers(_read(archive, "header.json")))


def _unzipped(archive: zipfile.ZipFile) -> Iterator[Any]:
    for one in archive.infolist():
        if one.filename.startswith("samples/") and one.filename.endswith(".json"):
            yield _read(archive, one.filename)


def _read(archive: zipfile.ZipFile, name: str) -> Any:
    """A file of the archive; None where it is not there, is broken, or is too large."""
    try:
        return (
            _load(archive.read(name).decode("utf-8", "replace")) if archive.getinfo(name).file_size <= MOST_BYTES else None
        )
    except Exception:  # whatever a candidate has put there
        return None


def _by_package(content: bytes, scorer: str | None) -> _Pairs:
    if find_spec("inspect_ai") is None:
        raise InvalidOutcomes(
            "this log is compressed in a way that needs inspect_ai: install it, or write JSON. Nothing was charged."
        )
    read: Callable[[str], Any] = import_module("inspect_ai.log").read_eval_log
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "log.eval")
            path.write_bytes(content)
            log = read(str(path))
        samples = [_load(sample.model_dump_json(include={"id", "error", "scores"})) for sample in log.samples or ()]
    except Exception:
        return iter(())
    return candidate_samples(samples, scorer, len(log.eval.scorers or ()))
