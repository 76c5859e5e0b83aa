"""`llms.txt` and the agent skill say what the documentation says, and stand alone."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SKILL = ROOT / "skills" / "everhold"


def _script():
    spec = importlib.util.spec_from_file_location("skill", ROOT / "docs" / "skill.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_are_up_to_date():
    assert list(_script().differing()) == [], "run: make skill"


def test_a_changed_page_is_noticed(tmp_path, monkeypatch):
    """The control, on a copy: another sentence in a page, and a file too many."""
    script = _script()
    for name in ("README.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    script.main()
    assert list(script.differing()) == []
    page = tmp_path / "docs" / "howto" / "gate.md"
    page.write_text(page.read_text(encoding="utf-8") + "\nOne more sentence.\n", encoding="utf-8")
    (tmp_path / "skills" / "everhold" / "references" / "old.md").write_text("old")
    assert sorted(script.differing()) == ["skills/everhold/references/gate.md", "skills/everhold/references/old.md"]


def test_the_front_matter_is_what_agents_read():
    """The limits of the format: a name like the folder's, a description of at most 1,024 letters in one line."""
    head = re.match(r"---\nname: ([a-z0-9-]+)\ndescription: (.+)\n---\n", (SKILL / "SKILL.md").read_text(encoding="utf-8"))
    assert head[1] == SKILL.name
    assert 100 < len(head[2]) <= 1024
    assert ": " not in head[2]  # plain YAML
    assert len((SKILL / "SKILL.md").read_text(encoding="utf-8").splitlines()) < 500


def test_links_lead_somewhere():
    checked = 0
    for page in (ROOT / "llms.txt", SKILL / "SKILL.md", *(SKILL / "references").glob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for link in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
            if not link.startswith("http"):
                checked += 1
                assert (page.parent / link).exists(), f"{link} in {page}"
    assert checked > 30


def test_every_page_is_listed():
    listed = (ROOT / "llms.txt").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*/*.md"):
        if page.parent.name != "paper":
            assert f"(docs/{page.parent.name}/{page.name})" in listed
