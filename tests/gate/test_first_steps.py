"""What a newcomer meets first: gates that could never promote, how a gate is opened, what its papers say."""

from __future__ import annotations

import io
import json
import sys

import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.main import app
from everhold.errors import LedgerError, SettingError
from everhold.gate.gate import Gate
from everhold.gate.outcome_files import read_outcomes
from everhold.ledger.reader import read_study
from everhold.ledger.registry import Registry
from everhold.report.certificate import certificate_html, certificate_json, cite, guarantee
from tests.gate.test_gate import cases, improved, shuffled


@pytest.mark.parametrize(
    "settings",
    [{}, {"outcomes": "pass", "privacy": eh.Privacy(epsilon=1.0)}, {"by": 0.4}],
    ids=["few cases", "private", "a large margin"],
)
def test_a_gate_that_could_never_promote_is_refused(tmp_path, settings):
    """Not even a candidate that passes everything: nothing is made, no case is entered. Control: what is advised works."""
    size = 300 if "privacy" in settings else 4
    with pytest.raises(
        SettingError, match=r"too few: not even a candidate that passes all.* at least about ([\d,]+) sealed"
    ) as error:
        Gate.create(tmp_path / "g.everhold", cases(size), **settings)
    assert not list(tmp_path.iterdir())
    assert not Registry().studies() if Registry().exists else True
    advised = int(str(error.value).partition("at least about ")[2].partition(" ")[0].replace(",", ""))
    assert size < advised < 20_000
    made = Gate.create(tmp_path / "g.everhold", cases(advised), **settings)
    assert not made.status().used_up
    made.release()


def test_a_gate_and_a_contest_are_opened_as_a_study_is(tmp_path):
    Gate.create(tmp_path / "g.everhold", cases()).release()
    with Gate.open(tmp_path / "g.everhold") as gate:
        assert gate.check(improved(cases())).promoted
    eh.Contest.create(tmp_path / "c.everhold", [0, 1] * 100, classes=[0, 1]).release()
    contest = eh.Contest.open(tmp_path / "c.everhold")
    assert contest.submit("ann", [0, 1] * 100).state == "scored"
    contest.release()
    (tmp_path / "c.everhold.labels").unlink()
    with pytest.raises(LedgerError):
        eh.Contest.open(tmp_path / "c.everhold")


@pytest.mark.parametrize("certify", ["each", "final"])
def test_papers_of_a_gate_speak_of_promotions(tmp_path, certify):
    path = tmp_path / "g.everhold"
    with Gate.create(path, cases(), certify=certify, by=0.01) as gate:
        gate.check(shuffled(cases()))
        gate.check(improved(cases()))
        audit = gate.audit()
    file = read_study(path)
    promised = guarantee(file.first_record)
    assert ("every promoted candidate is better by more than 0.01" in promised) == (certify == "each")
    assert "total gain" in promised
    assert cite(file).startswith("Verdicts of an everhold gate of 2 checks with 1 promotion, created")
    page, data = certificate_html(file, audit), certificate_json(file, audit)
    for said in (page, json.dumps(data)):
        assert "all intervals of this study" not in said
        assert "rounds with" not in said
    assert "2 checks with 1 promotion" in page
    assert "Sealed cases" in page


def test_a_plain_study_does_not_pass_for_a_gate(tmp_path):
    """What a study is stands in its first record, and not in words that its owner chose."""

    class Fake(eh.Reference):
        def describe(self):
            return "a gate: 500 sealed and 0 visible cases, pass or fail, better, every promotion certified"

    rows = {"x": list(range(60))}
    with eh.Holdout.create(tmp_path / "s.everhold", rows, prior=Fake({"x": list(range(200, 260))})) as held:
        held.ask("x > 3")
    file = read_study(tmp_path / "s.everhold")
    assert file.first_record.prior.startswith("a gate: ")
    assert "all intervals of this study" in guarantee(file.first_record)
    assert "study of 1 round" in cite(file)


def test_outcomes_from_standard_input(tmp_path, monkeypatch):
    class Input:
        buffer = io.BytesIO(json.dumps(cases(3)).encode())

    monkeypatch.setattr(sys, "stdin", Input)
    assert len(read_outcomes("-").cases) == 3


def test_questions_to_a_gate_are_refused_by_its_name(tmp_path):
    Gate.create(tmp_path / "g.everhold", cases()).release()
    found = CliRunner().invoke(app, ["ask", str(tmp_path / "g.everhold"), "case > 3"])
    assert found.exit_code != 0
    assert "is a gate, which answers no questions" in " ".join(found.output.split())


def test_its_status_is_that_of_a_gate_and_its_page_is_a_page(tmp_path):
    path = tmp_path / "g.everhold"
    Gate.create(path, cases()).release()
    found = CliRunner().invoke(app, ["status", str(path)])
    assert found.exit_code == 0
    assert "0 checks, 0 promotions" in found.output
    assert "reading" not in found.output
    refused = CliRunner().invoke(app, ["certificate", str(path), "--out", str(tmp_path / "g.pdf")])
    assert refused.exit_code == 4
    assert "Expected a page" in " ".join(refused.output.split())
    assert not (tmp_path / "g.pdf").exists()
    written = CliRunner().invoke(app, ["certificate", str(path), "--out", str(tmp_path / "g.html")])
    assert written.exit_code == 0, written.output


def test_one_of_a_thing_is_one(tmp_path):
    with Gate.create(tmp_path / "g.everhold", cases(), generation_size=3) as gate:
        gate.check(improved(cases()))
        assert "1 candidate waits" in str(gate.status())
        with pytest.raises(eh.EverholdError, match="1 candidate waits for"):
            gate.finish()
