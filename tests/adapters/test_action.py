"""The GitHub Action: its steps are run as a runner would, with its expressions filled in."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import everhold as eh
from tests.adapters.systems import outcomes

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: make test-adapters")

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GITHUB = {"sha": "0123abc", "run_id": "17", "run_attempt": "1", "job": "gate", "action_path": str(ROOT)}


def filled(text, inputs):
    """Expressions replaced by their values; one that is not known is an error, as it would be empty on a runner."""

    def value(found):
        kind, _, name = found[1].strip().partition(".")
        return {"inputs": inputs, "github": GITHUB}[kind][name]

    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def run_step(step, folder, inputs, python=sys.executable, **more):
    """One step, in the shell that a runner starts for `shell: bash`.

    `python3` is a script that starts this interpreter by its own path: a link to it would be the one that its environment
    was made from, and an installation would go there.
    """
    assert step["shell"] == "bash"
    declared = {name: filled(one.get("default", ""), {}) for name, one in ACTION["inputs"].items()}
    given = {name: filled(text, declared | inputs) for name, text in step["env"].items()}
    started = folder / "bin" / "python3"
    started.parent.mkdir(exist_ok=True)
    started.write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} "$@"\n')
    started.chmod(0o755)
    files = {name: str(folder / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    env = {**os.environ, **files, **given, **more, "PATH": f"{started.parent}:{os.environ['PATH']}"}
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def gate(tmp_path):
    return eh.Gate.create(tmp_path / "gate.everhold", outcomes(0.5))


def check(folder, quality, name="a candidate", **inputs):
    (folder / "new file.json").write_text(json.dumps(outcomes(quality, luck=10)))
    given = {"gate": str(folder / "gate.everhold"), "candidate": "new file.json", "name": name, **inputs}
    return run_step(ACTION["runs"]["steps"][-1], folder, given)


def test_a_better_candidate_passes(gate, tmp_path):
    done = check(tmp_path, 0.8, name='a "better" one; $(exit 7)')
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "github_output").read_text() == "verdict=promote\n"
    assert "certified better" in (tmp_path / "github_step_summary").read_text()
    assert gate.status().incumbent == 'a "better" one; $(exit 7)'  # a name is text, not a command


def test_another_one_fails_the_job(gate, tmp_path):
    done = check(tmp_path, 0.5)
    assert done.returncode == 1
    assert (tmp_path / "github_output").read_text() == "verdict=keep\n"
    assert gate.status().checks == 1


def test_a_step_that_is_run_again_is_not_charged_again(gate, tmp_path):
    assert check(tmp_path, 0.5).returncode == check(tmp_path, 0.5).returncode == 1
    assert gate.status().checks == 1


def test_a_job_that_is_run_again_is_not_charged_again_and_another_candidate_of_it_is_checked(gate, tmp_path, monkeypatch):
    assert check(tmp_path, 0.8).returncode == 0
    monkeypatch.setitem(GITHUB, "run_attempt", "2")
    assert check(tmp_path, 0.5).returncode == 0  # the recorded verdict of the same commit
    assert gate.status().checks == 1
    assert check(tmp_path, 0.5, name="another").returncode == 1
    monkeypatch.setitem(GITHUB, "run_id", "18")
    assert check(tmp_path, 0.5).returncode == 1
    assert gate.status().checks == 3


def test_what_a_file_lacks_is_not_in_the_log(gate, tmp_path):
    broken = dict(list(outcomes(0.5).items())[7:])
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    done = check(tmp_path, 0.5, candidate="broken.json")
    assert done.returncode == 1
    assert "without an outcome" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("inputs", "status", "said"),
    [
        ({"candidate": "none.json"}, 3, "none.json cannot be read"),
        ({"gate": "none.everhold"}, 5, "there is no gate at none.everhold"),
        ({"server": "http://none.invalid"}, 9, "a token is needed"),
    ],
)
def test_what_cannot_be_checked_fails_in_words(gate, tmp_path, inputs, status, said):
    done = check(tmp_path, 0.8, **inputs)
    assert done.returncode == status
    assert "::error::The candidate was not checked" in done.stdout
    assert said in done.stderr
    assert not (tmp_path / "github_output").exists()
    assert gate.status().checks == 0


def test_the_same_bytes_are_kept_out(tmp_path):
    (tmp_path / "prompt.txt").write_text("answer")
    eh.Gate.create(tmp_path / "gate.everhold", outcomes(0.5), artifact=tmp_path / "prompt.txt")
    done = check(tmp_path, 0.8, artifact="prompt.txt")
    assert done.returncode == 1
    assert "the same bytes" in done.stdout


def test_the_first_step_installs_what_the_second_needs(tmp_path):
    """With pip itself, in an environment of its own that sees the packages of this one, but not its everhold.

    `PIP_REQUIRE_VIRTUALENV` makes pip refuse anything else: no interpreter outside the test's folder is written to.
    """
    pytest.importorskip("inspect_ai", reason="installs a package: make test-adapters")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    where = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, check=True
    )
    site = Path(where.stdout.decode().strip())
    assert site.is_relative_to(tmp_path)
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    done = run_step(ACTION["runs"]["steps"][0], tmp_path, {}, python, PIP_REQUIRE_VIRTUALENV="1")
    assert done.returncode == 0, done.stderr
    assert (site / "everhold" / "gate" / "gate.py").exists()


def test_inputs_reach_the_shell_by_the_environment_alone():
    """An expression inside a script would let the text of a branch or a title run as a command."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
    assert set(ACTION["inputs"]) >= {"gate", "candidate", "name"}
