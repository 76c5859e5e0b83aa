"""The public names, the demo, and text that people read."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import everhold as eh
from everhold.session.settings import HoldoutOptions
from everhold.statistics import STATISTICS


def test_all_is_sorted_complete_and_true():
    assert eh.__all__ == sorted(eh.__all__)
    for name in eh.__all__:
        value = getattr(eh, name)
        described = value.__doc__ if callable(value) else value
        assert described, name
        assert not str(described).startswith(f"{name}("), f"{name} has only the text that dataclasses write"


@pytest.mark.parametrize("holder", [eh.Holdout, eh.Rehearsal, eh.RemoteStudy, eh.AsyncStudy])
@pytest.mark.parametrize("name", sorted(STATISTICS))
def test_every_statistic_is_a_method_wherever_questions_are_asked(name, holder):
    method = inspect.getattr_static(holder, name, None)
    assert method is not None, f"add the line: {name} = shortcut({STATISTICS[name].__name__})"
    if name == "compare" and holder is not eh.Rehearsal:  # a certified verdict, which is an act of its own
        assert "certified" in str(method.__doc__)
        return
    assert method.__doc__ == STATISTICS[name].__doc__
    assert inspect.iscoroutinefunction(method) == (holder is eh.AsyncStudy)


# What public methods return and nobody has to name: types of the language, and parts of the machinery.
UNEXPORTED = {
    *(
        "Any",
        "ArrayLike",
        "AsyncIterator",
        "Callable",
        "Generator",
        "Iterator",
        "Literal",
        "Mapping",
        "NDArray",
        "None",
    ),
    *("Path", "R_co", "Self", "Sequence"),
    *(
        "ActKind",
        "ApiCall",
        "Kind",
        "SumsByName",
        "Outcome",
        "Scale",
        "Words",
    ),  # short names of plain types, or of a wrapped call
    *("ActingMechanism", "SessionActs", "DeclaredColumns", "TestSetOptions"),  # for the other rooms
    *("ActStart", "RecordedAct", "RecordedFinding", "Store"),  # what a journal keeps beside rounds
    *(
        "QuestionBatch",
        "GridValues",
        "Query",
        "RowTable",
        "Source",
        "Sums",
    ),  # between a session, its mechanism and its engine
    *("Option", "Way"),  # lines of a plan
    *("Draws", "PaperProposal", "Tolerance"),  # steps of the paper's mechanism, and of policies
    "FileStamps",  # whether the files of a contest or a gate have changed
}


def _results(holder):
    """The annotations of what a class's public methods and properties return."""
    for name, member in inspect.getmembers(holder):
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        found = getattr(function, "__annotations__", {}).get("return")
        if found is not None and (name in ("__getitem__", "__iter__") or not name.startswith("_")):
            yield name, str(found)


@pytest.mark.parametrize("holder", [name for name in eh.__all__ if inspect.isclass(getattr(eh, name))])
def test_what_public_methods_return_has_a_public_name(holder):
    for method, annotation in _results(getattr(eh, holder)):
        kinds = {kind.rpartition(".")[2] for kind in re.findall(r"[\w.]*\b[A-Z]\w+", annotation)}
        assert kinds <= {*eh.__all__, *UNEXPORTED}, f"{holder}.{method} returns {annotation}"


def test_type_checkers_know_every_statistic():
    lines = Path(eh.__file__).read_text(encoding="utf-8").splitlines()
    for kind in STATISTICS.values():
        assert any(line.strip().startswith(f"from {kind.__module__} import") for line in lines), kind.__module__


def test_create_takes_the_options_of_a_holdout():
    """Editors complete them from the typed dictionary; both lists stand by hand."""
    given = inspect.signature(eh.Holdout.__init__).parameters
    assert list(HoldoutOptions.__annotations__) == [name for name in given if name not in ("self", "data", "prior")]
    assert {name: given[name].annotation for name in HoldoutOptions.__annotations__} == {
        name: kind.__forward_arg__ for name, kind in HoldoutOptions.__annotations__.items()
    }


def test_an_opened_study_is_a_holdout(tmp_path):
    path, rows = tmp_path / "study.everhold", {"x": np.arange(100)}
    eh.Holdout.create(path, rows, prior=eh.Reference({"x": np.arange(50, 150)}), seed=0, overlap="allow").release()
    with eh.Holdout.open(path, data=rows) as held:
        assert isinstance(held, eh.Holdout)
        assert repr(held).startswith("Holdout(100 private rows, rounds: 0")
        held.ask("x > 40")


def test_interval_and_answer_read_well():
    interval = eh.Interval(0.12345678, 0.2)
    assert 0.15 in interval
    assert np.float64(0.2) in interval
    assert 0.3 not in interval
    assert "x" not in interval
    assert str(interval) == "[0.1234, 0.2]"
    assert interval.overlaps(eh.Interval(0.2, 0.5))
    assert not interval.overlaps(eh.Interval(0.21, 0.5))
    with pytest.raises(eh.SettingError):
        eh.Interval(0.5, 0.1)
    answer = eh.Answer(0.15, 0.1, 0.2, True, 3, 12.5, "share")
    assert str(answer) == "0.15 in [0.1, 0.2] (round 3, surprise, 12.5 nats)"
    assert float(answer) == 0.15
    assert "<svg" in answer._repr_html_()
    assert "[0.1234, 0.2]" in interval._repr_html_()


def test_everything_has_a_readable_repr():
    table = {"x": np.arange(10)}
    held = eh.Holdout(table, prior=eh.Reference(table), seed=0)
    shown = [
        eh.Reference(table),
        eh.Labels(table),
        eh.Marginals({"x": [1, 2]}),
        eh.Corrective(),
        eh.Entropic(),
        eh.Gradient(),
    ]
    shown += [held, held.journal, held.try_out(lambda r: r["x"] > 3), held.audit(), eh.plan(rows=100, rounds=1)]
    for thing in shown:
        assert " object at 0x" not in repr(thing)
    assert "1 adaptive question," in repr(eh.plan(rows=100, rounds=1))


def test_printed_intervals_are_rounded_outwards():
    for low, high in np.random.default_rng(0).uniform(-1, 1, (500, 2)):
        interval = eh.Interval(min(low, high), max(low, high))
        shown = [float(part) for part in str(interval).strip("[]").split(",")]
        assert shown[0] <= interval.low
        assert interval.high <= shown[1]


@pytest.mark.parametrize("draws", [True, False])
def test_the_demo_runs_and_draws_where_it_can(tmp_path, monkeypatch, capsys, draws):
    from everhold.cli import demo

    if not draws:
        monkeypatch.setattr(demo, "find_spec", lambda name: None)
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # it must not be imported
    monkeypatch.setattr(demo, "ROWS", 1500)
    monkeypatch.setattr(demo, "FEATURES", 200)
    monkeypatch.setattr(demo, "CHECK_EVERY", 50)
    monkeypatch.setattr(demo, "TEST_ROWS", 400)
    monkeypatch.setattr(demo, "MODELS", 60)
    path = tmp_path / "new" / "demo.png"
    demo.main(["--out", str(path), "--seed", "3"])
    shown = capsys.readouterr().out
    assert (path.exists() and path.stat().st_size > 20_000) == draws
    assert ("pip install 'everhold[plot]'" in " ".join(shown.split())) != draws
    assert path.with_name("demo.everhold").exists()
    assert "without the private rows: 204 answers, 0 differ" in " ".join(shown.split())
    assert "the best of 60 models on 400 test rows" in " ".join(shown.split())
