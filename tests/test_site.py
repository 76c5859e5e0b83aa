"""The sources of the site, its links, and how a version is put beside the others. `make docs` builds it with Sphinx."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

import everhold

ROOT = Path(__file__).parent.parent


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def assemble():
    return script("assemble")


@pytest.fixture(scope="module")
def written(assemble):
    return assemble.written()


def test_every_page_of_the_documentation_is_in_the_site_and_in_one_chapter(assemble, written):
    lists = {name: text for name, text in written.items() if name.endswith("index.md") and "{toctree}" in text}
    listed = [one for text in lists.values() for one in re.findall(r"^(?:.* <)?/([\w/]+)>?$", text, flags=re.M)]
    assert len(listed) == len(set(listed)) > 40
    pages = {assemble.place(path).removesuffix(".md") for path in assemble.sources()}
    assert pages - {"index", "gallery", "theory/index"} == set(listed) - {"api/index"}
    assert set(re.findall(r"<([\w/]+)>$", written["index.md"], flags=re.M)) == {
        "gallery",
        *(f"{folder}/index" for folder in assemble.SECTIONS),
    }


def test_every_public_name_is_in_the_reference_once(written):
    pages = "".join(text for name, text in written.items() if name.startswith("api/") and name != "api/index.rst")
    named = re.findall(r"^\.\. auto\w+:: everhold\.(\w+)$", pages, flags=re.M)
    assert sorted(named) == everhold.__all__
    assert sorted(re.findall(r"^   everhold\.(\w+)$", written["api/index.rst"], flags=re.M)) == everhold.__all__


def test_links_are_changed_to_fit_the_site(assemble):
    page = ROOT / "docs" / "howto" / "serve.md"
    text = (
        "[a](../../README.md#x) [b](../../deploy/Dockerfile) [c](gate.md) [d](https://x.org/a.md) ![e](../figures/page.png)"
    )
    expected = (
        f"[a](../readme.md#x) [b]({assemble.REPOSITORY}/blob/main/deploy/Dockerfile) [c](gate.md) [d](https://x.org/a.md)"
        " ![e](../figures/page.png)"
    )
    assert assemble.rewritten(text, page, assemble.within("howto/serve.md")) == expected
    code = "```\n[a](nowhere.md)\n```\n"
    assert assemble.rewritten(code, page, assemble.within("howto/serve.md")) == code
    with pytest.raises(FileNotFoundError, match="links to nowhere"):
        assemble.rewritten("[a](nowhere.md)", page, assemble.within("howto/serve.md"))


def test_a_notebook_shows_what_it_has(assemble):
    outputs = [
        {"output_type": "stream", "text": ["one\n"]},
        {"output_type": "execute_result", "data": {"text/plain": ["2"], "text/html": ["<b>2</b>"]}},
        {"output_type": "display_data", "data": {"image/png": "aGk=", "text/plain": ["<Figure>"]}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# T"]},
        {"cell_type": "code", "source": ["f()"], "outputs": outputs},
    ]
    text, pictures = assemble.notebook(json.dumps({"cells": cells}))
    assert text.startswith(f"# T\n\n{assemble.RUNS}")
    assert "```python\nf()\n```" in text
    assert "one" in text
    assert "<b>2</b>" in text
    assert "<Figure>" not in text
    assert pictures == {"cell-1-2.png": b"hi"}
    assert "(cell-1-2.png)" in text


def doctest_outputs(page):
    """What the examples of a page print, as the doctests check it."""
    import doctest

    return [one.want for one in doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8"))]


def test_results_on_the_first_page_are_those_of_the_entrances():
    """Each of the four cards shows a result that a doctest of its page prints."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    cards = re.findall(r":link: (start/\w+)\n.*?```text\n(.+?)\n(.+?)\n```", text, flags=re.S)
    assert sorted(page for page, _, _ in cards) == [
        f"start/{one}" for one in ("analysts", "contests", "custodians", "ml_teams")
    ]
    for page, call, result in cards:
        path = ROOT / "docs" / f"{page}.md"
        assert f">>> {call}" in path.read_text(encoding="utf-8")
        assert any(result in want for want in doctest_outputs(path)), (page, result)


def test_each_entrance_shows_its_result_before_anything_else():
    """The first block of code has a checked result, and it starts within the first lines of the page."""
    for path in (ROOT / "docs" / "start").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        start = text.index("```python")
        assert text[:start].count("\n") <= 8
        assert any(line and not line.startswith((">>>", "...")) for line in text[start:].split("```")[1].splitlines()[1:])


def test_links_in_llms_lead_to_the_sources_of_pages(assemble, written):
    links = re.findall(r"\]\(([^)]+)\)", written["_extra/llms.txt"])
    assert len(links) > 40
    for link in links:
        assert link.removeprefix("_sources/").removesuffix(".txt") in written


@pytest.fixture
def site(tmp_path):
    built = tmp_path / "built"
    (built / "_sources").mkdir(parents=True)
    (built / "index.html").write_text('<a href="a.html#there">a</a> <a href="https://x.org/">x</a> <img src="p.png">')
    (built / "a.html").write_text('<h1 id="there">A</h1> <a href="./#">up</a>')
    (built / "p.png").touch()
    (built / "llms.txt").write_text("- [A](_sources/a.md.txt)\n")
    return built


def test_sound_links_pass(site):
    assert list(script("check_links").broken(site)) == []


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("b.html", "no such file"),
        ("a.html#nowhere", "no such place"),
        ("#nowhere", "no such place"),
        ("../secret.html", "no such file"),
        ("http://x.org/", "not https"),
        ("https://x/", "not the address"),
        ("https://x.org/a b", "not the address"),
    ],
)
def test_broken_links_are_found(site, link, reason):
    (site / "c.html").write_text(f'<a href="{link}">c</a>')
    (site.parent / "secret.html").touch()
    (found,) = script("check_links").broken(site)
    assert found.startswith(f"c.html: {link}: ")
    assert reason in found
    assert script("check_links").main(site) == 1


def test_versions_are_published_side_by_side(site, tmp_path):
    publish, pages = script("publish").publish, tmp_path / "pages"
    pages.mkdir()

    def versions():
        return [(one["version"], one["url"].split("/")[-2]) for one in json.loads((pages / "versions.json").read_text())]

    publish(site, pages, "dev")
    assert versions() == [("dev", "dev")]
    assert "url=dev/" in (pages / "index.html").read_text()
    publish(site, pages, "0.9.0")
    (site / "new.html").touch()
    publish(site, pages, "0.10.0")
    publish(site, pages, "0.9.1")  # a fix of an older release is not the newest
    assert versions() == [("0.10.0", "stable"), ("0.9.1", "0.9.1"), ("0.9.0", "0.9.0"), ("dev", "dev")]
    assert (pages / "stable" / "new.html").exists()
    assert not (pages / "0.9.0" / "new.html").exists()
    assert "url=stable/" in (pages / "index.html").read_text()
    assert (pages / "llms.txt").read_text() == "- [A](stable/_sources/a.md.txt)\n"
    with pytest.raises(ValueError, match="Expected dev, or three numbers"):
        publish(site, pages, "v1")
