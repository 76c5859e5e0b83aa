"""The paper's benchmark can be stopped and gone on with, and its report says what its rows say."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import pytest
from benchmarks.paper import run as running
from benchmarks.paper.__main__ import SECTIONS, main
from benchmarks.paper.report import as_html
from benchmarks.paper.run import Task, run

CALLS = []


def work(number):
    CALLS.append(number)
    if number < 0:
        raise RuntimeError("a task failed")
    return [{"number": number, "square": number**2}]


@pytest.fixture(autouse=True)
def _forget():
    CALLS.clear()


def tasks(*numbers):
    return [Task("squares", work, (number,)) for number in numbers]


def test_what_is_done_is_not_done_again(tmp_path):
    first = run(tasks(1, 2), tmp_path, jobs=1)
    again = run(tasks(1, 2, 3), tmp_path, jobs=1)
    assert CALLS == [1, 2, 3]
    assert again["squares"][:2] == first["squares"]
    assert again["squares"][2] == {"number": 3, "square": 9}


def test_a_run_that_failed_goes_on_where_it_was(tmp_path):
    with pytest.raises(RuntimeError, match=r"1 of 3 tasks failed.*a task failed"):
        run(tasks(1, -1, 2), tmp_path, jobs=1)
    assert CALLS == [1, -1, 2], "the others are done all the same"
    CALLS.clear()
    run(tasks(1, 2, 3), tmp_path, jobs=1)
    assert CALLS == [3]


def test_other_code_makes_other_results(tmp_path, monkeypatch):
    run(tasks(1), tmp_path, jobs=1)
    monkeypatch.setattr(running, "code_digest", lambda also=(): "another")
    run(tasks(1), tmp_path, jobs=1)
    assert CALLS == [1, 1]


def test_the_report(tmp_path, capsys):
    """One real section, quick: rows, figure, Markdown, HTML and claims agree."""
    assert main(["--quick", "--only", "surprises", "--out", str(tmp_path), "--jobs", "1"]) == 0
    assert "claims hold" in capsys.readouterr().out
    with (tmp_path / "surprises.csv").open() as file:
        rows = list(csv.DictReader(file))
    text = (tmp_path / "report.md").read_text()
    page = (tmp_path / "report.html").read_text()
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert len(rows) == 8
    for row in rows:
        assert f"{int(row['surprises']):,} ({float(row['price']):.0f} nats" in text
    for claim in claims:
        assert f'<a id="{claim["name"]}"></a>' in text
        assert f"<a id='{claim['name']}'></a>" in page
        assert claim["measured"] in text
    assert (tmp_path / "surprises.svg").read_text().startswith("<?xml")


def test_sections_have_names_of_their_own():
    names = [section.name for section in SECTIONS]
    assert len(set(names)) == len(names) == 11
    for section in SECTIONS:
        quick, full = section.tasks(True), section.tasks(False)
        assert {task.section for task in quick + full} <= {section.name}
        assert section.name == "added" or (quick != full and 1 <= len(quick) <= len(full))


def test_claims_fail_when_rows_say_otherwise():
    """The control: a report whose claims cannot fail would be none."""
    from benchmarks.paper import questions, wrong_prior

    missed = [
        {"missed": 1, "part": "reference shifted", "setting": f"shift {shift:g}, χ² = 1", "price": 5.0}
        for shift in wrong_prior.SHIFTS
    ]
    assert not any(claim.kept for claim in wrong_prior.claims(missed))
    wrong = [{"part": "theorem", "rows": n, "splitting": a * 2, "Gaussian": b} for n, (a, b) in questions.PUBLISHED.items()]
    sessions = [
        {"part": "measured", "total": 10_000, "who": who, "within": 5, "rounds": 20_000, "missed": 0}
        for who in ("everhold | labels asked for", "Guess and Check, noise 0.02 | labels known")
    ]
    assert not any(claim.kept for claim in questions.claims(wrong + sessions))


ADDED = """
from everhold.baselines import Empirical
from everhold.games import ANALYSTS, MECHANISMS
from everhold.games.mechanisms.baselines import baseline_session

@MECHANISMS.add("coarse mean, added")
def coarse(terms):
    return baseline_session(terms, Empirical(step=0.25))

@ANALYSTS.add("one question, added")
def one(view):
    yield lambda rows: rows["y"] > 0
"""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_file_of_ones_own_is_in_the_tables(tmp_path, jobs):
    """In a process of its own, as it is run: what it registers must not stay here."""
    place = tmp_path / "mine.py"
    place.write_text(ADDED)
    command = ["-m", "benchmarks.paper", "--quick", "--only", "added", "--also", str(place)]
    done = subprocess.run(
        [sys.executable, *command, "--out", str(tmp_path / "out"), "--jobs", jobs],
        capture_output=True, text=True, check=False, cwd=running.ROOT, env={**os.environ, "PYTHONPATH": "src"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| surprise hunter | coarse mean, added | dense |" in text
    assert "| one question, added | everhold | noise |" in text
    assert "| one question, added | coarse mean, added | linear |" in text


def test_only_a_full_run_is_published(capsys):
    with pytest.raises(SystemExit):
        main(["--quick", "--publish"])
    assert "only a full run is published" in capsys.readouterr().err


def test_html_says_what_markdown_says():
    page = as_html("# A *title*\n\n| a | b |\n|---|---|\n| 1 < 2 | **x** |\n\n[link](there.md) and `code`")
    assert "<h1>A <i>title</i></h1>" in page
    assert "<td>1 &lt; 2</td><td><b>x</b></td>" in page
    assert "<a href='there.md'>link</a> and <code>code</code>" in page
