"""What a candidate does on one case never decides whether its check is refused: a refusal is free, and would be a bit."""

from __future__ import annotations

import json
import zipfile
from fractions import Fraction

import numpy as np
import pytest

import everhold as eh
from everhold.bounds.gain import SCORE_ONE
from everhold.errors import InvalidOutcomes
from everhold.gate import candidate_files
from everhold.gate.file_forms import metric_lines
from everhold.gate.outcome_files import read_outcomes
from everhold.gate.outcomes import Outcomes

CASES = [f"c{number}" for number in range(8)]
ODD = "c3"
NESTED = "[" * 100_000 + "]" * 100_000
PRINTED = [
    "x" * 140_000,
    "<!DOCTYPE html>",
    "\x00\x07\ufffe",
    '"',
    "1" * 5_000,
    "caf\u00e9",
    "{",
    "?><!DOCTYPE a",
]


def _json_records(printed):
    return json.dumps([{"id": case, "score": 1, "output": printed if case == ODD else "ok"} for case in CASES])


def _lines(printed):
    return "\n".join(json.dumps({"id": case, "score": 1, "output": printed if case == ODD else "ok"}) for case in CASES)


def _csv(printed):
    return "id,score,output\n" + "".join(
        '{},1,"{}"\n'.format(case, (printed if case == ODD else "ok").replace('"', '""')) for case in CASES
    )


def _junit(printed):
    inside = {case: printed if case == ODD else "ok" for case in CASES}
    cases = "".join(
        f'<testcase name="{case}"><system-out><![CDATA[{inside[case]}]]></system-out></testcase>' for case in CASES
    )
    return f'<?xml version="1.0"?><!-- made by a runner --><testsuite>{cases}</testsuite>'


def _metrics(printed):
    return "".join(f"out: {printed if case == ODD else 'ok'}\nMETRIC {case}=1\n" for case in CASES)


FORMS = {"a.json": _json_records, "a.jsonl": _lines, "a.csv": _csv, "a.xml": _junit, "a.log": _metrics}


@pytest.mark.parametrize("printed", PRINTED, ids=range(len(PRINTED)))
@pytest.mark.parametrize("name", FORMS)
def test_what_a_candidate_prints_changes_nothing(tmp_path, name, printed):
    path = tmp_path / name
    path.write_text(FORMS[name](printed), encoding="utf-8")
    assert read_outcomes(path, strict=False).passes(CASES).tolist() == [SCORE_ONE] * len(CASES)


RAW = {
    "deep.json": f'{{"outcomes": {{"a": 1, "b": {NESTED}, "c": 1}}}}',
    "deep records.json": f'[{{"id": "a", "score": 1}}, {{"id": "b", "parsed": {NESTED}}}, {{"id": "c", "score": 1}}]',
    "deep.jsonl": f'{{"id": "a", "score": 1}}\n{{"id": "b", "parsed": {NESTED}}}\n{{"id": "c", "score": 1}}\n',
    "long number.json": f'{{"a": 1, "b": {"1" * 5_000}, "c": 1}}',
    "exponent.json": '{"a": 1, "b": 1e400, "c": 1}',
    "not a number.json": '{"a": 1, "b": NaN, "c": 1}',
    "surrogate.json": '{"a": 1, "b": "\\ud800", "c": 1}',
    "control.json": '{"a": 1, "b": "\x01\x02", "c": 1}',
    "cut.jsonl": '{"id": "a", "score": 1}\n{"id": "b", "sco\n{"id": "c", "score": 1}\n',
    "raw lines.csv": "id,score,output\na,1,ok\nb,?,first\nsecond\nc,1,ok\n",
    "returns.csv": "id,score,output\na,1,ok\nb,?,x\ry\nc,1,ok\n",
    "references.xml": '<s><testcase name="a"/><testcase name="b"><failure>&#xD800;&#9999999999;</failure></testcase>'
    '<testcase name="c"/></s>',
    "a line.log": "METRIC a=1\nMETRIC loss=3\nMETRIC c=1\n",
    "brace.log": "{\nMETRIC a=1\nMETRIC c=1\n",
}


