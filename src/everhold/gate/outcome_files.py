"""Files of outcomes: JSON, JSONL, CSV, JUnit XML, logs of inspect_ai, `METRIC name=value` lines."""

from __future__ import annotations

import csv
import io
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from everhold.data.database_urls import is_url
from everhold.errors import InvalidOutcomes
from everhold.gate.candidate_files import MOST_BYTES, candidate_outcomes
from everhold.gate.file_forms import (
    IDS,
    SCORES,
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

__all__ = ["parse_outcomes", "read_expected", "read_outcomes", "sample_outcomes"]

_Pairs = Iterator[tuple[Any, Any]]


def read_outcomes(source: object, *, scorer: str | None = None, strict: bool = True) -> Outcomes:
    """Outcomes from a mapping, from pairs, or from a file.

    Args:
        source: `{case: score}`, or a path; '-' is standard input. The file's name says its form; where it does not, its
            content does.
        scorer: which score to take, where a log has several.
        strict: whether a value that is not a score is an error, as for an incumbent. Else it is a failure, and so is
            whatever else a candidate can cause (`candidate_files`).

    Raises:
        InvalidOutcomes: the file is not there, has another form, or holds no outcomes.
    """
    if isinstance(source, Outcomes):
        return source
    if not isinstance(source, str | Path):
        if isinstance(source, Mapping) or hasattr(source, "__iter__"):
            return Outcomes.of(source, strict=strict)
        raise InvalidOutcomes(f"outcomes are of type {type(source).__name__}. Expected {{case: score}} or a path to a file.")
    if is_url(str(source)):  # which may hold a password
        raise InvalidOutcomes("outcomes are given as a URL. Expected {case: score} or a path to a file.")
    path = Path(source)
    try:
        if str(path) == "-":
            return parse_outcomes("-", sys.stdin.buffer.read(MOST_BYTES), scorer=scorer, strict=strict)
        if strict and path.stat().st_size > MOST_BYTES:
            raise InvalidOutcomes(f"{path} is larger than {MOST_BYTES // 2**20} MB. Expected a file of outcomes.")
        content = path.read_bytes() if strict or named_form(path) == "zipped" else _beginning(path)
    except OSError as error:
        raise InvalidOutcomes(f"{path} cannot be read ({error.strerror}). Expected a file of outcomes.") from None
    return parse_outcomes(path, content, scorer=scorer, strict=strict)


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES)


def parse_outcomes(path: str | Path, content: bytes, *, scorer: str | None = None, strict: bool = True) -> Outcomes:
    """Outcomes from the content of a file; its name helps to find its form, and stands in errors."""
    path = Path(path)
    try:
        if not strict:
            return candidate_outcomes(path, content, scorer)
        return Outcomes.of(_pairs(path, content, scorer))
    except InvalidOutcomes as error:
        raise InvalidOutcomes(f"{path}: {error}") from None
    except (UnicodeError, ValueError, KeyError, TypeError, AttributeError, csv.Error, zipfile.BadZipFile, RecursionError):
        raise InvalidOutcomes(
            f'{path} cannot be read as outcomes. Expected JSON such as {{"case-1": 1}}, JSONL or CSV with the columns id '
            "and score, JUnit XML, a log of inspect_ai, or lines `METRIC case-1=1`."
        ) from None


def read_expected(path: Path) -> dict[str, Any]:
    """The expected result of each case, from a JSON object."""
    try:
        expected = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        expected = None
    if not isinstance(expected, dict):
        raise InvalidOutcomes(f'{path} cannot be read as expected results. Expected JSON such as {{"case-1": "Paris"}}.')
    return expected


def _pairs(path: Path, content: bytes, scorer: str | None) -> _Pairs:
    form = named_form(path)
    if form == "zipped":
        return _zipped(path, content, scorer)
    text = content.decode("utf-8-sig")
    form = guessed_form(text) if form is None else form
    if form == "junit":
        return _junit(text)
    if form == "csv":
        return _csv(text)
    if form == "json":
        try:
            return _json(json.loads(text), scorer)
        except json.JSONDecodeError:
            return _records((json.loads(line) for line in text.split("\n") if line.strip()), scorer)
    return metric_lines(text)


