"""The command line, as a new user would find it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.main import app

COMMANDS = ["create", "ask", "try", "shell", "status", "log", "audit", "certificate", "plot", "plan", "price", "schema"]
COMMANDS += ["demo"]


def run(*args, **more):
    return CliRunner().invoke(app, [str(arg) for arg in args], **more)


def write_rows(path, rows, seed, smokers):
    rng = np.random.default_rng(seed)
    lines = ["age,smoker,bmi,city"]
    for _ in range(rows):
        bmi = "" if rng.random() < 0.05 else f"{rng.normal(26, 4):.1f}"
        lines.append(
            f"{rng.integers(18, 90)},{'yes' if rng.random() < smokers else 'no'},{bmi},{rng.choice(['York', 'Leeds'])}"
        )
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "patients.csv", 3000, 0, 0.5)
    write_rows(tmp_path / "last_year.csv", 2000, 1, 0.2)
    return tmp_path


@pytest.fixture
def study(folder):
    made = run("create", "study.everhold", "--data", "patients.csv", "--prior", "last_year.csv", "--seed", 1)
    assert made.exit_code == 0, made.output
    return folder / "study.everhold"


class TestHelp:
    def test_every_command_has_help_with_an_example(self):
        shown = run("--help").output
        for command in COMMANDS:
            assert command in shown
            said = run(command, "--help")
            assert said.exit_code == 0
            assert command == "demo" or "xample" in said.output
        assert "Exit codes" in shown

    def test_the_version(self):
        result = run("--version")
        assert result.exit_code == 0
        assert result.output == f"everhold {eh.__version__}\n"

    def test_it_runs_as_a_program(self, study):
        said = subprocess.run(
            [sys.executable, "-m", "everhold", "ask", str(study), "age > 40", "--json"],
            capture_output=True,
            text=True,
        )
        assert said.returncode == 0, said.stderr
        assert json.loads(said.stdout)["round"] == 1
        assert "\x1b[" not in said.stdout, "colours belong on a terminal"


class TestWholeStudy:
    def test_from_create_to_certificate(self, study, folder):
        assert (folder / "study.everhold.key").exists()
        first = run("ask", study, "age > 40 AND smoker", "--json", "--who", "ann", "--request-id", "r1")
        answer = json.loads(first.stdout)
        assert answer["low"] <= answer["value"] <= answer["high"]
        again = json.loads(run("ask", study, "smoker AND 40 < age", "--json", "--request-id", "r1").stdout)
        assert {**again, "question": ""} == {**answer, "question": ""}
        assert "mean of bmi" in run("ask", study, "bmi", "--as", "mean").output
        assert "Leeds × no" in run("ask", study, "city by smoker", "--as", "table").output
        assert "quantile" in run("ask", study, "age", "--as", "quantile", "--level", 0.9, "--given", "smoker").output
        (folder / "questions.txt").write_text("# three\nage > 50\n\nsmoker\nbmi > 30 OR city = 'York'\n")
        several = run("ask", study, "--file", "questions.txt", "--json").stdout.splitlines()
        assert [json.loads(line)["question"] for line in several] == ["age > 50", "smoker", "bmi > 30 OR city = 'York'"]
        tried = run("try", study, "age > 70")
        assert "a surprise would cost" in tried.output
        status = json.loads(run("status", study, "--json").stdout)
        assert status["rounds"] > 10
        assert status["surprises"] >= 1
        logged = [json.loads(line) for line in run("log", study, "--last", 0, "--json").stdout.splitlines()]
        assert sum(len(one["parts"]) or 1 for one in logged) == status["rounds"]
        assert [one["question"][:7] for one in logged if one["parts"]] == ["mean of", "city × ", "0.9 qua"]
        assert logged[0]["who"] == "ann"
        assert "forecast" in run("log", study).output
        audited = run("audit", study, "--expect-head", status["head"])
        assert audited.exit_code == 0
        assert "To cite" in audited.output
        assert run("certificate", study, "--out", "c.html").exit_code == 0
        page = (folder / "c.html").read_text()
        assert "<svg" in page
        assert "http" not in page.replace("http://www.w3.org/2000/svg", ""), "a certificate stands alone"
        assert json.loads((folder / "c.json").read_text())["audit"]["ok"]
        assert run("plot", study, "--out", "s.svg").exit_code == 0
        (folder / "precious.json").write_text('{"case-1": 1}')
        refused = run("certificate", study, "--out", "precious.html")
        assert refused.exit_code == 4
        assert "is no certificate" in " ".join(refused.output.split())
        assert (folder / "precious.json").read_text() == '{"case-1": 1}'
        assert not (folder / "precious.html").exists()
        assert run("certificate", study, "--out", "c.html").exit_code == 0  # an earlier one is written over
        for kind, first in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
            assert run("plot", study, "--out", f"s.{kind}").exit_code == 0
            assert (folder / f"s.{kind}").read_bytes().startswith(first)
        assert (folder / "s.svg").read_text().startswith("<svg")

    def test_the_page_and_the_library_say_the_same(self, study):
        told = json.loads(run("ask", study, "age > 33", "--json").stdout)
        with eh.Holdout.open(study) as held:
            answer = held.ask("age > 33")
        assert (told["value"], told["low"], told["high"]) == (answer.value, answer.low, answer.high)

    def test_split_units_and_schema(self, folder):
        assert run("schema", "last_year.csv", "--out", "columns.toml").exit_code == 0
        assert 'kind = "number"' in run("schema", "last_year.csv").output
        made = run(
            "create",
            "s.everhold",
            "--data",
            "patients.csv",
            "--split",
            0.5,
            "--schema",
            "columns.toml",
            "--unit",
            "age",
        )
        assert made.exit_code == 0, made.output
        assert run("ask", "s.everhold", "smoker").exit_code == 0
        assert run("audit", "s.everhold").exit_code == 0

    def test_the_shell(self, study, folder):
        lines = [
            "age > 40",
            "mean bmi 10 60",
            "quantile age 0.9 | given smoker",
            "table city",
            "try smoker",
            "status",
            "head",
        ]
        typed = "\n".join([*lines, "schema", "help", "agee > 3", "quit", ""])
        said = run("shell", study, input=typed)
        assert said.exit_code == 0
        assert "mean of bmi" in said.output
        assert "0.9 quantile of age cut to 10…90 given smoker" in said.output
        assert "Did you mean 'age'" in said.output

    def test_plan(self):
        said = run("plan", "--rows", 100000, "--half-width", 0.05, "--rounds", "1e6")
        assert said.exit_code == 0
        assert "everhold" in said.output


class TestMistakes:
    @pytest.mark.parametrize(
        ("args", "code", "says"),
        [
            (["ask", "study.everhold", "agee > 3"], 3, "Did you mean 'age'"),
            (["ask", "study.everhold", "age > 3", "agee > 3"], 3, "question 2"),
            (["ask", "study.everhold"], 3, "there is no question"),
            (["ask", "nothing.everhold", "age > 3"], 5, "there is no study"),
            (["ask", "study.everhold", "--file", "nothing.txt"], 4, "could not be read"),
            (["ask", "study.everhold", "age > 3", "--data", "last_year.csv"], 5, "not the rows"),
            (["ask", "study.everhold", "age > 3", "--expect-head", "9:" + "0" * 64], 5, "older copy"),
            (["ask", "study.everhold", "bmi", "--as", "mode"], 2, "mode"),
            (["create", "study.everhold", "--data", "patients.csv", "--prior", "last_year.csv"], 5, "exists already"),
            (
                ["create", "new.everhold", "--data", "patients.csv"],
                4,
                "--prior FILE or from --split 0.5, but neither was given",
            ),
            (
                ["create", "new.everhold", "--data", "patient.csv", "--prior", "last_year.csv"],
                4,
                "Did you mean 'patients.csv'",
            ),
            (
                ["create", "new.everhold", "--data", "patients.csv", "--prior", "last_year.csv", "--confidence", "2"],
                4,
                "between 0 and 1",
            ),
            (["audit", "patients.csv"], 7, "is not an everhold study"),
            (["audit", "nothing.everhold"], 5, "there is no study"),
            (["certificate", "study.everhold", "--out", "study.everhold"], 4, "belongs to one"),
            (["certificate", "study.everhold", "--out", "x.json"], 4, "where the data goes"),
            (["certificate", "study.everhold", "--out", "/nonexistent/x.html"], 4, "could not be read or written"),
            (["ask", "study.everhold", "--file", "latin1.txt"], 4, "could not be read or written"),
            (["status", "patients.csv"], 5, "is not an everhold study"),
            (["plot", "study.everhold", "--out", "x.tiger"], 4, "ends in .png, .svg or .pdf"),
            (["schema", "nothing.csv"], 4, "there is no file"),
            (["plan", "--rounds", "3"], 4, "plan needs rows"),
            (["frobnicate"], 2, "frobnicate"),
        ],
    )
    def test_each_is_answered_by_a_sentence(self, study, args, code, says):
        (study.parent / "latin1.txt").write_bytes(b"city = '\xff'")
        said = run(*args)
        assert said.exit_code == code, said.output
        assert says in " ".join(said.output.split()).replace("│ ", "")
        assert "Traceback" not in said.output

    def test_nothing_that_a_terminal_would_obey_is_printed(self, folder):
        rows = "[/red],\x1b[31mcity,age\n" + "1,\x1b[5mYork,3\n" * 50
        (folder / "odd.csv").write_text(rows)
        assert run("create", "[bold].everhold", "--data", "odd.csv", "--prior", "odd.csv").exit_code == 0
        assert run("ask", "[bold].everhold", '"[/red]" > 0', "--who", "\x1b]0;[/red]ann").exit_code == 0
        for args in (
            ["log", "[bold].everhold"],
            ["status", "[bold].everhold"],
            ["ask", "[bold].everhold", "\x1b[31mcity", "--as", "table"],
        ):
            said = run(*args)
            assert "\x1b" not in said.output
            assert "Traceback" not in said.output
        assert "[/red]ann" in run("log", "[bold].everhold").output
        mean = run("ask", "[bold].everhold", "age", "--as", "mean", "--low", 0, "--high", 9, "--who", "bob")
        assert mean.exit_code == 0
        assert json.loads(run("log", "[bold].everhold", "--json").stdout.splitlines()[-1])["who"] == "bob"

    def test_studies_of_files_in_place_can_be_asked(self, folder):
        import pandas as pd

        pd.DataFrame({"x": np.arange(500.0)}).to_parquet(folder / "x.parquet")
        made = run(
            "create",
            "p.everhold",
            "--data",
            "x.parquet",
            "--prior",
            "x.parquet",
            "--engine",
            "duckdb",
            "--overlap",
            "allow",
        )
        assert made.exit_code == 0, made.output
        assert run("ask", "p.everhold", "x > 100").exit_code == 0

    def test_a_second_process_is_told_why_it_must_wait(self, study):
        with eh.Holdout.open(study):
            said = run("ask", study, "age > 3")
            assert said.exit_code == 5
            assert "open for asking elsewhere" in said.output
            assert run("status", study).exit_code == 0

    def test_a_damaged_study_fails_its_audit(self, study):
        run("ask", study, "age > 40")
        data = bytearray(study.read_bytes())
        data[len(data) // 2] ^= 4
        study.write_bytes(data)
        said = run("audit", study)
        assert said.exit_code == 7
        assert "FAILED" in said.output

    def test_an_exhausted_promise(self, folder):
        run(
            "create",
            "s.everhold",
            "--data",
            "patients.csv",
            "--prior",
            "last_year.csv",
            "--half-width",
            0.12,
            "--seed",
            1,
        )
        (folder / "q.txt").write_text("\n".join(f"smoker AND age > {age}" for age in range(18, 90)))
        said = run("ask", "s.everhold", "--file", "q.txt")
        assert said.exit_code in (0, 6), said.output
        if said.exit_code == 6:
            assert "precision" in said.output or "half-width" in said.output
        assert run("audit", "s.everhold").exit_code == 0


def test_the_key_file_is_for_the_owner_alone(study):
    assert os.stat(f"{study}.key").st_mode & 0o077 == 0
