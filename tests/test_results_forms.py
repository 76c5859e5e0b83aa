"""Results in every form: frames of pandas and Polars, JSON, notebooks, pictures, groups."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pytest

import everhold as eh
from everhold.learn.history import History, ScoredModel
from everhold.plots import Point, session_figure, widths_figure
from everhold.results import Tabular, as_frame, axis_around
from everhold.statistics import STATISTICS

SIZE = 4_000


def rows(seed):
    rng = np.random.default_rng(seed)
    city = rng.choice(["Leeds", "York", "O'Hull"], SIZE)
    return {
        "city": city,
        "smoker": rng.random(SIZE) < 0.2 + 0.3 * (city == "York"),
        "body mass": np.round(np.clip(rng.normal(25 + 4 * (city == "York"), 4, SIZE), 10, 60), 1),
    }


@pytest.fixture(scope="module")
def holdout():
    made = eh.Holdout(rows(1), prior=eh.Reference(rows(2)), seed=3)
    made.ask("smoker")
    made.read("city = 'York'")
    made.ask(eh.Table("city", "smoker"))
    made.compare("smoker", "city = 'York'")
    return made


class Fixed:
    """A model that says the same of every row."""

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


@pytest.fixture(scope="module")
def test_set():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(400, 2)), rng.integers(0, 2, 400)
    made = eh.TestSet(x, y, reference=rng.normal(size=(400, 2)), classes=[0, 1], seed=1)
    made.score(Fixed())
    made.read(lambda X: (np.asarray(X)[:, 0] > 0).astype(int))
    made.enter(Fixed())
    made.winner()
    return made


def everything(holdout, test_set):
    table = holdout.by("city").mean('"body mass"', low=10, high=60)
    return {
        "answer": holdout.ask("smoker"),
        "preview": holdout.try_out("smoker"),
        "finding": table["York"],
        "comparison": holdout.ask(eh.Compare("smoker", "city = 'York'")),
        "shares": holdout.ask(eh.Table("city", "smoker")),
        "one column": holdout.ask(eh.Table("city")),
        "groups": table,
        "log": holdout.findings(),
        "score": test_set.score(Fixed()),
        "winner": test_set.winner(),
        "history": test_set.history(),
        "plan": eh.plan(rows=1_000, rounds=50),
        "private plan": eh.plan(rows=50_000, rounds=50, privacy=eh.Privacy()).private,
        "gate plan": eh.plan_gate(rows=500, step=0.02, looks=20),
        "price": eh.price(rows=500, looks=20, score=0.8),
        "audit": holdout.audit(),
        "verdict": holdout.compare("smoker", "city = 'Leeds'"),
        "schema": holdout.schema,
    }


@pytest.fixture(scope="module")
def results(holdout, test_set):
    return everything(holdout, test_set)


def test_every_result_is_a_table(results):
    for name, one in results.items():
        lines = one.to_rows()
        frame = one.to_frame()
        assert isinstance(frame, pd.DataFrame), name
        assert len(frame) == len(lines) >= 1, name
        assert list(frame.columns) == list(dict.fromkeys(key for line in lines for key in line)), name


def test_every_result_is_json(results):
    for name, one in results.items():
        if name != "schema":
            assert json.loads(one.to_json()) == json.loads(json.dumps(one.to_dict())), name


def test_every_result_is_well_formed_in_a_notebook(results, holdout, test_set):
    for name, one in [*results.items(), ("holdout", holdout), ("test set", test_set)]:
        html = one._repr_html_().replace("&middot;", "·").replace("<br>", "<br/>")
        ElementTree.fromstring(f"<div>{html}</div>")
        assert len(html) > 20, name


def test_every_public_result_has_a_notebook_form(results, holdout, test_set):
    """Every class of results, and what people hold: Holdout, Schema, Preview, Audit, Board and test sets."""
    public = [getattr(eh, name) for name in eh.__all__]
    classes = [one for one in public if isinstance(one, type)]
    made_of = [one for one in classes if issubclass(one, Tabular)] + [eh.Holdout, eh.TestSet, eh.Board]
    assert {eh.Answer, eh.Finding, eh.Preview, eh.Audit, eh.Schema, eh.Score, eh.Verdict, eh.Choice} <= set(made_of)
    assert [one.__name__ for one in made_of if not callable(getattr(one, "_repr_html_", None))] == []


def test_a_board_is_well_formed_in_a_notebook(tmp_path):
    labels = np.random.default_rng(3).integers(0, 2, 200)
    made = eh.Contest.create(tmp_path / "c.everhold", labels, title="<coins>", classes=[0, 1], seed=2)
    made.submit("ann & bo", labels)
    html = made.board()._repr_html_()
    assert html.count("<svg") == 1
    ElementTree.fromstring(f"<div>{html}</div>")
    made.release()


def test_hostile_words_are_escaped():
    label = "<script>alert('x')</script>"
    cell = eh.Answer(0.5, 0.4, 0.6, False, 1, 5.0, "share")
    shown = [
        eh.GroupTable(label, (label,), ((label,),), (cell,))._repr_html_(),
        eh.Shares(label, ((label,),), (cell,))._repr_html_(),
        eh.Shares(f"{label} × b", ((label, label),), (cell,))._repr_html_(),
        eh.Finding(label, 1.0, 0.0, 2.0, (cell,))._repr_html_(),
    ]
    for one in shown:
        assert "<script" not in one


def test_polars_where_it_is_in_use_and_pandas_is_not(monkeypatch):
    monkeypatch.delitem(sys.modules, "pandas")
    assert isinstance(as_frame([{"a": 1}]), pl.DataFrame)


def test_without_either_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(eh.MissingExtra, match="everhold\\[frames\\]"):
        as_frame([{"a": 1}])


def test_groups_are_the_statistics_themselves(holdout):
    table = holdout.by("city").mean('"body mass"', low=10, high=60)
    assert [label for label, _ in table] == [("Leeds",), ("O'Hull",), ("York",)]
    before = holdout.rounds
    for (city,), cell in table:
        again = holdout.mean('"body mass"', low=10, high=60, given=f"city = '{city.replace(chr(39), chr(39) * 2)}'")
        assert (again.value, again.low, again.high) == (cell.value, cell.low, cell.high)
    assert holdout.rounds == before  # the same questions: answered from the record
    assert eh.GroupTable.from_json(table.to_json()) == table


def test_groups_that_are_read_cost_one_price(holdout):
    read = holdout.by("smoker", "city", read=True).share('"body mass" > 30')
    assert len(read) == 6
    assert {cell.price for _, cell in read} == {read[("yes", "York")].price}
    assert list(read.grid("text").columns) == ["smoker", "Leeds", "O'Hull", "York"]
    assert read.to_frame()["low"].le(read.to_frame()["value"]).all()


def test_a_group_within_a_group(holdout):
    inside = holdout.by("city").mean('"body mass"', low=10, high=60, given="smoker")
    assert inside.what == 'mean of "body mass" given smoker'
    both = holdout.mean('"body mass"', low=10, high=60, given="(smoker) AND (city = 'York')")
    assert inside["York"].value == both.value


@pytest.mark.parametrize(
    ("columns", "match"),
    [((), "needs a column"), (('"body mass"',), "is a number"), (("smoker",) * 11, "2,048 groups")],
)
def test_what_has_no_groups_is_refused_before_a_round(holdout, columns, match):
    before = holdout.rounds
    with pytest.raises(eh.QuestionError, match=match):
        holdout.by(*columns)
    assert holdout.rounds == before


def test_statistics_with_a_group_are_offered(holdout):
    offered = {name for name, kind in STATISTICS.items() if "given" in getattr(kind, "__dataclass_fields__", {})}
    assert offered - {name for name in dir(eh.By) if not name.startswith("_")} <= {"compare", "histogram", "table"}
    with pytest.raises(eh.QuestionError, match="difference has no groups"):
        holdout.by("city").ask(eh.Difference("smoker", "city = 'York'", "city = 'Leeds'"))


class TestPictures:
    @pytest.fixture(autouse=True)
    def _quiet(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        yield
        from matplotlib import pyplot

        pyplot.close("all")

    def test_forest(self, holdout):
        table = holdout.by("city").mean('"body mass"', low=10, high=60)
        ax = eh.forest(table, reference=25.0)
        assert [one.get_text() for one in ax.get_yticklabels()] == ["Leeds", "O'Hull", "York"]
        left, right = ax.get_xlim()
        assert all(left < cell.low < cell.high < right for cell in table.cells)
        assert right - left < 3 * (max(c.high for c in table.cells) - min(c.low for c in table.cells))
        lines = [list(one.get_xdata()) for one in ax.get_lines() if len(one.get_xdata()) == 2]
        assert [[cell.low, cell.high] for cell in table.cells] == lines[1:]  # the first is the reference
        dots = [one.get_xdata()[0] for one in ax.get_lines() if one.get_marker() == "o"]
        assert dots == [cell.value for cell in table.cells]

    def test_shares_dates_and_numbers_have_panels_of_their_own(self, holdout):
        shares = eh.Answer(0.2, 0.1, 0.3, False, 1, 5.0, "share")
        day = 86_400_000_000.0
        dated = eh.Finding("median of visit", 20_000 * day, 19_900 * day, 20_050 * day, (shares,), "date")
        mixed = {"a share": shares, "a date": dated, "a number": eh.Finding("mean of bmi", 25.0, 24.0, 26.0, (shares,))}
        first = eh.forest(mixed)
        figure = first.figure
        assert [[one.get_text() for one in ax.get_yticklabels()] for ax in figure.axes] == [[name] for name in mixed]
        assert [one.get_xlim()[0] >= 0.0 for one in figure.axes] == [True, True, True]
        figure.canvas.draw()
        assert all(one.get_text()[:3] == "202" for one in figure.axes[1].get_xticklabels())
        assert len(eh.forest(shares).get_yticklabels()) == 1
        table = holdout.table("city")
        names = [one.get_text() for one in eh.forest([table]).get_yticklabels()]
        assert len(names) == len(table)
        assert all(name.startswith("city: ") for name in names)
        long = eh.forest({"x" * 300: shares})
        assert len(long.get_yticklabels()[0].get_text()) < 60

    def test_a_mean_below_zero_is_inside_its_picture(self, holdout):
        values = np.linspace(-1.0, 0.0, holdout.size)
        holdout.read(eh.Values(sample=values, reference=np.linspace(-1.0, 0.0, holdout.public.pool.size), name="below"))
        for ax in holdout.findings().plot().figure.axes:
            left, right = ax.get_xlim()
            assert left < right
            dots = [one.get_xdata()[0] for one in ax.get_lines() if one.get_marker() == "o"]
            assert dots
            assert all(left <= dot <= right for dot in dots)

    def test_what_has_no_interval_is_refused(self, holdout):
        with pytest.raises(eh.SettingError, match="results with intervals"):
            eh.forest([holdout.audit()])
        with pytest.raises(eh.SettingError, match="2 labels for 1"):
            eh.forest([holdout.ask("smoker")], labels=["a", "b"])

    def test_session_test_set_plan_and_log(self, holdout, test_set):
        assert "rounds" in holdout.plot().get_title(loc="left")
        assert len(test_set.plot().get_yticklabels()) == len(test_set.history())
        assert eh.plan(rows=20_000, rounds=100).plot().get_xlabel() == "half-width"
        assert len(holdout.findings().plot().get_yticklabels()) >= 3
        with pytest.raises(eh.SettingError, match="Give rows="):
            eh.plan(half_width=0.1, rounds=100).plot()

    @pytest.mark.parametrize("name", ["forest", "session", "history", "plan"])
    def test_it_looks_as_it_did(self, name, tmp_path):
        """Drawn from fixed numbers: the share of pixels that differ from the kept picture, letters apart.

        `UPDATE_PICTURES=1` draws the kept ones anew: look at them before they are committed.
        """
        from matplotlib import pyplot

        ax = drawn(name)
        for one in ax.figure.axes:
            for text in [
                *one.get_xticklabels(),
                *one.get_yticklabels(),
                one.title,
                one.xaxis.label,
                one.yaxis.label,
                *one.texts,
            ]:
                text.set_visible(False)
            one.set_title("", loc="left")
            if one.get_legend() is not None:
                one.get_legend().set_visible(False)
        ax.figure.set_layout_engine("none")  # where the axes stand follows from letters, which differ between machines
        for place, one in enumerate(ax.figure.axes):
            one.set_position((0.2, 0.1 if place else 0.35, 0.75, 0.2 if place else 0.6))
        ax.figure.savefig(tmp_path / "now.png", dpi=60)
        kept = Path(__file__).parent / "pictures" / f"{name}.png"
        if os.environ.get("UPDATE_PICTURES"):
            shutil.copy(tmp_path / "now.png", kept)
        now, then = (pyplot.imread(path)[..., :3] for path in (tmp_path / "now.png", kept))
        assert now.shape == then.shape

        def differing(one, other):
            return float(np.mean(np.abs(one - other).max(axis=-1) > 0.25))

        assert differing(now, then) < 0.005
        assert differing(now[::-1], then) > 0.01  # positive control: upside down


def test_what_was_measured_and_what_is_foreseen_is_said_of_every_cell():
    """In the table, in the findings' frame, and of the whole table in the log."""
    made = eh.Holdout(rows(1), prior=eh.Reference(rows(2)), seed=3)
    foreseen = made.rehearsal.table("city")
    assert "rehearsal: public rows alone" in repr(foreseen)
    assert "rehearsal" in str(made.rehearsal.mean("body mass"))
    private = rows(1)
    private["smoker"] = private["smoker"] | ((private["city"] == "York") & (np.arange(SIZE) % 2 == 0))
    made = eh.Holdout(private, prior=eh.Reference(rows(2)), seed=3)
    table = made.table("city", "smoker")
    measured = [cell.surprise for cell in table.cells]
    assert 0 < sum(measured) < len(measured)
    assert f"{sum(measured)} cells were surprises, measured on the private rows; the others are forecasts" in repr(table)
    assert repr(table).count(", surprise") == sum(cell.surprise for _, cell in table.notable()[0])
    assert [row["surprise"] for row in made.findings().to_rows()] == measured
    assert "the others forecasts" in made.findings()[0].kind_text


