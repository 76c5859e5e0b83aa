"""Every path in the tables of docs/architecture.md is there, and every test that a page names."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"


def paths(text: str) -> list[str]:
    """What stands as code in the cells of tables."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [path for row in rows for path in re.findall(r"`([^`]+)`", row)]


def missing(text: str) -> list[str]:
    """Those that are neither in the repository nor in the package."""
    return [path for path in paths(text) if not any((at / path).exists() for at in (ROOT, ROOT / "src" / "everhold"))]


def test_every_path_in_a_table_is_there():
    text = PAGE.read_text(encoding="utf-8")
    assert len(paths(text)) > 50
    assert missing(text) == []


def test_the_control_finds_what_is_not_there():
    text = "| `session/holdout.py` | `tests/session/test_nothing.py` |\nnot a table: `nowhere.py`"
    assert missing(text) == ["tests/session/test_nothing.py"]


def cited_tests(text: str) -> list[str]:
    """Files and folders of tests that a page names."""
    return re.findall(r"`(tests/[^`\s*]+)`", text)


def test_every_test_that_a_page_names_is_there():
    pages = sorted((ROOT / "docs").rglob("*.md")) + sorted(ROOT.glob("*.md"))
    cited = [(page.name, path) for page in pages for path in cited_tests(page.read_text(encoding="utf-8"))]
    assert len(cited) > 100
    assert [one for one in cited if not (ROOT / one[1].split("::")[0]).exists()] == []


def test_the_largest_modules_have_a_row_or_a_test_of_their_name():
    """Whoever changes a large module finds its tests."""
    named = set(paths(PAGE.read_text(encoding="utf-8")))
    tests = {path.name.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    package = ROOT / "src" / "everhold"
    large = [path for path in package.rglob("*.py") if len(path.read_text(encoding="utf-8").splitlines()) > 385]
    assert len(large) > 10
    lost = [path.relative_to(package).as_posix() for path in large if path.name not in tests]
    assert [path for path in lost if path not in named] == []
