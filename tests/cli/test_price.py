"""`everhold price` and `everhold plan --gate`, as a new user would find them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.main import app

NUMBERS = ["--rows", 500, "--looks", 100, "--kept", 15, "--score", 0.83]
LOG = "commit\taccuracy\tstatus\tdescription\na\t0.800\tkeep\tfirst\nb\t0.820\tkeep\tx\nc\t0.810\tdiscard\ty\n"


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_numbers_alone():
    said = run("price", *NUMBERS)
    assert said.exit_code == 0
    assert said.output.startswith(eh.price(rows=500, looks=100, kept=15, score=0.83).headline)
    assert said.output.splitlines()[:3] == [
        "0.83 reported. One look: 0.794 to 0.862.",
        "After 100 looks with 15 kept: 0.132 to 1.000 if every score was seen,",
        "0.635 to 0.949 if only kept or not was seen.",
    ]


def test_the_headline_has_the_line_for_people_who_saw_the_scores_and_the_digits_of_the_table():
    """A team that reads its scores is on the last line, whether or not it says how many candidates it kept."""
    found = eh.price(rows=3000, looks=200, score=0.816)
    lines = str(found).splitlines()
    assert "0.315 to 0.996 if every score was seen" in lines[1]
    table = [line for line in lines if line.startswith(("one look", "200 looks"))]
    assert ["0.801 to 0.830" in table[0], "0.680 to 0.914" in table[1], "0.315 to 0.996" in table[2]] == [True] * 3
    assert "only kept or not was seen" in table[1]
    mean = eh.price(rows=4_000, looks=30, score=-0.5, low=-2.0, high=2.0)  # without digits nobody knows what was seen
    assert "every score was seen" not in mean.headline
    assert "if only kept or not was seen." in mean.headline


def test_json():
    said = run("price", *NUMBERS, "--json")
    assert eh.ScorePrice.from_json(said.output) == eh.price(rows=500, looks=100, kept=15, score=0.83)


def test_a_log(tmp_path):
    path = tmp_path / "results.tsv"
    path.write_text(LOG)
    said = run("price", "--rows", 500, "--from", path)
    assert said.exit_code == 0, said.output
    assert "3 looks, 2 kept, 0 crashed" in said.output
    found = json.loads(run("price", "--rows", 500, "--from", path, "--json").output)
    assert (found["looks"], found["kept"], found["score"]) == (3, 2, 0.82)
    assert "2 kept" in found["log"]
    assert eh.ScorePrice.from_dict(found) == eh.price(rows=500, looks=3, kept=2, score=0.82, digits=3)
    assert json.loads(run("price", "--rows", 500, "--from", path, "--looks", 30, "--json").output)["looks"] == 30
    path.write_text(LOG.replace("accuracy", "val_bpb"))
    refused = run("price", "--rows", 500, "--from", path)
    assert refused.exit_code == 4
    assert "--low and --high" in " ".join(refused.output.split())
    assert run("price", "--rows", 500, "--from", path, "--low", 0, "--high", 4).exit_code == 0


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture(tmp_path, ending):
    path = tmp_path / "new" / f"price.{ending}"
    said = run("price", *NUMBERS, "--plot", path)
    assert said.exit_code == 0, said.output
    assert path.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    assert str(path) in said.output.replace("\n", "")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["price", "--looks", 3, "--score", 0.5], 4, "--rows is missing"),
        (["price", "--rows", 500, "--score", 0.5], 4, "--looks is missing"),
        (["price", "--rows", 500, "--looks", 3], 4, "--score is missing"),
        (["price", "--rows", 500, "--looks", 3, "--kept", 4, "--score", 0.5], 4, "kept is 4"),
        (["price", "--rows", 500, "--looks", 3, "--score", 83], 4, "between 0 and 1"),
        (["price", *NUMBERS, "--metric", "x"], 4, "--from"),
        (["price", *NUMBERS, "--plot", "price.xyz"], 4, ".png"),
        (["price", "--rows", 500, "--from", "nothing.tsv"], 4, "could not be read"),
        (["plan"], 2, "--rounds is missing"),
        (["plan", "--gate", "--rows", 100], 4, "--step"),
        (["plan", "--gate", "--rows", 10.5, "--step", 0.1, "--looks", 10], 4, "whole number"),
        (["plan", "--gate", "--rows", 100, "--step", 0.1, "--looks", 10, "--rounds", 3], 2, "without --gate"),
        (["plan", "--rows", 100, "--rounds", 3, "--looks", 10], 2, "add --gate"),
        (["plan", "--gate", "--rows", 100, "--step", 2, "--looks", 10], 4, "step is 2"),
    ],
)
def test_mistakes_are_answered_by_a_sentence(tmp_path, monkeypatch, args, code, says):
    monkeypatch.chdir(tmp_path)
    said = run(*args)
    assert said.exit_code == code, said.output
    assert says in " ".join(said.output.split()).replace("│ ", "")
    assert "Traceback" not in said.output


def test_the_plan_of_a_gate():
    said = run("plan", "--gate", "--rows", 500, "--step", 0.03, "--looks", 200, "--generation-size", 20)
    assert said.exit_code == 0, said.output
    assert said.output.strip() == str(eh.plan_gate(rows=500, step=0.03, looks=200, generation_size=20))
    assert "cannot certify: it takes" in said.output
    assert "the best of 20" in said.output


def test_a_table_of_all_lines():
    found = eh.price(rows=500, looks=100, kept=15, score=0.83)
    frame = found.to_frame()
    assert frame["disclosed"].tolist() == [line.disclosed for line in found.lines]
    assert frame["low"].tolist() == [line.interval.low for line in found.lines]
    assert (frame["rows"] == 500).all()


def test_a_reader_that_has_seen_enough_ends_nothing_badly():
    """`everhold price … | head -1`: no message, and no code that is a verdict."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [
        sys.executable,
        "-m",
        "everhold",
        "price",
        "--rows",
        "500",
        "--looks",
        "100",
        "--kept",
        "15",
        "--score",
        "0.83",
    ]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert ended.returncode == 141, ended.stderr
    assert ended.stderr == ""
