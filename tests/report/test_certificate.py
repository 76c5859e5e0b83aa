"""A certificate: the page and the JSON say what the file says, a failed audit shows, and nothing in it is markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

import everhold as eh
from everhold.ledger.audit import Audit
from everhold.report import certificate
from everhold.report.certificate import certificate_html, certificate_json, cite, guarantee
from tests.report.studies import small_study

VOID = {"meta", "br", "line", "circle"}


class Page(HTMLParser):
    """The texts of a page; refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return small_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def audit(file):
    return eh.Holdout.audit_file(file.path)


def test_the_guarantee_names_probability_and_rows(file):
    said = guarantee(file.first_record)
    assert said.startswith("With probability 0.95 over the 4,000 private rows,")
    assert "simultaneously valid" in said


def test_json_has_every_round_and_the_audit(file, audit):
    found = json.loads(json.dumps(certificate_json(file, audit)))
    assert found["audit"]["ok"] is True
    assert found["head"] == str(file.head)
    assert found["questions"] == len(file.questions)
    assert found["surprises"] == sum(one["surprise"] for one in found["rounds"]) > 0
    assert [one["question"] for one in found["asked"]][-1] == "mean of age cut to 10…90"
    assert found["price"] == file.price
    assert eh.Schema.from_toml(found["schema"]) == file.first_record.schema


def test_the_page_says_the_same(file, audit):
    page = Page(certificate_html(file, audit))
    text = " ".join(page.texts)
    for said in (guarantee(file.first_record), cite(file), str(file.head), "Every round replays bit for bit"):
        assert said in text
    assert f"everhold audit '{file.path.name}' --expect-head {file.head}" in text  # as a shell reads it
    assert page.tags.count("tr") == 1 + len(file.questions)


def test_nothing_that_was_asked_is_markup(file, audit):
    html = certificate_html(file, audit)
    page = Page(html)
    assert "script" not in page.tags
    assert "ann@example.org" not in page.tags
    assert "<ann@" not in html
    assert any("'a<b'" in text for text in page.texts)


def test_it_stands_alone(file, audit):
    html = certificate_html(file, audit).replace("http://www.w3.org/2000/svg", "")
    assert "http" not in html
    assert "src=" not in html
    assert "<link" not in html


def test_a_failed_audit_is_what_a_reader_sees_first(file):
    failed = Audit(2, 1, 0, "round 3 replays as something else")
    page = Page(certificate_html(file, failed))
    text = " ".join(page.texts)
    assert "The audit failed" in text
    assert "round 3 replays as something else" in text
    assert "replays bit for bit" not in text
    found = certificate_json(file, failed)
    assert found["audit"]["ok"] is False
    assert "round 3" in found["audit"]["found"]


def test_a_long_record_is_listed_in_part_and_says_so(file, audit, monkeypatch):
    monkeypatch.setattr(certificate, "_SHOWN", 2)
    page = Page(certificate_html(file, audit))
    assert page.tags.count("tr") == 1 + 2
    assert f"The last 2 of {len(file.questions)} questions." in page.texts
    assert len(certificate_json(file, audit)["asked"]) == len(file.questions), "JSON has all"


def test_a_citation_counts_in_the_singular_and_the_plural(file):
    said = cite(file)
    assert f"{len(file.rounds):,} rounds with {file.surprises:,} surprise" in said
    assert str(file.head) in said
    assert file.first_record.created[:10] in said
