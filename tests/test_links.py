"""Links in the documentation lead somewhere, down to the rows of the report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def links(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for link in links(page):
        if link.startswith(("http://", "https://")):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{link} in {page.name}"
        if anchor:
            assert f'<a id="{anchor}"></a>' in target.read_text(encoding="utf-8"), f"{link} in {page.name}"


def test_there_are_links_to_rows_of_the_report():
    """The control: the test above would pass if nothing were linked."""
    wanted = {link.partition("#")[2] for page in PAGES for link in links(page) if "report.md#" in link}
    known = {claim["name"] for claim in json.loads((ROOT / "docs" / "paper" / "claims.json").read_text())}
    assert len(wanted) >= 5
    assert wanted <= known


def test_every_claim_of_the_published_report_holds_or_is_explained():
    claims = json.loads((ROOT / "docs" / "paper" / "claims.json").read_text())
    lines = (ROOT / "docs" / "paper" / "report.md").read_text().splitlines()
    assert len(claims) >= 15
    for claim in claims:
        row = next(line for line in lines if f'<a id="{claim["name"]}"></a>' in line)
        assert row.endswith(f"| {claim['says']} | {claim['measured']} | {'yes' if claim['kept'] else '**no**'} |")


def _works_cited(text):
    return set(re.findall(r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/[\w./-]*\w|PMLR \d+:\d+-\d+", text))


def test_works_that_the_code_cites_are_in_the_references():
    known = _works_cited((ROOT / "docs" / "theory" / "references.md").read_text(encoding="utf-8"))
    modules = [path for room in ("bounds", "baselines") for path in (ROOT / "src" / "everhold" / room).glob("*.py")]
    cited = {path.name: _works_cited(path.read_text(encoding="utf-8")) for path in modules}
    assert sum(map(len, cited.values())) >= 12
    assert {name: works - known for name, works in cited.items() if works - known} == {}
    assert _works_cited("Nobody 1999, arXiv:9999.99999") - known  # the control