@pytest.mark.parametrize("name", RAW)
def test_a_case_that_cannot_be_read_is_a_failure(tmp_path, name):
    path = tmp_path / name
    path.write_text(RAW[name], encoding="utf-8", newline="")
    assert read_outcomes(path, strict=False).passes(["a", "b", "c"]).tolist() == [SCORE_ONE, 0, SCORE_ONE]


CUT = {
    "cut.xml": ('<s><testcase name="a"/><testcase name="b"><failure>\x00</fail', [SCORE_ONE, 0]),
    "nothing.xml": ("<s><testcase", [0, 0]),
    "cut.json": ('{"a": 1, "b": ', [0, 0]),
    "none.json": ("{}", [0, 0]),
    "none.jsonl": ("[]", [0, 0]),
    "none.csv": ("id,score\n", [0, 0]),
    "empty.csv": ("", [0, 0]),
    "nothing measured.log": ("everything crashed\n", [0, 0]),
    "cut.eval": ("PK\x03\x04broken", [0, 0]),
}


@pytest.mark.parametrize("name", CUT)
def test_a_file_that_ends_early_holds_failures(tmp_path, name):
    path = tmp_path / name
    content, wanted = CUT[name]
    path.write_text(content, encoding="utf-8")
    assert read_outcomes(path, strict=False).passes(["a", "b"]).tolist() == wanted


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "run.log"
    path.write_bytes(b"METRIC a=1\nout: \xff\xfe\nMETRIC b=1\n")
    assert read_outcomes(path, strict=False).passes(["a", "b"]).tolist() == [SCORE_ONE] * 2


def test_of_a_huge_file_the_beginning_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(candidate_files, "MOST_BYTES", 60)
    monkeypatch.setattr("everhold.gate.outcome_files.MOST_BYTES", 60)
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "score": 1}\n{"id": "b", "score": 1, "output": "' + "x" * 1_000 + '"}\n')
    assert read_outcomes(path, strict=False).passes(["a", "b"]).tolist() == [SCORE_ONE, 0]
    with pytest.raises(InvalidOutcomes, match="larger than"):
        read_outcomes(path)


@pytest.mark.parametrize("wrong", ["name,colour\na,red\n", '<?xml version="1.0"?><!-- x --><!DOCTYPE y><s/>'])
def test_what_stands_before_all_cases_is_the_evaluators(tmp_path, wrong):
    path = tmp_path / ("a.csv" if wrong[0] == "n" else "a.xml")
    path.write_text(wrong)
    with pytest.raises(InvalidOutcomes):
        read_outcomes(path, strict=False)


def _log(samples, **header):
    return json.dumps({"eval": header, "samples": samples})


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("scorer", [None, "match"])
def test_a_log_in_which_nothing_was_scored(tmp_path, scorer, zipped):
    """A candidate that raises everywhere but where a case has a property: both logs are checked."""
    path = tmp_path / ("a.eval" if zipped else "a.json")
    for present in (False, True):
        samples = [{"id": case, "error": {"message": "boom"}} for case in CASES]
        if present:
            samples[3] = {"id": ODD, "scores": {"match": {"value": "C"}}}
        if zipped:
            with zipfile.ZipFile(path, "w") as archive:
                for sample in samples:
                    archive.writestr(f"samples/{sample['id']}.json", json.dumps(sample))
                archive.writestr("samples/broken.json", NESTED[:100_000])
        else:
            path.write_text(_log([*samples, None, {"scores": 3}]))
        found = read_outcomes(path, strict=False, scorer=scorer)
        assert found.passes(CASES).tolist() == [SCORE_ONE * (present and case == ODD) for case in CASES]


