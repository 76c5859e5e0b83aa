"""`pytest --everhold-gate`: whole runs of pytest in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

import everhold as eh
from tests.adapters.systems import outcomes

CASES = 100
SUITE = """
import json, pathlib, pytest
OUTCOMES = json.loads((pathlib.Path(__file__).parent / "outcomes.json").read_text())

@pytest.mark.parametrize("case", OUTCOMES)
def test_one(case):
    assert OUTCOMES[case], "the secret of " + case
"""


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "test_system.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run(suite, quality, *words, luck=0, cases=CASES, alone=True):
    """A run of the suite against a system of this quality. Other plugins are left out: they take longer than the tests."""
    (suite / "outcomes.json").write_text(json.dumps(outcomes(quality, cases=cases, luck=luck)))
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if alone else dict(os.environ)
    plugins = ["-p", "everhold.adapters.pytest_plugin"] if alone else []
    plugins += [
        part for option, name in (("-n", "xdist"), ("--count", "pytest_repeat")) if option in words for part in ("-p", name)
    ]
    command = [sys.executable, "-m", "pytest", *plugins, "--everhold-gate", "gate.everhold", *words]
    return subprocess.run(command, cwd=suite, capture_output=True, text=True, check=False, env=env)


def made(suite):
    """A gate of the suite's tests; the incumbent passes half of them."""
    found = {f"test_system.py::test_one[{case}]": right for case, right in outcomes(0.5, cases=CASES).items()}
    return eh.Gate.create(suite / "gate.everhold", found)


def status(suite):
    return eh.Gate(suite / "gate.everhold").status()


def test_better_runs_are_promoted_and_equal_ones_kept(suite):
    first = run(suite, 0.5, "--everhold-create", alone=False)  # as pytest finds it
    assert first.returncode == 0, first.stdout + first.stderr
    assert "100 sealed cases" in first.stdout
    equal = run(suite, 0.5, "--everhold-name", "luck", luck=10)
    assert equal.returncode == 1
    assert "keep: luck" in equal.stdout
    better = run(suite, 0.7, "--everhold-name", "commit 7")
    assert better.returncode == 0
    assert "promote: commit 7: it is certified better than the incumbent. (2 checks, 1 promotion)" in better.stdout
    assert status(suite).incumbent == "commit 7"


def test_nothing_is_said_about_single_tests(suite):
    """Neither on the screen nor in a file; the control shows that pytest would."""
    made(suite)
    sealed = run(suite, 0.5, "-v", "-ra", luck=10)
    assert not re.search(r"FAILED|PASSED|failed|passed|the secret|\bE\b", sealed.stdout)
    assert not list(suite.rglob("lastfailed"))
    assert "test_one" not in sealed.stdout
    assert "test_system" not in sealed.stdout
    assert "..." not in sealed.stdout
    shown = run(suite, 0.5, "-v", "--everhold-show", luck=10)
    assert "the secret of" in shown.stdout
    assert "50 failed, 50 passed" in shown.stdout
    assert list(suite.rglob("lastfailed"))


def test_only_the_gathering_process_checks(suite):
    """With xdist every test is counted, and the gate is checked once."""
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    run(suite, 0.5, "--everhold-create", "-n", "2")
    assert eh.Gate(suite / "gate.everhold").rules.cases == CASES
    found = run(suite, 0.7, "-n", "2")
    assert found.returncode == 0, found.stdout
    assert status(suite).checks == 1
    assert not re.search(r"failed|passed|the secret", found.stdout)


@pytest.mark.parametrize(
    "words",
    [("-k", "case-1"), ("test_system.py::test_one[case-3]",), ("-x",), ("--maxfail=3",), ("--co",), ("-k", "nothing")],
)
def test_a_run_of_some_tests_is_not_a_candidate(suite, words):
    made(suite)
    found = run(suite, 0.9, *words)
    assert found.returncode == 3
    assert "Nothing was charged" in found.stdout + found.stderr
    assert status(suite).checks == 0


def test_tests_of_another_suite_are_invalid(suite):
    made(suite)
    found = run(suite, 0.9, cases=110)
    assert found.returncode == 3
    assert "10 of 110 cases are not the gate's" in found.stdout
    assert status(suite).checks == 0


def test_a_module_that_cannot_be_imported_fails_all_its_tests(suite):
    (suite / "test_other.py").write_text("def test_other():\n    pass\n")
    run(suite, 0.5, "--everhold-create")
    (suite / "test_other.py").write_text("import no_such_module\n")
    stopped = run(suite, 0.9)
    assert stopped.returncode == 1
    assert "keep" in stopped.stdout
    assert status(suite).checks == 1
    counted = run(suite, 0.9, "--continue-on-collection-errors")
    assert counted.returncode == 0
    assert "promote" in counted.stdout


ON_IMPORT = {
    "import error": "raise ImportError('SECRET')",
    "unittest skip": "import unittest\nraise unittest.SkipTest('SECRET')",
    "pytest skip": "import pytest\npytest.skip('SECRET', allow_module_level=True)",
    "exit": "import pytest\npytest.exit('SECRET', returncode=5)",
    "usage": "import pytest\npytest.exit('SECRET', returncode=4)",
    "interrupt": "raise KeyboardInterrupt('SECRET')",
    "system exit": "raise SystemExit('SECRET')",
}


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("how", ON_IMPORT)
def test_what_a_candidate_does_on_import_is_charged_and_not_shown(suite, how, alone):
    made(suite)
    (suite / "candidate.py").write_text(ON_IMPORT[how] + "\n")
    (suite / ("test_system.py" if alone else "test_other.py")).write_text("import candidate\n" + SUITE * alone)
    found = run(suite, 0.5, "-rA", luck=10, cases=CASES if alone else CASES - 10)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "SECRET" not in found.stdout + found.stderr
    assert status(suite).checks == 1