def test_a_file_name_in_place_of_axes_is_refused(holdout):
    for wrong, more in (("a.png", r"savefig\('FILE.png'\)"), (7, "Expected axes of matplotlib")):
        with pytest.raises(eh.SettingError, match=more):
            holdout.plot(wrong)
        with pytest.raises(eh.SettingError, match=more):
            eh.forest({"one": holdout.ask("smoker")}, ax=wrong)


def drawn(name):
    """Each kind of picture, from fixed numbers: the axes of `eh.forest`, `holdout.plot`, `test.plot` and `plan.plot`."""
    share = [eh.Answer(0.1 * i, 0.1 * i - 0.05, 0.1 * i + 0.08, i == 3, i, 5.0, "share") for i in (1, 2, 3, 4)]
    if name == "forest":
        return eh.forest({f"group {one.round}": one for one in share}, title="shares", reference=0.25)
    if name == "session":
        kinds = ("quiet", "surprise", "read")
        points = [Point(i, 0.3 + 0.02 * i, 0.2 + 0.02 * i, 0.36 + 0.02 * i, 5.0 + i, kinds[i % 3]) for i in range(1, 13)]
        return session_figure(points, title="12 rounds")
    if name == "history":
        parts = [[share[0]], [replace(share[1], act="read")], [share[2]], [share[2], share[3]]]
        scores = [
            eh.Score("accuracy" if place < 3 else "f1", one.value, one.low, one.high, tuple(parts[place]))
            for place, one in enumerate(share)
        ]
        return History(ScoredModel("score", f"model {k}", one) for k, one in enumerate(scores)).plot()
    return widths_figure({"everhold": 0.03, "Gaussian noise": 0.08, "splitting": 0.11, "vacuous": 0.6}, chosen="everhold")


def test_the_axis_is_around_the_intervals():
    left, right = axis_around([(0.4, 0.46)], 0.0, 1.0)
    assert 0.3 < left < 0.4
    assert 0.46 < right < 0.56
    assert axis_around([(float("-inf"), 2.0), (1.0, float("inf"))]) == pytest.approx((2 / 3, 7 / 3))
    assert issubclass(eh.Answer, Tabular)