def _json(content: Any, scorer: str | None) -> _Pairs:
    if isinstance(content, list):
        return _records(iter(content), scorer)
    if isinstance(content.get("samples"), list) and "eval" in content:
        return sample_outcomes(content["samples"], scorer)
    for name in ("outcomes", "results", "cases"):
        if isinstance(content.get(name), dict | list):
            return _json(content[name], scorer)
    if first_of(content, IDS) is not None and first_of(content, SCORES) is not None:  # JSONL of one line
        return _records(iter([content]), scorer)
    return iter(content.items())


def _records(records: Iterator[Any], scorer: str | None) -> _Pairs:
    """Records with an id and a score."""
    for record in records:
        if isinstance(record, list | tuple) and len(record) == 2:
            yield record[0], record[1]
            continue
        case = first_of(record, IDS) if isinstance(record, dict) else None
        score = scorer if scorer is not None else first_of(record, SCORES) if case is not None else None
        if case is not None and score is not None:
            yield record[case], record.get(score)
        elif isinstance(record, dict) and len(record) == 1:  # {"case-1": 1}
            yield from record.items()
        else:
            raise InvalidOutcomes('a record has no id or no score. Expected {"id": "case-1", "score": 1} in every line.')


def _csv(text: str) -> _Pairs:
    separator, _, case, score = csv_columns(text)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    return ((row[case], row[score]) for row in rows)


def _junit(text: str) -> _Pairs:
    """Every test case with its outcome."""
    refuse_document_type(text)
    try:
        root = ElementTree.fromstring(well_formed(text))
    except ElementTree.ParseError:
        raise InvalidOutcomes("the XML is not well-formed. Expected JUnit XML.") from None
    return map(junit_outcome, root.iter("testcase"))


def sample_outcomes(samples: list[Any], scorer: str | None) -> _Pairs:
    """Samples of an inspect_ai log; several epochs are several runs. One without a score is a failure."""
    names = {name for sample in samples for name in sample.get("scores") or {}}
    if scorer is None and len(names) > 1:
        raise InvalidOutcomes(f"samples have several scores ({', '.join(sorted(names))}). Say which: scorer=..., --scorer.")
    if scorer is not None and scorer not in names:
        raise InvalidOutcomes(f"no sample has a score {scorer!r}. Expected one of {', '.join(sorted(names))}.")
    score_name = scorer if scorer is not None else next(iter(names), "")
    for sample in samples:
        yield sample["id"], _sample_score(sample, score_name)


def _sample_score(sample: Mapping[str, Any], scorer: str) -> Any:
    score = (sample.get("scores") or {}).get(scorer)
    if sample.get("error"):
        return "error"
    if not isinstance(score, dict):
        return None
    value = score.get("value")
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value


def _zipped(path: Path, content: bytes, scorer: str | None) -> _Pairs:
    """The zipped form of an inspect_ai log: by that package where it is installed, which knows every compression."""
    if find_spec("inspect_ai") is not None:
        log = import_module("inspect_ai.log").read_eval_log(str(path))
        return sample_outcomes([json.loads(sample.model_dump_json()) for sample in log.samples or ()], scorer)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [
            member
            for member in archive.infolist()
            if member.filename.startswith("samples/") and member.filename.endswith(".json")
        ]
        if sum(member.file_size for member in members) > 8 * MOST_BYTES:
            raise InvalidOutcomes("the log is too large when it is unpacked.")
        try:
            return sample_outcomes([json.loads(archive.read(member)) for member in members], scorer)
        except NotImplementedError:
            raise InvalidOutcomes(
                "this log is compressed in a way that needs inspect_ai: install it, or write the log as JSON."
            ) from None
