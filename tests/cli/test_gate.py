"""`everhold gate`: exit codes are what agents and CI act on."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from everhold.cli.main import app
from tests.cli.test_cli import run as everhold
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


def test_a_private_gate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVERHOLD_HOME", str(tmp_path / "registry"))
    old = {f"case-{k}": k % 2 for k in range(2_000)}
    (tmp_path / "old.json").write_text(json.dumps(old))
    (tmp_path / "new.json").write_text(json.dumps(dict.fromkeys(old, 1)))
    create = ("gate", "create", "gate.everhold", "--incumbent", "old.json", "--epsilon", 5)
    for more, said in (
        (("--promotions", 3), "--outcomes"),
        (("--outcomes", "pass", "--generation", 4), "one candidate at a time"),
    ):
        refused = everhold(*create, *more)
        assert refused.exit_code == 4
        assert said in " ".join(refused.output.split())
    bare = everhold(*create[:-2], "--promotions", 3)
    assert bare.exit_code == 4
    assert "--epsilon" in bare.output
    made = everhold(*create, "--outcomes", "pass", "--promotions", 3)
    assert made.exit_code == 0, made.output
    assert "gate.everhold.spent" in made.output
    assert everhold("gate", "check", "gate.everhold", "--candidate", "new.json").exit_code == 0
    assert everhold("gate", "check", "gate.everhold", "--candidate", "old.json").exit_code == 1
    said = " ".join(everhold("gate", "status", "gate.everhold").output.split())
    assert "privacy ε = 5, δ = 1e-09 for everything ever disclosed about a sealed case: 1 promotion charged" in said
    status = json.loads(everhold("gate", "status", "gate.everhold", "--json").output)
    assert status["privacy"]["promotions_charged"] == 1
    assert everhold("gate", "finish", "gate.everhold").exit_code == 0
    assert everhold("audit", "gate.everhold").exit_code == 0
    assert everhold("log", "gate.everhold").exit_code == 0
    assert everhold("certificate", "gate.everhold", "--out", "page.html").exit_code == 0
    assert "ε = 5" in (tmp_path / "page.html").read_text()
