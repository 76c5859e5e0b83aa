"""Files of outcomes: JSON, JSONL, CSV, JUnit XML, logs of inspect_ai, `METRIC name=value` lines."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from everhold.data.database_urls import is_url
from everhold.errors import InvalidOutcomes
from everhold.gate.outcomes import Outcomes

__all__ = ["parse_outcomes", "read_expected", "read_outcomes", "sample_outcomes"]

_MOST_BYTES = 256 * 2**20
_IDS = ("id", "case", "case_id", "task_id", "instance_id", "sample_id", "name", "test", "nodeid")
_SCORES = ("score", "outcome", "value", "passed", "pass", "result", "correct", "resolved", "status", "reward")
_METRIC = re.compile(r"^\s*METRIC\s+(?P<name>[^=\n]+?)\s*=\s*(?P<value>\S+)\s*$", re.MULTILINE)
_FORBIDDEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f]|&#(?:x0*(?:[0-8bcefBCEF]|1[0-9a-fA-F])|0*(?:[0-8]|1[1245-9]|2\d|3[01]));"
)
_Pairs = Iterator[tuple[Any, Any]]


def read_outcomes(source: object, *, scorer: str | None = None, strict: bool = True) -> Outcomes:
    """Outcomes from a mapping, from pairs, or from a file.

    Args:
        source: `{case: score}`, or a path. The file's form is found from its name and content.
        scorer: which score to take, where a log has several.
        strict: whether a value that is not a score is an error; else it is a failure.

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
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidOutcomes(f"{path} is larger than {_MOST_BYTES // 2**20} MB. Expected a file of outcomes.")
        content = path.read_bytes()
    except OSError as error:
        raise InvalidOutcomes(f"{path} cannot be read ({error.strerror}). Expected a file of outcomes.") from None
    return parse_outcomes(path, content, scorer=scorer, strict=strict)


def parse_outcomes(path: str | Path, content: bytes, *, scorer: str | None = None, strict: bool = True) -> Outcomes:
    """Outcomes from the content of a file; its name helps to find its form, and stands in errors."""
    path = Path(path)
    try:
        return Outcomes.of(_pairs(path, content, scorer, strict), strict=strict)
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


def _pairs(path: Path, content: bytes, scorer: str | None, strict: bool) -> _Pairs:
    if content[:2] == b"PK":
        return _zipped(path, content, scorer)
    text = content.decode("utf-8-sig")
    start = text.lstrip()[:1]
    if start == "<":
        return _junit(text)
    if path.suffix.lower() == ".csv" or path.suffix.lower() == ".tsv":
        return _csv(text)
    if start in ("{", "["):
        try:
            return _json(json.loads(text), scorer, strict)
        except json.JSONDecodeError:
            return _records((json.loads(line) for line in text.split("\n") if line.strip()), scorer, strict)
    if _METRIC.search(text):
        return ((found["name"], found["value"]) for found in _METRIC.finditer(text))
    return _csv(text)


def _json(content: Any, scorer: str | None, strict: bool) -> _Pairs:
    if isinstance(content, list):
        return _records(iter(content), scorer, strict)
    if isinstance(content.get("samples"), list) and "eval" in content:
        return sample_outcomes(content["samples"], scorer)
    for name in ("outcomes", "results", "cases"):
        if isinstance(content.get(name), dict | list):
            return _json(content[name], scorer, strict)
    if _first(content, _IDS) is not None and _first(content, _SCORES) is not None:  # JSONL of one line
        return _records(iter([content]), scorer, strict)
    return iter(content.items())


def _records(records: Iterator[Any], scorer: str | None, strict: bool) -> _Pairs:
    """Records with an id and a score. In a candidate's file one without a score is a failure, one without an id nothing."""
    for record in records:
        if isinstance(record, list | tuple) and len(record) == 2:
            yield record[0], record[1]
            continue
        case = _first(record, _IDS) if isinstance(record, dict) else None
        score = scorer if scorer is not None else _first(record, _SCORES) if case is not None else None
        if case is not None and (score is not None or not strict):
            yield record[case], None if score is None else record.get(score)
        elif isinstance(record, dict) and len(record) == 1:  # {"case-1": 1}
            yield from record.items()
        elif strict:
            raise InvalidOutcomes('a record has no id or no score. Expected {"id": "case-1", "score": 1} in every line.')


def _first(record: Any, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in record), None)


def _csv(text: str) -> _Pairs:
    head = text.partition("\n")[0]
    separator = max(",;\t", key=head.count)
    rows = csv.DictReader(io.StringIO(text), delimiter=separator)
    names = [name for name in rows.fieldnames or () if name]
    lower = {name.strip().lower(): name for name in names}
    case = next((lower[name] for name in _IDS if name in lower), None)
    score = next((lower[name] for name in _SCORES if name in lower), None)
    if case is None or score is None:
        raise InvalidOutcomes("the columns id and score are missing. Expected a first line such as `id,score`.")
    return ((row[case], row[score]) for row in rows)


def _junit(text: str) -> _Pairs:
    """Every test case with its outcome; `tests/a.py::test_b` as pytest names it, where the class name allows it."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InvalidOutcomes("the XML declares a document type. Expected plain JUnit XML.")
    try:
        root = ElementTree.fromstring(_FORBIDDEN.sub("?", text))
    except ElementTree.ParseError:
        raise InvalidOutcomes("the XML is not well-formed. Expected JUnit XML.") from None
    for case in root.iter("testcase"):
        bad = any(case.find(name) is not None for name in ("failure", "error", "skipped"))
        where = case.get("classname") or case.get("file") or ""
        yield f"{where}::{case.get('name', '')}" if where else case.get("name", ""), not bad


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
        if sum(member.file_size for member in members) > 8 * _MOST_BYTES:
            raise InvalidOutcomes("the log is too large when it is unpacked.")
        try:
            return sample_outcomes([json.loads(archive.read(member)) for member in members], scorer)
        except NotImplementedError:
            raise InvalidOutcomes(
                "this log is compressed in a way that needs inspect_ai: install it, or write the log as JSON."
            ) from None
