"""Logs of searches, as loops write them."""

from __future__ import annotations

import json

import pytest

from everhold.errors import DataError
from everhold.report.search_log import read_search_log

ROWS = [
    ("a1b2c3d", "0.812000", "44.0", "keep", "baseline"),
    ("b2c3d4e", "0.826000", "44.2", "keep", 'learning rate to "0.04'),
    ("c3d4e5f", "0.805000", "44.0", "discard", "another activation, with a comma"),
    ("d4e5f6a", "0.000000", "0.0", "crash", "twice as wide (out of memory)"),
]
NAMES = ("commit", "accuracy", "memory_gb", "status", "description")


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def table(separator, names=NAMES, rows=ROWS):
    def cell(text):
        return f'"{text.replace(chr(34), chr(34) * 2)}"' if separator == "," else text

    return "\n".join(separator.join(map(cell, line)) for line in (names, *rows)) + "\n"


def records():
    return [dict(zip(NAMES, row, strict=True)) | {"accuracy": float(row[1])} for row in ROWS]


@pytest.mark.parametrize(
    ("name", "text", "digits"),
    [
        ("results.tsv", table("\t"), 6),
        ("with-a-mark.tsv", "\ufeff" + table("\t"), 6),
        ("windows.tsv", table("\t").replace("\n", "\r\n"), 6),
        ("results.csv", table(","), 6),
        ("results.jsonl", "\n".join(map(json.dumps, records())), 3),
        ("results.json", json.dumps(records(), indent=1), 3),
    ],
)
def test_all_forms_say_the_same(tmp_path, name, text, digits):
    found = read_search_log(write(tmp_path / name, text))
    assert (found.looks, found.kept, found.crashed, found.score) == (4, 2, 1, 0.826)
    assert (found.metric, found.status, found.digits) == ("accuracy", "status", digits)
    assert str(found) == "4 looks, 2 kept, 1 crashed (column 'status'); the last one kept has 'accuracy' = 0.826"


def test_other_names_and_words(tmp_path):
    rows = [("1", "81.2%", "accepted"), ("2", "80.05%", "Rejected"), ("3", "82%", "no"), ("4", "", "timeout")]
    path = write(tmp_path / "log.tsv", table("\t", ("step", "exact match", "what happened"), rows))
    found = read_search_log(path, metric="exact match", status="what happened")
    assert (found.looks, found.kept, found.crashed, found.score, found.digits) == (4, 1, 1, 0.812, 4)
    with pytest.raises(DataError, match="no column that looks like a score"):
        read_search_log(path)
    with pytest.raises(DataError, match="Did you mean 'exact match'"):
        read_search_log(path, metric="exact_match")


def test_without_a_status_nothing_is_guessed(tmp_path):
    found = read_search_log(write(tmp_path / "log.tsv", table("\t", ("commit", "score"), [("a", "0.5"), ("b", "0.75")])))
    assert (found.looks, found.kept, found.score) == (2, None, None)


def test_what_is_no_share_is_known_by_its_name(tmp_path):
    found = read_search_log(write(tmp_path / "log.tsv", table("\t", ("commit", "val_bpb", "m", "status", "d"))))
    assert found.metric == "val_bpb"
    assert not found.is_share


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "first line"),
        ("commit\taccuracy\tstatus\n", "no candidates"),
        ("one word\nanother\n", "first line"),
        ("commit\taccuracy\tstatus\na\t0.5\tperhaps\n", "Expected keep, discard or crash"),
        ("{not json", "cannot be read as such"),
        ("[1, 2]", "other than objects"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, text, said):
    with pytest.raises(DataError, match=said):
        read_search_log(write(tmp_path / "log", text))
