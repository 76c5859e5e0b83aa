"""`everhold gate`: exit codes are what agents and CI act on."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from everhold.cli.main import app
from tests.gate.test_gate import cases, improved, shuffled


@pytest.fixture
def files(tmp_path):
    old = cases(400)
    for name, outcomes in (("old", old), ("new", improved(old)), ("noise", shuffled(old)), ("other", {"nothing": 1})):
        (tmp_path / f"{name}.json").write_text(json.dumps(outcomes))
    (tmp_path / "broken.json").write_text("{")
    return tmp_path


def run(*given):
    return CliRunner().invoke(app, ["gate", *map(str, given)])


def test_one_command_from_two_files_to_a_verdict(files):
    gate = files / "gate.everhold"
    found = run("check", gate, "--incumbent", files / "old.json", "--candidate", files / "new.json")
    assert found.exit_code == 0, found.output
    assert found.output.startswith("promote: new:")
    again = run("check", gate, "--incumbent", files / "old.json", "--candidate", files / "new.json")
    assert again.exit_code == 1  # the gate is there, and that candidate is its incumbent


def test_exit_codes(files):
    gate = files / "gate.everhold"
    assert run("create", gate, "--incumbent", files / "old.json").exit_code == 0
    codes = {
        name: run("check", gate, "--candidate", files / f"{name}.json").exit_code for name in ("noise", "other", "broken")
    }
    assert codes == {"noise": 1, "other": 3, "broken": 3}
    kept = run("check", gate, "--candidate", files / "noise.json", "--json")
    assert (kept.exit_code, json.loads(kept.output)["verdict"]) == (1, "keep")
    assert run("check", gate, "--candidate", files / "new.json").exit_code == 0
    assert run("create", files / "second.everhold", "--incumbent", files / "old.json").exit_code == 5
    status = json.loads(run("status", gate, "--json").output)
    assert (status["checks"], status["promotions"], status["incumbent"]) == (3, 1, "new")
    assert run("finish", gate).exit_code == 0
    assert run("check", gate, "--candidate", files / "old.json").exit_code == 6
    assert str(gate) in run("registry").output


def test_waiting_has_a_code_of_its_own(files):
    gate = files / "gate.everhold"
    run("create", gate, "--incumbent", files / "old.json", "--generation", "2", "--visible", "20%")
    assert len(run("visible", gate).output.split()) == 80
    assert run("check", gate, "--candidate", files / "new.json").exit_code == 10
    last = run("check", gate, "--candidate", files / "new.json", "--name", "again", "--json")
    assert last.exit_code == 1  # the first of two equal ones was promoted
    assert json.loads(last.output)["winner"] == "new"
    assert run("decide", gate).exit_code == 3
