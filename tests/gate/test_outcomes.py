"""Outcomes and their files: every form, and what is a failure rather than an error."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from everhold.bounds.gain import SCORE_ONE
from everhold.errors import InvalidOutcomes
from everhold.gate.outcome_files import read_expected, read_outcomes
from everhold.gate.outcomes import Outcomes

WANTED = {"a": 1.0, "b": 0.0, "c": 0.5}
INSPECT = {
    "version": 2,
    "eval": {"task": "t"},
    "samples": [
        {"id": "a", "epoch": 1, "scores": {"match": {"value": "C"}}},
        {"id": "b", "epoch": 1, "scores": {"match": {"value": "I"}}},
        {"id": "c", "epoch": 1, "scores": {"match": {"value": 1}}},
        {"id": "c", "epoch": 2, "scores": {}, "error": {"message": "time-out"}},
    ],
}
JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"/><testcase name="c"><error/></testcase>
</testsuite></testsuites>"""
FILES = {
    "map.json": json.dumps({"a": 1, "b": False, "c": [1, 0]}),
    "outcomes.json": json.dumps({"outcomes": {"a": True, "b": "fail", "c": 0.5}}),
    "list.json": json.dumps([{"id": "a", "score": 1}, {"id": "b", "score": None}, {"id": "c", "score": "0.5"}]),
    "pairs.json": json.dumps([["a", 1], ["b", 0], ["c", 1], ["c", 0]]),
    "lines.jsonl": '{"task_id": "a", "pass": true}\n{"task_id": "b", "pass": false}\n\n{"task_id": "c", "pass": 0.5}\n',
    "table.csv": "id,score\na,1\nb,error\nc,0.5\n",
    "semicolons.csv": "case;outcome\na;passed\nb;failed\nc;0.5\n",
    "table.tsv": "id\tscore\na\t1\nb\t\nc\t0.5\n",
    "junit.xml": JUNIT,
    "log.json": json.dumps(INSPECT),
    "metrics.txt": "starting\nMETRIC a=1\nMETRIC b = 0\n METRIC c=0.5\ndone\n",
}


@pytest.mark.parametrize("name", FILES)
def test_every_form_says_the_same(tmp_path, name):
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    found = read_outcomes(path)
    assert {case: found.on_score_grid([case])[0] / SCORE_ONE for case in found.cases} == WANTED


def test_a_zipped_log_says_the_same(tmp_path):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
        for number, sample in enumerate(INSPECT["samples"]):
            archive.writestr(f"samples/{number}.json", json.dumps(sample))
    found = read_outcomes(path) if _without_inspect() else None
    if found is None:
        pytest.skip("inspect_ai is installed and reads its own logs: tests/adapters has one that it wrote")
    assert {case: found.on_score_grid([case])[0] / SCORE_ONE for case in found.cases} == WANTED


def _without_inspect():
    from importlib.util import find_spec

    return find_spec("inspect_ai") is None


def test_several_scores_must_be_told_apart(tmp_path):
    path = tmp_path / "log.json"
    sample = {"id": "a", "scores": {"one": {"value": "C"}, "two": {"value": {"mean": 0.25}}}}
    path.write_text(json.dumps({"eval": {}, "samples": [sample]}))
    with pytest.raises(InvalidOutcomes, match="several scores"):
        read_outcomes(path)
    with pytest.raises(InvalidOutcomes, match="a score 'three'"):
        read_outcomes(path, scorer="three")
    assert read_outcomes(path, scorer="two").on_score_grid(["a"])[0] == SCORE_ONE // 4


BAD = {
    "empty.json": "{}",
    "empty.csv": "id,score\n",
    "broken.json": '{"a": ',
    "text.txt": "hello",
    "other.csv": "name,colour\na,red\n",
    "high.json": '{"a": 87}',
    "word.json": '{"a": "splendid"}',
    "nested.json": '{"a": {"b": 1}}',
    "records.json": '[{"colour": "red", "size": 3}]',
    "entities.xml": '<!DOCTYPE x [<!ENTITY a "b">]><testsuite><testcase name="&a;"/></testsuite>',
    "broken.xml": "<testsuite><testcase>",
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_outcomes_is_refused_with_its_name(tmp_path, name):
    path = tmp_path / name
    path.write_text(BAD[name], encoding="utf-8")
    with pytest.raises(InvalidOutcomes, match=name):
        read_outcomes(path)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"PK\x03\x04broken", b"", b"[" * 100_000])
def test_bytes_of_any_kind_are_refused(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InvalidOutcomes):
        read_outcomes(path)


def test_missing_files_and_strange_things_are_refused(tmp_path):
    with pytest.raises(InvalidOutcomes, match="cannot be read"):
        read_outcomes(tmp_path / "nothing.json")
    with pytest.raises(InvalidOutcomes, match="of type int"):
        read_outcomes(7)
    with pytest.raises(InvalidOutcomes):
        read_expected(tmp_path / "nothing.json")


def test_odd_values_of_a_candidate_are_failures():
    found = Outcomes.of({"a": 1, "b": 87, "c": "splendid", "d": object()}, strict=False)
    assert found.on_score_grid(["a", "b", "c", "d"]).tolist() == [SCORE_ONE, 0, 0, 0]
    assert Outcomes.of({"a": 87, "b": 93}, strict=False).on_score_grid(["a", "b"]).tolist() == [0, 0]


LENIENT = {
    "no score.json": '[{"id": "a", "score": 1}, {"id": "b", "error": "timeout"}, null, {"id": "c", "score": {}}]',
    "no score.jsonl": '{"id": "a", "score": 1}\n{"id": "b", "error": "timeout"}\nnull\n{"id": "c", "score": "?"}\n',
    "control.xml": '<testsuite><testcase name="a"/><testcase name="b"><failure>\x08&#x1b;</failure></testcase></testsuite>',
    "twice.xml": '<suite><testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="b"/></suite>',
    "scorer.json": json.dumps(
        {"eval": {}, "samples": [{"id": "a", "scores": {"x": {"value": 1}}}, {"id": "b", "scores": {}}, {"id": "c"}]}
    ),
}


@pytest.mark.parametrize("name", LENIENT)
def test_what_happens_on_a_case_never_makes_a_candidates_file_invalid(tmp_path, name):
    path = tmp_path / name
    path.write_text(LENIENT[name], encoding="utf-8")
    found = read_outcomes(path, strict=False)
    assert found.passes(["a", "b", "c"]).tolist() == [SCORE_ONE, 0, 0]


def test_runs_are_averaged_and_errors_among_them_are_failures():
    found = Outcomes.of({"a": np.array([1, 0, 1, 1]), "b": [1, None, float("nan")], "c": []})
    assert (found.on_score_grid(["a", "b", "c"]) / SCORE_ONE).round(4).tolist() == [0.75, 0.3333, 0.0]
    assert not found.pass_fail
    assert Outcomes.of({"a": 1, "b": False}).pass_fail