def test_several_scorers_are_told_apart_by_the_head_of_a_log(tmp_path):
    path = tmp_path / "a.json"
    several = {"one": {"value": "C"}, "two": {"value": "C"}}
    path.write_text(_log([{"id": "a", "scores": several}, {"id": "b", "scores": {"one": {"value": "C"}}}]))
    assert read_outcomes(path, strict=False).passes(["a", "b"]).tolist() == [0, SCORE_ONE]
    for samples in ([], [{"id": "a", "scores": several}]):
        path.write_text(_log(samples, scorers=[{"name": "one"}, {"name": "two"}]))
        with pytest.raises(InvalidOutcomes, match="several scorers"):
            read_outcomes(path, strict=False)


class Hostile:
    """A value that raises whatever is done with it."""

    def __float__(self):
        raise RuntimeError

    __eq__ = __hash__ = __str__ = __repr__ = __float__


ODD_VALUES = [10**400, -(10**400), Fraction(10**400), "1" * 5_000, "1e400", b"1", Hostile(), np.array(None), [[1]], {1}]


@pytest.mark.parametrize("value", ODD_VALUES, ids=range(len(ODD_VALUES)))
def test_no_value_raises(value):
    assert Outcomes.of({"a": 1, "b": value}, strict=False).passes(["a", "b"]).tolist() == [SCORE_ONE, 0]


def test_whole_numbers_beyond_all_bounds_are_no_scores_of_an_incumbent():
    with pytest.raises(InvalidOutcomes, match="outside 0 to 1"):
        Outcomes.of({"a": 10**400})


@pytest.mark.parametrize("strict", [False, True])
def test_entries_that_are_no_pairs_are_refused_in_words(strict):
    with pytest.raises(InvalidOutcomes, match="of type int"):
        Outcomes.of([1, 2], strict=strict)


def test_pairs_may_have_holes():
    assert Outcomes.of([("a", 1), None], strict=False).passes(["a", "b"]).tolist() == [SCORE_ONE, 0]


def test_refusals_do_not_depend_on_what_a_candidate_does(tmp_path):
    """Two runs that differ on one sealed case, each in another way: all are checked, and charged alike."""
    old = {f"c{number}": number % 2 for number in range(300)}
    gate = eh.Gate.create(tmp_path / "gate.everhold", old)
    prices = []
    for value in (0, 10**400, "?", None, float("nan"), "\ud800"):
        found = gate.check(dict.fromkeys(old, 0) | {"c7": value})
        prices.append(gate.status().price)
        assert found.state == "kept"
    assert gate.check({}).state == "kept"
    assert gate.status().checks == 7
    assert len(set(prices)) == len(prices)


FORGED = "x\n" + "".join(f"METRIC {case}=1\n" for case in CASES)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["a.csv", "a.txt", "stdin", "a.tsv"])
def test_lines_in_a_cell_of_a_csv_are_no_outcomes(tmp_path, name, strict):
    """A candidate that fails everything, and prints lines that look like outcomes of a log."""
    path = tmp_path / name
    path.write_text("id,score,output\n" + "".join(f'{case},0,"{FORGED}"\n' for case in CASES))
    assert not read_outcomes(path, strict=strict).passes(CASES).any()


@pytest.mark.parametrize("name", ["a.xml", "a.txt"])
def test_lines_in_an_element_are_no_outcomes(tmp_path, name):
    path = tmp_path / name
    path.write_text(f'<s><testcase name="c0"><failure>\n{FORGED}</failure></testcase></s>')
    assert not read_outcomes(path, strict=False).passes(CASES).any()


def test_metric_lines_are_read_in_linear_time():
    """No regular expression runs over what a program printed: each of these took minutes."""
    assert "re" not in metric_lines.__code__.co_names
    long = 20_000
    text = f"METRIC{' ' * long}x\nMETRIC a{' ' * long}y\n" + "\n" * long + f"METRIC{' ' * long}b{' ' * long}={' ' * long}1\n"
    assert list(metric_lines(text)) == [("b", "1")]


