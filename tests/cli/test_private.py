"""Private studies on the command line."""

from __future__ import annotations

import json
from html import unescape

import pytest

import everhold as eh
from everhold.ledger.registry import HOME
from tests.cli.test_cli import run, write_rows


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HOME, str(tmp_path / "registry"))
    write_rows(tmp_path / "patients.csv", 3000, 0, 0.5)
    write_rows(tmp_path / "last_year.csv", 2000, 1, 0.2)
    eh.Schema.propose("last_year.csv").revised("bmi", low=10, high=50).save("schema.toml")
    return tmp_path


CREATE = ("create", "study.everhold", "--data", "patients.csv", "--prior", "last_year.csv")


def test_from_creation_to_the_certificate(folder):
    made = run(*CREATE, "--schema", "schema.toml", "--epsilon", 3, "--surprises", 8)
    assert made.exit_code == 0, made.output
    assert "study.everhold.spent" in made.output
    assert "ε = 3" in made.output
    assert "your word that none of them was made from these rows" in " ".join(made.output.split())
    asked = run("ask", "study.everhold", "smoker", "--json")
    assert json.loads(asked.output)["surprise"]
    read = run("read", "study.everhold", "age > 60")
    assert read.exit_code == 0, read.output
    best = run("best-of", "study.everhold", "age > 85", "age > 20")
    assert best.exit_code == 0, best.output
    status = json.loads(run("status", "study.everhold", "--json").output)["privacy"]
    assert status["surprises_charged"] == 1
    assert status["surprises_left"] == 6
    assert status["releases_charged"] == 2
    said = " ".join(run("status", "study.everhold").output.split())
    assert "privacy ε = 3, δ = 1e-09 for everything ever disclosed: 1 surprise and 2 readings and choices charged" in said
    certificate = run("certificate", "study.everhold", "--out", "page.html")
    assert certificate.exit_code == 0, certificate.output
    page = (folder / "page.html").read_text()
    assert "differentially private for every row, with ε = 3 and δ = 1e-09" in page
    assert "custodian" in page
    assert "nothing public was made from the private rows, is the custodian's word" in " ".join(unescape(page).split())
    assert "<dt>Singling out</dt><dd>" in page
    assert "1 in " in page.split("<dt>Singling out</dt><dd>")[1].split("</dd>")[0]
    kept = json.loads((folder / "page.json").read_text())
    assert kept["privacy"]["epsilon"] == 3.0
    assert run("log", "study.everhold").exit_code == 0
    assert run("certificate", "study.everhold", "--out", "study.everhold.spent").exit_code != 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--epsilon", 1), "declared schema"),
        (("--delta", 1e-9), "--epsilon"),
        (("--surprises", 5), "--epsilon"),
        (("--schema", "schema.toml", "--epsilon", 99), "epsilon"),
        (("--schema", "schema.toml", "--epsilon", 1, "--half-width", 0.1), "half-width"),
    ],
)
def test_what_does_not_fit_is_refused(folder, more, said):
    found = run(*CREATE, *more)
    assert found.exit_code != 0
    assert said in " ".join(found.output.split())
    assert not (folder / "study.everhold").exists()


def test_refused_acts_say_what_to_do_instead(folder):
    run(*CREATE, "--schema", "schema.toml", "--epsilon", 3)
    for words in ((), ("--yes",)):  # not asked to confirm what is refused in any case
        found = run("close", "study.everhold", "smoker", *words)
        assert found.exit_code == 3
        assert "a private study has no close" in " ".join(found.output.split())
    assert "private study has no close" in " ".join(found.output.split())
    assert json.loads(run("status", "study.everhold", "--json").output)["privacy"]["share_left"] == 1.0


def test_bits_and_verdicts(folder):
    run(*CREATE, "--schema", "schema.toml", "--epsilon", 3)
    bit = run("is-better", "study.everhold", "age > 20", "age > 85", "--json")
    assert bit.exit_code == 0, bit.output
    assert json.loads(bit.output)["noisy"]
    assert "yes, on the private rows, up to noise" in run("is-better", "study.everhold", "age > 21", "age > 85").output
    verdict = run("compare", "study.everhold", "age > 20", "age > 85", "--json")
    assert json.loads(verdict.output)["verdict"] == "yes"
    status = json.loads(run("status", "study.everhold", "--json").output)["privacy"]
    assert status["bits_charged"] == 2
    assert status["releases_charged"] == 2
    assert "2 bits" in run("status", "study.everhold").output
    assert run("log", "study.everhold").exit_code == 0
    assert run("audit", "study.everhold").exit_code == 0


def test_the_same_rows_again_need_a_word(folder):
    run(*CREATE, "--schema", "schema.toml", "--epsilon", 3)
    again = ("create", "second.everhold", *CREATE[2:], "--schema", "schema.toml", "--epsilon", 3)
    found = run(*again)
    assert found.exit_code != 0
    assert "--no-register" in found.output
    assert run(*again, "--no-register").exit_code == 0
