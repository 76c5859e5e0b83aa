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
    assert codes == {"noise": 1, "other": 3, "broken": 1}
    kept = run("check", gate, "--candidate", files / "noise.json", "--json")
    assert (kept.exit_code, json.loads(kept.output)["verdict"]) == (1, "keep")
    assert run("check", gate, "--candidate", files / "new.json").exit_code == 0
    assert run("create", files / "second.everhold", "--incumbent", files / "old.json").exit_code == 5
    status = json.loads(run("status", gate, "--json").output)
    assert (status["checks"], status["promotions"], status["incumbent"]) == (4, 1, "new")
    assert run("finish", gate).exit_code == 0
    assert run("check", gate, "--candidate", files / "old.json").exit_code == 6
    for name, code, verdict in (("other", 3, "invalid"), ("old", 6, "used_up")):
        refused = everhold("gate", "check", gate, "--candidate", files / f"{name}.json", "--json")
        assert refused.exit_code == code
        said = json.loads(refused.stdout)
        assert (said["verdict"], said["promoted"]) == (verdict, False)
        assert said["reason"]
    assert str(gate) in run("registry").output


def test_a_request_id_is_for_one_candidate(files):
    gate = files / "gate.everhold"
    run("create", gate, "--incumbent", files / "old.json")
    check = ("check", gate, "--request-id", "pr-17")
    bare = run(*check, "--candidate", files / "new.json")
    assert (bare.exit_code, "needs the candidate's --name" in " ".join(bare.output.split())) == (4, True)
    assert run(*check, "--candidate", files / "new.json", "--name", "big").exit_code == 0
    again = run(*check, "--candidate", files / "new.json", "--name", "big")
    assert again.exit_code == 0
    assert "Recorded verdict: this request id was used before. This file was not checked." in again.output
    other = run(*check, "--candidate", files / "old.json", "--name", "small")
    assert other.exit_code == 5
    assert "was not checked" in " ".join(other.output.split())
    assert json.loads(run("status", gate, "--json").output)["checks"] == 1


def test_what_counts_as_a_failure_stands_on_the_error_stream_alone(files):
    gate, old = files / "gate.everhold", json.loads((files / "old.json").read_text())
    run("create", gate, "--incumbent", files / "old.json")
    (files / "holes.json").write_text(json.dumps({case: old[case] for case in list(old)[50:]} | {"case-60": 2}))
    found = run("check", gate, "--candidate", files / "holes.json", "--json")
    assert found.exit_code == 1
    assert "of 400 cases: 50 without an outcome, 1 with one that is not a score" in " ".join(found.stderr.split())
    assert "without" not in found.stdout
    refused = run("check", gate, "--candidate", files / "holes.json", "--require-all")
    assert refused.exit_code == 3
    assert json.loads(run("status", gate, "--json").output)["checks"] == 1
    whole = run("check", gate, "--candidate", files / "old.json", "--require-all")
    assert (whole.exit_code, whole.stderr) == (1, "")


def test_an_incumbent_with_holes_needs_a_word(files):
    gate = files / "gate.everhold"
    (files / "holes.json").write_text(json.dumps({f"case-{k}": None for k in range(400)}))
    assert run("create", gate, "--incumbent", files / "holes.json").exit_code == 3
    assert not gate.exists()
    assert run("create", gate, "--incumbent", files / "holes.json", "--allow-missing").exit_code == 0


def test_a_step_is_planned_first_and_ends_the_gate(files):
    gate = files / "gate.everhold"
    refused = run("create", gate, "--incumbent", files / "old.json", "--step", "0.03")
    assert refused.exit_code == 4
    assert "--certify final" in " ".join(refused.output.split())
    assert not gate.exists()
    assert run("create", gate, "--incumbent", files / "old.json", "--step", "0.08").exit_code == 0
    codes = set()
    for _ in range(300):
        codes.add(run("check", gate, "--candidate", files / "noise.json").exit_code)
        if 6 in codes:
            break
    assert codes == {1, 6}
    status = json.loads(run("status", gate, "--json").output)
    assert (status["used_up"], status["step"], status["left"], status["smallest"]) == (True, 0.08, {"8": 0}, None)


def test_waiting_has_a_code_of_its_own(files):
    gate = files / "gate.everhold"
    run("create", gate, "--incumbent", files / "old.json", "--generation-size", "2", "--visible", "20%")
    assert len(run("visible", gate).output.split()) == 80
    waits = run("check", gate, "--candidate", files / "new.json", "--json")
    assert (waits.exit_code, json.loads(waits.output)["verdict"]) == (10, "wait")
    last = run("check", gate, "--candidate", files / "new.json", "--name", "again", "--json")
    assert last.exit_code == 11  # the first of two equal ones was promoted
    assert json.loads(last.output)["winner"] == "new"
    other = files / "other.everhold"
    run("create", other, "--incumbent", files / "old.json", "--generation-size", "3", "--new-budget", "another example")
    assert run("check", other, "--candidate", files / "new.json").exit_code == 10
    decided = run("decide", other, "--json")
    assert (decided.exit_code, json.loads(decided.output)["promoted"]) == (0, True)
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
        (("--outcomes", "pass", "--generation-size", 4), "one candidate at a time"),
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


def test_an_unforeseen_error_is_no_verdict(tmp_path, monkeypatch):
    """Exit code 1 means that the incumbent stays; a crash must not look like it."""
    path, old = tmp_path / "g.everhold", tmp_path / "old.json"
    old.write_text(json.dumps({f"case-{k}": k % 2 for k in range(100)}))
    runner = CliRunner()
    assert runner.invoke(app, ["gate", "create", str(path), "--incumbent", str(old)]).exit_code == 0

    def broken(*_, **__):
        raise RuntimeError("not foreseen")

    monkeypatch.setattr("everhold.gate.gate.Gate.check", broken)
    result = runner.invoke(app, ["gate", "check", str(path), "--candidate", str(old)])
    assert result.exit_code == 70
    assert "not foreseen" in result.output