def test_the_exit_status_of_the_tests_can_be_kept(suite):
    made(suite)
    found = run(suite, 0.7, "--everhold-exit", "tests")
    assert "promote" in found.stdout
    assert found.returncode == 1  # some tests fail


STOPS = {
    "interrupt": "raise KeyboardInterrupt",
    "exit": "pytest.exit('enough')",
    "exit 0": "pytest.exit('enough', returncode=0)",
    "system exit": "raise SystemExit(0)",
    "stop": "request.session.shouldstop = 'enough'",
    "fail": "request.session.shouldfail = 'enough'",
}


@pytest.mark.parametrize("where", ["call", "setup", "teardown"])
@pytest.mark.parametrize("how", STOPS)
def test_a_candidate_that_stops_the_run_learns_nothing_for_nothing(suite, how, where):
    """The case fails, the run is checked and charged, and the screen does not show where it was."""
    if how in ("stop", "fail") and where != "call":
        pytest.skip("stops in the same way")
    made(suite)
    parts = dict.fromkeys(("call", "setup", "teardown"), "pass") | {where: STOPS[how]}
    said = []
    for case in ("case-3", "no case"):
        (suite / "test_system.py").write_text(
            "import json, pathlib, pytest\n"
            "OUTCOMES = json.loads((pathlib.Path(__file__).parent / 'outcomes.json').read_text())\n"
            "@pytest.fixture\ndef around(request):\n"
            f"    if '{case}]' in request.node.name: {parts['setup']}\n    yield\n"
            f"    if '{case}]' in request.node.name: {parts['teardown']}\n"
            "@pytest.mark.parametrize('case', OUTCOMES)\ndef test_one(case, around, request):\n"
            f"    if case == '{case}': {parts['call']}\n"
            "    assert OUTCOMES[case]\n"
        )
        found = run(suite, 0.5, "--everhold-name", "new", luck=10)
        assert found.returncode == 1
        if how not in ("stop", "fail"):
            said.append(re.sub(r"\d+\.\d+s|\(\d check.*|new \(2\)|new", "", found.stdout))
    assert status(suite).checks == 2
    assert len(set(said)) <= 1


def test_a_stopped_run_makes_no_incumbent(suite):
    (suite / "test_other.py").write_text("import no_such_module\n")
    found = run(suite, 0.5, "--everhold-create")
    assert found.returncode == 3
    assert "not made" in found.stdout
    assert not (suite / "gate.everhold").exists()


def test_errors_around_a_test_and_skipped_tests_are_failures(suite):
    """A candidate cannot drop a test that it would fail."""
    (suite / "test_system.py").write_text(
        SUITE
        + "\n@pytest.fixture\ndef after():\n    yield\n    assert False\n"
        + "def test_teardown(after):\n    pass\n"
        + "def test_skipped():\n    pytest.skip()\n"
        + "@pytest.mark.xfail\ndef test_xfail():\n    assert False\n"
    )
    run(suite, 0.5, "--everhold-create")
    gate = eh.Gate(suite / "gate.everhold")
    known = dict(zip(gate.study.cases.everything, gate.study.outcomes(gate.rules.first).tolist(), strict=True))
    assert {known[f"test_system.py::{name}"] for name in ("test_teardown", "test_skipped", "test_xfail")} == {0}
    assert sum(value > 0 for value in known.values()) == CASES / 2


def test_repeated_tests_are_runs_of_one_case(suite):
    if find_spec("pytest_repeat") is None:
        pytest.skip("pytest-repeat is not installed")
    first = run(suite, 0.5, "--everhold-create", "--count", "2", cases=60)
    assert first.returncode == 0, first.stdout
    rules = eh.Gate(suite / "gate.everhold").rules
    assert (rules.cases, rules.outcomes) == (60, "score")
    found = run(suite, 0.9, "--count", "2", cases=60)
    assert found.returncode == 0, found.stdout


def test_without_the_option_nothing_of_everhold_is_loaded(suite):
    (suite / "outcomes.json").write_text('{"a": 1}')
    (suite / "test_modules.py").write_text(
        "import sys\n\ndef test_modules():\n"
        "    found = {one for one in sys.modules if one.partition('.')[0] in ('everhold', 'numpy', 'scipy', 'duckdb')}\n"
        "    allowed = {'everhold', 'everhold.version', 'everhold.adapters', 'everhold.adapters.pytest_plugin'}\n"
        "    assert found == allowed\n"
    )
    found = subprocess.run([sys.executable, "-m", "pytest"], cwd=suite, capture_output=True, text=True, check=False)
    assert "2 passed" in found.stdout, found.stdout


def test_create_needs_a_path(suite):
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--everhold-create"], cwd=suite, capture_output=True, text=True, check=False
    )
    assert found.returncode == 4
    assert "--everhold-gate gate.everhold" in found.stderr