def test_a_cut_string_of_many_quotes_in_a_deep_line():
    """Quadratic once: a string that never ends was looked for at each of its quotes."""
    assert len(candidate_files._flat("[" * 70 + '"' + '\\"' * 200_000)) > 0


def test_a_log_that_looks_like_an_archive_is_not_unpacked(tmp_path):
    """It could be one that fills the memory: only a file that the evaluator calls .eval is unpacked."""
    with zipfile.ZipFile(tmp_path / "run.txt", "w") as archive:
        archive.writestr("samples/c0.json", json.dumps({"id": "c0", "scores": {"match": {"value": "C"}}}))
    (tmp_path / "run.eval").write_bytes((tmp_path / "run.txt").read_bytes())
    assert read_outcomes(tmp_path / "run.txt", strict=False).cases == []
    assert read_outcomes(tmp_path / "run.eval", strict=False).cases == ["c0"]


FREE = {
    "document type": "<!DOCTYPE html>\n",
    "an object": '{"SECRET": 1}\n',
    "an open string": '{"SECRET": "\n',
    "columns": "id,score\nSECRET,1\n",
    "a zip": "PK\x03\x04",
    "nothing": "",
}


@pytest.mark.parametrize("name", ["run.log", "run.txt", "run"])
@pytest.mark.parametrize("first", FREE)
def test_the_first_line_of_a_log_refuses_nothing(tmp_path, name, first):
    """What a candidate prints first does not choose the form in which its log is read."""
    old = {f"c{number}": number % 2 for number in range(300)}
    gate = eh.Gate.create(tmp_path / "gate.everhold", old)
    metrics = "".join(f"METRIC {case}=0\n" for case in old)
    for number, text in enumerate((FREE[first] + metrics, FREE[first])):
        (tmp_path / name).write_text(text)
        assert gate.check(tmp_path / name).state == "kept"
        assert gate.status().checks == number + 1


def test_unknown_ids_are_counted_and_not_repeated(tmp_path):
    old = {f"c{number}": number % 2 for number in range(300)}
    gate = eh.Gate.create(tmp_path / "gate.everhold", old)
    with pytest.raises(InvalidOutcomes, match=r"1 of 2 cases are not .* such as 'c0'") as refused:
        gate.check({"SECRET": 1, "c1": 1})
    assert "SECRET" not in str(refused.value)


def test_a_csv_that_is_cut_in_an_id_is_checked(tmp_path):
    old = {f"case-{number}": number % 2 for number in range(300)}
    gate = eh.Gate.create(tmp_path / "gate.everhold", old)
    rows = "score,id\n" + "".join(f"0,{case}\n" for case in old)
    for number, cut in enumerate((len(rows) - 1, len(rows) // 2, rows.index("case-77") + 3)):
        (tmp_path / "cut.csv").write_text(rows[:cut])
        assert gate.check(tmp_path / "cut.csv").state == "kept"
        assert gate.status().checks == number + 1
    (tmp_path / "other.csv").write_text("score,id\n0,x\n1,y\n")
    with pytest.raises(InvalidOutcomes, match="2 of 2"):
        gate.check(tmp_path / "other.csv")


def test_printed_names_hide_no_gaps(tmp_path):
    old = {f"c{number}": number % 2 for number in range(300)}
    gate = eh.Gate.create(tmp_path / "gate.everhold", old)
    few = "".join(f"METRIC {case}=1\n" for case in list(old)[:100])
    (tmp_path / "run.log").write_text(few + "".join(f"METRIC junk{number}=?\n" for number in range(200)))
    found = gate.gaps(tmp_path / "run.log")
    assert (found.missing, found.strange, found.unsure) == (200, 0, False)
    with pytest.raises(InvalidOutcomes, match="200 without an outcome"):
        gate.check(tmp_path / "run.log", require_all=True)
    unsure = read_outcomes(tmp_path / "run.log", strict=False).gaps(300, pass_fail=True)
    with pytest.raises(InvalidOutcomes, match="printed"):
        unsure.require_none()
    assert gate.status().checks == 0
