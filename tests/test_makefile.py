"""`make test ROOM=…` runs one room, and refuses a name that is none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What make would do."""
    return subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_room_that_is_not_there_is_refused():
    found = make("test", "ROOM=typo")
    assert found.returncode != 0
    assert "there is no room typo. Expected one of:" in found.stderr
    assert "ledger" in found.stderr
    assert "pytest" not in found.stdout


@pytest.mark.parametrize("room", ["report", "ledger", "oracle"])
def test_a_room_runs_its_tests_and_doctests(room):
    found = make("test", f"ROOM={room}")
    assert found.returncode == 0, found.stderr
    (line,) = [line for line in found.stdout.splitlines() if "-m pytest" in line]
    assert f"src/everhold/{room}" in line
    assert f"tests/{room}" in line or f"tests/test_{room}.py" in line


def test_every_room_has_tests():
    rooms = [one for one in (ROOT / "src" / "everhold").iterdir() if (one / "__init__.py").exists()]
    assert [one.name for one in rooms if not list((ROOT / "tests" / one.name).glob("test_*.py"))] == []


def test_benchmarks_are_named_and_spark_has_its_environment():
    assert "/bin/python -m benchmarks speed tables\n" in make("bench", "speed", "tables").stdout
    engines = make("bench", "engines").stdout
    assert "-spark/bin/python -m benchmarks engines\n" in engines
    both = make("bench", "help")
    assert both.returncode == 0
    assert "benchmarks help" not in both.stdout


def test_fmt_fixes_what_check_would_refuse():
    fixed, checked = make("fmt").stdout, make("check").stdout
    assert "ruff check --fix ." in fixed
    assert "ruff format ." in fixed
    assert "ruff check ." in checked
    assert "ruff format --check ." in checked
