"""What files of outcomes have in common: names of columns, `METRIC name=value` lines, test cases of JUnit XML.

A file's name says its form, because the evaluator chooses it. What a file holds may be what a candidate printed.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from everhold.errors import InvalidOutcomes

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = [
    "IDS", "SCORES", "FileForm", "csv_columns", "first_of", "guessed_form", "has_columns", "junit_outcome", "metric_lines",
    "named_form", "refuse_document_type", "well_formed",
]  # fmt: skip

FileForm = Literal["json", "csv", "junit", "zipped", "metrics"]

IDS = ("id", "case", "case_id", "task_id", "instance_id", "sample_id", "name", "test", "nodeid")
SCORES = ("score", "outcome", "value", "passed", "pass", "result", "correct", "resolved", "status", "reward")
_NAMED: dict[str, FileForm] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".xml": "junit",
    ".eval": "zipped",
    ".log": "metrics",
}

_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_REFERENCE = re.compile(r"&#(?:x([0-9a-fA-F]+)|([0-9]+));")
_PROLOG = re.compile(r"\ufeff?\s*(?>(?:<\?.*?\?>|<!--.*?-->)\s*)*+<!(?:DOCTYPE|ENTITY)", re.DOTALL)

csv.field_size_limit(2**31 - 1)  # a column may hold whatever a program printed


def first_of(record: Any, names: tuple[str, ...]) -> str | None:
    """The first of these names that a record has."""
    return next((name for name in names if name in record), None)


def named_form(path: Path) -> FileForm | None:
    """The form that a file's name says; None where it says nothing.

    >>> named_form(Path("run.LOG")), named_form(Path("stdout.txt"))
    ('metrics', None)
    """
    return _NAMED.get(path.suffix.lower())


def guessed_form(text: str) -> FileForm:
    """The form of a file whose name says nothing: lines `METRIC name=value` only where no other form fits.

    Such lines can be within a cell of CSV or an element of XML, where a program printed them.
    """
    start = text.lstrip()[:1]
    if start == "<" and "<testcase" in text:
        return "junit"
    if start in ("{", "[") and next(metric_lines(text), None) is None:  # a line of JSON cannot look like that
        return "json"
    return "csv" if has_columns(text) else "metrics"


def metric_lines(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of all lines `METRIC name=value`, in linear time, whatever a program printed.

    >>> list(metric_lines("x\\n METRIC a b = 1 \\r\\nMETRIC c=2 3\\nMETRICS d=4\\n"))
    [('a b', '1')]
    """
    for raw in io.StringIO(text, newline="\n"):
        line = raw.strip()
        if line.startswith("METRIC") and line[6:7].isspace():
            name, _, value = (part.strip() for part in line[6:].partition("="))
            if name and len(value.split(None, 1)) == 1:
                yield name, value


def has_columns(text: str) -> bool:
    """Whether the first line of a text names columns for the id and the score."""
    try:
        csv_columns(text)
    except (InvalidOutcomes, csv.Error):
        return False
    return True


def csv_columns(text: str) -> tuple[str, list[str], str, str]:
    """The separator, all columns, and those of the id and of the score.

    Raises:
        InvalidOutcomes: there are no such columns.
    """
    head = text.partition("\n")[0]
    separator = max(",;\t", key=head.count)
    names = next(csv.reader(io.StringIO(head, newline=""), delimiter=separator), [])
    lower = {name.strip().lower(): name for name in names if name}
    case = next((lower[name] for name in IDS if name in lower), None)
    score = next((lower[name] for name in SCORES if name in lower), None)
    if case is None or score is None:
        raise InvalidOutcomes("the columns id and score are missing. Expected a first line such as `id,score`.")
    return separator, names, case, score


def refuse_document_type(text: str) -> None:
    """Refuse XML that declares one, before its first element. Inside it is text that a program printed.

    Raises:
        InvalidOutcomes: it does.
    """
    if _PROLOG.match(text):
        raise InvalidOutcomes("the XML declares a document type. Expected plain JUnit XML.")


def well_formed(text: str) -> str:
    """XML without the characters that it must not have.

    >>> well_formed("<a>\\x08 &#27; &#xD800; &#65;</a>")
    '<a>? ? ? &#65;</a>'
    """
    return _REFERENCE.sub(_allowed, _FORBIDDEN.sub("?", text))


def _allowed(reference: re.Match[str]) -> str:
    digits = (reference[1] or reference[2]).lstrip("0")
    code = int(digits or "0", 16 if reference[1] else 10) if len(digits) <= 8 else -1
    plain = code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xE000 <= code <= 0x10FFFF
    return reference[0] if plain and code not in (0xFFFE, 0xFFFF) else "?"


def junit_outcome(case: Element) -> tuple[str, bool]:
    """A test case as pytest names it, `tests/a.py::test_b`, where the class name allows it, and whether it passed."""
    bad = any(case.find(name) is not None for name in ("failure", "error", "skipped"))
    where = case.get("classname") or case.get("file") or ""
    name = case.get("name", "")
    return f"{where}::{name}" if where else name, not bad
